"""Reads books in FictionBook (FB2) by converting each chapter to HTML."""

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import find_child, get_attribute, get_local_name
from hopsyncd.formats.blocks import Block, join_lines
from hopsyncd.formats.epub import make_chapter_blocks, with_title_page
from hopsyncd.formats.html import read_html

_OF_NOTES = ("notes", "comments")
_TAGS = {
    **dict.fromkeys(("v", "text-author"), "p"),
    **dict.fromkeys(("section", "poem", "stanza", "annotation"), "div"),
    **dict.fromkeys(("cite", "epigraph"), "blockquote"),
    **{"emphasis": "em", "empty-line": "hr", "image": "img", "strikethrough": "del"},
}
_PROPERTIES = {"book-title": "title", "lang": "language", "date": "date", "keywords": "keywords"}
_NAMES = ("first-name", "middle-name", "last-name")


def read_fiction_book(data: bytes) -> tuple[Block, ...]:
    """Read a book. Line numbers count its chapters, from 1. Notes follow the chapter that refers to
    them."""
    root = ElementTree.fromstring(data)
    bodies = list(root.iterfind("{*}body"))
    notes = {
        get_attribute(note, "id"): note
        for body in bodies
        if get_attribute(body, "name") in _OF_NOTES
        for note in body.iterfind(".//{*}section")
    }
    about = find_child(root, "description", "title-info")
    chapters = [
        part for body in bodies if get_attribute(body, "name") not in _OF_NOTES for part in body
    ]
    if about is not None:
        chapters = [*about.iterfind("{*}annotation"), *chapters]
    blocks: list[Block] = []
    for number, chapter in enumerate(chapters, 1):
        page = ElementTree.tostring(_rewrite(chapter, 1), "unicode", "html")
        blocks += make_chapter_blocks(read_html(page), "", number)
        for link in chapter.iterfind(".//{*}a"):
            note = notes.pop(get_attribute(link, "href").removeprefix("#"), None)
            if note is not None:
                text = join_lines(" ".join(note.itertext()))
                blocks.append(Block("note", text, number, number))
    metadata = () if about is None else tuple(_list_metadata(about))
    return with_title_page(blocks, metadata)


def _rewrite(element: Element, level: int) -> Element:
    """Convert an element of a book to HTML; the next title becomes a heading of level `level`."""
    name = get_local_name(element)
    if name in ("title", "subtitle"):
        heading = Element(f"h{min(level + (name == 'subtitle'), 6)}")
        heading.text = join_lines(" ".join(element.itertext()))
        return heading
    names = ("colspan", "rowspan", "alt")
    attributes = {key: get_attribute(element, key) for key in names if get_attribute(element, key)}
    written = Element(_TAGS.get(name, name), attributes)
    written.text = element.text
    for child in element:
        is_section = get_local_name(child) == "section" and name == "section"
        part = _rewrite(child, level + is_section)
        part.tail = child.tail
        written.append(part)
    return written


def _list_metadata(about: Element) -> Iterator[Element]:
    """Yield the title, the authors and other properties of a book, under their Dublin
    Core names."""
    for element in about:
        name, text = _PROPERTIES.get(get_local_name(element), ""), element.text
        if get_local_name(element) == "author":
            parts = (find_child(element, part) for part in _NAMES)
            name = "creator"
            text = " ".join(part.text or "" for part in parts if part is not None)
        if name and (text := join_lines(text or "")):
            found = Element(name)
            found.text = text
            yield found
