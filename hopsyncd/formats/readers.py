"""Converts the bytes of a document to blocks with the reader for its media type."""

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block, tidy
from hopsyncd.formats.content_type import OFFICE_TYPES, refuse_old_office, type_of_content
from hopsyncd.formats.decode import decode
from hopsyncd.formats.images import IMAGES, is_worth_reading
from hopsyncd.formats.media_types import (
    CALENDAR,
    CANVAS,
    DOCX,
    EPUB,
    FICTION_BOOK,
    IPYNB,
    MAIL,
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
PREVIEW_OF_PAGE = "; preview-of-page="
"""Suffixes of a media type by which the daemon requests pictures from a worker."""

Extract = Callable[[bytes, str], tuple[Block, ...]]

_TAG = re.compile(rb"<[a-zA-Z/!?]")

# The readers by media type: a module of this package and a function in it. A module is loaded
# when a document needs it, so that a worker starts fast and the daemon loads few modules.
_TEXT = {
    "text/markdown": "markdown:markdown_blocks",
    "text/plain": "plain:plain_blocks",
    "text/html": "html:html_blocks",
    "text/x-python": "source_code:python_blocks",
    "text/x-source": "source_code:source_blocks",
}
_DATA = {
    "text/x-rst": "rst:rst_blocks",
    "text/asciidoc": "asciidoc:asciidoc_blocks",
    "text/x-tex": "latex:latex_blocks",
    "text/x-bibtex": "bibliography:bibliography_blocks",
    "text/org": "org:org_blocks",
    "text/vtt": "subtitles:subtitle_blocks",
    "text/vcard": "calendars:contact_blocks",
    "text/csv": "data_rows:csv_blocks",
    CALENDAR: "calendars:calendar_blocks",
    "application/json": "data_rows:json_blocks",
    IPYNB: "source_code:notebook_blocks",
    CANVAS: "data_rows:canvas_blocks",
}
_BINARY = {
    PDF: "pdf:pdf_blocks",
    DOCX: "docx:docx_blocks",
    ODP: "odt:odp_blocks",
    ODT: "odt:odt_blocks",
    RTF: "rtf:rtf_blocks",
    PPTX: "pptx:pptx_blocks",
    XLSX: "spreadsheet:xlsx_blocks",
    XLS: "spreadsheet:xls_blocks",
    ODS: "spreadsheet:ods_blocks",
    EPUB: "epub:epub_blocks",
    FICTION_BOOK: "fiction_book:fiction_book_blocks",
}
_WITH_PARTS = {
    MAIL: "mail:mail_blocks",
    MBOX: "mail:mbox_blocks",
    OUTLOOK: "outlook:outlook_blocks",
}
"""The types that contain other documents. Their readers also receive `extract`."""

MEDIA_TYPES = (*_TEXT, *_DATA, *_BINARY, *_WITH_PARTS)


def reader_of(kind: str) -> Callable[..., tuple[Block, ...]] | None:
    """Return the function that reads a media type, or None if there is no reader for the type.

    The function takes text or bytes. A mail reader also takes a function that reads attachments.
    """
    otherwise = _TEXT["text/plain"] if kind.startswith("text/") else ""
    named = (_TEXT | _DATA | _BINARY | _WITH_PARTS).get(kind, otherwise)
    if not named:
        return None
    module, _, function = named.partition(":")
    found: Callable[..., tuple[Block, ...]] = getattr(
        import_module(f"hopsyncd.formats.{module}"), function
    )
    return found


def extract(data: bytes, media_type: str) -> tuple[Block, ...]:
    """Read a document into blocks, in reading order.

    `media_type` may have parameters; `charset` is used if the bytes are not UTF-8. An unknown
    `text/` type is read as plain text. An empty document has no blocks. For the types that
    `is_light` accepts, the time is linear in the size, whatever the bytes are.

    Raises DocumentUnreadable if the bytes are not text, or if the type has no reader. Raises
    ReaderUnavailable if a library is missing.
    """
    if is_light(media_type, data):
        return tidy(_blocks(data, media_type))
    return _run_reader(partial(_blocks, data, media_type))


def extract_or_picture(data: bytes, media_type: str) -> tuple[Block, ...]:
    """Read a document like `extract`, unless a suffix of `media_type` asks for pictures.

    The suffix PICTURES adds a block of kind `picture` for each picture that may show text. With
    PICTURE_OF_PAGE and a page number, the result is that page of a PDF as a picture. With
    PREVIEW_OF_PAGE, a page number, a semicolon and the text to find, the result is that page in
    colour, with the positions of the text.
    """
    kind, _, page_and_text = media_type.partition(PREVIEW_OF_PAGE)
    if page_and_text:
        from hopsyncd.formats.pdf_page import page_preview

        number, _, text = page_and_text.partition(";")
        return _run_reader(lambda: (page_preview(data, int(number), text),))
    kind, _, number = media_type.partition(PICTURE_OF_PAGE)
    if number:
        from hopsyncd.formats.pdf import page_picture

        return _run_reader(lambda: (page_picture(data, int(number)),))
    if not kind.endswith(PICTURES):
        return extract(data, media_type)
    if kind_of(kind) in IMAGES:
        return _run_reader(lambda: (Block("picture", "1", 1, 1),) if is_worth_reading(data) else ())
    from hopsyncd.formats.pdf import pdf_blocks

    return _run_reader(lambda: pdf_blocks(data, with_pictures=True) if data else ())


def _run_reader(read: Callable[[], tuple[Block, ...]]) -> tuple[Block, ...]:
    """Run a reader. Every unexpected error of the reader is raised as DocumentUnreadable."""
    try:
        return tidy(read())
    except (DocumentUnreadable, ReaderUnavailable, MemoryError):
        raise
    except Exception as error:
        parts = " ".join(str(error).split())[:200].rstrip(".").split(": ")
        reason = ": ".join(
            dict.fromkeys((type(error).__name__, *parts))
        )  # some messages repeat themselves
        if isinstance(error, ImportError):  # also if memory runs out
            raise DocumentUnreadable(
                "the document",
                f"a library for this file type cannot be loaded ({reason})",
                "Reinstall hopsyncd, or free memory, and then sync",
            ) from error
        raise DocumentUnreadable(
            "the document",
            f"the file is damaged, or its file extension is wrong ({reason})",
            "Export the file again, or add it to `ignore`",
        ) from error


def _blocks(data: bytes, media_type: str) -> tuple[Block, ...]:
    kind, charset = _parse(media_type)
    kind = type_of_content(data, kind)
    if data:
        refuse_old_office(data, kind)
    if kind in IMAGES:
        raise DocumentUnreadable(
            "the document",
            "the file is a picture, and text recognition is off",
            'Install tesseract and set `formats.ocr = "auto"` (docs/install.md), or add the file'
            " to `ignore`",
        )
    read = reader_of(kind)
    if read is None:
        raise DocumentUnreadable(
            "the document",
            f"hopsyncd cannot read {kind or 'a document without a media type'}",
            "Convert the file to a format that hopsyncd reads, such as PDF, DOCX, HTML, Markdown or"
            " plain text, or add it to `ignore`",
        )
    if kind in _BINARY:
        return read(data) if data else ()
    if kind in _WITH_PARTS:
        return read(data, extract) if data else ()
    return read(decode(data, charset, kind))


def is_light(media_type: str, data: bytes = b"") -> bool:
    """Whether a document can be read in linear time and without native code.

    This is true for plain text, source code, and Markdown that contains no HTML.
    """
    kind = kind_of(media_type)
    if (
        kind in ("text/html", "text/x-rst")
        or kind in _BINARY
        or kind in _WITH_PARTS
        or kind in OFFICE_TYPES
        or kind in _DATA
        or kind in IMAGES
    ):
        return False
    return kind != "text/markdown" or not _TAG.search(data)


def kind_of(media_type: str) -> str:
    """Return a media type without its parameters."""
    return _parse(media_type)[0]


def _parse(media_type: str) -> tuple[str, str | None]:
    kind, *parameters = (part.strip() for part in media_type.lower().split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return kind, value.strip(" \"'")
    return kind, None
