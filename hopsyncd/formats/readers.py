"""Bytes and a media type to blocks: which extractor reads what."""

from collections.abc import Callable

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block, tidy
from hopsyncd.formats.canvas import canvas_blocks
from hopsyncd.formats.data_rows import csv_blocks, json_blocks
from hopsyncd.formats.decode import decode
from hopsyncd.formats.docx import docx_blocks
from hopsyncd.formats.html import html_blocks
from hopsyncd.formats.mail import MAIL, mail_blocks
from hopsyncd.formats.markdown import markdown_blocks
from hopsyncd.formats.office import epub_blocks, odt_blocks, pptx_blocks, rtf_blocks, xlsx_blocks
from hopsyncd.formats.pdf import pdf_blocks
from hopsyncd.formats.plain import plain_blocks
from hopsyncd.formats.rst import rst_blocks
from hopsyncd.formats.source_code import notebook_blocks, python_blocks, source_blocks
from hopsyncd.formats.units import CANVAS, DOCX, EPUB, IPYNB, ODT, PDF, PPTX, RTF, XLSX

Extract = Callable[[bytes, str], tuple[Block, ...]]

_TEXT: dict[str, Callable[[str], tuple[Block, ...]]] = {
    "text/markdown": markdown_blocks,
    "text/plain": plain_blocks,
    "text/x-rst": rst_blocks,
    "text/html": html_blocks,
    "text/x-python": python_blocks,
    "text/x-source": source_blocks,
}

_DATA: dict[str, Callable[[str], tuple[Block, ...]]] = {
    "text/csv": csv_blocks,
    "application/json": json_blocks,
    IPYNB: notebook_blocks,
    CANVAS: canvas_blocks,
}


def _mail_blocks(data: bytes) -> tuple[Block, ...]:
    return mail_blocks(data, extract)


_BINARY: dict[str, Callable[[bytes], tuple[Block, ...]]] = {
    PDF: pdf_blocks,
    DOCX: docx_blocks,
    ODT: odt_blocks,
    RTF: rtf_blocks,
    PPTX: pptx_blocks,
    XLSX: xlsx_blocks,
    EPUB: epub_blocks,
    MAIL: _mail_blocks,
}


def extract(data: bytes, media_type: str) -> tuple[Block, ...]:
    """Read a document into blocks, in reading order.

    `media_type` may carry parameters; of these `charset` is honoured where the bytes are not
    UTF-8. An unknown `text/` type is read as plain text. An empty document has no blocks.
    For the types that `is_light` names, the time is linear in the size, whatever the bytes are.

    Raises DocumentUnreadable for bytes that are no text, and for a type that no extractor reads;
    ReaderUnavailable where a library is absent.
    """
    if is_light(media_type):
        return tidy(_blocks(data, media_type))
    try:
        return tidy(_blocks(data, media_type))
    except (DocumentUnreadable, ReaderUnavailable, MemoryError):
        raise
    except Exception as error:
        parts = " ".join(str(error).split())[:200].split(": ")
        said = ": ".join(dict.fromkeys((type(error).__name__, *parts)))  # some say all of it twice
        raise DocumentUnreadable(
            "the document",
            f"it is damaged, or not what its name says ({said})",
            "Save it again in its own program, or leave it out by an ignore pattern",
        ) from error


def _blocks(data: bytes, media_type: str) -> tuple[Block, ...]:
    kind, charset = _parsed(media_type)
    if kind in _BINARY:
        return _BINARY[kind](data) if data else ()
    readers = _TEXT | _DATA
    extractor = readers.get(kind, plain_blocks if kind.startswith("text/") else None)
    if extractor is None:
        raise DocumentUnreadable(
            "the document",
            f"no extractor reads {kind or 'a document without a media type'}",
            f"Readable types: {', '.join((*readers, *_BINARY))}",
        )
    return extractor(decode(data, charset))


def is_light(media_type: str) -> bool:
    """Whether documents of a type are read in linear time and without a library's help."""
    kind, _ = _parsed(media_type)
    return kind not in _BINARY and kind not in _DATA


def kind_of(media_type: str) -> str:
    """A media type without its parameters."""
    return _parsed(media_type)[0]


def _parsed(media_type: str) -> tuple[str, str | None]:
    kind, *parameters = (part.strip() for part in media_type.lower().split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return kind, value.strip(" \"'")
    return kind, None
