"""HTML: the text a reader sees, by headings, paragraphs, items, rows and preformatted blocks."""

import re
from bisect import bisect_right
from dataclasses import replace
from html import unescape
from itertools import accumulate

from connectors.html_tokens import Token
from hopsyncd.formats.blocks import Block, Kind, Links, link_to_address, with_title
from hopsyncd.formats.html_structure import BOX, CAPTIONED, LISTS, Leads, PageTable, events_of

_BLANKS = re.compile(r"[^\S\n]+")
_MARK = "\0"  # where a link begins; no text holds it

_TABLES = frozenset(("table", "tr", "thead", "tbody", "tfoot", "caption"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_NAMES = (
    "address article aside blockquote body center details dd div dt fieldset figcaption figure "
    "footer form head header hr html li main nav p pre section summary title"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split()).union(LISTS, _TABLES, _HEADINGS)
_IN_CELLS = frozenset(("p", "div", "center"))
_BOLD = frozenset(("b", "strong"))

_MAX_BOLD_CHARACTERS = 80


def html_blocks(text: str, first_line: int = 1) -> tuple[Block, ...]:
    """Read HTML whose first line has the number `first_line`.

    Scripts, styles, comments and navigation are dropped; the links of menus stay, as links of the
    text that follows. A table row is one block, its cells named by the table's head. A term is
    joined with its definition. A short paragraph all in bold is a heading. The title of a box
    beside the text is a heading up to the end of the box, that of a note or a table a line above
    it. `title` becomes the level-1 heading where there is no `h1`. Unclosed elements end where the
    next block begins, as in browsers; an unclosed comment or script runs to the end.
    """
    builder = _Builder(_Lines(text, first_line))
    for event in events_of(text):
        builder.take(event)
    builder.end()
    return with_title(tuple(builder.blocks), builder.title, builder.title_line)


class _Lines:
    """From offsets in a text to line numbers."""

    def __init__(self, text: str, first_line: int) -> None:
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._first_line = first_line

    def at(self, place: int) -> int:
        return self._first_line + bisect_right(self._breaks, place - 1)


class _Builder:
    """Collects text until a block ends."""

    def __init__(self, lines: _Lines) -> None:
        self.blocks: list[Block] = []
        self.title = ""
        self.title_line = 1
        self._lines = lines
        self._parts: list[str] = []
        self._has_text = False
        self._span = (0, 0)
        self._element = ""
        self._href, self._is_shown = "", False
        self._links: list[tuple[str, list[str]]] = []  # addresses, with the pieces shown
        self._bold = 0
        self._is_plain = False  # whether the block has text that is not bold
        self._is_linked = True  # whether all of its text is links
        self._level = 0  # of the last heading
        self._levels: list[int] = []  # of the headings above each box
        self._is_caption = False  # whether a heading here is that of a note or a table
        self._leads = Leads()
        self._table = PageTable()

    def take(self, event: Token) -> None:
        if event.what == "text":
            self._text(event)
        elif event.value == "br":
            self._parts.append("\n" if self._element == "pre" else " ")
        elif event.value == "a":
            self._href, self._is_shown = event.href, False
        elif event.value == "link":
            if event.href:
                self._links.append((event.href, []))
                self._parts.append(_MARK)
        elif event.value in _BOLD:
            self._bold = max(0, self._bold + (1 if event.what == "open" else -1))
        elif event.value in ("td", "th"):
            self._cell(event)
        elif event.value == CAPTIONED:
            self.flush()
            self._is_caption = event.what == "open"
        elif event.value == BOX:
            self.flush()
            self._box(event)
        elif event.value in _BLOCKS:
            self._block(event)

    def end(self) -> None:
        """End the block in progress, and whatever waits for another."""
        self.flush()
        self.blocks += self._table.left()
        self.blocks += self._leads.left()

    def flush(self) -> None:
        """End the block in progress, if it has text or links."""
        self._table.end_cell(self._parts)
        text, links = self._without_marks(self._collected())
        if text or links:
            first, last = self._lines.at(self._span[0]), self._lines.at(self._span[1])
            if self._element == "title":
                self.title, self.title_line = self.title or text, first
            else:
                self._add(text, first, max(first, last), links)
        self._parts, self._has_text = [], False
        self._links, self._is_shown = [], False
        self._is_plain, self._is_linked = False, True

    def _text(self, event: Token) -> None:
        if not event.value or (not self._parts and event.value.isspace()):
            return
        text = unescape(event.value)
        self._parts.append(self._linked(text) if self._href and text.strip() else text)
        if event.value.isspace():
            return
        end = event.start + len(event.value.rstrip()) - 1
        begin = event.start + len(event.value) - len(event.value.lstrip())
        self._span = (self._span[0] if self._has_text else begin, end)
        self._has_text = True
        self._is_plain = self._is_plain or not self._bold
        self._is_linked = self._is_linked and bool(self._href)

    def _linked(self, text: str) -> str:
        """Text inside a link, marked where the link begins in this block."""
        if self._is_shown:
            self._links[-1][1].append(text)
            return text
        self._is_shown = True
        self._links.append((self._href, [text]))
        bare = text.lstrip()
        return text[: len(text) - len(bare)] + _MARK + bare

    def _cell(self, event: Token) -> None:
        if event.what == "open" and self._table.is_in_row:
            self._table.begin_cell(event, self._parts, self._has_text)

    def _block(self, event: Token) -> None:
        name, opens = event.value, event.what == "open"
        if self._table.is_in_row and name in _IN_CELLS:
            self._parts.append(" ")
            return
        self.flush()
        self._element = name if opens else ""
        self._table.is_in_row = opens and name == "tr"
        if name == "tr" and opens:
            self._table.begin_row()
        elif name == "table":
            self.blocks += self._table.left()
        elif name in LISTS or name in ("li", "dt", "dd"):
            self.blocks += self._leads.at(name, opens)

    def _box(self, event: Token) -> None:
        """Enter or leave a box; its headings stand below those around it, and end with it."""
        if event.what == "open":
            self._levels.append(self._level)
            return
        around = self._levels.pop()
        if self._level > around:
            line = self._lines.at(event.start)
            self.blocks.append(Block("heading", "", line, line, around + 1))
            self._leads.end_at_heading()
        self._level = around

    def _collected(self) -> str:
        text = "".join(self._parts)
        if self._element == "pre":
            return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")).rstrip()
        lines = (_BLANKS.sub(" ", line).strip() for line in text.split("\n"))
        return "\n".join(line for line in lines if line)

    def _without_marks(self, text: str) -> tuple[str, Links]:
        """The text without the marks of links, and the links with their offsets in it."""
        pieces = text.split(_MARK)
        offsets = accumulate(map(len, pieces))
        found = [
            (at, link_to_address(href, "".join(shown)))
            for at, (href, shown) in zip(offsets, self._links, strict=False)
        ]
        return "".join(pieces), tuple((at, link) for at, link in found if link)

    def _add(self, text: str, first: int, last: int, links: Links) -> None:
        level = _HEADINGS.get(self._element, 0)
        is_title = bool(level) or self._is_bold_heading(text)
        is_caption, self._is_caption = is_title and self._is_caption, False
        if is_title and not is_caption:
            self._heading(Block("heading", " ".join(text.split()), first, last, level, links))
        elif self._is_menu(text):
            self.blocks.append(Block("paragraph", "", first, last, links=links))
        elif is_caption:
            caption = f"{text.rstrip(':')}:"
            self.blocks += self._leads.led(Block("paragraph", caption, first, last, links=links))
        elif self._table.is_in_row:
            self.blocks += self._table.row(Block("table", text, first, last, links=links))
        else:
            kind: Kind = "code" if self._element == "pre" else self._leads.kind
            self.blocks += self._leads.led(Block(kind, text, first, last, links=links))

    def _heading(self, heading: Block) -> None:
        """Add a heading, below those around its box; a bold one has no level of its own."""
        above = self._levels[-1] if self._levels else 0
        if heading.level:
            self._level = level = min(max(heading.level, above + 1), 6)
        else:
            level = min((above if self._levels else self._level) + 1, 6)
            self._level = max(self._level, level) if self._levels else self._level
            heading = replace(heading, text=heading.text.rstrip(":"))
        self.blocks.append(replace(heading, level=level))
        self._leads.end_at_heading()

    def _is_bold_heading(self, text: str) -> bool:
        is_apart = self._element in ("p", "div", "li", "") and not self._table.is_in_row
        is_title = len(text) <= _MAX_BOLD_CHARACTERS and text[-1:] not in (".", ",", ";", "!", "")
        return is_apart and is_title and not self._is_plain and bool(self._level)

    def _is_menu(self, text: str) -> bool:
        """Whether a block is only links: into this page, or above its first heading."""
        if not text or not self._is_linked or self._table.is_in_row:
            return not text
        inside = all(href.startswith("#") for href, _ in self._links)
        return inside or not self._level
