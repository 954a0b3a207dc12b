"""Reads the styles and automatic numbers of Word documents."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import Children, find_child, get_attribute, get_local_name
from hopsyncd.formats.list_numbers import format_number, parse_number

TITLE = -1  # the level of the document's title, above all headings
# Word writes the names in English; other programs write them in the user's language.
_HEADING_NAME = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|titolo|kop|rubrik|overskrift|otsikko|nagłówek"
    r"|nadpis|címsor|titlu|başlık|заголовок|επικεφαλίδα|标题|標題|見出し|제목) ?([1-9])\Z"  # noqa: RUF001
)
_TITLE_NAMES = ("title", "titel", "titulo", "título", "titolo", "標題", "标题", "表題")
_MAX_BASES = 10  # the longest chain of base styles that is followed
_LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_MAX_LABEL_CHARACTERS = 60
_STYLES = {
    "lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I",
    "decimalZero": "01",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    """The settings of a style for paragraphs or runs; the empty style has no settings."""

    level: int = 0  # the heading level; TITLE for the title, 0 for other styles
    number: str = ""  # the id of the list
    depth: int | None = None  # the level in that list, from 0
    mark: str = ""  # "^" raises text, "_" lowers it
    is_caption: bool = False


NO_STYLE = Style()


class Styles:
    """The styles of a document. Each style is parsed when it is first used."""

    def __init__(self, data: bytes) -> None:
        self._found = Children(data, "style", "styleId")
        self._known = {"": NO_STYLE}

    def __getitem__(self, name: str) -> Style:
        """Return the style with the id `name`, or the empty style."""
        if name not in self._known:
            self._known[name] = _resolve_style(name, self._found)
        return self._known[name]


def _resolve_style(name: str, found: Children) -> Style:
    """Return the style with the id `name`, including inherited settings. `found` finds the element
    of each style."""
    level, number, mark = 0, "", ""
    depth: int | None = None
    is_caption = False
    for _ in range(_MAX_BASES):
        style = found.get(name)
        if style is None:
            break
        named = _read_value(style, "name").casefold()
        level = level or _find_level(named, style)
        is_caption = is_caption or named in ("caption", "table caption", "image caption")
        mark = mark or find_script_mark(find_child(style, "rPr"))
        own_number, own_depth = read_number(style)
        number = number or own_number
        depth = own_depth if depth is None else depth
        name = _read_value(style, "basedOn")
    return Style(level, number, depth, mark, is_caption)


def _find_level(named: str, style: Element) -> int:
    if heading := _HEADING_NAME.match(named):
        return min(int(heading[1]), 6)
    return TITLE if named in _TITLE_NAMES else find_outline_level(style)


def find_outline_level(element: Element) -> int:
    """Return the heading level in the element's own properties, or 0 if they state no level."""
    level = _read_value(element, "pPr", "outlineLvl")
    return min(int(level) + 1, 6) if level.isdecimal() and int(level) < 9 else 0


def find_script_mark(properties: Element | None) -> str:
    """Return the mark of a run: "^" for superscript, "_" for subscript, "" for normal text.

    A run that is moved up or down by several points also counts.
    """
    if properties is None:
        return ""
    if mark := {"superscript": "^", "subscript": "_"}.get(_read_value(properties, "vertAlign"), ""):
        return mark
    found = _POSITION.match(_read_value(properties, "position"))
    return "" if not found else "_" if found[1] else "^"


def read_number(element: Element) -> tuple[str, int | None]:
    """Return the list id of a paragraph or style ("" outside lists), and its level in that list, or
    None if the element states no level."""
    found = find_child(element, "pPr", "numPr")
    if found is None:
        return "", None
    depth = _read_value(found, "ilvl")
    return _read_value(found, "numId"), int(depth) if depth in _DEPTHS else None


# Half-points: smaller shifts only align text with pictures and symbols.
_POSITION = re.compile(r"(-?)(?:[4-9]|1\d)\Z")
_DEPTHS = tuple(map(str, range(_LEVELS)))


@dataclass(slots=True)
class _Level:
    start: int = 1
    kind: str = "decimal"
    text: str = ""
    is_legal: bool = False  # whether all numbers in a label are decimal
    restarts_after: int = _LEVELS  # items of lower levels than this restart the count
    style: str = ""


