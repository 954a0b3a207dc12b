"""Splits RTF into tokens, and maps its code pages and character names."""

import codecs
import re
from collections.abc import Iterator

Token = tuple[str, bytes, int | None]
"""A token's kind ("{", "}", "word", "symbol", "hex" or "text"), its bytes and its number."""

_TOKEN = re.compile(
    rb"\\([A-Za-z]{1,32})(?:(-?\d{1,10})\d*)? ?|\\'([0-9A-Fa-f]{2})|\\(\r\n|[^A-Za-z])"
    rb"|([{}])|([^\\{}\r\n\0]+)|[\r\n\0]+|\\"
)
CHARACTERS = {
    **{b"emdash": "\u2014", b"endash": "\u2013", b"lquote": "\u2018", b"rquote": "\u2019"},
    **{b"ldblquote": "\u201c", b"rdblquote": "\u201d", b"bullet": "\u2022", b"tab": "\t"},
    **{b"line": "\n", b"lbr": "\n", b"emspace": "\u2003", b"enspace": "\u2002", b"qmspace": " "},
    **{b"zwj": "\u200d", b"zwnj": "\u200c", b"ltrmark": "\u200e", b"rtlmark": "\u200f"},
}
SYMBOLS = {b"~": "\u00a0", b"_": "-", b"\\": "\\", b"{": "{", b"}": "}", b"\t": "\t"}
_CHARSETS = {
    **{0: 1252, 77: 10000, 128: 932, 129: 949, 130: 1361, 134: 936, 136: 950, 161: 1253},
    **{162: 1254, 163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251, 222: 874, 238: 1250},
    **{254: 437, 255: 850, 2: 1252},
}
_NAMES = {
    **{10000: "mac_roman", 10006: "mac_greek", 10007: "mac_cyrillic", 10029: "mac_latin2"},
    **{10081: "mac_turkish", 936: "gbk", 1361: "johab", 65001: "utf-8", 708: "iso8859-6"},
}


def split_into_tokens(data: bytes) -> Iterator[Token]:
    """Yield the tokens of a document, without embedded binary data."""
    offset = 0
    while match := _TOKEN.match(data, offset):
        offset = match.end()
        word, number, code, symbol, brace, text = match.groups()
        if text:
            yield "text", text, None
        elif word:
            value = int(number) if number else None
            if word == b"bin":
                offset += max(value or 0, 0)
            yield "word", word, value
        elif code:
            yield "hex", bytes.fromhex(code.decode()), None
        elif brace:
            yield brace.decode(), b"", None
        elif symbol:
            yield "symbol", symbol, None


def find_code_page(number: int) -> str:
    """Return the encoding of a code page, or Windows-1252 if the code page is unknown."""
    name = _NAMES.get(number, f"cp{number}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def find_charset_encoding(charset: int) -> str:
    """Return the encoding of a font's character set, or "" if the document's encoding applies."""
    number = _CHARSETS.get(charset)
    return find_code_page(number) if number else ""
