"""Reads Markdown with markdown-it-py: CommonMark, tables, front matter, wiki-links, callouts and
tags.

Wiki-links and tags follow the syntax of note programs: `[[Target]]`, `[[Target#Heading|shown]]`,
the embedding `![[Target]]`, and `#tag`, which links to a page of this name. Block ids and block
references of Logseq are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hopsyncd.formats.blocks import (
    TEMPLATES,
    Block,
    Kind,
    Links,
    WrittenLink,
    count_skipped,
    make_address_link,
    make_name_link,
    make_skipped_block,
    squeeze_spaces,
    with_title,
)
from hopsyncd.formats.fields import (
    lead_in_of,
    lead_of,
)
from hopsyncd.formats.front_matter import (
    WIKI_LINK,
    FrontMatter,
    is_template,
    read_page_fields,
    remove_front_matter,
)
from hopsyncd.formats.html import read_html
from hopsyncd.formats.inline import write_subscript, write_superscript
from hopsyncd.formats.joplin import make_joplin_blocks, parse_item
from hopsyncd.formats.list_numbers import ItemNumbers, add_label
from hopsyncd.formats.markdown_definitions import parse_definitions
from hopsyncd.formats.markdown_inline import drop_hidden
from hopsyncd.formats.markdown_multi_tables import parse_multi_table
from hopsyncd.formats.markdown_rules import (
    FOOTNOTE_MARK,
    add_definition_tokens,
    parse_footnotes,
    parse_formula,
    parse_script,
)
from hopsyncd.formats.markdown_tables import parse_drawn_table
from hopsyncd.formats.note_markup import (
    accept_changes,
    choose_embedded_text,
    remove_comments,
    remove_drawings,
    remove_logseq_markup,
    remove_note_markup,
)
from hopsyncd.formats.plain import read_plain
from hopsyncd.formats.site_markup import remove_site_markup
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import TableBuilder
from hopsyncd.formats.tex_formulas import format_formula

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


_MAX_NESTING = 100
_MAX_LEADS = 3
# Parsing a line takes time quadratic in its nesting. Real quotes are never this deep.
_DEEP_QUOTE = re.compile(r"^(?:[ \t]{0,3}>[ \t]?){12}", re.MULTILINE)
_MARKUP = re.compile(r"[\\`*_\[\]<&#$~^]")
_TAG = re.compile(r"(?<![\w&/#])#(?=[\w/-]*[^\W\d])([\w/-]{1,100})")
_QUERIES = frozenset(("dataview", "dataviewjs", "tasks"))  # code that plug-ins of Obsidian run
_OF_CONTENTS = ("bullet_list_open", "ordered_list_open", "paragraph_open")
_OUTLINE = re.compile(r"[-*] \S")
_WIKI_LINK_HERE = re.compile(rf"!?{WIKI_LINK.pattern}(?!\()")
_INTO_PAGE = re.compile(
    r"\[(?:[^\[\]\n\\]|\\.|\[[^\[\]\n]{0,200}\]){1,300}\]\([ \t]*<?#[^()\s]{0,300}>?[ \t]*\)"
)
_WORD = re.compile(r"\w")
_CELL = " | "
_MARK = "\0"  # marks the start of a link; no text contains it


def read_markdown(text: str) -> tuple[Block, ...]:
    """Read Markdown. Links, images and emphasis are reduced to the visible text.

    If the text has no level-1 heading, the front matter's `title` becomes that heading, with the
    other fields below it. Each cell of a table follows the name of its column. Lists of links
    within the page are left out. Code keeps its own line numbers, without the fences. A document
    nested deeper than the parser allows (12 quotes, 100 levels) is read as plain text, so that no
    text is lost.
    """
    if item := parse_item(text):
        return make_joplin_blocks(item, _read_document)
    return _read_document(text)


def _read_document(text: str) -> tuple[Block, ...]:
    text, front_matter = remove_front_matter(text)
    env = _Environment()
    if any(name == "excalidraw-plugin" for name, _ in front_matter.properties):
        text, env.skipped["drawings"] = remove_drawings(text)
    text, env.skipped["comments"] = remove_comments(text)
    text, skipped = remove_site_markup(text)
    env.skipped.update(skipped)
    if front_matter.label_first:
        text = WIKI_LINK.sub(_swap_label, text)
    read, page_properties = read_page_fields(_read_blocks(remove_logseq_markup(text), env))
    if is_template(front_matter, read, text):
        return (make_skipped_block({TEMPLATES: 1}),)
    blocks = _insert_fields(read, front_matter)
    tags = (("tag", tag) for tag in dict.fromkeys(env.tags))
    properties = (*front_matter.properties, *page_properties, *tags)
    if blocks and (front_matter.names or front_matter.links or properties):
        links = (*((0, link) for link in front_matter.links), *blocks[0].links)
        first = replace(blocks[0], links=links, names=front_matter.names, properties=properties)
        blocks = (first, *blocks[1:])
    return (*blocks, make_skipped_block(env.skipped)) if env.skipped.total() else blocks


@dataclass(slots=True)
class _Environment:
    """The parser's state for one document.

    `cited` are the labels of the footnotes to which the text refers, and `waiting` are the labels
    in the current block.
    """

    tags: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    cited: set[str] = field(default_factory=set)
    notes: dict[str, Token] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    of_parser: MutableMapping[str, Any] = field(default_factory=dict)


def _swap_label(found: re.Match[str]) -> str:
    return f"[[{found[2]}|{found[1]}]]" if found[2] else found[0]


def _insert_fields(blocks: tuple[Block, ...], front_matter: FrontMatter) -> tuple[Block, ...]:
    """Insert the fields below the title, or at the top if there is no title."""
    fields = [
        Block("list_item", field.text, field.line, field.line) for field in front_matter.fields
    ]
    titled = with_title(blocks or tuple(fields), front_matter.title, front_matter.title_line)
    if not blocks:
        return titled
    head = 1 if titled[0].level == 1 else 0
    return (*titled[:head], *fields, *titled[head:])


def _read_blocks(text: str, env: _Environment) -> tuple[Block, ...]:
    """Read the blocks of the text. The notes and names in the text are added to `env`."""
    if _DEEP_QUOTE.search(text):
        return read_plain(text)
    parser = _make_parser()
    tokens = parser.parse(text, env.of_parser)
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):
        return read_plain(text)
    tokens = _drop_contents(tokens, env.skipped)
    for token in tokens:
        if token.type == "inline" and "[^" in token.content:
            env.cited.update(FOOTNOTE_MARK.findall(token.content))
        elif token.type == "footnote":
            env.notes.setdefault(token.meta["label"], token)
    if env.notes:
        contents = (note.content for note in env.notes.values())
        env.cited.update(label for content in contents for label in FOOTNOTE_MARK.findall(content))
    walk = _Walk(parser, env)
    return tuple(walk.read_blocks([*add_definition_tokens(tokens, env.of_parser, text)]))


def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # slow to import

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"]).disable("inline")
    parser.inline.ruler.before("link", "wiki_link", _parse_wiki_link)
    parser.inline.ruler.before("escape", "math", parse_formula)
    parser.inline.ruler.before("strikethrough", "script", parse_script)
    parser.block.ruler.before("code", "drawn_table", parse_drawn_table)
    alternatives = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("table", "multi_table", parse_multi_table, {"alt": alternatives[:2]})
    parser.block.ruler.before("reference", "footnote", parse_footnotes, {"alt": alternatives})
    parser.block.ruler.before("lheading", "definition", parse_definitions, {"alt": ["paragraph"]})
    return parser


def _drop_contents(tokens: Sequence[Token], skipped: Counter[str]) -> list[Token]:
    """Drop queries, and lists and paragraphs that consist of two or more links within the page, and
    count them in `skipped`."""
    remaining: list[Token] = []
    opened = 0  # where the current list or paragraph begins in the remaining tokens
    links = 0
    is_contents = True
    for token in tokens:
        if token.type == "fence" and token.info.strip() in _QUERIES:
            skipped["queries"] += 1
            continue
        if not token.level and token.nesting == 1:
            opened, links, is_contents = len(remaining), 0, token.type in _OF_CONTENTS
        remaining.append(token)
        if token.type == "inline":
            rest, count = _INTO_PAGE.subn("", token.content)
            links += count
            is_contents = is_contents and count > 0 and not _WORD.search(rest)
        elif token.content:
            is_contents = False
        if not token.level and token.nesting == -1 and is_contents and links > 1:
            del remaining[opened:]
            skipped["tables of contents"] += 1
    return remaining


def _parse_wiki_link(state: StateInline, silent: bool) -> bool:
    """Parse wiki-links (a parser rule). The token's content is the visible text, its `meta` the
    target."""
    found = _WIKI_LINK_HERE.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    if not silent:
        token = state.push("wiki_link", "", 0)
        shown, name = (found[2] or "").strip(), found[1].strip()
        is_embedded = found[0].startswith("!")
        token.content = choose_embedded_text(name, shown) if is_embedded else shown or name
        token.meta = {"target": found[1].strip()}
    state.pos = found.end()
    return True


class _Walk:
    """Converts the parser's flat list of tokens to blocks, in one pass."""

    def __init__(self, parser: MarkdownIt, env: _Environment, *, is_inside: bool = False) -> None:
        """`is_inside` is true if the text is part of an outline that looks like indented code, as
        in Logseq."""
        self._parser = parser
        self._env = env
        self._is_inside = is_inside
        self._lists: list[ItemNumbers | None] = []
        self._label = ""  # the number of an item, or the term, whose text has not been read
        self._term: tuple[str, Links] = "", ()
        self._level = 0
        self._leads: list[str] = []  # the introduction of each list, the text of each item
        self._lead_in = ""
        self._grid: TableBuilder | None = None
        self._is_head = False
        self._line = 1  # the last line of the last block
        self._readings: list[str] = []  # pronunciations in the text since the last note

    def read_blocks(self, tokens: Sequence[Token]) -> Iterator[Block]:
        lines = (0, 0)
        for token in tokens:
            if token.map:
                lines = (token.map[0], max(token.map[1], token.map[0] + 1))
            for block in self._read_token(token, *lines):
                self._line = block.last_line
                yield block
                if block.kind != "table":
                    yield from self._read_notes()
            if token.type == "table_close":
                yield from self._read_notes()

    def _read_notes(self) -> Iterator[Block]:
        """Yield the pronunciations and footnotes of the text since the last call."""
        readings, self._readings = self._readings, []
        if readings:
            line = self._line
            yield Block("note", "; ".join(readings), line, line)
        labels, self._env.waiting = self._env.waiting, []
        for label in labels:
            if note := self._env.notes.pop(label, None):
                yield from self._note(note)

    def _note(self, token: Token) -> Iterator[Block]:
        start, end = token.map or (0, 0)
        walk = _Walk(self._parser, self._env, is_inside=True)
        for block in walk.read_blocks(self._parser.parse(token.content, self._env.of_parser)):
            first, last = block.first_line + start, min(block.last_line + start, end)
            kind: Kind = "note" if block.kind in ("paragraph", "heading") else block.kind
            yield replace(block, kind=kind, level=0, first_line=first, last_line=last)

    def _read_token(self, token: Token, start: int, end: int) -> Iterator[Block]:
        match token.type:
            case "inline":
                yield from self._read_inline(token, start + 1, end)
            case "code_block" if _OUTLINE.match(token.content) and not self._is_inside:
                walk = _Walk(self._parser, self._env, is_inside=True)
                inner = self._parser.parse(token.content, self._env.of_parser)
                for block in walk.read_blocks(inner):
                    first, last = block.first_line + start, min(block.last_line + start, end)
                    yield replace(block, first_line=first, last_line=last)
            case "footnote" if token.meta["label"] not in self._env.cited:
                yield from self._note(token)
            case "definition":
                yield Block("paragraph", token.content, start + 1, end)
            case "html_block":
                blocks = read_html(token.content, first_line=start + 1)
                self._env.skipped.update(count_skipped(blocks))
                yield from (block for block in blocks if block.kind != "skipped")
            case "fence" if token.info.strip() == "math":
                text = format_formula(token.content)
                yield Block("paragraph", text, start + 2, end - 1, leads=self._list_leads_above())
            case "fence" | "code_block":
                first = start + 2 if token.type == "fence" else start + 1
                yield replace(
                    _make_code_block(token.content, first), leads=self._list_leads_above()
                )
            case _ if self._grid or token.type == "table_open":
                yield from self._read_table(token, start, end)
            case "dt":
                self._term = self._read_visible(token.content)
            case "dd_open":
                yield from self._begin_definition(token, start + 1)
            case _:
                self._enter_or_leave(token)

    def _enter_or_leave(self, token: Token) -> None:
        """Track where headings, lists and their items begin and end."""
        match token.type:
            case "heading_open":
                self._level = int(token.tag[1])
            case "heading_close":
                self._level = 0
                self._lead_in = ""
            case "bullet_list_open" | "ordered_list_open" | "dl_open":
                is_numbered = token.type == "ordered_list_open"
                start = int(token.attrs.get("start", 1))
                self._lists.append(ItemNumbers(start) if is_numbered else None)
                self._label = ""
                self._leads.append(self._lead_in)
                self._lead_in = ""
            case "list_item_open":
                self._leads.append("")
                numbers = self._lists[-1]
                self._label = numbers.take() if numbers else ""
            case "list_item_close" | "dd_close":
                self._leads.pop()
                self._label = ""
            case "bullet_list_close" | "ordered_list_close" | "dl_close":
                self._lists.pop()
                self._leads.pop()
                self._lead_in = ""

    def _begin_definition(self, token: Token, line: int) -> Iterator[Block]:
        """Begin a definition at `line`. The term is put before the text of its first definition, or
        becomes a block of its own if that definition does not begin with text."""
        term, links = self._term
        is_first = token.info == "first"
        self._label = ""
        if is_first and token.hidden:
            yield Block("list_item", term, line, line, links=links, leads=self._list_leads_above())
        elif is_first:
            self._label = term if term.endswith((":", "?", ".")) else f"{term}:"
        self._leads.append("" if self._label else lead_of(term))
        self._lead_in = ""

    def _read_table(self, token: Token, start: int, end: int) -> Iterator[Block]:
        match token.type:
            case "table_open":
                self._grid = TableBuilder(token.content)
            case "thead_open" | "tbody_open":
                self._is_head = token.type == "thead_open"
            case "tr_open" if self._grid:
                self._grid.begin_row(start + 1, end, is_header=self._is_head)
            case "table_close" if self._grid:
                table, self._grid = self._grid.build(), None
                yield from make_table_blocks(table, self._list_leads_above())

    def _list_leads_above(self) -> tuple[str, ...]:
        """Return the leads of the next block: the leads of open lists, and the introduction above
        the block."""
        leads = [*filter(None, self._leads), *filter(None, [self._lead_in])]
        return tuple(dict.fromkeys(leads))[-_MAX_LEADS:]

    def _read_inline(self, token: Token, first: int, last: int) -> Iterator[Block]:
        if "[^" in token.content:
            self._env.waiting += FOOTNOTE_MARK.findall(token.content)
        content, changes = accept_changes(token.content)
        self._env.skipped.update(changes)
        text, links = self._read_visible(remove_note_markup(content))
        if self._grid is not None:
            self._grid.add(text, links=links, **token.meta)
        elif self._level:
            text, links = squeeze_spaces(text, links)
            if self._label and not text[:1].isdigit():
                text, links = add_label(self._label, text, links)
            self._label = ""
            yield Block("heading", text, first, last, self._level, links)
        else:
            self._lead_in = ""
            term_links = self._term[1] if self._label else ()
            text, links = add_label(self._label, text, links)
            links, self._label = (*term_links, *links), ""
            kind: Kind = "list_item" if self._lists else "paragraph"
            yield Block(kind, text, first, last, links=links, leads=self._list_leads_above())
            if self._leads and not self._leads[-1]:
                self._leads[-1] = lead_of(text)
            else:
                self._lead_in = lead_in_of(text)

    def _read_visible(self, content: str) -> tuple[str, Links]:
        if not _MARKUP.search(content) or _is_bracket_heap(content):
            return content, ()
        children: list[Token] = []
        self._parser.inline.parse(content, self._parser, self._env.of_parser, children)
        children, deletions, readings = drop_hidden(children)
        self._env.skipped["deletions"] += deletions
        self._readings += readings
        text = (token.content for token in children if token.type == "text")
        self._env.tags += (tag[1] for part in text for tag in _TAG.finditer(part))
        return _collect_visible_text(children)


