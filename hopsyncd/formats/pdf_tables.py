"""Finds tables of a PDF page by aligned columns, and builds the rows of all tables."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hopsyncd.formats.cell_values import is_number, is_year
from hopsyncd.formats.header_rows import has_only_number_columns, map_group_columns
from hopsyncd.formats.pdf_spans import Span
from hopsyncd.formats.tables import Table, TableBuilder

_TOUCH = 3.0  # points: lines that are closer count as touching
_LEADERS = re.compile("(?:[.\u00b7\u2026] ?){5,}")
_LED_TO = re.compile(r"[ivxlc]{1,8}\Z|[^\W\d_]{0,3}[-$€£¥ ]{0,2}\d[\d.,:/-]{0,9} ?[\w$€£¥%]{0,4}\Z")
_SAME_ROW = 0.45  # share of the line height
_NO_SPACE = 0.08  # share of the line height: spans that are closer form one word
_MAX_ROW_GAP = 2.6  # line heights: after a larger gap another table begins
_PROSE_WORDS = 6  # average per cell: with more words, unruled rows are prose, not a table
_NUMBERS_IN_COLUMNS = 0.3
_MAX_COLUMNS, _MAX_BLOCK_ROWS = 60, 500
_ROWS_TO_COMPARE = 12
_LEAST_NAMED = 3  # columns of a table with guessed names
_MAX_SHADED = 3  # header rows
_MAX_CELL_LINES = 8
_WRAPPED = 1.6  # line heights: the maximum distance to the next line of a cell
_WRAPPED_SHARE = 0.8  # share of the distance between rows
_HEADING_SIZE = 1.1  # times the table's font size: larger text below it is a heading
_MARKER_GAP = 2.5  # line heights: the maximum distance from a list marker to its text
_LIST_MARKER = re.compile(r"(?:[\u2022\u25aa\u25cf\u2013\u2023*-]|\(?(?:\d{1,2}|[a-z])[.)])\Z")


@dataclass(slots=True)
class PlacedTable:
    table: Table
    top: float
    left: float
    right: float


@dataclass(slots=True)
class Cell:
    column: int
    columns: int
    spans: list[Span]
    rows: int = 1


def group_rows(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield the spans at the same height, from the top down, each row from left to right."""
    row: list[Span] = []
    for span in sorted(spans, key=lambda span: -span.middle):
        if row and row[-1].middle - span.middle > _SAME_ROW * min(row[0].height, span.height):
            yield sorted(row, key=lambda span: span.left)
            row = []
        row.append(span)
    if row:
        yield sorted(row, key=lambda span: span.left)


def join_spans(spans: Iterable[Span]) -> str:
    """Join the texts of the spans into one line. A space separates two spans, unless they touch or
    the first ends with a hyphenated word."""
    text, before = "", None
    for span in spans:
        is_close = before is None or before.is_broken or _touches(before, span)
        text += span.text if is_close else f" {span.text}"
        before = span
    return text


def _touches(before: Span, span: Span) -> bool:
    """Whether there is no space between two spans of a line."""
    height = max(span.height, before.height)
    if span.is_value:
        return False
    is_beside = abs(before.middle - span.middle) < _SAME_ROW * height
    return is_beside and abs(span.left - before.right) < _NO_SPACE * height


def split_leaders(rows: list[list[Span]]) -> list[list[Span]]:
    """Separate labels from values that are joined by leader dots, as in price lists."""
    parted = [[part for span in row for part in _split_at_dots(span)] for row in rows]
    known = {id(span) for row in rows for span in row}
    values = [s for row in parted for s in row if s.is_value and id(s) not in known]
    if len(values) < 2:
        return rows
    edge = max(span.right for span in values)
    for value in values:  # align the values, because the dots end at different positions
        value.left, value.right = edge - 1, edge
    return parted


def _has_value(row: Sequence[Span]) -> bool:
    return any(span.is_value for span in row)


def _split_at_dots(span: Span) -> tuple[Span, ...]:
    """Split a span into the label before the leader dots and the value after the dots. A span
    without leader dots stays whole."""
    found = _LEADERS.search(span.text)
    if not found:
        return (span,)
    label, value = span.text[: found.start()].rstrip(), span.text[found.end() :].strip()
    if not any(map(str.isalpha, label)) or not _LED_TO.match(value):
        return (span,)
    width = (span.right - span.left) / len(span.text)
    return (
        replace(span, text=label, right=span.left + width * len(label)),
        replace(span, text=value, is_value=True),
    )


