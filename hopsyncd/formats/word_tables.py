"""Reads Word tables: merged cells, header rows and deleted rows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import find_child, find_outermost, get_attribute, get_local_name
from hopsyncd.formats.blocks import Links
from hopsyncd.formats.header_rows import count_header_rows, may_name_columns
from hopsyncd.formats.tables import Table, TableBuilder
from hopsyncd.formats.word_styles import is_on

_FIRST_ROW = 0x20  # bits of a table's formatting flags
_MAX_SPAN = 63  # columns in a Word table


@dataclass(frozen=True, slots=True)
class CellContent:
    """The content of a cell: its text with links, and the tables in it."""

    text: str = ""
    links: Links = ()
    inner: tuple[Table, ...] = ()


NO_CONTENT = CellContent()


@dataclass(slots=True)
class WordCell:
    """A cell that begins at a column; `merge` is "restart" or "continue" if it spans rows."""

    element: Element
    column: int
    span: int
    merge: str


class WordTable:
    """The rows of a table, without deleted rows."""

    def __init__(self, table: Element) -> None:
        self.rows: list[list[WordCell]] = []
        self._marked: list[bool] = []
        self._says_first_row = _says_first_row(table)
        for row in find_outermost(table, "tr"):
            properties = find_child(row, "trPr")
            if properties is not None and find_child(properties, "del") is not None:
                continue
            self._marked.append(properties is not None and is_on(properties, "tblHeader"))
            self.rows.append(_read_cells(row, properties))

    @property
    def only_cell(self) -> Element | None:
        """Return the cell of a table that has only one cell, or None for other tables."""
        is_one = len(self.rows) == 1 and len(self.rows[0]) == 1
        return self.rows[0][0].element if is_one else None

    @property
    def is_grid(self) -> bool:
        """Whether the table has several rows and columns."""
        return len(self.rows) > 1 and any(len(row) > 1 for row in self.rows)

    def build(self, read: Callable[[Element], CellContent], next_line: Callable[[], int]) -> Table:
        """Build the grid. `read` returns a cell's content; `next_line` returns the number of the
        next row."""
        builder = TableBuilder()
        columns = [{cell.column: cell for cell in row} for row in self.rows]
        rows: list[tuple[int, list[CellContent]]] = []
        for index, row in enumerate(self.rows):
            line = next_line()
            contents = [
                NO_CONTENT if _continues(columns, index, cell) else read(cell.element)
                for cell in row
            ]
            rows.append((line, contents))
        headers = self._find_header_rows([[cell.text for cell in cells] for _, cells in rows])
        for index, (row, (line, contents)) in enumerate(zip(self.rows, rows, strict=True)):
            is_header = index in headers
            builder.begin_row(line, is_header=is_header)
            end = 0
            for cell, content in zip(row, contents, strict=True):
                if cell.column > end:
                    builder.add("", is_header=is_header, colspan=cell.column - end)
                end = cell.column + cell.span
                if not _continues(columns, index, cell):
                    builder.add(
                        content.text,
                        rowspan=_count_rows(columns, index, cell),
                        colspan=cell.span,
                        links=content.links,
                        inner=content.inner,
                    )
        return builder.build()

    def _find_header_rows(self, texts: Sequence[Sequence[str]]) -> set[int]:
        """Return the positions of the header rows: rows that repeat on each page or, if there are
        none, the first row if it stands out or looks like a header.

        Word formats the first row of almost every table as a header, so that row counts only if its
        text looks like a header. A title across the table may precede the header row.
        """
        marked = {index for index, is_marked in enumerate(self._marked) if is_marked}
        has_title = len(self.rows) > 1 and len(self.rows[0]) == 1 < len(self.rows[1])
        first = int(has_title)
        if marked or len(self.rows) < first + 2:
            return marked
        if _stands_out(self.rows[first]) and not _stands_out(self.rows[-1]):
            return {*range(first + 1)} if may_name_columns(texts[first]) else set()
        count = count_header_rows(texts, has_title=has_title) if self._says_first_row else 0
        return {*range(count)}


def _says_first_row(table: Element) -> bool:
    look = find_child(table, "tblPr", "tblLook")
    if look is None:
        return False
    if first_row := get_attribute(look, "firstRow"):
        return first_row in ("1", "true", "on")
    value = get_attribute(look, "val")
    return bool(re.fullmatch("[0-9A-Fa-f]{1,4}", value) and int(value, 16) & _FIRST_ROW)


def _read_cells(row: Element, properties: Element | None) -> list[WordCell]:
    column = 0
    if properties is not None and (before := find_child(properties, "gridBefore")) is not None:
        column = _parse_span(get_attribute(before, "val"), 0)
    cells = []
    for cell in find_outermost(row, "tc"):
        cell_properties = find_child(cell, "tcPr")
        span, merge = 1, ""
        for element in cell_properties if cell_properties is not None else ():
            if get_local_name(element) == "gridSpan":
                span = _parse_span(get_attribute(element, "val"), 1)
            elif get_local_name(element) == "vMerge":
                merge = get_attribute(element, "val") or "continue"
        cells.append(WordCell(cell, column, span, merge))
        column += span
    return cells


def _parse_span(value: str, default: int) -> int:
    known = value.isdecimal() and len(value) < 4
    return min(max(int(value), default), _MAX_SPAN) if known else default


def _continues(columns: Sequence[dict[int, WordCell]], row_index: int, cell: WordCell) -> bool:
    above = columns[row_index - 1].get(cell.column) if row_index else None
    return cell.merge == "continue" and above is not None and bool(above.merge)


def _count_rows(columns: Sequence[dict[int, WordCell]], row_index: int, cell: WordCell) -> int:
    """Return the number of rows that a cell in row `row_index` spans. `columns` has the cells of
    each row, by column."""
    end = row_index + 1
    while cell.merge and end < len(columns):
        below = columns[end].get(cell.column)
        if below is None or below.merge != "continue":
            break
        end += 1
    return end - row_index


def _stands_out(row: Sequence[WordCell]) -> bool:
    """Whether a row has several cells, all in bold or all with a background."""
    if len(row) < 2:
        return False
    return all(_is_shaded(cell.element) for cell in row) or (
        all(_is_bold(cell.element) is not False for cell in row)
        and any(_is_bold(cell.element) for cell in row)
    )


def _is_shaded(cell: Element) -> bool:
    shading = find_child(cell, "tcPr", "shd")
    fill = "" if shading is None else get_attribute(shading, "fill").casefold()
    return fill not in ("", "auto", "ffffff")


def _is_bold(cell: Element) -> bool | None:
    """Whether all text of a cell is bold. Returns None if the cell has no text."""
    found = None
    for run in cell.iterfind(".//{*}r"):
        if not any((text.text or "").strip() for text in run.iterfind("{*}t")):
            continue
        properties = find_child(run, "rPr")
        if properties is None or not is_on(properties, "b"):
            return False
        found = True
    return found
