"""Reads files with many notes: exports of Evernote (`.enex`) and Joplin (`.jex`), and outlines
(`.opml`).

Each note is a section. The document has the tags and authors of all notes, and the date of the
newest change.
"""

import base64
import io
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from hopsyncd.formats.blocks import (
    Block,
    add_properties,
    count_skipped,
    join_lines,
    lower_headings,
    make_address_link,
    make_skipped_block,
)
from hopsyncd.formats.html import read_html
from hopsyncd.formats.joplin import NOTE, JoplinItem, parse_item
from hopsyncd.formats.mail import Extract, extract_attachment
from hopsyncd.formats.markdown import read_markdown

_CHECKED = re.compile(
    r"""<en-todo\b[^<>]{0,500}\bchecked\s*=\s*["']true["'][^<>]{0,500}>(?:</en-todo>)?"""
)
_TODO = re.compile(r"<en-todo\b[^<>]*>(?:</en-todo>)?")
_STEP = re.compile(
    r"""(<li\b[^<>]{0,500}--en-checked:\s*(true|false)[^<>]{0,500}>(?:\s*<div\b[^<>]*>)?)"""
)
_CRYPT = re.compile(r"<en-crypt\b[^<>]*>[^<>]*</en-crypt>")


@dataclass(frozen=True, slots=True)
class _Note:
    title: str
    body: tuple[Block, ...]
    created: str = ""
    modified: str = ""
    author: str = ""
    tags: tuple[str, ...] = ()
    address: str = ""


def _make_sections(notes: Iterable[_Note]) -> Iterator[Block]:
    """Yield the blocks of each note below its title and a line with its day, author and tags.

    Line numbers count the notes. The first block has the properties of the document.
    """
    blocks: list[Block] = []
    properties: set[tuple[str, str]] = set()
    skipped: Counter[str] = Counter()
    for number, note in enumerate(notes, 1):
        section = [Block("heading", note.title, number, number, level=1)]
        details = (
            f"Created {note.created[:10]}" if note.created else "",
            f"author: {note.author}" if note.author else "",
            f"tags: {', '.join(note.tags)}" if note.tags else "",
            f"source: {note.address}" if note.address else "",
        )
        if line := "; ".join(filter(None, details)):
            link = make_address_link(note.address, note.address) if note.address else None
            links = ((line.index(note.address), link),) if link else ()
            section.append(Block("paragraph", line, number, number, links=links))
        skipped.update(count_skipped(note.body))
        for block in lower_headings(note.body):
            if block.kind != "skipped":
                section.append(replace(block, first_line=number, last_line=number, properties=()))
        blocks += section
        properties.update(("tag", tag) for tag in note.tags)
        modified = note.modified or note.created
        properties |= {("author", note.author), ("created", note.created), ("modified", modified)}
    yield from add_properties(blocks, sorted(properties))
    if skipped:
        yield make_skipped_block(skipped)


def read_enex(data: bytes, extract: Extract) -> tuple[Block, ...]:
    """Read an export of Evernote; `extract` reads its attached documents."""
    root = ElementTree.fromstring(data)
    return tuple(_make_sections(_read_enex_note(note, extract) for note in root.iter("note")))


def _read_enex_note(note: Element, extract: Extract) -> _Note:
    def text(path: str) -> str:
        return join_lines(note.findtext(path) or "")

    tags = (join_lines(tag.text or "") for tag in note.iterfind("tag"))
    return _Note(
        text("title") or "Untitled",
        (*_read_enml(note.findtext("content") or ""), *_read_resources(note, extract)),
        _format_date(text("created")),
        _format_date(text("updated")),
        text("note-attributes/author"),
        tuple(dict.fromkeys(filter(None, tags))),
        text("note-attributes/source-url"),
    )


def _format_date(text: str) -> str:
    with suppress(ValueError):
        return datetime.fromisoformat(text).isoformat()
    return ""


