"""Reads PowerPoint slides: texts, tables, charts, diagrams, notes and comments."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from hopsyncd.formats.archive import (
    find_child,
    get_attribute,
    get_local_name,
    get_relation_id,
    link_targets_of,
    open_archive,
    parse_member,
    read_targets,
)
from hopsyncd.formats.blocks import Block, Links, join_lines, make_skipped_block
from hopsyncd.formats.charts import read_chart
from hopsyncd.formats.header_rows import count_header_rows
from hopsyncd.formats.list_numbers import add_label, format_number, parse_number
from hopsyncd.formats.office_math import format_math
from hopsyncd.formats.office_text import (
    Line,
    ListLeads,
    clean_description,
    read_diagram,
    read_metadata,
    with_metadata,
)
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import Table, TableBuilder

_DECK, _CORE = "ppt/presentation.xml", "docProps/core.xml"
_TITLES = ("title", "ctrTitle")
_NUMBER_STYLES = {"alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I"}
_STRUCK = ("sngStrike", "dblStrike")
_SLIDE_FURNITURE = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def read_pptx(data: bytes) -> tuple[Block, ...]:
    """Read slides, including hidden slides. Line numbers are slide numbers."""
    archive = open_archive(data)
    targets = read_targets(archive, _DECK)
    authors = _read_authors(archive, [name for _, name in targets.values()])
    blocks: list[Block] = []
    deletions = 0
    # The list of sections contains the ids of slides again, without relations.
    relations = map(get_relation_id, parse_member(archive, _DECK).iterfind(".//{*}sldId"))
    for number, relation in enumerate(filter(None, relations), 1):
        _, name = targets[relation]
        slide = _Slide(archive, name, number)
        blocks += slide.read_blocks(authors)
        deletions += slide.deletions
    if deletions:
        blocks.append(make_skipped_block({"deletions": deletions}))
    if _CORE in archive.NameToInfo:
        return with_metadata(blocks, *read_metadata(parse_member(archive, _CORE)))
    return tuple(blocks)


def _read_authors(archive: ZipFile, parts: list[str]) -> dict[str, str]:
    """Return the names of the people who commented, by id."""
    return {
        get_attribute(author, "id"): get_attribute(author, "name")
        for part in parts
        if "author" in part.casefold() and part in archive.NameToInfo
        for author in parse_member(archive, part)
    }


class _Slide:
    """Reads a slide. `deletions` counts the passages of text that are struck through."""

    def __init__(self, archive: ZipFile, name: str, number: int) -> None:
        self._archive, self._name, self._number = archive, name, number
        self._parts = read_targets(archive, name)
        self._links = link_targets_of(archive, name)
        self._leads = ListLeads()
        self.deletions = 0

    def read_blocks(self, authors: dict[str, str]) -> Iterator[Block]:
        slide = parse_member(self._archive, self._name)
        # A slide without a title must not be nested in the previous slide.
        titles = [self._read_whole_text(shape) for shape in slide.iter() if _is_title(shape)]
        yield Block("heading", " ".join(filter(None, titles)), *self._lines, level=1)
        tree = find_child(slide, "cSld", "spTree")
        if tree is not None:
            yield from self._read_shapes(tree)
        for kind, name in self._parts.values():
            if name not in self._archive.NameToInfo:
                continue
            if kind == "notesSlide":
                yield from self._read_notes(parse_member(self._archive, name))
            elif kind in ("comments", "comment"):
                yield from self._read_comments(parse_member(self._archive, name), authors)

    @property
    def _lines(self) -> tuple[int, int]:
        return self._number, self._number

    def _read_shapes(self, parent: Element) -> Iterator[Block]:
        """Read shapes in order. Of alternative forms of a shape, only the first non-empty form is
        read."""
        for shape in parent:
            name = get_local_name(shape)
            self._leads.end()
            if name == "AlternateContent":
                forms = [form for form in shape if len(form)]
                yield from self._read_shapes(forms[0]) if forms else ()
            elif name == "sp":
                if _find_placeholder(shape) not in (*_TITLES, *_SLIDE_FURNITURE):
                    yield from self._read_paragraphs(shape, is_body=bool(_find_placeholder(shape)))
            elif name == "grpSp":
                yield from self._read_shapes(shape)
            elif name == "graphicFrame":
                yield from self._read_graphic(shape)
            elif name == "pic":
                yield from self._read_picture(shape)
            elif name == "cxnSp":
                yield from self._read_paragraphs(shape)

    def _read_picture(self, shape: Element) -> Iterator[Block]:
        properties = find_child(shape, "nvPicPr", "cNvPr")
        if properties is not None:
            text = clean_description(get_attribute(properties, "descr"))
            if text and "." not in text[-5:-2]:  # a file name is no description
                yield Block("figure", text, *self._lines)

    def _read_graphic(self, frame: Element) -> Iterator[Block]:
        for part in frame.iter():
            name = get_local_name(part)
            if name == "tbl":
                yield from make_table_blocks(self._build_table(part))
            elif name in ("chart", "relIds"):
                key = get_attribute(part, "dm" if name == "relIds" else "id")
                _, target = self._parts.pop(key, ("", ""))
                if target not in self._archive.NameToInfo:
                    continue
                tree = parse_member(self._archive, target)
                if name == "chart":
                    yield from read_chart(tree, self._number)
                else:
                    yield from read_diagram(tree, self._number)

    def _build_table(self, table: Element) -> Table:
        """Build a table. Its properties state whether the first row is a header."""
        properties = find_child(table, "tblPr")
        is_headed = properties is not None and get_attribute(properties, "firstRow") in (
            "1",
            "true",
        )
        rows = [
            [(cell, *self._read_flat(cell)) for cell in row if _is_cell(cell)]
            for row in table
            if get_local_name(row) == "tr"
        ]
        headers = 0
        if is_headed:
            has_title = len(rows) > 1 and len(rows[0]) == 1 < len(rows[1])
            texts = [[text for _, text, _ in row] for row in rows]
            headers = count_header_rows(texts, has_title=has_title)
        builder = TableBuilder()
        for index, row in enumerate(rows):
            builder.begin_row(self._number, is_header=index < headers)
            for cell, text, links in row:
                spans = (_read_span(cell, "rowSpan"), _read_span(cell, "gridSpan"))
                builder.add(text, rowspan=spans[0], colspan=spans[1], links=links)
        return builder.build()

    def _read_flat(self, cell: Element) -> tuple[str, Links]:
        line = Line()
        for paragraph in _list_paragraphs(cell):
            self._append_inline(paragraph, line)
            line.add("\n")
        return line.take_text()

    def _read_whole_text(self, shape: Element) -> str:
        return " ".join(self._read_flat(shape)[0].split())

    def _read_paragraphs(self, shape: Element, *, is_body: bool = False) -> Iterator[Block]:
        self._leads.end()
        numbers: dict[int, int] = {}
        for paragraph in _list_paragraphs(shape):
            line = Line()
            self._append_inline(paragraph, line)
            text, links = line.take_text()
            if not text:
                continue
            text = text.replace("\n", " ")
            properties = find_child(paragraph, "pPr")
            level, is_item = _find_level(properties), False
            number = None if properties is None else find_child(properties, "buAutoNum")
            for below in [depth for depth in numbers if depth > level]:
                del numbers[below]
            if number is not None:
                begin = parse_number(get_attribute(number, "startAt"), 1)
                numbers[level] = numbers.get(level, begin - 1) + 1
                label = _format_number(numbers[level], get_attribute(number, "type"))
                text, links = add_label(label, text, links)
                is_item = True
            else:
                numbers.pop(level, None)
            is_item = is_item or is_body or level > 0
            block = Block("list_item" if is_item else "paragraph", text, *self._lines, links=links)
            if is_item:
                yield self._leads.add_item(block, level)
            else:
                self._leads.end(text)
                yield block

    def _append_inline(self, paragraph: Element, line: Line) -> None:
        for part in paragraph:
            name = get_local_name(part)
            if name in ("r", "fld"):
                properties = find_child(part, "rPr")
                if properties is not None and get_attribute(properties, "strike") in _STRUCK:
                    self.deletions += 1
                    continue
                text = "".join(t.text or "" for t in part if get_local_name(t) == "t")
                start = line.begin() if _get_link(properties) else 0
                line.add(text, _mark(properties))
                if target := self._links.get(_get_link(properties)):
                    line.mark_link(target, start)
            elif name == "br":
                line.add("\n")
            elif name in ("oMath", "oMathPara"):
                line.add(format_math(part))
            elif name == "AlternateContent":
                forms = [form for form in part if len(form)]
                if forms:
                    self._append_inline(forms[0], line)
            elif name in ("m", "ins"):
                self._append_inline(part, line)

    def _read_notes(self, notes: Element) -> Iterator[Block]:
        shapes = [shape for shape in notes.iter() if get_local_name(shape) == "sp"]
        self._links = {}  # the notes have links of their own
        texts = [
            block
            for shape in shapes
            if _find_placeholder(shape) == "body"
            for block in self._read_paragraphs(shape)
        ]
        if texts:
            yield Block("heading", "Notes", *self._lines, level=2)
        yield from texts

    def _read_comments(self, comments: Element, authors: dict[str, str]) -> Iterator[Block]:
        for comment in comments.iter():
            if get_local_name(comment) not in ("cm", "reply"):
                continue
            text_element = find_child(comment, "text")
            if text_element is not None:
                text = text_element.text or ""
            else:
                body = find_child(comment, "txBody")
                parts = () if body is None else body.iter()
                text = " ".join(t.text or "" for t in parts if get_local_name(t) == "t")
            author = authors.get(get_attribute(comment, "authorId"), "")
            if text := join_lines(text):
                yield Block("note", f"{author}: {text}" if author else text, *self._lines)


_COVERED = ("hMerge", "vMerge")


def _is_cell(element: Element) -> bool:
    """Whether a row's element is a cell that no other cell covers."""
    is_covered = any(get_attribute(element, name) in ("1", "true") for name in _COVERED)
    return get_local_name(element) == "tc" and not is_covered


