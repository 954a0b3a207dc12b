"""Reads OpenDocument texts and presentations."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from hopsyncd.formats.archive import (
    find_child,
    get_attribute,
    get_local_name,
    open_archive,
    parse_member,
)
from hopsyncd.formats.blocks import Block, Links, make_skipped_block, with_title
from hopsyncd.formats.charts import name_chart
from hopsyncd.formats.list_numbers import add_label
from hopsyncd.formats.odt_lists import ListNumbers, OpenList
from hopsyncd.formats.office_math import format_mathml
from hopsyncd.formats.office_text import (
    Line,
    ListLeads,
    clean_description,
    insert_attached,
    make_note,
    read_metadata,
    with_metadata,
)
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import Table, TableBuilder

_SPELLED = {"tab": "\t", "line-break": "\n", "soft-page-break": ""}
# Deleted text, repeated text, and settings.
_LEFT_OUT = frozenset(
    "tracked-changes table-of-content note-citation ruby-text forms sequence-decls".split()
)
_BESIDE = frozenset(("note-body", "annotation", "text-box", "desc", "table", "object"))
_CHARTS = {"circle": "pie", "ring": "doughnut", "filled-radar": "radar"}
_FURNITURE = ("date-time", "footer", "header", "page-number")
_MARGINS = frozenset(
    f"{kind}{which}" for kind in ("header", "footer") for which in ("", "-left", "-first")
)
_MAX_REPEATED = 10_000  # repeated cells of a document that are read
_MAX_SPACES = 1000
_BOLD = ("bold", "600", "700", "800", "900")
_SVG = "svg"  # the namespace of a picture's title; fields have titles in other namespaces


def read_odt(data: bytes) -> tuple[Block, ...]:
    """Read a text document. Line numbers count paragraphs, headings and table rows.

    The text of page headers and footers comes at the end, without duplicates.
    """
    archive = open_archive(data)
    content = parse_member(archive, "content.xml")
    body = find_child(content, "body", "text")
    numbers = count(1)
    styles = _parse_member(archive, "styles.xml")
    lists = ListNumbers(content, styles)
    reader = _Reader(archive, _read_marks(content, styles), lists, numbers)
    blocks = () if body is None else tuple(reader.read_content(body))
    blocks = with_title(blocks, *reader.title)
    skipped: Counter[str] = Counter()
    if styles is not None:
        known = {" ".join(block.text.split()) for block in blocks}
        margins = tuple(_read_margins(styles, reader, known, skipped))
        line = next(numbers)
        blocks += (Block("heading", "", line, line, level=1), *margins) if margins else ()
    blocks = _add_metadata(archive, blocks)
    skipped["deletions"] += reader.deletions
    return (*blocks, make_skipped_block(skipped)) if skipped.total() else blocks


def read_odp(data: bytes) -> tuple[Block, ...]:
    """Read slides, including hidden slides. Line numbers are slide numbers."""
    archive = open_archive(data)
    content = parse_member(archive, "content.xml")
    body = find_child(content, "body", "presentation")
    styles = _parse_member(archive, "styles.xml")
    marks, lists = _read_marks(content, styles), ListNumbers(content, styles)
    blocks: list[Block] = []
    pages = (
        element
        for element in (body if body is not None else ())
        if get_local_name(element) == "page"
    )
    for number, page in enumerate(pages, 1):
        reader = _Reader(archive, marks, lists, repeat(number))
        frames = [element for element in page if get_local_name(element) not in ("notes", "forms")]
        titles = [frame for frame in frames if get_attribute(frame, "class") == "title"]
        title = " ".join(" ".join(reader.read_flat(frame)[0].split()) for frame in titles)
        blocks.append(Block("heading", title, number, number, level=1))
        for frame in frames:
            if frame not in titles and get_attribute(frame, "class") not in _FURNITURE:
                blocks += reader.read_content([frame])
        for notes in (element for element in page if get_local_name(element) == "notes"):
            note_frames = [frame for frame in notes if get_attribute(frame, "class") == "notes"]
            if below := tuple(reader.read_content(note_frames)):
                blocks += (Block("heading", "Notes", number, number, level=2), *below)
    return _add_metadata(archive, tuple(blocks))


def _parse_member(archive: ZipFile, name: str) -> Element | None:
    return parse_member(archive, name) if name in archive.NameToInfo else None


def _add_metadata(archive: ZipFile, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    tree = _parse_member(archive, "meta.xml")
    meta = None if tree is None else find_child(tree, "meta")
    if meta is None:
        return blocks
    # OpenDocument's `date` is the date of the last change.
    fields = [field for field in meta if get_local_name(field) != "date"]
    titles, properties = read_metadata(fields)
    changed = find_child(meta, "date")
    if changed is not None and changed.text:
        properties.append(("modified", changed.text.strip()))
    return with_metadata(blocks, titles, properties)


def _read_marks(*trees: Element | None) -> dict[str, str]:
    """Return the mark of each style: "^" superscript, "_" subscript, "x" strikethrough, "t"
    document title, "h" table header, "b" bold."""
    named = {"Title": "t", "Table_20_Heading": "h"}
    marks = dict(named)
    for tree in trees:
        for style in () if tree is None else tree.iter():
            if not style.tag.endswith("}style"):
                continue
            properties = find_child(style, "text-properties")
            if properties is not None and get_attribute(properties, "font-weight") in _BOLD:
                marks.setdefault(get_attribute(style, "name"), "b")
            if properties is not None and _is_struck(properties):
                marks[get_attribute(style, "name")] = "x"
                continue
            position = "" if properties is None else get_attribute(properties, "text-position")
            place = position.split(" ")[0].rstrip("%")
            if place == "super" or (place.isdecimal() and int(place) > 0):
                marks[get_attribute(style, "name")] = "^"
            elif place == "sub" or place.startswith("-"):
                marks[get_attribute(style, "name")] = "_"
            elif parent := named.get(get_attribute(style, "parent-style-name")):
                marks[get_attribute(style, "name")] = parent
    return marks


def _is_struck(properties: Element) -> bool:
    return get_attribute(properties, "text-line-through-style") not in ("", "none")


def _read_margins(
    styles: Element, reader: "_Reader", known: set[str], skipped: Counter[str]
) -> Iterator[Block]:
    """Yield the text of page headers and footers, except page numbers and text that occurs
    elsewhere in the document. `known` contains the text of the document."""
    for page in styles.iterfind(".//{*}master-page"):
        for margin in page:
            if get_local_name(margin) not in _MARGINS:
                continue
            for block in reader.read_content(margin):
                text = " ".join(block.text.split())
                if text in known or text.strip("-/ ").isdecimal():
                    skipped["page headers and footers that repeat"] += 1
                else:
                    known.add(text)
                    kind = block.kind if block.kind == "table" else "note"
                    yield Block(kind, block.text, block.first_line, block.last_line)


class _Reader:
    """Reads the content of a document. Each paragraph and row takes its line number
    from `numbers`."""

    def __init__(
        self,
        archive: ZipFile,
        marks: dict[str, str],
        lists: ListNumbers,
        numbers: Iterator[int],
    ) -> None:
        self.title = ("", 1)
        self.deletions = 0  # texts that are struck through
        self._archive, self._marks, self._numbers = archive, marks, numbers
        self._repeats = _MAX_REPEATED
        self._charts: set[str] = set()  # the charts that have been read
        self._leads = ListLeads()
        self._list_numbers = lists
        self._lists: list[OpenList] = []  # the open lists, outermost first
        self._item: Element | None = None  # a list item whose text has not been read

    def read_content(self, parent: Element | list[Element], depth: int = -1) -> Iterator[Block]:
        """Read all text in reading order. `depth` is the nesting depth of the current list, from 0;
        -1 outside lists."""
        for child in parent:
            name = get_local_name(child)
            if name in ("p", "h"):
                yield from self._read_paragraph(child, depth)
            elif name == "table":
                yield from self._read_table(child)
            elif name == "desc":
                yield from self._read_picture(child)
            elif name == "object":
                yield from self._read_chart(get_attribute(child, "href"))
            elif name == "list":
                around = self._lists[-1] if self._lists else None
                self._lists.append(self._list_numbers.open(child, around))
                yield from self.read_content(child, depth + 1)
                self._lists.pop()
            elif name == "list-item":
                self._item = child
                yield from self.read_content(child, depth)
                self._item = None
            elif name not in _LEFT_OUT and name != "annotation":
                yield from self.read_content(child, depth)

    def _read_picture(self, description: Element) -> Iterator[Block]:
        yield from self._read_figure(clean_description(description.text or ""))

    def _read_formula(self, element: Element) -> str:
        """Write an embedded formula in one line. Returns "" if the object is not a formula."""
        member = f"{get_attribute(element, 'href').removeprefix('./').strip('/')}/content.xml"
        if member not in self._archive.NameToInfo:
            return ""
        data = self._archive.read(member)
        root = ElementTree.fromstring(data) if b"MathML" in data else None
        return (
            ""
            if root is None or get_local_name(root) != "math"
            else format_mathml(root).strip("; ")
        )

    def _read_chart(self, address: str) -> Iterator[Block]:
        """Yield the titles of an embedded chart, and its values as a table."""
        member = f"{address.removeprefix('./').strip('/')}/content.xml"
        if member in self._charts or member not in self._archive.NameToInfo:
            return
        self._charts.add(member)
        chart = find_child(parse_member(self._archive, member), "body", "chart", "chart")
        if chart is None:
            return
        kind = get_attribute(chart, "class").rpartition(":")[2]
        if find_child(chart, "title") is None:
            yield from self._read_figure(name_chart(_CHARTS.get(kind, kind), ""))
        for part in chart.iter():
            if get_local_name(part) == "table":
                yield from self._read_table(part)
            elif get_local_name(part) in ("title", "subtitle"):
                text = " ".join(self.read_flat(part)[0].split())
                is_own = get_local_name(part) == "title" and part in chart
                yield from self._read_figure(
                    name_chart(_CHARTS.get(kind, kind), text) if is_own else text
                )

    def _read_figure(self, text: str) -> Iterator[Block]:
        if text:
            number = next(self._numbers)
            yield Block("figure", text, number, number)

    def _read_paragraph(self, paragraph: Element, depth: int) -> Iterator[Block]:
        line, beside = Line(), list[Element]()
        self._append_inline(paragraph, line, beside, "")
        text, links = line.take_text()
        if text:
            yield self._make_block(paragraph, text, links, depth)
        for element in beside:
            yield from self._read_attached(element)

    def _make_block(self, paragraph: Element, text: str, links: Links, depth: int) -> Block:
        if self._item is not None and self._lists:
            label = self._list_numbers.make_next_label(self._lists[-1], self._item)
            text, links = add_label(label, text, links)
            self._item = None
        number = next(self._numbers)
        is_title = self._marks.get(get_attribute(paragraph, "style-name")) == "t"
        if get_local_name(paragraph) == "h" or is_title:
            self._leads.end()
            text = " ".join(text.split())
            outline_level = "1" if is_title else get_attribute(paragraph, "outline-level")
            level = (
                min(max(int(outline_level), 1), 6)
                if outline_level.isdecimal() and len(outline_level) < 4
                else 1
            )
            if is_title and not self.title[0]:
                self.title = (text, number)
            return Block("heading", text, number, number, level, links)
        if depth < 0:
            self._leads.end(text)
            return Block("paragraph", text, number, number, links=links)
        return self._leads.add_item(Block("list_item", text, number, number, links=links), depth)

    def _append_inline(self, parent: Element, line: Line, beside: list[Element], mark: str) -> None:
        line.add(_join_lines(parent.text), mark)
        for child in parent:
            name = get_local_name(child)
            if name == "s":
                count = get_attribute(child, "c")
                line.add(" " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES))
            elif name in _SPELLED:
                line.add(_SPELLED[name])
            elif name == "title" and _SVG in child.tag:
                beside += [] if find_child(parent, "desc") is not None else [child]
            elif name == "object" and (formula := self._read_formula(child)):
                line.add(formula, mark)
            elif name in _BESIDE:
                beside.append(child)
            elif name == "a":
                start = line.begin()
                self._append_inline(child, line, beside, mark)
                line.mark_link(get_attribute(child, "href"), start)
            elif name not in _LEFT_OUT:
                marks = self._marks.get(get_attribute(child, "style-name"), "").strip("thb")
                if marks == "x":
                    self.deletions += name == "span"
                else:
                    self._append_inline(child, line, beside, marks or mark)
                line.add("\n" if name in ("p", "h") else "")
            line.add(_join_lines(child.tail), mark)

    def _read_attached(self, element: Element) -> Iterator[Block]:
        """Read the objects in a paragraph or cell: notes, comments, text boxes, pictures and
        tables."""
        name = get_local_name(element)
        if name == "text-box":
            yield from self.read_content(element)
        elif name == "title":
            yield from self._read_picture(element)
        elif name in ("desc", "table", "object"):
            yield from self.read_content([element])
        else:
            author = find_child(element, "creator") if name == "annotation" else None
            paragraphs = [
                child for child in element if get_local_name(child) not in ("creator", "date")
            ]
            text, links, _ = self.read_flat(paragraphs)
            if text:
                written_by = author.text if author is not None else None
                yield make_note(written_by or "", text, links, next(self._numbers))

    def read_flat(self, parent: Element | list[Element]) -> tuple[str, Links, list[Element]]:
        """Return the text of an element, its links, and the objects in it (notes, frames)."""
        line, beside = Line(), list[Element]()
        self._flatten(parent, line, beside)
        return *line.take_text(), beside

    def _flatten(
        self, parent: Element | list[Element], line: Line, beside: list[Element], depth: int = 0
    ) -> None:
        """Append all text inside an element to `line`, and its notes, tables and frames to
        `beside`. `depth` is the depth of the list around the element."""
        for child in parent:
            name = get_local_name(child)
            if name in ("p", "h"):
                if depth:
                    line.begin_item()
                self._append_inline(child, line, beside, "")
                line.add("\n")
            elif name in ("table", "desc", "annotation", "object"):
                beside.append(child)
            elif name not in _LEFT_OUT:
                self._flatten(child, line, beside, depth + (name == "list"))

    def _read_table(self, element: Element) -> Iterator[Block]:
        cells = [cell for row, _ in list_table_rows(element, False) for cell in row]
        if len(cells) == 1 and get_local_name(cells[0]) == "table-cell":  # only a frame around text
            yield from self.read_content(cells[0])
            return
        leads = tuple(filter(None, (self._leads.introduction,)))
        self._leads.end()
        beside: list[tuple[int, Element]] = []
        table = self._build_table(element, beside)
        yield from insert_attached(make_table_blocks(table, leads), beside, self._read_attached)

    def _build_table(self, element: Element, beside: list[tuple[int, Element]]) -> Table:
        builder = TableBuilder()
        rows = list(list_table_rows(element, False))
        marked = self._count_marked_rows(rows)
        for index, (row, is_marked) in enumerate(rows):
            is_header = is_marked or index < marked
            row_cells = [child for child in row if get_local_name(child) == "table-cell"]
            cells = [(cell, *self._read_cell(cell, beside)) for cell in row_cells]
            has_text = any(text or inner for _, text, _, _, inner in cells)
            for repetition in range(
                self._repeat(row, "rows-repeated", len(cells)) if has_text else 1
            ):
                number = next(self._numbers)
                builder.begin_row(number, is_header=is_header)
                for cell, text, links, found, inner in cells:
                    spans = count_of(cell, "rows-spanned"), count_of(cell, "columns-spanned")
                    for _ in range(self._repeat(cell, "columns-repeated", 1)):
                        builder.add(
                            text,
                            is_header=self._is_header(cell),
                            rowspan=spans[0],
                            colspan=spans[1],
                            links=links,
                            inner=inner if repetition == 0 else (),
                        )
                    beside += [(number, element) for element in found] if repetition == 0 else []
        return builder.build()

    def _read_cell(
        self, cell: Element, beside: list[tuple[int, Element]]
    ) -> tuple[str, Links, list[Element], tuple[Table, ...]]:
        """Return the text of a cell, its links, the attached objects, and the nested tables. The
        objects in nested tables are added to `beside`, each with a line number."""
        text, links, found = self.read_flat(cell)
        tables = [element for element in found if get_local_name(element) == "table"]
        inner = tuple(self._build_table(table, beside) for table in tables)
        return text, links, [element for element in found if element not in tables], inner

    def _count_marked_rows(self, rows: Sequence[tuple[Element, bool]]) -> int:
        """Count the bold rows at the top of a table. Returns 0 if all rows are bold, or if the
        document marks header rows."""
        if any(is_header for _, is_header in rows):
            return 0
        bold = [self._is_bold(row) for row, _ in rows]
        count = next((index for index, is_bold in enumerate(bold) if not is_bold), 0)
        return 0 if all(bold) else count

    def _is_bold(self, row: Element) -> bool:
        """Whether a row has several cells with text, all in bold."""
        cells = [
            cell
            for cell in row
            if get_local_name(cell) == "table-cell" and "".join(cell.itertext()).strip()
        ]
        return len(cells) > 1 and all(map(self._has_bold_text, cells))

    def _has_bold_text(self, cell: Element) -> bool:
        paragraphs = [child for child in cell if get_local_name(child) == "p"]
        parts = [part for paragraph in paragraphs for part in (paragraph, *paragraph)]
        texts = [
            paragraph
            for paragraph in paragraphs
            if self._marks.get(get_attribute(paragraph, "style-name")) != "b"
        ]
        plain = [
            text
            for paragraph in texts
            for text in (paragraph.text, *(part.tail for part in paragraph))
        ]
        spans = [part for paragraph in texts for part in paragraph]
        is_plain = any((text or "").strip() for text in plain)
        return (
            bool(parts)
            and not is_plain
            and all(self._marks.get(get_attribute(part, "style-name")) == "b" for part in spans)
            and any("".join(paragraph.itertext()).strip() for paragraph in paragraphs)
        )

    def _is_header(self, cell: Element) -> bool:
        """Whether all paragraphs of a cell have the table header style."""
        styles = [
            get_attribute(child, "style-name") for child in cell if get_local_name(child) == "p"
        ]
        return bool(styles) and all(self._marks.get(style) == "h" for style in styles)

    def _repeat(self, element: Element, name: str, cells: int) -> int:
        """Return how often a cell or a row is repeated according to its attribute `name`, up to the
        limit for a document. `cells` is the number of cells in the element."""
        times = min(count_of(element, name), 1 + self._repeats // max(cells, 1))
        self._repeats -= (times - 1) * cells
        return times


def list_table_rows(parent: Element, is_header: bool) -> Iterator[tuple[Element, bool]]:
    """Yield the rows of a table, each with a flag: whether the document marks it as a header."""
    for child in parent:
        name = get_local_name(child)
        if name == "table-row":
            yield child, is_header
        elif name in ("table-header-rows", "table-row-group", "table-rows"):
            yield from list_table_rows(child, is_header or name == "table-header-rows")


def count_of(element: Element, name: str) -> int:
    """Return the attribute `name`, a count such as `columns-spanned`, by default 1."""
    number = get_attribute(element, f"number-{name}")
    return max(1, int(number)) if number.isdecimal() and len(number) < 10 else 1


def _join_lines(text: str | None) -> str:
    return " ".join((text or "").split("\n"))
