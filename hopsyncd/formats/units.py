"""Splits text into units, the smallest pieces of a passage, and estimates their size in tokens."""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from hopsyncd.formats.blocks import Block, WrittenLink

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_ENDS = ".!?…؟\u06d4।"
_CLOSERS = r"[\"'”\u2019»\u203a)\]}*_]"
_CJK_ENDS = "。\uff01\uff1f｡"
# The pattern begins with a set, because `re` searches fast for a set. Without the second
# look-behind, a run of marks (".....") would take quadratic time.
_SENTENCE_END = re.compile(
    rf"[{_ENDS}{_CJK_ENDS}]"
    rf"(?:(?<=[{_ENDS}])(?<![{_ENDS}][{_ENDS}])[{_ENDS}]*+{_CLOSERS}*+\s++"
    rf"|(?<=[{_CJK_ENDS}])[{_CJK_ENDS}]*+[」』”\u2019\uff09]*+\s*+)"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“\u2018\[])(?:\w|(?:\w\.)+\w|mrs?|ms|dr|prof|st|sr|jr|rev|gen|col|lt|sgt|capt|gov|sen"
    r"|rep|hon|vs|etc|approx|cf|ca|no|nos|vol|pp?|fig|eq|sec|ch|ed|eds|inc|ltd|corp|co|bros|dept"
    r"|est|al|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|u\.s|e\.g|i\.e)\Z",
    re.IGNORECASE,
)
# In German a full stop after a number makes it an ordinal: "am 31. Januar", "im 19. Jahrhundert".
_NUMBER = re.compile(r"(?<!\d)\d{1,2}\Z")
_COUNTED = re.compile(
    r"(?:Januar|J\u00e4nner|Februar|M\u00e4rz|April|Mai|Juni|Juli|August|September|Oktober|November"
    r"|Dezember|Jahrhunderts?|Jahrestag)\b"
)
# The number of a list item, at the beginning of a line.
_LABEL = re.compile(r"\n[ \t]*\(?(?:\d{1,3}|[ivx]{1,5})\Z", re.IGNORECASE)
_WORD = re.compile(rf"[{_CJK}]\s*|[^\s{_CJK}]{{1,32}}\s*")
_CJK_BREAK = re.compile(rf"(?<=[{_CJK}、。\uff0c])[ \t]*\n\s*(?=[{_CJK}])")
_HYPHEN_BREAK = re.compile(r"(?<=[^\W_]-)\n[ \t]*(?=[^\W\d_])")
# Programs that hyphenate end a line with U+2010, or with the soft hyphen, which is never shown.
_SOFT_HYPHEN = re.compile(r"\u00ad(?:\n[ \t]*(?=[^\W\d_]))?")
_HYPHENATED = re.compile(r"(?<=[^\W\d_])\u2010\n[ \t]*(?=[^\W\d_])")
_OWN_HYPHEN = re.compile(r"\w\u2010\w")


_CELL = " | "  # the separator of the cells in a row
_MAX_HEAD_CHARACTERS = 100


class Unit(NamedTuple):
    """A piece of text that is never split, with the separator before it.

    `tokens` is the estimated size of both. Lines are 1-based and inclusive. `links` are the links
    that begin in the unit. `leads` are the leads of its block that still apply.
    """

    text: str
    glue: str
    tokens: int
    first_line: int
    last_line: int
    links: tuple[WrittenLink, ...] = ()
    leads: tuple[str, ...] = ()


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in `text`: a quarter of its UTF-8 bytes, rounded up.

    The vocabulary of all-MiniLM-L6-v2 has 4.4 bytes per token in English, 3.4 in Japanese, 2.2 in
    Russian and 2.7 in code. One estimate serves all languages.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


def split_into_units(block: Block, whole: int, sentence: int) -> Iterator[Unit]:
    """Yield a block as one unit if it has at most `whole` tokens, otherwise in smaller units.

    Code is split into lines, other text into sentences, and sentences of more than `sentence`
    tokens into words. An ideograph is a word; no word exceeds 32 characters. A table row is split
    into lines of cells, each beginning with the row's first cell. The first unit has an empty
    `glue`, because only the caller knows the separator between blocks.
    """
    laid_out = block.kind in ("code", "table")
    if estimate_tokens(block.text) <= whole:
        text = block.text if laid_out else unwrap_lines(block.text)
        begun = tuple(link for _, link in block.links)
        yield Unit(text, "", estimate_tokens(text), block.first_line, block.last_line, begun)
        return
    if block.kind == "table":
        yield from _split_row(block, sentence)
        return
    line, joint, offset, links = block.first_line, "", 0, deque(block.links)
    # An image at the end may show no text.
    end = len(block.text)
    for piece in _split_text(block.text, laid_out, sentence):
        bare = piece.rstrip()
        text, after = bare if laid_out else unwrap_lines(bare), piece[len(bare) :]
        lead = len(piece) - len(piece.lstrip("\n")) if piece[0] == "\n" else 0
        first = min(line + lead, block.last_line)
        line += piece.count("\n")
        last = min(line - after.count("\n"), block.last_line)
        offset += len(piece)
        if text:
            glue = joint if laid_out else " " if joint else ""
            begun = tuple(_take_links(links, offset if offset < end else end + 1)) if links else ()
            yield Unit(text, glue, estimate_tokens(glue + text), first, max(first, last), begun)
        joint = (after if text else joint + after)[:2]


