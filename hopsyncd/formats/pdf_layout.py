"""Finds the reading order of a PDF page: columns, tables, and lines."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hopsyncd.formats.pdf_justified import join_justified
from hopsyncd.formats.pdf_ruled import build_ruled_table, find_grids, select_inside
from hopsyncd.formats.pdf_spans import Box, PageText, PlacedText, Span
from hopsyncd.formats.pdf_tables import (
    PlacedTable,
    find_aligned_tables,
    group_rows,
    join_spans,
    split_leaders,
)

_LEAST_LINES = 4  # the minimum number of lines in a text column.
_LEAST_CHARACTERS = 18  # the minimum average per line of a text column. Table cells are shorter.
_LEAST_NARROW = 8  # average per line of columns with lines at different heights
_SAME_LINE, _MAX_SHARED = 0.25, 0.4
_MAX_CROSSING = 0.5  # share of spans that may cross the gap between the columns
_MAX_COLUMN_DEPTH = 3
_MAX_VISITS = 200_000  # comparisons per page of spans with backgrounds
_EDGE = 4  # points: tolerance for the left edges of a column's lines
_MIDDLE = (0.2, 0.85)  # the second column begins between these shares of the width
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+")


@dataclass(slots=True)
class Line(PlacedText):
    """A line of text in reading order, with its position on the page."""

    size: float  # the smallest font size in the line
    is_bold: bool = False
    is_broken: bool = False  # whether the line ends with a hyphenated word
    parts: int = 1  # the number of spans with wide gaps between them
    longest: int = 0  # the number of characters in the longest line of the column


Item = Line | PlacedTable


def arrange(page: PageText, rules: Sequence[Box], number: int) -> list[Item]:
    """Arrange the text of a page as lines and tables in reading order. `rules` are the ruling lines
    of the page, and `number` is the page number."""
    spans = page.spans
    is_mirrored = _is_right_to_left(spans)
    if is_mirrored:  # columns and cells are read from the right
        rules = [(-right, bottom, -left, top) for left, bottom, right, top in rules]
        _mirror((*spans, *page.turned))
    tables: list[PlacedTable] = []
    turned = page.turned
    for grid in find_grids(rules) if spans else ():
        within = select_inside(grid, (*spans, *turned))
        table = build_ruled_table(grid, within, number) if len(within) > 3 else None
        if table:
            tables.append(table)
            taken = set(map(id, within))
            spans = [span for span in spans if id(span) not in taken]
            turned = [span for span in turned if id(span) not in taken]
    if not is_mirrored:
        spans = join_justified(spans)
    items = list(_order_columns(spans, number, _MAX_COLUMN_DEPTH))
    for table in tables:
        items.insert(_find_place(table, items), table)
    if is_mirrored:
        _mirror(item for item in items if isinstance(item, Line))
    if turned:
        items.append(Line(" ".join(span.text for span in turned), 0, 0, 0, 0, 0.0))
    return items


def mark_shades(spans: Iterable[Span], fills: Iterable[tuple[Box, int]]) -> None:
    """Set the background of each span to the colour of the last box that contains its middle.
    `fills` are boxes with their colours, in the order in which they are painted."""
    by_height = sorted(spans, key=lambda span: span.middle)
    heights = [span.middle for span in by_height]
    visits = _MAX_VISITS
    for (left, bottom, right, top), shade in fills:
        within = by_height[bisect_left(heights, bottom) : bisect_left(heights, top)]
        visits -= len(within)
        if visits < 0:
            break
        for span in within:
            if left < (span.left + span.right) / 2 < right:
                span.shade = shade


def _mirror(parts: Iterable[Span | Line]) -> None:
    for part in parts:
        part.left, part.right = -part.right, -part.left


def _find_place(table: PlacedTable, items: Sequence[Item]) -> int:
    """Return the index at which to insert a ruled table: before the first item below it in its
    column.

    If there is no such item, the table comes after the items above the table.
    """
    for index, item in enumerate(items):
        if item.top <= table.top and item.left < table.right and table.left < item.right:
            return index
    index = len(items)
    while index and items[index - 1].top < table.top:
        index -= 1
    return index


def _order_columns(spans: list[Span], number: int, depth: int) -> Iterator[Item]:
    edge = _find_gutter(spans) if depth else None
    if edge is None:
        yield from _order_rows(spans, number)
        return
    zone: list[Span] = []
    wide: list[Span] = []
    for span in sorted(spans, key=lambda span: -span.middle):
        if _crosses(span, edge):
            yield from _read_zone(zone, edge, number, depth)
            zone = []
            wide.append(span)
        else:
            yield from _order_rows(wide, number)
            wide = []
            zone.append(span)
    yield from _read_zone(zone, edge, number, depth)
    yield from _order_rows(wide, number)


def _read_zone(spans: list[Span], edge: float, number: int, depth: int) -> Iterator[Item]:
    """Read the spans between two lines that cross both columns. The second column begins at `edge`.

    `number` is the page number. Columns may themselves contain columns, up to `depth` levels.
    """
    left = [span for span in spans if span.left < edge - _EDGE]
    right = [span for span in spans if span.left >= edge - _EDGE]
    if left and right and not _are_columns(left, right, 2):
        yield from _order_rows(spans, number)
        return
    for side in (left, right):
        if side:
            yield from _order_columns(side, number, depth - 1)


def _find_gutter(spans: Sequence[Span]) -> float | None:
    """Return the x coordinate at which the second column begins, or None if the text has only one
    column."""
    if len(spans) < 2 * _LEAST_LINES:
        return None
    begin, end = min(span.left for span in spans), max(span.right for span in spans)
    least, most = (begin + share * (end - begin) for share in _MIDDLE)
    edges = Counter(round(span.left / _EDGE) for span in spans if least < span.left < most)
    best: tuple[int, float] | None = None
    for place, count in edges.most_common(5):
        if count < _LEAST_LINES:
            break
        edge = min(span.left for span in spans if round(span.left / _EDGE) == place)
        crossing = sum(_crosses(span, edge) for span in spans)
        left = [span for span in spans if span.right <= edge]
        right = [span for span in spans if span.left >= edge - _EDGE]
        if crossing > _MAX_CROSSING * len(spans):
            continue
        if not _are_columns(left, right, _LEAST_LINES):
            continue
        if _overlap_vertically(left, right) and (best is None or crossing < best[0]):
            best = crossing, edge
    return best[1] if best else None


def _crosses(span: Span, edge: float) -> bool:
    return span.left < edge - _EDGE and span.right > edge


def _are_columns(left: Sequence[Span], right: Sequence[Span], least: int) -> bool:
    """Whether two groups of at least `least` spans each are columns of text, not columns of a
    table.

    The lines of narrow text columns are at different heights.
    """
    if min(len(left), len(right)) < least:
        return False
    characters = [sum(len(span.text) for span in side) / len(side) for side in (left, right)]
    if min(characters) >= _LEAST_CHARACTERS:
        return True
    return min(characters) >= _LEAST_NARROW and not _share_lines(*sorted((left, right), key=len))


def _share_lines(few: Sequence[Span], many: Sequence[Span]) -> bool:
    """Whether too many spans of the smaller group `few` are level with a span of the larger group,
    or `few` has too few spans to tell."""
    heights = sorted(span.middle for span in many)
    shared = 0
    for span in few:
        index = bisect_left(heights, span.middle - _SAME_LINE * span.height)
        shared += index < len(heights) and heights[index] < span.middle + _SAME_LINE * span.height
    return len(few) < _LEAST_LINES or shared > _MAX_SHARED * len(few)


def _overlap_vertically(left: Sequence[Span], right: Sequence[Span]) -> bool:
    """Whether two groups overlap vertically by at least half the height of the shorter group."""
    tops = [max(span.top for span in side) for side in (left, right)]
    ends = [min(span.bottom for span in side) for side in (left, right)]
    shared = min(tops) - max(ends)
    return shared > 0.5 * min(tops[0] - ends[0], tops[1] - ends[1])


def _order_rows(spans: Iterable[Span], number: int) -> list[Item]:
    rows = find_aligned_tables(split_leaders(list(group_rows(spans))), number)
    items = [row if isinstance(row, PlacedTable) else _make_line(row) for row in rows]
    lines = [item for item in items if isinstance(item, Line)]
    longest = max((len(line.text) for line in lines), default=0)
    for line in lines:
        line.longest = longest
    return items


def _make_line(row: list[Span]) -> Line:
    return Line(
        join_spans(row),
        row[0].left,
        min(span.bottom for span in row),
        max(span.right for span in row),
        max(span.top for span in row),
        min(span.size for span in row),
        all(span.is_bold for span in row),
        row[-1].is_broken,
        len(row),
    )


def _is_right_to_left(spans: Iterable[Span]) -> bool:
    letters = "".join(span.text for span in spans if not span.text.isascii())
    return sum(map(len, _RIGHT_TO_LEFT.findall(letters))) * 2 > len(letters) > 0
