"""Reads EPUB books: chapters in reading order below the title, and the book's metadata."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from posixpath import dirname, join, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError
from zipfile import BadZipFile, ZipFile

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.archive import (
    find_child,
    get_attribute,
    get_local_name,
    open_archive,
    parse_member,
)
from hopsyncd.formats.blocks import Block, count_skipped, join_lines, make_skipped_block, with_title
from hopsyncd.formats.decode import decode
from hopsyncd.formats.html import read_html
from hopsyncd.formats.office_text import read_metadata, with_metadata

_CONTAINER = "META-INF/container.xml"
# Most programs write the same title into each file, and readers do not show it.
_TITLE = re.compile(r"<title\b[^<>]*>[^<]*</title\s*>", re.IGNORECASE)
_DAMAGES = (BadZipFile, zlib.error, DocumentUnreadable, ValueError, NotImplementedError, EOFError)
_CONTENTS, _DAMAGED = "tables of contents", "damaged chapters"


def read_epub(data: bytes) -> tuple[Block, ...]:
    """Read a book. Line numbers count the book's content files in reading order, from 1.

    A damaged chapter is left out and counted. Raises DocumentUnreadable if all chapters are
    damaged.
    """
    archive = open_archive(data)
    root = parse_member(archive, _CONTAINER).find(".//{*}rootfile")
    package = "" if root is None else root.get("full-path", "")
    tree = parse_member(archive, package)
    items = {item.get("id"): item for item in tree.iterfind(".//{*}manifest/{*}item")}
    names = {id_: _resolve_member(package, item.get("href", "")) for id_, item in items.items()}
    titles = _read_titles(archive, [(item, names[id_]) for id_, item in items.items()])
    blocks: list[Block] = []
    skipped: Counter[str] = Counter()
    for number, entry in enumerate(tree.iterfind(".//{*}spine/{*}itemref"), 1):
        name = names.get(entry.get("idref"), "")
        if name not in archive.NameToInfo:
            continue
        if "nav" in items[entry.get("idref")].get("properties", "").split():
            skipped[_CONTENTS] += 1
            continue
        try:
            page = decode(archive.read(name), kind="text/html")
            chapter = read_html(_TITLE.sub("", page))
        except _DAMAGES:
            skipped[_DAMAGED] += 1
            continue
        skipped.update(count_skipped(chapter))
        blocks += make_chapter_blocks(chapter, titles.get(name, ""), number)
    if skipped[_DAMAGED] and not blocks:
        raise DocumentUnreadable(
            "the document",
            "all chapters of the book are damaged",
            "Download the book again, or add it to `ignore`",
        )
    metadata = find_child(tree, "metadata")
    titled = with_title_page(blocks, () if metadata is None else tuple(_list_leaves(metadata)))
    return (*titled, make_skipped_block(skipped)) if skipped.total() else titled


def _resolve_member(package: str, href: str) -> str:
    return normpath(join(dirname(package), unquote(href.partition("#")[0])))


def _list_leaves(metadata: Element) -> Iterator[Element]:
    for element in metadata.iter():
        if get_attribute(element, "property") != "dcterms:modified":
            yield element
        elif element.text:
            changed = Element("modified")
            changed.text = element.text
            yield changed


def make_chapter_blocks(chapter: tuple[Block, ...], title: str, number: int) -> Iterator[Block]:
    """Yield a chapter's blocks with the line number `number`, below a level-1 heading. The text of
    that heading is `title`, or empty if the chapter has a heading of its own. Skipped blocks are
    left out, and the blocks' names and properties are removed."""
    has_heading = any(block.level and block.text for block in chapter)
    # A chapter without a title must not be nested in the previous chapter.
    yield Block("heading", "" if has_heading else title, number, number, level=1)
    for block in chapter:
        if block.kind != "skipped":
            chapter_block = replace(
                block, first_line=number, last_line=number, names=(), properties=()
            )
            yield chapter_block


def with_title_page(blocks: list[Block], metadata: tuple[Element, ...]) -> tuple[Block, ...]:
    """Put the title and authors in a book's metadata above the book's blocks, and add all metadata
    to the first block."""
    titles, properties = read_metadata(metadata)
    below = with_title(tuple(blocks), titles[0] if titles else "", 1, is_certain=True)
    authors = [value for name, value in properties if name == "author"]
    if below and authors and titles:
        position = 1 if below[0].text else 0
        line = Block("paragraph", f"Author: {', '.join(authors)}", 1, 1)
        below = (*below[:position], line, *below[position:])
    return with_metadata(below, titles, properties)


def _read_titles(archive: ZipFile, items: list[tuple[Element, str]]) -> dict[str, str]:
    """Return the first title of each file in the table of contents, by member name. `items` are the
    elements of the manifest with their member names."""
    titles: dict[str, str] = {}
    for item, name in items:
        is_nav = "nav" in item.get("properties", "").split()
        is_ncx = item.get("media-type") == "application/x-dtbncx+xml"
        if not (is_nav or is_ncx) or name not in archive.NameToInfo:
            continue
        try:
            tree = parse_member(archive, name)
        except (ParseError, *_DAMAGES):
            continue
        for part in tree.iter():
            if is_nav and get_local_name(part) == "a":
                target, text = part.get("href", ""), "".join(part.itertext())
            elif is_ncx and get_local_name(part) == "navPoint":
                content, label = find_child(part, "content"), find_child(part, "navLabel")
                target = "" if content is None else content.get("src", "")
                text = "" if label is None else "".join(label.itertext())
            else:
                continue
            if text := join_lines(text):
                titles.setdefault(_resolve_member(name, target), text)
    return titles
