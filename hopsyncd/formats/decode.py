"""Bytes to text: the encoding rules, in one place."""

import codecs
import re

from hopsyncd.errors import DocumentUnreadable

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark starts with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_NON_ASCII_RUN = re.compile(r"[^\x00-\x7f]{8,}")
_BAD = "\N{REPLACEMENT CHARACTER}"


def decode(data: bytes, charset: str | None = None) -> str:
    r"""Decode a document, with every line break turned into "\n".

    In this order: a byte order mark (UTF-8, UTF-16, UTF-32) decides; then UTF-8; then `charset`,
    where the source declared one; then UTF-8 with its bad bytes replaced, where its good
    multi-byte characters outnumber the bad ones (a file cut short, one stray byte); then
    Windows-1252, where the result is clearly text: all its bytes are assigned, fewer than 1
    in 200 are control characters, and no run of letters beyond ASCII is longer than seven.

    Raises DocumentUnreadable for anything else, and for text with a NUL: that is binary.
    """
    text = _decode(data, charset)
    if "\0" in text:
        raise DocumentUnreadable(
            "the document",
            "it has NUL bytes, so it is binary",
            "Exclude it by an ignore pattern, or convert it to a text format",
        )
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _decode(data: bytes, charset: str | None) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _by_mark(data[len(mark) :], encoding)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _declared(data, charset) or _damaged_utf8(data) or _windows_1252(data)


def _by_mark(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentUnreadable(
            "the document",
            f"its byte order mark says {encoding}, and byte {error.start} is not that",
            "Save it again as UTF-8",
        ) from error


def _declared(data: bytes, charset: str | None) -> str | None:
    try:
        return data.decode(charset) if charset else None
    except (LookupError, ValueError):
        return None


def _damaged_utf8(data: bytes) -> str | None:
    text = data.decode("utf-8", errors="replace")
    bad = text.count(_BAD)
    good = sum(map(len, re.findall(r"[^\x00-\x7f]+", text))) - bad
    return text if good > bad and _is_clearly_text(text) else None


def _windows_1252(data: bytes) -> str:
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    if "\0" in text or (text and _is_clearly_text(text) and not _NON_ASCII_RUN.search(text)):
        return text
    raise DocumentUnreadable(
        "the document",
        "its bytes are neither UTF-8, nor UTF-16 with a byte order mark, nor plain Windows-1252",
        "Save it again as UTF-8, or exclude it by an ignore pattern",
    )


def _is_clearly_text(text: str) -> bool:
    return len(_CONTROL.findall(text)) * 200 < len(text)
