"""Adds definition lists to the Markdown parser, as in Pandoc and PHP Markdown Extra.

Term
: Its definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_MARKERS = (":", "~")
_MAX_TERMS = 3
_CODE_INDENT = 4


def parse_definitions(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse terms with their definitions (a block rule).

    The content of each `dt` token is the term, or several terms joined by commas. Each definition
    is between `dd_open` and `dd_close`; `dd_open` is marked as `hidden` if the definition does not
    begin with a paragraph, and its `info` is "first" for the first definition of a term.
    """
    if silent:  # whether a line ends the paragraph above it
        if state.ddIndent < 0 or state.sCount[start] >= state.blkIndent:
            return False
        indent = state.ddIndent
        is_next = _is_definition(state, start, end, indent)
        return is_next or _find_definition(state, start, end, indent) > 0
    line = _find_definition(state, start, end, state.blkIndent)
    if not line:
        return False
    opened = state.push("dl_open", "dl", 1)
    opened.map = [start, line]
    while line:
        _read_term(state, start, line)
        while line < end and _is_definition(state, line, end, state.blkIndent):
            _read_definition(state, line, end, is_first=state.tokens[-1].type == "dt")
            line = state.line
        opened.map[1] = start = line
        line = _find_definition(state, start, end, state.blkIndent)
    state.push("dl_close", "dl", -1)
    return True


def _is_definition(state: StateBlock, number: int, end: int, indent: int) -> bool:
    if number >= end or not 0 <= state.sCount[number] - indent < _CODE_INDENT:
        return False
    begin = state.bMarks[number] + state.tShift[number]
    mark, text = state.src[begin : begin + 1], state.src[begin + 1 : state.eMarks[number]]
    return mark in _MARKERS and text[:1] in (" ", "\t") and bool(text.strip())


def _find_definition(state: StateBlock, start: int, end: int, indent: int) -> int:
    """Return the line of the definition of the terms that begin at `start`, or 0 if there is no
    definition.

    A blank line may follow a single term.
    """
    line = start
    terminators = state.md.block.ruler.getRules("paragraph")
    while line < end and not state.isEmpty(line) and not _is_definition(state, line, end, indent):
        is_apart = not 0 <= state.sCount[line] - indent < _CODE_INDENT
        if line - start >= _MAX_TERMS or is_apart:
            return 0
        if any(
            rule(state, line, end, True) for rule in terminators if rule is not parse_definitions
        ):
            return 0
        line += 1
    if line == start:
        return 0
    if line == start + 1 and line < end and state.isEmpty(line):
        line += 1
    return line if _is_definition(state, line, end, indent) else 0


def _read_term(state: StateBlock, start: int, end: int) -> None:
    lines = [
        state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()
        for number in range(start, end)
    ]
    term = state.push("dt", "", 0)
    term.content, term.map = ", ".join(filter(None, lines)), [start, end]


def _read_definition(state: StateBlock, number: int, end: int, *, is_first: bool) -> None:
    opened = state.push("dd_open", "dd", 1)
    opened.info = "first" if is_first else ""
    place = len(state.tokens)
    begin = state.bMarks[number] + state.tShift[number] + 1
    text = state.src[begin : state.eMarks[number]]
    blanks = text[: len(text) - len(text.lstrip(" \t"))]
    column = len((" " * (state.sCount[number] + 1) + blanks).expandtabs(4))
    if column > state.sCount[number] + 1 + _CODE_INDENT:  # code begins after the first blank
        column, blanks = state.sCount[number] + 2, blanks[:1]
    before = (
        state.tShift[number], state.sCount[number], state.blkIndent, state.ddIndent, state.tight,
        state.parentType,
    )  # fmt: skip
    state.tShift[number] = begin + len(blanks) - state.bMarks[number]
    state.sCount[number] = column
    state.ddIndent, state.tight, state.parentType = state.blkIndent, True, "dl"
    state.blkIndent = min(column, state.blkIndent + _CODE_INDENT)
    state.md.block.tokenize(state, number, end)
    (
        state.tShift[number], state.sCount[number], state.blkIndent, state.ddIndent, state.tight,
        state.parentType,
    ) = before  # fmt: skip
    opened.map = [number, state.line]
    opened.hidden = state.tokens[place : place + 1] == [] or (
        state.tokens[place].type != "paragraph_open"
    )
    state.push("dd_close", "dd", -1)
