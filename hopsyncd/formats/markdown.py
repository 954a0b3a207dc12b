"""Markdown: CommonMark with tables, front matter, wiki-links, callouts and tags, by markdown-it-py.

Wiki-links and tags are those of note programs: `[[Target]]`, `[[Target#Heading|shown]]`, the
embedding `![[Target]]`, and `#tag`, which names a page as a link does. Block ids and references,
which Logseq keeps in the text for itself, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hopsyncd.formats.blocks import (
    Block,
    Kind,
    Links,
    WrittenLink,
    link_to_address,
    link_to_name,
    squeeze,
    with_title,
)
from hopsyncd.formats.fields import (
    WIKI_LINK,
    FrontMatter,
    lead_in_of,
    lead_of,
    without_front_matter,
)
from hopsyncd.formats.html import html_blocks
from hopsyncd.formats.plain import plain_blocks
from hopsyncd.formats.tables import TableBuilder, table_blocks

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


_ADMONITIONS = frozenset(("note", "tip", "important", "warning", "caution"))

# Inside code all of these are text.
_MACRO = re.compile(
    r"(?P<code>(?<!`)`++[^`]*+`++)"
    r"|\]\(\{%[ \t]*\w+[ \t]+[\"']?(?P<address>[^\"'%\s{}]{1,500})[\"']?[ \t]*%\}"
    r"(?P<rest>[^()\s]{0,200})\)"
    r"|\{%[ \t]*\w+[ \t]+[\"'](?P<shown>[^\"'%\n{}]{1,200})[\"'][ \t]*%\}"  # {% channel "help" %}
    r"|\{%[^%\n{}]{0,500}%\}|\{\{[^{}\n]{0,500}\}\}"  # Jekyll's and Hugo's tags, Logseq's macros
    r"|\{:[^{}\n]{0,200}\}"  # attributes of kramdown, sizes of Logseq's pictures
    r"|%%[^%\n]{1,500}%%"  # Obsidian's comments
    r"|\[\^[\w-]{1,40}\]:?"  # footnotes
)
_CALLOUT = re.compile(r"\A\[!(\w{1,30})(?:\|[^\]\n]{0,100})?\][+-]?[ \t]*([^\n]*)(\n?)")
_TASK = re.compile(r"\A\[[ xX/-]\][ \t]+")
_BEGIN = re.compile(r"^[ \t]*#\+BEGIN_(\w+)[ \t]*", re.IGNORECASE | re.MULTILINE)
_END = re.compile(r"[ \t]*#\+END_\w+[ \t]*$", re.IGNORECASE | re.MULTILINE)
_BLOCK_ID = re.compile(r"(?<=\s)\^[\w-]{1,60}\Z")
_HIGHLIGHT = re.compile(r"==(?=\S)([^=\n]{1,300})(?<=\S)==")
_PICTURE = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|bmp|mp4|mov|webm|mp3|wav)(?:#\S*)?\Z", re.IGNORECASE
)
_SIZE = re.compile(r"\d+(?:x\d+)?\Z")


def without_note_markup(text: str) -> str:
    r"""The text of a paragraph as a reader sees it, still with the markup of Markdown.

    >>> without_note_markup("[!tip] Save often\nand early. {{embed x}}")
    'Save often:\nand early. '
    >>> without_note_markup('See [leave]({% page "/leave/" %}#award) or `{{x}}`.')
    'See [leave](/leave/#award) or `{{x}}`.'
    """
    text = _CALLOUT.sub(_callout, _TASK.sub("", text, count=1), count=1)
    if "{" in text or "%%" in text or "[^" in text:
        text = _MACRO.sub(_macro, text)
    if "#+" in text:
        text = _END.sub("", _BEGIN.sub(_begin, text))
    return _HIGHLIGHT.sub(r"\1", _BLOCK_ID.sub("", text))


def shown_of_embedded(name: str, shown: str) -> str:
    """The text shown for an embedded file; for a picture, its caption.

    >>> shown_of_embedded("lucide-x.svg#icon", ""), shown_of_embedded("a.png", "300")
    ('', '')
    >>> shown_of_embedded("a.png", "The mill"), shown_of_embedded("Notes#Mill", "")
    ('The mill', 'Notes#Mill')
    """
    if not _PICTURE.search(name):
        return shown or name
    return "" if _SIZE.match(shown) or _PICTURE.search(shown) else shown


def _callout(found: re.Match[str]) -> str:
    title = found[2].strip() or found[1].capitalize()
    joint = "" if (found[2] and not found[3]) or title[-1] in ".:!?" else ":"
    return title + joint + found[3]


def _macro(found: re.Match[str]) -> str:
    if found["code"]:
        return found["code"]
    if found["address"]:
        return f"]({found['address']}{found['rest']})"
    return found["shown"] or ""


def _begin(found: re.Match[str]) -> str:
    kind = found[1].lower()
    return f"{kind.capitalize()}: " if kind in _ADMONITIONS else ""


_MAX_NESTING = 100
_MAX_LEADS = 3
# Parsing a line takes time quadratic in its nesting; nobody writes quotes this deep.
_DEEP_QUOTE = re.compile(r"^(?:[ \t]{0,3}>[ \t]?){12}", re.MULTILINE)
_MARKUP = re.compile(r"[\\`*_\[\]<&#]")
_TAG = re.compile(r"(?<![\w&/#])#(?=[\w/-]*[^\W\d])([\w/-]{1,100})")
_LOGSEQ_KEYS = (
    "id|collapsed|created-at|updated-at|template(?:-including-parent)?|background-color|heading"
    r"|order-list-type|query-[a-z-]+|card-[a-z-]+|logseq\.[\w.-]+|public|publish"
)
_LOGSEQ = re.compile(
    rf"^[ \t]*(?:{_LOGSEQ_KEYS})::[ \t].*$|\(\([0-9a-f]{{8}}-[0-9a-f-]{{27}}\)\)", re.MULTILINE
)
_OF_CONTENTS = ("bullet_list_open", "ordered_list_open", "paragraph_open")
_OUTLINE = re.compile(r"[-*] \S")
_WIKI_LINK_HERE = re.compile(rf"!?{WIKI_LINK.pattern}(?!\()")
_INTO_PAGE = re.compile(
    r"\[(?:[^\[\]\n\\]|\\.|\[[^\[\]\n]{0,200}\]){1,300}\]\([ \t]*<?#[^()\s]{0,300}>?[ \t]*\)"
)
_WORD = re.compile(r"\w")
_CELL = " | "
_MARK = "\0"  # where a link begins; no text holds it


def markdown_blocks(text: str) -> tuple[Block, ...]:
    """Read Markdown. Links, images and emphasis are reduced to the text a reader sees.

    The front matter's `title` becomes the level-1 heading if there is none, with its other fields
    below. A table's cells have the names of their columns. Lists of links into the page alone are
    left out. Code is cited by its own lines, without the fences. A document nested deeper than the
    parser can go (12 quotes, 100 levels) is read as plain text, so that none of it is lost.
    """
    text, said = without_front_matter(text)
    tags: list[str] = []
    blocks = _with_fields(_blocks(_LOGSEQ.sub("", text), tags), said)
    properties = (*said.properties, *(("tag", tag) for tag in dict.fromkeys(tags)))
    if not blocks or not (said.names or said.links or properties):
        return blocks
    links = (*((0, link) for link in said.links), *blocks[0].links)
    first = replace(blocks[0], links=links, names=said.names, properties=properties)
    return (first, *blocks[1:])


def _with_fields(blocks: tuple[Block, ...], said: FrontMatter) -> tuple[Block, ...]:
    """The fields below the title, or on top where there is none."""
    fields = [Block("list_item", one.text, one.line, one.line) for one in said.fields]
    titled = with_title(blocks or tuple(fields), said.title, said.title_line)
    if not blocks:
        return titled
    head = 1 if titled[0].level == 1 else 0
    return (*titled[:head], *fields, *titled[head:])


def _blocks(text: str, tags: list[str]) -> tuple[Block, ...]:
    """The blocks of the text; the tags in it join `tags`."""
    if _DEEP_QUOTE.search(text):
        return plain_blocks(text)
    from markdown_it import MarkdownIt  # slow to import

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.enable("table").disable("inline")
    parser.inline.ruler.before("link", "wiki_link", _wiki_link)
    env: MutableMapping[str, Any] = {"tags": tags}
    tokens = _without_contents(parser.parse(text, env))
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):
        return plain_blocks(text)
    return tuple(_Walk(parser, env).blocks(tokens))


def _without_contents(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without lists and paragraphs of more than one link, all into the same page."""
    kept: list[Token] = []
    opened = 0  # where the list or paragraph in progress begins in what is kept
    links = 0
    is_contents = True
    for token in tokens:
        if not token.level and token.nesting == 1:
            opened, links, is_contents = len(kept), 0, token.type in _OF_CONTENTS
        kept.append(token)
        if token.type == "inline":
            rest, count = _INTO_PAGE.subn("", token.content)
            links += count
            is_contents = is_contents and count > 0 and not _WORD.search(rest)
        elif token.content:
            is_contents = False
        if not token.level and token.nesting == -1 and is_contents and links > 1:
            del kept[opened:]
    return kept


