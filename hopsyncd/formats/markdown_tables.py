"""Reads Pandoc's Markdown tables that are drawn with lines: grid tables, simple tables and
multiline tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_GRID_LINE = re.compile(r"\+(?:[-=:]+\+)+\Z")
_COLUMNS = re.compile(r" {0,3}-{2,}(?: +-{2,})+ *\Z")
_FULL_LINE = re.compile(r" {0,3}-{3,} *\Z")
_CAPTION = re.compile(r"(?:Table)?: +(\S.*)\Z")
_RUN = re.compile(r"-+")
_BORDERS = ("|", "+")
_RULE = re.compile(r"\+(?:[-=:]+\+)+")
_HEADER_RULE = re.compile(r"\+[=:]+\+")
_LINE = re.compile(r"[-=:+]+")
_MAX_ROWS, _MAX_COLUMNS, _MAX_GRID_LINES = 10_000, 100, 50_000
_NO_GRID_BEFORE = "no grid table begins before this line"

GridCell = tuple[str, int, int]
"""The text of a cell, and the rows and columns that it spans."""
Rows = list[tuple[int, int, Sequence[str | GridCell]]]
"""Rows as (first line, line after the last line, cells)."""


@dataclass(frozen=True, slots=True)
class DrawnTable:
    """A table: its rows, the number of header rows, and the line after the table."""

    rows: Rows
    headers: int
    end: int


def parse_drawn_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse tables that are drawn with lines (a block rule). The token `table_open` has the caption
    as its content."""
    if state.is_code_block(start):
        return False

    def line(number: int) -> str:
        return state.src[state.bMarks[number] : state.eMarks[number]].rstrip()

    first = line(start)
    if _GRID_LINE.match(first.strip()):
        if start < find_searched_end(state, _NO_GRID_BEFORE):
            return False
        table, stopped = _read_grid(line, start, end)
        if table is None:
            # Each line of a failed grid is read only once.
            note_searched(state, _NO_GRID_BEFORE, stopped)
    elif _is_end(first):
        table = _read_multiline(line, start, end)
    elif _COLUMNS.match(first):
        table = _read_without_names(line, start, end)
    elif start + 1 < end and _COLUMNS.match(line(start + 1)):
        table = _read_simple(line, start, end)
    else:
        return False
    if table is None:
        return False
    if not silent:
        caption, after = _read_caption(line, table.end, end)
        push_table(state, table, caption, start)
        state.line = after
    return True


def find_searched_end(state: StateBlock, kind: str) -> int:
    """Return the line before which a search found no table of a kind, as `note_searched` recorded
    it, or 0 if nothing was searched."""
    text, line = state.env.get(kind, ("", 0))
    # Footnotes and outlines are parsed with the same environment, but they are other texts.
    return line if text is state.src else 0


def note_searched(state: StateBlock, kind: str, line: int) -> None:
    """Record that no table of a kind begins before this line of the text."""
    state.env[kind] = state.src, line


def push_table(state: StateBlock, table: DrawnTable, caption: str, start: int) -> None:
    """Add the tokens of a table that begins at the line `start`."""
    opened = state.push("table_open", "table", 1)
    opened.map, opened.content = [start, table.end], caption
    for number, (first, last, cells) in enumerate(table.rows):
        if number in (0, table.headers):
            state.push("thead_open" if number < table.headers else "tbody_open", "", 1)
        state.push("tr_open", "tr", 1).map = [first, last]
        for cell in cells:
            text, rowspan, colspan = (cell, 1, 1) if isinstance(cell, str) else cell
            token = state.push("inline", "", 0)
            token.content, token.map, token.children = text, [first, last], []
            token.meta = {"rowspan": rowspan, "colspan": colspan}
        state.push("tr_close", "tr", -1)
    state.push("table_close", "table", -1)


def _read_caption(line: Callable[[int], str], after: int, end: int) -> tuple[str, int]:
    """Return the caption below a table and the line after the caption. A blank line may precede the
    caption."""
    line_number = after + 1 if after < end and not line(after).strip() else after
    found = _CAPTION.match(line(line_number).strip()) if line_number < end else None
    if not found:
        return "", after
    texts, line_number = [found[1]], line_number + 1
    while line_number < end and line(line_number).strip():
        texts.append(line(line_number).strip())
        line_number += 1
    return " ".join(texts), line_number


def _read_grid(line: Callable[[int], str], start: int, end: int) -> tuple[DrawnTable | None, int]:
    """Read a grid table, whose cells may span rows and columns. Also returns the line at which
    reading stopped.

    The table is None if its lines do not form rectangles, or if its last line is missing.
    """
    border = line(start).strip()
    indent = len(line(start)) - len(border)
    lines: list[str] = []
    while start + len(lines) < end and len(lines) < _MAX_GRID_LINES:
        text = line(start + len(lines))[indent:]
        if len(text) != len(border) or text[0] not in _BORDERS or text[-1] not in _BORDERS:
            break
        lines.append(text)
    stopped = start + len(lines)
    runs = [[*_RULE.finditer(text)] for text in lines]
    rules = [index for index, found in enumerate(runs) if found]
    edges = sorted(
        {
            column
            for found in chain.from_iterable(runs)
            for column in range(*found.span())
            if found.string[column] == "+"
        }
    )
    is_whole = len(rules) > 1 and rules[-1] == len(lines) - 1 and len(edges) - 1 <= _MAX_COLUMNS
    if not is_whole or not _GRID_LINE.match(lines[-1]):
        return None, stopped
    if (cells := _find_cells(lines, rules, edges)) is None:
        return None, stopped
    rows: Rows = [
        (start + above + 1, start + below, row)
        for above, below, row in zip(rules, rules[1:], cells, strict=False)
    ]
    headers = next((row for row, rule in enumerate(rules) if _HEADER_RULE.search(lines[rule])), 0)
    return DrawnTable(rows, headers if headers < len(rows) else 0, stopped), stopped


