"""Reads the tables of MultiMarkdown that GitHub's Markdown lacks: several rows of column names,
cells that span columns (`| text ||`), parts below a blank line, and captions in brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hopsyncd.formats.markdown_tables import (
    DrawnTable,
    GridCell,
    Rows,
    find_searched_end,
    note_searched,
    push_table,
)

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_DELIMITERS = re.compile(r"\|?(?:\s*:?[-=]+:?\+?\s*\|)+(?:\s*:?[-=]+:?\+?\s*)?\Z")
_MARKED = re.compile(r":?[-=]+:?")
_CAPTION = re.compile(r"\[([^\[\]|]+)\](?:\s?\[[^\[\]|]*\])?\Z")
_NO_CAPTION_BEFORE = "no table with a caption begins before this line"
_MAX_HEADERS, _MAX_COLUMNS, _MAX_ROWS = 6, 100, 10_000

Line = Callable[[int], str]


def parse_multi_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a table that has several rows of column names, or a caption in brackets below it (a
    block rule). Other tables remain for the parser's own rule, in which `||` is an empty cell."""

    def line(number: int) -> str:
        is_inside = state.sCount[number] >= state.blkIndent and not state.is_code_block(number)
        begin = state.bMarks[number] + state.tShift[number]
        return state.src[begin : state.eMarks[number]].rstrip() if is_inside else ""

    first = line(start)
    if "|" not in first:
        return False
    headers = _count_headers(line, start, end)
    if not headers:
        return False
    width = len(_MARKED.findall(line(start + headers)))
    names = [_split_cells(line(number)) for number in range(start, start + headers)]
    if width > _MAX_COLUMNS or any(_count_columns(cells) != width for cells in names):
        return False
    if headers == 1 and start < find_searched_end(state, _NO_CAPTION_BEFORE):
        return False
    body = [*_list_body_lines(line, start + headers + 1, end)]
    has_caption = bool(body) and "|" not in line(body[-1])
    numbers = [*range(start, start + headers), *body[: len(body) - has_caption]]
    if headers == 1 and not has_caption:
        # The lines of a run of rows are searched for a caption only once.
        note_searched(state, _NO_CAPTION_BEFORE, max(body, default=start) + 1)
        return False
    if len(numbers) == headers:
        return False
    if not silent:
        rows: Rows = [(number, number + 1, _split_cells(line(number))) for number in numbers]
        found = _CAPTION.match(line(body[-1]))
        table = DrawnTable(rows, headers, body[-1] + 1)
        push_table(state, table, found[1] if found else "", start)
        state.line = table.end
    return True


def _count_headers(line: Line, start: int, end: int) -> int:
    """Count the rows above the line of hyphens; 0 if there is no such line."""
    for number in range(start + 1, min(end, start + _MAX_HEADERS + 1)):
        text = line(number)
        if "|" not in text:
            return 0
        if _DELIMITERS.match(text):
            return number - start
    return 0


def _list_body_lines(line: Line, start: int, end: int) -> Iterator[int]:
    """Yield the lines of the rows, and of the caption below them. A blank line may separate
    parts of the table."""
    for number in range(start, min(end, start + _MAX_ROWS)):
        text = line(number)
        if "|" in text:
            yield number
        elif _CAPTION.match(text):
            yield number
            return
        elif text or not _continues(line, number + 1, end):
            return


def _continues(line: Line, number: int, end: int) -> bool:
    """Whether a table goes on below a blank line: another row follows, but not another table."""
    return number < end and "|" in line(number) and not _count_headers(line, number, end)


def _split_cells(text: str) -> list[GridCell]:
    from markdown_it.rules_block.table import escapedSplit

    parts = escapedSplit(text)
    parts = parts[not parts[0].strip() :]
    if parts and not parts[-1].strip():
        parts.pop()
    cells: list[GridCell] = []
    for part in parts:
        if part or not cells:
            cells.append((part.strip(), 1, 1))
        else:  # `||`: the cell before it spans another column
            cells[-1] = (cells[-1][0], 1, cells[-1][2] + 1)
    return cells


def _count_columns(cells: list[GridCell]) -> int:
    return sum(columns for _, _, columns in cells)
