"""PDF: the text of its pages, with headings found by the size of their type."""

import base64
import ctypes
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats import library
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.images import gray_png

_NOT_ALNUM = re.compile(r"[\W_]+")
_LEADERS = re.compile(r"(?:\. ?){4}")  # dots that lead to a page number: a table of contents
_HYPHEN = re.compile(r"(?<=[a-zß-ÿ])[-\u00ad]\n(?=[a-zß-ÿ])")
_JOINED_AT_HYPHEN = "\ufffe"  # PDFium's mark where a hyphen ended a line
_ENDS = (".", "!", "?", ":", ".”", '."', ".)", "。")

_SHORT = 0.6  # of the page's longest line: nothing was left to wrap
_SHORT_AT_END = 0.9  # the same, of a line that ends a sentence
_LARGE = 1.12  # times the type of most of the text: a heading
_SAME_SIZE = 0.97  # type this close is of one level
_MOST_LEVELS = 6

_PICTURE_SCALE = 300 / 72  # to 300 dots an inch, which text recognition is made for
_MOST_PICTURE_PIXELS = 12_000_000  # A4 at that scale has 9 million
_FORMS_WITHIN = 3  # how deep in a page's forms pictures are looked for


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    size: float  # of its smallest type, in points; 0 if it cannot be a heading


def pdf_blocks(data: bytes, with_pictures: bool = False) -> tuple[Block, ...]:
    """Read a PDF; the lines of its blocks are page numbers.

    The cells of a table are words of their row. `with_pictures` gives a block of kind `picture` for
    each page that shows pictures and no text. Raises DocumentUnreadable if there is no text, or
    only behind a password.
    """
    pages, pictures = _pages(data, with_pictures)
    levels = _levels(line for page in pages for line in page)
    blocks: list[Block] = []
    before: set[str] = set()
    for number, page in enumerate(pages, 1):
        if number in pictures:
            blocks.append(Block("picture", str(number), number, number))
        headings = {_key(line.text) for line in page if line.size in levels}
        blocks += _page(number, page, levels, running=before)
        before = headings
    if pages and not blocks:
        raise without_text(
            "Install tesseract (docs/install.md), have another program for text recognition (OCR)"
            " add the text, or leave it out"
        )
    return tuple(blocks)


def without_text(hint: str) -> DocumentUnreadable:
    """What a PDF without any text is reported as."""
    return DocumentUnreadable(
        "the document", "its pages have no text: they may be pictures of text", hint
    )


def page_picture(data: bytes, number: int) -> Block:
    """A page as a PNG in base64, as large as text recognition needs it."""
    with _opened(data) as document, closing(document[number - 1]) as page:
        width, height = page.get_size()
        scale = min(_PICTURE_SCALE, math.sqrt(_MOST_PICTURE_PIXELS / max(width * height, 1.0)))
        bitmap = page.render(scale=scale, grayscale=True)
        pixels, stride, across = memoryview(bitmap.buffer), bitmap.stride, bitmap.width
        rows = (bytes(pixels[at * stride : at * stride + across]) for at in range(bitmap.height))
        png = gray_png(across, bitmap.height, rows)
    return Block("picture", base64.b64encode(png).decode(), number, number)


def _opened(data: bytes) -> Any:
    pypdfium2 = library("pypdfium2")
    raw = pypdfium2.raw
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError:
        if raw.FPDF_GetLastError() != raw.FPDF_ERR_PASSWORD:
            raise
        raise DocumentUnreadable(
            "the document",
            "it takes a password to read it",
            "Save it without one, or leave it out by an ignore pattern",
        ) from None


def _pages(data: bytes, with_pictures: bool) -> tuple[list[list[_Line]], set[int]]:
    """The lines of each page, and the numbers of those that show pictures and no text."""
    raw = library("pypdfium2").raw
    pages, pictures = list[list[_Line]](), set[int]()
    with _opened(data) as document:
        for at in range(len(document)):
            page = document[at]
            text_page = page.get_textpage()
            lines = list(_lines(text_page, raw))
            pages.append(lines)
            if with_pictures and not any(line.text.strip() for line in lines):
                shown = page.get_objects((raw.FPDF_PAGEOBJ_IMAGE,), max_depth=_FORMS_WITHIN)
                pictures |= {at + 1 for _ in itertools.islice(shown, 1)}
            text_page.close()
            page.close()
    return pages, pictures


def _lines(text_page: Any, raw: Any) -> Iterator[_Line]:
    place = 0
    for raw_line in text_page.get_text_range().split("\n"):
        letters = [place + at for at, letter in enumerate(raw_line) if letter.isalnum()]
        told = {letters[0], letters[len(letters) // 2], letters[-1]} if letters else set()
        size = min((_size(text_page, at, raw) for at in told), default=0.0)
        size = 0.0 if _LEADERS.search(raw_line) else size
        text = raw_line.replace(_JOINED_AT_HYPHEN, "").removesuffix("\r").replace("\r", " ")
        yield _Line(text.rstrip(), round(size, 1))
        place += len(raw_line) + 1


def _size(text_page: Any, at: int, raw: Any) -> float:
    """The height of a character as shown: many files scale a type of one point."""
    matrix = raw.FS_MATRIX()
    if not raw.FPDFText_GetMatrix(text_page, at, ctypes.byref(matrix)):
        return 0.0
    return float(raw.FPDFText_GetFontSize(text_page, at)) * math.hypot(matrix.c, matrix.d)


def _levels(lines: Iterable[_Line]) -> dict[float, int]:
    """The heading level of each type size that is larger than most of the text."""
    letters: Counter[float] = Counter()
    for line in lines:
        if line.size:
            letters[line.size] += len(line.text)
    if not letters:
        return {}
    body = max(letters, key=lambda size: (letters[size], -size))
    levels: dict[float, int] = {}
    level, above = 0, math.inf
    for size in sorted(letters, reverse=True):
        if size < body * _LARGE:
            break
        if size < above * _SAME_SIZE:
            level, above = min(level + 1, _MOST_LEVELS), size
        levels[size] = level
    return levels


def _page(
    number: int, lines: Sequence[_Line], levels: dict[float, int], running: set[str]
) -> Iterator[Block]:
    """Read a page; a line that is `running` on from the page before is no heading."""
    longest = max((len(line.text) for line in lines), default=0)
    held: list[str] = []  # lines of the block at hand
    held_size = 0.0  # its type, if it is a heading
    for at, line in enumerate(lines):
        is_heading = line.size in levels and _key(line.text) not in running
        size = line.size if is_heading else 0.0
        if held and (size != held_size or not line.text.strip()):
            yield _block(number, held, levels.get(held_size))
            held = []
        if not line.text.strip():
            continue
        held.append(line.text)
        held_size = size
        after = lines[at + 1].text if at + 1 < len(lines) else ""
        if _ends_block(line.text, after, longest if not size else longest * 2 // 3):
            yield _block(number, held, levels.get(held_size))
            held = []


def _ends_block(line: str, after: str, longest: int) -> bool:
    share = len(line) / max(longest, 1)
    return not after.strip() or share < (_SHORT_AT_END if line.endswith(_ENDS) else _SHORT)


def _block(number: int, lines: list[str], level: int | None) -> Block:
    text = _HYPHEN.sub("", "\n".join(lines))
    if level is None:
        return Block("paragraph", text, number, number)
    return Block("heading", " ".join(text.split()), number, number, level)


def _key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()
