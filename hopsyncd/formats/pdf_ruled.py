"""Finds tables of a PDF page by their ruling lines."""

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from hopsyncd.formats.pdf_spans import Box, Span
from hopsyncd.formats.pdf_tables import (
    Cell,
    PlacedTable,
    build_table,
    cut_span,
    group_rows,
)

_TOUCH = 3.0  # points: lines that are closer count as touching
_MAX_RULES = 600  # per page: with more lines, the page has a drawing
_LEAST_SIDE = 8.0
_OFF_CENTER = 0.1  # share of a cell's width
_LEAST_FRAMED = 8  # spans in a frame; fewer spans can be parts of a cell's value
_LEAST_CELLS = 6
_MOST_OF_TEXT = (0.6, 0.85)  # maximum share of text in one cell, in small and in larger tables
_VALUE_WORDS, _LINES_BEGUN = 4, 0.7


@dataclass(frozen=True)
class Grid:
    """The edges of a table: columns from left to right, rows from the bottom up."""

    columns: tuple[float, ...]
    rows: tuple[float, ...]
    lines: tuple[Box, ...] = ()

    def find_region(
        self, column: int, row: int, taken: Container[tuple[int, int]]
    ) -> tuple[int, int, int, int]:
        """Return the first column, last column, bottom row and top row of the cell at a position.
        The cell extends to the next drawn lines.

        Positions in `taken` belong to other cells.
        """
        first, last, bottom, top = column, column, row, row
        while first > 0 and not self.has_upright(first, row) and (first - 1, row) not in taken:
            first -= 1
        end = len(self.columns) - 2
        while last < end and not self.has_upright(last + 1, row) and (last + 1, row) not in taken:
            last += 1
        columns = range(first, last + 1)
        while bottom > 0 and not self._has_level(bottom, columns):
            if any((column, bottom - 1) in taken for column in columns):
                break
            bottom -= 1
        while top < len(self.rows) - 2 and not self._has_level(top + 1, columns):
            if any((column, top + 1) in taken for column in columns):
                break
            top += 1
        return first, last, bottom, top

    def has_upright(self, edge: int, row: int) -> bool:
        """Whether a vertical line is drawn at a column edge in this row."""
        return (edge, row) in self._uprights

    def _has_level(self, edge: int, columns: Iterable[int]) -> bool:
        """Whether a horizontal line is drawn at a row edge in any of the columns."""
        return any((edge, column) in self._levels for column in columns)

    @cached_property
    def _uprights(self) -> set[tuple[int, int]]:
        sides = [((box[0], box[2]), box[1], box[3]) for box in self.lines]
        return set(_find_drawn_edges(sides, self.columns, self.rows))

    @cached_property
    def _levels(self) -> set[tuple[int, int]]:
        sides = [((box[1], box[3]), box[0], box[2]) for box in self.lines]
        return set(_find_drawn_edges(sides, self.rows, self.columns))


def _find_drawn_edges(
    sides: Iterable[tuple[tuple[float, float], float, float]],
    edges: Sequence[float],
    across: Sequence[float],
) -> Iterator[tuple[int, int]]:
    """Yield the pair (edge, interval) for each edge and interval in which a line is drawn along
    that edge, as indices. `edges` are positions; `across` are the positions between which the
    intervals lie.

    Each item of `sides` is a pair of parallel lines: both positions, and the start and end of the
    lines.
    """
    middles = [(begin + end) / 2 for begin, end in pairwise(across)]
    for places, begin, end in sides:
        passed = range(bisect_right(middles, begin), bisect_right(middles, end))
        for place in set(places) if passed else ():
            for edge in range(len(edges)):
                if abs(edges[edge] - place) <= _TOUCH:
                    yield from ((edge, interval) for interval in passed)


