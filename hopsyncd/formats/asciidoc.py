"""Reads AsciiDoc: rewrites each line as Markdown, and reads tables as grids of cells."""

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hopsyncd.formats.blocks import Block, merge_tables
from hopsyncd.formats.markdown import read_markdown
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import TableBuilder

_HEADING = re.compile(r"(={1,6})[ \t]+(\S.*)\Z")
_ATTRIBUTE = re.compile(r":!?([\w-]+)!?:(?:[ \t]+(.*))?\Z")
_ABOVE_BLOCK = re.compile(r"\[(?!\[)([^\]]*)\]\Z|\[\[[^\]]*\]\]\Z")
_BLOCK_TITLE = re.compile(r"\.([^\s.].*)\Z")
_VERBATIM = re.compile(r"(-{4,}|\.{4,}|\+{4,}|`{3})(\w*)\Z")
_COMMENT = re.compile(r"/{4,}\Z")
_FRAME = re.compile(r"(?:={4,}|\*{4,}|_{4,}|--)\Z")
_TABLE = re.compile(r"[|,:!]={3,}\Z")
_DIRECTIVE = re.compile(r"(?://(?!/)|(?:include|ifn?def|ifeval|endif|toc)::|'{3,}\Z|<{3,}\Z|\+\Z)")
_ITEM = re.compile(r"[ \t]*(\*{1,5}|-|\.{1,5}|<[\d.]+>)[ \t]+(\S.*)\Z")
_TERM = re.compile(r"[ \t]*(\S[^:;]*)(?:::+|;;)(?:[ \t]+(.*))?\Z")
_CELL = re.compile(
    r"(?:(?<![^\s|])((?:(?:\d+(?:\.\d+)?|\.\d+)\+)?[<^>.]{0,3}[adehlmsv]?))?(?<!\\)\|"
)
_SPAN = re.compile(r"(\d+)?(?:\.(\d+))?\+")
_MULTIPLIED = re.compile(r"\s*(\d+)\*")
_ADMONITIONS = frozenset(("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"))
_REFERENCE = re.compile(r"\{([\w-]{1,60})\}")
_MAX_VALUE_CHARACTERS = 300
_INLINE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\[\[[^\[\]]{1,100}\]\]|anchor:[^\s\[\]]{1,100}\[[^\[\]]{0,100}\]"), ""),
    (re.compile(r"<<[^<>,]{1,200},\s*([^<>]{1,300})>>"), r"\1"),
    (re.compile(r"<<#?([^<>,]{1,200})>>"), r"\1"),
    (re.compile(r"image::?([^\s\[\]]{1,300})\[([^\[\],]{0,300})[^\[\]]{0,300}\]"), r"![\2](\1)"),
    (re.compile(r"(?:link|xref):([^\s\[\]]{1,300})\[([^\[\]^]{1,300})\^?\]"), r"[\2](\1)"),
    (re.compile(r"(?:link|xref):([^\s\[\]]{1,300})\[\^?\]"), r"\1"),
    (re.compile(r"\b(https?://[^\s\[\]<>]{1,300})\[([^\[\]^]{1,300})\^?\]"), r"[\2](\1)"),
    (re.compile(r"\b(https?://[^\s\[\]<>]{1,300})\[\^?\]"), r"\1"),
    (re.compile(r"footnote:[\w-]{0,60}\[([^\[\]]{1,300})\]"), r" (\1)"),
    (re.compile(r"(?:stem|latexmath):\w{0,9}\[([^\[\]$]{0,300}\\[a-z][^\[\]$]{0,300})\]"), r"$\1$"),
    (re.compile(r"(?:kbd|btn|pass|stem|latexmath|asciimath):\w{0,9}\[([^\[\]]{1,300})\]"), r"\1"),
    (re.compile(r"menu:([^\s\[\]]{1,100})\[([^\[\]]{0,200})\]"), r"\1 > \2"),
    (re.compile(r'"`([^`]{1,500})`"'), "\u201c\\1\u201d"),
    (re.compile(r"`\+([^`]{1,300})\+`"), r"`\1`"),
    (re.compile(r"\[\.?line-through\]([#*_])\1?([^#*_\s][^#*_]{0,300})\1{1,2}"), r"<del>\2</del>"),
    (re.compile(r"(?:\[[^\[\]]{0,60}\])?(?<!#)#{1,2}([^#\s][^#]{0,300})#{1,2}(?!#)"), r"\1"),
    (re.compile(r"(?<![*\w])\*([^*\s](?:[^*]{0,300}[^*\s])?)\*(?![*\w])"), r"**\1**"),
    (re.compile(r"\^(\S{1,60}?)\^"), r"^\1"),
    (re.compile(r"~(\S{1,60}?)~"), r"\\_\1"),
    (re.compile(r"[ \t]\+\Z"), ""),
    (re.compile(r"<\d{1,2}>|<\.>"), ""),
)


