"""Office documents other than DOCX, and books: ODT, RTF, XLSX, PPTX, EPUB, in bounded archives."""

import io
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, time
from itertools import groupby
from posixpath import dirname, join, normpath
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats import library
from hopsyncd.formats.blocks import Block, Kind
from hopsyncd.formats.decode import decode
from hopsyncd.formats.fields import cell_texts, labels_of, table_texts
from hopsyncd.formats.html import html_blocks
from hopsyncd.formats.units import cell_number

_MAX_BYTES = 256 << 20
_MAX_MEMBERS = 10_000
_RELATION_ID = "}id"


def opened(data: bytes) -> ZipFile:
    """Open an archive. Raises DocumentUnreadable if it declares too large a content.

    A member is never read beyond the size that the archive states for it.
    """
    archive = ZipFile(io.BytesIO(data))
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if size > _MAX_BYTES or len(members) > _MAX_MEMBERS:
        raise DocumentUnreadable(
            "the document",
            f"it unpacks to {size >> 20} MiB in {len(members)} files; the limits are"
            f" {_MAX_BYTES >> 20} MiB and {_MAX_MEMBERS}",
            "Leave it out by an ignore pattern, or save it in smaller parts",
        )
    return archive


def tree_of(archive: ZipFile, name: str) -> ElementTree.Element:
    """Parse one member as XML."""
    return ElementTree.fromstring(archive.read(name))


def relation_of(element: ElementTree.Element) -> str:
    """The id of the relation that an element names; empty without one."""
    return next((value for key, value in element.items() if key.endswith(_RELATION_ID)), "")


def targets_of(archive: ZipFile, name: str) -> dict[str, tuple[str, str]]:
    """The targets of the relations of a member: id to (kind, name of the member).

    The empty name asks for those of the file itself.
    """
    folder, _, base = name.rpartition("/")
    relations = f"{folder}/_rels/{base}.rels".lstrip("/")
    if relations not in archive.namelist():
        return {}
    return {
        one.get("Id", ""): (
            one.get("Type", "").rpartition("/")[2],
            normpath(join("/" + dirname(name), one.get("Target", ""))).lstrip("/"),
        )
        for one in tree_of(archive, relations)
    }


def local_name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def outermost(parent: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of that name below this one, but none inside another of them."""
    for child in parent:
        if local_name(child) == name:
            yield child
        else:
            yield from outermost(child, name)


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


_MAX_ROW_CHARACTERS = 1_000  # a longer row is split into its cells

Row = tuple[int, list[str]]


def xlsx_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a workbook: a heading for each sheet, a block for each row; lines are cell numbers.

    Formulas give the values that the file was saved with.
    """
    openpyxl = library("openpyxl")
    opened(data)  # refuses one that unpacks to too much
    blocks: list[Block] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # files declare wrong ones
            blocks.append(Block("heading", sheet.title, 1, 1, level=1))
            for table in _tables(sheet.iter_rows(values_only=True)):
                blocks += _table(table)
    return tuple(blocks)


def _tables(rows: Iterable[tuple[object, ...]]) -> Iterator[list[Row]]:
    """Yield the runs of rows between empty ones."""
    texts = ((number, [_cell_text(value) for value in row]) for number, row in enumerate(rows, 1))
    for filled, run in groupby(texts, key=lambda row: any(row[1])):
        if filled:
            yield list(run)


def _table(rows: list[Row]) -> Iterator[Block]:
    first = min(next(n for n, cell in enumerate(cells, 1) if cell) for _, cells in rows)
    last = max(n for _, cells in rows for n, cell in enumerate(cells, 1) if cell)
    labels = labels_of(rows[0][1][first - 1 : last]) if len(rows) > 1 else ()
    for number, cells in rows[1:] if labels else rows:
        texts = cell_texts(cells[first - 1 : last], labels)
        text = " | ".join(filter(None, texts))
        if len(text) <= _MAX_ROW_CHARACTERS:
            yield Block("table", text, cell_number(number, first), cell_number(number, last))
            continue
        for column, one in enumerate(texts, first):
            place = cell_number(number, column)
            yield Block("table", one, place, place)


def _cell_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return "" if value is None else " ".join(str(value).split())


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


_CONTAINER = "META-INF/container.xml"


def epub_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a book; the lines of its blocks number the files of its reading order, from 1."""
    archive = opened(data)
    root = tree_of(archive, _CONTAINER).find(".//{*}rootfile")
    package = "" if root is None else root.get("full-path", "")
    tree = tree_of(archive, package)
    files = {
        item.get("id"): normpath(join(dirname(package), unquote(item.get("href", ""))))
        for item in tree.iterfind(".//{*}manifest/{*}item")
    }
    blocks: list[Block] = []
    for number, entry in enumerate(tree.iterfind(".//{*}spine/{*}itemref"), 1):
        name = files.get(entry.get("idref"))
        if name in archive.namelist():
            # A chapter without a heading must not stand under the one before.
            blocks.append(Block("heading", "", number, number, level=1))
            blocks += (
                replace(block, first_line=number, last_line=number)
                for block in html_blocks(decode(archive.read(name), kind="text/html"))
            )
    return tuple(blocks)
