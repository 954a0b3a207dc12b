r"""Reads LaTeX: headings, text without commands, lists, tables, formulas and notes.

No code is executed. Files included by `\input` are not read, only counted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hopsyncd.formats.blocks import Block, Kind, join_lines, make_skipped_block, with_title
from hopsyncd.formats.fields import lead_of
from hopsyncd.formats.latex_text import InlineReader, Source, Written
from hopsyncd.formats.list_numbers import ItemNumbers, add_label
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import TableBuilder

_LEVELS = {
    "part": 1,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
    "subparagraph": 6,
    "frametitle": 3,
}
_TABLES = frozenset(
    "tabular tabularx tabulary longtable tabu supertabular tblr NiceTabular".split()
)
_FORMULAS = frozenset(
    "equation align gather multline eqnarray displaymath math alignat flalign IEEEeqnarray dmath"
    " subequations".split()
)
_LISTS = frozenset("itemize enumerate description compactitem compactenum inparaenum tasks".split())
_DRAWINGS = frozenset("tikzpicture pgfpicture picture axis circuitikz forest prooftree".split())
_FLOATS = frozenset("table figure wrapfigure wraptable sidewaystable sidewaysfigure".split())
_CODE = frozenset("verbatim Verbatim lstlisting minted alltt Highlighting".split())
_PLAIN = frozenset(
    "document center flushleft flushright quote quotation abstract minipage small multicols"
    " titlepage appendices frame columns column block landscape adjustbox threeparttable".split()
)
_FACTS = {"author": "author", "date": "date", "keywords": "tag"}
_RULES = frozenset("hline midrule endhead endfirsthead".split())
_NUMBERED = ("enumerate", "compactenum", "inparaenum")
_NUMBER_STYLES = ("1", "a", "i", "A")  # by the nesting depth of a list
_HIGHLIGHTED = re.compile(r"\\[A-Za-z]{1,40}Tok\{((?:[^{}\\]|\\.|\{[^{}]*\})*)\}", re.DOTALL)
_HIGHLIGHT_SIGNS = (
    ("\\textgreater{}", ">"), ("\\textless{}", "<"), ("\\textbackslash{}", "\\"),
    ("\\{", "{"), ("\\}", "}"), ("{-}", "-"), ("{[}", "["), ("{]}", "]"),
)  # fmt: skip
_MAX_LEADS = 3
_MAX_NAME_TOKENS = 10  # in an environment's name, because a brace may be unclosed


def read_latex(text: str) -> tuple[Block, ...]:
    """Read a document, or a part of a document without a preamble.

    A formula becomes one line of text, and a citation becomes its key. A caption comes above its
    table. Drawings are left out and counted.
    """
    reader = _Reader(text)
    blocks = tuple(reader.read())
    title, line = reader.title
    blocks = with_title(blocks, title, line)
    if blocks and reader.facts:
        blocks = (replace(blocks[0], properties=tuple(reader.facts)), *blocks[1:])
    skipped = {"drawings": reader.drawings, "included files": reader.inline.left_out}
    return (*blocks, make_skipped_block(skipped)) if blocks and any(skipped.values()) else blocks


@dataclass(slots=True)
class _List:
    """An open list: the lead of the current item, and the term that the item explains."""

    lead: str = ""
    term: str = ""
    is_open: bool = False
    numbers: ItemNumbers | None = None
    depth: int = 0  # the nesting depth among numbered lists


@dataclass(slots=True)
class _Paragraph:
    written: Written = field(default_factory=Written)
    first: int = 0
    last: int = 0


class _Reader:
    """Reads the tokens of a document in one pass."""

    def __init__(self, text: str) -> None:
        self.source = Source.tokenize(text)
        self.inline = InlineReader(self.source)
        self.title = ("", 1)
        self.facts: list[tuple[str, str]] = []
        self.drawings = 0
        self._paragraph = _Paragraph()
        self._lists: list[_List] = []
        self._ends = self._find_ends()
        self._names: dict[str, str] = {}  # titles of theorems, lemmas and proofs, by environment
        self._prefix = ""

    def read(self) -> Iterator[Block]:
        source, end = self.source, len(self.source.tokens)
        begin = self._read_preamble()
        index = begin
        while index < end:
            if source.tokens[index].count("\n") > 1 and source.tokens[index].isspace():
                yield from self._flush()
                index += 1
                continue
            word = source.get_name(index).rstrip("*")
            if index in source.verbatim and source.verbatim[index][0]:
                yield from self._flush()
                yield from self._read_code(index)
                index += 1
            elif word == "begin" or (word == "end" and index + 1 < end):
                name, after = self._read_environment(index)
                if word == "end" and name == "document":
                    break
                blocks, index = self._enter(name, index, after) if word == "begin" else ([], after)
                if word == "end":
                    blocks = [*self._leave(name, index)]
                yield from blocks
            elif word in _LEVELS or word in ("item", "bibitem", "caption", "par", "maketitle"):
                yield from self._flush()
                block, index = self._read_command(word, index)
                yield from block
            elif word in ("title", *_FACTS):
                index = self._read_fact(word, index)
            elif word == "newtheorem":
                index = self._read_theorem(index)
            elif word == "hypertarget":  # its second argument can contain a heading
                index = self.inline.find_argument(index + 1, end)[2]
            else:
                index = self._write(index, end)
        yield from self._flush()

    def _read_preamble(self) -> int:
        """Read the preamble. Returns the position at which the document's text begins."""
        source, end = self.source, len(self.source.tokens)
        start = next(
            (
                index
                for index in range(end)
                if source.get_name(index) == "begin"
                and self._read_environment(index)[0] == "document"
            ),
            None,
        )
        if start is None:
            return 0
        index = 0
        while index < start:
            word = source.get_name(index).rstrip("*")
            if word in ("title", *_FACTS):
                index = self._read_fact(word, index)
            elif word in ("newcommand", "renewcommand", "providecommand", "def"):
                index = self.inline.define(word, index + 1, start)
            elif word == "newtheorem":
                index = self._read_theorem(index)
            else:
                index += 1
        return self._read_environment(start)[1]

    def _write(self, index: int, end: int) -> int:
        paragraph = self._paragraph
        if not paragraph.written.length:
            if self.source.tokens[index].isspace():
                return index + 1
            paragraph.first = index
            if self._prefix:
                paragraph.written.add(self._prefix)
                self._prefix = ""
        after = self.inline.write_one(index, end, paragraph.written)
        if not self.source.tokens[index].isspace():
            paragraph.last = min(after, end) - 1
        return after

    def _flush(self) -> Iterator[Block]:
        """End the current paragraph and add its notes."""
        written, first = self._paragraph.written, self._paragraph.first
        notes, self.inline.notes = self.inline.notes, []
        text, links = written.take()
        lines = self.source.lines
        last_line = lines[max(first, self._paragraph.last)] if lines else 1
        innermost = self._lists[-1] if self._lists else None
        leads = tuple(entry.lead for entry in self._lists[-_MAX_LEADS - 1 : -1] if entry.lead)
        kind: Kind = "list_item" if innermost else "paragraph"
        if innermost and innermost.is_open and innermost.term:
            is_word = not innermost.numbers and any(map(str.isalnum, innermost.term))
            term = f"{innermost.term}:" if is_word and text else innermost.term
            text, links = add_label(term, text, links) if text else (term, links)
        if innermost and innermost.is_open and text:
            innermost.lead, innermost.term, innermost.is_open = lead_of(text), "", False
        elif innermost and innermost.lead:
            leads = (*leads, innermost.lead)
        if text:
            yield Block(kind, text, lines[first], last_line, links=links, leads=leads[-_MAX_LEADS:])
        for note, note_links, line in notes:
            yield Block("note", note, line, max(line, last_line), links=note_links)

    def _find_ends(self) -> dict[int, int]:
        r"""Map the position of each `\begin` to the position of its `\end`, even if environments of
        the same name are nested."""
        found: dict[int, int] = {}
        open_at: dict[str, list[int]] = {}
        for index in range(len(self.source.tokens)):
            word = self.source.get_name(index)
            if word == "begin":
                open_at.setdefault(self._read_environment(index)[0], []).append(index)
            elif word == "end" and (begins := open_at.get(self._read_environment(index)[0])):
                found[begins.pop()] = index
        return found

    def _read_environment(self, index: int) -> tuple[str, int]:
        first, close, after = self.inline.find_argument(index + 1, len(self.source.tokens))
        return self.inline.get_raw(first, min(close, first + _MAX_NAME_TOKENS)).rstrip("*"), after

    def _enter(self, name: str, index: int, after: int) -> tuple[list[Block], int]:
        end = self._ends.get(index, len(self.source.tokens))
        line = self.source.lines[index]
        if name in _FORMULAS:
            formula = self.inline.format_formula(after, end)
            written = self._paragraph.written
            if not written.length:
                self._paragraph.first = index
            written.add(f" {formula} ")
            self._paragraph.last = min(end, len(self.source.tokens) - 1)
            return [], self._find_end(end)
        blocks = [*self._flush()]
        if name in _TABLES or name == "array":
            return [*blocks, *self._read_table(after, end, "")], self._find_end(end)
        if name in _DRAWINGS:
            self.drawings += 1
            return blocks, self._find_end(end)
        if name in _FLOATS:
            return [*blocks, *self._read_float(after, end)], self._find_end(end)
        if name in _LISTS or name == "thebibliography":
            depth = self._lists[-1].depth if self._lists else 0
            style = _NUMBER_STYLES[min(depth, len(_NUMBER_STYLES) - 1)]
            numbers = ItemNumbers(style=style) if name in _NUMBERED else None
            self._lists.append(_List(numbers=numbers, depth=depth + (numbers is not None)))
            after = self.inline.skip_options(after, end)
            return blocks, self.inline.find_argument(after, end)[2] if name[0:3] == "the" else after
        if name == "abstract":
            blocks.append(Block("heading", "Abstract", line, line, level=2))
            return blocks, after
        first, close, after = self.inline.find_option(after, end)
        if name not in _PLAIN:
            self._prefix = self._read_opening(name, first, close)
        elif name in ("minipage", "multicols", "frame", "block", "column", "adjustbox"):
            first, close, behind = self.inline.find_argument(after, end)
            if behind == close:  # a token without braces belongs to the text
                return blocks, after
            after = behind
            if name in ("frame", "block") and first < close:
                title = self.inline.read_text(first, close)[0]
                blocks.append(Block("heading", title, line, line, level=3))
        return blocks, after

    def _read_opening(self, name: str, first: int, close: int) -> str:
        known = self._names.get(name, "Proof" if name == "proof" else "")
        title = self.inline.read_text(first, close)[0] if known else ""
        return f"{known} ({title}). " if title else f"{known}. " if known else ""

    def _find_end(self, end: int) -> int:
        r"""Return the position after the `\end` command at position `end`, including its
        argument."""
        if end >= len(self.source.tokens):
            return end
        return self.inline.find_argument(end + 1, len(self.source.tokens))[2]

    def _leave(self, name: str, index: int) -> Iterator[Block]:
        yield from self._flush()
        if (name in _LISTS or name == "thebibliography") and self._lists:
            self._lists.pop()
        if name == "abstract":
            line = self.source.lines[min(index, len(self.source.lines)) - 1]
            yield Block("heading", "", line, line, level=2)

    def _read_command(self, word: str, index: int) -> tuple[list[Block], int]:
        end, inline, line = len(self.source.tokens), self.inline, self.source.lines[index]
        if word in ("par", "maketitle"):
            return [], index + 1
        option = inline.find_option(index + 1, end)
        if word == "item":
            if not self._lists:
                self._lists.append(_List())
            self._lists[-1].is_open = True
            self._paragraph.first = self._paragraph.last = index
            innermost = self._lists[-1]
            innermost.term = inline.read_text(option[0], option[1])[0]
            if innermost.numbers and option[0] == option[1]:
                innermost.term = innermost.numbers.take()
            return [], option[2]
        first, close, after = inline.find_argument(option[2], end)
        if word == "bibitem":
            if self._lists:
                self._lists[-1].is_open = True
            self._paragraph.first = index
            self._paragraph.written.add(f"[{inline.get_raw(first, close)}] ")
            return [], after
        text, links = inline.read_text(first, close)
        if word == "caption":
            return [Block("figure", text, line, line, links=links)] if text else [], after
        level = _LEVELS[word]
        return [Block("heading", text, line, line, level=level, links=links)] if text else [], after

    def _read_fact(self, word: str, index: int) -> int:
        end = len(self.source.tokens)
        after = self.inline.skip_options(index + 1, end)
        first, close, after = self.inline.find_argument(after, end)
        if word == "title":
            self.title = (
                join_lines(self.inline.read_text(first, close)[0]),
                self.source.lines[index],
            )
        elif not self.inline.get_raw(first, close).startswith("\\today"):
            ands = [
                place
                for place in range(first, close)
                if self.source.get_name(place) in ("and", "And")
            ]
            parts = pairwise([first, *ands, close])
            found = [join_lines(self.inline.read_text(*part)[0]) for part in parts]
            self.facts += [(_FACTS[word], value) for value in found if value]
        return after

    def _read_theorem(self, index: int) -> int:
        end, inline = len(self.source.tokens), self.inline
        first, close, after = inline.find_argument(index + 1, end)
        name = inline.get_raw(first, close)
        first, close, after = inline.find_argument(inline.skip_options(after, end), end)
        self._names[name] = inline.read_text(first, close)[0]
        return inline.skip_options(after, end)

    def _read_code(self, index: int) -> Iterator[Block]:
        name, text = self.source.verbatim[index]
        if name.rstrip("*") not in _CODE:
            return
        line = self.source.lines[index]
        text = re.sub(r"\A[ \t]*(?:\[[^\]\n]*\])?(?:\{[^}\n]*\})?[ \t]*\n", "", text).rstrip()
        if name == "Highlighting":
            text = _remove_highlighting(text)
        if text.strip():
            yield Block("code", text, line, line + text.count("\n") + 1)

    def _read_float(self, first: int, end: int) -> Iterator[Block]:
        inline, source = self.inline, self.source
        captions, index = [], first
        while index < end:
            if source.get_name(index).rstrip("*") in ("caption", "captionof"):
                begin, close, after = inline.find_argument(inline.skip_options(index + 1, end), end)
                captions.append((inline.read_text(begin, close), source.lines[index]))
                index = max(after, index + 1)
            else:
                index += 1
        caption = " ".join(text for (text, _), _ in captions)
        has_table = False
        index = first
        while index < end:
            if source.get_name(index) == "begin":
                name, after = self._read_environment(index)
                if name in _TABLES:
                    rows = [*self._read_table(after, self._ends.get(index, end), caption)]
                    if any(row.kind == "table" for row in rows):
                        has_table, caption = True, ""
                        yield from rows
                    index = self._ends.get(index, end)
                elif name in _DRAWINGS:
                    self.drawings += 1
                    index = self._ends.get(index, end)
            index += 1
        if not has_table:
            for (text, links), line in captions:
                yield Block("figure", text, line, line, links=links)

    def _read_table(self, first: int, end: int, caption: str) -> Iterator[Block]:
        inline, source = self.inline, self.source
        index = inline.skip_options(first, end)
        while (
            index < end and source.tokens[index] == "{"
        ):  # skip the width and the column definitions
            index = inline.skip_options(inline.find_argument(index, end)[2], end)
        builder = TableBuilder(caption)
        rows: list[list[tuple[int, int]]] = [[]]
        begin, ruled, has_top = index, 0, False
        while index < end:
            token, word = source.tokens[index], source.get_name(index).rstrip("*")
            if token == "{":
                index = min(source.ends[index], end)
            elif token == "&" or word in ("\\", "tabularnewline"):
                rows[-1].append((begin, index))
                begin = index + 1
                if token != "&":
                    begin = (
                        index + 1 if source.tokens[index + 1 : index + 2] != ["["] else index + 4
                    )
                    rows.append([])
            elif word in _RULES:
                ruled = ruled or len(rows) - 1
            has_top |= word == "toprule"
            index += 1
        rows[-1].append((begin, end))
        marked = ruled if 0 < ruled < len(rows) - 1 else 0
        covered: dict[int, int] = {}  # remaining rows of cells that span rows, by column
        for number, cells in enumerate(rows):
            self._read_row(builder, cells, number < marked, covered)
        # The package booktabs has a rule below the names of columns.
        yield from make_table_blocks(builder.build(guess_header=not marked and not has_top))

    def _read_row(
        self,
        builder: TableBuilder,
        cells: list[tuple[int, int]],
        is_header: bool,
        covered: dict[int, int],
    ) -> None:
        inline, source = self.inline, self.source
        written = [inline.read_text(first, end) for first, end in cells]
        if not any(text for text, _ in written):
            return
        line = source.lines[min(cells[0][0] + 1, len(source.lines) - 1)]
        builder.begin_row(line, is_header=is_header)
        column = 0
        for (first, end), (text, links) in zip(cells, written, strict=True):
            spans = {"multicolumn": 1, "multirow": 1}
            index = first
            while index < end:
                if (word := source.get_name(index)) in spans:
                    begin, close, _ = inline.find_argument(inline.skip_options(index + 1, end), end)
                    number = inline.get_raw(begin, close)
                    spans[word] = int(number) if number.isdecimal() else 1
                index += 1
            across, down = (min(max(spans[name], 1), 1000) for name in ("multicolumn", "multirow"))
            is_covered = covered.get(column, 0) > 0
            if is_covered:
                covered[column] -= 1
            # LaTeX has an empty cell where another cell covers the place
            if text or not is_covered:
                builder.add(text, rowspan=down, colspan=across, links=links)
            if down > 1:
                covered |= dict.fromkeys(range(column, column + across), down - 1)
            column += across


def _remove_highlighting(code: str) -> str:
    """Drop the commands with which pandoc colours code."""
    code = _HIGHLIGHTED.sub(r"\1", code)
    for written, shown in _HIGHLIGHT_SIGNS:
        code = code.replace(written, shown)
    return code