class Numbering:
    """Counts the list items of a document as it is read from the beginning."""

    def __init__(self, data: bytes, styles: Styles) -> None:
        self._styles = styles
        self._said = Children(data, "num", "numId")
        self._said_abstract = Children(data, "abstractNum", "abstractNumId")
        self._abstract: dict[str, dict[int, _Level]] = {}
        self._lists: dict[str, tuple[str, dict[int, _Level]]] = {}
        self._restarts: dict[str, dict[int, int]] = {}  # by list: start numbers of restarted levels
        self._counts: dict[str, list[int | None]] = {}

    def _list(self, number: str) -> tuple[str, dict[int, _Level]]:
        """Return the id of a list's abstract definition, and the levels that the list overrides, by
        depth."""
        if number not in self._lists:
            abstract, overridden = self._read_list(number)
            if linked := self._find_style(abstract):
                other = self._styles[linked].number
                if self._said.get(other) is not None:
                    abstract, above = self._read_list(other)
                    overridden = above | overridden
            self._lists[number] = (abstract, overridden)
        return self._lists[number]

    def _find_style(self, abstract: str) -> str:
        """Return the id of the style from which an abstract list inherits its levels, or ""."""
        found = self._said_abstract.get(abstract)
        return "" if found is None else _read_value(found, "numStyleLink")

    def _read_list(self, number: str) -> tuple[str, dict[int, _Level]]:
        definition = self._said.get(number)
        if definition is None:
            return "", {}
        overridden: dict[int, _Level] = {}
        restarts: dict[int, int] = {}
        for override in (part for part in definition if get_local_name(part) == "lvlOverride"):
            overridden |= _read_levels(override)
            depth, start = get_attribute(override, "ilvl"), _read_value(override, "startOverride")
            if depth in _DEPTHS and start.isdecimal() and len(start) < 10:
                restarts[int(depth)] = int(start)
        self._restarts.setdefault(number, restarts)
        return _read_value(definition, "abstractNumId"), overridden

    def find_depth(self, number: str, style: str) -> int:
        """Return the level of the list `number` that uses a style, or 0 if no level of the list
        names the style."""
        levels = self._find_list_levels(number)
        return next(
            (depth for depth, settings in levels.items() if style and settings.style == style), 0
        )

    def make_next_label(self, number: str, depth: int) -> str:
        """Count an item of the list `number`. Returns its label, such as "1.2" or "a)", or "" for a
        bullet."""
        if self._said.get(number) is None:
            return ""
        levels = self._find_list_levels(number)
        counts = self._counts.setdefault(self._list(number)[0], [None] * _LEVELS)
        restarts = self._restarts[number]
        if depth in restarts:
            counts[depth] = restarts.pop(depth)
        else:
            before = counts[depth]
            counts[depth] = levels.get(depth, _Level()).start if before is None else before + 1
        for below in range(depth + 1, _LEVELS):
            if levels.get(below, _Level()).restarts_after > depth:
                counts[below] = None
        for above in range(depth):
            if counts[above] is None:
                counts[above] = levels.get(above, _Level()).start
        level = levels.get(depth)
        if level is None or level.kind in ("bullet", "none"):
            return ""

        def write_number(place: re.Match[str]) -> str:
            index = int(place[1]) - 1
            kind = "decimal" if level.is_legal else levels.get(index, _Level()).kind
            return (
                format_number(counts[index] or 0, _STYLES.get(kind, "1")) if index <= depth else ""
            )

        return _PLACE.sub(write_number, level.text).strip()[:_MAX_LABEL_CHARACTERS]

    def _find_list_levels(self, number: str) -> dict[int, _Level]:
        abstract, overridden = self._list(number)
        if abstract not in self._abstract:
            found = self._said_abstract.get(abstract)
            self._abstract[abstract] = {} if found is None else _read_levels(found)
        return self._abstract[abstract] | overridden


def _read_levels(parent: Element) -> dict[int, _Level]:
    levels: dict[int, _Level] = {}
    for child in parent:
        depth = get_attribute(child, "ilvl")
        if get_local_name(child) != "lvl" or depth not in _DEPTHS:
            continue
        level = _Level(
            kind=_read_value(child, "numFmt") or "decimal",
            text=_read_value(child, "lvlText"),
            is_legal=find_child(child, "isLgl") is not None,
            style=_read_value(child, "pStyle"),
        )
        start, restart = _read_value(child, "start"), _read_value(child, "lvlRestart")
        level.start = parse_number(start, 1)
        if restart in _DEPTHS:
            level.restarts_after = int(restart)
        levels[int(depth)] = level
    return levels


def is_on(properties: Iterable[Element], name: str) -> bool:
    """Whether the property `name` is present and not turned off."""
    return any(
        get_local_name(element) == name
        and get_attribute(element, "val") not in ("0", "false", "off")
        for element in properties
    )


def _read_value(element: Element, *path: str) -> str:
    found = find_child(element, *path)
    return "" if found is None else get_attribute(found, "val")
