"""Represents tables as grids of cells, and finds the rows that name their columns.

A reader adds the cells of a document to a `TableBuilder`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from hopsyncd.formats.blocks import Links, squeeze_spaces
from hopsyncd.formats.cell_values import is_number, is_year
from hopsyncd.formats.fields import find_labels
from hopsyncd.formats.header_rows import (
    are_of_several_kinds,
    counts_columns,
    has_only_number_columns,
    is_data,
    map_group_columns,
)

_SHORT_LABEL_CHARACTERS = 40
_MAX_HEADER_ROWS = 6
_MAX_COMPARED_ROWS = 1000
_TO_THE_END = 1 << 20
# Spans fill places of the grid: at most 20 for each cell of a table, and 1000 more.
_PLACES_PER_CELL, _FREE_PLACES = 20, 1000


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A cell of the document; `links` have offsets in its text, `inner` are its nested tables.

    A cell that spans several places of the grid is the same object in all of them.
    """

    text: str
    is_header: bool = False
    links: Links = ()
    inner: tuple["Table", ...] = ()


_NOTHING: frozenset[Cell] = frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row by column, with None for empty places. The `carried` cells began in rows
    above."""

    cells: tuple[Cell | None, ...]
    first_line: int
    last_line: int
    carried: frozenset[Cell] = _NOTHING

    @property
    def own(self) -> tuple[Cell, ...]:
        """Return the cells that begin in this row, each once."""
        return tuple(dict.fromkeys(c for c in self.cells if c and c not in self.carried))

    @property
    def texts(self) -> list[str]:
        """Return the text of each column's cell, or "" for an empty place."""
        return [cell.text if cell else "" for cell in self.cells]

    @property
    def distinct(self) -> tuple[Cell, ...]:
        """Return the cells with text, each once."""
        return tuple(dict.fromkeys(cell for cell in self.cells if cell and cell.text))

    @property
    def has_tables(self) -> bool:
        """Whether a table is nested in a cell of the row. Column names cannot contain tables."""
        return any(cell.inner for cell in self.own)


@dataclass(frozen=True, slots=True)
class Table:
    """A grid: `caption` above it, then `header_rows` rows that name the columns, then data."""

    rows: tuple[Row, ...]
    header_rows: int = 0
    caption: str = ""

    @property
    def width(self) -> int:
        return max((len(row.cells) for row in self.rows), default=0)


