"""reStructuredText, line by line: sections, directives, literal blocks, roles.

docutils would parse more exactly, but it gives no reliable line numbers, runs at a fraction of a
megabyte a second, and its directives can read other files.
"""

import re
from collections.abc import Iterator

from hopsyncd.formats.blocks import Block, Kind
from hopsyncd.formats.plain import paragraphs

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*+[ \t]*\Z")
_DIRECTIVE = re.compile(r"\.\. (?:\|[^|\n]++\| )?([\w:.+-]+?)::(?:[ \t]+(.*))?\Z")
_OPTION = re.compile(r":[\w -]+:(?:[ \t]|\Z)")
_TABLE_BORDER = re.compile(r"(?:\+[-=+]*+|=+(?:[ \t]+=+)+)[ \t]*\Z")
_ITEM = re.compile(r"(?:[-*+•]|#\.|\(?\d{1,4}[.)]|[a-zA-Z][.)])[ \t]+(?=\S)")
_CODE_NAMES = "code code-block sourcecode parsed-literal doctest testcode testoutput math"
_CODE = frozenset(_CODE_NAMES.split())
_DROPPED_NAMES = (
    "toctree contents include literalinclude raw highlight index meta image sectnum default-role "
    "module currentmodule testsetup testcleanup role"
)
_DROPPED = frozenset(_DROPPED_NAMES.split())
_INLINE = (
    (re.compile(r"(?<![\w`]):[\w.+:-]{1,40}:`"), "`"),
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
    content; comments, targets and directives that show no text of their own are dropped.
    """
    return tuple(_Reader(text.split("\n")).blocks())


def visible(text: str) -> str:
    """Reduce inline markup: ":ref:`the guide <x>`, *now*" gives "the guide, now"."""
    for pattern, shown in _INLINE:
        text = pattern.sub(shown, text)
    return text


class _Reader:
    """Walks the lines once. `_line` is the 0-based number of the next one."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = [
            line.expandtabs(8).rstrip() if "\t" in line else line.rstrip() for line in lines
        ]
        self._line = 0
        self._styles: list[str] = []

    def blocks(self) -> Iterator[Block]:
        while self._line < len(self._lines):
            line = self._lines[self._line]
            if not line:
                self._line += 1
            elif (heading := self._heading()) is not None:
                yield heading
            elif line.lstrip().startswith(".. ") or line.strip() == "..":
                yield from self._explicit()
            else:
                yield from self._body()

    def _at(self, line: int) -> str:
        return self._lines[line] if line < len(self._lines) else ""

    def _heading(self) -> Block | None:
        """Read a section title with its adornment, or return None and stay."""
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
        name = found[1] if found else ""
        self._line += 1
        if not found or name in _DROPPED:
            self._line = self._end_of_indented(indent)
            return
        while _OPTION.match(self._at(self._line).strip()):
            self._line += 1
        if name in _CODE:
            yield from self._literal(indent)
        elif found[2]:
            yield Block("paragraph", visible(found[2]), number, number)

    def _literal(self, indent: int) -> Iterator[Block]:
        """Read the lines indented deeper than `indent` as one block of code."""
        start, self._line = self._line, self._end_of_indented(indent)
        numbered = list(paragraphs(self._lines[start : self._line]))
        if numbered:
            first = start + numbered[0][0] - 1
            lines = self._lines[first : start + numbered[-1][0] - 1 + len(numbered[-1][1])]
            margin = min(_indent(line) for line in lines if line)
            text = "\n".join(line[margin:] for line in lines)
            yield Block("code", text, first + 1, first + len(lines))

    def _end_of_indented(self, indent: int) -> int:
        line = self._line
        while line < len(self._lines) and (
            not self._lines[line] or _indent(self._lines[line]) > indent
        ):
            line += 1
        return line

    def _body(self) -> Iterator[Block]:
        """Read lines up to a blank one: a paragraph, list items or table rows."""
        start = self._line
        while self._at(self._line) and not (self._line > start and self._starts_section()):
            self._line += 1
        lines = self._lines[start : self._line]
        literal = lines[-1].endswith("::")
        if literal:
            lines[-1] = lines[-1][:-1].rstrip(":") + ("" if lines[-1].strip() == "::" else ":")
        if any(_TABLE_BORDER.match(line.strip()) for line in lines):
            yield from _rows(lines, start)
        else:
            yield from _text(lines, start)
        if literal:
            yield from self._literal(_indent(lines[0]))

    def _starts_section(self) -> bool:
        line = self._at(self._line)
        return bool(_ADORNMENT.match(line)) and self._at(self._line + 2) == line and len(line) > 3


def _underlines(line: str, title: str) -> bool:
    """Tell whether `line` adorns `title`: one punctuation mark, about as long as the title."""
    if not _ADORNMENT.match(line) or _ADORNMENT.match(title):
        return False
    return len(line) >= min(len(title.strip()), 4) and len(line) + 2 >= len(title.strip())


def _text(lines: list[str], start: int) -> Iterator[Block]:
    """Yield the paragraph, or its list items; `start` lines stand before it."""
    starts = [0, *(n for n, line in enumerate(lines) if n and _ITEM.match(line.strip()))]
    if not _ITEM.match(lines[0].strip()):
        starts = starts[:1]
    for first, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        text = "\n".join(line.strip() for line in lines[first:end])
        kind: Kind = "list_item" if _ITEM.match(text) else "paragraph"
        shown = visible(_ITEM.sub("", text, count=1) if kind == "list_item" else text)
        yield Block(kind, shown, start + first + 1, start + end)


def _rows(lines: list[str], start: int) -> Iterator[Block]:
    for number, line in enumerate(lines, start + 1):
        if not _TABLE_BORDER.match(line.strip()):
            cells = re.split(r"\|" if "|" in line else r"[ \t]{2,}", line.strip().strip("|"))
            shown = " | ".join(visible(cell.strip()) for cell in cells if cell.strip())
            yield Block("table", shown, number, number)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