def find_grids(rules: Sequence[Box]) -> Iterator[Grid]:
    """Yield the grids that the ruling lines and boxes of a page form."""
    if len(rules) > _MAX_RULES:
        return
    for group in _group_touching(rules):
        columns = _merge_places(x for box in group if _is_tall(box) for x in (box[0], box[2]))
        rows = _merge_places(y for box in group if _is_wide(box) for y in (box[1], box[3]))
        left, right = min(box[0] for box in group), max(box[2] for box in group)
        columns = _merge_places((left, *columns, right))
        if len(columns) > 2 and len(rows) > 2:
            yield Grid(columns, rows, tuple(group))


def _group_touching(rules: Sequence[Box]) -> list[list[Box]]:
    """Group the boxes that touch each other. Groups of one or two boxes are left out."""
    groups: list[tuple[list[float], list[Box]]] = []  # the bounds and the boxes of each group
    for box in sorted(rules):
        bounds, members = list(box), [box]
        separate = []
        for group in groups:
            if _meet(group[0], bounds):
                members += group[1]
                bounds = [*map(min, bounds[:2], group[0][:2]), *map(max, bounds[2:], group[0][2:])]
            else:
                separate.append(group)
        groups = [*separate, (bounds, members)]
    return [members for _, members in groups if len(members) > 2]


def _meet(first: Sequence[float], second: Sequence[float]) -> bool:
    return (
        first[0] <= second[2] + _TOUCH
        and second[0] <= first[2] + _TOUCH
        and first[1] <= second[3] + _TOUCH
        and second[1] <= first[3] + _TOUCH
    )


def _is_tall(box: Box) -> bool:
    return box[3] - box[1] >= _LEAST_SIDE


def _is_wide(box: Box) -> bool:
    return box[2] - box[0] >= _LEAST_SIDE


def _merge_places(places: Iterable[float]) -> tuple[float, ...]:
    found: list[float] = []
    for place in sorted(places):
        if not found or place - found[-1] > _TOUCH:
            found.append(place)
    return tuple(found)


def build_ruled_table(grid: Grid, spans: Sequence[Span], page: int) -> PlacedTable | None:
    """Build the table of a grid on page `page` from the spans inside the grid.

    Returns None if the lines only frame text: there are fewer than two rows or columns, one cell
    has most of the text, or the text in a cell has columns of its own.
    """
    cells = _collect_cells(grid, spans)
    if any(map(_is_frame, cells.values())):
        return None
    rows: dict[int, list[Cell]] = {}
    for (top, _), cell in sorted(cells.items()):
        rows.setdefault(top, []).append(cell)
    lengths = [len(span.text) for span in spans]
    longest = max((sum(len(s.text) for s in c.spans) for c in cells.values()), default=0)
    columns = {cell.column for row in rows.values() if len(row) > 1 for cell in row}
    most = _MOST_OF_TEXT[len(cells) >= _LEAST_CELLS]
    if len(rows) < 2 or len(columns) < 2 or len(cells) < 4 or longest > most * sum(lengths):
        return None
    used = sorted({cell.column for cell in cells.values()})
    tops = list(rows)
    for (start, _), cell in cells.items():
        end = cell.column + cell.columns
        cell.columns = max(1, sum(cell.column <= column < end for column in used))
        cell.column = used.index(cell.column)
        cell.rows = max(1, sum(start <= top < start + cell.rows for top in tops))
    lines = [line for row in rows.values() for line in _split_into_lines(row)]
    table = build_table(lines, len(used), page, is_ruled=True)
    return PlacedTable(table, max(span.middle for span in spans), grid.columns[0], grid.columns[-1])