class TableBuilder:
    """Places cells in the grid. Begin each row, then add its cells from left to right.

    A cell takes the next free place; cells that span down from earlier rows keep their places. Rows
    above the first data row are headers if the document marks all of their cells (`is_header`).
    """

    def __init__(self, caption: str = "") -> None:
        self.caption = caption
        self._rows: list[Row] = []
        self._cells: list[Cell | None] = []
        self._from_above: list[Cell] = []
        self._lines = (1, 1)
        self._is_header = self._has_cells = False
        self._below: dict[int, tuple[Cell, int]] = {}  # by column: a cell and its remaining rows
        self._places = _FREE_PLACES

    def begin_row(self, first_line: int, last_line: int = 0, *, is_header: bool = False) -> None:
        """Begin a row of the document's lines `first_line` to `last_line`. `is_header` marks all of
        its cells."""
        self._end_row()
        self._lines = (first_line, max(first_line, last_line))
        self._is_header = is_header

    def add(
        self,
        text: str,
        *,
        is_header: bool = False,
        rowspan: int = 1,
        colspan: int = 1,
        links: Links = (),
        inner: tuple[Table, ...] = (),
    ) -> None:
        """Add the row's next cell. A `rowspan` of 0 extends to the end of the table."""
        text, links = squeeze_spaces(text, links)
        cell = Cell(text, is_header or self._is_header, links, inner)
        self._places += _PLACES_PER_CELL
        self._fill()
        self._has_cells = True
        start = len(self._cells)
        for column in range(start, start + max(1, colspan)):
            if column > start and (column in self._below or self._places <= 0):
                break
            self._cells.append(cell)
            self._places -= 1
            if rowspan != 1:
                self._below[column] = (cell, rowspan - 1 if rowspan > 1 else _TO_THE_END)

    def extend_row(self, last_line: int) -> None:
        """Set the last line of the current row to a later line."""
        self._lines = (self._lines[0], max(self._lines[1], last_line))

    def build(self, *, guess_header: bool = False) -> Table:
        """Build the table.

        If `guess_header`, the first row may count as a header because of its content, even if the
        document does not mark it. Spreadsheets and similar formats need this option.
        """
        self._end_row()
        rows = tuple(self._rows)
        width = max((len(row.cells) for row in rows), default=0)
        begin = 0
        while begin < len(rows) and (
            (is_one_cell(rows[begin], width) and not rows[begin].has_tables)
            or (guess_header and len(rows[begin].distinct) < 2)
        ):
            begin += 1
        if groups := _find_group_row(rows[begin:], guess_header=guess_header):
            rows = (*rows[:begin], groups, *rows[begin + 1 :])
        count = 2 if groups else _count_marked_headers(rows[begin:], width)
        if not count and guess_header:
            count = _guess_headers(rows[begin:])
        is_below_header = begin > 0 and is_header_row(rows[begin - 1])
        if not count and is_below_header and not _has_headers(rows[begin:]):
            if begin < len(rows) and _is_above_numbers(rows[begin:]):
                count = 1
            else:
                begin, count = begin - 1, 1  # one header for all columns
        titles = rows[:begin] if count else [*takewhile(is_header_row, rows[:begin])]
        if not count and any(
            is_header_row(row) and is_one_cell(row, width) for row in rows[begin:]
        ):
            titles = titles[:-1]  # the title of the first group, because other groups follow
        texts = (cell.text for row in titles for cell in row.distinct)
        caption = ": ".join(dict.fromkeys(filter(None, [self.caption, *texts])))
        return Table(rows[len(titles) :], count, caption)

    def _fill(self) -> None:
        """Fill the next places with cells that span down from above."""
        while (column := len(self._cells)) in self._below:
            self._cells.append(self._take_from_above(column))

    def _take_from_above(self, column: int) -> Cell:
        cell, left = self._below.pop(column)
        self._from_above.append(cell)
        self._places -= 1
        if left > 1 and self._places > 0:
            self._below[column] = (cell, left - 1)
        return cell

    def _end_row(self) -> None:
        if not self._cells and not self._rows:
            return
        for column in sorted(column for column in self._below if column >= len(self._cells)):
            self._cells += [None] * (column - len(self._cells))
            self._cells.append(self._take_from_above(column))
        if self._has_cells:
            carried = frozenset(self._from_above) if self._from_above else _NOTHING
            self._rows.append(Row(tuple(self._cells), *self._lines, carried))
        self._cells, self._from_above, self._has_cells = [], [], False


def _has_headers(rows: Sequence[Row]) -> bool:
    return any(cell.is_header for row in rows for cell in row.distinct)


def is_one_cell(row: Row, width: int) -> bool:
    """Whether a row is a single cell, in a table that has more columns."""
    return width > 1 and len(set(row.cells)) == 1 and bool(row.distinct)


def _find_group_row(rows: Sequence[Row], *, guess_header: bool) -> Row | None:
    """Return the first row if it names groups of columns, with the name of each group repeated in
    all columns of the group. Returns None for other tables."""
    if not rows or not (guess_header or is_header_row(rows[0])):
        return None
    columns = map_group_columns([row.texts for row in rows[:5]])
    cells = rows[0].cells
    spread = tuple(cells[index] if index < len(cells) else None for index in columns)
    return replace(rows[0], cells=spread) if columns else None


def _count_marked_headers(rows: Sequence[Row], width: int) -> int:
    """Count the rows at the top that the document marks as headers. If no data follows them, the
    result is 1.

    A title across the table, below the column names, belongs to the rows below it. A row of numbers
    is not a header.
    """
    count = 0
    while count < min(len(rows), _MAX_HEADER_ROWS) and is_header_row(rows[count]):
        is_last = not any(map(is_header_row, rows[count + 1 : count + 2]))
        if count and is_last and is_one_cell(rows[count], width):
            break
        texts = [cell.text for cell in rows[count].distinct]
        if count and all(map(is_number, texts)) and not all(map(is_year, texts)):
            break  # a row of bold numbers is data
        count += 1
    return _count_spanned_rows(rows, count) if 0 < count < len(rows) else min(count, 1)


