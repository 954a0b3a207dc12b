"""Joins the words of justified lines in PDF files, which otherwise look like cells of a table."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from hopsyncd.formats.cell_values import is_number
from hopsyncd.formats.pdf_spans import Span
from hopsyncd.formats.pdf_tables import group_rows

_LEAST_SPACES = 3  # in a justified line
_SAME_SPACE = 0.06  # line heights: the difference between spaces of the same width
_SAME_EDGE = 4  # points
_MAX_INDENT = 3  # line heights
_AFTER_MARK = 3.1  # times the other spaces: TeX stretches spaces after a full stop thrice as much
_MARK_AT_END = re.compile(r"[.,:;!?][)\]\u2019\u201d\"']*\Z")


def join_justified(spans: Iterable[Span]) -> list[Span]:
    """Merge neighbouring spans whose spaces all have the same width, although their words do not.

    In a table whose columns are aligned, different words leave different spaces. The merged span
    must end where a line directly above or below ends, and begin there, except for an indent.
    """
    rows = [list(_merge_runs(row)) for row in group_rows(spans)]
    joined: list[Span] = []
    for index, row in enumerate(rows):
        neighbours = [*rows[max(index - 1, 0) : index], *rows[index + 1 : index + 2]]
        lines = [merged for near in neighbours for _, merged in near]
        for parts, merged in row:
            is_text = any(_have_same_edges(merged, line) for line in lines)
            joined += [merged] if is_text else parts
    return joined


def _merge_runs(row: Sequence[Span]) -> Iterator[tuple[Sequence[Span], Span]]:
    """Yield the spans of a row, each with itself, and each run of spans with equal spaces with the
    span that they make together."""
    start = 0
    while start < len(row):
        end = _end_of_run(row, start)
        run = row[start:end]
        yield run, _merge(run) if end > start + 1 else row[start]
        start = end


def _end_of_run(row: Sequence[Span], start: int) -> int:
    """Return the end index (exclusive) of the spans from `start` on that have equal spaces.

    Spaces after punctuation may be wider.
    """
    spaces = _spaces_in(row[start])
    end = start + 1
    while end < len(row):
        before, span = row[end - 1], row[end]
        between = span.left - before.right
        more = [*spaces, *_spaces_in(span)]
        if not _MARK_AT_END.search(before.text):
            more.append(between)
        elif between >= _AFTER_MARK * max(more, default=0):
            break
        if more and max(more) - min(more) >= _SAME_SPACE * span.height:
            break
        spaces = more
        end += 1
    run = row[start:end]
    widths = [span.right - span.left for span in run]
    numbers = sum(span.is_value or is_number(span.text) for span in run)
    is_justified = (
        len(spaces) >= _LEAST_SPACES
        and max(widths) - min(widths) > run[0].height
        and numbers * 2 < len(run)
    )
    return end if is_justified else start + 1


def _spaces_in(span: Span) -> list[float]:
    """Return the widths of the spaces in a span, except those after punctuation."""
    return [
        begin - end
        for offset, end, begin in span.gaps
        if not _MARK_AT_END.search(span.text, 0, offset)
    ]


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
