"""Reads Excel and OpenDocument workbooks: a heading for each sheet, a block for each row.

Line numbers are numbers of cells (see media_types.py). Numbers are formatted as in the sheet.
"""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats import import_library
from hopsyncd.formats.archive import (
    get_attribute,
    get_local_name,
    open_archive,
    parse_member,
    read_targets,
)
from hopsyncd.formats.blocks import Block, make_skipped_block
from hopsyncd.formats.charts import read_chart
from hopsyncd.formats.media_types import number_cell
from hopsyncd.formats.numbers import show_plainly, show_value
from hopsyncd.formats.odt import count_of, list_table_rows
from hopsyncd.formats.sheets import SheetCell, SheetRow, read_sheet
from hopsyncd.formats.xls_styles import Style, is_encrypted, read_styles

_MAX_REPEATED = 1000  # copies of a repeated row or cell; cells of a merged area
_MAX_COLUMNS = 16_384  # the limit of Excel and LibreOffice
_RANGE = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})\Z")
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]+\d+:[A-Z]+\d+)"')
_FILTER = re.compile(rb'<(?:\w+:)?autoFilter\s[^>]*?ref="\$?([A-Z]+)\$?(\d+):\$?([A-Z]+)\$?\d+"')
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_UNREAD_PARTS = "CF COL CUSTOM_VIEWS EXT HYPERLINK MERGE SCENARIOS VALIDATION".split()
_FORMULA = rb"<f(?:\s[^>]*)?(?:/>|>[^<]*</f>)"
_DEFAULT_STYLE = Style()
_WITHOUT_VALUE = re.compile(rb"<c\s[^>]*>\s*" + _FORMULA + rb"\s*(?:<v\s*/>|<v></v>)?\s*</c>")


@dataclass(frozen=True, slots=True)
class _Place:
    """The layout of a sheet: its merged and covered cells, and the columns that each header row
    names.

    Rows and columns are counted from 1.
    """

    spans: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    covered: frozenset[tuple[int, int]] = frozenset()
    headers: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def is_header(self, row: int, column: int) -> bool:
        """Whether the sheet marks a cell as the name of a column."""
        first, last = self.headers.get(row, (1, 0))
        return first <= column <= last


def read_xlsx(data: bytes) -> tuple[Block, ...]:
    """Read an Excel workbook, with comments, text boxes and the text of charts.

    Formulas show their saved values; formulas without a value are counted. If openpyxl rejects the
    workbook or finds no sheet in it, `read_xls` reads the workbook: programs other than Excel
    write parts that openpyxl does not support.
    """
    archive = open_archive(data)  # refuses an archive that is too large when unpacked
    try:
        blocks = _read_formatted(data, archive)
    except Exception as error:
        if isinstance(error, ReaderUnavailable | MemoryError):
            raise
        with suppress(Exception):
            return read_xls(data)
        raise
    return blocks or read_xls(data)


def _read_formatted(data: bytes, archive: ZipFile) -> tuple[Block, ...]:
    """Read a workbook with its number formats, comments, drawings and marked headers."""
    openpyxl = import_library("openpyxl")
    import_library("openpyxl.worksheet._read_only").WorkSheetParser = _make_lenient_parser()
    blocks: list[Block] = []
    without_value = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        bold = _find_bold_styles(book)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # the dimensions that files declare can be wrong
            member = sheet._worksheet_path
            source = archive.read(member)
            blocks.append(Block("heading", sheet.title, 1, 1, level=1))
            merged = [found.decode() for found in _MERGED.findall(source)]
            place = replace(
                _parse_merged_ranges(merged), headers=_find_header_ranges(archive, member, source)
            )
            rows = _read_excel_rows(sheet.iter_rows(), place, bold)
            blocks += _read_sheet(rows)
            without_value += len(_WITHOUT_VALUE.findall(source))
            blocks += _read_attached(archive, member)
    if without_value:
        blocks.append(make_skipped_block({"formulas without a saved value": without_value}))
    return tuple(blocks)