def _count_spanned_rows(rows: Sequence[Row], count: int) -> int:
    """Count the header rows: the first `count` rows, and the rows into which their cells span.

    The result is `count` if such a row has a cell that is not a name, or no text of its own.
    """
    end = count
    headers = {cell for row in rows[:count] for cell in row.distinct}
    while end < len(rows) and headers & rows[end].carried:
        texts = [cell.text for cell in rows[end].own if cell.text]
        if not all(map(_is_name, texts)) or not any(cell.text for cell in rows[end].own):
            return count
        end += 1
    return end if end < min(len(rows), _MAX_HEADER_ROWS) else count


def is_header_row(row: Row) -> bool:
    """Whether all cells of a row, apart from empty cells at its beginning, are marked as
    headers."""
    cells = list(row.cells)
    while cells and (cells[0] is None or not (cells[0].text or cells[0].is_header)):
        cells.pop(0)
    return bool(cells) and all(c is None or (c.is_header and not c.inner) for c in cells)


def _guess_headers(rows: Sequence[Row]) -> int:
    """Guess from the content how many rows at the top name the columns.

    The result is 1 if all cells are short and different names (the top left cell may be empty), or
    if the row has names and years above numbers. The result is 2 or more if cells of the first row
    span columns or rows and all of them are names. Otherwise, or if the last of these rows
    resembles the rows below it, the result is 0.
    """
    if len(rows) < 2:
        return 0
    count = 1
    while count < min(len(rows) - 1, _MAX_HEADER_ROWS) and rows[count].carried:
        count += 1
    if count == 1 and len(rows) > 2 and len(set(rows[0].cells)) < len(rows[0].cells):
        count = 2
    texts = [
        [cell.text if cell else "" for cell in row.cells]
        for row in rows[count - 1 : _MAX_COMPARED_ROWS]
    ]
    if is_data(texts[0], texts[1:]):
        return 0
    if count > 1:
        names = [cell.text for row in rows[:count] for cell in row.distinct]
        return count if all(map(_is_name, names)) else 0
    return int(_is_row_of_names(rows))


def _is_name(text: str) -> bool:
    short = len(text) <= _SHORT_LABEL_CHARACTERS
    return bool(is_year(text)) or (short and not is_number(text))


def _is_row_of_names(rows: Sequence[Row]) -> bool:
    texts = rows[0].texts
    if len(texts) == 2 and are_of_several_kinds(_list_column(rows[1:], 1)):
        return False  # names and values, as in a form
    if find_labels(texts) or (len(texts) > 2 and not texts[0] and find_labels(texts[1:])):
        return True
    return _is_above_numbers(rows) or counts_columns(
        [row.texts for row in rows[:_MAX_COMPARED_ROWS]]
    )


def _is_above_numbers(rows: Sequence[Row]) -> bool:
    """Whether a row of names and years is above numbers; its top left cell may be empty.

    Some names may occur twice if the table is wide or has only numbers. In a table of four or more
    columns, a third of the names may be empty.
    """
    texts = rows[0].texts
    named = texts[1:] if texts and not texts[0] else texts
    names = [text for text in named if text]
    has_gaps = len(names) < len(named)
    if has_gaps and (named != texts or len(texts) < 4 or len(names) * 3 < len(named) * 2):
        return False
    if len(names) < 1 + bool(named == texts):
        return False
    distinct = len({*map(str.casefold, names)})
    are_few = distinct < min(len(names), len(names) // 2 + 2)
    if are_few and (
        has_gaps or distinct < 2 or not has_only_number_columns([row.texts for row in rows[:4]])
    ):
        return False
    if not all(is_year(text) or not is_number(text) for text in names):
        return False
    below = [_list_column(rows[1:4], index) for index in range(1, len(texts)) if texts[index]]
    return any(
        column and all(map(is_number, column)) and not all(map(is_year, column)) for column in below
    )


def _list_column(rows: Sequence[Row], index: int) -> list[str]:
    cells = (row.cells[index] for row in rows if index < len(row.cells))
    return [cell.text for cell in cells if cell and cell.text]
