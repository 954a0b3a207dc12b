"""Joins the words of justified lines in PDF files, which otherwise look like cells of a table."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from hopsyncd.formats.cell_values import is_number
from hopsyncd.formats.pdf_spans import Span
from hopsyncd.formats.pdf_tables import group_rows

_LEAST_SPACES = 3  # in a justified line
_MAX_PARTS = 60  # a row with more spans is no line of text
_NEAR_ROWS = 2  # rows above and below: the lines of two columns may alternate
_SAME_SPACE = 0.06  # line heights: the difference between spaces of the same width
_SAME_EDGE = 4  # points
_MAX_INDENT = 3  # line heights
# TeX stretches spaces after a full stop thrice as much as other spaces, and after a comma less.
_AFTER_STOP, _AFTER_COMMA = 3.1, 1.6
_MARK_AT_END = re.compile(r"([.:!?]|[,;])[)\]\u2019\u201d\"']*\Z")
_MOST_MARKS = 4  # characters, with closing brackets and quotation marks


def join_justified(spans: Iterable[Span]) -> list[Span]:
    """Merge neighbouring spans whose spaces all have the same width, although their words do not.

    A near line must end where the merged span ends, and begin where it begins, except for an
    indent. Spans that begin below each other one by one stay apart: they are cells of a table.
    """
    rows = [list(_merge_runs(row)) for row in group_rows(spans)]
    joined: list[Span] = []
    for index, row in enumerate(rows):
        if all(len(parts) == 1 for parts, _ in row):
            joined += [span for _, span in row]
            continue
        near = [
            *rows[max(index - _NEAR_ROWS, 0) : index],
            *rows[index + 1 : index + 1 + _NEAR_ROWS],
        ]
        for parts, merged in row:
            beside = [
                others for other in near for others, line in other if _have_same_edges(merged, line)
            ]
            is_text = bool(beside) and not any(_are_aligned(parts, others) for others in beside)
            joined += [merged] if is_text else parts
    return joined


def _merge_runs(row: Sequence[Span]) -> Iterator[tuple[Sequence[Span], Span]]:
    """Yield the spans of a row, each with itself, and each run of spans with equal spaces with the
    span that they make together."""
    start = 0
    while start < len(row):
        end = start + (_count_run(row[start:]) if len(row) <= _MAX_PARTS else 1)
        run = row[start:end]
        yield run, _merge(run) if len(run) > 1 else row[start]
        start = end


def _count_run(row: Sequence[Span]) -> int:
    """Return the number of spans, from the first, that have equal spaces and different widths, or
    else 1.

    Spaces after punctuation may be wider.
    """
    if len(row) < 2:
        return 1
    spaces = _measure_spaces(row[0])
    count, narrowest, widest = len(spaces), min(spaces, default=math.inf), max(spaces, default=0.0)
    end = 1
    for before, span in pairwise(row):
        between, more = span.left - before.right, _measure_spaces(span)
        mark = _MARK_AT_END.search(before.text)
        if mark is None:
            more.append(between)
        narrowest, widest = min(narrowest, *more, math.inf), max(widest, *more, 0.0)
        if mark and between >= widest * (_AFTER_COMMA if mark[1] in ",;" else _AFTER_STOP):
            break
        if widest - narrowest >= _SAME_SPACE * span.height:
            break
        count += len(more)
        end += 1
    run = row[:end]
    widths = [span.right - span.left for span in run]
    numbers = sum(span.is_value or is_number(span.text) for span in run)
    is_justified = (
        count >= _LEAST_SPACES
        and max(widths) - min(widths) > run[0].height
        and numbers * 2 < len(run)
    )
    return end if is_justified else 1


def _measure_spaces(span: Span) -> list[float]:
    """Return the widths of the spaces in a span, except those after punctuation."""
    return [
        begin - end
        for offset, end, begin in span.gaps
        if not _MARK_AT_END.search(span.text, max(offset - _MOST_MARKS, 0), offset)
    ]


def _are_aligned(parts: Sequence[Span], others: Sequence[Span]) -> bool:
    """Whether the spans of two rows begin below each other, one by one, as in a table."""
    return len(parts) == len(others) > 1 and all(
        abs(part.left - other.left) < _SAME_EDGE
        for part, other in zip(parts[1:], others[1:], strict=True)
    )


def _have_same_edges(span: Span, line: Span) -> bool:
    indent = abs(span.left - line.left)
    return abs(span.right - line.right) < _SAME_EDGE and indent < _MAX_INDENT * span.height


def _merge(spans: Sequence[Span]) -> Span:
    """Merge spans of one line, from left to right, into one span with spaces between them."""
    text, gaps = spans[0].text, [*spans[0].gaps]
    for before, span in pairwise(spans):
        gaps.append((len(text), before.right, span.left))
        shift = len(text) + 1
        gaps += [(offset + shift, end, begin) for offset, end, begin in span.gaps]
        text += f" {span.text}"
    return replace(
        spans[-1],
        text=text,
        left=spans[0].left,
        bottom=min(span.bottom for span in spans),
        top=max(span.top for span in spans),
        order=spans[0].order,
        size=min(span.size for span in spans),
        is_bold=all(span.is_bold for span in spans),
        first=spans[0].first,
        gaps=gaps,
    )
