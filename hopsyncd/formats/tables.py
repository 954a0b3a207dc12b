"""Represents tables as grids of cells, and converts their rows to text.

A reader adds the cells of a document to a `TableBuilder`. `table_blocks` converts the table to a
block per row. Each cell follows the full path of its column headers. A cell that spans several rows
is repeated in each.

    Season: High | Price > Adult: 310 | Price > Child: 150
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile

from hopsyncd.formats.blocks import Block, Links, WrittenLink, squeeze
from hopsyncd.formats.cell_values import is_number, is_year
from hopsyncd.formats.fields import labels_of, lead_of
from hopsyncd.formats.header_rows import are_of_several_kinds, is_data

JOINT = " | "
_PATH, _SEVERAL = " > ", ", "
_MAX_LABEL_CHARACTERS, _SHORT_LABEL_CHARACTERS = 160, 40
_MAX_HEADER_ROWS = 6
_MAX_COMPARED_ROWS = 1000
_MAX_HEAD_CHARACTERS = 300
# A short cell that spans a few columns is repeated under each of their headers.
_MAX_REPEATED, _MAX_REPEATED_CHARACTERS = 6, 80
_TO_THE_END = 1 << 20
# A few bytes can span a million places in the grid.
# Names of columns without values are written in the first row, unless there are too many.
_MAX_EMPTY_COLUMNS = 30
_PLACES_PER_CELL, _FREE_PLACES = 20, 1000
# Labels may make a table this many times longer before they are shortened.
_LABELS_PER_TEXT, _FREE_LABEL_CHARACTERS = 20, 100_000


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
_NO_COLUMNS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row by column, None for empty places. `carried` cells began in rows above."""

    cells: tuple[Cell | None, ...]
    first_line: int
    last_line: int
    carried: frozenset[Cell] = _NOTHING

    @property
    def own(self) -> tuple[Cell, ...]:
        """Return the cells that begin in this row, each once."""
        return tuple(dict.fromkeys(c for c in self.cells if c and c not in self.carried))

    @property
    def distinct(self) -> tuple[Cell, ...]:
        """Return the cells with text, each once."""
        return tuple(dict.fromkeys(cell for cell in self.cells if cell and cell.text))

    @property
    def has_tables(self) -> bool:
        """Whether a table is nested in a cell; the names of columns cannot contain it."""
        return any(cell.inner for cell in self.own)


@dataclass(frozen=True, slots=True)
class Table:
    """A grid: `caption` above it, then `header_rows` rows that name the columns, then data."""

    rows: tuple[Row, ...]
    header_rows: int = 0
    caption: str = ""

    @property
    def width(self) -> int:
        """The number of columns."""
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
        """Begin a row; `is_header` marks all of its cells."""
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
        text, links = squeeze(text, links)
        cell = Cell(text, is_header or self._is_header, links, inner)
        self._places += _PLACES_PER_CELL
        self._fill()
        self._has_cells = True
        at = len(self._cells)
        for column in range(at, at + max(1, colspan)):
            if column > at and (column in self._below or self._places <= 0):
                break
            self._cells.append(cell)
            self._places -= 1
            if rowspan != 1:
                self._below[column] = (cell, rowspan - 1 if rowspan > 1 else _TO_THE_END)

    def extend_row(self, last_line: int) -> None:
        """Set a later last line for the current row."""
        self._lines = (self._lines[0], max(self._lines[1], last_line))

    def build(self, *, guess_header: bool = False) -> Table:
        """Build the table.

        With `guess_header`, the first row may be a header without being marked, if its content
        suggests it. Spreadsheets and similar formats need this.
        """
        self._end_row()
        rows = tuple(self._rows)
        width = max((len(row.cells) for row in rows), default=0)
        begin = 0
        while begin < len(rows) and (
            (_is_across(rows[begin], width) and not rows[begin].has_tables)
            or (guess_header and len(rows[begin].distinct) < 2)
        ):
            begin += 1
        count = _marked_headers(rows[begin:], width)
        if not count and guess_header:
            count = _guessed_headers(rows[begin:])
        if not count and begin and _is_header(rows[begin - 1]) and not _has_headers(rows[begin:]):
            if _names_numbers(rows[begin:]):
                count = 1
            else:
                begin, count = begin - 1, 1  # one header for all columns
        titles = rows[:begin] if count else [*takewhile(_is_header, rows[:begin])]
        if not count and any(_is_header(row) and _is_across(row, width) for row in rows[begin:]):
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