def cut_span(span: Span, offset: int, end: float, begin: float) -> tuple[Span, Span]:
    """Split a span at a space. `offset` is the space's offset in the text; `end` and `begin` are
    the x coordinates at which the left part ends and the right part begins."""
    gaps = [
        (gap_offset - offset - 1, x, y) for gap_offset, x, y in span.gaps if gap_offset > offset
    ]
    return (
        replace(span, text=span.text[:offset], right=end, gaps=[]),
        replace(span, text=span.text[offset + 1 :], left=begin, gaps=gaps),
    )


def find_aligned_tables(
    rows: Sequence[list[Span]], page: int
) -> Iterator[list[Span] | PlacedTable]:
    """Yield the rows of a region in order. Rows that form a table are yielded as one table."""
    rows, start = [*map(_join_marker, rows)], 0
    while start < len(rows):
        end = _end_of_block(rows, start)
        block = rows[start:end]
        table = _align_rows(block, page) if len(block) > 1 or _has_value(block[0]) else None
        if table:
            yield table
        elif len(block) > 1 and (columns := _group_by_column(block)):
            for column in columns:
                yield from ([span] for span in column)
        else:
            yield from block
        start = end


def _join_marker(row: list[Span]) -> list[Span]:
    """Join a list marker and the text close behind it, if the row has nothing else."""
    if len(row) != 2 or not _LIST_MARKER.match(row[0].text):
        return row
    marker, text = row
    if text.left - marker.right > _MARKER_GAP * marker.height or text.is_value:
        return row
    shift = len(marker.text) + 1
    gaps = [(shift - 1, marker.right, text.left)]
    gaps += [(offset + shift, end, begin) for offset, end, begin in text.gaps]
    return [replace(text, text=f"{marker.text} {text.text}", left=marker.left, gaps=gaps)]


def _end_of_block(rows: Sequence[list[Span]], start: int) -> int:
    """Return the end index (exclusive) of the rows from `start` on that may form a table."""
    end = start + 1
    if not 1 < len(rows[start]) <= _MAX_COLUMNS:
        return end
    while end < min(len(rows), start + _MAX_BLOCK_ROWS):
        above, row = rows[end - 1], rows[end]
        height = max(span.height for span in row)
        if above[0].middle - row[0].middle > _MAX_ROW_GAP * height or len(row) > _MAX_COLUMNS:
            break
        if len(row) < 2 and not _continues(
            row[0], rows[max(start, end - _ROWS_TO_COMPARE) : end], _find_rows_below(rows, end)
        ):
            break
        end += 1
    while end > start + 1 and len(rows[end - 1]) < 2 and not _is_wrapped(rows[start:end]):
        end -= 1
    return end


def _is_wrapped(rows: Sequence[list[Span]]) -> bool:
    """Whether the last row, which is a single span, continues a cell of the row above, outside the
    first column.

    The span must be closer to the row above than rows with several spans are to one another.
    """
    *above, (span, *_) = rows
    full = [row for row in above if len(row) > 1]
    pitch = min((upper[0].middle - lower[0].middle for upper, lower in pairwise(full)), default=0.0)
    is_near = above[-1][-1].middle - span.middle < _WRAPPED_SHARE * pitch
    return is_near and any(abs(cell.left - span.left) < _TOUCH for cell in above[-1][1:])


def _find_rows_below(rows: Sequence[list[Span]], index: int) -> Sequence[list[Span]]:
    """Find the row below the cell that begins in row `index` and may have several lines, or []."""
    end = index + 1
    while end < min(len(rows), index + _MAX_CELL_LINES) and len(rows[end]) == 1:
        above, line = rows[end - 1][0], rows[end][0]
        if (
            abs(above.left - line.left) > _TOUCH
            or above.middle - line.middle > _WRAPPED * above.height
        ):
            break
        end += 1
    return rows[end : end + 1]


