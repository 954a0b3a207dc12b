"""Reads the text of a PDF page as spans: words on one line with no wide gap between them."""

import ctypes
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from hopsyncd.formats.inline import write_subscript, write_superscript
from hopsyncd.formats.pdf_letters import join_letters
from hopsyncd.formats.pdf_spans import Box, PageText, Span

_WORD = re.compile("[^\\s\ufffe]+\ufffe?|\ufffe")
_LETTER = re.compile(r"[^\W_]")
_LEAST_APART, _MOST_APART = 3, 500  # gaps of a line whose letters may be set apart
_MOST_TURNED = 2  # times the upright letters
_UNPRINTABLE = re.compile("[^\r\n -~]")
_SCRIPTS_MEET = re.compile("(?<=[A-Za-z])(?=[\u05d0-\u06d3])|(?<=[\u05d0-\u06d3])(?=[A-Za-z])")
_ALEF_LAM = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
HYPHEN = "\ufffe"  # PDFium's mark for a hyphen at the end of a line, in the text of a page
_HYPHEN_CODE = 2  # the same, as a single character
_WIDE_GAP = 0.8  # line heights: spaces between words are narrower
_LETTERS_APART = 1.5  # line heights per letter: a wider word is several words
_RAISED, _LOWERED = 0.18, 0.03  # shares of the height of neighbouring letters
_SMALL = 0.85
_FONT_NAME_BYTES = 128
_EDGES, _MATRIX = struct.Struct("4f"), struct.Struct("6f")
_BOLD_WEIGHT = 600
_BOLD = re.compile(rb"bold|black|heavy|-bd|semibold|demi", re.IGNORECASE)
_ODD = {
    **{
        0xFB00 + index: text
        for index, text in enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"))
    },
    **dict.fromkeys((*range(32), 0x7F, 0xAD, 0xFFFE, 0xFEFF, 0x200B), ""),
    **dict.fromkeys((0xF0B7, 0xF0A7, 0xF0D8, 0xF076, 0xF02D), "\u2022"),
}
"""Ligatures, invisible characters, and the bullets of symbol fonts."""


def turn_box(box: Box, quarters: int) -> Box:
    """Rotate a box clockwise by `quarters` quarter turns, as a rotated page is displayed.

    >>> turn_box((1, 2, 3, 4), 1), turn_box((1, 2, 3, 4), 2)
    ((2, -3, 4, -1), (-3, -4, -1, -2))
    """
    left, bottom, right, top = box
    for _ in range(quarters % 4):
        left, bottom, right, top = bottom, -right, top, -left
    return left, bottom, right, top


def read_text(text_page: Any, raw: Any, quarters: int) -> tuple[PageText, int]:
    """Read the text of a page that is displayed with `quarters` clockwise quarter turns.

    If most letters then lie on their side, such as in a wide table, the page is read as a person
    would hold it. Returns the text and the quarter turns with which it was read.
    """
    reader = TextReader(text_page, raw, quarters)
    text = reader.read()
    upright, turned = (sum(len(s.text) for s in spans) for spans in (text.spans, text.turned))
    if turned <= _MOST_TURNED * upright:
        return text, quarters
    upright_quarters = reader.find_quarters(text.turned)
    if upright_quarters == quarters:
        return text, quarters
    return TextReader(text_page, raw, upright_quarters).read(), upright_quarters


