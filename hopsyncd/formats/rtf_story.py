"""Collects the paragraphs and tables of one part of an RTF document."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile

from hopsyncd.formats.blocks import Block, Links
from hopsyncd.formats.header_rows import may_name_columns
from hopsyncd.formats.list_numbers import add_label
from hopsyncd.formats.office_text import Line, ListLeads
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import TableBuilder

_NEAR = 20  # cell edges this close, in twips, are equal
_WRITTEN_LABEL = re.compile(r"([\u2022\u2013\u25aa\u25e6]|(?:\d{1,3}|[A-Za-z])[.)])\t\s*(?=\S)")
_INNER_BULLETS = ("\u2013", "\u25e6")


@dataclass(slots=True)
class CellPlace:
    """The position of a cell, which the row defines before the cell's text."""

    edge: int = 0
    goes_on: bool = False  # covered by the cell to its left
    spans_down: bool = False  # covered by the cell above it


@dataclass(slots=True)
class _Cell:
    texts: list[str]
    links: Links
    start: int = 0
    end: int = 0
    spans_down: bool = False


@dataclass(slots=True)
class _Row:
    cells: list[tuple[str, Links]]
    places: list[CellPlace]
    is_header: bool
    line: int
    is_bold: bool = False


@dataclass(slots=True)
class Grid:
    """An open table: the rows so far, and the properties of the next row."""

    rows: list[_Row] = field(default_factory=list)
    cells: list[tuple[str, Links]] = field(default_factory=list)
    bold: list[bool | None] = field(default_factory=list)  # for each cell, None if it has no text
    places: list[CellPlace] = field(default_factory=list)
    next_place: CellPlace = field(default_factory=CellPlace)
    is_header: bool = False
    is_open: bool = False
    beside: dict[int, list[Block]] = field(default_factory=dict)

    def begin_row(self) -> None:
        """Reset the cell definitions for a new row. The collected cell texts are kept."""
        self.places, self.next_place = [], CellPlace()
        self.is_header, self.is_open = False, True

    def end_place(self, edge: int) -> None:
        """End the definition of a cell; `edge` is its right edge."""
        self.next_place.edge = edge
        self.places.append(self.next_place)
        self.next_place = CellPlace()

    def end_row(self, line: int) -> None:
        if self.cells:
            is_bold = any(self.bold) and False not in self.bold
            places = self.places[: len(self.cells)]
            self.rows.append(_Row(self.cells, places, self.is_header, line, is_bold))
        self.cells, self.bold, self.is_open = [], [], False

    def list_blocks(self, leads: tuple[str, ...]) -> Iterator[Block]:
        """Yield the rows, each followed by its notes."""
        builder = TableBuilder()
        placed = _place_cells(self.rows)
        spans = _find_row_spans(placed)
        headers = _count_bold_headers(self.rows)
        for number, (row, cells) in enumerate(zip(self.rows, placed, strict=True)):
            builder.begin_row(row.line, is_header=row.is_header or number < headers)
            for cell in cells:
                if cell.spans_down and (number, cell.start) not in spans:
                    continue
                builder.add(
                    " ".join(cell.texts),
                    rowspan=spans.get((number, cell.start), 1),
                    colspan=cell.end - cell.start,
                    links=cell.links,
                )
        beside = sorted(self.beside.items())
        for block in make_table_blocks(builder.build(), leads):
            while beside and block.kind == "table" and beside[0][0] < block.first_line:
                yield from beside.pop(0)[1]
            yield block
        for _, blocks in beside:
            yield from blocks


def _place_cells(rows: list[_Row]) -> list[list[_Cell]]:
    """Assign the cells of rows to columns. The edges of all cells define the columns."""
    edges: list[int] = []
    for edge in sorted({place.edge for row in rows for place in row.places}):
        if not edges or edge - edges[-1] > _NEAR:
            edges.append(edge)
    result = []
    for row in rows:
        cells: list[_Cell] = []
        for column, (text, links) in enumerate(row.cells):
            place = row.places[column] if column < len(row.places) else CellPlace()
            start = cells[-1].end if cells else 0
            end = max(start + 1, bisect_left(edges, place.edge - _NEAR) + 1)
            if place.goes_on and cells:
                last = cells[-1]
                last.end = end
                last.texts.append(text)
            else:
                cells.append(_Cell([text], links, start, end, place.spans_down))
        result.append(cells)
    return result


def _count_bold_headers(rows: list[_Row]) -> int:
    """Return how many bold rows at the top of a table can be the headers of the other rows."""
    bold = takewhile(lambda row: row.is_bold, rows)
    names = [[text for text, _ in row.cells if text] for row in bold]
    are_names = all(len(texts) > 1 and may_name_columns(texts) for texts in names)
    return len(names) if len(names) < len(rows) and are_names else 0


def _find_row_spans(rows: list[list[_Cell]]) -> dict[tuple[int, int], int]:
    """Return the number of rows that each cell spans, by (row, column).

    Continuation cells that have no first cell are included.
    """
    spans: dict[tuple[int, int], int] = {}
    above: dict[int, tuple[int, int]] = {}
    for number, cells in enumerate(rows):
        owners: dict[int, tuple[int, int]] = {}
        for cell in cells:
            owner = above.get(cell.start) if cell.spans_down else None
            if owner is None:
                owner = (number, cell.start)
            spans[owner] = spans.get(owner, 0) + 1
            owners[cell.start] = owner
        above = owners
    return spans