def _read_enml(content: str) -> Iterator[Block]:
    """Read the content of a note. Encrypted text is left out and counted."""
    content, encrypted = _CRYPT.subn("", content)
    content = _TODO.sub("[ ] ", _CHECKED.sub("[x] ", content))
    content = _STEP.sub(lambda step: f"{step[1]}[{' x'[step[2] == 'true']}] ", content)
    yield from read_html(content)
    if encrypted:
        yield make_skipped_block({"encrypted text": encrypted})


def _read_resources(note: Element, extract: Extract) -> Iterator[Block]:
    """Read the attached documents of a note, each below its name."""
    for resource in note.iterfind("resource"):
        kind = join_lines(resource.findtext("mime") or "")
        name = join_lines(resource.findtext("resource-attributes/file-name") or "")
        blocks: tuple[Block, ...] = ()
        if not kind.startswith(("image/", "audio/", "video/")):
            with suppress(ValueError):
                data = base64.b64decode(resource.findtext("data") or "")
                blocks = extract_attachment(data, kind, extract)
        if blocks:
            yield Block("heading", name or "Attachment", 1, 1, level=1)
            yield from (replace(block, names=()) for block in lower_headings(blocks))
        else:
            is_picture = kind.startswith("image/")
            yield make_skipped_block({"pictures" if is_picture else "attachments": 1})


def read_jex(data: bytes) -> tuple[Block, ...]:
    """Read an export of Joplin, a tar archive of its notes, notebooks and tags."""
    items: dict[str, JoplinItem] = {}
    attachments = 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if not member.isfile() or member.issparse():
                continue
            if not member.name.endswith(".md"):
                attachments += 1
            elif file := archive.extractfile(member):
                text = file.read().decode("utf-8", "replace").replace("\r\n", "\n")
                if item := parse_item(text):
                    items[item.fields.get("id", member.name)] = item
    tags: dict[str, list[str]] = {}
    for item in items.values():
        if item.fields.get("tag_id") in items:
            tags.setdefault(item.fields.get("note_id", ""), []).append(
                items[item.fields["tag_id"]].title
            )
    notes = (
        _make_joplin_note(item, tags.get(id_, []), items)
        for id_, item in items.items()
        if item.kind == NOTE
    )
    blocks = tuple(_make_sections(notes))
    return (*blocks, make_skipped_block({"attachments": attachments})) if attachments else blocks


def _make_joplin_note(item: JoplinItem, tags: list[str], items: dict[str, JoplinItem]) -> _Note:
    notebook = items.get(item.fields.get("parent_id", ""))
    place = (Block("paragraph", f"Notebook: {notebook.title}", 1, 1),) if notebook else ()
    return _Note(
        item.title or "Untitled",
        (*place, *read_markdown(item.body)),
        item.created,
        item.modified,
        item.fields.get("author", ""),
        tuple(tags),
        item.fields.get("source_url", ""),
    )


_MAX_DEPTH = 50


def read_opml(data: bytes) -> tuple[Block, ...]:
    """Read an outline or a list of feeds: the top items are headings if others are below them."""
    root = ElementTree.fromstring(data)
    title = join_lines(root.findtext("head/title") or "")
    blocks = [Block("heading", title, 1, 1, level=1)] if title else []
    number = 0
    for item in root.iterfind("body/outline"):
        for below, depth in _walk_outline(item, 0):
            number += 1
            text = join_lines(below.get("text") or below.get("title") or "")
            address = below.get("htmlUrl") or below.get("url") or below.get("xmlUrl") or ""
            link = make_address_link(address, text) if address else None
            links = ((0, link),) if link else ()
            if depth == 0 and len(below):
                blocks.append(Block("heading", text, number, number, 2, links))
            else:
                shown = "  " * max(depth - 1, 0) + text
                blocks.append(Block("list_item", shown, number, number, links=links))
            if note := join_lines(below.get("_note") or below.get("description") or ""):
                blocks.append(Block("paragraph", note, number, number))
    return tuple(blocks)


def _walk_outline(item: Element, depth: int) -> Iterator[tuple[Element, int]]:
    yield item, depth
    if depth < _MAX_DEPTH:
        for below in item.iterfind("outline"):
            yield from _walk_outline(below, depth + 1)