class TextReader:
    """Reads the words on a page through PDFium's raw functions, `raw`. The page is rotated by
    `quarters` quarter turns."""

    def __init__(self, text_page: Any, raw: Any, quarters: int) -> None:
        self._calls = _find_calls(raw)
        self._page = ctypes.cast(text_page.raw, ctypes.c_void_p)
        self._buffer = ctypes.create_string_buffer(_MATRIX.size)
        self._box = self._make_box_reader(quarters)
        self._is_page_turned = quarters % 2 == 1
        self._name = ctypes.create_string_buffer(_FONT_NAME_BYTES)
        self._text = text_page.get_text_range()
        count = raw.FPDFText_CountChars(text_page.raw)
        if len(self._text) != count:
            codes = [raw.FPDFText_GetUnicode(text_page.raw, index) for index in range(count)]
            self._text = _decode_codes(codes)

    def read(self) -> PageText:
        page, text, box = PageText(), self._text, self._box
        is_clean = not _UNPRINTABLE.search(text)
        span: Span | None = None
        before = -1  # the end of the previous word
        for found in _WORD.finditer(text):
            first, end = found.span()
            word, last = found[0], end - 1
            is_new = span is None or (first > before + 1 and "\n" in text[before:first])
            before = end
            head = box(first)
            tail = box(last) if last > first else head
            if head is None or tail is None:
                if not is_new and span is not None:
                    span.text += " " + word
                continue
            left, bottom, right, top = head
            if tail[1] != bottom and abs(left - tail[0]) < abs(bottom - tail[1]):
                self._add_column(first, last, page)
                span = None
                continue
            if tail[3] - tail[1] < _SMALL * (top - bottom):
                word = self._read_marks(first, last)
            elif not is_clean and not (word.isascii() and word.isprintable()):
                word = self._clean(word, first)
            left = tail[0] if tail[0] < left else left  # min and max are slower
            right = tail[2] if tail[2] > right else right
            if right - left > _LETTERS_APART * (end - first) * (top - bottom) > 0:
                page.spans += self._split_at_gaps(first, last, len(page.spans))
                span = None
                continue
            if span is None or is_new or not _goes_on(span, left, bottom, right, top):
                span = Span(word, left, bottom, right, top, len(page.spans), first=first)
                page.spans.append(span)
            else:
                span.gaps.append((len(span.text), span.right, left))
                span.text += " " + word
                span.left = left if left < span.left else span.left
                span.right = right if right > span.right else span.right
            span.last = last
            if text[last] == HYPHEN:
                span.is_broken, span = True, None
        page.spans = [span for span in page.spans if span.text]
        page.turned = _join_turned_lines(page.turned)
        for span in (*page.spans, *page.turned):
            self._measure(span)
            if _LEAST_APART <= len(span.gaps) <= _MOST_APART:
                join_letters(span)
        return page

    def find_quarters(self, spans: Iterable[Span]) -> int:
        """Return the clockwise quarter turns that make most of the spans horizontal."""
        letters = Counter[int]()
        for span in spans:
            if self._calls.matrix(self._page, span.first, self._buffer):
                across, along, *_ = _MATRIX.unpack_from(self._buffer)
                is_level = abs(along) <= abs(across)
                quarters = (0 if across >= 0 else 2) if is_level else 1 if along > 0 else 3
                letters[quarters] += len(span.text)
        return max(letters, key=lambda quarters: letters[quarters], default=0)

    def _add_column(self, first: int, last: int, page: PageText) -> None:
        """Add a word whose letters are below one another: rotated text, or cells of a table."""
        if self._text[first : last + 1].isascii() and self._is_upright(first):
            page.spans += self._split_at_gaps(first, last, len(page.spans))
        else:
            page.turned.append(self._make_turned_span(first, last))

    def _make_turned_span(self, first: int, last: int) -> Span:
        """Build the span of a word whose letters are arranged vertically."""
        boxes = list(filter(None, (self._box(first), self._box(last))))
        left, bottom = (min(box[side] for box in boxes) for side in (0, 1))
        right, top = (max(box[side] for box in boxes) for side in (2, 3))
        text = _replace_forms(self._text[first : last + 1])
        return Span(text, left, bottom, right, top, first=first, last=last)

    def _split_at_gaps(self, first: int, last: int, order: int) -> list[Span]:
        """Split the characters at positions `first` to `last` into spans at wide gaps.

        PDFium reports marks in several columns of a table as one word. `order` is the order of the
        first span.
        """
        spans: list[Span] = []
        for index in range(first, last + 1):
            box, letter = self._box(index), _replace_forms(self._text[index])
            if box is None or not letter:
                continue
            if spans and _goes_on(spans[-1], *box):
                spans[-1].text += letter
                spans[-1].right, spans[-1].last = max(spans[-1].right, box[2]), index
            else:
                spans.append(Span(letter, *box, order + len(spans), first=index, last=index))
        return spans

    def _make_box_reader(self, quarters: int) -> Callable[[int], Box | None]:
        """Return a function that returns the box of the character at a position in the text."""
        call, page, buffer, edges = self._calls.box, self._page, self._buffer, _EDGES.unpack_from

        def box(index: int) -> Box | None:
            if not call(page, index, buffer):
                return None
            left, top, right, bottom = edges(buffer)
            if quarters:
                return turn_box((left, bottom, right, top), quarters)
            return left, bottom, right, top

        return box

    def _clean(self, word: str, first: int) -> str:
        if word.isascii():
            return _replace_forms(word)
        return _replace_forms(self._reorder_ligatures(word, first))

    def _reorder_ligatures(self, word: str, first: int) -> str:
        """Put lam before alef in a word where one glyph shows both.

        PDFium reverses right-to-left text, including the letters of such a glyph.
        """
        letters = list(word)
        for found in _ALEF_LAM.finditer(word):
            offset = found.start()
            if self._box(first + offset) == self._box(first + offset + 1):
                letters[offset], letters[offset + 1] = letters[offset + 1], letters[offset]
        return _insert_spaces("".join(letters))

    def _read_marks(self, first: int, last: int) -> str:
        """Return the text of a word. Letters that are smaller than the first letter, and raised or
        lowered, are marked as superscript or subscript."""
        text, run, mark = "", "", ""
        line = self._box(first)
        for index in range(first, last + 1):
            box, now = self._box(index), ""
            is_low = box and line and (box[3] - box[1]) < _SMALL * (line[3] - line[1])
            # In some fonts the boxes of letters are only as high as their shapes.
            if (
                is_low
                and box
                and line
                and self._measure_size(index) < _SMALL * self._measure_size(first)
            ):
                rise = (box[1] - line[1]) / max(line[3] - line[1], 0.1)
                now = "^" if rise > _RAISED else "_" if rise < -_LOWERED else ""
            if now != mark:
                text += _add_mark(run, mark, text)
                run, mark = "", now
            run += _replace_forms(self._text[index])
        return text + _add_mark(run, mark, text)

    def _measure(self, span: Span) -> None:
        """Set the font size of a span, and whether it is bold."""
        text = self._text
        letter = _LETTER.search(text, span.first, span.last + 1)
        if letter is None:
            return
        first, last = letter.start(), span.last
        while not text[last].isalnum():
            last -= 1
        span.size = round(min(self._measure_size(first), self._measure_size(last)), 1)
        calls, name = self._calls, self._name
        calls.font(self._page, first, name, ctypes.c_size_t(_FONT_NAME_BYTES), None)
        weight = calls.weight(self._page, first)
        span.is_bold = weight >= _BOLD_WEIGHT or _is_bold(name.value)

    def _is_upright(self, index: int) -> bool:
        """Whether a character stands upright on the page."""
        if not self._calls.matrix(self._page, index, self._buffer):
            return False
        across, along, *_ = _MATRIX.unpack_from(self._buffer)
        return bool(abs(along) < abs(across)) != self._is_page_turned

    def _measure_size(self, index: int) -> float:
        """Return the displayed height of a character. Many files scale a font of size one."""
        if not self._calls.matrix(self._page, index, self._buffer):
            return 0.0
        _, _, across, along, _, _ = _MATRIX.unpack_from(self._buffer)
        return float(self._calls.size(self._page, index)) * math.hypot(across, along)


