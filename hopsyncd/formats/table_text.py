"""Converts tables to text, with a block for each row.

Each cell follows the full path of its column headers. A cell that spans several rows is repeated in
each of these rows.

    Season: High | Price > Adult: 310 | Price > Child: 150
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from hopsyncd.formats.blocks import Block, Links, WrittenLink
from hopsyncd.formats.cell_values import is_number
from hopsyncd.formats.fields import lead_of
from hopsyncd.formats.tables import Cell, Row, Table, is_header_row, is_one_cell

JOINT = " | "
_PATH, _SEVERAL = " > ", ", "
_CUT = " …"  # ends a label that is shortened
_MAX_LABEL_CHARACTERS, _SHORT_LABEL_CHARACTERS = 160, 40
_MAX_OUTER_CHARACTERS = 300
# A short cell that spans a few columns is repeated under each of their headers.
_MAX_REPEATED, _MAX_REPEATED_CHARACTERS = 6, 80
# Names of columns without values are written in the first row, or above it if there are more.
_MAX_EMPTY_COLUMNS = 30
# Labels may make a table this many times longer before they are shortened.
_LABELS_PER_TEXT, _FREE_LABEL_CHARACTERS = 20, 100_000
_NOTE = re.compile(
    r"\A(?:[*\u2020\u2021]|\(?\d\)|(?:Notes?|Sources?|Quellen?)\b)|\.\Z", re.IGNORECASE
)
_TOTAL = re.compile(r"(?:(?:grand|overall) )?total|sum\b|summe\b|gesamt", re.IGNORECASE)
_NO_COLUMNS: frozenset[int] = frozenset()


def label_columns(rows: Sequence[Row], column: str = "") -> tuple[str, ...]:
    """Return the label of each column: the path from its outermost header to its own header.

    Empty and repeated headers add nothing to the path, and a long label is shortened. If the table
    is nested in a column of another table, `column` is the name of that column, which comes first.
    """
    width = max((len(row.cells) for row in rows), default=0)
    paths: list[list[Cell]] = [[] for _ in range(width)]
    for row in rows:
        for index, cell in enumerate(row.cells):
            if cell and cell.text and cell not in paths[index]:
                paths[index].append(cell)
    names = (dict.fromkeys(cell.text.rstrip(":").rstrip() for cell in path) for path in paths)
    outer = (column,) if column else ()
    return tuple(
        _shorten(_PATH.join((*outer, *path)), _MAX_LABEL_CHARACTERS) if path else ""
        for path in names
    )


def make_table_blocks(
    table: Table, leads: tuple[str, ...] = (), outer: str = "", column: str = ""
) -> Iterator[Block]:
    """Yield a table's blocks: its caption as a paragraph, then a block for each row.

    `leads` are the leads of the block around the table. Each row has the caption and its group
    title as leads, so that a passage that begins inside the table repeats them. Links of headers go
    to the first row. The headers are rows too if a label must be shortened, if many columns are
    empty, or if no row with labels follows.

    If the table is nested in a cell, `outer` is the first cell of the row around it, which precedes
    each inner row, and `column` is the name of that cell's column.
    """
    headers, data = table.rows[: table.header_rows], table.rows[table.header_rows :]
    if table.caption:
        line = table.rows[0].first_line if table.rows else 1
        yield Block("paragraph", table.caption, line, line, leads=leads)
        leads = (*leads, lead_of(table.caption))
    if not data:
        headers, data = (), table.rows
    labels = _shorten_labels(label_columns(headers, column), data)
    links = _list_links(headers)
    width = table.width
    begins = _find_columns_with_own_cells(data, width)
    notes = _note_rows(data, width)
    empty = _find_empty_columns(labels, headers, data, notes)
    yield from _make_header_blocks(headers, labels, empty, leads)
    groups = _group_rows(data[: notes.start], width) if headers else frozenset[int]()
    group: tuple[str, ...] = ()
    for index, row in enumerate(data):
        if headers and _is_repeated(row, headers):
            continue
        if headers and _is_new_header(row, data[index + 1 : index + 2]):
            labels = _shorten_labels(label_columns([row], column), data[index + 1 :])
            links += _list_links([row])
            empty = _find_empty_columns(labels, headers, data, notes, index + 1)
            yield from _make_header_blocks([row], labels, empty, leads)
            continue
        is_group = _is_group(row)
        has_labels = not is_group and index not in notes
        known = (labels, empty or _NO_COLUMNS) if has_labels else ((), _NO_COLUMNS)
        text, row_links = _format_row(row, known[0], begins, known[1])
        if not (text or row_links or row.has_tables):
            continue
        empty = empty if is_group else _NO_COLUMNS
        has_name = is_group or index in groups
        is_apart = has_name or index in notes or (index == notes.start - 1 and _is_total(row))
        above = leads if is_apart else leads + group
        own_head = text.partition(JOINT)[0]
        start = f"{outer}{JOINT}" if outer and len(outer) <= _MAX_OUTER_CHARACTERS else ""
        inner = tuple(_make_inner_blocks(row, start + own_head, labels, above))
        links += row_links
        is_told = text == own_head and len(start + own_head) <= _MAX_OUTER_CHARACTERS
        if links or not (inner and is_told):
            links = tuple((offset + len(start), link) for offset, link in links)
            lines = (row.first_line, row.last_line)
            yield Block("table", start + text, *lines, links=links, leads=above)
        yield from inner
        links = ()
        group = (lead_of(row.distinct[0].text),) if has_name and row.distinct else group


def _make_header_blocks(
    headers: Iterable[Row],
    labels: Sequence[str],
    empty: frozenset[int] | None,
    leads: tuple[str, ...],
) -> Iterator[Block]:
    """Yield the headers as rows if a label is shortened, or if no row can show the labels of
    columns without values (`empty` is None)."""
    is_shown = empty is None or any(label.endswith(_CUT) for label in labels)
    for row in headers if is_shown else ():
        text, _ = _format_row(row, (), [True] * len(row.cells))
        yield Block("table", text, row.first_line, row.last_line, leads=leads)


def _has_only_name(row: Row, width: int) -> bool:
    """Whether only the first cell of a row has text, in a table that has more columns."""
    first, *others = row.cells
    is_named = first is not None and bool(first.text) and first not in row.carried
    return width > 1 and is_named and not any(cell and (cell.text or cell.inner) for cell in others)


def _note_rows(rows: Sequence[Row], width: int) -> range:
    """Return the positions of the rows at the end that are notes, such as "* without tax". `width`
    is the number of columns."""
    begin = len(rows)
    while begin > 1 and _has_only_name(rows[begin - 1], width):
        if not _NOTE.search(rows[begin - 1].distinct[0].text):
            break
        begin -= 1
    return range(begin, len(rows))


def _group_rows(rows: Sequence[Row], width: int) -> frozenset[int]:
    """Return the positions of the rows that name groups of the rows below them. A group row has
    text only in its first cell, in a table of `width` columns.

    The result is empty unless the first row names a group, there are at least two groups, and each
    group has rows with values.
    """
    named = [index for index, row in enumerate(rows) if _has_only_name(row, width)]
    if len(named) < 2 or named[0] or named[-1] == len(rows) - 1:
        return frozenset()
    return (
        frozenset(named)
        if all(later - index > 1 for index, later in pairwise(named))
        else frozenset()
    )


def _is_total(row: Row) -> bool:
    return bool(row.distinct) and _TOTAL.match(row.distinct[0].text) is not None


def _make_inner_blocks(
    row: Row, outer: str, labels: Sequence[str], leads: tuple[str, ...]
) -> Iterator[Block]:
    if row.has_tables:
        starts = {cell: index for index, cell in reversed([*enumerate(row.cells)])}
        for index, cell in ((starts[cell], cell) for cell in row.own):
            for table in cell.inner:
                yield from make_table_blocks(
                    table, leads, outer, labels[index] if index < len(labels) else ""
                )


def _list_links(rows: Iterable[Row]) -> Links:
    return tuple((0, link) for row in rows for cell in row.own for _, link in cell.links)


def _find_columns_with_own_cells(rows: Sequence[Row], width: int) -> list[bool]:
    """Return for each column whether a cell with text begins in it."""
    begins = [False] * width
    for row in rows:
        for index, (before, cell) in enumerate(pairwise((None, *row.cells))):
            if cell is not before and _get_text(cell):
                begins[index] = True
    return begins


def _find_empty_columns(
    labels: Sequence[str],
    headers: Sequence[Row],
    rows: Sequence[Row],
    notes: Container[int],
    start: int = 0,
) -> frozenset[int] | None:
    """Return the columns with a name for which no row has a value.

    Reads the rows from `start` to the next row that renames the columns. Returns None if there are
    too many such columns, or if no row has values with names, because all rows repeat the
    `headers`, name groups or are `notes` (positions).
    """
    empty = {index for index, label in enumerate(labels) if label}
    if not empty:
        return _NO_COLUMNS
    has_values = False
    for index in range(start, len(rows)):
        row = rows[index]
        if _is_new_header(row, rows[index + 1 : index + 2]):
            break
        if index in notes or _is_group(row) or _is_repeated(row, headers):
            continue
        has_values = True
        first = row.cells[0] if row.cells else None
        # The name of a row has only the label of the first column that it spans.
        empty -= {
            column
            for column, cell in enumerate(row.cells)
            if _has_content(cell) and (column == 0 or cell is not first)
        }
        if not empty:
            break
    return frozenset(empty) if has_values and len(empty) <= _MAX_EMPTY_COLUMNS else None


def _has_content(cell: Cell | None) -> bool:
    return cell is not None and bool(cell.text or cell.inner)


def _is_group(row: Row) -> bool:
    """Whether a row is one cell across the table, which names the rows below."""
    return is_one_cell(row, len(row.cells))


def _is_repeated(row: Row, headers: Sequence[Row]) -> bool:
    """Whether a row repeats the header, as at the top of a page."""
    texts = [cell and cell.text for cell in row.cells]
    return len(row.distinct) > 1 and any(
        texts == [cell and cell.text for cell in header.cells] for header in headers
    )


def _is_new_header(row: Row, below: Sequence[Row]) -> bool:
    """Whether a row renames the columns for the rows `below`: all of its cells are marked as
    headers, and no cell is a number."""
    is_marked = len(row.distinct) > 1 and all(cell is None or cell.is_header for cell in row.cells)
    if not is_marked or not below or is_header_row(below[0]):
        return False
    return not any(is_number(cell.text) for cell in row.distinct)


def _shorten_labels(labels: tuple[str, ...], rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the labels. The labels are shortened if they would make the table many times
    longer."""
    characters = sum(len(cell.text) for row in rows for cell in row.own)
    if sum(map(len, labels)) * len(rows) <= characters * _LABELS_PER_TEXT + _FREE_LABEL_CHARACTERS:
        return labels
    return tuple(_shorten(label, _SHORT_LABEL_CHARACTERS) for label in labels)


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + _CUT


