"""Slides of PowerPoint."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import local_name, opened, relation_of, targets_of, tree_of
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.fields import table_texts

_DECK = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_SLIDE_FURNITURE = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def pptx_blocks(data: bytes) -> tuple[Block, ...]:
    """Read slides; the lines of its blocks are slide numbers, hidden slides included."""
    archive = opened(data)
    targets = targets_of(archive, _DECK)
    blocks: list[Block] = []
    for number, entry in enumerate(tree_of(archive, _DECK).iterfind(".//{*}sldId"), 1):
        _, name = targets[relation_of(entry)]
        blocks += _slide(tree_of(archive, name), number)
        for kind, other in targets_of(archive, name).values():
            if kind == "notesSlide":
                blocks += _notes(tree_of(archive, other), number)
    return tuple(blocks)


def _slide(slide: Element, number: int) -> Iterator[Block]:
    # A slide without a title must not stand under the one before.
    titles = [" ".join(_paragraphs(shape)) for shape in _shapes(slide, _TITLES)]
    yield Block("heading", " ".join(filter(None, titles)), number, number, level=1)
    for shape in slide.iter():
        name = local_name(shape)
        if name == "tbl":
            rows = [
                [" ".join(_paragraphs(cell)) for cell in row.iterfind("{*}tc")]
                for row in shape.iterfind("{*}tr")
            ]
            for text in table_texts(rows):
                yield Block("table", text, number, number)
        elif name == "sp" and _placeholder(shape) not in (*_TITLES, *_SLIDE_FURNITURE):
            for text in _paragraphs(shape):
                yield Block("paragraph", text, number, number)


def _notes(notes: Element, number: int) -> Iterator[Block]:
    texts = [text for shape in _shapes(notes, ("body",)) for text in _paragraphs(shape)]
    if texts:
        yield Block("heading", "Notes", number, number, level=2)
    for text in texts:
        yield Block("paragraph", text, number, number)


def _shapes(slide: Element, placeholders: tuple[str, ...]) -> Iterator[Element]:
    for shape in slide.iter():
        if local_name(shape) == "sp" and _placeholder(shape) in placeholders:
            yield shape


def _placeholder(shape: Element) -> str:
    found = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return "" if found is None else found.get("type", "obj")


def _paragraphs(shape: Element) -> Iterator[str]:
    for paragraph in shape.iterfind("{*}txBody/{*}p"):
        parts = (
            " " if local_name(part) == "br" else part.text or ""
            for part in paragraph.iter()
            if local_name(part) in ("t", "br")
        )
        text = " ".join("".join(parts).split())
        if text:
            yield text