def _split_row(block: Block, sentence: int) -> Iterator[Unit]:
    """Split a long row into lines of about `sentence` tokens. Each line begins with the first cell,
    which usually names the row, unless that cell is long."""
    head, _, rest = block.text.partition(_CELL)
    start = head + _CELL if rest and len(head) <= _MAX_HEAD_CHARACTERS else ""
    rest = rest if start else block.text
    offset, links = len(block.text) - len(rest), deque(block.links)
    line, glue = start, ""
    for cell in rest.split(_CELL):
        for number, piece in enumerate([*_split_text(cell, False, sentence)] or [""]):
            joint = _CELL if number == 0 and line != start else ""
            if line != start and estimate_tokens(line + joint + piece) > sentence:
                links_before = tuple(_take_links(links, offset))
                size = estimate_tokens(glue + line)
                yield Unit(
                    line.rstrip(), glue, size, block.first_line, block.last_line, links_before
                )
                line, joint, glue = start, "", "\n"
            line += joint + piece
            offset += len(piece)
        offset += len(_CELL)
    links_before = tuple(link for _, link in links)
    size = estimate_tokens(glue + line)
    yield Unit(line.rstrip(), glue, size, block.first_line, block.last_line, links_before)


def split_into_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of `text`, each with the white space after it. Joined, the results equal
    `text`.

    Punctuation ends a sentence before white space, unless a lower-case letter follows or a known
    abbreviation or initial precedes. The full stops of Chinese and Japanese always end a sentence.

    >>> list(split_into_sentences("Dr. J. Smith left. He was 4.5 km away."))
    ['Dr. J. Smith left. ', 'He was 4.5 km away.']
    >>> list(split_into_sentences("12. Stir it. Serve."))
    ['12. Stir it. ', 'Serve.']
    >>> list(split_into_sentences("Sie begann am 31. Januar. Er kam 1998. Juli war es."))
    ['Sie begann am 31. Januar. ', 'Er kam 1998. ', 'Juli war es.']
    """
    start = 0
    for found in _SENTENCE_END.finditer(text):
        if not _is_inside(text, found):
            yield text[start : found.end()]
            start = found.end()
    if start < len(text):
        yield text[start:]


def _is_inside(text: str, mark: re.Match[str]) -> bool:
    if mark[0][0] in _CJK_ENDS:
        return False
    if text[mark.end() : mark.end() + 1].islower():
        return True
    before = text[max(0, mark.start() - 12) : mark.start()]
    if mark[0][0] != "." or not (before[-1:].isalnum() or before[-1:] == "_"):
        return False
    is_ordinal = _NUMBER.search(before) and _COUNTED.match(text, mark.end())
    is_label = _LABEL.search(before if mark.start() > len(before) else f"\n{before}")
    return bool(is_ordinal or is_label or _ABBREVIATION.search(before))


def _take_links(links: deque[tuple[int, WrittenLink]], before: int) -> Iterator[WrittenLink]:
    """Remove and return the links that begin before an offset."""
    while links and links[0][0] < before:
        yield links.popleft()[1]


def _split_text(text: str, laid_out: bool, sentence: int) -> Iterator[str]:
    parts = text.splitlines(keepends=True) if laid_out else split_into_sentences(text)
    for part in parts:
        if estimate_tokens(part) <= sentence:
            yield part
        else:
            yield from (found[0] for found in _WORD.finditer(part))


def unwrap_lines(text: str) -> str:
    """Undo line wrapping, and rejoin hyphenated words. As a result, re-wrapping a paragraph does
    not change the id of its passage."""
    if "\u00ad" in text:
        text = _SOFT_HYPHEN.sub("", text)
    if "\n" in text:
        text = _HYPHEN_BREAK.sub("", _CJK_BREAK.sub("", text))
        # If U+2010 also joins words within a line, it does not mark a hyphenated line end.
        text = _HYPHENATED.sub("\u2010" if _OWN_HYPHEN.search(text) else "", text)
    return " ".join(text.split())
