"""HTML: the text a reader sees, by headings, paragraphs, items, rows and preformatted blocks."""

import re
from bisect import bisect_right
from html import unescape
from itertools import accumulate

from connectors.html_tokens import Token, tokens
from hopsyncd.formats.blocks import Block, Kind, Links, link_to_address, with_title

_BLANKS = re.compile(r"[^\S\n]+")
_MARK = "\0"  # where a link begins; no text holds it

_HIDDEN_NAMES = "script style template svg iframe object textarea select"
_HIDDEN = frozenset(_HIDDEN_NAMES.split())
_LISTS = frozenset(("ul", "ol", "menu", "dl"))
_TABLES = frozenset(("table", "tr", "thead", "tbody", "tfoot", "caption"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_NAMES = (
    "address article aside blockquote body center details dd div dt fieldset figcaption figure "
    "footer form head header hr html li main nav p pre section summary title"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split()).union(_LISTS, _TABLES, _HEADINGS)
_IN_CELLS = frozenset(("p", "div", "center"))


def html_blocks(text: str, first_line: int = 1) -> tuple[Block, ...]:
    """Read HTML whose first line has the number `first_line`.

    Scripts, styles and comments are dropped. A table row is one block. `title` becomes the level-1
    heading where there is no `h1`. Unclosed elements end where the next block begins, as in
    browsers; an unclosed comment or script runs to the end.
    """
    builder = _Builder(_Lines(text, first_line))
    for event in tokens(text, _HIDDEN):
        builder.take(event)
    builder.flush()
    return with_title(tuple(builder.blocks), builder.title, builder.title_line)


class _Lines:
    """Places in a text to line numbers."""

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
        self._lists = 0
        self._in_row = False
        self._href, self._is_shown = "", False
        self._links: list[tuple[str, list[str]]] = []  # addresses, with the pieces shown

    def take(self, event: Token) -> None:
        if event.what == "text":
            self._text(event)
        elif event.value == "br":
            self._parts.append("\n" if self._element == "pre" else " ")
        elif event.value == "a":
            self._href, self._is_shown = event.href, False
        elif event.value in ("td", "th"):
            self._cell(event)
        elif event.value in _BLOCKS:
            self._block(event)

    def flush(self) -> None:
        """End the block in progress, if it has text."""
        text, links = self._without_marks(self._collected())
        if text:
            first, last = self._lines.at(self._span[0]), self._lines.at(self._span[1])
            if self._element == "title":
                self.title, self.title_line = self.title or text, first
            else:
                self.blocks.append(self._made(text, first, last, links))
        self._parts, self._has_text = [], False
        self._links, self._is_shown = [], False

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
        if event.what == "open" and self._in_row:
            self._parts.append(" | " if self._has_text else "")

    def _block(self, event: Token) -> None:
        name, opens = event.value, event.what == "open"
        if self._in_row and name in _IN_CELLS:
            self._parts.append(" ")
            return
        self.flush()
        self._element = name if opens else ""
        self._in_row = opens and name == "tr"
        if name in _LISTS:
            self._lists = max(0, self._lists + (1 if opens else -1))

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

    def _made(self, text: str, first: int, last: int, links: Links) -> Block:
        level = _HEADINGS.get(self._element, 0)
        if level:
            return Block("heading", " ".join(text.split()), first, last, level, links)
        return Block(self._kind(), text, first, max(first, last), links=links)

    def _kind(self) -> Kind:
        if self._element == "pre":
            return "code"
        if self._in_row:
            return "table"
        return "list_item" if self._lists else "paragraph"