@cache
def _make_lenient_parser() -> Any:
    """Make a subclass of openpyxl's sheet parser that reads only rows, and reads a cell with an
    invalid value as text.

    Otherwise a date such as 2020-02-30, or merged cells such as E:E, make openpyxl reject the whole
    workbook.
    """
    reader: Any = import_library("openpyxl.worksheet._reader")
    parser: Any = reader.WorkSheetParser
    unread = {getattr(reader, f"{name}_TAG") for name in _UNREAD_PARTS}

    class LenientParser(parser):  # type: ignore[misc]
        def parse(self) -> Iterator[Any]:
            for _, element in reader.iterparse(self.source):
                if element.tag == reader.ROW_TAG:
                    row = self.parse_row(element)
                    element.clear()
                    yield row
                elif element.tag in unread:
                    element.clear()

        def parse_cell(self, element: Element) -> dict[str, Any]:
            cell: dict[str, Any] = {"data_type": "e"}
            with suppress(ValueError, OverflowError):
                cell = super().parse_cell(element)
            if cell["data_type"] == "e" and element.get("t") != "e":
                element.set("t", "str")
                cell = super().parse_cell(element)
            return cell

    return LenientParser


def read_xls(data: bytes) -> tuple[Block, ...]:
    """Read a workbook with calamine: .xls, and .xlsx files that openpyxl cannot read."""
    calamine = import_library("python_calamine")
    styles = read_styles(data)
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        sheets = [book.get_sheet_by_name(name) for name in book.sheet_names]
        blocks: list[Block] = []
        for sheet in sheets:
            blocks.append(Block("heading", sheet.name, 1, 1, level=1))
            ranges = [
                (top + 1, left + 1, bottom + 1, right + 1)
                for (top, left), (bottom, right) in sheet.merged_cell_ranges or ()
            ]
            place = _span_cells(ranges)
            first_row, first_column = sheet.start or (0, 0)
            values = sheet.to_python(skip_empty_area=True)
            start = first_row + 1, first_column + 1
            blocks += _read_sheet(
                _read_plain_rows(values, *start, place, styles.get(sheet.name, {}))
            )
        return tuple(blocks)
    except BaseException as error:
        if is_encrypted(data):
            raise DocumentUnreadable(
                "the document",
                "the file is protected by a password",
                "Save a copy without the password.",
            ) from error
        # The library's panics do not derive from Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise DocumentUnreadable(
            "the document",
            "not a valid workbook",
            "Save the workbook again as .xlsx, or add it to `ignore`",
        ) from error


def read_ods(data: bytes) -> tuple[Block, ...]:
    """Read an OpenDocument spreadsheet (.ods). Its cells contain the text as displayed."""
    body = parse_member(open_archive(data), "content.xml").find("{*}body/{*}spreadsheet")
    blocks: list[Block] = []
    for table in () if body is None else body.iterfind("{*}table"):
        blocks.append(Block("heading", get_attribute(table, "name"), 1, 1, level=1))
        blocks += _read_sheet(_read_ods_rows(table))
    return tuple(blocks)


def _read_sheet(rows: Iterable[SheetRow]) -> Iterator[Block]:
    run: list[SheetRow] = []
    for row in rows:
        if any(cell is None or cell.text for cell in row.cells):
            run.append(row)
        elif run:
            yield from _read_tables(run)
            run = []
    if run:
        yield from _read_tables(run)


def _read_tables(rows: Sequence[SheetRow]) -> Iterator[Block]:
    """Yield the blocks of the tables in consecutive non-empty rows.

    Two tables can touch at a corner if they share no column. Tables that are side by side have an
    empty column between them and begin or end in different rows.
    """
    pending = [(rows, _find_filled(rows))]
    while pending:
        part, filled = pending.pop()
        if number := _find_corner(filled, len(part)):
            below = {
                column: (first - number, last - number)
                for column, (first, last) in filled.items()
                if first >= number
            }
            above = {column: reach for column, reach in filled.items() if reach[0] < number}
            pending += (part[number:], below), (part[:number], above)
            continue
        tables = _group_columns_by_table(filled)
        for columns in tables:
            cut = [_cut(row, columns) for row in part]
            yield from _read_sheet(cut) if len(tables) > 1 else read_sheet(cut)


def _find_filled(rows: Sequence[SheetRow]) -> dict[int, tuple[int, int]]:
    """Return the first and the last row with text of each column that has text."""
    filled: dict[int, tuple[int, int]] = {}
    for number, row in enumerate(rows):
        for column, cell in enumerate(row.cells):
            if cell is None or cell.text:
                filled[column] = (filled.get(column, (number, 0))[0], number)
    return filled


def _group_columns_by_table(filled: Mapping[int, tuple[int, int]]) -> list[list[int]]:
    """Group the columns by table. `filled` contains the first and last row with text of each
    column."""
    groups: list[list[int]] = []
    for column in sorted(filled):
        if groups and column == groups[-1][-1] + 1:
            groups[-1].append(column)
        else:
            groups.append([column])
    parts: list[tuple[tuple[int, int], list[int]]] = []
    for group in groups:
        reach = (
            min(filled[column][0] for column in group),
            max(filled[column][1] for column in group),
        )
        is_table = len(group) > 1 and reach[0] < reach[1]
        if parts and (parts[-1][0] == reach or len(parts[-1][1]) == 1 or not is_table):
            before, columns = parts[-1]
            parts[-1] = ((min(before[0], reach[0]), max(before[1], reach[1])), columns + group)
        else:
            parts.append((reach, group))
    return [columns for _, columns in parts]


