"""Bytes and a media type to blocks: which reader reads what."""

import re
from collections.abc import Callable
from functools import partial

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.asciidoc import asciidoc_blocks
from hopsyncd.formats.blocks import Block, tidy
from hopsyncd.formats.calendars import calendar_blocks
from hopsyncd.formats.content_type import DOC, OFFICE_TYPES, PPT, refuse_old_office, type_of_content
from hopsyncd.formats.data_rows import canvas_blocks, csv_blocks, json_blocks
from hopsyncd.formats.decode import decode
from hopsyncd.formats.docx import docx_blocks
from hopsyncd.formats.epub import epub_blocks
from hopsyncd.formats.html import html_blocks
from hopsyncd.formats.images import IMAGES, is_worth_reading
from hopsyncd.formats.mail import CALENDAR, MAIL, mail_blocks, mbox_blocks
from hopsyncd.formats.markdown import markdown_blocks
from hopsyncd.formats.odt import odp_blocks, odt_blocks
from hopsyncd.formats.outlook import outlook_blocks
from hopsyncd.formats.pdf import page_picture, pdf_blocks
from hopsyncd.formats.plain import plain_blocks
from hopsyncd.formats.pptx import pptx_blocks
from hopsyncd.formats.rtf import rtf_blocks
from hopsyncd.formats.source_code import notebook_blocks, python_blocks, source_blocks
from hopsyncd.formats.spreadsheet import ods_blocks, xls_blocks, xlsx_blocks
from hopsyncd.formats.units import (
    CANVAS,
    DOCX,
    EPUB,
    IPYNB,
    MBOX,
    ODP,
    ODS,
    ODT,
    OUTLOOK,
    PDF,
    PPTX,
    RTF,
    XLS,
    XLSX,
)

PICTURES, PICTURE_OF_PAGE = "; pictures", "; picture-of-page="
"""After a media type, what the daemon asks a worker for beside the text."""

Extract = Callable[[bytes, str], tuple[Block, ...]]

_TAG = re.compile(rb"<[a-zA-Z/!?]")

_TEXT: dict[str, Callable[[str], tuple[Block, ...]]] = {
    "text/markdown": markdown_blocks,
    "text/plain": plain_blocks,
    "text/html": html_blocks,
    "text/x-python": python_blocks,
    "text/x-source": source_blocks,
}


def _rst_blocks(text: str) -> tuple[Block, ...]:
    # Only the process that reads needs docutils.
    from hopsyncd.formats.rst import rst_blocks

    return rst_blocks(text)


_DATA: dict[str, Callable[[str], tuple[Block, ...]]] = {
    "text/x-rst": _rst_blocks,
    "text/asciidoc": asciidoc_blocks,
    "text/csv": csv_blocks,
    CALENDAR: calendar_blocks,
    "application/json": json_blocks,
    IPYNB: notebook_blocks,
    CANVAS: canvas_blocks,
}


def _mail_blocks(data: bytes) -> tuple[Block, ...]:
    return mail_blocks(data, extract)


def _mbox_blocks(data: bytes) -> tuple[Block, ...]:
    return mbox_blocks(data, extract)


def _outlook_blocks(data: bytes) -> tuple[Block, ...]:
    return outlook_blocks(data, extract)


_BINARY: dict[str, Callable[[bytes], tuple[Block, ...]]] = {
    PDF: pdf_blocks,
    DOCX: docx_blocks,
    ODP: odp_blocks,
    ODT: odt_blocks,
    RTF: rtf_blocks,
    PPTX: pptx_blocks,
    XLSX: xlsx_blocks,
    XLS: xls_blocks,
    ODS: ods_blocks,
    EPUB: epub_blocks,
    MAIL: _mail_blocks,
    MBOX: _mbox_blocks,
    OUTLOOK: _outlook_blocks,
}


def extract(data: bytes, media_type: str) -> tuple[Block, ...]:
    """Read a document into blocks, in reading order.

    `media_type` may carry parameters; of these `charset` is honoured where the bytes are not
    UTF-8. An unknown `text/` type is read as plain text. An empty document has no blocks.
    For the types that `is_light` names, the time is linear in the size, whatever the bytes are.

    Raises DocumentUnreadable for bytes that are no text, and for a type that no extractor reads;
    ReaderUnavailable where a library is absent.
    """
    if is_light(media_type, data):
        return tidy(_blocks(data, media_type))
    return _sound(partial(_blocks, data, media_type))


def extract_or_picture(data: bytes, media_type: str) -> tuple[Block, ...]:
    """As `extract`; after PICTURES, also a block of kind `picture` where one may show text.

    After PICTURE_OF_PAGE and a number, that page of a PDF as one such block, with the picture.
    """
    kind, _, number = media_type.partition(PICTURE_OF_PAGE)
    if number:
        return _sound(lambda: (page_picture(data, int(number)),))
    if not kind.endswith(PICTURES):
        return extract(data, media_type)
    if kind_of(kind) in IMAGES:
        return _sound(lambda: (Block("picture", "1", 1, 1),) if is_worth_reading(data) else ())
    return _sound(lambda: pdf_blocks(data, with_pictures=True) if data else ())


def _sound(read: Callable[[], tuple[Block, ...]]) -> tuple[Block, ...]:
    """Run a reader. Raises DocumentUnreadable if the reader fails with any other error."""
    try:
        return tidy(read())
    except (DocumentUnreadable, ReaderUnavailable, MemoryError):
        raise
    except Exception as error:
        parts = " ".join(str(error).split())[:200].rstrip(".").split(": ")
        said = ": ".join(dict.fromkeys((type(error).__name__, *parts)))  # some say all of it twice
        raise DocumentUnreadable(
            "the document",
            f"it is damaged, or not what its name says ({said})",
            "Save it again in its own program, or leave it out by an ignore pattern",
        ) from error


def _blocks(data: bytes, media_type: str) -> tuple[Block, ...]:
    kind, charset = _parse(media_type)
    kind = type_of_content(data, kind)
    if kind in (DOC, PPT) and data:
        refuse_old_office(data)
    if kind in _BINARY:
        return _BINARY[kind](data) if data else ()
    if kind in IMAGES:
        raise DocumentUnreadable(
            "the document",
            "it is a picture, and the text of pictures is not read here",
            'Install tesseract and set `formats.ocr = "auto"` (docs/install.md), or leave it out by'
            " an ignore pattern",
        )
    readers = _TEXT | _DATA
    extractor = readers.get(kind, plain_blocks if kind.startswith("text/") else None)
    if extractor is None:
        raise DocumentUnreadable(
            "the document",
            f"no extractor reads {kind or 'a document without a media type'}",
            f"Readable types: {', '.join((*readers, *_BINARY))}",
        )
    return extractor(decode(data, charset, kind))


def is_light(media_type: str, data: bytes = b"") -> bool:
    """Whether a document is read in linear time and without native code.

    HTML and reStructuredText are not, nor is Markdown that has HTML in it.
    """
    kind = kind_of(media_type)
    if (
        kind in ("text/html", "text/x-rst")
        or kind in _BINARY
        or kind in OFFICE_TYPES
        or kind in _DATA
        or kind in IMAGES
    ):
        return False
    return kind != "text/markdown" or not _TAG.search(data)


def kind_of(media_type: str) -> str:
    """A media type without its parameters."""
    return _parse(media_type)[0]


def _parse(media_type: str) -> tuple[str, str | None]:
    kind, *parameters = (part.strip() for part in media_type.lower().split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return kind, value.strip(" \"'")
    return kind, None