@dataclass(frozen=True, slots=True)
class _Calls:
    """PDFium functions that are called for each word, without ctypes argument conversion.

    Conversion takes five times as long as the calls. Pages and buffers are passed as ctypes
    objects.
    """

    box: Any
    matrix: Any
    size: Any
    font: Any
    weight: Any


@cache
def _find_calls(raw: Any) -> _Calls:
    def bind(call: Any, result: Any) -> Any:
        address = ctypes.cast(call, ctypes.c_void_p).value or 0
        return ctypes.PYFUNCTYPE(result)(address)

    return _Calls(
        bind(raw.FPDFText_GetLooseCharBox, ctypes.c_int),
        bind(raw.FPDFText_GetMatrix, ctypes.c_int),
        bind(raw.FPDFText_GetFontSize, ctypes.c_double),
        bind(raw.FPDFText_GetFontInfo, ctypes.c_ulong),
        bind(raw.FPDFText_GetFontWeight, ctypes.c_int),
    )


@lru_cache(maxsize=256)
def _is_bold(font: bytes) -> bool:
    return bool(_BOLD.search(font))


def _decode_codes(codes: Iterable[int]) -> str:
    """Return a character for each UTF-16 code unit. The second half of a pair is invisible.

    >>> _decode_codes([0x41, 0xD842, 0xDF9F, 0xDF9F]) == "A\U00020b9f\u200b "
    True
    """
    letters: list[str] = []
    high = 0  # the first half of a pair
    for code in codes:
        if high and 0xDC00 <= code < 0xE000:
            letters[-1] = chr(0x10000 + ((high - 0xD800) << 10) + code - 0xDC00)
            letters.append("\u200b")
        else:
            letters.append(_decode_letter(code))
        high = code if 0xD800 <= code < 0xDC00 else 0
    return "".join(letters)


def _decode_letter(code: int) -> str:
    if code == _HYPHEN_CODE:
        return HYPHEN
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else " "


def _add_mark(run: str, mark: str, before: str) -> str:
    if not run or not mark:
        return run
    return write_superscript(run, before) if mark == "^" else write_subscript(run, before)


def _replace_forms(word: str) -> str:
    """Replace presentation forms of letters with the letters."""
    return word if word.isascii() and word.isprintable() else word.translate(_ODD)


def _insert_spaces(word: str) -> str:
    """Insert the spaces that PDFium loses between Latin and right-to-left letters.

    >>> _insert_spaces("Python\u0645\u0646") == "Python \u0645\u0646"
    True
    """
    return _SCRIPTS_MEET.sub(" ", word)


def _join_turned_lines(words: Iterable[Span]) -> list[Span]:
    """Join words with vertically arranged letters into lines."""
    lines: list[Span] = []
    for word in words:
        before = lines[-1] if lines else word
        width = min(before.right - before.left, word.right - word.left)
        shared = min(before.right, word.right) - max(before.left, word.left)
        gap = max(before.bottom, word.bottom) - min(before.top, word.top)
        if lines and shared > 0.5 * width and gap < width:
            before.text += " " + word.text
            before.left, before.right = min(before.left, word.left), max(before.right, word.right)
            before.bottom, before.top = min(before.bottom, word.bottom), max(before.top, word.top)
            before.last = word.last
        else:
            lines.append(word)
    return lines


def _goes_on(span: Span, left: float, bottom: float, right: float, top: float) -> bool:
    """Whether a word in this box continues the line of a span."""
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
