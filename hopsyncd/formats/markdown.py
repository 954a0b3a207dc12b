"""Markdown: CommonMark with tables, front matter, wiki-links and tags, by markdown-it-py.

Wiki-links and tags are those of note programs: `[[Target]]`, `[[Target#Heading|shown]]`, the
embedding `![[Target]]`, and `#tag`, which names a page as a link does. What Logseq keeps in the
text for itself (block ids and references) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from hopsyncd.formats.blocks import (
    Block,
    Kind,
    Links,
    WrittenLink,
    link_to_address,
    link_to_name,
    with_title,
)
from hopsyncd.formats.front_matter import WIKI_LINK, without_front_matter
from hopsyncd.formats.html import html_blocks
from hopsyncd.formats.plain import plain_blocks

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_MAX_NESTING = 100
# The parser costs the square of the nesting for every line; nobody writes quotes this deep.
_DEEP_QUOTE = re.compile(r"^(?:[ \t]{0,3}>[ \t]?){12}", re.MULTILINE)
_MARKUP = re.compile(r"[\\`*_\[\]<&#]")
_TAG = re.compile(r"(?<![\w&/#])#(?=[\w/-]*[^\W\d])([\w/-]{1,100})")
_LOGSEQ = re.compile(
    r"^[ \t]*(?:id|collapsed)::[ \t].*$|\(\([0-9a-f]{8}-[0-9a-f-]{27}\)\)", re.MULTILINE
)
_WIKI_LINK_HERE = re.compile(rf"!?{WIKI_LINK.pattern}(?!\()")
_CELL = " | "
_MARK = "\0"  # where a link begins; no text holds it


def markdown_blocks(text: str) -> tuple[Block, ...]:
    """Read Markdown. Links, images and emphasis are reduced to the text a reader sees.

    The front matter's `title` becomes the level-1 heading where there is none. Code is cited by
    its own lines, without the fences. A document nested deeper than the parser can go (12 quotes,
    100 levels) is read as plain text, so that none of it is lost.
    """
    text, said = without_front_matter(text)
    blocks = with_title(_blocks(_LOGSEQ.sub("", text)), said.title, said.title_line)
    if not blocks or not (said.names or said.links):
        return blocks
    links = (*((0, link) for link in said.links), *blocks[0].links)
    return (replace(blocks[0], links=links, names=said.names), *blocks[1:])


def _blocks(text: str) -> tuple[Block, ...]:
    if _DEEP_QUOTE.search(text):
        return plain_blocks(text)
    from markdown_it import MarkdownIt  # a start would wait for it

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.enable("table").disable("inline")
    parser.inline.ruler.before("link", "wiki_link", _wiki_link)
    env: MutableMapping[str, Any] = {}
    tokens = parser.parse(text, env)
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):
        return plain_blocks(text)
    return tuple(_Walk(parser, env).blocks(tokens))


def _wiki_link(state: StateInline, silent: bool) -> bool:
    """A rule of the parser; the token has what is shown as its content, the target as its meta."""
    found = _WIKI_LINK_HERE.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    if not silent:
        token = state.push("wiki_link", "", 0)
        token.content = (found[2] or found[1]).strip()
        token.meta = {"target": found[1].strip()}
    state.pos = found.end()
    return True


class _Walk:
    """One pass over the parser's flat list of tokens."""

    def __init__(self, parser: MarkdownIt, env: MutableMapping[str, Any]) -> None:
        self._parser = parser
        self._env = env
        self._lists = 0
        self._level = 0
        self._row: list[tuple[str, Links]] | None = None

    def blocks(self, tokens: Sequence[Token]) -> Iterator[Block]:
        lines = (0, 0)
        for token in tokens:
            if token.map:
                lines = (token.map[0], max(token.map[1], token.map[0] + 1))
            yield from self._token(token, *lines)

    def _token(self, token: Token, start: int, end: int) -> Iterator[Block]:
        match token.type:
            case "inline":
                yield from self._inline(token, start + 1, end)
            case "heading_open":
                self._level = int(token.tag[1])
            case "heading_close":
                self._level = 0
            case "fence" | "code_block":
                first = start + 2 if token.type == "fence" else start + 1
                yield _code(token.content, first)
            case "html_block":
                yield from html_blocks(token.content, first_line=start + 1)
            case "bullet_list_open" | "ordered_list_open":
                self._lists += 1
            case "bullet_list_close" | "ordered_list_close":
                self._lists -= 1
            case "tr_open":
                self._row = []
            case "tr_close":
                yield _row(self._row or [], start + 1, end)
                self._row = None

    def _inline(self, token: Token, first: int, last: int) -> Iterator[Block]:
        text, links = self._visible(token.content)
        if self._row is not None:
            self._row.append(_squeezed(text, links))
        elif self._level:
            text, links = _squeezed(text, links)
            yield Block("heading", text, first, last, self._level, links)
        else:
            kind: Kind = "list_item" if self._lists else "paragraph"
            yield Block(kind, text, first, last, links=links)

    def _visible(self, content: str) -> tuple[str, Links]:
        if not _MARKUP.search(content) or _is_bracket_heap(content):
            return content, ()
        children: list[Token] = []
        self._parser.inline.parse(content, self._parser, self._env, children)
        return _shown(children)


