"""Reads DOCX: headings, paragraphs, lists with their numbers, tables, notes, charts and
diagrams."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from xml.etree.ElementTree import Element, ParseError
from zipfile import ZipFile

from hopsyncd.formats.archive import (
    find_child,
    get_attribute,
    get_local_name,
    open_archive,
    parse_member,
    read_all_targets,
    read_targets,
)
from hopsyncd.formats.blocks import Block, Links, make_skipped_block, with_title
from hopsyncd.formats.charts import read_chart
from hopsyncd.formats.decode import decode
from hopsyncd.formats.html import read_html
from hopsyncd.formats.list_numbers import add_label
from hopsyncd.formats.office_math import format_math
from hopsyncd.formats.office_text import (
    Line,
    ListLeads,
    clean_description,
    find_symbol,
    insert_attached,
    make_note,
    read_diagram,
    read_metadata,
    with_metadata,
)
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import Table
from hopsyncd.formats.word_styles import (
    TITLE,
    Numbering,
    Style,
    Styles,
    find_outline_level,
    find_script_mark,
    is_on,
    read_number,
)
from hopsyncd.formats.word_tables import CellContent, WordTable

_SPELLED = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
# Deleted or moved text, properties, and the pronunciation of a base text.
_LEFT_OUT = frozenset(
    "del moveFrom pPr rPr tblPr trPr tcPr sectPr sdtPr delText instrText rt sdtEndPr".split()
)
_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote",
          "commentReference": "comment"}  # fmt: skip
_FORMULAS = ("oMath", "oMathPara")
_BESIDE = frozenset((*_NOTES, "txbxContent", "chart", "relIds", "docPr"))
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.?)\W*)?\d+(?:\W*(?:of|von|/)?\W*\d+)?\W*\Z", re.I
)


def read_docx(data: bytes) -> tuple[Block, ...]:
    """Read a Word document. The line numbers of its blocks count paragraphs, headings and table
    rows.

    The document's title becomes the level-1 heading, above all other headings. The text of page
    headers and footers comes at the end, without duplicates.
    """
    archive = open_archive(data)
    package = read_targets(archive, "")
    main = next(name for kind, name in package.values() if kind == "officeDocument")
    return _Reader(archive, main).read_blocks(dict(package.values()).get("core-properties", ""))


class _Reader:
    """Reads a Word document. `number` counts paragraphs and table rows."""

    def __init__(self, archive: ZipFile, main: str) -> None:
        self.number = 0
        self._archive, self._main = archive, main
        self._skipped: Counter[str] = Counter()
        self._parts, self._links = read_all_targets(archive, main)
        self._first_of = dict(reversed(self._parts.values()))
        self._styles = Styles(self._read_part("styles"))
        self._notes: dict[str, dict[str, Element]] = {}  # unread notes, by kind and id
        self._leads = ListLeads()
        self._caption: tuple[str, ...] = ()
        self._title = ("", 1)
        self._fields: list[bool] = []  # for each open field, whether its instruction is being read

    def read_blocks(self, core: str) -> tuple[Block, ...]:
        body = find_child(parse_member(self._archive, self._main), "body")
        blocks = () if body is None else tuple(self._read_content(body))
        blocks = with_title(blocks, *self._title)
        margins = tuple(self._read_margins(blocks))
        if margins:
            blocks += (Block("heading", "", self.number, self.number, level=1), *margins)
        if core in self._archive.NameToInfo:
            blocks = with_metadata(blocks, *read_metadata(parse_member(self._archive, core)))
        return (*blocks, make_skipped_block(self._skipped)) if self._skipped else blocks

    @cached_property
    def _numbering(self) -> Numbering:
        return Numbering(self._read_part("numbering"), self._styles)

    def _read_part(self, kind: str) -> bytes:
        """Return the bytes of the document's part of this kind, or b"" if there is no such part."""
        name = self._first_of.get(kind, "")
        return self._archive.read(name) if name in self._archive.NameToInfo else b""

    def _parse_part(self, kind: str) -> Element | None:
        """Parse the document's part of this kind. Returns None if there is no such part."""
        name = self._first_of.get(kind, "")
        return parse_member(self._archive, name) if name in self._archive.NameToInfo else None

    def _read_content(self, parent: Element) -> Iterator[Block]:
        """Read paragraphs and tables, in reading order."""
        for child in _list_visible_children(parent):
            match get_local_name(child):
                case "p":
                    yield from self._read_paragraph(child)
                case "tbl":
                    yield from self._read_table(child)
                case "oMathPara" | "oMath":
                    yield from self._make_block(format_math(child))
                case "altChunk":
                    yield from self._read_other_document(child)
                case name if name not in _LEFT_OUT:
                    yield from self._read_content(child)

    def _take_next_number(self) -> int:
        self.number += 1
        return self.number

    def _make_block(self, text: str) -> Iterator[Block]:
        if text := text.strip():
            yield Block("paragraph", text, line := self._take_next_number(), line)

    def _read_other_document(self, chunk: Element) -> Iterator[Block]:
        """Read an embedded HTML document, which Word imports when it opens the file."""
        _, name = self._parts.get(get_attribute(chunk, "id"), ("", ""))
        if name.endswith((".html", ".htm", ".xhtml")) and name in self._archive.NameToInfo:
            line = self._take_next_number()
            for block in read_html(decode(self._archive.read(name), kind="text/html")):
                yield _move_to_line(block, line)

    def _read_paragraph(self, paragraph: Element) -> Iterator[Block]:
        properties = find_child(paragraph, "pPr")
        named = "" if properties is None else _find_value(properties, "pStyle")
        style = self._styles[named]
        self._fields = [False] * len(self._fields)  # an instruction ends with its paragraph
        line, beside = Line(), list[Element]()
        self._append_inline(paragraph, line, beside, "", "")
        text, links = line.take_text()
        level = find_outline_level(paragraph) or style.level
        label, depth = self._format_label(paragraph, named, style) if text else ("", None)
        if text:
            caption, self._caption = self._caption, ()
            yield from self._make_text_blocks(text, links, level, label, depth)
            if style.is_caption and not caption:
                self._caption = (" ".join(text.split()),)
        if text and (note := "; ".join(filter(None, map(_find_pronunciation, beside)))):
            yield Block("note", note, self.number, self.number)
        for element in beside:
            if get_local_name(element) != "ruby":
                yield from self._read_attached(element)

    def _make_text_blocks(
        self, text: str, links: Links, level: int, label: str, depth: int | None
    ) -> Iterator[Block]:
        line = self._take_next_number()
        text, links = add_label(label, text, links)
        if level:
            text = " ".join(text.split())
            self._leads.end()
            if level == TITLE and not self._title[0]:
                self._title = (text, line)
            yield Block("heading", text, line, line, max(level, 1), links=links)
        elif depth is not None:
            item = Block("list_item", text, line, line, links=links)
            yield self._leads.add_item(item, depth)
        else:
            self._leads.end(text)
            yield Block("paragraph", text, line, line, links=links)

    def _format_label(self, paragraph: Element, named: str, style: Style) -> tuple[str, int | None]:
        """Return the automatic number of a paragraph, and its list level (None outside lists).
        `style` is the paragraph's style, and `named` is the style's id."""
        number, depth = read_number(paragraph)
        if not number and not style.number:
            return "", depth if find_child(paragraph, "pPr", "numPr") is None else depth or 0
        if number in ("0", "-1"):
            return "", None  # the style's list does not apply here
        if depth is None:
            depth = style.depth
        number = number or style.number
        if depth is None:
            depth = self._numbering.find_depth(number, named)
        return self._numbering.make_next_label(number, depth), depth

    def _append_inline(
        self, parent: Element, line: Line, beside: list[Element], mark: str, font: str
    ) -> None:
        """Append the text of an element to `line`, and its notes, text boxes, charts, diagrams and
        pictures to `beside`. `mark` and `font` are the script mark and the font of the text."""
        for child in _list_visible_children(parent):
            name = get_local_name(child)
            if name == "t":
                if not any(self._fields):
                    line.add(_map_symbols(child.text or "", font), mark)
            elif name in _SPELLED:
                line.add(_SPELLED[name])
            elif name == "r":
                self._run(child, line, beside, mark)
            elif name in _LEFT_OUT:
                pass
            elif name in _BESIDE:
                beside.append(child)
            elif name == "sym":
                code = get_attribute(child, "char")
                line.add(find_symbol(_parse_hexadecimal(code), get_attribute(child, "font")), mark)
            elif name == "fldChar":
                self._read_field(child, line)
            elif name in _FORMULAS:
                line.add(format_math(child))
            else:
                beside += [child] if name == "ruby" else []
                start = line.begin() if name == "hyperlink" else 0
                self._append_inline(child, line, beside, mark, font)
                if name == "hyperlink" and (to := self._links.get(get_attribute(child, "id"))):
                    line.mark_link(to, start)
                line.add("\n" if name == "p" else "")

    def _run(self, run: Element, line: Line, beside: list[Element], mark: str) -> None:
        properties = find_child(run, "rPr")
        font = ""
        if properties is not None:
            # Few runs have these properties, so they are looked up by name only once.
            present = {get_local_name(element): element for element in properties}
            is_hidden = "vanish" in present and is_on(properties, "vanish")
            if is_hidden and any(get_local_name(part) == "t" for part in run):
                self._skipped["hidden texts"] += 1
                return
            if any(name in present and is_on(properties, name) for name in ("strike", "dstrike")):
                self._skipped["deletions"] += 1
                return
            named = get_attribute(present["rStyle"], "val") if "rStyle" in present else ""
            is_shifted = "vertAlign" in present or "position" in present
            run_mark = find_script_mark(properties) if is_shifted else ""
            mark = run_mark or self._styles[named].mark or mark
            font = get_attribute(present["rFonts"], "ascii") if "rFonts" in present else ""
        self._append_inline(run, line, beside, mark, font)

    def _read_field(self, field: Element, line: Line) -> None:
        """Handle the mark at the start, middle or end of a field. The field's instruction is left
        out. Its result, or the value of a form field, becomes text."""
        match get_attribute(field, "fldCharType"):
            case "begin":
                self._fields.append(True)
                line.add(_find_form_value(field))
            case "separate" if self._fields:
                self._fields[-1] = False
            case "end" if self._fields:
                self._fields.pop()

    def _read_attached(self, element: Element) -> Iterator[Block]:
        """Read the objects attached to a paragraph or cell: notes, text boxes, charts, diagrams and
        pictures."""
        name = get_local_name(element)
        if name in _NOTES:
            yield from self._note(_NOTES[name], get_attribute(element, "id"))
        elif name == "txbxContent":
            yield from self._read_content(element)
        elif name == "tbl":
            yield from self._read_table(element)
        elif name == "ruby":
            if text := _find_pronunciation(element):
                yield Block("note", text, self.number, self.number)
        elif name == "docPr":
            if text := clean_description(get_attribute(element, "descr")):
                yield Block("figure", text, line := self._take_next_number(), line)
        else:
            key = "dm" if name == "relIds" else "id"
            _, part = self._parts.pop(get_attribute(element, key), ("", ""))
            if part not in self._archive.NameToInfo:
                return
            line = self._take_next_number()
            tree = parse_member(self._archive, part)
            if name == "chart":
                yield from read_chart(tree, line)
            else:
                yield from read_diagram(tree, line)

    def _note(self, kind: str, name: str) -> Iterator[Block]:
        """Read the note with the id `name` at the first reference to it. Later references yield
        nothing. `kind` is the kind of the note, such as "footnote"."""
        if kind not in self._notes:
            notes = self._parse_part(f"{kind}s") or ()
            self._notes[kind] = {get_attribute(note, "id"): note for note in notes}
        note = self._notes[kind].pop(name, None)
        if note is None:
            return
        text, links, beside = self._read_flat(note)
        author = get_attribute(note, "author") if kind == "comment" else ""
        if text:
            yield make_note(author, text, links, self._take_next_number())
        for element in beside:
            yield from self._read_attached(element)

    def _read_flat(self, parent: Element) -> tuple[str, Links, list[Element]]:
        """Return the whole text of a note or cell in one line, its links, and the objects in it."""
        line, beside = Line(), list[Element]()
        self._flatten(parent, line, beside)
        return *line.take_text(), beside

    def _flatten(self, parent: Element, line: Line, beside: list[Element]) -> None:
        for child in _list_visible_children(parent):
            name = get_local_name(child)
            if name == "p":
                self._fields = [False] * len(self._fields)
                named = _find_value(child, "pPr", "pStyle")
                label, depth = self._format_label(child, named, self._styles[named])
                if depth is not None:
                    line.begin_item()
                line.add(f"{label} " if label else "")
                self._append_inline(child, line, beside, "", "")
                line.add("\n")
            elif name == "tbl":
                table = WordTable(child)
                if table.is_grid:
                    beside.append(child)
                    continue
                for row in table.rows:
                    for column, cell in enumerate(row):
                        line.add(", " if column else "")
                        self._flatten(cell.element, line, beside)
            elif name in _FORMULAS:
                line.add(format_math(child))
            elif name not in _LEFT_OUT:
                self._flatten(child, line, beside)

    def _read_table(self, element: Element, leads: tuple[str, ...] = ()) -> Iterator[Block]:
        table = WordTable(element)
        only = table.only_cell
        if only is not None:  # a single cell is a frame around text
            yield from self._read_content(only)
            return
        leads += tuple(filter(None, (self._leads.introduction, *self._caption)))
        self._leads.end()
        self._caption = ()
        beside: list[tuple[int, Element]] = []
        built = self._build_grid(table, beside)
        yield from insert_attached(make_table_blocks(built, leads), beside, self._read_attached)

    def _build_grid(self, table: WordTable, beside: list[tuple[int, Element]]) -> Table:
        """Build the grid of a table. Appends the objects in its cells to `beside`, each with the
        line number of its row."""

        def read(cell: Element) -> CellContent:
            text, links, found = self._read_flat(cell)
            inner = [element for element in found if get_local_name(element) == "tbl"]
            beside.extend((self.number, element) for element in found if element not in inner)
            tables = (self._build_grid(WordTable(element), beside) for element in inner)
            return CellContent(text, links, tuple(tables))

        return table.build(read, self._take_next_number)

    def _read_margins(self, blocks: Sequence[Block]) -> Iterator[Block]:
        """Yield the text of page headers and footers, except page numbers and text that occurs
        elsewhere in the document."""
        known = {" ".join(block.text.split()) for block in blocks}
        for kind, part in list(self._parts.values()):
            if kind not in ("header", "footer") or part not in self._archive.NameToInfo:
                continue
            try:
                tree = parse_member(self._archive, part)
            except ParseError:
                continue
            for block in self._read_content(tree):
                text = " ".join(block.text.split())
                if text in known or _PAGE_NUMBER.match(text):
                    self._skipped["page headers and footers that repeat"] += 1
                else:
                    known.add(text)
                    yield block if block.kind == "table" else _make_note(block)


