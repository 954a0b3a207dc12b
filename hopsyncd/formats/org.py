"""Reads Emacs Org files: rewrites each line as Markdown, and reads tables as grids of cells."""

import re
from dataclasses import dataclass, field, replace

from hopsyncd.formats.blocks import Block, merge_tables, with_title
from hopsyncd.formats.markdown import read_markdown
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import TableBuilder

_HEADING = re.compile(r"(\*{1,30})[ \t]+(\S.*)\Z")
_TAGS = re.compile(r"[ \t]+:((?:[\w@#%]+:)+)[ \t]*\Z")
_PRIORITY = re.compile(r"\[#[A-Z0-9]\][ \t]+")
_KEYWORD = re.compile(r"[ \t]*#\+(\w+)(?:\[[^\]]*\])?:[ \t]*(.*)\Z")
_BEGIN = re.compile(r"[ \t]*#\+begin_(\w+)(?:[ \t]+([\w+-]+))?", re.IGNORECASE)
_END = re.compile(r"[ \t]*#\+end_(\w+)", re.IGNORECASE)
_COMMENT = re.compile(r"[ \t]*#(?:[ \t]|\Z)")
_DRAWER = re.compile(r"[ \t]*:[\w-]+:[ \t]*\Z")
_DRAWER_END = re.compile(r"[ \t]*:END:[ \t]*\Z", re.IGNORECASE)
_FIXED = re.compile(r"([ \t]*):(?: (.*))?\Z")
_ROW = re.compile(r"[ \t]*\|")
_RULE = re.compile(r"[ \t]*\|[-+]*-[-+|]*[ \t]*\Z")
_TERM = re.compile(r"([ \t]*[-+][ \t]+(?:\[[ xX-]\][ \t]+)?)(\S[^\n]{0,200}?)[ \t]+::(?:[ \t]+|\Z)")
_ITEM = re.compile(r"([ \t]*)(?:[+*]|\d+[.)])([ \t]+)(?=\S)")
_PLANNED = re.compile(r"[ \t]*(?:(?:SCHEDULED|DEADLINE|CLOSED):[ \t]*[<\[][^>\]]*[>\]][ \t]*)+\Z")
_STAMP = re.compile(r"[<\[](\d{4}-\d\d-\d\d)(?:[ \t]+[^\W\d]+\.?)?"
                    r"([ \t]+\d\d?:\d\d(?:-\d\d?:\d\d)?)?"
                    r"(?:[ \t]+[.+]{0,2}[+-]\d+[hdwmy])*[>\]]")  # fmt: skip
_PROGRESS = re.compile(r"[ \t]+\[(?:\d*/\d*|\d*%)\]")
_NOTE = re.compile(r"\[fn:([\w-]{1,60})\][ \t]+(?=\S)")
_SIDE = r"(?<![\w*/_=~+])"
_MARKS = re.compile(r"[\[<=~*/+_^]")
# Each is replaced by Markdown, and in table cells by plain text.
_INLINE: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"\[\[(?:file:)?([^\[\]\n]{1,300})\]\[([^\[\]\n]{1,300})\]\]"),
        r"[\2](<\1>)",
        r"\2",
    ),
    (re.compile(r"\[\[(?:file:)([^\[\]\n]{1,300})\]\]"), r"[\1](<\1>)", r"\1"),
    (re.compile(r"\[\[(https?:[^\[\]\n]{1,300})\]\]"), r"<\1>", r"\1"),
    (re.compile(r"\[\[([^\[\]\n]{1,300})\]\]"), r"\1", r"\1"),
    (re.compile(r"\[fn:([\w-]{1,60})\]"), r"[^\1]", ""),
    (re.compile(r"(?<=[\w)])([\^_])\{([\w.+-]{1,40})\}"), r"\\\1\2", r"\1\2"),
    (re.compile(rf"{_SIDE}[=~](\S|\S[^\n`]{{0,200}}?\S)[=~](?!\w)"), r"`\1`", r"\1"),
    (re.compile(rf"{_SIDE}\*(\S|\S[^\n*]{{0,150}}?\S)\*(?!\w)"), r"**\1**", r"\1"),
    (re.compile(rf"{_SIDE}/(\S|\S[^\n/]{{0,150}}?\S)/(?!\w)"), r"*\1*", r"\1"),
    (re.compile(rf"{_SIDE}\+(\S|\S[^\n+]{{0,150}}?\S)\+(?!\w)"), r"~~\1~~", ""),
    (re.compile(rf"{_SIDE}_([^\W_]|[^\W_][^\n_]{{0,150}}?\S)_(?!\w)"), r"\1", r"\1"),
)
_FACTS = {"author": "author", "date": "date", "email": "email"}
_LEFT_OUT = frozenset(("comment", "export"))
_VERBATIM = frozenset(("src", "example"))
_FRAME = "```"


def read_org(text: str) -> tuple[Block, ...]:
    """Read an Org file. Drawers, comments and settings are left out; task states and dates are
    kept."""
    reader = _Reader(text.split("\n"))
    rewritten = "\n".join(reader.rewrite())
    blocks = tuple(merge_tables(read_markdown(rewritten), reader.tables))
    blocks = with_title(blocks, reader.title, reader.title_line)
    if not blocks or not reader.facts:
        return blocks
    properties = dict.fromkeys((*blocks[0].properties, *reader.facts))
    return (replace(blocks[0], properties=tuple(properties)), *blocks[1:])