def _is_bracket_heap(content: str) -> bool:
    """Tell text with more brackets than any prose has: the parser spends 0.1 ms on each."""
    return WIKI_LINK.sub("", content).count("[") > 20 + len(content) // 8


def _shown(tokens: Sequence[Token]) -> tuple[str, Links]:
    """The text that a reader sees, and the links in it."""
    parts: list[str] = []
    length = 0
    links: list[tuple[int, WrittenLink | None]] = []
    opened = (0, 0, "")
    for token in tokens:
        part = _visible_part(token)
        match token.type:
            case "link_open":
                opened = (length, len(parts), str(token.attrs["href"]))
            case "link_close":
                at, first, address = opened
                links.append((at, link_to_address(address, "".join(parts[first:]))))
            case "image":
                links.append((length, link_to_address(str(token.attrs["src"]), part)))
            case "wiki_link":
                links.append((length, link_to_name(token.meta["target"], part)))
            case "text":
                for tag in _TAG.finditer(part):
                    links.append((length + tag.start(), link_to_name(tag[1])))
        parts.append(part)
        length += len(part)
    found = sorted(((at, link) for at, link in links if link), key=lambda one: one[0])
    return "".join(parts), tuple(found)


def _squeezed(text: str, links: Links) -> tuple[str, Links]:
    """The same in one line with single spaces."""
    ends = [0, *(at for at, _ in links), len(text)]
    marked = _MARK.join(text[start:end] for start, end in pairwise(ends))
    starts = accumulate(map(len, " ".join(marked.split()).split(_MARK)))
    moved = ((at, link) for at, (_, link) in zip(starts, links, strict=False))
    return " ".join(text.split()), tuple(moved)


def _row(cells: Sequence[tuple[str, Links]], first: int, last: int) -> Block:
    filled = [cell for cell in cells if cell[0]]
    starts = accumulate((len(text) + len(_CELL) for text, _ in filled), initial=0)
    links = [
        (start + at, link)
        for start, (_, links) in zip(starts, filled, strict=False)
        for at, link in links
    ]
    return Block("table", _CELL.join(text for text, _ in filled), first, last, links=tuple(links))


def _code(content: str, first: int) -> Block:
    text = content.rstrip("\n")
    return Block("code", text, first, first + text.count("\n"))


def _visible_part(token: Token) -> str:
    match token.type:
        case "text" | "code_inline" | "image" | "text_special" | "wiki_link":
            return token.content
        case "softbreak" | "hardbreak":
            return "\n"
        case "html_inline" if token.content.lower().startswith("<br"):
            return " "
    return ""
