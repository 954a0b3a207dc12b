"""Converts LaTeX within a paragraph: tokens, text without commands, and formulas as plain text."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from hopsyncd.formats.blocks import Links, WrittenLink, make_address_link, squeeze_spaces
from hopsyncd.formats.inline import add_brackets
from hopsyncd.formats.latex_signs import (
    ACCENTS,
    CITATIONS,
    REFERENCES,
    SECOND,
    SILENT,
    SPACES,
    UNITS,
    WORDS,
    put_accent,
    sign_of,
)

_VERBATIM = r"(?:verbatim|Verbatim|lstlisting|minted|alltt|Highlighting|comment|filecontents)\*?"
_TOKEN = re.compile(
    rf"\\begin[ \t]*\{{({_VERBATIM})\}}"
    r"|\\(?:verb|lstinline)\*?([^\sA-Za-z*])([^\n]*?)\2"
    r"|%[^\n]*(?:\n[ \t]*(?!\s)|\Z|(?=\n))"
    r"|\n[ \t]*\n\s*"
    r"|\\[A-Za-z@]+\*?[ \t]*"
    r"|\\."
    r"|\$\$?|[{}\[\]&~^_]"
    r"|[^\\%\n${}\[\]&~^_]+|.|\n",
    re.DOTALL,
)
_FRACTIONS = frozenset(("frac", "dfrac", "tfrac", "cfrac", "nicefrac", "sfrac"))
# Operators that are written with spaces around them.
_RELATIONS = frozenset("≤≥≠≈\u2261\u223c≅∝\u2208∉\u220b⊂⊆⊃⊇→←↔⇒⇐⇔↦≪≫\u2227\u2228\u222a\u2229\u00d7")
_MAX_DEPTH = 40
_MAX_OPTION_TOKENS = 200
_MAX_EXPANSIONS = 5_000
_MAX_EXPANDED_CHARACTERS = 2_000
_MAX_ADDED_CHARACTERS = 200_000
_FORMULA_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Macro:
    """A command that the document defines: the number of its arguments, and its
    replacement text."""

    arguments: int
    tokens: tuple[str, ...]


@dataclass(slots=True)
class Source:
    """The tokens of a document, with the closing position of each brace and the line of each
    token."""

    tokens: list[str]
    ends: list[int]
    lines: list[int]
    verbatim: dict[int, tuple[str, str]]
    open_until: dict[str, int] = field(default_factory=dict)

    @classmethod
    def tokenize(cls, text: str) -> "Source":
        """Split a document into tokens, without comments."""
        breaks = [found.start() for found in re.finditer("\n", text)]
        tokens: list[str] = []
        lines: list[int] = []
        verbatim: dict[int, tuple[str, str]] = {}
        endless: set[str] = set()
        offset = 0
        while found := _TOKEN.match(text, offset):
            start, offset, name = offset, found.end(), found[1]
            if text[start] == "%":
                continue
            if found[2]:
                verbatim[len(tokens)] = ("", found[3])
            elif name and name not in endless:
                end = text.find(f"\\end{{{name}}}", offset)
                if end < 0:
                    endless.add(name)
                else:
                    verbatim[len(tokens)] = (name, text[offset:end])
                    offset = end + len(name) + len("\\end{}")
            tokens.append(text[start:offset])
            lines.append(bisect_right(breaks, start - 1) + 1)
        return cls(tokens, _find_ends(tokens), lines, verbatim)

    def get_name(self, index: int) -> str:
        """Return the name of the command at a position, or an empty string."""
        token = self.tokens[index]
        return token[1:].strip() if len(token) > 1 and token[0] == "\\" else ""


def _find_ends(tokens: Sequence[str]) -> list[int]:
    """Map each opening brace to the position of its closing brace, or of the end of the text."""
    ends, open_at = [len(tokens)] * len(tokens), list[int]()
    for index, token in enumerate(tokens):
        if token == "{":
            open_at.append(index)
        elif token == "}" and open_at:
            ends[open_at.pop()] = index
    return ends


@dataclass(slots=True)
class Written:
    """Text under construction, and its links."""

    parts: list[str] = field(default_factory=list)
    links: list[tuple[int, WrittenLink]] = field(default_factory=list)
    length: int = 0

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def add_link(self, link: WrittenLink | None, text: str) -> None:
        if link:
            self.links.append((self.length, link))
        self.add(text)

    def take(self) -> tuple[str, Links]:
        """Return the text in one line and its links, and clear both."""
        text, links = squeeze_spaces("".join(self.parts), tuple(self.links))
        self.parts, self.links, self.length = [], [], 0
        return text, links


def _replace_signs(text: str) -> str:
    """Replace LaTeX dashes and quotation marks with the printed characters."""
    text = text.replace("---", "—").replace("--", "\u2013")
    return text.replace("``", "“").replace("''", "”")


class InlineReader:
    """Converts tokens to text. `macros` are the commands that the document has defined so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.macros: dict[str, Macro] = {}
        self.notes: list[tuple[str, Links, int]] = []  # the text, links and line of each note
        self.left_out = 0  # the number of commands that include other files
        self._expansions, self._expanded = _MAX_EXPANSIONS, _MAX_ADDED_CHARACTERS

    def read_text(self, first: int, end: int, depth: int = 0) -> tuple[str, Links]:
        """Convert the tokens from `first` up to `end` (exclusive) to one line, with its links."""
        written = Written()
        self.write(first, end, written, depth)
        return written.take()

    def write(self, first: int, end: int, written: Written, depth: int = 0) -> None:
        """Append the text of the tokens from `first` up to `end`."""
        index = first
        while index < end:
            index = self.write_one(index, end, written, depth)

    def write_one(self, index: int, end: int, written: Written, depth: int = 0) -> int:
        """Append the text of a token or of a command with arguments. Returns the next index."""
        token = self.source.tokens[index]
        if index in self.source.verbatim:
            written.add(self.source.verbatim[index][1])
        elif token in ("$", "$$"):
            return self._write_formula(index, end, written, depth)
        elif token == "~" or token.isspace():
            written.add("\u00a0" if token == "~" else " ")
        elif word := self.source.get_name(index):
            return self._write_command(word, index, end, written, depth)
        elif token not in ("{", "}", "\\"):
            written.add(_replace_signs(token))
        return index + 1

    def find_argument(self, index: int, end: int) -> tuple[int, int, int]:
        """Return the start and end of the argument at `index`, and the position after it."""
        tokens = self.source.tokens
        while index < end and tokens[index].isspace() and tokens[index].count("\n") < 2:
            index += 1
        if index < end and tokens[index] == "{":
            close = min(self.source.ends[index], end)
            return index + 1, close, close + 1
        return index, min(index + 1, end), min(index + 1, end)

    def find_option(self, index: int, end: int) -> tuple[int, int, int]:
        """Return positions as `find_argument` does, for an optional argument in square brackets.

        If there is no optional argument, all three positions are `index`.
        """
        tokens, ends = self.source.tokens, self.source.ends
        if index >= end or tokens[index] != "[":
            return index, index, index
        close = index + 1
        while close < min(end, index + _MAX_OPTION_TOKENS) and tokens[close] != "]":
            close = ends[close] + 1 if tokens[close] == "{" else close + 1
        is_closed = close < end and tokens[close] == "]"
        return (index + 1, close, close + 1) if is_closed else (index, index, index)

    def skip_options(self, index: int, end: int) -> int:
        """Return the position after the optional arguments in square brackets."""
        while (after := self.find_option(index, end)[2]) > index:
            index = after
        return index

    def get_raw(self, first: int, end: int) -> str:
        """Return the source text of the tokens."""
        return "".join(self.source.tokens[first:end]).strip()

    def _write_command(self, word: str, index: int, end: int, written: Written, depth: int) -> int:
        after = index + 1
        name = word.rstrip("*")
        if name in self.macros:
            return self._expand(self.macros[name], after, end, written, depth)
        if word == "\\" or word in SPACES:
            written.add("" if word in "-/!" else " ")
            return self.skip_options(after, end) if word == "\\" else after
        if word in "([":
            return self._write_formula(index, end, written, depth)
        if depth > _MAX_DEPTH:
            return after
        if name in ACCENTS and (len(name) > 1 or not name.isalpha() or after < end):
            return self._write_accent(name, after, end, written, depth)
        if name in WORDS or len(name) == 1:
            written.add(WORDS.get(name, name))
            return after + 2 if self.source.tokens[after : after + 2] == ["{", "}"] else after
        return self._write_arguments(name, after, end, written, depth)

    def _write_arguments(
        self, name: str, index: int, end: int, written: Written, depth: int
    ) -> int:
        if name in SILENT or name in ("begin", "end"):
            return self._skip_arguments(name, index, end)
        if name in ("newcommand", "renewcommand", "providecommand", "def"):
            return self.define(name, index, end)
        if CITATIONS.match(name):
            return self._write_citation(index, end, written, depth + 1)
        if name in ("url", "path", "href"):
            return self._write_address(name, index, end, written, depth + 1)
        if name in UNITS:
            return self._write_quantity(index, end, written)
        index = self.skip_options(index, end)
        if name in REFERENCES:
            first, close, index = self.find_argument(index, end)
            written.add(self.get_raw(first, close))
            return index
        if name in ("footnote", "footnotetext", "marginpar"):
            first, close, after = self.find_argument(index, end)
            line = self.source.lines[min(index, len(self.source.lines) - 1)]
            self.notes.append((*self.read_text(first, close, depth + 1), line))
            return after
        if name in ("textsuperscript", "textsubscript"):
            first, close, index = self.find_argument(index, end)
            mark = "^" if name == "textsuperscript" else "_"
            written.add(mark + add_brackets(self.read_text(first, close, depth + 1)[0]))
            return index
        return self._write_visible(name, index, end, written, depth + 1)

    def _skip_arguments(self, name: str, index: int, end: int) -> int:
        self.left_out += name in ("input", "include", "subfile", "import")
        if name == "cmidrule" and index < end and self.source.tokens[index][0] == "(":
            index += 1
        first, close, _ = self.find_argument(index, end)
        is_short = close == first + 1  # an unclosed brace extends to the end of the document
        has_width = name == "begin" and is_short and self.get_raw(first, close) == "minipage"
        for _ in range(2 if has_width else SILENT.get(name, 1)):
            index = self.find_argument(self.skip_options(index, end), end)[2]
        return index

    def _write_visible(self, name: str, index: int, end: int, written: Written, depth: int) -> int:
        """Append the arguments of the command `name`, which only changes their appearance. Return
        the position after the arguments."""
        if name in SECOND:
            skipped = 2 if name in ("multirow", "multicolumn", "resizebox") else 1
            for _ in range(skipped):
                index = self.find_argument(self.skip_options(index, end), end)[2]
        while index < end and self.source.tokens[index] == "{":
            first, close, index = self.find_argument(index, end)
            self.write(first, close, written, depth)
            if index < end and self.source.tokens[index] == "{":
                written.add(" ")
        return index

    def define(self, name: str, index: int, end: int) -> int:
        r"""Record a command that `\newcommand` or `\def` defines. Return the next position."""
        tokens = self.source.tokens
        first, close, index = self.find_argument(index, end)
        defined = self.get_raw(first, close).lstrip("\\").strip()
        count = 0
        if name == "def":
            while index < end and tokens[index] not in ("{", "\n"):
                count += tokens[index].count("#")
                index += 1
        else:
            first, close, index = self.find_option(index, end)
            number = self.get_raw(first, close)
            count = int(number) if number.isdecimal() else 0
            index = self.skip_options(index, end)
        first, close, index = self.find_argument(index, end)
        if defined and defined not in SILENT and count < 10 and close - first < 200:
            self.macros[defined] = Macro(count, tuple(tokens[first:close]))
        return index

    def _expand(
        self,
        macro: Macro,
        index: int,
        end: int,
        written: Written,
        depth: int,
        in_formula: bool = False,
    ) -> int:
        arguments = []
        for _ in range(macro.arguments):
            first, close, index = self.find_argument(index, end)
            arguments.append(self.get_raw(first, close)[:_MAX_EXPANDED_CHARACTERS])
        self._expansions -= 1
        if self._expansions > 0 and self._expanded > 0 and depth <= _MAX_DEPTH:
            text = "".join(macro.tokens)
            for number, argument in enumerate(arguments, 1):
                text = text.replace(f"#{number}", argument)
            text = text[:_MAX_EXPANDED_CHARACTERS]
            self._expanded -= len(text)
            outer, self.source = self.source, Source.tokenize(text)
            whole = len(self.source.tokens)
            if in_formula:
                written.add(self.format_formula(0, whole, depth + 5))
            else:
                self.write(0, whole, written, depth + 5)
            self.source = outer
        if index < end and self.source.tokens[index : index + 2] == ["{", "}"]:
            index += 2
        return index

    def _write_accent(self, name: str, index: int, end: int, written: Written, depth: int) -> int:
        first, close, after = self.find_argument(index, end)
        if first < end and close == first + 1 and self.source.tokens[first][0] not in "\\{}$":
            letters = self.source.tokens[first]
            written.add(put_accent(letters[0], name) + letters[1:])
            return after
        inner = Written()
        self.write(first, close, inner, depth + 1)
        text = "".join(inner.parts)
        written.add(put_accent(text[:1], name) + text[1:])
        return after

    def _write_citation(self, index: int, end: int, written: Written, depth: int) -> int:
        notes = []
        while (found := self.find_option(index, end))[2] > index:
            notes.append(self.read_text(found[0], found[1], depth)[0])
            index = found[2]
        first, close, index = self.find_argument(index, end)
        keys = [key.strip() for key in self.get_raw(first, close).split(",")]
        before = notes[0] if len(notes) > 1 else ""
        citation = ", ".join(filter(None, [*keys, notes[-1] if notes else ""]))
        written.add(f"[{before} {citation}]" if before else f"[{citation}]")
        return index

    def _write_address(self, name: str, index: int, end: int, written: Written, depth: int) -> int:
        first, close, index = self.find_argument(self.skip_options(index, end), end)
        address = self.get_raw(first, close).replace("\\", "")
        shown = address
        if name == "href":
            first, close, index = self.find_argument(index, end)
            shown = self.read_text(first, close, depth)[0]
        written.add_link(None if name == "path" else make_address_link(address, shown), shown)
        return index

    def _write_quantity(self, index: int, end: int, written: Written) -> int:
        index = self.skip_options(index, end)
        parts: list[str] = []
        while index < end and self.source.tokens[index] == "{" and len(parts) < 3:
            first, close, index = self.find_argument(index, end)
            raw = self.get_raw(first, close)
            units = raw.replace("\\per", "/").replace("\\", "").replace(" ", "")
            parts.append(units if "\\" in raw else raw)
        written.add(" ".join(parts))
        return index

    def _write_formula(self, index: int, end: int, written: Written, depth: int) -> int:
        tokens = self.source.tokens
        closing = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}[tokens[index].strip()]
        close = index + 1 if index >= self.source.open_until.get(closing, 0) else end
        while close < end and tokens[close].strip() != closing:
            if tokens[close].count("\n") > 1 or close == end - 1:
                self.source.open_until[closing] = close  # everything before this is already checked
                close = end
            close += 1
        if close >= end:  # the paragraph ends first, so this is not a formula
            written.add(tokens[index].strip("\\"))
            return index + 1
        written.add(self.format_formula(index + 1, close, depth))
        return close + 1

    def format_formula(self, first: int, end: int, depth: int = 0) -> str:
        """Write a formula in one line: characters instead of commands, fractions with a slash."""
        parts: list[str] = []
        index = first
        while index < end:
            index = self._write_sign(index, end, parts, depth)
        text = _FORMULA_SPACE.sub(" ", "".join(parts))
        return text.replace(" ;", ";").replace(" ,", ",").strip(" ;,\n")

    def _write_sign(self, index: int, end: int, parts: list[str], depth: int) -> int:
        token, word = self.source.tokens[index], self.source.get_name(index).rstrip("*")
        if token in ("^", "_"):
            return self._write_raised(token, index + 1, end, parts, depth)
        if not word:
            plain = {"&": " ", "~": " ", "{": "", "}": "", "$": "", "$$": ""}.get(token, token)
            parts.append(plain)
            return index + 1
        if word == "\\":
            parts.append("; ")
            return self.skip_options(index + 1, end)
        if word in SPACES:
            parts.append("" if word in "!/-" else " ")
            return index + 1
        if word in self.macros or depth > _MAX_DEPTH:
            written = Written()
            after = index + 1
            if word in self.macros:
                after = self._expand(self.macros[word], after, end, written, depth, True)
            parts += written.parts
            return after
        following = self.source.tokens[index + 1] if index + 1 < end else ""
        if word in ("left", "right") and following[:1] == ".":
            parts.append(following[1:])
            return index + 2
        return self._write_operator(word, index + 1, end, parts, depth)

    def _write_operator(self, word: str, index: int, end: int, parts: list[str], depth: int) -> int:
        if word in ("begin", "end"):
            _, _, index = self.find_argument(index, end)
            if (
                index < end
                and word == "begin"
                and self.get_raw(index - 2, index - 1) in ("array", "alignedat")
            ):
                index = self.find_argument(index, end)[2]
            return index
        if word in _FRACTIONS or word == "binom":
            first, close, index = self.find_argument(index, end)
            over = self.format_formula(first, close, depth + 1)
            first, close, index = self.find_argument(index, end)
            under = self.format_formula(first, close, depth + 1)
            fraction = f"{add_brackets(over)}/{add_brackets(under)}"
            is_apart = bool(parts) and parts[-1][-1:].isalnum()  # 3 1/4 is not 31/4
            parts.append(" " if is_apart else "")
            parts.append(f"binom({over}, {under})" if word == "binom" else fraction)
            if index < end and (
                self.source.tokens[index][:1].isalnum() or self.source.get_name(index)[:1].isalpha()
            ):
                parts.append(" ")
            return index
        if word == "sqrt":
            first, close, index = self.find_option(index, end)
            root = self.format_formula(first, close, depth + 1)
            first, close, index = self.find_argument(index, end)
            parts.append(f"{root}√{add_brackets(self.format_formula(first, close, depth + 1))}")
            return index
        if word in ("text", "mbox", "textrm", "textbf", "textit"):
            first, close, index = self.find_argument(index, end)
            written = Written()
            self.write(first, close, written, depth + 1)
            parts += written.parts
            return index
        if word in SILENT:
            for _ in range(SILENT[word]):
                index = self.find_argument(self.skip_options(index, end), end)[2]
            return index
        if (sign := sign_of(word)) is not None:
            parts.append(f" {sign} " if sign in _RELATIONS else sign)
            return index
        if index < end and self.source.tokens[index] == "{":  # a typeface, or an accent
            first, close, index = self.find_argument(index, end)
            parts.append(self.format_formula(first, close, depth + 1))
            return index
        parts.append(word if len(word) == 1 else "")
        return index

    def _write_raised(self, mark: str, index: int, end: int, parts: list[str], depth: int) -> int:
        tokens = self.source.tokens
        while index < end and tokens[index].isspace():
            index += 1
        if index >= end:
            return index
        if tokens[index] == "{":
            first, close, index = self.find_argument(index, end)
            inner, rest = self.format_formula(first, close, depth + 1), ""
        elif self.source.get_name(index):
            inner_parts: list[str] = []
            index, rest = self._write_sign(index, end, inner_parts, depth + 1), ""
            inner = "".join(inner_parts)
        else:
            inner, rest, index = tokens[index][0], tokens[index][1:], index + 1
        if inner.strip() in ("∘", "°"):
            parts.append("°" + rest)
        elif inner:
            parts.append(mark + add_brackets(inner.strip()) + rest)
        return index