def _continues(span: Span, above: Sequence[list[Span]], below: Sequence[list[Span]]) -> bool:
    """Whether a span that is alone in its row belongs to the table between the rows `above` and
    `below`: as a cell, the next line of a cell, or a note below a cell."""
    if span.size > _HEADING_SIZE * max(cell.size for cell in above[-1]):
        return False
    unfinished = above[-1][-1]
    if len(above[0]) > 1 and unfinished.text.endswith(",") and unfinished.left > above[0][0].right:
        return abs(unfinished.left - span.left) < _TOUCH
    if not below or len(below[0]) < 2:
        return _is_wrapped([*above, [span]])
    columns = _find_columns([*above, *below])
    if sum(_overlap(span, column) for column in columns) == 1:
        return True
    return _find_noted_column(span, columns) > 0 and len(below[0]) >= _LEAST_NAMED


def _find_noted_column(span: Span, columns: Sequence[tuple[float, float]]) -> int:
    """Return the column, other than the first, whose left edge is the left edge of a span, or 0 if
    there is no such column."""
    for index, column in enumerate(columns[1:], 1):
        if abs(span.left - column[0]) < _TOUCH:
            return index
    return 0


def _find_columns(rows: Sequence[list[Span]]) -> list[tuple[float, float]]:
    """Return the left and right edges of the columns, from the row with the most spans. A span that
    overlaps one column widens the column; a span that overlaps no column adds a column."""
    widest = max(rows, key=len)
    columns = [(span.left, span.right) for span in widest]
    for row in rows:
        for span in row:
            touched = [index for index, column in enumerate(columns) if _overlap(span, column)]
            if not touched:
                columns = sorted([*columns, (span.left, span.right)])
            elif len(touched) == 1:
                left, right = columns[touched[0]]
                columns[touched[0]] = (min(left, span.left), max(right, span.right))
    return columns


def _split_at_columns(span: Span, columns: Sequence[tuple[float, float]]) -> tuple[Span, ...]:
    """Split a span that contains the numbers of several narrow columns."""
    touched = [index for index, column in enumerate(columns) if _overlap(span, column)]
    if len(touched) < 2 or not all(map(is_number, span.text.split(" "))):
        return (span,)
    for offset, end, begin in span.gaps:
        before, after = cut_span(span, offset, end, begin)
        if _find_column(before, columns) != _find_column(after, columns):
            return (before, *_split_at_columns(after, columns))
    return (span,)


def _find_column(span: Span, columns: Sequence[tuple[float, float]]) -> int:
    """Return the column that overlaps most with a span."""
    shared = [min(span.right, right) - max(span.left, left) for left, right in columns]
    return max(range(len(columns)), key=shared.__getitem__)


def _overlap(span: Span, column: tuple[float, float]) -> bool:
    return span.left < column[1] and span.right > column[0]


def _align_rows(rows: Sequence[list[Span]], page: int) -> PlacedTable | None:
    columns = _find_columns(rows)
    rows = [[part for span in row for part in _split_at_columns(span, columns)] for row in rows]
    full = [row for row in rows if len(row) > 1]
    spans = [span for row in rows for span in row]
    if len(columns) < 2 or len(full) * 2 < len(rows):
        return None
    if len(full) < 2 and not _has_value(rows[0]):
        return None
    if sum(len(span.text.split()) for span in spans) > _PROSE_WORDS * len(spans):
        return None
    if sum(map(len, full)) < 0.4 * len(columns) * len(full) or _group_by_column(rows):
        return None
    placed: list[list[Cell]] = []
    pitch = min((upper[0].middle - lower[0].middle for upper, lower in pairwise(full)), default=0.0)
    for row in rows:
        if placed and len(row) == 1:
            above = _find_noted_cell(row[0], placed[-1], columns)
            above = above or _find_unfinished_cell(row[0], placed[-1], columns)
            if above := above or _find_wrapped_cell(row[0], placed[-1], columns, pitch):
                above.spans.append(row[0])
                continue
        cells: list[Cell] = []
        for span in row:
            touched = [index for index, column in enumerate(columns) if _overlap(span, column)]
            first = touched[0] if touched else 0
            if cells and first < cells[-1].column + cells[-1].columns:
                cells[-1].spans.append(span)
            else:
                cells.append(Cell(first, len(touched) or 1, [span]))
        placed.append(cells)
    table = build_table(placed, len(columns), page)
    return PlacedTable(table, rows[0][0].middle, columns[0][0], columns[-1][1])


def _find_noted_cell(
    span: Span, row: Sequence[Cell], columns: Sequence[tuple[float, float]]
) -> Cell | None:
    """Return the cell of `row` above `span`, a note wider than the cell's column, or None."""
    if sum(_overlap(span, column) for column in columns) < 2:
        return None
    noted = _find_noted_column(span, columns)
    return next((cell for cell in row if cell.column == noted and noted), None)