def _find_cells(
    lines: Sequence[str], rules: Sequence[int], edges: Sequence[int]
) -> list[list[GridCell]] | None:
    """Return the cells of a grid table by row, or None if a cell is not a rectangle.

    `rules` are the lines that contain horizontal lines, and `edges` the columns of vertical lines.
    """
    covered: set[tuple[int, int]] = set()
    cells: list[list[GridCell]] = []
    for row in range(len(rules) - 1):
        cells.append([])
        for column in range(len(edges) - 1):
            if (row, column) in covered:
                continue
            right = column + 1
            while right < len(edges) - 1 and not _is_vertical(lines, rules, row, edges[right]):
                right += 1
            below = row + 1
            first, last = edges[column] + 1, edges[right]
            while below < len(rules) - 1 and not _LINE.fullmatch(lines[rules[below]], first, last):
                below += 1
            places = {(y, x) for y in range(row, below) for x in range(column, right)}
            if places & covered:
                return None
            covered |= places
            parts = [
                lines[index][first:last].strip() for index in range(rules[row] + 1, rules[below])
            ]
            cells[-1].append(("\n".join(parts).strip(), below - row, right - column))
    return cells


def _is_vertical(lines: Sequence[str], rules: Sequence[int], row: int, column: int) -> bool:
    """Whether a vertical line separates the cells of a row at a column."""
    signs = [lines[index][column] for index in range(rules[row], rules[row + 1] + 1)]
    return "|" in signs[1:-1] and all(sign in _BORDERS for sign in signs)


def _read_simple(line: Callable[[int], str], start: int, end: int) -> DrawnTable | None:
    """Read a simple table: a row of column names above lines of hyphens, then a line for each
    row."""
    if not line(start).strip():
        return None
    columns = _find_columns(line(start + 1))
    names = _cut(line(start), columns)
    if not all(map(_has_name, names)):
        return None
    rows: Rows = [(start, start + 1, names)]
    line_number = start + 2
    while line_number < end and line(line_number).strip() and len(rows) < _MAX_ROWS:
        if _FULL_LINE.match(line(line_number)):
            line_number += 1
            break
        rows.append((line_number, line_number + 1, _cut(line(line_number), columns)))
        line_number += 1
    return DrawnTable(rows, 1, line_number) if len(rows) > 1 else None


def _read_without_names(line: Callable[[int], str], start: int, end: int) -> DrawnTable | None:
    """Read a table without column names, between two rows of hyphens. Returns None if there are
    fewer than two rows.

    If the table has blank lines, they separate the rows, and a row may have several lines.
    """
    columns, line_number = _find_columns(line(start)), start + 1
    lines: list[tuple[int, list[str]]] = []
    while line_number < end and len(lines) < _MAX_ROWS and not _COLUMNS.match(line(line_number)):
        lines.append((line_number, _cut(line(line_number), columns)))
        line_number += 1
    if line_number >= end or line(line_number) != line(start) or not lines:
        return None
    is_spaced = any(not any(cells) for _, cells in lines)
    parts: list[list[tuple[int, list[str]]]] = []
    for number, cells in lines:
        if not any(cells):
            continue
        if is_spaced and parts and parts[-1][-1][0] + 1 == number:
            parts[-1].append((number, cells))
        else:
            parts.append([(number, cells)])
    rows: Rows = [
        (part[0][0], part[-1][0] + 1, _join([cells for _, cells in part])) for part in parts
    ]
    return DrawnTable(rows, 0, line_number + 1) if len(rows) > 1 else None


def _has_name(cell: str) -> bool:
    return any(map(str.isalnum, cell))


def _read_multiline(line: Callable[[int], str], start: int, end: int) -> DrawnTable | None:
    """Read a multiline table: between two long lines of hyphens, with a blank line after each
    row."""
    head: list[str] = []
    line_number = start + 1
    while (
        line_number < end
        and line(line_number).strip()
        and not _COLUMNS.match(line(line_number))
        and not _is_end(line(line_number))
    ):
        head.append(line(line_number))
        line_number += 1
    if line_number >= end or not head or not _COLUMNS.match(line(line_number)):
        return None
    columns = _find_columns(line(line_number))
    rows: Rows = [(start + 1, line_number, _join([_cut(cell, columns) for cell in head]))]
    line_number, first = line_number + 1, line_number + 1
    parts: list[list[str]] = []
    while line_number < end and len(rows) < _MAX_ROWS:
        text = line(line_number)
        is_last = _is_end(text)
        if text.strip() and not is_last:
            first = first if parts else line_number
            parts.append(_cut(text, columns))
        elif parts:
            rows.append((first, line_number, _join(parts)))
            parts = []
        line_number += 1
        if is_last:
            return DrawnTable(rows, 1, line_number) if len(rows) > 1 else None
    return None


def _is_end(text: str) -> bool:
    """Whether a line is one long run of hyphens, rather than one run per column."""
    return _FULL_LINE.match(text) is not None and not _COLUMNS.match(text)


def _join(lines: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(filter(None, cell)) for cell in zip(*lines, strict=True)]


def _find_columns(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each column below the line of hyphens `text`. A column extends to
    the start of the next column."""
    starts = [found.start() for found in _RUN.finditer(text)][:_MAX_COLUMNS]
    return [*zip([0, *starts[1:]], [*starts[1:], 1 << 30], strict=True)]


def _cut(text: str, columns: Sequence[tuple[int, int]]) -> list[str]:
    return [text[start:end].strip() for start, end in columns]
