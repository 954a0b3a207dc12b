"""Reads the size of a picture from its header before the picture is decoded, and writes
PNG files."""

import struct
import zlib
from collections.abc import Iterable, Iterator

from hopsyncd.errors import DocumentUnreadable

PNG, JPEG, TIFF = "image/png", "image/jpeg", "image/tiff"
IMAGES = (PNG, JPEG, TIFF)
MAX_PIXELS = 50_000_000  # an A4 page at 600 dots per inch has 35 million
_LEAST_PIXELS = 5_000  # smaller pictures are icons
_MOST_PAGES = 200
_PNG_SIGN, _JPEG_SIGN = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_TIFF_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_NO_FRAME = {0xC4, 0xC8, 0xCC}  # markers of JPEG tables, not of frames
_WIDTH, _HEIGHT, _SHORT = 256, 257, 3  # TIFF tags and a TIFF type


def make_no_text_error(hint: str) -> DocumentUnreadable:
    """Make the error for a PDF without any text. `hint` tells the user what to do."""
    return DocumentUnreadable("the document", "the pages contain no text and may be scanned", hint)


def is_worth_reading(data: bytes) -> bool:
    """Whether a picture is larger than an icon. Only its header is read.

    Raises DocumentUnreadable if the picture has too many pixels or pages, or no readable size.
    """
    try:
        pixels = sum(width * height for width, height in _read_sizes(data))
    except (struct.error, IndexError):
        pixels = 0
    if not pixels:
        raise DocumentUnreadable(
            "the document",
            "the picture is damaged, or its file extension is wrong",
            "Save the picture again as PNG, JPEG or TIFF, or add it to `ignore`",
        )
    if pixels > MAX_PIXELS:
        raise DocumentUnreadable(
            "the document",
            f"the picture has {pixels:,} pixels; the limit is {MAX_PIXELS:,}",
            "Save the picture at a lower resolution, or add it to `ignore`",
        )
    return pixels >= _LEAST_PIXELS


def _read_sizes(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the width and height of each picture in a file."""
    if data.startswith(_PNG_SIGN):
        yield struct.unpack_from(">II", data, 16)
    elif data.startswith(_JPEG_SIGN):
        yield _read_jpeg_size(data)
    elif order := _TIFF_ORDERS.get(data[:4]):
        yield from _read_tiff_sizes(data, order)


def _read_jpeg_size(data: bytes) -> tuple[int, int]:
    offset = 2
    while data[offset] == 0xFF:
        kind, length = data[offset + 1], struct.unpack_from(">H", data, offset + 2)[0]
        if 0xC0 <= kind <= 0xCF and kind not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", data, offset + 5)
            return width, height
        offset += 1 if kind == 0xFF else 2 + length
    return 0, 0


def _read_tiff_sizes(data: bytes, order: str) -> Iterator[tuple[int, int]]:
    (place,) = struct.unpack_from(order + "I", data, 4)
    for _ in range(_MOST_PAGES):
        if not place:
            return
        (count,) = struct.unpack_from(order + "H", data, place)
        size = {_WIDTH: 0, _HEIGHT: 0}
        for offset in range(place + 2, place + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", data, offset)
            if tag in size:
                form = "H" if kind == _SHORT else "I"
                (size[tag],) = struct.unpack_from(order + form, data, offset + 8)
        yield size[_WIDTH], size[_HEIGHT]
        (place,) = struct.unpack_from(order + "I", data, place + 2 + 12 * count)
    if place:  # too many pages, or the offsets form a cycle
        raise DocumentUnreadable(
            "the document",
            f"the picture has more than {_MOST_PAGES} pages, or its list of pages is damaged",
            "Split the picture into smaller files, or add it to `ignore`",
        )


def encode_gray_png(width: int, height: int, rows: Iterable[bytes]) -> bytes:
    """Encode rows of bytes as a grayscale PNG with 8 bits per pixel."""
    return _encode_png(width, height, rows, kind=0)


def encode_color_png(width: int, height: int, rows: Iterable[bytes], channels: int) -> bytes:
    """Encode rows of bytes as an RGB PNG, or as an RGBA PNG if `channels` is 4."""
    return _encode_png(width, height, rows, kind=2 if channels == 3 else 6)


def _encode_png(width: int, height: int, rows: Iterable[bytes], *, kind: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
    return (
        _PNG_SIGN
        + _encode_chunk(b"IHDR", head)
        + _encode_chunk(b"IDAT", body)
        + _encode_chunk(b"IEND", b"")
    )


def _encode_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