@dataclass(slots=True)
class _Reader:
    """Rewrites each line of Org as one line of Markdown. Line numbers stay the same."""

    lines: list[str]
    tables: list[list[Block]] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    title: str = ""
    title_line: int = 1
    _caption: str = ""
    _inside: str = ""  # the kind of the open block
    _without_drawer_end: int = 0  # no drawer has an end before this line

    def rewrite(self) -> list[str]:
        written: list[str] = []
        while len(written) < len(self.lines):
            index = len(written)
            line = self.lines[index].rstrip("\r")
            if self._inside:
                written.append(self._read_block_line(line))
            elif _ROW.match(line):
                end = index
                while end < len(self.lines) and _ROW.match(self.lines[end]):
                    end += 1
                self._read_table(index, end)
                written += [""] * (end - index)
            elif _DRAWER.match(line) and (end := self._find_drawer_end(index)):
                written += [""] * (end - index)
            else:
                written.append(self._read_line(line, index + 1))
        return written

    def _find_drawer_end(self, index: int) -> int:
        """Return the position after the drawer that begins at line `index`, or 0 if no drawer
        begins there."""
        if index < self._without_drawer_end:
            return 0
        for end in range(index + 1, len(self.lines)):
            if _DRAWER_END.match(self.lines[end]):
                return end + 1
            self._without_drawer_end = end
            if _HEADING.match(self.lines[end]):
                break
        return 0

    def _read_block_line(self, line: str) -> str:
        found = _END.match(line)
        if found and found[1].lower() == self._inside:
            is_fenced = self._inside in _VERBATIM
            self._inside = ""
            return _FRAME if is_fenced else ""
        if self._inside in _LEFT_OUT:
            return ""
        if self._inside in _VERBATIM:
            return line.removeprefix(",") if line.startswith((",*", ",#")) else line
        return f"> {_read_inline(line)}" if self._inside == "quote" else _read_inline(line)

    def _read_line(self, line: str, number: int) -> str:
        if found := _HEADING.match(line):
            return self._read_heading(found)
        if found := _BEGIN.match(line):
            self._inside = found[1].lower()
            return _FRAME + (found[2] or "") if self._inside in _VERBATIM else ""
        if found := _KEYWORD.match(line):
            return self._read_keyword(found[1].lower(), found[2].strip(), number)
        if _COMMENT.match(line):
            return ""
        if found := _NOTE.match(line):
            return f"[^{found[1]}]: {_read_inline(line[found.end() :])}"
        if found := _FIXED.match(line):
            return f"    {found[2] or ''}"
        if _PLANNED.match(line):
            return _STAMP.sub(r"\1\2", line).strip()
        if found := _TERM.match(line):
            return f"{found[1]}{_read_inline(found[2])}: {_read_inline(line[found.end() :])}"
        marker = _ITEM.match(line)
        if marker and "*" in marker[0] and not marker[1]:
            marker = None
        if marker and line.lstrip()[0] in "+*":
            line = f"{marker[1]}-{line[marker.end(1) + 1 :]}"
        return _read_inline(line)

    def _read_heading(self, found: re.Match[str]) -> str:
        text = found[2]
        if tags := _TAGS.search(text):
            self.facts += [("tag", tag) for tag in tags[1].split(":") if tag]
            text = text[: tags.start()]
        text = _PROGRESS.sub("", _PRIORITY.sub("", text, count=1))
        return f"{'#' * min(len(found[1]), 6)} {_read_inline(text)}"

    def _read_keyword(self, name: str, value: str, number: int) -> str:
        if name == "title":
            self.title = f"{self.title} {value}".strip()
            self.title_line = number
        elif name == "caption":
            self._caption = value if self._names_a_table(number) else ""
            return "" if self._caption else _read_inline(value)
        elif name == "filetags":
            self.facts += [("tag", tag) for tag in re.split(r"[:\s]+", value) if tag]
        elif name in _FACTS and value:
            self.facts.append((_FACTS[name], _STAMP.sub(r"\1\2", value)))
        return ""

    def _names_a_table(self, number: int) -> bool:
        below = self.lines[number : number + 5]
        rest = [line for line in below if not _KEYWORD.match(line)]
        return bool(rest) and _ROW.match(rest[0]) is not None

    def _read_table(self, first: int, end: int) -> None:
        builder = TableBuilder(_strip_markup(self._caption))
        self._caption = ""
        lines = self.lines[first:end]
        rules = {index for index, line in enumerate(lines) if _RULE.match(line)}
        header = min(rules - {0}, default=0)
        header = header if header < len(lines) - 1 else 0
        for index, line in enumerate(lines):
            if index in rules:
                continue
            builder.begin_row(first + index + 1, is_header=index < header)
            for cell in line.strip().strip("|").split("|"):
                builder.add(_strip_markup(cell))
        self.tables.append(list(make_table_blocks(builder.build(guess_header=not header))))


def _read_inline(text: str) -> str:
    if not _MARKS.search(text):
        return text
    text = _STAMP.sub(r"\1\2", text)
    for pattern, put, _ in _INLINE:
        text = pattern.sub(put, text)
    return text


def _strip_markup(text: str) -> str:
    """Return the text of a cell or a caption without Org markup."""
    if not _MARKS.search(text):
        return text.strip()
    text = _STAMP.sub(r"\1\2", text)
    for pattern, _, put in _INLINE:
        text = pattern.sub(put, text)
    return text.strip()