def _wiki_link(state: StateInline, silent: bool) -> bool:
    """A rule of the parser; the token has what is shown as its content, the target as its meta."""
    found = _WIKI_LINK_HERE.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    if not silent:
        token = state.push("wiki_link", "", 0)
        shown, name = (found[2] or "").strip(), found[1].strip()
        is_embedded = found[0].startswith("!")
        token.content = shown_of_embedded(name, shown) if is_embedded else shown or name
        token.meta = {"target": found[1].strip()}
    state.pos = found.end()
    return True


class _Walk:
    """One pass over the parser's flat list of tokens."""

    def __init__(
        self, parser: MarkdownIt, env: MutableMapping[str, Any], *, is_inside: bool = False
    ) -> None:
        """`is_inside` an outline that looks like indented code, as Logseq writes it."""
        self._parser = parser
        self._env = env
        self._is_inside = is_inside
        self._lists = 0
        self._level = 0
        self._leads: list[str] = []  # the introduction of each list, the text of each item
        self._lead_in = ""
        self._grid: TableBuilder | None = None
        self._is_head = False

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
                self._lead_in = ""
            case "code_block" if _OUTLINE.match(token.content) and not self._is_inside:
                walk = _Walk(self._parser, self._env, is_inside=True)
                for block in walk.blocks(self._parser.parse(token.content, self._env)):
                    first, last = block.first_line + start, min(block.last_line + start, end)
                    yield replace(block, first_line=first, last_line=last)
            case "fence" | "code_block":
                first = start + 2 if token.type == "fence" else start + 1
                yield replace(_code(token.content, first), leads=self._above())
            case "html_block":
                yield from html_blocks(token.content, first_line=start + 1)
            case "bullet_list_open" | "ordered_list_open":
                self._lists += 1
                self._leads.append(self._lead_in)
                self._lead_in = ""
            case "list_item_open":
                self._leads.append("")
            case "list_item_close":
                self._leads.pop()
            case "bullet_list_close" | "ordered_list_close":
                self._lists -= 1
                self._leads.pop()
                self._lead_in = ""
            case _:
                yield from self._table(token, start, end)

    def _table(self, token: Token, start: int, end: int) -> Iterator[Block]:
        match token.type:
            case "table_open":
                self._grid = TableBuilder()
            case "thead_open" | "tbody_open":
                self._is_head = token.type == "thead_open"
            case "tr_open" if self._grid:
                self._grid.begin_row(start + 1, end, is_header=self._is_head)
            case "table_close" if self._grid:
                table, self._grid = self._grid.build(), None
                yield from table_blocks(table, self._above())

    def _above(self) -> tuple[str, ...]:
        """The leads of the open lists, and the introduction of what comes next."""
        leads = [*filter(None, self._leads), *filter(None, [self._lead_in])]
        return tuple(dict.fromkeys(leads))[-_MAX_LEADS:]

    def _inline(self, token: Token, first: int, last: int) -> Iterator[Block]:
        text, links = self._visible(without_note_markup(token.content))
        if self._grid is not None:
            self._grid.add(text, links=links)
        elif self._level:
            text, links = squeeze(text, links)
            yield Block("heading", text, first, last, self._level, links)
        else:
            self._lead_in = ""
            kind: Kind = "list_item" if self._lists else "paragraph"
            yield Block(kind, text, first, last, links=links, leads=self._above())
            if self._leads and not self._leads[-1]:
                self._leads[-1] = lead_of(text)
            else:
                self._lead_in = lead_in_of(text)

    def _visible(self, content: str) -> tuple[str, Links]:
        if not _MARKUP.search(content) or _is_bracket_heap(content):
            return content, ()
        children: list[Token] = []
        self._parser.inline.parse(content, self._parser, self._env, children)
        text = (token.content for token in children if token.type == "text")
        self._env["tags"] += (tag[1] for part in text for tag in _TAG.finditer(part))
        return _shown(children)


def _is_bracket_heap(content: str) -> bool:
    """Whether a text has more brackets than any prose: the parser spends 0.1 ms on each."""
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
                links.append((length, link_to_address(str(token.attrs["src"]), token.content)))
            case "wiki_link":
                links.append((length, link_to_name(token.meta["target"], part)))
            case "text":
                for tag in _TAG.finditer(part):
                    links.append((length + tag.start(), link_to_name(tag[1])))
        parts.append(part)
        length += len(part)
    found = sorted(((at, link) for at, link in links if link), key=lambda one: one[0])
    return "".join(parts), tuple(found)


def _code(content: str, first: int) -> Block:
    text = content.rstrip("\n")
    return Block("code", text, first, first + text.count("\n"))


def _visible_part(token: Token) -> str:
    match token.type:
        case "text" | "code_inline" | "text_special" | "wiki_link":
            return token.content
        case "image":
            return shown_of_embedded(token.content or ".png", token.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "html_inline" if token.content.lower().startswith("<br"):
            return " "
    return ""
