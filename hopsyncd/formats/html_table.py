"""Tables of pages: each cell goes into the grid, with its content as one line."""

from hopsyncd.formats.html_text import BLOCKS, InlineText
from hopsyncd.formats.html_tree import Element, Page, events_of, own_parts
from hopsyncd.formats.tables import Table, TableBuilder

_ITEMS = {"li": "; ", "tr": "; ", "dt": "; ", "td": ", ", "th": ", ", "dd": ": "}
_MAX_SPAN_DIGITS = 5


def table_of(page: Page, table: Element, line: int) -> tuple[Table, list[str]]:
    """Read a table that begins at a line; also how words in it are pronounced."""
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
    """The text of a cell or caption; items and cells inside it are kept separate."""
    inline = InlineText()
    for event in events_of(page, element, line, tables=False):
        if inline.take(event) or event.value not in BLOCKS:
            continue
        joint = _ITEMS.get(event.value, " ") if event.what == "open" else " "
        parts = inline.parts
        while joint != " " and parts and not parts[-1].strip():
            parts.pop()
        is_joined = not parts or parts[-1].rstrip()[-1:] in (";", ",", ":", ".", "")
        if parts and joint != " ":
            parts[-1] = parts[-1].rstrip()
        parts.append(" " if is_joined else joint)
    return inline


def _is_in_head(row: Element) -> bool:
    parent = row.getparent()
    return row.tag == "thead" or (parent is not None and parent.tag == "thead")


def _span(cell: Element, name: str) -> int:
    span = (cell.get(name) or "").strip()
    return int(span) if span.isdecimal() and len(span) <= _MAX_SPAN_DIGITS else 1
