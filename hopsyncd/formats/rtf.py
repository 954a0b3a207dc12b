"""Rich text."""

from collections.abc import Iterator

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats import library
from hopsyncd.formats.blocks import Block

_CELL_END = "|"  # as striprtf writes it


def rtf_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a document; the lines of its blocks count paragraphs and table rows alike."""
    striprtf = library("striprtf.striprtf")
    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentUnreadable(
            "the document",
            "it is not what its name says: it does not begin as RTF does",
            "Give it the ending of what it is, or leave it out by an ignore pattern",
        )
    text = striprtf.rtf_to_text(data.decode("cp1252", "replace"), errors="replace")
    return tuple(_blocks(text))


def _blocks(text: str) -> Iterator[Block]:
    lines = filter(None, map(str.strip, text.split("\n")))
    for number, line in enumerate(lines, 1):
        if line.endswith(_CELL_END):
            cells = filter(None, (" ".join(cell.split()) for cell in line.split(_CELL_END)))
            if row := " | ".join(cells):
                yield Block("table", row, number, number)
        else:
            yield Block("paragraph", line, number, number)
