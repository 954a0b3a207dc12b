"""Reads tables of pages: each cell goes into the grid, with its content in one line."""

from hopsyncd.formats.html_text import BLOCKS, InlineText
from hopsyncd.formats.html_tree import Element, Page, events_of, own_parts
from hopsyncd.formats.tables import Table, TableBuilder

_ITEMS = {"li": "; ", "tr": "; ", "dt": "; ", "td": ", ", "th": ", ", "dd": ": "}
_MAX_SPAN_DIGITS = 5
_MAX_NAME_CHARACTERS = 60  # of a column in a table inside a cell


def table_of(page: Page, table: Element, line: int) -> tuple[Table, list[str]]:
    """Read a table that begins at a line. Also returns the pronunciations of words in it."""
    builder = TableBuilder()
    readings: list[str] = []
    row = None
    for part in own_parts(table, ("caption", "tr", "td", "th")):
        line = page.line_of(part, line)
        if part.tag == "caption":
            builder.caption = " ".join(text_of(page, part, line).take_text()[0].split())
            continue
        parent = part if part.tag == "tr" else part.getparent()
        if parent is not row:  # a cell outside rows begins one too
            row = parent
            builder.begin_row(line, is_header=_is_in_head(parent))
        if part.tag == "tr":
            continue
        inline = text_of(page, part, line)
        text, links = inline.take_text()
        if not text and inline.pictures:
            text = ", ".join(inline.pictures)
        builder.add(
            text,
            is_header=part.tag == "th",
            rowspan=_span(part, "rowspan"),
            colspan=max(1, _span(part, "colspan")),
            links=links,
        )
        builder.extend_row(inline.lines[1])
        readings += inline.readings
    return builder.build(), readings


def text_of(page: Page, element: Element, line: int) -> InlineText:
    """The text of a cell or caption. Items and cells inside it are separated."""
    inline = InlineText()
    inner = _InnerTables(inline)
    for event in events_of(page, element, line, tables=False):
        if inline.take(event) or event.value not in BLOCKS:
            continue
        if event.value == "tr" and event.what == "close":
            inner.end_row(event.element)
            continue
        joint = _ITEMS.get(event.value, " ") if event.what == "open" else " "
        parts = inline.parts
        while joint != " " and parts and not parts[-1].strip():
            parts.pop()
        is_joined = not parts or parts[-1].rstrip()[-1:] in (";", ",", ":", ".", "")
        if parts and joint != " ":
            parts[-1] = parts[-1].rstrip()
        parts.append(" " if is_joined else joint)
        if event.what == "open":
            inner.begin(event.element)
    return inline


class _InnerTables:
    """Adds column names to the values of tables inside a cell."""

    def __init__(self, inline: InlineText) -> None:
        self._inline = inline
        self._names: dict[Element, list[str]] = {}  # by table
        # By row of names: the parts of the text, and the links, before it.
        self._starts: dict[Element, tuple[int, int]] = {}
        self._columns: dict[Element, int] = {}  # by row: the cells so far

    def begin(self, element: Element) -> None:
        """Begin a row or a cell; `element` opens it."""
        if element.tag == "tr":
            self._columns[element] = 0
            if len(element) > 1 and all(cell.tag == "th" for cell in element):
                self._starts[element] = len(self._inline.parts), len(self._inline.links)
            return
        row = element.getparent()
        if element.tag not in ("td", "th") or row not in self._columns:
            return
        column = self._columns[row]
        self._columns[row] += 1
        names = self._names.get(_table_around(row), [])
        if column < len(names) and names[column]:
            self._inline.parts.append(f"{names[column]}: ")

    def end_row(self, row: Element) -> None:
        """End a row. A row of names is left out; the names are written before the values
        below it."""
        start = self._starts.pop(row, None)
        table = _table_around(row)
        if start is None or table is None or table in self._names:
            return
        if len(self._inline.links) > start[1]:
            return  # its links need their places in the text
        names = [" ".join("".join(cell.itertext()).split()) for cell in row]
        has_rows = row.getnext() is not None or row.getparent().tag == "thead"
        if has_rows and all(len(name) <= _MAX_NAME_CHARACTERS for name in names):
            self._names[table] = names
            del self._inline.parts[start[0] :]


def _table_around(row: Element) -> Element:
    return next(row.iterancestors("table"), None)


def _is_in_head(row: Element) -> bool:
    parent = row.getparent()
    return row.tag == "thead" or (parent is not None and parent.tag == "thead")


def _span(cell: Element, name: str) -> int:
    span = (cell.get(name) or "").strip()
    return int(span) if span.isdecimal() and len(span) <= _MAX_SPAN_DIGITS else 1