def _find_unfinished_cell(
    span: Span, row: Sequence[Cell], columns: Sequence[tuple[float, float]]
) -> Cell | None:
    """Return the cell of `row` that ends with a comma and continues in `span` below it, or None.
    Cells in the first column do not count."""
    touched = [index for index, column in enumerate(columns) if _overlap(span, column)]
    for cell in row:
        if [cell.column] == touched and cell.column and cell.spans[-1].text.endswith(","):
            return cell
    return None


def _find_wrapped_cell(
    span: Span, row: Sequence[Cell], columns: Sequence[tuple[float, float]], pitch: float
) -> Cell | None:
    """Return the cell of `row` that continues in `span` below it, or None. The distance must be
    less than `pitch`, the distance between rows. Cells in the first column do not count."""
    touched = [index for index, column in enumerate(columns) if _overlap(span, column)]
    for cell in row:
        last = cell.spans[-1]
        gap = last.middle - span.middle
        if [cell.column] == touched and cell.column and 0 < gap < _WRAPPED_SHARE * pitch:
            return cell if abs(last.left - span.left) < _TOUCH else None
    return None


def _group_by_column(rows: Sequence[list[Span]]) -> list[list[Span]] | None:
    """Group spans by column if the file has the columns one after the other. Returns None for a
    table."""
    columns = _find_columns(rows)
    spans = sorted((span for row in rows for span in row), key=lambda span: span.order)
    if any(span.is_value for span in spans):
        return None
    numbers = sum(any(map(str.isdigit, span.text)) and len(span.text) < 12 for span in spans)
    if not 1 < len(columns) < 4 or numbers > _NUMBERS_IN_COLUMNS * len(spans):
        return None
    places = [
        next((index for index, column in enumerate(columns) if _overlap(span, column)), 0)
        for span in spans
    ]
    if places != sorted(places) or len(rows) < 2:
        return None
    return [
        [span for span, place in zip(spans, places, strict=True) if place == index]
        for index in range(len(columns))
    ]


def _names_all(row: Sequence[Cell], width: int) -> bool:
    """Whether each column, except perhaps the first, has a cell of its own."""
    alone = {cell.column for cell in row if cell.columns == 1}
    return len(alone) == len(row) and alone >= set(range(1, width))


def _is_turned(row: Sequence[Cell]) -> bool:
    """Whether all text outside the first cell is rotated, as above narrow columns of marks."""
    spans = [span for cell in row[1:] for span in cell.spans if len(span.text) > 1]
    if any(span.is_value for span in spans):
        return False
    return bool(spans) and all(span.height > span.right - span.left for span in spans)


def _is_above_numbers(rows: Sequence[Sequence[Cell]], width: int) -> bool:
    """Whether a first row of names is above a column of numbers.

    A table of two columns never counts, because it may consist of labels and values.
    """
    names = [join_spans(cell.spans) for cell in rows[0]]
    if width < _LEAST_NAMED or not _names_all(rows[0], width) or len(rows) < 2:
        return False
    if any((is_number(name) and not is_year(name)) or name.endswith(":") for name in names):
        return False
    below: dict[int, list[str]] = {}
    for cell in (cell for row in rows[1:] for cell in row):
        below.setdefault(cell.column, []).append(join_spans(cell.spans))
    return any(
        column and all(map(is_number, texts)) and not all(map(is_year, texts))
        for column, texts in below.items()
    )


def _count_shaded_headers(rows: Sequence[Sequence[Cell]]) -> int:
    """Count the rows at the top that can name columns and have a background of their own.

    The same background may occur in a few rows below, such as totals. If at least a third of the
    rows below have that background, as in striped tables, the result is 0.
    """
    shades = [{span.shade for cell in row for span in cell.spans} for row in rows]
    count = 0
    while count < len(rows) and shades[count] == shades[0] and 0 not in shades[0]:
        count += 1
    below = [shade for shade in shades[count:] if shade & shades[0]]
    if not 0 < count <= _MAX_SHADED or len(below) * 3 >= len(rows) - count:
        return 0
    texts = [join_spans(cell.spans) for row in rows[:count] for cell in row]
    is_name = len(rows[count - 1]) > 1 and not any(text.endswith(":") for text in texts)
    return count if is_name and not all(map(is_number, texts)) else 0