def _is_across(row: Row, width: int) -> bool:
    """Whether a row is a single cell, in a table that has more columns."""
    return width > 1 and len(set(row.cells)) == 1 and bool(row.distinct)


def _marked_headers(rows: Sequence[Row], width: int) -> int:
    """Count the rows at the top that the document marks as headers; data must follow them.

    A title across the table, below the column names, belongs to the rows below it.
    """
    count = 0
    while count < min(len(rows), _MAX_HEADER_ROWS) and _is_header(rows[count]):
        is_last = not any(map(_is_header, rows[count + 1 : count + 2]))
        if count and is_last and _is_across(rows[count], width):
            break
        texts = [cell.text for cell in rows[count].distinct]
        if count and all(map(is_number, texts)) and not all(map(is_year, texts)):
            break  # a row of bold numbers is data
        count += 1
    return _rows_spanned(rows, count) if 0 < count < len(rows) else min(count, 1)


def _rows_spanned(rows: Sequence[Row], count: int) -> int:
    """Count the header rows, including rows into which the cells of the first `count` rows span.

    A row of numbers is not a header, nor is a row into which all cells above span.
    """
    end = count
    headers = {cell for row in rows[:count] for cell in row.distinct}
    while end < len(rows) and headers & rows[end].carried:
        texts = [cell.text for cell in rows[end].own if cell.text]
        if not all(map(_is_name, texts)) or not any(cell.text for cell in rows[end].own):
            return count
        end += 1
    return end if end < min(len(rows), _MAX_HEADER_ROWS) else count


def _is_header(row: Row) -> bool:
    """Whether all cells of a row are marked as headers; an empty top left cell need not be."""
    cells = list(row.cells)
    while cells and (cells[0] is None or not (cells[0].text or cells[0].is_header)):
        cells.pop(0)
    return bool(cells) and all(c is None or (c.is_header and not c.inner) for c in cells)


def _guessed_headers(rows: Sequence[Row]) -> int:
    """Guess from the content how many rows at the top name the columns; 0 if none does.

    The result is 1 if all cells are short and different names (the top left cell may be empty), or
    if the row has names and years above numbers. It is 2 or more if cells of the first row span
    columns or rows and all of them are names.
    """
    if len(rows) < 2:
        return 0
    count = 1
    while count < min(len(rows) - 1, _MAX_HEADER_ROWS) and rows[count].carried:
        count += 1
    if count == 1 and len(rows) > 2 and len(set(rows[0].cells)) < len(rows[0].cells):
        count = 2
    texts = [[_text(cell) for cell in row.cells] for row in rows[count - 1 : _MAX_COMPARED_ROWS]]
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
    texts = [cell.text if cell else "" for cell in rows[0].cells]
    if len(texts) == 2 and are_of_several_kinds(_column(rows[1:], 1)):
        return False  # names and values, as in a form
    if labels_of(texts) or (len(texts) > 2 and not texts[0] and labels_of(texts[1:])):
        return True
    return _names_numbers(rows)