def _find_corner(filled: Mapping[int, tuple[int, int]], rows: int) -> int:
    """Return the number of rows above the lower of two tables that share no column, or 0 if the
    rows do not consist of two such tables.

    `filled` contains the first and last row with text of each column. `rows` is the number of rows.
    """
    columns = sorted(filled, key=lambda index: filled[index])
    left_above, right_above = [*accumulate(columns, min)], [*accumulate(columns, max)]
    left_below = [*accumulate(reversed(columns), min)][::-1]
    right_below = [*accumulate(reversed(columns), max)][::-1]
    ends = [*accumulate((filled[index][1] for index in columns), max)]
    for above, below in pairwise(range(len(columns))):
        first = filled[columns[below]][0]
        is_apart = right_above[above] < left_below[below] or left_above[above] > right_below[below]
        if is_apart and 1 < first < rows - 1 and ends[above] < first:
            return first
    return 0


def _cut(row: SheetRow, columns: Sequence[int]) -> SheetRow:
    """Return the row with only the cells in these columns."""
    cells = [row.cells[column] for column in columns if column < len(row.cells)]
    return SheetRow(row.first_line + columns[0], row.first_line + columns[-1], cells)


def _find_bold_styles(book: Any) -> frozenset[int]:
    styles, fonts = book._cell_styles, book._fonts
    return frozenset(index for index, style in enumerate(styles) if fonts[style.fontId].b)


def _read_excel_rows(
    rows: Iterable[Sequence[Any]], place: _Place, bold: frozenset[int]
) -> Iterator[SheetRow]:
    """Yield the rows of a sheet. Consecutive rows without cells count as one row, because there may
    be a million of them."""
    is_gap = False
    for number, row in enumerate(rows, 1):
        if not row:
            if not is_gap:
                yield SheetRow(0, 0, ())
            is_gap = True
            continue
        is_gap = False
        cells = [
            None
            if (number, column) in place.covered
            else SheetCell(
                _format_cell(cell),
                *place.spans.get((number, column), (1, 1)),
                is_header=place.is_header(number, column),
                is_bold=getattr(cell, "_style_id", 0) in bold,
            )
            for column, cell in enumerate(row, 1)
        ]
        yield _make_row(number, 1, cells)


def _make_row(number: int, column: int, cells: Sequence[SheetCell | None]) -> SheetRow:
    begin = number_cell(number, column)
    return SheetRow(begin, begin + max(len(cells) - 1, 0), tuple(cells))


def _format_cell(cell: Any) -> str:
    value = cell.value
    if value is None or isinstance(value, str):
        return _unescape(value or "")
    return show_value(value, cell.number_format or "General")


def _unescape(text: str) -> str:
    """Decode Excel's escapes for characters that XML cannot contain, such as `_x000D_`. NUL is left
    out, because no document may contain it."""
    if "_x" not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\0", "")


def _find_header_ranges(archive: ZipFile, member: str, source: bytes) -> dict[int, tuple[int, int]]:
    """Return the first and last column of each filter and table of the sheet `member`, by header
    row. `source` is the XML of the sheet."""
    sources = [source] if b"autoFilter" in source else []
    for kind, name in read_targets(archive, member).values():
        if kind == "table" and name in archive.NameToInfo:
            table = archive.read(name)
            sources += [] if b'headerRowCount="0"' in table else [table]
    found = (match for source in sources for match in _FILTER.finditer(source))
    return {
        int(row): (_number_column(first.decode()), _number_column(last.decode()))
        for first, row, last in (match.groups() for match in found)
    }


def _parse_merged_ranges(ranges: Iterable[str]) -> _Place:
    found = (_RANGE.match(text) for text in ranges)
    return _span_cells(
        (
            int(found_range[2]),
            _number_column(found_range[1]),
            int(found_range[4]),
            _number_column(found_range[3]),
        )
        for found_range in found
        if found_range
    )


