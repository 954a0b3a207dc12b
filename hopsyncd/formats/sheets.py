"""Tables of sheets and of files of separated values, which may be long."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.fields import lead_of
from hopsyncd.formats.tables import Row, TableBuilder, table_blocks

_PART_ROWS = 1000


@dataclass(frozen=True, slots=True)
class SheetCell:
    """A cell of a sheet, with its span."""

    text: str
    rowspan: int = 1
    colspan: int = 1
    is_header: bool = False


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A row of a sheet or of a CSV file, with its place.

    A cell that another cell covers is None.
    """

    first_line: int
    last_line: int
    cells: Sequence[SheetCell | None]


def sheet_blocks(rows: Iterable[SheetRow]) -> Iterator[Block]:
    """Yield the blocks of a table that may be long and whose header is not marked.

    It is built in parts of some hundred rows, each below the same header, so that the whole table
    is never in memory.
    """
    headers: tuple[Row, ...] = ()
    caption: str | None = None
    remaining = iter(rows)
    while part := list(islice(remaining, _PART_ROWS)):
        builder = TableBuilder()
        for header in headers:
            builder.begin_row(header.first_line, header.last_line, is_header=True)
            for cell in header.cells:
                builder.add(cell.text if cell else "")
        for row in part:
            builder.begin_row(row.first_line, row.last_line)
            for one in filter(None, row.cells):
                builder.add(
                    one.text,
                    is_header=one.is_header,
                    rowspan=one.rowspan,
                    colspan=one.colspan,
                )
        table = builder.build(guess_header=caption is None)
        headers = table.rows[: table.header_rows]
        if caption is None:
            caption = table.caption
            yield from table_blocks(table)
        else:
            yield from table_blocks(table, (lead_of(caption),) if caption else ())
