"""Reads HTML tables into a grid of cells, each with its content in one line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from hopsyncd.formats.blocks import Links
from hopsyncd.formats.html_text import BLOCKS, InlineText
from hopsyncd.formats.html_tree import (
    Element,
    Event,
    Page,
    find_own_parts,
    is_hidden,
    list_events,
)
from hopsyncd.formats.tables import Table, TableBuilder

_ITEMS = {"li": "; ", "tr": "; ", "dt": "; ", "td": ", ", "th": ", ", "dd": ": "}
_MAX_SPAN_DIGITS = 5
_MAX_DEPTH = 3  # deeper nested tables become text
_OF_COLUMNS = ("col", "colgroup")


@dataclass(slots=True)
class _Cell:
    """A cell of a table. `is_bold` is true if all of its text is bold."""

    element: Element
    line: int
    last_line: int
    text: str
    links: Links
    inner: tuple[Table, ...]
    is_bold: bool

    @property
    def is_header(self) -> bool:
        """Whether the page marks the cell as the name of a column or a row."""
        return self.element.tag == "th" or self.element.get("scope") in _OF_COLUMNS


@dataclass(slots=True)
class _Row:
    line: int
    in_head: bool
    cells: list[_Cell] = field(default_factory=list)

    @property
    def is_bold(self) -> bool:
        """Whether the row has several cells with text, all in bold."""
        cells = [cell for cell in self.cells if cell.text or cell.inner]
        return len(cells) > 1 and all(cell.is_bold for cell in cells)


def read_table(page: Page, table: Element, line: int, depth: int = 0) -> tuple[Table, list[str]]:
    """Read a table that begins at `line`. Also returns the pronunciations of words in the table.

    `depth` is the number of enclosing tables. If the page marks no headers in the table, bold rows
    at the top count as headers.
    """
    builder = TableBuilder()
    readings: list[str] = []
    rows: list[_Row] = []
    around = None
    for part in find_own_parts(table, ("caption", "tr", "td", "th")):
        line = page.find_line(part, line)
        if part.tag == "caption":
            builder.caption = " ".join(read_text(page, part, line)[0].take_text()[0].split())
            continue
        parent = part if part.tag == "tr" else _find_row(part, table)
        if parent is not around or not rows:  # a cell outside rows also begins a row
            around = parent
            rows.append(_Row(line, _is_in_head(parent)))
        if part.tag != "tr" and not _is_left_out(page, part):
            cell, cell_readings = _read_cell(page, part, line, depth)
            rows[-1].cells.append(cell)
            readings += cell_readings
    bold = 0
    if not any(row.in_head or any(cell.is_header for cell in row.cells) for row in rows):
        bold = sum(1 for _ in takewhile(lambda row: row.is_bold, rows))
    for number, row in enumerate(rows):
        builder.begin_row(row.line, is_header=row.in_head or number < bold < len(rows))
        for cell in row.cells:
            _add(builder, cell)
    return builder.build(), readings


def _add(builder: TableBuilder, cell: _Cell) -> None:
    builder.add(
        cell.text,
        is_header=cell.is_header,
        rowspan=_read_span(cell.element, "rowspan"),
        colspan=max(1, _read_span(cell.element, "colspan")),
        links=cell.links,
        inner=cell.inner,
    )
    builder.extend_row(cell.last_line)


def _read_cell(page: Page, part: Element, line: int, depth: int) -> tuple[_Cell, list[str]]:
    """Read a cell. Also returns the pronunciations of words in the cell."""
    inline, tables = read_text(page, part, line, depth)
    text, links = inline.take_text()
    inner: list[Table] = []
    readings = inline.readings
    for event in tables:
        read, inner_readings = read_table(page, event.element, event.line, depth + 1)
        inner.append(read)
        readings += inner_readings
    text = text or ", ".join(inline.signs)
    is_bold = bool(text) and not inline.is_plain and inline.has_text
    return _Cell(part, line, inline.lines[1], text, links, tuple(inner), is_bold), readings


def read_text(
    page: Page, element: Element, line: int, depth: int = _MAX_DEPTH
) -> tuple[InlineText, list[Event]]:
    """Return the text of a cell or caption, and an event for each nested table that names its
    columns.

    In the text, separators stand between list items, and between the cells of other nested tables.
    """
    inline = InlineText()
    tables: list[Event] = []
    for event in list_events(page, element, line, tables=depth < _MAX_DEPTH):
        if event.kind != "table":
            _take(inline, event)
        elif _has_names(event.element):
            tables.append(event)
        else:
            for part in _list_parts(page, event):
                _take(inline, part)
    return inline, tables


def _list_parts(page: Page, table: Event) -> Iterator[Event]:
    yield Event("open", "table", table.line, table.element)
    yield from list_events(page, table.element, table.line, tables=False)
    yield Event("close", "table", table.line, table.element)


def _take(inline: InlineText, event: Event) -> None:
    if inline.take(event) or event.value not in BLOCKS:
        return
    joint = _ITEMS.get(event.value, " ") if event.kind == "open" else " "
    parts = inline.parts
    while joint != " " and parts and not parts[-1].strip():
        parts.pop()
    is_joined = not parts or parts[-1].rstrip()[-1:] in (";", ",", ":", ".", "")
    if parts and joint != " ":
        parts[-1] = parts[-1].rstrip()
    parts.append(" " if is_joined else joint)


def _has_names(table: Element) -> bool:
    """Whether the first row of a nested table names its columns."""
    rows: Sequence[Element] = list(islice(find_own_parts(table, ("tr",)), 2))
    return len(rows) > 1 and len(rows[0]) > 1 and all(cell.tag == "th" for cell in rows[0])


def _find_row(cell: Element, table: Element) -> Element:
    """Return the row that contains a cell, or the element around the cell if it is not in a row."""
    for up in cell.iterancestors():
        if up.tag == "tr":
            return up
        if up is table:
            break
    return cell.getparent()


def _is_left_out(page: Page, cell: Element) -> bool:
    """Whether the browser hides a cell. The cells after a hidden cell move to the left."""
    if not is_hidden(cell):
        return False
    page.kinds["hidden parts"] += bool("".join(cell.itertext()).strip())
    return True


def _is_in_head(row: Element) -> bool:
    parent = row.getparent()
    return row.tag == "thead" or (parent is not None and parent.tag == "thead")


def _read_span(cell: Element, name: str) -> int:
    span = (cell.get(name) or "").strip()
    return int(span) if span.isdecimal() and len(span) <= _MAX_SPAN_DIGITS else 1
