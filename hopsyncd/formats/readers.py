"""Converts the bytes of a document to blocks with the reader for its media type."""

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block, tidy_blocks
from hopsyncd.formats.content_type import OFFICE_TYPES, detect_content_type, refuse_old_office
from hopsyncd.formats.decode import decode
from hopsyncd.formats.images import IMAGES, is_worth_reading
from hopsyncd.formats.media_types import (
    CALENDAR,
    CANVAS,
    DOCX,
    ENEX,
    EPUB,
    FICTION_BOOK,
    IPYNB,
    JEX,
    MAIL,
    MBOX,
    ODP,
    ODS,
    ODT,
    OPML,
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
    "text/markdown": "markdown:read_markdown",
    "text/plain": "plain:read_plain",
    "text/html": "html:read_html",
    "text/x-python": "source_code:read_python",
    "text/x-source": "source_code:read_source_code",
}
_DATA = {
    "text/x-rst": "rst:read_rst",
    "text/asciidoc": "asciidoc:read_asciidoc",
    "text/x-tex": "latex:read_latex",
    "text/x-bibtex": "bibliography:read_bibliography",
    "text/org": "org:read_org",
    "text/vtt": "subtitles:read_subtitles",
    "text/vcard": "calendars:read_contacts",
    "text/csv": "data_rows:read_csv",
    CALENDAR: "calendars:read_calendar",
    "application/json": "data_rows:read_json",
    IPYNB: "source_code:read_notebook",
    CANVAS: "data_rows:read_canvas",
}
_BINARY = {
    PDF: "pdf:read_pdf",
    DOCX: "docx:read_docx",
    ODP: "odt:read_odp",
    ODT: "odt:read_odt",
    RTF: "rtf:read_rtf",
    PPTX: "pptx:read_pptx",
    XLSX: "spreadsheet:read_xlsx",
    XLS: "spreadsheet:read_xls",
    ODS: "spreadsheet:read_ods",
    EPUB: "epub:read_epub",
    FICTION_BOOK: "fiction_book:read_fiction_book",
    JEX: "note_exports:read_jex",
    OPML: "note_exports:read_opml",
}
_WITH_PARTS = {
    MAIL: "mail:read_mail",
    MBOX: "mail:read_mbox",
    OUTLOOK: "outlook:read_outlook",
    ENEX: "note_exports:read_enex",
}
"""The types that contain other documents. Their readers also receive `extract`."""

MEDIA_TYPES = (*_TEXT, *_DATA, *_BINARY, *_WITH_PARTS)


def find_reader(kind: str) -> Callable[..., tuple[Block, ...]] | None:
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
        return tidy_blocks(_read_blocks(data, media_type))
    return _run_reader(partial(_read_blocks, data, media_type))


def load_text_readers() -> None:
    """Read a sample of plain text and of Markdown, so that modules are imported and patterns
    compiled before the first document."""
    for kind in ("text/plain", "text/markdown"):
        extract(b"# Title\n\nText.\n\n- Item\n", kind)


def extract_or_picture(data: bytes, media_type: str) -> tuple[Block, ...]:
    """Read a document like `extract`, unless a suffix of `media_type` asks for pictures.

    The suffix PICTURES adds a block of kind `picture` for each picture that may show text. With
    PICTURE_OF_PAGE and a page number, the result is that page of a PDF as a picture. With
    PREVIEW_OF_PAGE, a page number, a semicolon and the text to find, the result is that page in
    colour, with the positions of the text.
    """
    kind, _, page_and_text = media_type.partition(PREVIEW_OF_PAGE)
    if page_and_text:
        from hopsyncd.formats.pdf_page import preview_page

        number, _, text = page_and_text.partition(";")
        return _run_reader(lambda: (preview_page(data, int(number), text),))
    kind, _, number = media_type.partition(PICTURE_OF_PAGE)
    if number:
        from hopsyncd.formats.pdf import render_page

        return _run_reader(lambda: (render_page(data, int(number)),))
    if not kind.endswith(PICTURES):
        return extract(data, media_type)
    if strip_parameters(kind) in IMAGES:
        return _run_reader(lambda: (Block("picture", "1", 1, 1),) if is_worth_reading(data) else ())
    from hopsyncd.formats.pdf import read_pdf

    return _run_reader(lambda: read_pdf(data, with_pictures=True) if data else ())


def _run_reader(read: Callable[[], tuple[Block, ...]]) -> tuple[Block, ...]:
    """Run a reader. Every unexpected error of the reader is raised as DocumentUnreadable."""
    try:
        return tidy_blocks(read())
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


def _read_blocks(data: bytes, media_type: str) -> tuple[Block, ...]:
    kind, charset = _parse(media_type)
    kind = detect_content_type(data, kind)
    if data:
        refuse_old_office(data, kind)
    if kind in IMAGES:
        raise DocumentUnreadable(
            "the document",
            "the file is a picture, and text recognition is off",
            'Install tesseract and set `formats.ocr = "auto"` (docs/install.md), or add the file'
            " to `ignore`",
        )
    read = find_reader(kind)
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


def refuse_empty(data: bytes, media_type: str) -> None:
    """Raise DocumentUnreadable if a PDF, Office file, Outlook message or e-book has 0 bytes."""
    kind = strip_parameters(media_type)
    if not data and (kind in _BINARY or kind in OFFICE_TYPES):
        raise DocumentUnreadable(
            "the document",
            "the file is empty: it has 0 bytes",
            "Save or download the file again, or add it to `ignore`",
        )


def is_light(media_type: str, data: bytes = b"") -> bool:
    """Whether a document can be read in linear time and without native code.

    This is true for plain text, source code, and Markdown that contains no HTML.
    """
    kind = strip_parameters(media_type)
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


def strip_parameters(media_type: str) -> str:
    """Return a media type without its parameters."""
    return _parse(media_type)[0]


def _parse(media_type: str) -> tuple[str, str | None]:
    kind, *parameters = (part.strip() for part in media_type.lower().split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return kind, value.strip(" \"'")
    return kind, None
