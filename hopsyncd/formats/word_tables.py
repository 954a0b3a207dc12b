"""Reads tables of Word documents: merged cells, rows that name the columns, deleted rows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import attribute, child_of, local_name, outermost
from hopsyncd.formats.blocks import Links
from hopsyncd.formats.tables import Table, TableBuilder
from hopsyncd.formats.word_styles import is_on

_FIRST_ROW = 0x20  # in the number by which a table says what is formatted in it
_MAX_SPAN = 63  # columns; Word has no more
_VALUE = re.compile(r"[-+(<>~$€£]*\s?\d[\d\s.,:/%-]*[%)€$£]?\Z")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d\Z")


@dataclass(slots=True)
class WordCell:
    """A cell that begins at a column; `merge` is "restart" or "continue" if it spans rows."""

    element: Element
    column: int
    span: int
    merge: str


class WordTable:
    """The rows of a table, without deleted ones."""

    def __init__(self, table: Element) -> None:
        self.rows: list[list[WordCell]] = []
        self._marked: list[bool] = []
        self._says_first_row = _says_first_row(table)
        for row in outermost(table, "tr"):
            properties = child_of(row, "trPr")
            if properties is not None and child_of(properties, "del") is not None:
                continue
            self._marked.append(properties is not None and is_on(properties, "tblHeader"))
            self.rows.append(_cells(row, properties))

    @property
    def only_cell(self) -> Element | None:
        """The cell of a table that has only one cell; None otherwise."""
        is_one = len(self.rows) == 1 and len(self.rows[0]) == 1
        return self.rows[0][0].element if is_one else None

    @property
    def is_grid(self) -> bool:
        """Whether there are several rows and columns."""
        return len(self.rows) > 1 and any(len(row) > 1 for row in self.rows)

    def build(self, read: Callable[[Element], tuple[str, Links]], next_line: Callable[[], int]
              ) -> Table:  # fmt: skip
        """Build the grid. `read` gives a cell's text, `next_line` the number of the next row."""
        builder = TableBuilder()
        columns = [{cell.column: cell for cell in row} for row in self.rows]
        is_headed = any(self._marked)
        for at, row in enumerate(self.rows):
            line = next_line()
            texts = [
                ("", ()) if _continues(columns, at, cell) else read(cell.element) for cell in row
            ]
            is_header = self._marked[at]
            if at == 0 and not is_headed and self._says_first_row and len(self.rows) > 1:
                is_header = _may_name_columns([text for text, _ in texts])
            builder.begin_row(line, is_header=is_header)
            end = 0
            for cell, (text, links) in zip(row, texts, strict=True):
                if cell.column > end:
                    builder.add("", is_header=is_header, colspan=cell.column - end)
                end = cell.column + cell.span
                if not _continues(columns, at, cell):
                    rows = _rows_of(columns, at, cell)
                    builder.add(text, rowspan=rows, colspan=cell.span, links=links)
        return builder.build()


def _says_first_row(table: Element) -> bool:
    look = child_of(table, "tblPr", "tblLook")
    if look is None:
        return False
    if first_row := attribute(look, "firstRow"):
        return first_row in ("1", "true", "on")
    value = attribute(look, "val")
    return bool(re.fullmatch("[0-9A-Fa-f]{1,4}", value) and int(value, 16) & _FIRST_ROW)


def _cells(row: Element, properties: Element | None) -> list[WordCell]:
    column = 0
    if properties is not None and (before := child_of(properties, "gridBefore")) is not None:
        column = _span(attribute(before, "val"), 0)
    cells = []
    for cell in outermost(row, "tc"):
        said = child_of(cell, "tcPr")
        span, merge = 1, ""
        for one in said if said is not None else ():
            if local_name(one) == "gridSpan":
                span = _span(attribute(one, "val"), 1)
            elif local_name(one) == "vMerge":
                merge = attribute(one, "val") or "continue"
        cells.append(WordCell(cell, column, span, merge))
        column += span
    return cells


def _span(value: str, default: int) -> int:
    known = value.isdecimal() and len(value) < 4
    return min(max(int(value), default), _MAX_SPAN) if known else default


def _continues(columns: Sequence[dict[int, WordCell]], at: int, cell: WordCell) -> bool:
    """Whether a cell continues the cell above it."""
    above = columns[at - 1].get(cell.column) if at else None
    return cell.merge == "continue" and above is not None and bool(above.merge)


def _rows_of(columns: Sequence[dict[int, WordCell]], at: int, cell: WordCell) -> int:
    """The number of rows that a cell spans."""
    end = at + 1
    while cell.merge and end < len(columns):
        below = columns[end].get(cell.column)
        if below is None or below.merge != "continue":
            break
        end += 1
    return end - at


def _may_name_columns(texts: Sequence[str]) -> bool:
    """Whether a first row may name the columns. Word formats first rows as headers by default.

    It is no header if it has values, or if it names rows, as in a form.
    """
    return not any(
        text.endswith(":") or (_VALUE.match(text) and not _YEAR.match(text)) for text in texts
    )
