"""Reads PDF: the text of pages in reading order, with tables, form fields and notes."""

import base64
import logging
import math
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats import import_library
from hopsyncd.formats.blocks import Block, make_skipped_block
from hopsyncd.formats.images import encode_gray_png, make_no_text_error
from hopsyncd.formats.pdf_annotations import AnnotationReader, Drawn, read_drawing, read_drawn_notes
from hopsyncd.formats.pdf_blocks import Headings, Page, find_running_lines, read_page
from hopsyncd.formats.pdf_layout import arrange, mark_shades
from hopsyncd.formats.pdf_metadata import Bookmark, read_bookmarks, read_properties
from hopsyncd.formats.pdf_text import read_text
from hopsyncd.formats.pdf_unicode_maps import repair_unicode_maps

_PICTURE_SCALE = 300 / 72  # to 300 dots an inch, the resolution that text recognition expects
_MOST_PICTURE_PIXELS = 12_000_000  # A4 at that scale has 9 million
_SCANNED = 0.7  # A page with hardly any text is a scan if pictures cover this share of it.
_FEW_LETTERS = 100


@dataclass(slots=True)
class _Document:
    pages: list[Page] = field(default_factory=list)
    bookmarks: list[Bookmark] = field(default_factory=list)
    names: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()


def read_pdf(data: bytes, with_pictures: bool = False) -> tuple[Block, ...]:
    """Read a PDF; line numbers are page numbers.

    With `with_pictures`, each scanned page also yields a `picture` block. Raises DocumentUnreadable
    if the PDF has no text or needs a password, or if the file is not a PDF.
    """
    document = _read(data)
    skipped: Counter[str] = Counter()
    running = find_running_lines(document.pages)
    if all(id(item) in running for page in document.pages for item in page.items):
        running = set()  # nothing would be left
    skipped["page headers and footers that repeat"] = len(running)
    headings = Headings(document.pages, document.bookmarks, running)
    blocks: list[Block] = []
    for page in document.pages:
        if page.is_scan and with_pictures:
            blocks.append(Block("picture", str(page.number), page.number, page.number))
        elif page.is_scan:
            skipped["scanned pages"] += 1
        blocks += read_page(page, headings)
    if document.pages and not blocks:
        raise make_no_text_error(
            "Install tesseract (docs/install.md), add the text with another OCR program, or add"
            " the file to `ignore`"
        )
    if blocks and blocks[0].kind != "picture":
        first = replace(blocks[0], names=document.names, properties=document.properties)
        blocks[0] = first
    if any(skipped.values()):
        blocks.append(make_skipped_block(skipped))
    return tuple(blocks)


def render_page(data: bytes, number: int) -> Block:
    """Render the page `number`, counted from 1, as a grayscale PNG in base64, large enough for text
    recognition."""
    with open_pdf(data) as document, closing(document[number - 1]) as page:
        width, height = page.get_size()
        scale = min(_PICTURE_SCALE, math.sqrt(_MOST_PICTURE_PIXELS / max(width * height, 1.0)))
        bitmap = page.render(scale=scale, grayscale=True)
        pixels, stride, across = memoryview(bitmap.buffer), bitmap.stride, bitmap.width
        rows = (bytes(pixels[row * stride : row * stride + across]) for row in range(bitmap.height))
        png = encode_gray_png(across, bitmap.height, rows)
    return Block("picture", base64.b64encode(png).decode(), number, number)


def open_pdf(data: bytes) -> Any:
    """Open a PDF with pypdfium2. Raises DocumentUnreadable if the file is not a PDF or needs a
    password."""
    pypdfium2 = import_library("pypdfium2")
    raw = pypdfium2.raw
    logging.getLogger("pypdfium2").setLevel(logging.ERROR)  # warns about irrelevant parts
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError:
        if raw.FPDF_GetLastError() != raw.FPDF_ERR_PASSWORD:
            raise DocumentUnreadable(
                "the document",
                "Not a valid PDF",
                "Export the PDF again, or add it to `ignore`",
            ) from None
        raise DocumentUnreadable(
            "the document",
            "the PDF is protected by a password",
            "Save a copy without the password, or add it to `ignore`",
        ) from None


def load_forms(document: Any, raw: Any) -> None:
    """Load the form fields of a PDF, if it has any. `raw` is pypdfium2's module of PDFium
    functions."""
    if document.get_formtype() in (raw.FORMTYPE_ACRO_FORM, raw.FORMTYPE_XFA_FOREGROUND):
        document.init_forms()


def _read(data: bytes) -> _Document:
    raw = import_library("pypdfium2").raw
    read = _Document()
    with open_pdf(repair_unicode_maps(data)) as document:
        load_forms(document, raw)
        read.names, read.properties = read_properties(document)
        read.bookmarks = list(read_bookmarks(document))
        for index in range(len(document)):
            with closing(document[index]) as page:
                read.pages.append(_read_page(document, page, raw, index + 1))
    return read


def _read_page(document: Any, page: Any, raw: Any, number: int) -> Page:
    with closing(page.get_textpage()) as text_page:
        text, quarters = read_text(text_page, raw, page.get_rotation() // 90)
    drawn = read_drawing(page, raw, quarters)
    annotations = AnnotationReader(document, page, raw, quarters).read()
    notes = [*annotations.notes, *read_drawn_notes(document, page, raw, number, annotations.drawn)]
    is_scan = _is_scan(drawn, sum(len(span.text) for span in text.spans))
    for span in annotations.spans:
        span.order = len(text.spans)
        text.spans.append(span)
    if drawn.fills:
        mark_shades(text.spans, drawn.fills)
    items = arrange(text, drawn.rules, number)
    return Page(number, items, notes, annotations.links, is_scan)


def _is_scan(drawn: Drawn, letters: int) -> bool:
    if not letters:
        return drawn.pictured > 0
    return drawn.pictured >= _SCANNED and letters < _FEW_LETTERS