def _format_row(
    row: Row,
    labels: Sequence[str],
    begins: Sequence[bool],
    empty: frozenset[int] = _NO_COLUMNS,
) -> tuple[str, Links]:
    """Return a row's text, with the label of each cell's column, and its links with their offsets.

    Without labels, empty cells and spanned columns keep their places, except columns in which no
    cell of the table begins (`begins`). The names of `empty` columns are written without a value.
    """
    parts: list[str] = []
    links: list[tuple[int, WrittenLink]] = []
    length = 0
    missing = max(empty, default=-1) + 1 - len(row.cells)
    for cell, columns in _group_spanned_columns((*row.cells, *[None] * missing)):
        text = cell.text if cell else ""
        if not text and columns[0] in empty:
            parts.append(f"{labels[columns[0]]}:")
            length += len(parts[-1]) + len(JOINT)
            continue
        if not text and (any(labels) or not any(begins[column] for column in columns)):
            continue
        is_own = cell not in row.carried
        names = [*dict.fromkeys(filter(None, labels[columns[0] : columns[-1] + 1]))]
        alone: list[str] = []  # names of columns without values
        if columns[0] == 0:  # the name of a row
            without = {labels[column] for column in columns if column in empty}
            alone = [f"{name}:" for name in names[1:] if name in without]
            names = names[:1]
        if len(names) > _MAX_REPEATED or len(text) > _MAX_REPEATED_CHARACTERS:
            names = [_SEVERAL.join(names)]
        for number, name in enumerate(names or [""]):
            label = f"{name}: " if name and text else ""
            parts.append(label + (text if is_own else _shorten(text, _MAX_LABEL_CHARACTERS)))
            if cell and is_own and number == 0:
                links += ((length + len(label) + offset, link) for offset, link in cell.links)
            length += len(parts[-1]) + len(JOINT)
        parts += alone
        length += sum(len(name) + len(JOINT) for name in alone)
        if text and not any(labels):
            spanned = sum(begins[column] for column in columns[1:])
            parts += [""] * spanned
            length += spanned * len(JOINT)
    while parts and not parts[-1]:
        parts.pop()
    return JOINT.join(parts), tuple(links)


def _group_spanned_columns(cells: Sequence[Cell | None]) -> Iterator[tuple[Cell | None, list[int]]]:
    """Yield each cell with the columns that it spans. An empty cell spans one column."""
    places = enumerate(cells)
    keyed = groupby(places, key=lambda place: place[1] if _get_text(place[1]) else place[0])
    for _, run in keyed:
        columns = list(run)
        yield columns[0][1], [index for index, _ in columns]


def _get_text(cell: Cell | None) -> str:
    return cell.text if cell else ""
