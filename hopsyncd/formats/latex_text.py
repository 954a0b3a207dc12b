"""Converts LaTeX within a paragraph: tokens, text without commands, and formulas as plain text."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from hopsyncd.formats.blocks import Links, WrittenLink, link_to_address, squeeze
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
    def of(cls, text: str) -> "Source":
        """Split a document into tokens, without comments."""
        breaks = [found.start() for found in re.finditer("\n", text)]
        tokens: list[str] = []
        lines: list[int] = []
        verbatim: dict[int, tuple[str, str]] = {}
        endless: set[str] = set()
        at = 0
        while found := _TOKEN.match(text, at):
            start, at, name = at, found.end(), found[1]
            if text[start] == "%":
                continue
            if found[2]:
                verbatim[len(tokens)] = ("", found[3])
            elif name and name not in endless:
                end = text.find(f"\\end{{{name}}}", at)
                if end < 0:
                    endless.add(name)
                else:
                    verbatim[len(tokens)] = (name, text[at:end])
                    at = end + len(name) + len("\\end{}")
            tokens.append(text[start:at])
            lines.append(bisect_right(breaks, start - 1) + 1)
        return cls(tokens, _ends_of(tokens), lines, verbatim)

    def word(self, at: int) -> str:
        """Return the name of the command at a position, or an empty string."""
        token = self.tokens[at]
        return token[1:].strip() if len(token) > 1 and token[0] == "\\" else ""


def _ends_of(tokens: Sequence[str]) -> list[int]:
    """Map each opening brace to the position of its closing brace, or of the end of the text."""
    ends, open_at = [len(tokens)] * len(tokens), list[int]()
    for at, token in enumerate(tokens):
        if token == "{":
            open_at.append(at)
        elif token == "}" and open_at:
            ends[open_at.pop()] = at
    return ends


@dataclass(slots=True)
class Written:
    """A text under construction and its links."""

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
        """Return the text in one line and its links, and start a new text."""
        text, links = squeeze("".join(self.parts), tuple(self.links))
        self.parts, self.links, self.length = [], [], 0
        return text, links


def _with_signs(text: str) -> str:
    """Replace LaTeX dashes and quotation marks by the printed characters."""
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

    def text(self, first: int, end: int, depth: int = 0) -> tuple[str, Links]:
        """Return the tokens from `first` up to `end` (exclusive) as one line, and the links in
        it."""
        written = Written()
        self.write(first, end, written, depth)
        return written.take()

    def write(self, first: int, end: int, written: Written, depth: int = 0) -> None:
        """Append the text of the tokens from `first` up to `end`."""
        at = first
        while at < end:
            at = self.write_one(at, end, written, depth)

    def write_one(self, at: int, end: int, written: Written, depth: int = 0) -> int:
        """Append the text of a token, or of a command with its arguments. Return the next
        position."""
        token = self.source.tokens[at]
        if at in self.source.verbatim:
            written.add(self.source.verbatim[at][1])
        elif token in ("$", "$$"):
            return self._write_formula(at, end, written, depth)
        elif token == "~" or token.isspace():
            written.add("\u00a0" if token == "~" else " ")
        elif word := self.source.word(at):
            return self._write_command(word, at, end, written, depth)
        elif token not in ("{", "}", "\\"):
            written.add(_with_signs(token))
        return at + 1

    def argument(self, at: int, end: int) -> tuple[int, int, int]:
        """Return the first and the end position of an argument, and the position after it."""
        tokens = self.source.tokens
        while at < end and tokens[at].isspace() and tokens[at].count("\n") < 2:
            at += 1
        if at < end and tokens[at] == "{":
            close = min(self.source.ends[at], end)
            return at + 1, close, close + 1
        return at, min(at + 1, end), min(at + 1, end)

    def option(self, at: int, end: int) -> tuple[int, int, int]:
        """Return the positions like `argument` for an optional argument in square brackets.

        If there is none, all three positions are `at`.
        """
        tokens, ends = self.source.tokens, self.source.ends
        if at >= end or tokens[at] != "[":
            return at, at, at
        close = at + 1
        while close < min(end, at + _MAX_OPTION_TOKENS) and tokens[close] != "]":
            close = ends[close] + 1 if tokens[close] == "{" else close + 1
        return (at + 1, close, close + 1) if close < end and tokens[close] == "]" else (at, at, at)

    def skip_options(self, at: int, end: int) -> int:
        """Return the position after the optional arguments in square brackets."""
        while (after := self.option(at, end)[2]) > at:
            at = after
        return at

    def raw(self, first: int, end: int) -> str:
        """Return the source text of the tokens."""
        return "".join(self.source.tokens[first:end]).strip()

    def _write_command(self, word: str, at: int, end: int, written: Written, depth: int) -> int:
        after = at + 1
        name = word.rstrip("*")
        if name in self.macros:
            return self._expand(self.macros[name], after, end, written, depth)
        if word == "\\" or word in SPACES:
            written.add("" if word in "-/!" else " ")
            return self.skip_options(after, end) if word == "\\" else after
        if word in "([":
            return self._write_formula(at, end, written, depth)
        if depth > _MAX_DEPTH:
            return after
        if name in ACCENTS and (len(name) > 1 or not name.isalpha() or after < end):
            return self._write_accent(name, after, end, written, depth)
        if name in WORDS or len(name) == 1:
            written.add(WORDS.get(name, name))
            return after + 2 if self.source.tokens[after : after + 2] == ["{", "}"] else after
        return self._write_arguments(name, after, end, written, depth)

    def _write_arguments(self, name: str, at: int, end: int, written: Written, depth: int) -> int:
        if name in SILENT or name in ("begin", "end"):
            return self._skip_arguments(name, at, end)
        if name in ("newcommand", "renewcommand", "providecommand", "def"):
            return self.define(name, at, end)
        if CITATIONS.match(name):
            return self._write_citation(at, end, written, depth + 1)
        if name in ("url", "path", "href"):
            return self._write_address(name, at, end, written, depth + 1)
        if name in UNITS:
            return self._write_quantity(at, end, written)
        at = self.skip_options(at, end)
        if name in REFERENCES:
            first, close, at = self.argument(at, end)
            written.add(self.raw(first, close))
            return at
        if name in ("footnote", "footnotetext", "marginpar"):
            first, close, after = self.argument(at, end)
            line = self.source.lines[min(at, len(self.source.lines) - 1)]
            self.notes.append((*self.text(first, close, depth + 1), line))
            return after
        if name in ("textsuperscript", "textsubscript"):
            first, close, at = self.argument(at, end)
            mark = "^" if name == "textsuperscript" else "_"
            written.add(mark + add_brackets(self.text(first, close, depth + 1)[0]))
            return at
        return self._write_visible(name, at, end, written, depth + 1)

    def _skip_arguments(self, name: str, at: int, end: int) -> int:
        self.left_out += name in ("input", "include", "subfile", "import")
        if name == "cmidrule" and at < end and self.source.tokens[at][0] == "(":
            at += 1
        first, close, _ = self.argument(at, end)
        is_short = close == first + 1  # an unclosed brace extends to the end of the document
        has_width = name == "begin" and is_short and self.raw(first, close) == "minipage"
        for _ in range(2 if has_width else SILENT.get(name, 1)):
            at = self.argument(self.skip_options(at, end), end)[2]
        return at

    def _write_visible(self, name: str, at: int, end: int, written: Written, depth: int) -> int:
        """Append the arguments of a command that only changes their appearance. Return the next
        position."""
        if name in SECOND:
            skipped = 2 if name in ("multirow", "multicolumn", "resizebox") else 1
            for _ in range(skipped):
                at = self.argument(self.skip_options(at, end), end)[2]
        while at < end and self.source.tokens[at] == "{":
            first, close, at = self.argument(at, end)
            self.write(first, close, written, depth)
            if at < end and self.source.tokens[at] == "{":
                written.add(" ")
        return at

    def define(self, name: str, at: int, end: int) -> int:
        r"""Record a command that `\newcommand` or `\def` defines. Return the next position."""
        tokens = self.source.tokens
        first, close, at = self.argument(at, end)
        defined = self.raw(first, close).lstrip("\\").strip()
        count = 0
        if name == "def":
            while at < end and tokens[at] not in ("{", "\n"):
                count += tokens[at].count("#")
                at += 1
        else:
            first, close, at = self.option(at, end)
            number = self.raw(first, close)
            count = int(number) if number.isdecimal() else 0
            at = self.skip_options(at, end)
        first, close, at = self.argument(at, end)
        if defined and defined not in SILENT and count < 10 and close - first < 200:
            self.macros[defined] = Macro(count, tuple(tokens[first:close]))
        return at

    def _expand(
        self,
        macro: Macro,
        at: int,
        end: int,
        written: Written,
        depth: int,
        in_formula: bool = False,
    ) -> int:
        arguments = []
        for _ in range(macro.arguments):
            first, close, at = self.argument(at, end)
            arguments.append(self.raw(first, close)[:_MAX_EXPANDED_CHARACTERS])
        self._expansions -= 1
        if self._expansions > 0 and self._expanded > 0 and depth <= _MAX_DEPTH:
            text = "".join(macro.tokens)
            for number, argument in enumerate(arguments, 1):
                text = text.replace(f"#{number}", argument)
            text = text[:_MAX_EXPANDED_CHARACTERS]
            self._expanded -= len(text)
            outer, self.source = self.source, Source.of(text)
            whole = len(self.source.tokens)
            if in_formula:
                written.add(self.formula(0, whole, depth + 5))
            else:
                self.write(0, whole, written, depth + 5)
            self.source = outer
        if at < end and self.source.tokens[at : at + 2] == ["{", "}"]:
            at += 2
        return at

    def _write_accent(self, name: str, at: int, end: int, written: Written, depth: int) -> int:
        first, close, after = self.argument(at, end)
        if first < end and close == first + 1 and self.source.tokens[first][0] not in "\\{}$":
            letters = self.source.tokens[first]
            written.add(put_accent(letters[0], name) + letters[1:])
            return after
        inner = Written()
        self.write(first, close, inner, depth + 1)
        text = "".join(inner.parts)
        written.add(put_accent(text[:1], name) + text[1:])
        return after

    def _write_citation(self, at: int, end: int, written: Written, depth: int) -> int:
        notes = []
        while (found := self.option(at, end))[2] > at:
            notes.append(self.text(found[0], found[1], depth)[0])
            at = found[2]
        first, close, at = self.argument(at, end)
        keys = [key.strip() for key in self.raw(first, close).split(",")]
        before = notes[0] if len(notes) > 1 else ""
        citation = ", ".join(filter(None, [*keys, notes[-1] if notes else ""]))
        written.add(f"[{before} {citation}]" if before else f"[{citation}]")
        return at

    def _write_address(self, name: str, at: int, end: int, written: Written, depth: int) -> int:
        first, close, at = self.argument(self.skip_options(at, end), end)
        address = self.raw(first, close).replace("\\", "")
        shown = address
        if name == "href":
            first, close, at = self.argument(at, end)
            shown = self.text(first, close, depth)[0]
        written.add_link(None if name == "path" else link_to_address(address, shown), shown)
        return at

    def _write_quantity(self, at: int, end: int, written: Written) -> int:
        at = self.skip_options(at, end)
        parts: list[str] = []
        while at < end and self.source.tokens[at] == "{" and len(parts) < 3:
            first, close, at = self.argument(at, end)
            raw = self.raw(first, close)
            units = raw.replace("\\per", "/").replace("\\", "").replace(" ", "")
            parts.append(units if "\\" in raw else raw)
        written.add(" ".join(parts))
        return at

    def _write_formula(self, at: int, end: int, written: Written, depth: int) -> int:
        tokens = self.source.tokens
        closing = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}[tokens[at].strip()]
        close = at + 1 if at >= self.source.open_until.get(closing, 0) else end
        while close < end and tokens[close].strip() != closing:
            if tokens[close].count("\n") > 1 or close == end - 1:
                self.source.open_until[closing] = close  # everything before this is already checked
                close = end
            close += 1
        if close >= end:  # the paragraph ends first, so this is not a formula
            written.add(tokens[at].strip("\\"))
            return at + 1
        written.add(self.formula(at + 1, close, depth))
        return close + 1

    def formula(self, first: int, end: int, depth: int = 0) -> str:
        """Write a formula in one line: characters instead of commands, fractions with a slash."""
        parts: list[str] = []
        at = first
        while at < end:
            at = self._write_sign(at, end, parts, depth)
        text = _FORMULA_SPACE.sub(" ", "".join(parts))
        return text.replace(" ;", ";").replace(" ,", ",").strip(" ;,\n")

    def _write_sign(self, at: int, end: int, parts: list[str], depth: int) -> int:
        token, word = self.source.tokens[at], self.source.word(at).rstrip("*")
        if token in ("^", "_"):
            return self._write_raised(token, at + 1, end, parts, depth)
        if not word:
            plain = {"&": " ", "~": " ", "{": "", "}": "", "$": "", "$$": ""}.get(token, token)
            parts.append(plain)
            return at + 1
        if word == "\\":
            parts.append("; ")
            return self.skip_options(at + 1, end)
        if word in SPACES:
            parts.append("" if word in "!/-" else " ")
            return at + 1
        if word in self.macros or depth > _MAX_DEPTH:
            written = Written()
            after = at + 1
            if word in self.macros:
                after = self._expand(self.macros[word], after, end, written, depth, True)
            parts += written.parts
            return after
        if word in ("left", "right") and at + 1 < end and self.source.tokens[at + 1][0] == ".":
            parts.append(self.source.tokens[at + 1][1:])
            return at + 2
        return self._write_operator(word, at + 1, end, parts, depth)

    def _write_operator(self, word: str, at: int, end: int, parts: list[str], depth: int) -> int:
        if word in ("begin", "end"):
            _, _, at = self.argument(at, end)
            if at < end and word == "begin" and self.raw(at - 2, at - 1) in ("array", "alignedat"):
                at = self.argument(at, end)[2]
            return at
        if word in _FRACTIONS or word == "binom":
            first, close, at = self.argument(at, end)
            over = self.formula(first, close, depth + 1)
            first, close, at = self.argument(at, end)
            under = self.formula(first, close, depth + 1)
            fraction = f"{add_brackets(over)}/{add_brackets(under)}"
            is_apart = bool(parts) and parts[-1][-1:].isalnum()  # 3 1/4 is not 31/4
            parts.append(" " if is_apart else "")
            parts.append(f"binom({over}, {under})" if word == "binom" else fraction)
            if at < end and (
                self.source.tokens[at][:1].isalnum() or self.source.word(at)[:1].isalpha()
            ):
                parts.append(" ")
            return at
        if word == "sqrt":
            first, close, at = self.option(at, end)
            root = self.formula(first, close, depth + 1)
            first, close, at = self.argument(at, end)
            parts.append(f"{root}√{add_brackets(self.formula(first, close, depth + 1))}")
            return at
        if word in ("text", "mbox", "textrm", "textbf", "textit"):
            first, close, at = self.argument(at, end)
            written = Written()
            self.write(first, close, written, depth + 1)
            parts += written.parts
            return at
        if word in SILENT:
            for _ in range(SILENT[word]):
                at = self.argument(self.skip_options(at, end), end)[2]
            return at
        if (sign := sign_of(word)) is not None:
            parts.append(f" {sign} " if sign in _RELATIONS else sign)
            return at
        if at < end and self.source.tokens[at] == "{":  # a typeface, or an accent
            first, close, at = self.argument(at, end)
            parts.append(self.formula(first, close, depth + 1))
            return at
        parts.append(word if len(word) == 1 else "")
        return at

    def _write_raised(self, mark: str, at: int, end: int, parts: list[str], depth: int) -> int:
        tokens = self.source.tokens
        while at < end and tokens[at].isspace():
            at += 1
        if at >= end:
            return at
        if tokens[at] == "{":
            first, close, at = self.argument(at, end)
            inner, rest = self.formula(first, close, depth + 1), ""
        elif self.source.word(at):
            inner_parts: list[str] = []
            at, rest = self._write_sign(at, end, inner_parts, depth + 1), ""
            inner = "".join(inner_parts)
        else:
            inner, rest, at = tokens[at][0], tokens[at][1:], at + 1
        if inner.strip() in ("∘", "°"):
            parts.append("°" + rest)
        elif inner:
            parts.append(mark + add_brackets(inner.strip()) + rest)
        return at