def _names_numbers(rows: Sequence[Row]) -> bool:
    """Whether a row of names and years is above numbers; its top left cell may be empty.

    In a wide table some names may occur twice.
    """
    texts = [cell.text if cell else "" for cell in rows[0].cells]
    named = texts[1:] if texts and not texts[0] else texts
    distinct = len({*map(str.casefold, named)})
    if len(named) < 1 + bool(named == texts) or distinct < min(len(named), len(named) // 2 + 2):
        return False
    if not all(text and (is_year(text) or not is_number(text)) for text in named):
        return False
    below = [_column(rows[1:4], at) for at in range(1, len(texts))]
    return any(
        column and all(map(is_number, column)) and not all(map(is_year, column)) for column in below
    )


def _column(rows: Sequence[Row], at: int) -> list[str]:
    cells = (row.cells[at] for row in rows if at < len(row.cells))
    return [cell.text for cell in cells if cell and cell.text]


def labels_of_columns(rows: Sequence[Row], column: str = "") -> tuple[str, ...]:
    """Return the label of each column: the path from its outermost header to its own header.

    A header that spans the whole table is left out; an empty header adds nothing. If the table is
    nested in a `column` of another, that column's name comes first.
    """
    width = max((len(row.cells) for row in rows), default=0)
    paths: list[list[Cell]] = [[] for _ in range(width)]
    for row in rows:
        for at, cell in enumerate(row.cells):
            if cell and cell.text and cell not in paths[at]:
                paths[at].append(cell)
    names = (dict.fromkeys(cell.text.rstrip(":").rstrip() for cell in path) for path in paths)
    outer = (column,) if column else ()
    return tuple(
        _shorten(_PATH.join((*outer, *path)), _MAX_LABEL_CHARACTERS) if path else ""
        for path in names
    )


def table_blocks(
    table: Table, leads: tuple[str, ...] = (), head: str = "", column: str = ""
) -> Iterator[Block]:
    """Yield a table's blocks: its caption as a paragraph, then a block for each row.

    `leads` are the leads of the block around the table. Each row has the caption and its group
    title as leads, so that a passage that begins inside the table repeats them. Links of headers go
    to the first row. If a table consists only of headers, they become its text.

    If the table is nested in a cell, `head` is the first cell of the outer row, which precedes each
    inner row, and `column` is the name of the outer column.
    """
    headers, data = table.rows[: table.header_rows], table.rows[table.header_rows :]
    if table.caption:
        line = table.rows[0].first_line if table.rows else 1
        yield Block("paragraph", table.caption, line, line, leads=leads)
        leads = (*leads, lead_of(table.caption))
    if not data:
        headers, data = (), table.rows
    labels = _affordable(labels_of_columns(headers, column), data)
    links = _links_of(headers)
    width = table.width
    begins = _columns_with_own_cells(data, width)
    unused = _empty_columns(labels, data)
    group: tuple[str, ...] = ()
    for at, row in enumerate(data):
        if headers and _is_repeated(row, headers):
            continue
        if headers and _is_new_header(row, data[at + 1 : at + 2]):
            labels = _affordable(labels_of_columns([row], column), data[at + 1 :])
            links += _links_of([row])
            continue
        is_group = len(row.cells) > 1 and _is_across(row, width)
        if is_group:
            text, placed = _row_text(row, (), begins)
        else:
            text, placed = _row_text(row, labels, begins, unused)
        if not (text or placed or row.has_tables):
            continue
        unused = unused if is_group else _NO_COLUMNS
        above = leads if is_group else leads + group
        own_head = text.partition(JOINT)[0]
        start = f"{head}{JOINT}" if head and len(head) <= _MAX_HEAD_CHARACTERS else ""
        inner = tuple(_inner_blocks(row, start + own_head, labels, above))
        links += placed
        if links or not inner or text != own_head:
            links = tuple((offset + len(start), link) for offset, link in links)
            lines = (row.first_line, row.last_line)
            yield Block("table", start + text, *lines, links=links, leads=above)
        yield from inner
        links = ()
        group = (lead_of(text),) if is_group else group


def _inner_blocks(
    row: Row, head: str, labels: Sequence[str], leads: tuple[str, ...]
) -> Iterator[Block]:
    """Yield the blocks of the tables in the cells of a row."""
    if row.has_tables:
        starts = {cell: at for at, cell in reversed([*enumerate(row.cells)])}
        for at, cell in ((starts[cell], cell) for cell in row.own):
            for table in cell.inner:
                yield from table_blocks(table, leads, head, labels[at] if at < len(labels) else "")


def _links_of(rows: Iterable[Row]) -> Links:
    return tuple((0, link) for row in rows for cell in row.own for _, link in cell.links)


def _columns_with_own_cells(rows: Sequence[Row], width: int) -> list[bool]:
    """Return for each column whether a cell with text begins in it."""
    begins = [False] * width
    for row in rows:
        for at, (before, cell) in enumerate(pairwise((None, *row.cells))):
            if cell is not before and _text(cell):
                begins[at] = True
    return begins


def _empty_columns(labels: Sequence[str], rows: Sequence[Row]) -> frozenset[int]:
    """Return the columns that have a name but no text in any row."""
    empty = set(range(len(labels)))
    for row in rows:
        if not empty:
            break
        empty -= {at for at, cell in enumerate(row.cells) if cell and (cell.text or cell.inner)}
    found = frozenset(at for at in empty if labels[at])
    return found if len(found) <= _MAX_EMPTY_COLUMNS else _NO_COLUMNS


def _is_repeated(row: Row, headers: Sequence[Row]) -> bool:
    """Whether a row repeats the header, as at the top of a page."""
    texts = [cell and cell.text for cell in row.cells]
    return len(row.distinct) > 1 and any(
        texts == [cell and cell.text for cell in header.cells] for header in headers
    )


def _is_new_header(row: Row, below: Sequence[Row]) -> bool:
    """Whether a row renames the columns for the rows after it."""
    is_marked = len(row.distinct) > 1 and all(cell is None or cell.is_header for cell in row.cells)
    if not is_marked or not below or _is_header(below[0]):
        return False
    return not any(is_number(cell.text) for cell in row.distinct)


def _affordable(labels: tuple[str, ...], rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the labels, shortened if they would make the table many times longer."""
    characters = sum(len(cell.text) for row in rows for cell in row.own)
    if sum(map(len, labels)) * len(rows) <= characters * _LABELS_PER_TEXT + _FREE_LABEL_CHARACTERS:
        return labels
    return tuple(_shorten(label, _SHORT_LABEL_CHARACTERS) for label in labels)


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def _row_text(
    row: Row,
    labels: Sequence[str],
    begins: Sequence[bool],
    unused: frozenset[int] = _NO_COLUMNS,
) -> tuple[str, Links]:
    """Return a row's text, and its links with their offsets in it.

    Without labels, empty cells and spanned columns keep their places, except columns in which no
    cell of the table begins. The names of `unused` columns are written without a value.
    """
    parts: list[str] = []
    links: list[tuple[int, WrittenLink]] = []
    length = 0
    missing = max(unused, default=-1) + 1 - len(row.cells)
    for cell, columns in _runs((*row.cells, *[None] * missing)):
        text = cell.text if cell else ""
        if not text and columns[0] in unused:
            parts.append(f"{labels[columns[0]]}:")
            length += len(parts[-1]) + len(JOINT)
            continue
        if not text and (any(labels) or not any(begins[at] for at in columns)):
            continue
        is_own = cell not in row.carried
        names = [*dict.fromkeys(labels[at] for at in columns if at < len(labels) and labels[at])]
        if columns[0] == 0:  # the name of a row
            names = names[:1]
        if len(names) > _MAX_REPEATED or len(text) > _MAX_REPEATED_CHARACTERS:
            names = [_SEVERAL.join(names)]
        for number, name in enumerate(names or [""]):
            label = f"{name}: " if name and text else ""
            parts.append(label + (text if is_own else _shorten(text, _MAX_LABEL_CHARACTERS)))
            if cell and is_own and number == 0:
                links += ((length + len(label) + at, link) for at, link in cell.links)
            length += len(parts[-1]) + len(JOINT)
        if text and not any(labels):
            spanned = sum(begins[at] for at in columns[1:])
            parts += [""] * spanned
            length += spanned * len(JOINT)
    while parts and not parts[-1]:
        parts.pop()
    return JOINT.join(parts), tuple(links)


def _runs(cells: Sequence[Cell | None]) -> Iterator[tuple[Cell | None, list[int]]]:
    """Yield each cell with the columns that it spans; an empty cell spans one column."""
    places = enumerate(cells)
    keyed = groupby(places, key=lambda place: place[1] if _text(place[1]) else place[0])
    for _, run in keyed:
        columns = list(run)
        yield columns[0][1], [at for at, _ in columns]


def _text(cell: Cell | None) -> str:
    return cell.text if cell else ""
