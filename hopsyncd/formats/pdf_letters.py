"""Joins words of PDF files whose letters are set apart: "T o t a l" becomes "Total"."""

import re
from statistics import median

from hopsyncd.formats.pdf_spans import Span

_APART = re.compile(r"(?<!\S)[^\W\d_](?: \S){3,}(?!\S)")
_VOWELS = frozenset("aeiouyäöüáéíóúàèìòùâêîôûåæøœ")
_MIN_LETTERS, _MIN_CAPITALS = 4, 5
_MONTHS = "JFMAMJJASOND" * 2
_WORD_GAP = 1.6  # times the gap between letters
_MAX_GAP = 0.6  # line heights: letters in the columns of a table are farther apart


def join_letters(span: Span) -> None:
    """Join single letters in a span that are separated by equal small gaps.

    The first word of the result must look like a word: "Total" or "INVOICE". Initials, marks and
    formulas stay apart.
    """
    for found in [*_APART.finditer(span.text)][::-1]:
        inside = [gap for gap in span.gaps if found.start() < gap[0] < found.end()]
        widths = [right - left for _, left, right in inside]
        if len(inside) * 2 + 1 != len(found[0]) or max(widths) <= 0:
            continue
        usual = median(widths)
        if usual > _MAX_GAP * span.height:
            continue
        kept = [gap for gap, width in zip(inside, widths, strict=True) if width > _WORD_GAP * usual]
        ends = [*(gap[0] for gap in kept), found.end()]
        starts = [found.start(), *(gap[0] + 1 for gap in kept)]
        words = [
            span.text[start:end].replace(" ", "") for start, end in zip(starts, ends, strict=True)
        ]
        if not _is_word(words[0]):
            continue
        gaps = [gap for gap in span.gaps if gap[0] < found.start()]
        offset = found.start() - 1
        for word, (_, left, right) in zip(words, kept, strict=False):
            offset += len(word) + 1
            gaps.append((offset, left, right))
        joined = " ".join(words)
        shift = len(found[0]) - len(joined)
        gaps += [(gap[0] - shift, *gap[1:]) for gap in span.gaps if gap[0] >= found.end()]
        span.text = span.text[: found.start()] + joined + span.text[found.end() :]
        span.gaps = gaps


def _is_word(word: str) -> bool:
    """Whether letters make a word such as "Total", "Date:" or "INVOICE", rather than initials."""
    letters = "".join(filter(str.isalpha, word))
    if letters != word.rstrip(".,:;!?") or not _VOWELS & {*letters.lower()}:
        return False
    if letters[1:].islower():
        return letters[0].isupper() and len(letters) >= _MIN_LETTERS
    codes = [*map(ord, letters)]
    is_alphabet = codes == [*range(codes[0], codes[0] + len(codes))]
    is_series = is_alphabet or letters in _MONTHS
    return letters.isupper() and len(letters) >= _MIN_CAPITALS and not is_series
