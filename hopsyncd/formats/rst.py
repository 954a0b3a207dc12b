"""Reads reStructuredText with docutils. Runs only in the confined reader process."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

from docutils import nodes, utils
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser

from hopsyncd.formats import rst_dialect
from hopsyncd.formats.blocks import (
    Block,
    Kind,
    Links,
    WrittenLink,
    make_address_link,
    make_skipped_block,
    with_title,
)
from hopsyncd.formats.fields import Head, are_fields, lead_in_of, lead_of, read_head
from hopsyncd.formats.inline import write_subscript, write_superscript
from hopsyncd.formats.list_numbers import ItemNumbers, add_label
from hopsyncd.formats.plain import read_plain
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import Table, TableBuilder
from hopsyncd.formats.tex_formulas import format_formula

rst_dialect.install()

_TARGET = re.compile(r"\.\. _`?([^`:]{1,100})`?:")
_MAX_LEADS = 3
_MAX_TARGETS = 20
_MAX_DEPTH = 6
_MAX_SUBSTITUTIONS = 8  # levels of nested substitutions
_NUMBER_STYLES = {
    "loweralpha": "a", "upperalpha": "A", "lowerroman": "i", "upperroman": "I",
}  # fmt: skip
_NEVER = 6  # docutils has no messages of this level
_WARNING = 2
_ROWS = (nodes.thead, nodes.tbody)
_LEAVES = (nodes.math, nodes.Text, nodes.superscript, nodes.subscript)
_CODE = (nodes.literal_block, nodes.doctest_block)
_TITLED = (nodes.topic, nodes.sidebar, nodes.admonition)

Leads = tuple[str, ...]


def read_rst(text: str) -> tuple[Block, ...]:
    """Read reStructuredText.

    Roles, links and emphasis become their visible text, and substitutions their replacement.
    Literal blocks and code directives are `code`; the argument and the content of a directive that
    docutils does not know are kept. A footnote follows the block that refers to it. Targets become
    names of the document. Terms, items and descriptions are leads of the blocks nested in them.
    Fields at the top, as in PEPs, become the title and facts about the document. Text that docutils
    cannot parse is kept as code; a document that is nested too deeply is read as plain text.
    """
    lines = text.expandtabs(8).split("\n")
    head, end = _read_head(lines)
    try:
        document = _parse("\n".join([*[""] * end, *lines[end:]]))
        elements = list(document.findall(nodes.Element))
        blocks = tuple(_Reader(document, elements).read(document, (), 0))
    except RecursionError:  # deeply nested lists
        return read_plain(text)
    blocks = with_title((*head.blocks, *blocks), head.title, head.title_line)
    names = (*head.names, *_list_targets(elements))
    if blocks and names:
        blocks = (replace(blocks[0], names=names), *blocks[1:])
    comments = sum(isinstance(node, nodes.comment) for node in elements)
    return (*blocks, make_skipped_block({"comments": comments})) if blocks and comments else blocks


def _read_head(lines: Sequence[str]) -> tuple[Head, int]:
    """Return the fields at the top of the document, and the line where the fields end (0 if there
    are no fields)."""
    start = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    run = [line.rstrip() for line in lines[start:end]]
    return (read_head(start + 1, run), end) if are_fields(run) else (Head(), 0)


@cache
def _load_default_settings() -> Any:
    """Return the default settings of docutils. They are cached, because collecting them takes
    longer than parsing a short document."""
    return get_default_settings(Parser)


def _parse(text: str) -> nodes.document:
    settings = _load_default_settings().copy()
    settings.report_level = settings.halt_level = _NEVER
    settings.file_insertion_enabled = False
    settings.syntax_highlight = "none"
    settings.line_length_limit = len(text) + 1
    document: nodes.document = utils.new_document("", settings)
    Parser(inliner=rst_dialect.make_inliner()).parse(text, document)
    return document


def _list_targets(elements: Sequence[nodes.Element]) -> tuple[str, ...]:
    """Return the names of targets in the document, to which other documents can refer."""
    found = (
        _TARGET.match(node.rawsource)
        for node in elements
        if isinstance(node, nodes.target) and not node.get("refuri")
    )
    return tuple(name[1] for name in found if name)[:_MAX_TARGETS]


class _Reader:
    """Reads the document tree in one pass. `elements` are all elements of the tree."""

    def __init__(self, document: nodes.document, elements: Sequence[nodes.Element]) -> None:
        self._substitutions = document.substitution_defs
        self._addresses = {
            name: target["refuri"]
            for target in elements
            if isinstance(target, nodes.target) and target.get("refuri")
            for name in target["names"]
        }
        notes = [node for node in elements if isinstance(node, nodes.footnote | nodes.citation)]
        self._notes = {name: note for note in notes for name in note["names"]}
        self._waiting_notes = iter([note for note in notes if not note["names"]])
        self._has_notes = bool(notes)
        self._shown_notes: set[int] = set()
        self._readers: tuple[tuple[Any, Callable[..., Iterator[Block]]], ...] = (
            (nodes.title, self._read_heading),
            (_CODE, _read_code),
            (nodes.math_block, _read_formula),
            ((nodes.bullet_list, nodes.enumerated_list), self._read_list),
            (nodes.definition_list, self._read_definitions),
            ((nodes.field_list, nodes.option_list), self._read_fields),
            (nodes.table, self._read_table),
            (rst_dialect.described, self._read_described),
            (rst_dialect.contents, _read_contents),
            (_TITLED, self._read_titled),
            (nodes.image, _read_image),
            (nodes.figure, self._read_figure),
            ((nodes.line_block, nodes.rubric, nodes.attribution), self._read_lines),
            ((nodes.footnote, nodes.citation), self._read_note),
            (nodes.system_message, _read_rest),
        )

    def read(self, parent: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        """Read the children of a node. A paragraph that ends with a colon is a lead of the list or
        table after it, or of a run of elements of one type, such as descriptions of options."""
        lead_in: Leads = ()
        introduced: type[nodes.Node] | None = None
        for node in parent.children:
            if isinstance(node, nodes.paragraph):
                block = self._make_text_block("paragraph", node, leads)
                lead = lead_in_of(block.text)
                lead_in, introduced = (lead,) if lead else (), None
                yield from self._add_notes(block, node)
            elif isinstance(node, nodes.section):
                yield from self.read(node, (), depth + 1)
                lead_in = ()
            elif isinstance(node, nodes.Element):
                if not isinstance(node, nodes.Invisible):
                    lead_in = lead_in if introduced in (None, type(node)) else ()
                    introduced = type(node)
                yield from self._read_one(node, leads + lead_in, depth)

    def _read_one(self, node: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        for types, read in self._readers:
            if isinstance(node, types):
                yield from read(node, leads, depth)
                return
        if isinstance(node, nodes.Body) and not isinstance(node, nodes.Invisible):
            yield from self.read(node, leads, depth)

    def _read_heading(self, node: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        line = max(1, _find_line(node) - 1)  # docutils reports the next line
        text, links = self._read_text(node)
        yield Block("heading", text, line, line, min(max(depth, 1), _MAX_DEPTH), links)

    def _read_lines(self, node: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        yield self._make_text_block("paragraph", node, leads)

    def _read_list(self, node: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        numbers = _make_numbers(node) if isinstance(node, nodes.enumerated_list) else None
        for item in node.children:
            yield from self._read_item(item, numbers.take() if numbers else "", leads, depth)

    def _read_definitions(self, node: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        for item in node.children:
            yield from self._read_named(item, item.children[:-1], leads, depth)

    def _read_fields(self, node: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        for item in node.children:
            yield from self._read_named(item, item.children[:1], leads, depth)

    def _read_item(self, item: nodes.Node, label: str, leads: Leads, depth: int) -> Iterator[Block]:
        first, *rest = [*item.children] or [None]
        if not isinstance(first, nodes.paragraph):
            yield from self._read_children(item.children, leads, depth)
            return
        block = self._make_text_block("list_item", first, leads)
        text, links = add_label(label, block.text, block.links)
        block = replace(block, text=text, links=links)
        yield from self._add_notes(block, first)
        yield from self._read_children(rest, (*leads, lead_of(block.text)), depth)

    def _read_named(
        self, item: nodes.Node, naming: Sequence[nodes.Node], leads: Leads, depth: int
    ) -> Iterator[Block]:
        """Read a term, a field or an option with its text."""
        name = " : ".join(filter(None, (" ".join(part.astext().split()) for part in naming)))
        links = tuple(
            link for part in naming if isinstance(part, nodes.TextElement)
            for link in self._read_text(part)[1]
        )  # fmt: skip
        body = item.children[-1].children
        line = item.line or _find_line(item)
        text, last, rest = name, line, [*body]
        if body and isinstance(body[0], nodes.paragraph):
            content, more = self._read_text(body[0])
            text = f"{name}{' ' if name[-1:] in ('.', ':', '?') else ': '}{content}"
            links += tuple((offset + len(text) - len(content), link) for offset, link in more)
            last = _find_last_line(body[0])
            rest = [*body[1:]]
        elif isinstance(item, nodes.field):
            text = f"{name}:"
        block = Block(
            "list_item", text, line, max(line, last), links=links, leads=_select_near(leads)
        )
        yield from self._add_notes(block, item)
        yield from self._read_children(rest, (*leads, lead_of(name)), depth)

    def _read_children(
        self, children: Sequence[nodes.Node], leads: Leads, depth: int
    ) -> Iterator[Block]:
        holder = nodes.container()
        holder.children = [*children]
        yield from self.read(holder, leads, depth)

    def _read_described(
        self, node: rst_dialect.described, leads: Leads, depth: int
    ) -> Iterator[Block]:
        argument = node.children[0]
        block = self._make_text_block("paragraph", argument, leads)
        if block.text and node["is_shown"]:
            yield from self._add_notes(block, argument)
        below = (*leads, lead_of(block.text)) if block.text and node["is_lead"] else leads
        yield from self._read_children(node.children[1:], below, depth)

    def _read_titled(self, node: nodes.Element, leads: Leads, depth: int) -> Iterator[Block]:
        title, *rest = node.children
        if not isinstance(title, nodes.title):
            yield from self._read_children(node.children, leads, depth)
            return
        block = replace(
            self._make_text_block("paragraph", title, leads), first_line=_find_line(node)
        )
        block = replace(block, last_line=block.first_line)
        yield block
        yield from self._read_children(rest, (*leads, lead_of(block.text)), depth)

    def _read_figure(self, node: nodes.figure, leads: Leads, depth: int) -> Iterator[Block]:
        shown = False
        for child in node.children:
            if isinstance(child, nodes.caption):
                yield self._make_text_block("figure", child, leads)
                shown = True
            elif isinstance(child, nodes.legend):
                yield from self.read(child, leads, depth)
        if not shown:
            for image in node.findall(nodes.image):
                yield from _read_image(image, leads)

    def _read_table(self, node: nodes.table, leads: Leads, depth: int) -> Iterator[Block]:
        yield from make_table_blocks(self._build_grid(node), _select_near(leads))

    def _build_grid(self, node: nodes.table) -> Table:
        title = next((child for child in node.children if isinstance(child, nodes.title)), None)
        builder = TableBuilder(caption=self._read_text(title)[0] if title else "")
        parts = [part for group in node.children for part in group.children]
        stubs = [part.get("stub", 0) for part in parts if isinstance(part, nodes.colspec)]
        for row in (row for part in parts if isinstance(part, _ROWS) for row in part.children):
            # Cells of a csv-table have no line numbers.
            line = max(
                _find_line(node), min(filter(None, map(_find_first_line, row.children)), default=1)
            )
            is_head = isinstance(row.parent, nodes.thead)
            builder.begin_row(line, is_header=is_head)
            for column, entry in enumerate(row.children):
                text, links, inner = self._read_cell(entry)
                builder.add(
                    text,
                    is_header=column < len(stubs) and bool(stubs[column]),
                    rowspan=entry.get("morerows", 0) + 1,
                    colspan=entry.get("morecols", 0) + 1,
                    links=links,
                    inner=inner,
                )
                builder.extend_row(
                    max([line, *map(_find_last_line, entry.findall(nodes.paragraph))])
                )
        return builder.build()

    def _read_cell(self, entry: nodes.Element) -> tuple[str, Links, tuple[Table, ...]]:
        text, links = "", Links()
        inner = [child for child in entry.children if isinstance(child, nodes.table)]
        for table in inner:
            entry.remove(table)
        for part in self.read(entry, (), 0):
            is_item = part.kind == "list_item" and text[-1:] not in tuple(";:,.")
            joint = ("; " if is_item else "\n") if text else ""
            start = len(text) + len(joint)
            text += joint + part.text
            links += tuple((start + offset, link) for offset, link in part.links)
        return text, links, tuple(map(self._build_grid, inner))

    def _add_notes(self, block: Block, node: nodes.Node) -> Iterator[Block]:
        """Yield a block, then the footnotes that it refers to."""
        yield block
        for reference in node.findall(nodes.footnote_reference) if self._has_notes else ():
            name = reference.get("refname")
            note = self._notes.get(name) if name else next(self._waiting_notes, None)
            if note is not None and not isinstance(note, nodes.citation):
                yield from self._read_note(note)

    def _read_note(self, note: nodes.Node, leads: Leads = (), depth: int = 0) -> Iterator[Block]:
        if id(note) in self._shown_notes:
            return
        self._shown_notes.add(id(note))
        label = next(iter(note.findall(nodes.label)), None)
        mark = f"[{label.astext()}] " if label and isinstance(note, nodes.citation) else ""
        for block in self.read(note, (), 0):
            kind: Kind = "note" if block.kind == "paragraph" else block.kind
            yield replace(block, kind=kind, text=mark + block.text)
            mark = ""

    def _make_text_block(self, kind: Kind, node: nodes.Node, leads: Leads) -> Block:
        text, links = self._read_text(node)
        first = _find_line(node)
        return Block(
            kind, text, first, _find_last_line(node), links=links, leads=_select_near(leads)
        )

    def _read_text(self, node: nodes.Node) -> tuple[str, Links]:
        """Return the visible text of a node with inline markup, and its links."""
        text, links = "", list[tuple[int, WrittenLink]]()
        for part, link in self._list_inline_parts(node, 0):
            if link:
                links.append((len(text), link))
            if isinstance(part, nodes.superscript):
                text += write_superscript(part.astext(), text)
            elif isinstance(part, nodes.subscript):
                text += write_subscript(part.astext(), text)
            elif isinstance(part, nodes.math):
                text += format_formula(part.astext())
            else:
                text += part.astext() if isinstance(part, nodes.Node) else part
        return text, tuple(links)

    def _list_inline_parts(
        self, node: nodes.Node, depth: int
    ) -> Iterator[tuple[nodes.Node | str, WrittenLink | None]]:
        """Yield the pieces of text inside a node, each with the link that begins at that piece, or
        None."""
        for child in node.children:
            if isinstance(child, nodes.reference):
                address = child.get("refuri") or self._addresses.get(child.get("refname", ""), "")
                yield "", make_address_link(address, child.astext()) if address else None
                yield from self._list_inline_parts(child, depth)
            elif isinstance(child, nodes.substitution_reference):
                substitution = self._substitutions.get(child.get("refname", ""))
                known = substitution is not None and depth <= _MAX_SUBSTITUTIONS
                yield from self._list_inline_parts(substitution if known else child, depth + 1)
            elif isinstance(child, rst_dialect.linked):
                yield child, child["link"]
            elif isinstance(child, nodes.image):
                yield child.get("alt", ""), None
            elif isinstance(child, (nodes.footnote_reference, nodes.citation_reference)):
                yield f"[{child.astext()}]" if child.astext() else "", None
            elif isinstance(child, nodes.line):
                yield from self._list_inline_parts(child, depth)
                yield "\n", None
            elif isinstance(child, _LEAVES):
                yield child, None
            elif not isinstance(child, nodes.raw):
                yield from self._list_inline_parts(child, depth)


def _read_code(node: nodes.Element, leads: Leads, depth: int = 0) -> Iterator[Block]:
    text, first = node.astext(), _find_line(node)
    yield Block("code", text, first, first + text.count("\n"), leads=_select_near(leads))


def _read_formula(node: nodes.Element, leads: Leads, depth: int = 0) -> Iterator[Block]:
    line = _find_line(node)
    yield Block("paragraph", format_formula(node.astext()), line, line, leads=_select_near(leads))


def _read_rest(message: nodes.system_message, leads: Leads, depth: int) -> Iterator[Block]:
    """Read text that docutils could not parse, unchanged, from the error message of docutils."""
    for source in message.findall(nodes.literal_block) if message["level"] >= _WARNING else ():
        source.line = message.get("line", 1)
        yield from _read_code(source, leads)


def _read_contents(node: rst_dialect.contents, leads: Leads, depth: int) -> Iterator[Block]:
    line = _find_line(node)
    yield Block("paragraph", "", line, line, links=tuple((0, link) for link in node["links"]))


def _read_image(node: nodes.image, leads: Leads, depth: int = 0) -> Iterator[Block]:
    line = _find_line(node)
    if text := node.get("alt", "").strip():
        yield Block("figure", text, line, line, leads=_select_near(leads))


def _make_numbers(items: nodes.enumerated_list) -> ItemNumbers:
    return ItemNumbers(items.get("start", 1), _NUMBER_STYLES.get(items["enumtype"], "1"))


def _select_near(leads: Leads) -> Leads:
    """Return the innermost leads, without consecutive duplicates, so that deeply nested text does
    not repeat all leads."""
    return tuple(lead for lead, _ in groupby(leads) if lead)[-_MAX_LEADS:]


def _find_line(node: nodes.Node) -> int:
    """Return the line of a node, or of its nearest ancestor that has a line."""
    around: nodes.Node | None = node
    while around is not None:
        if around.line:
            return int(around.line)
        around = around.parent
    return 1


def _find_first_line(node: nodes.Node) -> int:
    return min((part.line for part in node.findall() if part.line), default=0)


def _find_last_line(node: nodes.Node) -> int:
    source = getattr(node, "rawsource", "") or node.astext()
    return _find_line(node) + source.strip("\n").count("\n")
