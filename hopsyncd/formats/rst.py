"""reStructuredText, line by line: sections, directives, literal blocks, roles.

docutils would parse more exactly, but it gives no reliable line numbers, runs at a fraction of a
megabyte a second, and its directives can read other files.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hopsyncd.formats.blocks import (
    Block,
    Kind,
    Links,
    WrittenLink,
    link_to_address,
    link_to_name,
    with_title,
)
from hopsyncd.formats.fields import Head, are_fields, head_of, lead_in_of, lead_of
from hopsyncd.formats.rst_table import drawn_rows, is_table, listed_rows, separated_rows, told
from hopsyncd.formats.text_layout import runs_of

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*+[ \t]*\Z")
_DIRECTIVE = re.compile(r"\.\. (?:\|[^|\n]++\| )?([\w:.+-]+?)::(?:[ \t]+(.*))?\Z")
_TARGET = re.compile(r"\.\. _`?([^`:]{1,100})`?:[ \t]*(.*)\Z")
_OPTION = re.compile(r":([\w -]+):(?:[ \t]+(.*))?\Z")
_ITEM = re.compile(r"(?:[-*+•]|#\.|\(?\d{1,4}[.)]|[a-zA-Z][.)])[ \t]+(?=\S)")
_FIELD = re.compile(r":([^:\s](?:[^:\n]|:(?=\S)){0,80}?):(?:[ \t]+|\Z)")
_CODE_NAMES = "code code-block sourcecode parsed-literal doctest testcode testoutput math"
_CODE = frozenset(_CODE_NAMES.split())
_DROPPED_NAMES = (
    "contents include literalinclude raw highlight index meta image sectnum default-role "
    "module currentmodule testsetup testcleanup role youtube"
)
_DROPPED = frozenset(_DROPPED_NAMES.split())
# Their content does not belong to what their argument names.
_ASIDE_NAMES = (
    "note tip hint important warning caution danger error attention seealso versionadded "
    "versionchanged deprecated figure container only rubric"
)
_ASIDE = frozenset(_ASIDE_NAMES.split())
# What the manual shows in place of the directive, before the version.
_VERSIONED = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
}
_MAX_LEADS = 3
_MAX_TARGETS = 20
_DOCUMENTS = {"pep": "PEP", "rfc": "RFC"}
_LINK = re.compile(
    r":(?P<role>[\w.+:-]{1,40}):`(?P<of_role>[^`]{1,500})`"
    r"|`(?P<text>[^`<>]{0,500}?)\s*<(?P<address>[^<>`]{1,2000})>`_{1,2}"
)
_TITLED = re.compile(r"(.*?)\s*<([^<>]+)>\Z", re.DOTALL)
_INLINE: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r":(pep|rfc):`(\d{1,5})`", re.IGNORECASE),
        lambda found: f"{found[1].upper()} {found[2]}",
    ),
    (re.compile(r"(?<![\w`]):[\w.+:-]{1,40}:`[~!]?"), "`"),
    (re.compile(r"`([^`<>]{1,500}?)\s*<[^<>`]{1,2000}>`_{0,2}"), r"\1"),
    (re.compile(r"``([^`]{1,2000})``"), r"\1"),
    (re.compile(r"`([^`]{1,2000})`_{0,2}"), r"\1"),
    (re.compile(r"\*\*([^*\n]{1,500})\*\*"), r"\1"),
    (re.compile(r"(?<![\w*])\*([^*\s][^*\n]{0,500})\*(?![\w*])"), r"\1"),
    (re.compile(r"\|([^|\s][^|\n]{0,100})\|_?"), r"\1"),
    (re.compile(r"\b(?<!_)([A-Za-z0-9]{1,60})_{1,2}(?!\w)"), r"\1"),
)


def rst_blocks(text: str) -> tuple[Block, ...]:
    """Read reStructuredText.

    The level of a section follows the order in which its adornments first appear, as the format
    says, and ends at 6. Roles, links and emphasis are reduced to their visible text. Code
    directives and literal blocks are `code`; admonitions and descriptions keep their argument and
    content; comments, targets and directives without text are dropped, but targets name the
    document, and the entries of a table of contents are links. A term, an item or a description is
    a lead of what is indented below it. A head like that of a letter, as PEPs have, gives the title
    and facts about the document.
    """
    reader = _Reader(text.split("\n"))
    blocks = tuple(reader.blocks())
    head = reader.head
    # The fields go first, for a title has nothing above it.
    blocks = with_title((*head.blocks, *blocks), head.title, head.title_line)
    names = (*head.names, *reader.targets)
    return (replace(blocks[0], names=names), *blocks[1:]) if blocks and names else blocks


def visible(text: str) -> str:
    """Reduce inline markup: ":ref:`the guide <x>`, *now*" gives "the guide, now"."""
    for pattern, shown in _INLINE:
        text = pattern.sub(shown, text)
    return text


def links_in(text: str) -> tuple[WrittenLink, ...]:
    """The documents and sections named by the roles and links of a text, in order."""
    found = (_link(one) for one in _LINK.finditer(text))
    return tuple(dict.fromkeys(link for link in found if link))


def _link(found: re.Match[str]) -> WrittenLink | None:
    if found["address"]:
        return link_to_address(found["address"], found["text"])
    role, text = found["role"].lower(), found["of_role"]
    titled = _TITLED.match(text)
    shown, target = (titled[1], titled[2]) if titled else (text, text)
    if role in _DOCUMENTS:
        return link_to_name(f"{_DOCUMENTS[role]} {target.partition('#')[0]}", visible(text))
    if role == "doc":
        return link_to_address(target, shown)
    return link_to_name(target, shown) if role in ("ref", "term", "numref") else None


class _Reader:
    """Walks the lines once. `_line` is the 0-based number of the next one."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = [
            line.expandtabs(8).rstrip() if "\t" in line else line.rstrip() for line in lines
        ]
        self._line = 0
        self._styles: list[str] = []
        self._leads: list[tuple[float, str]] = []
        self.head = Head()
        self.targets: list[str] = []

    def blocks(self) -> Iterator[Block]:
        self._read_head()
        while self._line < len(self._lines):
            line = self._lines[self._line]
            if not line:
                self._line += 1
            elif (heading := self._heading()) is not None:
                self._leads = []
                yield heading
            elif _is_explicit(line):
                yield from self._explicit()
            else:
                yield from self._body()

    def _read_head(self) -> None:
        while self._line < len(self._lines) and not self._lines[self._line]:
            self._line += 1
        end = self._line
        while self._at(end):
            end += 1
        run = self._lines[self._line : end]
        if are_fields(run):
            self.head = head_of(self._line + 1, run)
            self._line = end

    def _at(self, line: int) -> str:
        return self._lines[line] if line < len(self._lines) else ""

    def _above(self, indent: float) -> tuple[str, ...]:
        """The leads that apply at an indentation; those of deeper ones end."""
        while self._leads and self._leads[-1][0] >= indent:
            self._leads.pop()
        return tuple(lead for _, lead in self._leads[-_MAX_LEADS:])

    def _heading(self) -> Block | None:
        """Read a section title with its adornment; None, without moving on, if there is none."""
        start = self._line
        over = self._at(start) if _ADORNMENT.match(self._at(start)) else ""
        title, under = self._at(start + bool(over)), self._at(start + bool(over) + 1)
        if over and under != over:
            return None
        if not title or not _underlines(under, title) or (title[0] == " " and not over):
            return None
        style = under[0] + ("o" if over else "")
        if style not in self._styles:
            self._styles.append(style)
        self._line = start + bool(over) + 2
        number = start + bool(over) + 1
        level = min(self._styles.index(style) + 1, 6)
        return Block("heading", visible(title.strip()), number, number, level)

    def _explicit(self) -> Iterator[Block]:
        """Read a directive, comment or target: what starts with two dots."""
        line = self._lines[self._line]
        indent, number = _indent(line), self._line + 1
        found = _DIRECTIVE.match(line.strip())
        name = found[1].rpartition(":")[2] if found else ""
        self._line += 1
        if not found or name in _DROPPED:
            target = _TARGET.match(line.strip())
            if target and not target[2]:
                self.targets += [target[1]] if len(self.targets) < _MAX_TARGETS else []
            self._line = self._end_of_indented(indent)
            return
        options: dict[str, str] = {}
        while option := _OPTION.match(self._at(self._line).strip()):
            options[option[1]] = option[2] or ""
            self._line += 1
        if name in _CODE:
            yield from self._literal(indent)
        elif name == "toctree":
            yield self._contents(indent)
        elif name in ("list-table", "csv-table"):
            yield from self._table(name, indent, options)
        elif found[2]:
            yield from self._described(name, found[2], indent, number)
        else:
            self._above(indent)

    def _described(self, name: str, argument: str, indent: int, number: int) -> Iterator[Block]:
        said = f"{_VERSIONED[name]} {argument}" if name in _VERSIONED else argument
        text = visible(said)
        leads = self._above(indent)
        links = _at_start(links_in(argument))
        if name not in _ASIDE:
            self._leads.append((indent, lead_of(text)))
        if name not in ("tab", "tab-item"):  # alternatives, each with content of its own
            yield Block("paragraph", text, number, number, links=links, leads=leads)

    def _contents(self, indent: int) -> Block:
        """The entries of a table of contents as links, without text."""
        start, self._line = self._line, self._end_of_indented(indent)
        links: list[WrittenLink] = []
        for line in self._lines[start : self._line]:
            titled = _TITLED.match(line.strip())
            shown, target = (titled[1], titled[2]) if titled else ("", line.strip())
            link = link_to_address(target, shown) if target else None
            links += [link] if link else []
        return Block("paragraph", "", start, max(start, self._line), links=_at_start(links))

    def _table(self, name: str, indent: int, options: dict[str, str]) -> Iterator[Block]:
        start, self._line = self._line, self._end_of_indented(indent)
        lines = self._lines[start : self._line]
        margin = min((_indent(line) for line in lines if line), default=0)
        lines = [line[margin:] for line in lines]
        rows = listed_rows(lines) if name == "list-table" else separated_rows(lines)
        header = next(iter(separated_rows([options.get("header", "")])), (0, 0, []))[2]
        yield from self._rows(rows, lines, start, header)

    def _literal(self, indent: int) -> Iterator[Block]:
        """Read the lines indented deeper than `indent` as one block of code."""
        start, self._line = self._line, self._end_of_indented(indent)
        numbered = list(runs_of(self._lines[start : self._line]))
        if numbered:
            first = start + numbered[0][0] - 1
            lines = self._lines[first : start + numbered[-1][0] - 1 + len(numbered[-1][1])]
            margin = min(_indent(line) for line in lines if line)
            text = "\n".join(line[margin:] for line in lines)
            leads = self._above(indent)
            yield Block("code", text, first + 1, first + len(lines), leads=leads)

    def _end_of_indented(self, indent: int) -> int:
        line = self._line
        while line < len(self._lines) and (
            not self._lines[line] or _indent(self._lines[line]) > indent
        ):
            line += 1
        return line

    def _body(self) -> Iterator[Block]:
        """Read lines up to a blank one: a paragraph, list items, terms or table rows."""
        start = self._line
        while self._at(self._line) and not (self._line > start and self._starts_another()):
            self._line += 1
        lines = self._lines[start : self._line]
        literal = lines[-1].endswith("::")
        if literal:
            lines[-1] = lines[-1][:-1].rstrip(":") + ("" if lines[-1].strip() == "::" else ":")
        bare = [line.strip() for line in lines]
        if is_table(bare):
            margin = _indent(lines[0])
            yield from self._rows(drawn_rows([line[margin:] for line in lines]), lines, start)
        else:
            yield from self._text(lines, start)
        if literal:
            yield from self._literal(_indent(lines[0]))

    def _starts_another(self) -> bool:
        line = self._at(self._line)
        if _is_explicit(line):
            return _DIRECTIVE.match(line.strip()) is not None or line.strip().startswith(".. _")
        return bool(_ADORNMENT.match(line)) and self._at(self._line + 2) == line and len(line) > 3

    def _text(self, lines: list[str], start: int) -> Iterator[Block]:
        """Yield the paragraph, its list items, or a term with its text."""
        first = lines[0].strip()
        marked = _ITEM.match(first) or _FIELD.match(first)
        if not marked and len(lines) > 1 and _indent(lines[1]) > _indent(lines[0]):
            yield self._explained(lines, start)
            return
        begins = [0]
        if marked:
            begins += (
                n for n, line in enumerate(lines) if n and _begins_item(line, _indent(lines[0]))
            )
        for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
            yield self._item_or_paragraph(lines[begin:end], start + begin)

    def _explained(self, lines: list[str], start: int) -> Block:
        term, indent = visible(lines[0].strip()), _indent(lines[0])
        leads = self._above(indent)
        self._leads.append((indent, lead_of(term)))
        said = "\n".join(line.strip() for line in lines[1:])
        text = f"{term}{' ' if term[-1:] in ('.', ':', '?') else ': '}{visible(said)}"
        links = _at_start(links_in("\n".join(lines)))
        return Block("list_item", text, start + 1, start + len(lines), links=links, leads=leads)

    def _item_or_paragraph(self, lines: list[str], start: int) -> Block:
        text, indent = "\n".join(line.strip() for line in lines), _indent(lines[0])
        links = _at_start(links_in(text))
        item, field = _ITEM.match(text), _FIELD.match(text)
        if item:
            text = text[item.end() :]
        elif field:
            text = f"{field[1]}: {text[field.end() :]}"
        text = visible(text.removeprefix("| "))
        is_item = bool(item or field)
        leads = self._above(indent if is_item else indent - 0.5)
        if is_item:
            self._leads.append((indent, field[1] if field else lead_of(text)))
        elif lead := lead_in_of(text):
            self._leads.append((indent - 0.5, lead))
        kind: Kind = "list_item" if is_item else "paragraph"
        return Block(kind, text, start + 1, start + len(lines), links=links, leads=leads)

    def _rows(
        self,
        rows: list[tuple[int, int, list[str]]],
        lines: Sequence[str],
        start: int,
        header: Sequence[str] = (),
    ) -> Iterator[Block]:
        leads = self._above(_indent(lines[0]) if lines else 0)
        shown = [(first, last, [visible(cell) for cell in cells]) for first, last, cells in rows]
        for first, last, text in told(shown, header):
            links = _at_start(links_in("\n".join(lines[first : last + 1])))
            where = (start + first + 1, start + last + 1)
            yield Block("table", text, *where, links=links, leads=leads)


def _is_explicit(line: str) -> bool:
    return line.lstrip().startswith(".. ") or line.strip() == ".."


def _begins_item(line: str, indent: int) -> bool:
    bare = line.strip()
    return _indent(line) <= indent and bool(_ITEM.match(bare) or _FIELD.match(bare))


def _underlines(line: str, title: str) -> bool:
    """Tell whether `line` adorns `title`: one punctuation mark, about as long as the title."""
    if not _ADORNMENT.match(line) or _ADORNMENT.match(title):
        return False
    return len(line) >= min(len(title.strip()), 4) and len(line) + 2 >= len(title.strip())


def _at_start(links: Sequence[WrittenLink]) -> Links:
    return tuple((0, link) for link in links)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