def _number_column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _span_cells(ranges: Iterable[tuple[int, int, int, int]]) -> _Place:
    """Return the spans of merged cells. Merged areas of more than 1,000 cells are backgrounds and
    are left out."""
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    covered: set[tuple[int, int]] = set()
    for top, left, bottom, right in ranges:
        rows, columns = bottom - top + 1, right - left + 1
        if rows * columns > _MAX_REPEATED or (top, left) in covered:
            continue
        spans[top, left] = (rows, columns)
        covered |= {
            (row, column)
            for row in range(top, bottom + 1)
            for column in range(left, right + 1)
            if (row, column) != (top, left)
        }
    return _Place(spans, frozenset(covered))


def _read_plain_rows(
    values: Iterable[Sequence[object]],
    first_row: int,
    first_column: int,
    place: _Place,
    styles: Mapping[tuple[int, int], Style],
) -> Iterator[SheetRow]:
    """Yield the rows of a sheet without the empty cells at their ends. Consecutive empty rows count
    as one row, because a sheet may have millions of empty cells."""
    is_gap = False
    for number, row in enumerate(values, first_row):
        size = next((size for size in range(len(row), 0, -1) if row[size - 1] != ""), 0)
        if not (size or is_gap):
            yield SheetRow(0, 0, ())
        is_gap = not size
        if is_gap:
            continue
        cells: list[SheetCell | None] = []
        for column, value in enumerate(row[:size], first_column):
            if (number, column) in place.covered:
                cells.append(None)
                continue
            style = styles.get((number, column), _DEFAULT_STYLE)
            is_formatted = isinstance(value, float) or style.number_format != "General"
            is_plain = isinstance(value, str | None) or not is_formatted
            text = show_plainly(value) if is_plain else show_value(value, style.number_format)
            span = place.spans.get((number, column), (1, 1))
            cells.append(SheetCell(text, *span, is_bold=style.is_bold))
        yield _make_row(number, first_column, cells)


def _read_ods_rows(table: Element) -> Iterator[SheetRow]:
    number = 0
    for row, is_header in list_table_rows(table, False):
        cells = _read_ods_cells(row, is_header)
        repeated = count_of(row, "rows-repeated")
        for _ in range(min(repeated, _MAX_REPEATED) if cells else 1):
            number += 1
            yield _make_row(number, 1, cells)
        number += 0 if cells else repeated - 1


def _read_ods_cells(row: Element, is_header: bool) -> list[SheetCell | None]:
    """Return the cells of a row up to the last cell with text."""
    cells: list[SheetCell | None] = []
    gaps: list[tuple[SheetCell | None, int]] = []  # cells without text, and how often they repeat
    for cell in row:
        repeated = count_of(cell, "columns-repeated")
        if get_local_name(cell) != "table-cell":
            gaps.append((None, repeated))
            continue
        text = "\n".join("".join(part.itertext()) for part in cell.iterfind("{*}p"))
        rowspan, colspan = count_of(cell, "rows-spanned"), count_of(cell, "columns-spanned")
        sheet_cell = SheetCell(" ".join(text.split()), rowspan, colspan, is_header)
        if not sheet_cell.text:
            gaps.append((sheet_cell, repeated))
            continue
        for gap, count in gaps:
            cells += [gap] * min(count, _MAX_COLUMNS - len(cells))
        copies = min(repeated, _MAX_REPEATED, max(_MAX_COLUMNS - len(cells), 1))
        cells += [sheet_cell] * copies
        gaps = [(SheetCell("", is_header=is_header), repeated - copies)]
    return cells


def _read_attached(archive: ZipFile, member: str) -> Iterator[Block]:
    """Read the comments of a sheet, and the text of its drawings and charts."""
    for kind, name in read_targets(archive, member).values():
        if name not in archive.namelist():
            continue
        if kind in ("comments", "threadedComment"):
            for comment in parse_member(archive, name).iterfind(".//{*}comment"):
                text = " ".join("".join(comment.itertext()).split())
                place = _parse_merged_ranges(
                    [f"{comment.get('ref', 'A1')}:{comment.get('ref', 'A1')}"]
                )
                row, column = next(iter(place.spans), (1, 1))
                line = number_cell(row, column)
                yield Block("note", text, line, line)
        elif kind == "drawing":
            yield from _read_drawing(archive, name)


def _read_drawing(archive: ZipFile, name: str) -> Iterator[Block]:
    drawing = parse_member(archive, name)
    for paragraph in drawing.iterfind(".//{*}txBody/{*}p"):
        text = " ".join("".join(part.text or "" for part in paragraph.iterfind(".//{*}t")).split())
        if text:
            yield Block("paragraph", text, 1, 1)
    for kind, chart in read_targets(archive, name).values():
        if kind == "chart" and chart in archive.namelist():
            yield from read_chart(parse_member(archive, chart), 1)
