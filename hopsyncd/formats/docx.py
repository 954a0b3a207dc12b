"""DOCX: headings, paragraphs, list items, tables and notes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from hopsyncd.formats.archive import local_name, opened, outermost, targets_of, tree_of
from hopsyncd.formats.blocks import Block, Kind, with_title
from hopsyncd.formats.fields import table_texts

_HEADING_NAME = re.compile(r"heading ([1-9])")  # files in all languages name styles in English
_SPELLED = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# Text that was deleted or moved away, a second form for older programs, and text boxes.
_NOT_IN_LINE = ("del", "moveFrom", "Fallback", "txbxContent")
_TITLE = -1  # the level of the document's title, above all headings
_MOST_BASES = 10  # how far a style is followed to the styles it is based on


@dataclass(frozen=True, slots=True)
class _Style:
    level: int  # of a heading; _TITLE for the title, 0 for others
    is_list: bool


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a document's paragraphs refer to."""

    styles: Mapping[str, _Style]
    notes: Mapping[tuple[str, str], Element]  # by kind and id


def docx_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a document; the lines of its blocks count paragraphs, headings and table rows alike.

    Its title is the level-1 heading, and all headings stand below it.
    """
    archive = opened(data)
    main = next(name for kind, name in targets_of(archive, "").values() if kind == "officeDocument")
    others = dict(targets_of(archive, main).values())
    parts = _Parts(_styles(archive, others), _notes(archive, others))
    body = tree_of(archive, main).find("{*}body")
    told = [] if body is None else [*enumerate(_told(body, parts), 1)]
    title = next(((text, number) for number, (_, text, level) in told if level == _TITLE), ("", 1))
    blocks = (
        Block(kind, text, number, number, 1 if level == _TITLE else level)
        for number, (kind, text, level) in told
    )
    return with_title(tuple(blocks), *title)


def _styles(archive: ZipFile, others: Mapping[str, str]) -> dict[str, _Style]:
    if "styles" not in others:
        return {}
    found = {_value(style, "styleId"): style for style in tree_of(archive, others["styles"])}
    return {name: _style(name, found) for name in found}


def _style(name: str, found: Mapping[str, Element]) -> _Style:
    """What a style says, or else a style that it is based on."""
    for _ in range(_MOST_BASES):
        if name not in found:
            break
        style = found[name]
        named = _value_of(style, "name").casefold()
        if heading := _HEADING_NAME.fullmatch(named):
            return _Style(min(int(heading[1]), 6), False)
        if named == "title":
            return _Style(_TITLE, False)
        if level := _outline(style):
            return _Style(level, False)
        if style.find("{*}pPr/{*}numPr") is not None:
            return _Style(0, True)
        name = _value_of(style, "basedOn")
    return _Style(0, False)


def _notes(archive: ZipFile, others: Mapping[str, str]) -> dict[tuple[str, str], Element]:
    return {
        (kind, _value(note, "id")): note
        for kind in ("footnote", "endnote")
        if f"{kind}s" in others
        for note in tree_of(archive, others[f"{kind}s"])
    }


def _told(parent: Element, parts: _Parts) -> Iterator[tuple[Kind, str, int]]:
    """Yield kind, text and level of all that has text, in reading order."""
    for child in parent:
        match local_name(child):
            case "p":
                yield from _paragraph(child, parts)
            case "tbl":
                yield from _rows(child)
            case "del" | "moveFrom" | "sectPr":
                pass
            case _:
                yield from _told(child, parts)


def _paragraph(paragraph: Element, parts: _Parts) -> Iterator[tuple[Kind, str, int]]:
    text = "".join(_text(paragraph)).strip()
    style = parts.styles.get(_value_of(paragraph, "pPr/{*}pStyle"), _Style(0, False))
    level = _outline(paragraph) or style.level
    if text and level:
        yield "heading", " ".join(text.split()), level
    elif text:
        is_item = style.is_list or paragraph.find("{*}pPr/{*}numPr") is not None
        yield "list_item" if is_item else "paragraph", text, 0
    yield from _beside(paragraph, parts)


def _beside(element: Element, parts: _Parts) -> Iterator[tuple[Kind, str, int]]:
    """What belongs to a paragraph beside its own text: its notes, and text boxes anchored in it."""
    for child in element:
        match local_name(child):
            case "txbxContent":
                yield from _told(child, parts)
            case "footnoteReference" | "endnoteReference" as reference:
                key = reference.removesuffix("Reference"), _value(child, "id")
                if key in parts.notes and (note := "".join(_text(parts.notes[key])).strip()):
                    yield "paragraph", note, 0
            case "del" | "moveFrom" | "Fallback":
                pass
            case _:
                yield from _beside(child, parts)


def _rows(table: Element) -> Iterator[tuple[Kind, str, int]]:
    rows = [
        [" ".join("".join(_text(cell)).split()) for cell in outermost(row, "tc")]
        for row in outermost(table, "tr")
    ]
    for row, text in zip(rows, table_texts(rows), strict=True):
        if any(row):
            yield "table", text, 0


def _text(element: Element) -> Iterator[str]:
    for child in element:
        name = local_name(child)
        if name == "t":
            yield child.text or ""
        elif name in _SPELLED:
            yield _SPELLED[name]
        elif name == "p":
            yield from _text(child)
            yield "\n"
        elif name not in _NOT_IN_LINE and name != "pPr":
            yield from _text(child)


def _outline(element: Element) -> int:
    """The heading level in the element's own properties; 0 for none."""
    said = _value_of(element, "pPr/{*}outlineLvl")
    return min(int(said) + 1, 6) if said.isdecimal() and int(said) < 9 else 0


def _value_of(element: Element, path: str) -> str:
    found = element.find("{*}" + path)
    return "" if found is None else _value(found, "val")


def _value(element: Element, name: str) -> str:
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")
