"""Workbooks: a heading for each sheet, a block for each row."""

import io
import warnings
from collections.abc import Iterable, Iterator
from datetime import datetime, time
from itertools import groupby

from hopsyncd.formats import library
from hopsyncd.formats.archive import opened
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.fields import cell_texts, labels_of
from hopsyncd.formats.units import cell_number

_MAX_ROW_CHARACTERS = 1_000  # a longer row is split into its cells

Row = tuple[int, list[str]]


def xlsx_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a workbook: a heading for each sheet, a block for each row; lines are cell numbers.

    Formulas give the values that the file was saved with.
    """
    openpyxl = library("openpyxl")
    opened(data)  # refuses one that unpacks to too much
    blocks: list[Block] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # files declare wrong ones
            blocks.append(Block("heading", sheet.title, 1, 1, level=1))
            for table in _tables(sheet.iter_rows(values_only=True)):
                blocks += _table(table)
    return tuple(blocks)


def _tables(rows: Iterable[tuple[object, ...]]) -> Iterator[list[Row]]:
    """Yield the runs of rows between empty ones."""
    texts = ((number, [_cell_text(value) for value in row]) for number, row in enumerate(rows, 1))
    for filled, run in groupby(texts, key=lambda row: any(row[1])):
        if filled:
            yield list(run)


def _table(rows: list[Row]) -> Iterator[Block]:
    first = min(next(n for n, cell in enumerate(cells, 1) if cell) for _, cells in rows)
    last = max(n for _, cells in rows for n, cell in enumerate(cells, 1) if cell)
    labels = labels_of(rows[0][1][first - 1 : last]) if len(rows) > 1 else ()
    for number, cells in rows[1:] if labels else rows:
        texts = cell_texts(cells[first - 1 : last], labels)
        text = " | ".join(filter(None, texts))
        if len(text) <= _MAX_ROW_CHARACTERS:
            yield Block("table", text, cell_number(number, first), cell_number(number, last))
            continue
        for column, one in enumerate(texts, first):
            place = cell_number(number, column)
            yield Block("table", one, place, place)


def _cell_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return "" if value is None else " ".join(str(value).split())