def _collect_cells(grid: Grid, spans: Sequence[Span]) -> dict[tuple[int, int], Cell]:
    """Return the cells with text by (row, column). A row number is the negative index of a row of
    the grid, so row numbers ascend from the top down."""
    cells: dict[tuple[int, int], Cell] = {}
    ordered = [part for row in group_rows(spans) for span in row for part in _split_at(grid, span)]
    places = [_place_in(grid, span) for span in ordered]
    taken = {(first, row) for first, _, row in places}
    regions = [grid.find_region(first, row, taken) for first, _, row in places]
    heights: dict[tuple[int, int, int, int], set[float]] = {}
    for span, region in zip(ordered, regions, strict=True):
        heights.setdefault(region, set()).add(round(span.middle))
    for span, (first, last, row), region in zip(ordered, places, regions, strict=True):
        left, right, bottom, top = region
        if left < first and not _is_centered(grid, span, left, right):
            left, right = first, max(first, last)  # the text itself shows its column
        if len(heights[region]) > 1:  # separate lines, which may belong to neighbouring rows
            bottom = top = row
        cell = cells.setdefault((-top, left), Cell(left, 1, [], top - bottom + 1))
        cell.columns = max(cell.columns, max(last, right) - left + 1)
        cell.spans.append(span)
    return cells


def _is_centered(grid: Grid, span: Span, first: int, last: int) -> bool:
    left, right = grid.columns[first], grid.columns[last + 1]
    return abs(span.left + span.right - left - right) < 2 * _OFF_CENTER * (right - left)


def _place_in(grid: Grid, span: Span) -> tuple[int, int, int]:
    """Return the first column, the last column and the row of a span."""
    inset = min(_TOUCH, (span.right - span.left) / 2)
    first, last = (_find_slot(grid.columns, x) for x in (span.left + inset, span.right - inset))
    return first, last, _find_slot(grid.rows, span.middle)


def _split_at(grid: Grid, span: Span) -> tuple[Span, ...]:
    """Split a span at the drawn lines that it crosses: narrow cells can share one span."""
    first, last, row = _place_in(grid, span)
    for edge in range(first + 1, last + 1):
        place = grid.columns[edge]
        for offset, end, begin in span.gaps:
            if end - _TOUCH < place < begin + _TOUCH and grid.has_upright(edge, row):
                before, after = cut_span(span, offset, end, begin)
                return (before, *_split_at(grid, after))
    return (span,)


def _is_frame(cell: Cell) -> bool:
    """Whether the text in a cell has columns of its own, and the ruling lines only frame the
    text."""
    lines = list(group_rows(cell.spans)) if len(cell.spans) >= _LEAST_FRAMED else []
    several = sum(len(line) > 1 for line in lines)
    return len(lines) * 2 > _LEAST_FRAMED and several * 2 > len(lines)


def _split_into_lines(row: list[Cell]) -> list[list[Cell]]:
    """Split a row of cells into one row for each line of text, if there are three or more lines and
    most of them have a label and a short value. Otherwise returns only `row`."""
    column_of = {id(span): cell for cell in row for span in cell.spans}
    lines = list(group_rows(span for cell in row for span in cell.spans))
    split: list[list[Cell]] = []
    for line in lines:
        cells: dict[int, Cell] = {}
        for span in line:
            whole = column_of[id(span)]
            cell = cells.setdefault(whole.column, Cell(whole.column, whole.columns, []))
            cell.spans.append(span)
        split.append([cells[column] for column in sorted(cells)])
    begun = sum(len(line) > 1 and line[0].column == row[0].column for line in split)
    words = [len(span.text.split()) for line in lines for span in line]
    few = sum(words) <= _VALUE_WORDS * len(words)
    return split if len(split) > 2 and begun >= _LINES_BEGUN * len(split) and few else [row]


def _find_slot(edges: Sequence[float], place: float) -> int:
    return min(max(bisect_right(edges, place) - 1, 0), len(edges) - 2)


def select_inside(grid: Grid, spans: Iterable[Span]) -> list[Span]:
    """Return the spans whose middle is in a grid."""
    left, right, bottom, top = grid.columns[0], grid.columns[-1], grid.rows[0], grid.rows[-1]
    return [
        span
        for span in spans
        if bottom - 1 < span.middle < top + 1 and left < (span.left + span.right) / 2 < right
    ]
