"""The structure around the text of a page: navigation, lists, definitions, tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from connectors.html_tokens import Token, tokens
from hopsyncd.formats.blocks import Block, Kind
from hopsyncd.formats.fields import labels_of, lead_in_of, lead_of

_ATTRIBUTE = re.compile(
    r"""\s(class|id|role|hidden|aria-hidden)(?=[\s>/=])"""
    r"""(?:\s*=\s*(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?""",
    re.IGNORECASE,
)

_HIDDEN_NAMES = "script style template svg iframe object textarea select"
_HIDDEN = frozenset(_HIDDEN_NAMES.split())

# How pages mark navigation, which is not part of what they say.
_FURNITURE_ELEMENTS = frozenset(("nav", "button", "noscript"))
_FURNITURE_ROLES = frozenset("navigation search menu menubar banner contentinfo".split())
_FURNITURE_NAMES = """
    nav navbar navigation menu mainmenu submenu toc breadcrumb breadcrumbs footer
    navheader navfooter docnav pagination pager
    site-header site-footer nosearch noindex noprint headerlink skip-link mw-editsection related
"""
_FURNITURE = frozenset(_FURNITURE_NAMES.split())
# Beside a text, manuals and magazines print boxes of text, and sites their menus.
_BESIDE = frozenset(("sidebar",))
_CAPTIONED_NAMES = "note tip important warning caution danger admonition table example figure"
_CAPTIONED = frozenset(_CAPTIONED_NAMES.split())
BOX, CAPTIONED = "box", "captioned"  # named as elements, and closed as they are
_FURNITURE_ENDS = ("-nav", "-menu", "-toc", "_toc", "-navigation", "-breadcrumbs")
_BESIDE_ENDS = ("-sidebar",)


def events_of(text: str) -> Iterator[Token]:
    """The events of a page; of navigation only the links are left, as elements named `link`.

    BOX stands around text that is printed beside the rest, CAPTIONED around a note or a table.
    """
    return _without_furniture(list(tokens(text, _HIDDEN)))


def _without_furniture(events: Sequence[Token]) -> Iterator[Token]:
    """The events outside navigation elements; an unclosed one is read."""
    closes = _closes(events)
    lead = _more_of_links(events)
    open_until: dict[int, list[str]] = {}
    at = 0
    while at < len(events):
        event = events[at]
        end = closes.get(at, at) if event.what == "open" else at
        of_links = lead[end] >= lead[at]
        if end > at and (_is_furniture(event) or (of_links and _is_beside(event))):
            links = (one for one in events[at:end] if one.value == "a")
            yield Token("open", "div", event.start)
            yield from (replace(one, value="link") for one in links if one.what == "open")
            at = end
            yield Token("close", "div", events[at].start)
        else:
            around = _around(event) if end > at else ""
            if around:
                yield Token("open", around, event.start)
                open_until.setdefault(end, []).append(around)
            yield event
            for name in reversed(open_until.pop(at, [])):
                yield Token("close", name, event.start)
        at += 1


def _more_of_links(events: Sequence[Token]) -> list[int]:
    """By how many characters the text in links exceeds the other, up to each event."""
    lead, is_link = [0], False
    for event in events:
        if event.value == "a" and event.what != "text":
            is_link = event.what == "open" and bool(event.href)
        count = len("".join(event.value.split())) if event.what == "text" else 0
        lead.append(lead[-1] + (count if is_link else -count))
    return lead


def _closes(events: Sequence[Token]) -> dict[int, int]:
    """Where each closed element ends, by where it opens."""
    closes: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        if event.what == "open":
            opened.setdefault(event.value, []).append(at)
        elif event.what == "close" and opened.get(event.value):
            closes[opened[event.value].pop()] = at
    return closes


def _is_furniture(token: Token) -> bool:
    """Whether the page marks the element as navigation, or hides it."""
    if token.value in _FURNITURE_ELEMENTS:
        return True
    for name, words in _marks(token):
        match name:
            case "hidden":
                return True
            case "aria-hidden":
                hides = words == ["true"]
            case "role":
                hides = not _FURNITURE_ROLES.isdisjoint(words)
            case _:
                hides = any(w in _FURNITURE or w.endswith(_FURNITURE_ENDS) for w in words)
        if hides:
            return True
    return False


def _marks(token: Token) -> Iterator[tuple[str, list[str]]]:
    """What the element's attributes say of its part in the page."""
    for name, *values in _ATTRIBUTE.findall(token.attributes):
        yield name.lower(), "".join(values).lower().split()


def _is_beside(token: Token) -> bool:
    words = (w for name, some in _marks(token) if name in ("class", "id") for w in some)
    return any(w in _BESIDE or w.endswith(_BESIDE_ENDS) for w in words)


def _around(token: Token) -> str:
    """BOX, CAPTIONED, or nothing to be put around an element."""
    if token.value == "aside" or _is_beside(token):
        return BOX
    words = (w for name, some in _marks(token) if name == "class" for w in some)
    is_captioned = token.value == "div" and any(w in _CAPTIONED for w in words)
    return CAPTIONED if is_captioned else ""


LISTS = frozenset(("ul", "ol", "menu", "dl"))
_SPANS = re.compile(r"\s(?:col|row)span\s*=\s*[\"']?0*[2-9]", re.IGNORECASE)
_CELL = " | "
_UNSAID = " "  # in place of a lead, where there must be none
_MAX_LEADS = 3
_MAX_DEPTH = 12  # of the stack that is looked at: unclosed lists nest without end


class Leads:
    """What stands above a block in its lists: introductions, items, terms."""

    def __init__(self) -> None:
        self._open: list[str] = []  # the introduction of each list, the text of each item
        self._lists = 0
        self._introduction = ""
        self._terms: list[Block] = []
        self._element = ""

    @property
    def kind(self) -> Kind:
        return "list_item" if self._lists else "paragraph"

    def end_at_heading(self) -> None:
        """A heading is part of the path, so its item is not repeated as a lead."""
        self._introduction = ""
        if self._open and not self._open[-1]:
            self._open[-1] = _UNSAID

    def at(self, name: str, opens: bool) -> list[Block]:
        """Enter or leave an element; a term without a definition is given as it is."""
        self._element = name if opens else ""
        left = self.left() if name in LISTS or (name == "li" and opens) else []
        if name in LISTS and opens:
            self._lists += 1
            self._open += [self._introduction, ""]
        elif name in LISTS and self._lists:
            self._lists -= 1
            del self._open[-2:]
        elif self._open and (name in ("li", "dt") or not opens):
            self._open[-1] = ""
        self._introduction = ""
        return left

    def led(self, block: Block) -> list[Block]:
        """The block with its leads; a term waits for its definition."""
        if self._element == "dt":
            self._terms.append(block)
            return []
        above = [*filter(str.strip, [*self._open[-_MAX_DEPTH:], self._introduction])]
        leads = tuple(dict.fromkeys(above))[-_MAX_LEADS:]
        if self._terms:
            block = self._defined(block)
        if self._open and not self._open[-1]:
            self._open[-1] = lead_of(block.text)
        else:
            self._introduction = lead_in_of(block.text)
        return [replace(block, leads=leads)]

    def left(self) -> list[Block]:
        terms, self._terms = self._terms, []
        return terms

    def _defined(self, block: Block) -> Block:
        terms = self.left()
        name = ", ".join(term.text for term in terms)
        self._open[-1:] = [lead_of(name)]
        joint = "\n" if block.kind == "code" else " " if name[-1:] in (":", "?", ".") else ": "
        start = len(name) + len(joint)
        links = [(0, link) for term in terms for _, link in term.links]
        links += [(start + at, link) for at, link in block.links]
        text, first = f"{name}{joint}{block.text}", terms[0].first_line
        return replace(block, text=text, first_line=first, links=tuple(links))


class PageTable:
    """The row in progress, and what the table's head calls its columns."""

    def __init__(self) -> None:
        self.is_in_row = False
        self._labels: tuple[str, ...] = ()
        self._head: Block | None = None
        self._cells: list[str] = []  # the tags of the row's cells
        self._spans = False
        self._begun: int | None = None  # where the cell in progress has its label

    def begin_row(self) -> None:
        self._cells, self._begun, self._spans = [], None, False

    def begin_cell(self, event: Token, parts: list[str], has_text: bool) -> None:
        self.end_cell(parts)
        column = len(self._cells)
        self._cells.append(event.value)
        self._spans = self._spans or _SPANS.search(event.attributes) is not None
        label = self._labels[column] if column < len(self._labels) and not self._spans else ""
        self._begun = len(parts)
        parts.append((_CELL if has_text else "") + (f"{label}: " if label else ""))

    def end_cell(self, parts: list[str]) -> None:
        """Take back the label of a cell without text."""
        if self._begun is not None and not "".join(parts[self._begun + 1 :]).strip():
            del parts[self._begun :]
        self._begun = None

    def row(self, row: Block) -> list[Block]:
        """The row, unless it is the table's head, which waits for a row."""
        if self._head is None and not self._labels and set(self._cells) == {"th"}:
            self._labels = () if self._spans else labels_of(row.text.split(_CELL))
            self._head = row if self._labels else None
            return [] if self._labels else [row]
        self._head = None
        return [row]

    def left(self) -> list[Block]:
        """End the table: a head without rows is one."""
        left = [self._head] if self._head else []
        self._head, self._labels = None, ()
        return left
