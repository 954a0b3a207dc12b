"""Reads the number formats and bold cells of workbooks of Excel 5 to 2003 (MS-XLS).

The library that reads the values returns neither formats nor styles.
"""

import io
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from hopsyncd.formats import import_library

_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STREAMS = ("Workbook", "Book")
_BIFF8 = 0x0600
_BEGIN, _END, _FONT, _FORMAT, _STYLE, _SHEET = 0x0809, 0x000A, 0x0031, 0x041E, 0x00E0, 0x0085
_PASSWORD = 0x002F
# Formula, blank, number, label, boolean or error, number in short form, label in the shared table.
_CELLS = frozenset((0x0006, 0x0201, 0x0203, 0x0204, 0x0205, 0x00D6, 0x027E, 0x00FD))
_NUMBERS_IN_A_ROW = 0x00BD
_BOLD_WEIGHT = 600
_UNUSED_FONT = 4  # no font has this number


@dataclass(frozen=True, slots=True)
class Style:
    number_format: str = "General"
    is_bold: bool = False


@dataclass(slots=True)
class _Book:
    data: bytes
    is_biff8: bool = True
    fonts: list[bool] = field(default_factory=list)
    formats: dict[int, str] = field(default_factory=dict)
    styles: list[tuple[int, int]] = field(default_factory=list)
    sheets: list[tuple[str, int]] = field(default_factory=list)


def read_styles(data: bytes) -> dict[str, dict[tuple[int, int], Style]]:
    """Return the styles of cells, by sheet and by (row, column), both counted from 1.

    Cells in the default style are left out. A damaged workbook may lack styles.
    """
    found: dict[str, dict[tuple[int, int], Style]] = {}
    if not data.startswith(_MAGIC):
        return found
    with suppress(OSError, struct.error, IndexError, ValueError):
        book = _Book(_read_stream(data))
        _read_globals(book)
        styles = _list_styles(book)
        # Each part of the data is read once, even if several sheets claim it.
        begins = sorted({begin: sheet for sheet, begin in book.sheets}.items())
        ends = [begin for begin, _ in begins[1:]] + [len(book.data)]
        for (begin, sheet), end in zip(begins, ends, strict=True):
            found[sheet] = {
                (row + 1, column + 1): styles[style]
                for row, column, style in _read_cells(book.data, begin, end)
                if style in styles
            }
    return found


def is_encrypted(data: bytes) -> bool:
    """Whether a workbook is protected by a password."""
    with suppress(OSError, struct.error, IndexError, ValueError):
        book = _read_stream(data) if data.startswith(_MAGIC) else b""
        return any(
            kind == _PASSWORD for kind, _, _ in islice(_read_records(book, 0, len(book)), 20)
        )
    return False


def _read_stream(data: bytes) -> bytes:
    """Return the records of the workbook in a compound file."""
    with import_library("olefile").OleFileIO(io.BytesIO(data)) as file:
        name = next((name for name in _STREAMS if file.exists(name)), "")
        return file.openstream(name).read() if name else b""


def _read_records(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the records of a part of the workbook: type, position of the content, length.

    Nested parts, such as charts, are left out.
    """
    depth = 0
    offset = begin
    while offset + 4 <= end:
        kind, length = struct.unpack_from("<HH", data, offset)
        depth += (kind == _BEGIN) - (kind == _END)
        if depth < 1:
            return
        if depth == 1:
            yield kind, offset + 4, length
        offset += 4 + length


def _read_globals(book: _Book) -> None:
    data = book.data
    for kind, offset, length in _read_records(data, 0, len(data)):
        if kind == _BEGIN:
            book.is_biff8 = struct.unpack_from("<H", data, offset)[0] >= _BIFF8
        elif kind == _FONT:
            if len(book.fonts) == _UNUSED_FONT:
                book.fonts.append(False)
            book.fonts.append(struct.unpack_from("<H", data, offset + 6)[0] >= _BOLD_WEIGHT)
        elif kind == _FORMAT:
            book.formats[struct.unpack_from("<H", data, offset)[0]] = _decode_text(
                data[offset + 2 : offset + length],
                2 if book.is_biff8 else 1,
                is_biff8=book.is_biff8,
            )
        elif kind == _STYLE:
            book.styles.append(struct.unpack_from("<HH", data, offset))
        elif kind == _SHEET:
            text = _decode_text(data[offset + 6 : offset + length], 1, is_biff8=book.is_biff8)
            book.sheets.append((text, struct.unpack_from("<I", data, offset)[0]))


def _decode_text(data: bytes, length_bytes: int, *, is_biff8: bool) -> str:
    """Decode text that is preceded by its length, a number of `length_bytes` bytes."""
    count = int.from_bytes(data[:length_bytes], "little")
    text = data[length_bytes:]
    if not is_biff8:
        return text[:count].decode("cp1252", "replace")
    if text[:1] and text[0] & 1:
        return text[1 : 1 + 2 * count].decode("utf-16-le", "replace")
    return text[1 : 1 + count].decode("latin-1")


def _list_styles(book: _Book) -> Mapping[int, Style]:
    """Return each style that differs from the default, by its number."""
    known = import_library("openpyxl.styles.numbers").BUILTIN_FORMATS
    styles = {
        number: Style(
            book.formats.get(number_format) or known.get(number_format, "General"),
            font < len(book.fonts) and book.fonts[font],
        )
        for number, (font, number_format) in enumerate(book.styles)
    }
    return {number: style for number, style in styles.items() if style != Style()}


def _read_cells(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the row and column, counted from 0, and the style number of each cell of a sheet."""
    for kind, start, length in _read_records(data, begin, end):
        if kind in _CELLS:
            yield struct.unpack_from("<HHH", data, start)
        elif kind == _NUMBERS_IN_A_ROW and length >= 6:
            row, column = struct.unpack_from("<HH", data, start)
            count = (length - 6) // 6
            numbers = struct.iter_unpack("<HI", data[start + 4 : start + 4 + count * 6])
            for offset, (style, _) in enumerate(numbers):
                yield row, column + offset, style
