"""Reads plain text by its layout: text indented below a line belongs to that line.

Example, from a manual page:

    OPTIONS                         a heading
           -n, --dry-run            a term, with the text below it: "-n, --dry-run: Show what
               Show what would      would be done."
               be done.
                                    a paragraph whose lead is the term
               Nothing is removed.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hopsyncd.formats.blocks import Block, Kind, WrittenLink, make_name_link
from hopsyncd.formats.chats import read_clippings, read_whatsapp
from hopsyncd.formats.fields import are_fields, lead_in_of, lead_of, read_head
from hopsyncd.formats.text_layout import (
    COLUMNS,
    ITEM,
    NUMBERED,
    TAB,
    WRAPPED,
    Tag,
    blank_page_lines,
    find_numbered_headings,
    find_tags,
    is_of_contents,
    join_over_pages,
    measure_indent,
    split_into_runs,
)

_MAX_TERM_CHARACTERS = 300
_MAX_HEADING_CHARACTERS = 80
_MAX_LEADS = 3
_MARGIN = 72  # a line is full if the next word would exceed this width
_RAGGED_CHARACTERS = 45
_HEAD_BLOCKS = 8  # the title must be in one of the first blocks

_MANUAL = re.compile(r"(\S{1,60}\(\w{1,4}\))[ \t].*[ \t]\1[ \t]*\Z")
_MANUAL_NAME = re.compile(r"(\S.{0,100}?) +[-\u2013\u2014] +\S")
_UNDERLINE = re.compile(r"([=\-~^*#+\"'`_.:])\1{2,}+[ \t]*\Z")
# bold and underlined text, as printers encode it
_TYPED = re.compile(r"[^\n]\x08|\x1b\[[0-9;]{0,20}m")
_PROMPT = re.compile(r"(?:[$%>]|>>>) ")
_CODE_END = re.compile(r"[,;{}()\[\]|\\]\Z")
_SENTENCE = re.compile(r"[.,;:!?\u3002\uff01\uff1f]\Z")
_REFERENCE = re.compile(
    r"(?<![\w.+-])(?:(?P<page>[A-Za-z][\w.+-]{1,60})\([1-9]\w{0,2}\)"
    r"|(?P<series>RFC|PEP) ?(?P<number>\d{1,5})\b)"
)
_TEXT_END = re.compile(r"(?:(?<!\.)\.|[,;!])\Z")


@dataclass(slots=True)
class _Lines:
    """Consecutive lines of one indentation; `number` is the 1-based number of the first line.

    All lines but the first may have a hanging indentation. `is_tag` is true for a term with text on
    the same line.
    """

    number: int
    indent: int
    lines: list[str]
    hanging: int | None = None
    is_tag: bool = False

    @property
    def last(self) -> int:
        return self.number + len(self.lines) - 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def read_plain(text: str) -> tuple[Block, ...]:
    """Read text without markup: headings, fields, lists, terms with their text, paragraphs.

    Headings are lines that are in capitals, underlined, numbered or centered. In manual pages and
    RFCs, unindented lines above indented text are headings too. Running heads, page numbers and
    tables of contents are left out. Columns and code keep their line breaks. The names of manual
    pages, RFCs and PEPs, such as `git-gc(1)` or `RFC 9309`, are links. Chats of WhatsApp and the
    clippings of a Kindle are recognised by their lines.
    """
    if exported := read_whatsapp(text) or read_clippings(text):
        return exported
    if "\b" in text or "\x1b" in text:
        text = _TYPED.sub("", text)
    blocks = [_add_links(block) for block in _Reader(text.split("\n")).read_blocks()]
    title = next(
        (index for index, block in enumerate(blocks[:_HEAD_BLOCKS]) if block.level == 1), 0
    )
    return (*blocks[title : title + 1], *blocks[:title], *blocks[title + 1 :])


def _add_links(block: Block) -> Block:
    """Add a link to each document that the block names, at its first mention."""
    if block.kind == "heading":
        return block
    found: dict[str, tuple[int, WrittenLink]] = {}
    for named in _REFERENCE.finditer(block.text):
        name = named["page"] or f"{named['series']} {int(named['number'])}"
        if name not in found and (link := make_name_link(name, named[0])):
            found[name] = (named.start(), link)
    return replace(block, links=tuple(found.values())) if found else block


class _Reader:
    """Converts the runs of lines between blank lines to blocks, in one pass."""

    def __init__(self, lines: list[str]) -> None:
        self._is_manual = _MANUAL.match(_find_first(lines)) is not None
        pages = blank_page_lines(lines, _find_first(lines).split()[0] if self._is_manual else "")
        self._breaks = pages.breaks
        self._runs = list(split_into_runs(pages.lines))
        self._numbered = find_numbered_headings(self._runs)
        self._titles = frozenset(heading.text for heading in self._numbered.values())
        indented = sum(line[:1] in " \t" for _, run in self._runs for line in run)
        self._is_indented = 2 * indented > sum(len(run) for _, run in self._runs)
        self._has_title = False
        self._underlines: list[str] = []
        self._leads: list[tuple[float, str]] = []

    def read_blocks(self) -> Iterator[Block]:
        return join_over_pages(self._read_blocks(), self._breaks)

    def _read_blocks(self) -> Iterator[Block]:
        for index, (number, run) in enumerate(self._runs):
            following = self._runs[index + 1][1][0] if index + 1 < len(self._runs) else ""
            if index == 0 and are_fields(run):
                yield from self._read_head(number, run)
                continue
            headings, used = self._read_headings(index, number, run, following)
            if headings:
                self._leads = []
            yield from headings
            if run[used:]:
                yield from self._read_body(number + used, run[used:])

    def _read_head(self, number: int, run: list[str]) -> Iterator[Block]:
        head = read_head(number, run)
        if head.title:
            yield replace(self._make_heading(head.title, head.title_line, 1), names=head.names)
        yield from head.blocks

    def _read_headings(
        self, index: int, number: int, run: list[str], following: str
    ) -> tuple[list[Block], int]:
        """Return the headings at the beginning of a run, and the number of their lines.

        `index` is the position of the run, `number` its first line number, and `following` the line
        after the run.
        """
        line, below = run[0].strip(), run[1] if len(run) > 1 else following
        if numbered := self._numbered.get(index):
            return [self._make_heading(numbered.text, number, numbered.level)], numbered.lines
        if len(run) > 1 and _UNDERLINE.match(run[1]) and _fits(run[1], run[0]):
            style = run[1][0]
            if style not in self._underlines:
                self._underlines.append(style)
            return [self._make_heading(line, number, self._underlines.index(style) + 1)], 2
        if _UNDERLINE.match(run[0]) and len(run) > 2 and run[2].rstrip() == run[0].rstrip():
            return [self._make_heading(run[1].strip(), number + 1, 1)], 3
        if self._is_manual and (name := _MANUAL_NAME.match(below.strip())) and not self._has_title:
            return [self._make_heading(name[1], number + 1, 1)], 1
        level = self._find_level(run, below)
        return ([self._make_heading(line, number, level)], 1) if level else ([], 0)

    def _find_level(self, run: list[str], below: str) -> int:
        """Return the heading level of a run's first line, or 0 if the line is not a heading.
        `below` is the line below it."""
        line, indent = run[0].strip(), measure_indent(run[0])
        if len(line) > _MAX_HEADING_CHARACTERS or _SENTENCE.search(line):
            return 0
        if ITEM.match(line) and not NUMBERED.match(line):
            return 0
        deeper = measure_indent(below) > indent
        if len(run) > 1 and not deeper:
            return 0
        if indent >= 10:
            centered = len(run) == 1 and not self._is_manual and _is_centered(line, indent)
            return (2 if self._has_title else 1) if centered and _is_title(line) else 0
        if self._is_manual and indent == 3:
            return 3 if deeper else 0
        if indent:
            return 0
        if line.isupper() and sum(map(str.isalpha, line)) > 2 and _is_title(line):
            return 2
        alone = len(run) == 1 and deeper and self._is_indented
        return 2 if alone and _is_title(line) and line[0].isupper() else 0

    def _make_heading(self, text: str, number: int, level: int) -> Block:
        self._has_title = self._has_title or level == 1
        return Block("heading", " ".join(text.split()), number, number, min(level, 6))

    def _read_body(self, number: int, run: list[str]) -> Iterator[Block]:
        if is_of_contents(run, self._titles):
            return
        if are_fields(run):
            for field in read_head(number, run, with_title=False).blocks:
                yield replace(field, leads=self._list_leads_above(0))
            return
        tags = find_tags(run)
        if _is_code(run, in_columns=not tags):
            yield self._make_code(number, run)
            return
        # The terms of manual pages may be as long as a line.
        segments = _group_segments(number, run, tags, sys.maxsize if self._is_manual else _MARGIN)
        term: _Lines | None = None
        for index, segment in enumerate(segments):
            if term:
                yield self._define_term(term, segment)
                term = None
                continue
            following = segments[index + 1] if index + 1 < len(segments) else None
            if following and (segment.is_tag or _is_term(segment, following)):
                term = segment
            else:
                yield self._make_text(segment)

    def _define_term(self, term: _Lines, segment: _Lines) -> Block:
        """Join a term with the text below it."""
        name = " ".join(term.text.split())
        leads = self._list_leads_above(term.indent)
        self._leads.append((term.indent, lead_of(name)))
        if _is_code(segment.lines):
            text = f"{name}\n{segment.text}"
            return Block("code", text, term.number, segment.last, leads=leads)
        joint = " " if _SENTENCE.search(name) else ": "
        text = f"{name}{joint}{segment.text}"
        return Block("list_item", text, term.number, segment.last, leads=leads)

    def _make_text(self, segment: _Lines) -> Block:
        text = segment.text
        item = ITEM.match(text)
        leads = self._list_leads_above(segment.indent if item else segment.indent - 0.5)
        if item:
            self._leads.append((segment.indent, lead_of(text[item.end() :])))
            text = text[item.end() :] if text[0] in "-*+o\u2022" else text
        elif lead := lead_in_of(text):
            self._leads.append((segment.indent - 0.5, lead))
        kind: Kind = "list_item" if item else "paragraph"
        if segment.indent and not item and _is_ragged(segment.lines):
            kind = "code"
        return Block(kind, text, segment.number, segment.last, leads=leads)

    def _make_code(self, number: int, run: list[str]) -> Block:
        margin = min(map(measure_indent, run))
        text = "\n".join(line.expandtabs(TAB)[margin:].rstrip() if margin else line for line in run)
        return Block(
            "code", text, number, number + len(run) - 1, leads=self._list_leads_above(margin)
        )

    def _list_leads_above(self, indent: float) -> tuple[str, ...]:
        """Return the leads that apply at an indentation, and forget the leads of deeper
        indentations."""
        while self._leads and self._leads[-1][0] >= indent:
            self._leads.pop()
        return tuple(lead for _, lead in self._leads[-_MAX_LEADS:])


def _find_first(lines: list[str]) -> str:
    return next((line for line in lines if line.strip()), "")


def _group_segments(
    number: int, run: list[str], tags: Mapping[int, Tag], margin: int
) -> list[_Lines]:
    """Group the lines of a run by indentation. An item and its lines are one group; a tag and the
    text next to it are two groups.

    `number` is the line number of the first line. `margin` is the length of a full line.
    """
    found: list[_Lines] = []
    margin = max([margin, *(len(line.rstrip()) for line in run)])
    for place, line in enumerate(run):
        line_number, indent, text = number + place, measure_indent(line), line.strip()
        before = found[-1] if found else None
        if tag := tags.get(place):
            found.append(_Lines(line_number, indent, [tag.term], is_tag=True))
            found.append(_Lines(line_number, tag.column, [tag.text], tag.column))
        elif before and _hangs(before, indent, text, margin):
            before.hanging = indent
            before.lines.append(text)
        elif before and _goes_on(before, indent, text):
            before.indent = min(before.indent, indent)
            before.lines.append(text)
        else:
            found.append(_Lines(line_number, indent, [text]))
    return found


def _hangs(before: _Lines, indent: int, text: str, margin: int) -> bool:
    """Whether an indented line continues the long first line `before`: the line begins in lower
    case, or its first word did not fit before `margin`."""
    if before.hanging is not None:
        return indent == before.hanging
    end = before.indent + len(before.lines[0])
    if len(before.lines) > 1 or indent <= before.indent or end < WRAPPED:
        return False
    if ITEM.match(before.lines[0]):
        return False
    had_room = end + 1 + len(text.split(maxsplit=1)[0]) <= margin or _SENTENCE.search(
        before.lines[0]
    )
    return text[0].islower() or not had_room


def _goes_on(before: _Lines, indent: int, text: str) -> bool:
    if before.hanging is not None:
        return indent == before.indent and not _SENTENCE.search(before.lines[-1])
    in_item = ITEM.match(before.lines[0]) is not None
    if ITEM.match(text) and (in_item or indent != before.indent or before.lines[-1][-1] == ":"):
        return False
    if in_item:
        return indent >= before.indent
    is_first_line_indented = len(before.lines) == 1 and before.indent - 5 < indent < before.indent
    return indent == before.indent or is_first_line_indented


def _is_term(segment: _Lines, following: _Lines) -> bool:
    """Whether the lines are a term that the following lines explain."""
    text = segment.text
    if following.indent <= segment.indent or ITEM.match(following.text):
        return False
    if len(text) > _MAX_TERM_CHARACTERS or ITEM.match(text):
        return False
    return not _TEXT_END.search(text) and (len(segment.lines) == 1 or text[-1] != ":")


def _is_code(run: Sequence[str], *, in_columns: bool = True) -> bool:
    """Whether lines look like code: prompts, typical line ends, few letters and, if `in_columns`,
    columns.

    A single line is code only after a prompt.
    """
    bare = [line.strip() for line in run]
    if len(run) == 1:
        return _PROMPT.match(bare[0]) is not None
    marks = (
        _PROMPT.match(line) or _CODE_END.search(line) or (in_columns and COLUMNS.search(line))
        for line in bare
    )
    if 2 * sum(map(bool, marks)) > len(run):
        return True
    text = "".join(bare)
    return sum(character.isalnum() or character == " " for character in text) < 0.6 * len(text)


def _is_ragged(lines: Sequence[str]) -> bool:
    """Whether lines end long before the margin, unlike wrapped text."""
    return len(lines) > 1 and max(map(len, lines[:-1])) < _RAGGED_CHARACTERS


def _is_title(line: str) -> bool:
    short = len(line) <= _MAX_HEADING_CHARACTERS and not _SENTENCE.search(line)
    return short and not COLUMNS.search(line) and any(map(str.isalpha, line[:8]))


def _is_centered(line: str, indent: int) -> bool:
    """Whether a line is centered in 72 to 80 columns."""
    return 70 <= 2 * indent + len(line) <= 82


def _fits(underline: str, title: str) -> bool:
    return not title[0].isspace() and len(underline.rstrip()) + 2 >= len(title.strip())