class Story:
    """Collects the blocks of a part of a document: the body, a note, a text box or a
    page margin."""

    def __init__(self, next_line: Callable[[], int]) -> None:
        self.blocks: list[Block] = []
        self.line = Line()
        self.label, self.level, self.depth = "", 0, -1
        self.is_bold: bool | None = None  # whether all text in the line is bold; None without text
        self._next_line = next_line
        self._leads = ListLeads()
        self._grids: list[Grid] = []
        self._beside: list[Block] = []

    def get_grid(self, depth: int) -> Grid:
        """Return the open table at a nesting depth. The outermost table has depth 1. Missing tables
        are created."""
        while len(self._grids) < depth:
            self._grids.append(Grid())
        return self._grids[depth - 1]

    @property
    def is_in_row(self) -> bool:
        """Whether a row is unfinished."""
        return any(grid.is_open or grid.cells for grid in self._grids)

    def put_beside(self, blocks: list[Block]) -> None:
        """Store blocks to be placed after the current paragraph or row."""
        self._beside += blocks

    def end_paragraph(self) -> None:
        """End the current line as a paragraph."""
        text, links = self._take_text()
        if text:
            self._end_table()
            if self.depth < 0 and not self.level:
                text, links = self._read_label(text, links)
            self._add_text(text, links)
        self.label, self.level, self.depth, self.is_bold = "", 0, -1, None
        if not self.is_in_row:
            self._place_beside()

    def _read_label(self, text: str, links: Links) -> tuple[str, Links]:
        """Read a paragraph that begins with a bullet or a number and a tab as an item of a list.

        Pandoc writes lists in this way.
        """
        found = _WRITTEN_LABEL.match(text)
        if not found:
            return text, links
        self.depth = int(found[1] in _INNER_BULLETS)
        label = found[1] if found[1][-1] in ".)" else ""
        moved = tuple((max(at - found.end(), 0), link) for at, link in links)
        return add_label(label, text[found.end() :], moved)

    def end_cell(self, depth: int) -> None:
        """End the current line as a cell of the table at the nesting depth `depth`, from 1."""
        text, links = self._take_text()
        grid = self.get_grid(depth)
        inner, self._grids[depth:] = self._grids[depth:], []
        for table in inner:
            if table.cells:
                table.end_row(self._next_line())
            if table.rows:
                self._beside += table.list_blocks((text.split("\n")[0],) if text else ())
        grid.cells.append((text, links))
        grid.bold.append(self.is_bold if text else None)
        self.is_bold = None
        grid.is_open = True
        self.label, self.level, self.depth = "", 0, -1

    def end_row(self, depth: int) -> None:
        """End a row of the table at the nesting depth `depth`. The row consists of the cells since
        the previous row."""
        grid = self.get_grid(depth)
        line = self._next_line()
        grid.end_row(line)
        if self._beside and depth == 1:
            grid.beside[line] = [replace(b, first_line=line, last_line=line) for b in self._beside]
            self._beside = []

    def finish(self) -> list[Block]:
        self.end_paragraph()
        self._end_table()
        self._place_beside()
        return self.blocks

    def _take_text(self) -> tuple[str, Links]:
        text, links = self.line.take_text()
        self.line = Line()
        if not text:
            return text, links
        label, self.label = self.label, ""
        return add_label(label, text, links)

    def _add_text(self, text: str, links: Links) -> None:
        line = self._next_line()
        if self.level:
            self._leads.end()
            text = " ".join(text.split())
            self.blocks.append(Block("heading", text, line, line, min(self.level, 6), links=links))
        elif self.depth >= 0:
            item = Block("list_item", text, line, line, links=links)
            self.blocks.append(self._leads.add_item(item, self.depth))
        else:
            self._leads.end(text)
            self.blocks.append(Block("paragraph", text, line, line, links=links))

    def _end_table(self) -> None:
        grids, self._grids = self._grids, []
        for grid in grids:
            if grid.cells:
                grid.end_row(self._next_line())
            if not grid.rows:
                continue
            if len(grid.rows) == 1 and len(grid.rows[0].cells) == 1:  # a frame around text
                text, links = grid.rows[0].cells[0]
                if text:
                    self._add_text(text, links)
                self.blocks += (block for blocks in grid.beside.values() for block in blocks)
                continue
            leads = tuple(filter(None, (self._leads.introduction,)))
            self._leads.end()
            self.blocks += grid.list_blocks(leads)

    def _place_beside(self) -> None:
        if self._beside:
            self._end_table()
            self.blocks += self._beside
            self._beside = []


def read_margins(blocks: list[Block], known: set[str], skipped: Counter[str]) -> Iterator[Block]:
    """Yield the text of page headers and footers that occurs nowhere else in the document."""
    for block in blocks:
        text = " ".join(block.text.split())
        if text in known:
            skipped["page headers and footers that repeat"] += 1
        else:
            known.add(text)
            yield block if block.kind == "table" else replace(block, kind="note", level=0)
