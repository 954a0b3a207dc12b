"""Turns the lines of PDF pages into blocks: finds headings, paragraphs and links, rejoins
hyphenated words, and drops running heads."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import dropwhile, pairwise, takewhile
from statistics import median

from hopsyncd.formats.blocks import MAX_HEADING_CHARACTERS, Block, Links, make_address_link
from hopsyncd.formats.pdf_layout import Item, Line
from hopsyncd.formats.pdf_metadata import Bookmark
from hopsyncd.formats.pdf_spans import Box
from hopsyncd.formats.table_text import make_table_blocks

_NOT_ALNUM = re.compile(r"[\W_]+")
_LEADERS = re.compile(r"(?:\. ?){4}")  # dots that lead to a page number: a table of contents
_NUMBER = re.compile(r"\d+")
_PAGE = re.compile(r"(?:page|seite|p|s|pág|página|pagina)?[\W_]*#(?:(?:of|von|de|di|/)\d+)?\Z")
_AMOUNT = re.compile(r"(?!(?:19|20)\d\d\b)\d[\d.,]{3,}|[$€£¥%]")
_LABELLED = re.compile(r"[:=]\s*\S")  # a label with its value
# "Figure 1: Rain" and "n = 3" are captions; the title "Rain in 2015: a report" is not.
_CAPTION = re.compile(
    r"\W*(?:abb(?:ildung)?|bild(?:er)?|chart|exhibit|fig(?:ur[ae]?)?|gra(?:ph|f)(?:i[ck]|ique)?"
    r"|karte|map|photo|plate|scheme|tab(?:le|elle|la|leau)?)(?:s|x|n|en)?\.?\s*[A-Z]?\d[\d.\u2013-]*[a-z]?\s*:|.*\d\s*=\s*\S",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:[A-Z]?\d+(?:\.\d+)*\.?|[A-Z]\.)\s+\S")
_BULLET = re.compile(r"(?:[\u2022\u25aa\u25cf\u2013\u2023*-]|\(?\d{1,2}[.)])\s")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_HYPHENED = re.compile(r"\w-\Z")
_WORD_AT_END = re.compile(r"[^\W\d_]+\Z")
_WORD_AT_START = re.compile(r"[^\W\d_]+")
_COMPOUND = frozenset(
    "well self non high low long short half cross so co all ex two three four five six seven eight"
    " nine ten real state part full first second third multi user end open hand data time".split()
)
_ENDS = (".", "!", "?", ":", ".”", '."', ".)", "。")

_SHORT = 0.6  # share of the column's longest line: a shorter line ends its paragraph
_SHORT_AT_END = 0.9  # the share for a line that ends with the end of a sentence
_SCRIPT = re.compile(r"[\w)\]][\^_][\w(+\u2212-]")
_LARGE = 1.12  # times the font size of most text: larger text is a heading
_SAME_SIZE = 0.97  # headings whose sizes have a higher ratio have the same level
_MOST_LEVELS = 6
_MOST_HEADING_LINES, _MOST_HEADING_PARTS = 3, 3
_PARAGRAPH_GAP = 1.35  # times the usual line distance: a larger gap ends a paragraph
_FULL_LINE = 60  # characters
_MOST_BOOKMARKS_OF_PAGE = 2  # bookmarks with titles that are not on their page
_MARGIN_LINES = 2  # lines at the top and bottom of a page that can be running heads


@dataclass(slots=True)
class Page:
    number: int
    items: list[Item]
    notes: list[str] = field(default_factory=list)
    links: list[tuple[Box, str]] = field(default_factory=list)
    is_scan: bool = False

    @property
    def lines(self) -> list[Line]:
        return [item for item in self.items if isinstance(item, Line)]


def find_running_lines(pages: Sequence[Page]) -> set[int]:
    """Return the `id()` of each running head and foot: a line near the top or bottom that is at the
    same place on at least a fifth of the pages.

    There must be three such pages, or two for a page number or a document of two pages. The first
    occurrence of a line is not included, unless the line is a page number.
    """
    found: defaultdict[tuple[str, int, int], list[Line]] = defaultdict(list)
    is_number: dict[tuple[str, int, int], bool] = {}
    for page in pages:
        by_height = sorted((line for line in page.lines if line.height), key=lambda ln: -ln.middle)
        margin = {id(ln): ln for ln in (*by_height[:_MARGIN_LINES], *by_height[-_MARGIN_LINES:])}
        for line in margin.values():
            is_apart = line.parts > 1 or line is by_height[-1]
            text, offset = _remove_page_number(line.text, page.number, is_apart)
            key = (text, offset, round(line.middle / 8))
            found[key].append(line)
            is_number[key] = bool(_PAGE.match(text))
    running: set[int] = set()
    for key, lines in found.items():
        least = 2 if len(pages) == 2 or is_number[key] else max(3, len(pages) // 5)
        if len(lines) >= least:
            running.update(id(line) for line in lines[0 if is_number[key] else 1 :])
    return running


def _remove_page_number(text: str, page: int, is_apart: bool) -> tuple[str, int]:
    """Return a simplified line for comparison, with `#` instead of a page number at the start or
    end. Also returns the difference between that number and `page`, or 0.

    A number at the end counts only after a word for "page", or if the line `is_apart` from the
    text. So the 1 of "Step 1" is not a page number.
    """
    key = text.casefold()
    numbers = list(_NUMBER.finditer(key))
    for found in numbers[:1] + numbers[-1:]:
        before, after = key[: found.start()], key[found.end() :]
        if len(found[0]) < 5 and (not before or not after or _PAGE.match(_make_key(before) + "#")):
            rest = _make_key(before) + "#" + _make_key(after)
            if not before or _PAGE.match(rest) or (is_apart and not after):
                return rest, int(found[0]) - page
    return _make_key(text), 0


class Headings:
    """Finds headings: lines that equal a bookmark of their page, and lines in larger type.

    `running` has the `id()` of each running head and foot, which are no headings.
    """

    def __init__(
        self, pages: Sequence[Page], bookmarks: Sequence[Bookmark], running: set[int]
    ) -> None:
        self.running = running
        lines = [line for page in pages for line in page.lines if id(line) not in running]
        self._levels = _find_levels(lines)
        self._lines = lines
        # The first lines in larger type, unless full lines of text come before them.
        first = dropwhile(lambda ln: ln.size not in self._levels and not _is_full(ln), lines)
        self._title = {id(line) for line in takewhile(lambda ln: ln.size in self._levels, first)}
        self._marked: dict[tuple[int, str], int] = {}
        self.missing: defaultdict[int, list[Bookmark]] = defaultdict(list)
        marked = {entry.page for entry in bookmarks}
        texts = {
            page.number: _make_key(" ".join(line.text for line in page.lines))
            for page in pages
            if page.number in marked
        }
        for entry in bookmarks:
            self._marked[entry.page, _make_key(entry.title)] = min(entry.level, _MOST_LEVELS)
            if _make_key(entry.title) not in texts.get(entry.page, ""):
                self.missing[entry.page].append(entry)
        for entries in self.missing.values():
            if len(entries) > _MOST_BOOKMARKS_OF_PAGE:  # such bookmarks belonged to removed pages
                entries.clear()

    @cached_property
    def words(self) -> Counter[str]:
        """Count the words of the document, which show whether a hyphen belongs to a word."""
        return Counter(_WORD.findall("\n".join(line.text for line in self._lines).casefold()))

    def find_level(self, line: Line, page: int) -> int:
        """Return the level of a heading, or 0 for other lines."""
        if self._marked and (marked := self._marked.get((page, _make_key(line.text)))):
            return marked
        level = self._levels.get(line.size, 0)
        is_title = level == 1 and id(line) in self._title
        return level if level and _can_be_heading(line, is_title) else 0


def _is_full(line: Line) -> bool:
    return len(line.text) >= _FULL_LINE


def _can_be_heading(line: Line, is_title: bool) -> bool:
    """Whether a line in larger type can be a heading. Only the title of a document may look like a
    label with its value, such as `Tides: a report`."""
    text = line.text
    if _LEADERS.search(text) or not any(map(str.isalpha, text)):
        return False
    if len(text) > MAX_HEADING_CHARACTERS or line.parts > _MOST_HEADING_PARTS:
        return False
    is_value = _AMOUNT.search(text) or (
        _CAPTION.match(text) if is_title else _LABELLED.search(text)
    )
    return bool(_NUMBERED.match(text)) or not (is_value or line.parts > 2)


def _find_levels(lines: Iterable[Line]) -> dict[float, int]:
    """Return a heading level for each type size that is clearly larger than the most common
    size."""
    letters: Counter[float] = Counter()
    known = [*lines]
    # A superscript or subscript reduces the size of its line.
    for line in [line for line in known if not _SCRIPT.search(line.text)] or known:
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


def read_page(page: Page, headings: Headings) -> Iterator[Block]:
    """Read a page: its headings, paragraphs and tables, then its notes."""
    number = page.number
    for entry in headings.missing.get(number, ()):
        yield Block("heading", entry.title, number, number, min(entry.level, _MOST_LEVELS))
    pitch = _measure_pitch(page.lines)
    pending: list[Line] = []
    held_level = 0
    for item in page.items:
        if id(item) in headings.running:
            continue
        level = headings.find_level(item, number) if isinstance(item, Line) else 0
        if pending and _begins_block(pending, item, held_level, level, pitch):
            yield _make_block(page, pending, held_level, headings)
            pending = []
        if isinstance(item, Line):
            pending.append(item)
            held_level = level
        else:
            yield from make_table_blocks(item.table)
    if pending:
        yield _make_block(page, pending, held_level, headings)
    for note in page.notes:
        yield Block("note", note, number, number)


def _measure_pitch(lines: Sequence[Line]) -> float:
    """Return the median distance between the middles of neighbouring lines, in points."""
    gaps = [
        above.middle - line.middle
        for above, line in pairwise(lines)
        if 0 < above.middle - line.middle < 3 * line.height
    ]
    return median(gaps) if gaps else math.inf


def _begins_block(
    pending: Sequence[Line], item: Item, held_level: int, level: int, pitch: float
) -> bool:
    before = pending[-1]
    if not isinstance(item, Line) or level != held_level:
        return True
    if level:
        gap = before.middle - item.middle
        is_near = 0 < gap < 1.9 * max(item.height, before.height)
        return len(pending) >= _MOST_HEADING_LINES or before.size != item.size or not is_near
    if before.is_broken or _HYPHENED.search(before.text):
        return False
    gap = before.middle - item.middle
    if gap > _PARAGRAPH_GAP * max(pitch, item.height) or _BULLET.match(item.text):
        return True
    share = len(before.text) / max(before.longest, 1)
    return share < (_SHORT_AT_END if before.text.endswith(_ENDS) else _SHORT)


def _make_block(page: Page, lines: Sequence[Line], level: int, headings: Headings) -> Block:
    text = _join(lines, headings)
    number = page.number
    if level:
        return Block("heading", " ".join(text.split()), number, number, level)
    return Block("paragraph", text, number, number, links=_find_links(page, lines, text))


def _join(lines: Sequence[Line], headings: Headings) -> str:
    text, is_broken = "", False
    for line in lines:
        if is_broken:
            text += ("" if _is_one_word(text, line.text, headings.words) else "-") + line.text
        else:
            text += f"\n{line.text}" if text else line.text
        is_broken = line.is_broken
        if not is_broken and text.endswith("-") and text[-2:-1].isalnum():
            text, is_broken = text[:-1], True
    return text + "-" if is_broken else text


def _is_one_word(before: str, after: str, words: Counter[str]) -> bool:
    """Whether the parts of a word before and after a hyphen at the end of a line are written
    without the hyphen. `words` counts the words of the document."""
    before = before[-40:]
    left, right = _WORD_AT_END.search(before), _WORD_AT_START.match(after)
    if not left or not right or not right[0][:1].islower():
        return False
    first, second = left[0].casefold(), right[0].casefold()
    whole, hyphened = words[first + second], words[f"{first}-{second}"]
    if whole or hyphened:
        return whole >= hyphened
    if before[: left.start()].endswith("-"):  # a compound is broken where it has a hyphen
        return False
    return first not in _COMPOUND and not (
        len(first) > 3 and len(second) > 3 and words[first] > 1 and words[second] > 1
    )


def _find_links(page: Page, lines: Sequence[Line], text: str) -> Links:
    """Return the links on the lines of a block, with their offsets in its text. The text of a link
    is the whole line."""
    found = []
    for box, target in page.links:
        middle = (box[1] + box[3]) / 2
        for line in lines:
            if line.bottom <= middle <= line.top and box[0] < line.right and line.left < box[2]:
                offset = text.find(line.text)
                link = make_address_link(target, line.text[:200])
                if link and offset >= 0:
                    found.append((offset, link))
                break
    return tuple(sorted(found, key=lambda placed: placed[0]))


def _make_key(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()