def _is_bracket_heap(content: str) -> bool:
    """Whether `content` has too many brackets to be prose. The parser needs 0.1 ms for each
    bracket."""
    return WIKI_LINK.sub("", content).count("[") > 20 + len(content) // 8


_SCRIPT = re.compile(r"<(/?)(sup|sub)\b", re.IGNORECASE)


def _collect_visible_text(tokens: Sequence[Token]) -> tuple[str, Links]:
    """Return the text that a reader sees, and the links in it."""
    parts: list[str] = []
    length = 0
    links: list[tuple[int, WrittenLink | None]] = []
    opened = (0, 0, "")
    script: tuple[int, int] | None = None
    for token in tokens:
        part = _read_visible_part(token)
        match token.type:
            case "html_inline" if tag := _SCRIPT.match(token.content):
                if not tag[1]:
                    script = (length, len(parts))
                elif script:
                    (length, first), script = script, None
                    mark = write_superscript if tag[2].lower() == "sup" else write_subscript
                    part = mark("".join(parts[first:]), "".join(parts[:first])[-1:])
                    del parts[first:]
            case "script":
                mark = write_subscript if token.markup == "_" else write_superscript
                part = mark(token.content, "".join(parts)[-1:])
            case "link_open":
                opened = (length, len(parts), str(token.attrs["href"]))
            case "link_close":
                offset, first, address = opened
                links.append((offset, make_address_link(address, "".join(parts[first:]))))
            case "image":
                links.append((length, make_address_link(str(token.attrs["src"]), token.content)))
            case "wiki_link":
                links.append((length, make_name_link(token.meta["target"], part)))
            case "text":
                for tag in _TAG.finditer(part):
                    links.append((length + tag.start(), make_name_link(tag[1])))
        parts.append(part)
        length += len(part)
    found = sorted(((offset, link) for offset, link in links if link), key=lambda pair: pair[0])
    return "".join(parts), tuple(found)


def _make_code_block(content: str, first: int) -> Block:
    text = content.rstrip("\n")
    return Block("code", text, first, first + text.count("\n"))


def _read_visible_part(token: Token) -> str:
    match token.type:
        case "text" | "code_inline" | "text_special" | "wiki_link":
            return token.content
        case "image":
            return choose_embedded_text(token.content or ".png", token.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "html_inline" if token.content.lower().startswith("<br"):
            return " "
    return ""
