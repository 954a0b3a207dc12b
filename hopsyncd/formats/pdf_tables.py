"""Tables of a PDF page: cells inside ruling lines, or in rows and columns that are aligned."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hopsyncd.formats.pdf_text import Box, Span
from hopsyncd.formats.tables import Table, TableBuilder, is_number

_TOUCH = 3.0  # points: lines this close meet
_LEADERS = re.compile("(?:[.\u00b7\u2026] ?){5,}")
_LED_TO = re.compile(r"[ivxlc]{1,8}\Z|[^\W\d_]{0,3}[-$€£¥ ]{0,2}\d[\d.,:/-]{0,9} ?[\w$€£¥%]{0,4}\Z")
_MAX_RULES = 600  # of a page: a drawing has more
_LEAST_SIDE = 8.0
_SAME_ROW = 0.45  # of the height of a line
_MAX_ROW_GAP = 2.6  # times the height of a line: beyond it another table begins
_PROSE_WORDS = 6  # a cell in a table without ruling lines has fewer on the average
_NUMBERS_IN_COLUMNS = 0.3
_MAX_COLUMNS, _MAX_BLOCK_ROWS = 60, 500
_ROWS_TO_COMPARE = 12
_LEAST_NAMED = 3  # columns
_LEAST_FRAMED = 8  # spans of a cell: fewer may be the parts of a value
_VALUE_WORDS, _LINES_BEGUN = 4, 0.7


@dataclass(frozen=True, slots=True)
class Grid:
    """A table by ruling lines: its edges from left to right, and from the bottom up."""

    columns: tuple[float, ...]
    rows: tuple[float, ...]


@dataclass(slots=True)
class PlacedTable:
    """A table with its place on the page."""

    table: Table
    top: float
    left: float


@dataclass(slots=True)
class _Cell:
    column: int
    columns: int
    spans: list[Span]


def rows_of(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """The spans that stand at one height, from the top down, each row from left to right."""
    row: list[Span] = []
    for span in sorted(spans, key=lambda span: -span.middle):
        if row and row[-1].middle - span.middle > _SAME_ROW * min(row[0].height, span.height):
            yield sorted(row, key=lambda span: span.left)
            row = []
        row.append(span)
    if row:
        yield sorted(row, key=lambda span: span.left)


def join_spans(spans: Iterable[Span]) -> str:
    """The text of spans in one line; a word that a hyphen broke is whole again."""
    text, is_broken = "", False
    for span in spans:
        text += span.text if is_broken or not text else f" {span.text}"
        is_broken = span.is_broken
    return text


def without_leaders(rows: list[list[Span]]) -> list[list[Span]]:
    """The rows; where dots lead from a label to a value, as in contents and price lists, these
    stand apart."""
    parted = [[part for span in row for part in _split_at_dots(span)] for row in rows]
    values = [span for row in parted for span in row if span.is_led]
    if len(values) < 2:
        return rows
    edge = max(span.right for span in values)
    for value in values:  # one below the other, however far the dots go
        value.left, value.right = edge - 1, edge
    return parted


def _is_led(row: Sequence[Span]) -> bool:
    return any(span.is_led for span in row)


def _split_at_dots(span: Span) -> tuple[Span, ...]:
    """The label before dots and the value after them; else the span itself."""
    found = _LEADERS.search(span.text)
    if not found:
        return (span,)
    label, value = span.text[: found.start()].rstrip(), span.text[found.end() :].strip()
    if not any(map(str.isalpha, label)) or not _LED_TO.match(value):
        return (span,)
    width = (span.right - span.left) / len(span.text)
    return (
        replace(span, text=label, right=span.left + width * len(label)),
        replace(span, text=value, is_led=True),
    )


def grids_of(rules: Sequence[Box]) -> Iterator[Grid]:
    """The grids that the ruling lines and boxes of a page make."""
    if len(rules) > _MAX_RULES:
        return
    for group in _touching(rules):
        columns = _cluster(x for box in group if _is_tall(box) for x in (box[0], box[2]))
        rows = _cluster(y for box in group if _is_wide(box) for y in (box[1], box[3]))
        left, right = min(box[0] for box in group), max(box[2] for box in group)
        columns = _cluster((left, *columns, right))
        if len(columns) > 2 and len(rows) > 2:
            yield Grid(columns, rows)


def _touching(rules: Sequence[Box]) -> list[list[Box]]:
    """Groups of boxes that meet, found from the left to the right."""
    groups: list[tuple[list[float], list[Box]]] = []  # the bounds of each, and its boxes
    for box in sorted(rules):
        bounds, members = list(box), [box]
        apart = []
        for group in groups:
            if _meet(group[0], bounds):
                members += group[1]
                bounds = [*map(min, bounds[:2], group[0][:2]), *map(max, bounds[2:], group[0][2:])]
            else:
                apart.append(group)
        groups = [*apart, (bounds, members)]
    return [members for _, members in groups if len(members) > 2]


def _meet(one: Sequence[float], other: Sequence[float]) -> bool:
    return (
        one[0] <= other[2] + _TOUCH
        and other[0] <= one[2] + _TOUCH
        and one[1] <= other[3] + _TOUCH
        and other[1] <= one[3] + _TOUCH
    )


def _is_tall(box: Box) -> bool:
    return box[3] - box[1] >= _LEAST_SIDE


def _is_wide(box: Box) -> bool:
    return box[2] - box[0] >= _LEAST_SIDE


def _cluster(places: Iterable[float]) -> tuple[float, ...]:
    found: list[float] = []
    for place in sorted(places):
        if not found or place - found[-1] > _TOUCH:
            found.append(place)
    return tuple(found)


def ruled_table(grid: Grid, spans: Sequence[Span], page: int) -> PlacedTable | None:
    """The table in a grid; None if the lines only frame text. `spans` are those inside."""
    cells: dict[tuple[int, int], _Cell] = {}
    for row in rows_of(spans):
        for span in row:
            at = _slot(grid.rows, span.middle)
            first = _slot(grid.columns, span.left + min(_TOUCH, (span.right - span.left) / 2))
            last = _slot(grid.columns, span.right - min(_TOUCH, (span.right - span.left) / 2))
            cell = cells.setdefault((-at, first), _Cell(first, 1, []))
            cell.columns = max(cell.columns, last - first + 1)
            cell.spans.append(span)
    if any(map(_is_frame, cells.values())):
        return None
    rows: dict[int, list[_Cell]] = {}
    for (at, _), cell in sorted(cells.items()):
        rows.setdefault(at, []).append(cell)
    lengths = [len(span.text) for span in spans]
    longest = max((sum(len(s.text) for s in c.spans) for c in cells.values()), default=0)
    columns = {cell.column for row in rows.values() if len(row) > 1 for cell in row}
    if len(rows) < 2 or len(columns) < 2 or len(cells) < 4 or longest > 0.6 * sum(lengths):
        return None
    used = sorted({cell.column for cell in cells.values()})
    for cell in cells.values():
        end = cell.column + cell.columns
        cell.columns = max(1, sum(cell.column <= column < end for column in used))
        cell.column = used.index(cell.column)
    lines = [line for row in rows.values() for line in _in_lines(row)]
    table = _built(lines, len(used), page)
    return PlacedTable(table, max(span.middle for span in spans), grid.columns[0])


def _is_frame(cell: _Cell) -> bool:
    """Whether the lines only frame what is set in columns of its own."""
    lines = list(rows_of(cell.spans)) if len(cell.spans) >= _LEAST_FRAMED else []
    several = sum(len(line) > 1 for line in lines)
    return len(lines) * 2 > _LEAST_FRAMED and several * 2 > len(lines)


def _in_lines(row: list[_Cell]) -> list[list[_Cell]]:
    """A row between two rules as rows of its own, if each of its lines is one: a label, a value."""
    column_of = {id(span): cell for cell in row for span in cell.spans}
    lines = list(rows_of(span for cell in row for span in cell.spans))
    split: list[list[_Cell]] = []
    for line in lines:
        cells: dict[int, _Cell] = {}
        for span in line:
            whole = column_of[id(span)]
            cell = cells.setdefault(whole.column, _Cell(whole.column, whole.columns, []))
            cell.spans.append(span)
        split.append([cells[column] for column in sorted(cells)])
    begun = sum(len(line) > 1 and line[0].column == row[0].column for line in split)
    words = [len(span.text.split()) for line in lines for span in line]
    few = sum(words) <= _VALUE_WORDS * len(words)
    return split if len(split) > 2 and begun >= _LINES_BEGUN * len(split) and few else [row]


def _slot(edges: Sequence[float], place: float) -> int:
    return min(max(bisect_right(edges, place) - 1, 0), len(edges) - 2)


def inside(grid: Grid, spans: Iterable[Span]) -> list[Span]:
    """The spans whose middle is in a grid."""
    left, right, bottom, top = grid.columns[0], grid.columns[-1], grid.rows[0], grid.rows[-1]
    return [
        span
        for span in spans
        if bottom - 1 < span.middle < top + 1 and left < (span.left + span.right) / 2 < right
    ]


def aligned_tables(rows: Sequence[list[Span]], page: int) -> Iterator[list[Span] | PlacedTable]:
    """The rows of a region in order; those that make a table are one."""
    at = 0
    while at < len(rows):
        end = _end_of_block(rows, at)
        block = rows[at:end]
        table = _align(block, page) if len(block) > 1 or _is_led(block[0]) else None
        if table:
            yield table
        elif len(block) > 1 and (columns := _side_by_side(block)):
            for column in columns:
                yield from ([span] for span in column)
        else:
            yield from block
        at = end


def _end_of_block(rows: Sequence[list[Span]], at: int) -> int:
    """The end of the rows from `at` on that may be one table: several spans in each."""
    end = at + 1
    if not 1 < len(rows[at]) <= _MAX_COLUMNS:
        return end
    while end < min(len(rows), at + _MAX_BLOCK_ROWS):
        above, row = rows[end - 1], rows[end]
        height = max(span.height for span in row)
        if above[0].middle - row[0].middle > _MAX_ROW_GAP * height or len(row) > _MAX_COLUMNS:
            break
        if len(row) < 2 and not _continues(
            row[0], rows[max(at, end - _ROWS_TO_COMPARE) : end], rows[end + 1 : end + 2]
        ):
            break
        end += 1
    while end > at + 1 and len(rows[end - 1]) < 2:
        end -= 1
    return end


def _continues(span: Span, above: Sequence[list[Span]], below: Sequence[list[Span]]) -> bool:
    """Whether a span alone in its row is a cell, the next line of one, or a note below one."""
    if not below or len(below[0]) < 2:
        return False
    columns = _columns([*above, *below])
    if sum(_overlap(span, column) for column in columns) == 1:
        return True
    return _noted_column(span, columns) > 0 and len(below[0]) >= _LEAST_NAMED


def _noted_column(span: Span, columns: Sequence[tuple[float, float]]) -> int:
    """The column, not the first, that a wider note begins under; 0 if there is none."""
    for at, column in enumerate(columns[1:], 1):
        if abs(span.left - column[0]) < _TOUCH:
            return at
    return 0


def _columns(rows: Sequence[list[Span]]) -> list[tuple[float, float]]:
    """The extents of the columns, by the row with most spans and what fits to it."""
    widest = max(rows, key=len)
    columns = [(span.left, span.right) for span in widest]
    for row in rows:
        for span in row:
            touched = [at for at, column in enumerate(columns) if _overlap(span, column)]
            if not touched:
                columns = sorted([*columns, (span.left, span.right)])
            elif len(touched) == 1:
                left, right = columns[touched[0]]
                columns[touched[0]] = (min(left, span.left), max(right, span.right))
    return columns


def _overlap(span: Span, column: tuple[float, float]) -> bool:
    return span.left < column[1] and span.right > column[0]


def _align(rows: Sequence[list[Span]], page: int) -> PlacedTable | None:
    columns = _columns(rows)
    full = [row for row in rows if len(row) > 1]
    spans = [span for row in rows for span in row]
    if len(columns) < 2 or len(full) * 2 < len(rows):
        return None
    if len(full) < 2 and not _is_led(rows[0]):
        return None
    if sum(len(span.text.split()) for span in spans) > _PROSE_WORDS * len(spans):
        return None
    if sum(map(len, full)) < 0.4 * len(columns) * len(full) or _side_by_side(rows):
        return None
    placed: list[list[_Cell]] = []
    for row in rows:
        if placed and len(row) == 1 and (noted := _noted_cell(row[0], placed[-1], columns)):
            noted.spans.append(row[0])
            continue
        cells: list[_Cell] = []
        for span in row:
            touched = [at for at, column in enumerate(columns) if _overlap(span, column)]
            first = touched[0] if touched else 0
            if cells and first < cells[-1].column + cells[-1].columns:
                cells[-1].spans.append(span)
            else:
                cells.append(_Cell(first, len(touched) or 1, [span]))
        placed.append(cells)
    table = _built(placed, len(columns), page)
    return PlacedTable(table, rows[0][0].middle, columns[0][0])


def _noted_cell(
    span: Span, row: Sequence[_Cell], columns: Sequence[tuple[float, float]]
) -> _Cell | None:
    """The cell above a note that is wider than its column."""
    if sum(_overlap(span, column) for column in columns) < 2:
        return None
    noted = _noted_column(span, columns)
    return next((cell for cell in row if cell.column == noted and noted), None)


def _side_by_side(rows: Sequence[list[Span]]) -> list[list[Span]] | None:
    """Blocks of text beside each other that the file has one after the other."""
    columns = _columns(rows)
    spans = sorted((span for row in rows for span in row), key=lambda span: span.order)
    numbers = sum(any(map(str.isdigit, span.text)) and len(span.text) < 12 for span in spans)
    if not 1 < len(columns) < 4 or numbers > _NUMBERS_IN_COLUMNS * len(spans):
        return None
    places = [
        next((at for at, column in enumerate(columns) if _overlap(span, column)), 0)
        for span in spans
    ]
    if places != sorted(places) or len(rows) < 2:
        return None
    return [
        [span for span, place in zip(spans, places, strict=True) if place == at]
        for at in range(len(columns))
    ]


def _names_all(row: Sequence[_Cell], width: int) -> bool:
    """Whether a row has a cell of its own above each column, but for the first."""
    alone = {cell.column for cell in row if cell.columns == 1}
    return len(alone) == len(row) and alone >= set(range(1, width))


def _names_numbers(rows: Sequence[Sequence[_Cell]], width: int) -> bool:
    """Whether a first row of names stands above a column of numbers.

    Two columns may be labels and values as well, so they tell nothing.
    """
    names = [join_spans(cell.spans) for cell in rows[0]]
    if width < _LEAST_NAMED or not _names_all(rows[0], width) or len(rows) < 2:
        return False
    if any(map(is_number, names)) or any(name.endswith(":") for name in names):
        return False
    below: dict[int, list[str]] = {}
    for cell in (cell for row in rows[1:] for cell in row):
        below.setdefault(cell.column, []).append(join_spans(cell.spans))
    return any(column and all(map(is_number, texts)) for column, texts in below.items())


def _built(rows: Sequence[list[_Cell]], width: int, page: int) -> Table:
    """The table of cells; rows at the top are headers if their type alone is bold."""
    is_bold = [
        all(span.is_bold and not span.is_led for cell in row for span in cell.spans) for row in rows
    ]
    headers = 0
    while headers < len(rows) and is_bold[headers] and _names_all(rows[headers], width):
        headers += 1
    if headers * 2 > len(rows) or any(is_bold[headers : headers + 1]):
        headers = 0
    headers = headers or int(_names_numbers(rows, width))
    builder = TableBuilder()
    for at, row in enumerate(rows):
        builder.begin_row(page, is_header=at < headers)
        column = 0
        ends = [*(cell.column for cell in row[1:]), width]
        for cell, end in zip(row, ends, strict=True):
            while column < cell.column:
                builder.add("")
                column += 1
            columns = max(1, min(cell.columns, end - column))
            builder.add(join_spans(cell.spans), colspan=columns)
            column += columns
        while column < width:
            builder.add("")
            column += 1
    return builder.build()
