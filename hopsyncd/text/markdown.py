"""Markdown: CommonMark with tables and front matter, by markdown-it-py."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from hopsyncd.text.blocks import Block, with_title
from hopsyncd.text.html import html_blocks
from hopsyncd.text.plain import plain_blocks

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MAX_NESTING = 100
# The parser costs the square of the nesting for every line; nobody writes quotes this deep.
_DEEP_QUOTE = re.compile(r"^(?:[ \t]{0,3}>[ \t]?){12}", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(?=[\w\"'#-])(.*?)^\1[ \t]*$", re.S | re.M)
_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(\S.*?)[ \t]*$", re.M | re.I)
_MARKUP = re.compile(r"[\\`*_\[\]<&]")


def markdown_blocks(text: str) -> tuple[Block, ...]:
    """Read Markdown. Links, images and emphasis are reduced to the text a reader sees.

    The front matter's `title` becomes the level-1 heading where there is none. Code is cited by
    its own lines, without the fences. A document nested deeper than the parser can go (12 quotes,
    100 levels) is read as plain text, so that none of it is lost.
    """
    text, title, title_line = _without_front_matter(text)
    if _DEEP_QUOTE.search(text):
        return with_title(plain_blocks(text), title, title_line)
    from markdown_it import MarkdownIt  # a start would wait for it

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.enable("table").disable("inline")
    env: MutableMapping[str, Any] = {}
    tokens = parser.parse(text, env)
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):
        return with_title(plain_blocks(text), title, title_line)
    return with_title(tuple(_Walk(parser, env).blocks(tokens)), title, title_line)


def _without_front_matter(text: str) -> tuple[str, str, int]:
    """Return the text with its front matter blanked, the title in it, and that title's line."""
    found = _FRONT_MATTER.match(text)
    if not found:
        return text, "", 1
    blanked = "\n" * found[0].count("\n") + text[found.end() :]
    title = _TITLE.search(found[2])
    if not title:
        return blanked, "", 1
    line = 1 + text.count("\n", 0, found.start(2) + title.start())
    return blanked, title[1].strip("\"'"), line


class _Walk:
    """One pass over the parser's flat list of tokens."""

    def __init__(self, parser: MarkdownIt, env: MutableMapping[str, Any]) -> None:
        self._parser = parser
        self._env = env
        self._lists = 0
        self._level = 0
        self._row: list[str] | None = None

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
                yield Block("table", " | ".join(filter(None, self._row or ())), start + 1, end)
                self._row = None

    def _inline(self, token: Token, first: int, last: int) -> Iterator[Block]:
        text = self._visible(token.content)
        if self._row is not None:
            self._row.append(" ".join(text.split()))
        elif self._level:
            yield Block("heading", " ".join(text.split()), first, last, self._level)
        else:
            yield Block("list_item" if self._lists else "paragraph", text, first, last)

    def _visible(self, content: str) -> str:
        if not _MARKUP.search(content) or _is_bracket_heap(content):
            return content
        children: list[Token] = []
        self._parser.inline.parse(content, self._parser, self._env, children)
        return "".join(map(_visible_part, children))


def _is_bracket_heap(content: str) -> bool:
    """Tell text with more brackets than any prose has: the parser spends 0.1 ms on each."""
    return content.count("[") > 20 + len(content) // 8


def _code(content: str, first: int) -> Block:
    text = content.rstrip("\n")
    return Block("code", text, first, first + text.count("\n"))


def _visible_part(token: Token) -> str:
    match token.type:
        case "text" | "code_inline" | "image" | "text_special":
            return token.content
        case "softbreak" | "hardbreak":
            return "\n"
        case "html_inline" if token.content.lower().startswith("<br"):
            return " "
    return ""
