"""OpenDocument texts."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import local_name, opened, outermost, tree_of
from hopsyncd.formats.blocks import Block, Kind
from hopsyncd.formats.fields import table_texts

_SPELLED = {"s": " ", "tab": "\t", "line-break": "\n"}
# Deleted text, text that only repeats other text, and annotations.
_LEFT_OUT = ("tracked-changes", "table-of-content", "annotation", "note-citation")


def odt_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a document; the lines of its blocks count paragraphs, headings and table rows alike."""
    body = tree_of(opened(data), "content.xml").find("{*}body/{*}text")
    told = () if body is None else _told(body, "paragraph")
    return tuple(
        Block(kind, text, number, number, level)
        for number, (kind, text, level) in enumerate(told, 1)
    )


def _told(parent: Element, usual: Kind) -> Iterator[tuple[Kind, str, int]]:
    """Yield kind, text and level of all that has text, in reading order."""
    for child in parent:
        name = local_name(child)
        if name in ("p", "h"):
            yield from _paragraph(child, usual)
        elif name == "table":
            yield from _rows(child)
        elif name not in _LEFT_OUT:
            yield from _told(child, "list_item" if name == "list-item" else usual)


def _paragraph(paragraph: Element, usual: Kind) -> Iterator[tuple[Kind, str, int]]:
    text = "".join(_text(paragraph)).strip()
    if text and local_name(paragraph) == "h":
        said = next((v for k, v in paragraph.items() if k.endswith("}outline-level")), "1")
        yield "heading", " ".join(text.split()), min(max(int(said), 1), 6)
    elif text:
        yield usual, text, 0
    for note in paragraph.iterfind(".//{*}note-body"):
        yield from _told(note, "paragraph")


def _rows(table: Element) -> Iterator[tuple[Kind, str, int]]:
    rows = [
        [" ".join("".join(_text(cell)).split()) for cell in outermost(row, "table-cell")]
        for row in outermost(table, "table-row")
    ]
    for row, text in zip(rows, table_texts(rows), strict=True):
        if any(row):
            yield "table", text, 0


def _text(element: Element) -> Iterator[str]:
    yield " ".join((element.text or "").split("\n"))
    for child in element:
        name = local_name(child)
        if name in _SPELLED:
            yield _SPELLED[name]
        elif name not in (*_LEFT_OUT, "note-body"):
            yield from _text(child)
            yield "\n" if name in ("p", "h") else ""
        yield " ".join((child.tail or "").split("\n"))