def _count_grouped_headers(rows: Sequence[Sequence[Cell]], width: int) -> int:
    """Return 2 if the first row has group names and the second row has column names, or else 0.

    A number in parentheses may be below a name, as in "mAP" above "(0.75)". Below both rows, the
    columns of each group contain only numbers.
    """
    groups = [cell for cell in rows[0] if cell.columns > 1]
    if len(rows) < _LEAST_NAMED or width < _LEAST_NAMED or not groups:
        return 0
    spanned = {
        column for cell in groups for column in range(cell.column, cell.column + cell.columns)
    }
    named = {cell.column: join_spans(cell.spans) for cell in rows[1]}
    above = {column for c in rows[0] for column in range(c.column, c.column + c.columns)}
    if not spanned <= named.keys() or not above | named.keys() >= set(range(1, width)):
        return 0
    if any(is_number(join_spans(cell.spans)) for cell in rows[0]):
        return 0
    numbers = {column: text for column, text in named.items() if is_number(text)}
    if spanned & numbers.keys() or not all(text[:1] == "(" for text in numbers.values()):
        return 0
    below = [cell for row in rows[2:] for cell in row if cell.column in spanned]
    full = spanned <= {cell.column for cell in below}
    return 2 if full and all(is_number(join_spans(cell.spans)) for cell in below) else 0


def _are_below_groups(rows: Sequence[Sequence[Cell]], width: int) -> bool:
    texts = [[""] * width for _ in rows[:5]]
    for row, cells in zip(texts, rows, strict=False):
        for cell in cells:
            row[cell.column] = join_spans(cell.spans)
    return bool(map_group_columns(texts)) and has_only_number_columns(texts[1:])


def build_table(
    rows: Sequence[list[Cell]], width: int, page: int, *, is_ruled: bool = False
) -> Table:
    """Build a table of `width` columns from rows of cells on page `page`. Header rows are detected
    by bold or rotated text, background or content. `is_ruled` says whether lines in the PDF mark
    the cells."""
    is_bold = [
        all(span.is_bold and not span.is_value for cell in row for span in cell.spans)
        for row in rows
    ]
    headers = 0
    covered: dict[int, int] = {}  # by column: the rows that a cell from above still covers
    while headers < len(rows) and is_bold[headers]:
        above = set(covered)
        covered = {column: left - 1 for column, left in covered.items() if left > 1}
        for cell in rows[headers] if is_ruled else ():
            places = range(cell.column, cell.column + cell.columns)
            covered |= dict.fromkeys(places, cell.rows - 1) if cell.rows > 1 else {}
            above |= set(places)
        if not (_names_all(rows[headers], width) or above >= set(range(1, width))):
            break
        headers += 1
    spanning = any(cell.columns > 1 or cell.rows > 1 for row in rows[:headers] for cell in row)
    most = len(rows) - 1 if spanning else len(rows) // 2
    if headers > most or any(is_bold[headers : headers + 1]):
        headers = 0
    headers = headers or _count_shaded_headers(rows)
    headers = headers or int(_is_above_numbers(rows, width) or _is_turned(rows[0]))
    headers = headers or _count_grouped_headers(rows, width) or 2 * _are_below_groups(rows, width)
    builder = TableBuilder()
    covered_rows: dict[int, int] = {}
    for index, row in enumerate(rows):
        builder.begin_row(page, is_header=index < headers)
        column = 0
        ends = [*(cell.column for cell in row[1:]), width]
        for cell, end in zip(row, ends, strict=True):
            while column < cell.column:
                column = _skip(builder, column, covered_rows)
            columns = max(1, min(cell.columns, end - column))
            builder.add(join_spans(cell.spans), colspan=columns, rowspan=cell.rows)
            for below in range(column, column + columns) if cell.rows > 1 else ():
                covered_rows[below] = cell.rows
            column += columns
        while column < width:
            column = _skip(builder, column, covered_rows)
        covered_rows = {column: left - 1 for column, left in covered_rows.items() if left > 1}
    return builder.build()


def _skip(builder: TableBuilder, column: int, taken: Mapping[int, int]) -> int:
    """Leave a position empty, unless a cell from an earlier row covers it. Returns the next
    column."""
    if column not in taken:
        builder.add("")
    return column + 1