def _make_note(block: Block) -> Block:
    return Block("note", block.text, block.first_line, block.last_line, links=block.links)


def _move_to_line(block: Block, line: int) -> Block:
    return Block(block.kind, block.text, line, line, block.level, block.links, block.names,
                 block.leads, block.properties)  # fmt: skip


def _list_visible_children(parent: Element) -> Iterator[Element]:
    """Yield the child elements. Of alternative versions of the same content, only the first
    non-empty version is yielded."""
    for child in parent:
        if get_local_name(child) != "AlternateContent":
            yield child
            continue
        forms = [
            form for form in child if get_local_name(form) in ("Choice", "Fallback") and len(form)
        ]
        yield from forms[0] if forms else ()


def _find_pronunciation(element: Element) -> str:
    """Return the pronunciation in a ruby element, to be written after the text, or "" for other
    elements."""
    if get_local_name(element) != "ruby":
        return ""
    base, reading = (
        "".join(part.text or "" for part in element.iterfind(f"{{*}}{name}//{{*}}t"))
        for name in ("rubyBase", "rt")
    )
    return f"{base} ({reading})" if base and reading else ""


def _map_symbols(text: str, font: str) -> str:
    """Return the characters that `text` shows in `font`. Symbol fonts map letters to symbols."""
    if not font or font.casefold() not in ("symbol", "wingdings"):
        return text
    return "".join(find_symbol(ord(c), font) or c for c in text)


def _parse_hexadecimal(text: str) -> int:
    return int(text, 16) if re.fullmatch("[0-9A-Fa-f]{1,5}", text) else 0


def _find_form_value(field: Element) -> str:
    """Return the state of a form's check box, or the selected entry of its list. Returns "" for
    other fields."""
    form = find_child(field, "ffData")
    if form is None:
        return ""
    box = find_child(form, "checkBox")
    if box is not None:
        names = {get_local_name(element) for element in box}
        return "[x]" if is_on(box, "checked" if "checked" in names else "default") else "[ ]"
    choice = find_child(form, "ddList")
    if choice is None:
        return ""
    entries = [
        get_attribute(entry, "val") for entry in choice if get_local_name(entry) == "listEntry"
    ]
    value = _find_value(choice, "result")
    chosen = int(value) if value.isdecimal() and len(value) < 4 else 0
    return entries[chosen] if chosen < len(entries) else ""


def _find_value(element: Element, *path: str) -> str:
    found = find_child(element, *path)
    return "" if found is None else get_attribute(found, "val")
