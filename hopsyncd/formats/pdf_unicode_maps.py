"""Repairs the maps from codes of glyphs to letters that PDFium would ignore."""

import re
import zlib
from collections.abc import Iterator

_STREAM = re.compile(rb"stream\r?\n")
_CODE = rb"<\s*([0-9A-Fa-f]+)\s*>\s*"
_RANGE = re.compile(_CODE + _CODE + rb"(?:" + _CODE + rb"|\[([^\[\]]*)\])")
_BLOCK = re.compile(rb"\d{1,9}\s{1,9}begin(codespacerange|bfrange|bfchar)([^g-z]*)end\1")
_HEAD_BYTES = 1024
_MOST_MAP_BYTES = 1 << 22
_MOST_ADDED_BYTES = 1 << 20  # of a map, by its repair
_MOST_RANGES = 100  # of a block, and PDFium compares the number before the block with its ranges


def repair_unicode_maps(data: bytes) -> bytes:
    """Split each range of a ToUnicode map in which more than the last byte of the code changes.

    Such ranges are forbidden (ISO 32000-1, 9.10.3), but macOS writes them. PDFium ignores every
    range of a block with one of them, and the font's text turns into other letters. A repaired
    stream keeps its length, so all offsets in the PDF stay valid. A map whose repair does not fit
    into its stream stays as it is.
    """
    repaired = bytearray()
    position = 0
    while match := _STREAM.search(data, position):
        start = position = match.end()
        is_end = data[match.start() - 3 : match.start()] == b"end"
        if is_end or b"beginbf" not in _inflate(data[start : start + _HEAD_BYTES], _HEAD_BYTES * 4):
            continue
        position = data.find(b"endstream", start)
        if position < 0:
            break
        stream = data[start:position].rstrip(b"\r\n")
        text = _inflate(stream, _MOST_MAP_BYTES)
        blocks = list(_BLOCK.finditer(text))
        added = sum(_count_added_bytes(item) for block in blocks for item in _find_ranges(block))
        if len(text) >= _MOST_MAP_BYTES or not 0 < added <= _MOST_ADDED_BYTES:
            continue
        # Only the blocks are kept, which makes room for the added ranges.
        split = b"\n".join(part for block in blocks for part in _split(block))
        packed = split if text is stream else zlib.compress(split, 9)
        if len(packed) <= len(stream):
            repaired = repaired or bytearray(data)
            repaired[start : start + len(stream)] = packed.ljust(len(stream), b"\n")
    return bytes(repaired) or data


def _inflate(stream: bytes, most_bytes: int) -> bytes:
    """Return the text of a compressed stream, and any other stream itself."""
    try:
        return zlib.decompressobj().decompress(stream, most_bytes)
    except zlib.error:
        return stream


def _find_ranges(block: re.Match[bytes]) -> list[re.Match[bytes]]:
    return list(_RANGE.finditer(block[2])) if block[1] == b"bfrange" else []


def _count_added_bytes(item: re.Match[bytes]) -> int:
    """Return about how many bytes are added if a range is split, 0 if it may stay."""
    first, last = int(item[1], 16), int(item[2], 16)
    pieces = (last >> 8) - (first >> 8) if first < last < 1 << 16 else 0
    return pieces * (2 * len(item[1]) + len(item[3] or b"") + 8)


def _split(block: re.Match[bytes]) -> Iterator[bytes]:
    if block[1] != b"bfrange":
        yield block.group()
    ranges = [part for item in _find_ranges(block) for part in _split_range(item)]
    for index in range(0, len(ranges), _MOST_RANGES):
        some = ranges[index : index + _MOST_RANGES]
        yield b"%d beginbfrange\n%b\nendbfrange" % (len(some), b"\n".join(some))


def _split_range(match: re.Match[bytes]) -> Iterator[bytes]:
    """Split a range where a byte of the code before the last one changes."""
    if not _count_added_bytes(match):
        yield match.group()
        return
    first, last = int(match[1], 16), int(match[2], 16)
    letters = re.findall(rb"<[^>]*>", match[4] or b"")
    for low in (first, *range((first | 0xFF) + 1, last + 1, 0x100)):
        high = min(low | 0xFF, last)
        if match[3] is None:
            mapped = b"[%b]" % b"".join(letters[low - first : high - first + 1])
        else:
            mapped = b"<%0*x>" % (len(match[3]), int(match[3], 16) + low - first)
        digits = len(match[1])
        yield b"<%0*x><%0*x>%b" % (digits, low, digits, high, mapped)
