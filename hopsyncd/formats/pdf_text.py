"""The text of a PDF page as spans: words on one line with no wide gap between them."""

import ctypes
import math
import re
from dataclasses import dataclass, field
from typing import Any

from hopsyncd.formats.inline import lowered, raised

_WORD = re.compile("[^\\s\ufffe]+\ufffe?|\ufffe")
_SCRIPTS_MEET = re.compile("(?<=[A-Za-z])(?=[\u05d0-\u06d3])|(?<=[\u05d0-\u06d3])(?=[A-Za-z])")
_ALEF_LAM = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
HYPHEN = "\ufffe"  # PDFium's mark where a hyphen ended a line
_WIDE_GAP = 0.8  # times the height of a line: no space between words is as wide
_RAISED, _LOWERED = 0.18, 0.03  # of the height of the letters beside
_SMALL = 0.85
_MAX_FONT_NAME = 128
_BOLD_WEIGHT = 600
_BOLD = re.compile(rb"bold|black|heavy|-bd|semibold|demi", re.IGNORECASE)
_ODD = {
    **{0xFB00 + at: text for at, text in enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"))},
    **dict.fromkeys((*range(32), 0x7F, 0xAD, 0xFFFE, 0xFEFF, 0x200B), ""),
    **dict.fromkeys((0xF0B7, 0xF0A7, 0xF0D8, 0xF076, 0xF02D), "\u2022"),
}
"""Ligatures, invisible characters, and the bullets of symbol fonts."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points, as the page is shown."""


@dataclass(slots=True)
class Span:
    """Words on one line, with no wide gap between them. `order` is its place in the file."""

    text: str
    left: float
    bottom: float
    right: float
    top: float
    order: int = 0
    size: float = 0.0  # of its smallest type, in points; 0 if unknown
    is_bold: bool = False
    is_broken: bool = False  # a hyphen ends it, and a word goes on in the next line
    first: int = 0  # its first character
    last: int = 0

    @property
    def height(self) -> float:
        """Of the line of type, in points."""
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        """The height on the page of the middle of the line."""
        return (self.top + self.bottom) / 2


@dataclass(slots=True)
class PageText:
    """The spans of a page in the order of the file, and lines that are turned against it."""

    spans: list[Span] = field(default_factory=list)
    turned: list[str] = field(default_factory=list)


def turned_box(box: Box, quarters: int) -> Box:
    """A box as it is shown on a page that is turned clockwise by so many quarters.

    >>> turned_box((1, 2, 3, 4), 1), turned_box((1, 2, 3, 4), 2)
    ((2, -3, 4, -1), (-3, -4, -1, -2))
    """
    left, bottom, right, top = box
    for _ in range(quarters % 4):
        left, bottom, right, top = bottom, -right, top, -left
    return left, bottom, right, top


class TextReader:
    """Reads the words of one text page through PDFium's raw calls."""

    def __init__(self, text_page: Any, raw: Any, quarters: int) -> None:
        self._raw, self._page, self._quarters = raw, text_page.raw, quarters
        self._rect = raw.FS_RECTF()
        self._to_rect = ctypes.byref(self._rect)
        self._matrix = raw.FS_MATRIX()
        self._text = text_page.get_text_range()
        count = raw.FPDFText_CountChars(self._page)
        if len(self._text) != count:
            codes = (raw.FPDFText_GetUnicode(self._page, at) for at in range(count))
            self._text = "".join(map(_letter, codes))

    def read(self) -> PageText:
        """Read the page."""
        page = PageText()
        span: Span | None = None
        end = -1
        text, box = self._text, self._box
        for found in _WORD.finditer(text):
            word, first = found[0], found.start()
            last = found.end() - 1
            head = box(first)
            tail = box(last) if last > first else head
            is_new = span is None or (first > end + 1 and "\n" in text[end:first])
            end = found.end()
            if head is None or tail is None:
                if not is_new and span is not None:
                    span.text += " " + word
                continue
            if last > first and abs(head[0] - tail[0]) < abs(head[1] - tail[1]):
                page.turned.append(_plain(word))
                span = None
                continue
            if (tail[3] - tail[1]) < _SMALL * (head[3] - head[1]) and last > first:
                word = self._with_marks(first, last)
            else:
                word = word if word.isascii() else self._with_ligatures(word, first)
                word = _plain(word)
            left, right = min(head[0], tail[0]), max(head[2], tail[2])
            bottom, top = head[1], head[3]
            if is_new or span is None or not _goes_on(span, left, bottom, right, top):
                span = Span(word, left, bottom, right, top, len(page.spans), first=first)
                page.spans.append(span)
            else:
                span.text += " " + word
                span.left, span.right = min(span.left, left), max(span.right, right)
            span.last = last
            if self._text[last] == HYPHEN:
                span.is_broken, span = True, None
        page.spans = [span for span in page.spans if span.text]
        for span in page.spans:
            self._measure(span)
        return page

    def _box(self, at: int) -> Box | None:
        if not self._raw.FPDFText_GetLooseCharBox(self._page, at, self._to_rect):
            return None
        rect = self._rect
        if not self._quarters:
            return rect.left, rect.bottom, rect.right, rect.top
        return turned_box((rect.left, rect.bottom, rect.right, rect.top), self._quarters)

    def _with_ligatures(self, word: str, first: int) -> str:
        """A word in which lam stands before alef where one glyph shows both.

        PDFium turns text from right to left, and the letters of such a glyph with it.
        """
        letters = list(word)
        for found in _ALEF_LAM.finditer(word):
            at = found.start()
            if self._box(first + at) == self._box(first + at + 1):
                letters[at], letters[at + 1] = letters[at + 1], letters[at]
        return _apart("".join(letters))

    def _with_marks(self, first: int, last: int) -> str:
        """A word whose last letters are smaller than its first: they may be raised or lowered."""
        text, run, mark = "", "", ""
        line = self._box(first)
        for at in range(first, last + 1):
            box, now = self._box(at), ""
            if box and line and (box[3] - box[1]) < _SMALL * (line[3] - line[1]):
                rise = (box[1] - line[1]) / max(line[3] - line[1], 0.1)
                now = "^" if rise > _RAISED else "_" if rise < -_LOWERED else ""
            if now != mark:
                text += _with_mark(run, mark, text)
                run, mark = "", now
            run += _plain(self._text[at])
        return text + _with_mark(run, mark, text)

    def _measure(self, span: Span) -> None:
        """Give a span the size and the weight of its type."""
        raw, text = self._raw, self._text
        letters = [at for at in range(span.first, span.last + 1) if text[at].isalnum()]
        told = {letters[0], letters[-1]} if letters else set()
        span.size = round(min(map(self._size, told), default=0.0), 1)
        if not letters:
            return
        name = ctypes.create_string_buffer(_MAX_FONT_NAME)
        raw.FPDFText_GetFontInfo(self._page, letters[0], name, _MAX_FONT_NAME, None)
        weight = raw.FPDFText_GetFontWeight(self._page, letters[0])
        span.is_bold = weight >= _BOLD_WEIGHT or bool(_BOLD.search(name.value))

    def _size(self, at: int) -> float:
        """The height of a character as shown: many files scale a type of one point."""
        matrix = self._matrix
        if not self._raw.FPDFText_GetMatrix(self._page, at, ctypes.byref(matrix)):
            return 0.0
        size = self._raw.FPDFText_GetFontSize(self._page, at)
        return float(size) * math.hypot(matrix.c, matrix.d)


def _letter(code: int) -> str:
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else " "


def _with_mark(run: str, mark: str, before: str) -> str:
    if not run or not mark:
        return run
    return raised(run, before) if mark == "^" else lowered(run, before)


def _plain(word: str) -> str:
    """A word without what is only the form of its letters."""
    return word if word.isascii() and word.isprintable() else word.translate(_ODD)


def _apart(word: str) -> str:
    """Latin letters apart from those of right-to-left scripts: PDFium loses spaces between them.

    >>> _apart("Python\u0645\u0646") == "Python \u0645\u0646"
    True
    """
    return _SCRIPTS_MEET.sub(" ", word)


def _goes_on(span: Span, left: float, bottom: float, right: float, top: float) -> bool:
    """Whether a word stands beside a span in its line."""
    # This runs for each word: comparisons are faster than min and max.
    above, below = span.top, span.bottom
    tall, small = above - below, top - bottom
    if tall < small:
        tall, small = small, tall
    shared = (above if above < top else top) - (below if below > bottom else bottom)
    if shared < 0.4 * small:
        return False
    gap = left - span.right if left >= span.left else span.left - right
    return -3 * tall < gap < _WIDE_GAP * (tall if tall > 0.1 else 0.1)
