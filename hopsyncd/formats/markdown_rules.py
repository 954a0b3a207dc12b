"""Adds rules to the Markdown parser: footnotes, formulas, and text that looks like link
definitions."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hopsyncd.formats.tex_formulas import match_formula

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

FOOTNOTE_MARK = re.compile(r"\[\^([^\]\s^]{1,60})\](?!:)")
_FOOTNOTE = re.compile(r"\[\^([^\]\s^]{1,60})\]:[ \t]*")
_MATH = re.compile(r"\$\$.{1,2000}?\$\$|\$(?![\s$])[^$\n]{1,300}?(?<![\s\\])\$(?!\d)", re.DOTALL)
_LABEL_HERE = re.compile(r"\[([^\[\]]{1,200})\]")
_SCRIPT = re.compile(r"~([+\-\u2212]?[\w.,]{1,20})~(?!~)|\^([+\-\u2212]?[\w.,]{1,20})\^(?![\w^])")
_CLOSERS = (")", "]", "}")
_ADDRESS = re.compile(r"[/.#:@%]")


def parse_footnotes(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse footnotes (a block rule): `[^label]: text`, with its continuation and indented lines.

    Without this rule, the parser reads a footnote of one word as the definition of a link. The
    token `footnote` has the text as its content and the label as its meta.
    """
    if state.is_code_block(start):
        return False
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    found = _FOOTNOTE.match(line)
    if not found:
        return False
    if silent:
        return True
    last = _end_of_footnote(state, start, end)
    below = state.getLines(start + 1, last, state.blkIndent + 4, False)
    token = state.push("footnote", "", 0)
    token.content = "\n".join(filter(None, (line[found.end() :], below)))
    token.meta = {"label": found[1]}
    token.map = [start, last]
    state.line = last
    return True


def _end_of_footnote(state: StateBlock, start: int, end: int) -> int:
    """Return the line after the footnote that begins at `start`."""
    terminators = state.md.block.ruler.getRules("paragraph")
    last = line = start + 1
    after_blank = False
    while line < end:
        is_indented = state.sCount[line] - state.blkIndent >= 4
        if state.isEmpty(line):
            after_blank = True
        elif is_indented or (
            not after_blank and not any(rule(state, line, end, True) for rule in terminators)
        ):
            last = line + 1
        else:
            break
        line += 1
    return last


def parse_formula(state: StateInline, silent: bool) -> bool:
    """Convert TeX formulas to readable text (an inline rule).

    Other text between dollar signs stays as it is, without emphasis.
    """
    if state.src[state.pos] not in "$\\":
        return False
    formula = match_formula(state.src, state.pos, state.posMax)
    if formula is None:
        found = _MATH.match(state.src, state.pos, state.posMax)
        if not found:
            return False
        formula = found[0], found.end()
    if not silent:
        state.push("text_special", "", 0).content = formula[0]
    state.pos = formula[1]
    return True


def parse_script(state: StateInline, silent: bool) -> bool:
    """Parse Pandoc's subscripts `H~2~O` and superscripts `m^2^` (an inline rule).

    These marks follow a word and contain no spaces; the token `script` has "_" or "^" as its
    markup. A formula such as a^2+b^2 is not a superscript.
    """
    before = state.src[state.pos - 1 : state.pos]
    found = _SCRIPT.match(state.src, state.pos, state.posMax)
    if not found or not (before.isalnum() or before in _CLOSERS):
        return False
    if not silent:
        token = state.push("script", "", 0)
        token.markup = "_" if found[0].startswith("~") else "^"
        token.content = found[1] or found[2]
    state.pos = found.end()
    return True


def add_definition_tokens(
    tokens: Sequence[Token], env: Mapping[str, Any], text: str
) -> Iterator[Token]:
    """Yield the tokens, with a token for each line that looks like a link definition but is text:
    `[Deadline]: Friday`.

    A line is text if no link uses its label and its target is not an address. The token
    `definition` has the line as its content.
    """
    found = [
        (*reference["map"], label)
        for label, reference in env.get("references", {}).items()
        if not _ADDRESS.search(reference["href"]) and label != "//"
    ]
    if not found:
        yield from tokens
        return
    contents = (token.content for token in tokens if token.type == "inline")
    named = {
        " ".join(label.split()).upper()
        for content in contents
        for label in _LABEL_HERE.findall(content)
    }
    lines = text.split("\n")
    waiting = deque(
        (start, _make_definition(start, end, lines))
        for start, end, label in sorted(found)
        if " ".join(label.split()).upper() not in named
    )
    for token in tokens:
        while waiting and not token.level and token.map and token.map[0] >= waiting[0][0]:
            yield waiting.popleft()[1]
        yield token
    yield from (definition for _, definition in waiting)


def _make_definition(start: int, end: int, lines: Sequence[str]) -> Token:
    from markdown_it.token import Token

    content = "\n".join(line.strip() for line in lines[start:end])
    content = re.sub(r"\A\[([^\]]*)\]:\s*", r"\1: ", content)
    return Token("definition", "", 0, map=[start, end], content=content)