def read_asciidoc(text: str) -> tuple[Block, ...]:
    """Read a document. Files named in `include` directives are not read."""
    reader = _Reader(text.split("\n"))
    rewritten = "\n".join(reader.rewrite())
    return tuple(merge_tables(read_markdown(rewritten), reader.tables))


@dataclass(slots=True)
class _Reader:
    """Rewrites each line of AsciiDoc as one line of Markdown. Line numbers stay the same."""

    lines: list[str]
    tables: list[list[Block]] = field(default_factory=list)
    _attributes: dict[str, str] = field(default_factory=dict)
    _above: str = ""  # attributes in brackets for the next block
    _title: str = ""
    _markers: list[str] = field(default_factory=list)  # the markers of the open lists
    _indent: str = ""  # of a paragraph that a "+" attaches to an item
    _before: str = ""  # the line above

    def rewrite(self) -> list[str]:
        """Return the document as lines of Markdown. The lines of tables become empty."""
        written: list[str] = []
        while len(written) < len(self.lines):
            line = self.lines[len(written)].rstrip()
            if found := _VERBATIM.match(line):
                indent, self._indent = self._indent, ""
                verbatim = self._read_verbatim(len(written), found[1])
                written += [f"{indent}{text}" for text in verbatim]
            elif _COMMENT.match(line):
                written += [""] * self._count_lines(len(written), line)
            elif _TABLE.match(line):
                index, length = len(written), self._count_lines(len(written), line)
                caption = self._title if self._title and f"{self._title}:" in written[-3:] else ""
                lines = self.lines[index + 1 : index + length]
                if lines and lines[-1].rstrip() == line:
                    lines.pop()
                if self._read_table(index + 2, lines, line[0], caption):
                    written[-3:] = ["" if line == f"{caption}:" else line for line in written[-3:]]
                    lines = [""] * len(lines)
                written += ["", *lines, ""][:length]
            else:
                written.append(self._read_line(line))
            self._before = line
        return written

    def _count_lines(self, index: int, delimiter: str) -> int:
        """Return the number of lines in the block that begins at line `index`, including both
        delimiters."""
        for end in range(index + 1, len(self.lines)):
            if self.lines[end].rstrip() == delimiter:
                return end - index + 1
        return len(self.lines) - index

    def _read_verbatim(self, index: int, delimiter: str) -> list[str]:
        length = self._count_lines(index, delimiter)
        language = self._above.split(",")[1].strip() if self._above.count(",") else ""
        if delimiter.startswith("+") and self._is_tex(self.lines[index + 1 : index + length]):
            language = "math"
        self._above = ""
        inner = [
            re.sub(r"\s*<\d{1,2}>\Z", "", line) for line in self.lines[index + 1 : index + length]
        ]
        is_closed = bool(inner) and inner[-1].rstrip() == delimiter
        return [f"~~~~{language}", *(inner[:-1] if is_closed else inner), *["~~~~"] * is_closed]

    def _is_tex(self, lines: Sequence[str]) -> bool:
        """Whether the formula in `lines` is TeX rather than AsciiMath."""
        kind = self._above.split(",")[0].strip()
        kind = self._attributes.get("stem") or kind if kind == "stem" else kind
        return kind == "latexmath" or (kind == "stem" and any("\\" in line for line in lines))

    def _read_line(self, line: str) -> str:
        if not line or line == "+":
            self._indent = self._find_item_indent() if line else ""
            return ""
        if found := _ATTRIBUTE.match(line):
            self._attributes[found[1]] = (found[2] or "")[:_MAX_VALUE_CHARACTERS]
            return ""
        if found := _ABOVE_BLOCK.match(line):
            self._above = found[1] or self._above
            if not self._before:
                self._markers.clear()
            return ""
        if _DIRECTIVE.match(line):
            return ""
        above, self._above = self._above, ""
        note = above.split(",")[0].strip().upper()
        label = f"{note.capitalize()}: " if note in _ADMONITIONS else ""
        if _FRAME.match(line):
            return label
        if found := _HEADING.match(line):
            self._markers.clear()
            return f"{'#' * len(found[1])} {self._read_inline(found[2])}"
        if found := _BLOCK_TITLE.match(line):
            self._above = above
            self._title = self._read_inline(found[1])
            return f"{self._title}:"
        if found := _ITEM.match(line):
            return self._read_item(found[1], found[2])
        if found := _TERM.match(line):
            return f"- {self._read_inline(found[1])}: {self._read_inline(found[2] or '')}".rstrip()
        return self._indent + label + self._read_inline(line)

    def _read_item(self, marker: str, text: str) -> str:
        self._indent = ""
        marker = "<>" if marker.startswith("<") else marker
        if marker in self._markers:
            del self._markers[self._markers.index(marker) + 1 :]
        else:
            self._markers.append(marker)
        sign = "-" if marker[0] in "*-" else "1."
        return f"{'    ' * (len(self._markers) - 1)}{sign} {self._read_inline(text)}"

    def _find_item_indent(self) -> str:
        """Return the indent of the text of the current item."""
        if not self._markers:
            return ""
        return " " * (4 * len(self._markers) - (2 if self._markers[-1][0] in "*-" else 1))

    def _read_inline(self, text: str) -> str:
        text = _REFERENCE.sub(lambda found: self._attributes.get(found[1], found[0]), text)
        for pattern, shown in _INLINE:
            text = pattern.sub(shown, text)
        return text

    def _read_table(self, first_line: int, lines: list[str], sign: str, caption: str) -> bool:
        """Read the lines of a table with the cell separator `sign`. Returns False if the table has
        no cells."""
        above, self._above = self._above, ""
        if found := _FORMAT.search(above):
            sign = _SEPARATORS[found[1]]
        cells = list(_split_cells(lines) if sign in "|!" else _split_separator(lines, sign))
        if not cells:
            return False
        width = _count_columns(above, cells)
        is_implied = bool(lines[0].strip()) and len(lines) > 1 and not lines[1].strip()
        has_header = "header" in above or is_implied
        builder = TableBuilder(caption)
        place = width
        below: list[tuple[int, int]] = []  # remaining rows and columns of cells that span rows
        for cell in cells:
            while place >= width:
                builder.begin_row(first_line + cell.line, is_header=has_header)
                has_header = False
                place = sum(columns for _, columns in below)
                below = [(rows - 1, columns) for rows, columns in below if rows > 1]
            text = _BARE.sub(r"\1", self._read_inline(" ".join(cell.text.split())))
            is_header = "h" in cell.style
            builder.add(text, is_header=is_header, colspan=cell.columns, rowspan=cell.rows)
            builder.extend_row(first_line + cell.line)
            if cell.rows > 1:
                below.append((cell.rows - 1, cell.columns))
            place += cell.columns
        if blocks := list(make_table_blocks(builder.build())):
            self.tables.append(blocks)
        return bool(blocks)


