"""Decodes bytes to text, and defines the order in which character sets are tried."""

import codecs
import re
from collections.abc import Iterator

from connectors.charset_labels import list_codecs
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.charset_detection import (
    detect_escaped_charset,
    detect_utf_16,
    guess_codecs,
    list_declared_charsets,
    measure_odd_share,
)

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark starts with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_NON_ASCII_RUN = re.compile(r"[^\x00-\x7f]{8,}")
_BAD = "\N{REPLACEMENT CHARACTER}"
# With fewer non-ASCII characters, text in another encoding may be valid UTF-8 by chance.
_SURE_OF_UTF_8 = 4
_SEVERAL_BYTES = frozenset(
    "gb18030 hz big5 big5hkscs cp950 euc_jp euc_jis_2004 cp932 shift_jis shift_jis_2004 cp949"
    " johab".split()
)


def decode(data: bytes, charset: str | None = None, kind: str = "text/plain") -> str:
    r"""Decode a document of the media type `kind`, and turn every line break into "\n".

    The rules, in this order:

    1. A byte order mark of UTF-8, UTF-16 or UTF-32.
    2. `charset`, if the source declared one, then the document's declaration: `<meta charset>`, an
       XML prolog, or a coding cookie. Valid UTF-8 with a non-ASCII character overrides both,
       because programs declare Windows-1252 for UTF-8. If a multibyte character set such as
       Shift JIS is declared, at least four such characters are required.
    3. The escape sequences of ISO-2022.
    4. UTF-8; UTF-16 without a mark.
    5. UTF-8 with invalid bytes replaced, if valid non-ASCII characters outnumber them (a truncated
       file, or one stray byte).
    6. The guess of `chardet`; then Windows-1252, if the result is clearly text.

    Raises DocumentUnreadable if no rule fits, and for text with a NUL, which is binary.
    """
    text = _decode(data, charset, kind)
    if "\0" in text:
        raise DocumentUnreadable(
            "the document",
            "the file contains NUL bytes, so it is binary",
            "Add the file to `ignore`, or convert it to a text format",
        )
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _decode(data: bytes, charset: str | None, kind: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decode_by_mark(data[len(mark) :], encoding)
    if data.startswith(codecs.BOM_UTF8):
        data, charset, kind = data[3:], "utf-8", ""
    utf_8 = _decode_strictly(data, "utf-8")
    for codec in _list_plausible_charsets(data, charset, kind, utf_8):
        if (text := _decode_strictly(data, codec)) and ("\0" not in text or codec == "utf-8"):
            return text
    if b"\x1b" in data:
        for codec in list_codecs(detect_escaped_charset(data) or ""):
            if (text := _decode_strictly(data, codec)) is not None:
                return text
    if b"\0" in data:
        wide = detect_utf_16(data)
        return data[: len(data) & ~1].decode(wide) if wide else "\0"
    return utf_8 if utf_8 is not None else _decode_damaged_utf8(data) or _guess(data)


def _decode_by_mark(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        text = data.decode(encoding, "replace")
        if _is_mostly_good(text):
            return text
        raise DocumentUnreadable(
            "the document",
            f"the byte order mark says {encoding}, but byte {error.start} is not valid {encoding}",
            "Save the file as UTF-8",
        ) from error


def _list_plausible_charsets(
    data: bytes, charset: str | None, kind: str, utf_8: str | None
) -> Iterator[str]:
    """Yield the plausible codecs among the declared charsets, in order. `utf_8` is the text decoded
    as UTF-8, or None."""
    if charset and utf_8 is not None and list_codecs(charset)[:1] == ("utf-8",):
        yield "utf-8"
    beyond = 0
    if utf_8 is not None and not utf_8.isascii():
        beyond = sum(map(len, _BEYOND_ASCII.findall(utf_8[:100_000]))) or _SURE_OF_UTF_8
    for label in (*([charset] if charset else []), *list_declared_charsets(data, kind)):
        for codec in list_codecs(label):
            if codec == "utf-8" and utf_8 is not None:
                yield codec
            if codec in ("ascii", "utf-8"):  # many programs declare these without a check
                continue
            if codec.startswith(("utf-16", "utf-32")) and utf_8 is not None and b"\0" not in data:
                continue
            if beyond < (_SURE_OF_UTF_8 if codec in _SEVERAL_BYTES else 1):
                yield codec


def _decode_strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except ValueError:
        return None


def _decode_damaged_utf8(data: bytes) -> str | None:
    text = data.decode("utf-8", errors="replace")
    bad = text.count(_BAD)
    good = sum(map(len, _BEYOND_ASCII.findall(text))) - bad
    return text if good > bad and _is_clearly_text(text) else None


def _guess(data: bytes) -> str:
    for encoding in guess_codecs(data):
        text = data.decode(encoding, "replace")
        if _is_clearly_text(text) and _is_mostly_good(text):
            return text
    text = _decode_strictly(data, "cp1252") or ""
    if (
        text
        and _is_clearly_text(text)
        and not _NON_ASCII_RUN.search(text)
        and not measure_odd_share(text)
    ):
        return text
    raise DocumentUnreadable(
        "the document",
        "the character set is not declared and cannot be detected from the bytes",
        "Save the file as UTF-8, or add it to `ignore`",
    )


def _is_clearly_text(text: str) -> bool:
    return len(_CONTROL.findall(text)) * 200 < len(text)


def _is_mostly_good(text: str) -> bool:
    """Whether fewer than 1 character in 200 could not be decoded."""
    return text.count(_BAD) * 200 < len(text)
