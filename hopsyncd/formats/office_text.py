"""Helpers for the readers of Office documents: lines with superscripts and links, lists, symbols,
diagrams, and document properties."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import get_local_name
from hopsyncd.formats.blocks import Block, Links, WrittenLink, join_lines, make_address_link
from hopsyncd.formats.fields import lead_in_of, lead_of
from hopsyncd.formats.inline import write_subscript, write_superscript

_DIAGRAM = "Diagram:"
_MAX_LEADS, _MAX_LEVELS = 3, 12
# The signs of the font Symbol, by their codes from 0x20 and from 0xA0.
_SYMBOLS = dict(
    enumerate(
        " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾"  # noqa: RUF001
        "αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",  # noqa: RUF001
        0x20,
    )
) | dict(enumerate("€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑", 0xA0))  # noqa: RUF001
_WINGDINGS = {
    **{0x4A: "☺", 0x6F: "☐", 0x71: "☐", 0x72: "☐", 0xA7: "▪", 0xA8: "☐", 0xDF: "←", 0xE0: "→"},
    **{0xE1: "↑", 0xE2: "↓", 0xE8: "→", 0xF0: "⇒", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"},
}
_FONTS = {"symbol": _SYMBOLS, "wingdings": _WINGDINGS}
_PRIVATE = 0xF000  # where Word stores the characters of symbol fonts
_ISO_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?(?!\d)")
# Default titles and names of templates and programs.
_NO_TITLE = re.compile(
    r"(?:word document|powerpoint presentation|presentation|slide \d+|untitled|unknown"
    r"|(?:microsoft (?:word|powerpoint) - )?(?:document|presentation)\d*(?:\.\w{3,4})?)\Z",
    re.IGNORECASE,
)
_BY_PROGRAM = re.compile(
    r"\W*\b(?:description automatically generated(?: with \w+ confidence)?"
    r"|ai-generated content may be incorrect)\W*\Z",
    re.IGNORECASE,
)
# When the templates of python-docx and python-pptx were made. Programs seldom change these dates.
_TEMPLATE_DATES = ("2013-12-23T23:15:00Z", "2013-01-27T09:14:16Z", "2013-01-27T09:15:58Z")
_NOBODY = ("python-docx", "user", "unknown", "admin", "microsoft office user")
_PROPERTIES = {
    **{"creator": "author", "initial-creator": "author", "keywords": "tag", "keyword": "tag"},
    **{"created": "created", "creation-date": "created", "date": "created"},
    **{"modified": "modified", "language": "language"},
}


def find_symbol(code: int, font: str) -> str:
    """Return the character for a code in a symbol font, or an empty string."""
    table = _FONTS.get(font.strip().casefold())
    if table is not None:
        return table.get(code - _PRIVATE if code >= _PRIVATE else code, "")
    is_known = 0x20 <= code < 0xD800 or 0xF900 <= code <= 0x10FFFF
    return chr(code) if is_known else ""


class Line:
    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self._links: list[tuple[int, str, int]] = []
        self._mark = ""
        self._marked: list[str] = []

    def add(self, text: str, mark: str = "") -> None:
        """Add text; `mark` is "^" for superscript and "_" for subscript."""
        if mark and mark == self._mark:
            self._marked.append(text)
            return
        self._flush()
        if mark:
            self._mark, self._marked = mark, [text]
        elif text:
            self._put(text)

    def mark_link(self, target: str, start: int) -> None:
        """Turn the text from offset `start` (a result of `begin`) to the end into a link."""
        self._flush()
        self._links.append((start, target, self.length))

    def begin(self) -> int:
        """Return the offset of the next text that is added. The result can be passed to
        `mark_link`."""
        self._flush()
        return self.length

    def begin_item(self) -> None:
        """Begin a list item: end the previous item with a semicolon unless it ends with a
        punctuation mark."""
        self._flush()
        has_line = len(self._parts) > 1 and self._parts[-1] == "\n"
        if has_line and self._parts[-2][-1:] not in tuple(";:,.\n"):
            self._parts[-1] = ";\n"
            self.length += 1

    def take_text(self) -> tuple[str, Links]:
        """Return the text without surrounding white space, and its links."""
        self._flush()
        whole = "".join(self._parts)
        text = whole.strip()
        offset = len(whole) - len(whole.lstrip())
        links: list[tuple[int, WrittenLink]] = []
        for start, target, end in sorted(self._links):
            if link := make_address_link(target, whole[start:end]):
                links.append((min(max(start - offset, 0), len(text)), link))
        return text, tuple(links)

    def _flush(self) -> None:
        if self._mark:
            before = self._parts[-1] if self._parts else ""
            change = write_superscript if self._mark == "^" else write_subscript
            text, self._mark = "".join(self._marked), ""
            self._put(change(text, before))

    def _put(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self.length += len(text)


class ListLeads:
    """Tracks the context of list items: the sentence that introduces their list, and their parent
    items."""

    def __init__(self) -> None:
        self.introduction = ""
        self._items: list[tuple[int, str]] = []

    def add_item(self, block: Block, level: int) -> Block:
        """Return a list item with its leads. `level` is the nesting level of the item, from 0."""
        while self._items and self._items[-1][0] >= level:
            self._items.pop()
        above = [self.introduction, *(text for _, text in self._items)]
        if len(self._items) < _MAX_LEVELS:
            self._items.append((level, lead_of(block.text)))
        leads = tuple(dict.fromkeys(filter(None, above)))[-_MAX_LEADS:]
        return replace(block, leads=leads)

    def end(self, text: str = "") -> None:
        """End the list at text that is not an item. This text may introduce the next list."""
        self._items = []
        self.introduction = lead_in_of(text)


def make_note(author: str, text: str, links: Links, line: int) -> Block:
    """Make the block of a note or comment. If `author` is not empty, the note begins with it."""
    prefix = f"{author}: " if author else ""
    links = tuple((offset + len(prefix), link) for offset, link in links)
    return Block("note", prefix + text, line, line, links=links)


def insert_attached(
    blocks: Iterable[Block],
    attached: Iterable[tuple[int, Element]],
    read: Callable[[Element], Iterator[Block]],
) -> Iterator[Block]:
    """Yield the blocks of a table, and the blocks of the objects in its cells between its parts.

    attached: each object, with the line number of its row, ascending.
    """
    after = iter(attached)
    waiting = next(after, None)
    for block in blocks:
        while waiting and block.kind == "table" and waiting[0] < block.first_line:
            yield from read(waiting[1])
            waiting = next(after, None)
        yield block
    while waiting:
        yield from read(waiting[1])
        waiting = next(after, None)


def clean_description(description: str) -> str:
    """Return the description of a picture, without the note that Office adds to generated
    descriptions."""
    return _BY_PROGRAM.sub("", join_lines(description)).strip()


def read_diagram(data: Element, line: int) -> Iterator[Block]:
    """Yield a list item for each shape of a SmartArt diagram, read from its data part."""
    texts = tuple(_list_diagram_texts(data))
    if texts:
        yield Block("figure", _DIAGRAM, line, line)
    for text in texts:
        yield Block("list_item", text, line, line, leads=(_DIAGRAM,))


def _list_diagram_texts(data: Element) -> Iterator[str]:
    for point in data.iter():
        if get_local_name(point) != "pt":
            continue
        paragraphs = (element for element in point.iter() if get_local_name(element) == "p")
        texts = (
            join_lines("".join(t.text or "" for t in paragraph.iter() if get_local_name(t) == "t"))
            for paragraph in paragraphs
        )
        if text := "; ".join(filter(None, texts)):
            yield text


def read_metadata(elements: Iterable[Element]) -> tuple[list[str], list[tuple[str, str]]]:
    """Read the titles and the (name, value) properties in the metadata of a file."""
    titles: list[str] = []
    properties: list[tuple[str, str]] = []
    for element in elements:
        name, text = get_local_name(element), join_lines("".join(element.itertext()))
        if name == "title" and text and not _NO_TITLE.match(text):
            titles.append(text)
        kind = _PROPERTIES.get(name, "")
        if kind in ("created", "modified"):
            is_set = _ISO_DATE.match(text) and text not in _TEMPLATE_DATES
            values = [text] if is_set else []
        elif kind == "tag":
            values = [part.strip() for part in re.split("[,;]", text)]
        else:
            values = [text] if text.casefold() not in _NOBODY else []
        properties += [(kind, value) for value in values if kind and value]
    return titles, list(dict.fromkeys(properties))


def with_metadata(
    blocks: Sequence[Block], titles: Iterable[str], properties: Iterable[tuple[str, str]]
) -> tuple[Block, ...]:
    """Add a document's titles, as names, and properties to its first block."""
    if not blocks:
        return ()
    first = blocks[0]
    names = tuple(dict.fromkeys((*first.names, *titles)))
    merged = tuple(dict.fromkeys((*first.properties, *properties)))
    return (replace(first, names=names, properties=merged), *blocks[1:])