_FORMAT = re.compile(r"format\s*=\s*\"?(csv|tsv|dsv)\b")
_SEPARATORS = {"csv": ",", "tsv": "\t", "dsv": ":"}
_BARE = re.compile(r"\*\*([^*]+)\*\*|\\(?=\|)")


@dataclass(slots=True)
class _TableCell:
    line: int  # the cell's line in the table
    style: str
    text: str
    columns: int = 1
    rows: int = 1


def _split_cells(lines: Iterable[str]) -> Iterable[_TableCell]:
    """Yield the cells in the lines of a table. A cell may have several lines."""
    cell: _TableCell | None = None
    for index, line in enumerate(lines):
        end = 0
        for found in _CELL.finditer(line):
            if cell is not None:
                cell.text += " " + line[end : found.start()]
                yield cell
            spec = found[1] or ""
            span = _SPAN.match(spec)
            columns, rows = (int(span[1] or 1), int(span[2] or 1)) if span else (1, 1)
            style = spec[-1:] if spec[-1:].isalpha() else ""
            cell = _TableCell(index, style, "", min(columns, 100), min(rows, 1000))
            end = found.end()
        if cell is not None:
            cell.text += " " + line[end:]
    if cell is not None:
        yield cell


def _split_separator(lines: list[str], sign: str) -> Iterable[_TableCell]:
    for index, row in enumerate(csv.reader(lines, delimiter=sign)):
        yield from (_TableCell(index, "", text) for text in row)


def _count_columns(above: str, cells: list[_TableCell]) -> int:
    """Return the number of columns: the attribute `cols` in the line `above` the table or, without
    it, the number of cells in the table's first line."""
    found = re.search(r'cols\s*=\s*(?:"([^"]*)"|(\d+\*?|[^\s,\]]+))', above)
    if found:
        parts = (found[1] or found[2] or "").split(",")
        multipliers = (_MULTIPLIED.match(part) for part in parts)
        return max(
            1,
            min(
                1000, sum(int(multiplier[1][:4]) if multiplier else 1 for multiplier in multipliers)
            ),
        )
    return sum(cell.columns for cell in cells if cell.line == cells[0].line) or 1