def _is_title(shape: Element) -> bool:
    return get_local_name(shape) == "sp" and _find_placeholder(shape) in _TITLES


def _find_placeholder(shape: Element) -> str:
    found = find_child(shape, "nvSpPr", "nvPr", "ph")
    return "" if found is None else found.get("type", "obj")


def _list_paragraphs(shape: Element) -> Iterator[Element]:
    body = find_child(shape, "txBody")
    for paragraph in () if body is None else body:
        if get_local_name(paragraph) == "p":
            yield paragraph


def _format_number(number: int, kind: str) -> str:
    """Format the number of an item. `kind` is a name such as "alphaLcParenR"."""
    style = next((sign for start, sign in _NUMBER_STYLES.items() if kind.startswith(start)), "1")
    text = format_number(number, style)
    if kind.endswith("ParenBoth"):
        return f"({text})"
    return f"{text})" if kind.endswith("ParenR") else f"{text}."


def _find_level(properties: Element | None) -> int:
    level = "" if properties is None else get_attribute(properties, "lvl")
    return int(level) if level in tuple("12345678") else 0


def _mark(properties: Element | None) -> str:
    """Return "^" for superscript text (positive baseline), "_" for subscript text (negative
    baseline), or "" for other text."""
    offset = "" if properties is None else get_attribute(properties, "baseline")
    if not offset.strip("-+0%."):
        return ""
    return "_" if offset.startswith("-") else "^"


def _get_link(properties: Element | None) -> str:
    link = None if properties is None else find_child(properties, "hlinkClick")
    return "" if link is None else get_attribute(link, "id")


def _read_span(cell: Element, name: str) -> int:
    span = get_attribute(cell, name)
    return max(1, int(span)) if span.isdecimal() and len(span) < 5 else 1
