"""Tables of reStructuredText: drawn ones, lists of lists, comma-separated values."""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hopsyncd.formats.fields import labels_of, row_text

_GRID_BORDER = re.compile(r"\+[-=+]*+\Z")
_SIMPLE_BORDER = re.compile(r"=+(?: +=+)+\Z")
_UNDERLINED = re.compile(r"[- ]+\Z")
_CELL = re.compile(r"([* ])[ ]*-(?: |\Z)(.*)")

Row = tuple[int, int, list[str]]
"""The first and the last line of a row, counted from 0, and its cells."""


def is_table(lines: Sequence[str]) -> bool:
    """Whether lines, without their margin, draw a table."""
    return any(_GRID_BORDER.match(line) or _SIMPLE_BORDER.match(line) for line in lines)


def drawn_rows(lines: Sequence[str]) -> list[Row]:
    """The rows between the borders of a table, with wrapped cells joined."""
    simple = next((line for line in lines if _SIMPLE_BORDER.match(line)), "")
    starts = [found.start() for found in re.finditer("=+", simple)]
    rows: list[Row] = []
    begins = True
    for number, line in enumerate(lines):
        if _SIMPLE_BORDER.match(line) or _GRID_BORDER.match(line):
            begins = True
            continue
        if simple and _UNDERLINED.match(line):
            continue
        cells = _sliced(line, starts) if simple else _split(line)
        goes_on = not cells[0] if simple else not begins
        if rows and goes_on and len(rows[-1][2]) == len(cells) and not (begins and simple):
            first, _, before = rows[-1]
            joined = [" ".join(filter(None, two)) for two in zip(before, cells, strict=True)]
            rows[-1] = (first, number, joined)
        else:
            rows.append((number, number, cells))
        begins = False
    return rows


def listed_rows(lines: Sequence[str]) -> list[Row]:
    """The rows of a list whose items are lists: "* - a" begins a row, "- b" its next cell."""
    rows: list[Row] = []
    for number, line in enumerate(lines):
        found = _CELL.match(line)
        if found and found[1] == "*":
            rows.append((number, number, [found[2].strip()]))
        elif rows and line:
            first, _, cells = rows[-1]
            if found:
                cells.append(found[2].strip())
            else:
                cells[-1] = f"{cells[-1]} {line.strip().removeprefix('| ')}".strip()
            rows[-1] = (first, number, cells)
    return rows


def separated_rows(lines: Sequence[str]) -> list[Row]:
    """The rows of comma-separated values."""
    rows: list[Row] = []
    done = 0
    reader = csv.reader(lines, skipinitialspace=True)
    try:
        for cells in reader:
            if cells:
                rows.append((done, reader.line_num - 1, [" ".join(cell.split()) for cell in cells]))
            done = reader.line_num
    except csv.Error:
        return [(at, at, [line.strip()]) for at, line in enumerate(lines) if line]
    return rows


def told(rows: Sequence[Row], header: Sequence[str] = ()) -> Iterator[tuple[int, int, str]]:
    """Each row with its lines, its cells named by the first row or by `header`."""
    labels = labels_of(header) or (labels_of(rows[0][2]) if len(rows) > 1 else ())
    for first, last, cells in rows[1:] if labels and not header else rows:
        yield first, last, row_text(cells, labels)


def _sliced(line: str, starts: Sequence[int]) -> list[str]:
    spans = pairwise([*starts, max(len(line), starts[-1])])
    return [line[start:end].strip() for start, end in spans]


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
