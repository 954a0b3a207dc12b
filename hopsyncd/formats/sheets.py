"""Builds tables from spreadsheets and CSV files, which may be long."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.cell_values import is_number
from hopsyncd.formats.fields import lead_of
from hopsyncd.formats.header_rows import is_data, map_group_columns, may_name_columns
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import Row, TableBuilder

_PART_ROWS = 1000
_MAX_ROWS_ABOVE = 8


@dataclass(frozen=True, slots=True)
class SheetCell:
    text: str
    rowspan: int = 1
    colspan: int = 1
    is_header: bool = False
    is_bold: bool = False


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A row of a sheet or of a CSV file, with its position.

    A cell that another cell covers is None.
    """

    first_line: int
    last_line: int
    cells: Sequence[SheetCell | None]

    @property
    def texts(self) -> list[str]:
        """Return the texts of the cells. The text of a covered cell is empty."""
        return [cell.text if cell else "" for cell in self.cells]

    @property
    def is_bold(self) -> bool:
        """Whether the row has several cells with text, all in bold."""
        cells = [cell for cell in self.cells if cell and cell.text]
        return len(cells) > 1 and all(cell.is_bold for cell in cells)


def read_sheet(rows: Iterable[SheetRow]) -> Iterator[Block]:
    """Yield the blocks of a table of a spreadsheet or CSV file. The header is guessed from the
    content, because few of these tables mark their header.

    The table is built in parts of 1,000 rows, each with the same header, so that the whole table is
    never in memory. Rows above the header that describe the whole table come first.
    """
    headers: tuple[Row, ...] = ()
    caption: str | None = None
    remaining = iter(rows)
    while part := list(islice(remaining, _PART_ROWS)):
        if caption is None and (above := _count_rows_above_header(part)):
            yield from make_table_blocks(_build_part((), part[:above], frozenset()).build())
            part = part[above:]
        marked = _find_header_rows(part, is_first=caption is None)
        table = _build_part(headers, part, marked).build(guess_header=caption is None)
        if caption is None and not table.header_rows and (below := _find_bold_below_title(part)):
            table = _build_part((), part, marked | below).build(guess_header=True)
        headers = table.rows[: table.header_rows]
        if caption is None:
            caption = table.caption
            yield from make_table_blocks(table)
        else:
            yield from make_table_blocks(table, (lead_of(caption),) if caption else ())


def _build_part(
    headers: Iterable[Row], part: Sequence[SheetRow], marked: frozenset[int]
) -> TableBuilder:
    """Build the table of a part of the rows, below the headers. The `marked` rows are
    headers too."""
    builder = TableBuilder()
    for header in headers:
        builder.begin_row(header.first_line, header.last_line, is_header=True)
        for cell in header.cells:
            builder.add(cell.text if cell else "")
    for number, row in enumerate(part):
        builder.begin_row(row.first_line, row.last_line, is_header=number in marked)
        for sheet_cell in filter(None, row.cells):
            builder.add(
                sheet_cell.text,
                is_header=sheet_cell.is_header,
                rowspan=sheet_cell.rowspan,
                colspan=sheet_cell.colspan,
            )
    return builder


def _find_header_rows(part: Sequence[SheetRow], *, is_first: bool) -> frozenset[int]:
    """Return the positions of the bold rows that name columns: rows inside a column of numbers and,
    if `is_first`, rows at the top."""
    bold = [row.is_bold for row in part]
    if not any(bold) or all(bold):
        return frozenset()
    bold = [bold[index] and not any(map(is_number, row.texts)) for index, row in enumerate(part)]
    top = next((index for index, is_bold in enumerate(bold) if not is_bold), 0) if is_first else 0
    if 0 < top < len(part) - 1 and _names_groups(part[top - 1]):
        below = [row.texts for row in part[top + 1 : top + 4]]
        top += _is_above_numbers(part[top].texts, below)  # the names below the names of groups
    inside = (
        index
        for index in range(max(top, 1), len(part) - 1)
        if bold[index]
        and any(map(_interrupts, part[index - 1].texts, part[index].texts, part[index + 1].texts))
    )
    return frozenset((*range(top), *inside))


def _find_bold_below_title(part: Sequence[SheetRow]) -> frozenset[int]:
    """Return the position of the first bold row below a title, or nothing if the row does not name
    the columns of other rows."""
    index = next((index for index, row in enumerate(part) if sum(map(bool, row.texts)) > 1), 0)
    texts = [row.texts for row in part[index:]]
    is_name = part[index].is_bold and not any(map(is_number, texts[0]))
    others = part[index + 1 : index + 3]
    if not index or not is_name or not others or any(row.is_bold for row in others):
        return frozenset()
    return frozenset() if is_data(texts[0], texts[1:]) else frozenset([index])


def _interrupts(above: str, text: str, below: str) -> bool:
    return is_number(above) and is_number(below) and bool(text) and not is_number(text)


def _count_rows_above_header(part: Sequence[SheetRow]) -> int:
    """Return the number of rows above the header that describe the table, such as the customer and
    date of an invoice. A title alone does not count.

    The header is a full row above a column of numbers. No row above it is full, has numbers in more
    than half of its cells, or has cells that span rows.
    """
    counts = [sum(map(bool, row.texts)) for row in part[: _MAX_ROWS_ABOVE + 3]]
    most = max(counts)
    for index, count in enumerate(counts[: _MAX_ROWS_ABOVE + 1]):
        texts = part[index].texts
        below = [row.texts for row in part[index + 1 : index + 4]]
        if count >= most - 1 and count > 2 and _is_above_numbers(texts, below):
            groups = [*takewhile(_names_groups, reversed(part[:index]))]
            has_groups = index > 0 and map_group_columns([part[index - 1].texts, texts, *below])
            above = index - 1 if len(groups) == 1 or has_groups else index
            is_told = max(counts[:above], default=0) > 1  # a title alone is the table's caption
            return above if is_told else 0
        is_full = count == most or (count == most - 1 and not texts[0])
        spans_rows = any(cell and cell.rowspan > 1 for cell in part[index].cells)
        if not count or is_full or spans_rows or sum(map(is_number, texts)) * 2 > most:
            return 0
    return 0


def _names_groups(row: SheetRow) -> bool:
    """Whether several cells of a row span columns and may be the names of column groups."""
    cells = [cell for cell in row.cells if cell and cell.text]
    spans = sum(cell.colspan > 1 for cell in cells)
    return spans > 1 and may_name_columns([cell.text for cell in cells])


def _is_above_numbers(names: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    if any(map(is_number, names[1:])):
        return False
    columns = (
        [row[index] for row in below if index < len(row) and row[index]]
        for index in range(1, len(names))
    )
    return any(column and all(map(is_number, column)) for column in columns)
