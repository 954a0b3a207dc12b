"""Parses HTML into a tree, and decides which parts of a page are not its content.

Only the worker process loads the parser, libxml2. Both the markup and the content of an element
decide whether the element is left out: a "menu" of links is navigation, a "menu" of dishes is
content.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, Literal, NamedTuple

from hopsyncd.formats import import_library
from hopsyncd.text.dates import find_dates

Element = Any  # lxml has no type annotations
_TREE_DEPTH = 2000  # libxml2 silently truncates documents with deeper nesting
_ANY_TAG = re.compile(r"</?(?!(?:h[1-6]|p|br|hr|li|pre|title|script|style)\b)[a-zA-Z][^<>]*>", re.I)

_UNSEEN = {
    **dict.fromkeys(("script", "noscript", "template"), "scripts"),
    "style": "styles",
    **dict.fromkeys(("iframe", "object", "embed", "canvas", "svg"), "embedded objects"),
    **dict.fromkeys(("select", "textarea"), "form fields"),
    **dict.fromkeys(("annotation", "annotation-xml"), ""),  # TeX copies of formulas
    **dict.fromkeys(("rt", "rp", "rtc"), ""),  # pronunciations of visible text
}
_DELETED = frozenset(("del", "s", "strike"))
_NAVIGATION_ROLES = frozenset("navigation search menu menubar tablist toolbar".split())
_FRAME_ROLES = frozenset(("banner", "contentinfo", "complementary"))
_NAVIGATION_NAMES = """
    nav navbar navigation menu mainmenu submenu toc breadcrumb breadcrumbs footer navheader
    navfooter docnav pagination pager site-header site-footer nosearch noindex noprint related
    sidebar sphinxsidebar share sharing social
"""
_NAVIGATION = frozenset(_NAVIGATION_NAMES.split())
_NAVIGATION_ENDS = ("-nav", "-menu", "-toc", "_toc", "-navigation", "-breadcrumbs", "-sidebar")
# Links that browsers or wikis add for mouse users.
_HANDLES = frozenset("headerlink skip-link mw-editsection anchorjs-link anchor-link".split())
_INLINE = frozenset(
    "a abbr b code em font i img label math small span strong sub sup svg u".split()
)
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
# libxml2 drops text after these elements, such as a mailing list's footer; browsers show it.
_END_OF_PAGE = re.compile(r"</(?:body|html)[ \t]*>", re.IGNORECASE)
_ROLE_OF_CELL = re.compile(r"""role\s*=\s*["']?(?:grid)?(?:cell|columnheader)\b""", re.I)
_TABLE_ROLES = {
    **dict.fromkeys(("table", "grid", "treegrid"), "table"),
    **{"rowgroup": "tbody", "row": "tr", "cell": "td", "gridcell": "td"},
    **{"columnheader": "th", "rowheader": "th"},
}
_TABLE_PARTS = frozenset(("table", "thead", "tbody", "tfoot", "tr", "td", "th"))
_PAGER = frozenset(("next", "prev", "previous", "up"))  # values of `rel`
_MAX_HANDLE_CHARACTERS = 40
_MAX_SIGN_CHARACTERS = 2
_MAX_BUTTON_WORDS = 3
_MAX_LABEL_CHARACTERS = 8
_MAX_NOTICE_CHARACTERS = 400
_LAST_KNOWN_LINE = 65_535  # libxml2 stops counting here
_FOLLOWED = frozenset(("navigation", "page headers and footers"))
_FRAME = frozenset(("header", "footer", "aside", "form", "dialog"))
_NEVER_LEFT_OUT = frozenset("html head body main article thead tbody tfoot tr td th".split())
_OF_PAGES = ("h1", "h2", "h3", "h4", "form", "main", "article")
_TITLES = frozenset("h1 h2 h3 h4 h5 h6 summary dt legend".split())
_MAIN_SHARE = 0.5  # share of a page's prose in its declared main part


@dataclass(slots=True)
class Page:
    """A parsed page. `skipped` elements are not read. Only the links of `links_only` elements are
    read.

    `kinds` counts the skipped elements by kind. `size` is the number of characters in the page.
    """

    root: Element
    elements: list[Element]  # references to all elements, so that lxml does not create them again
    skipped: set[Element] = field(default_factory=set)
    links_only: set[Element] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    size: int = 0
    first_line: int = 1

    def find_line(self, element: Element, line: int) -> int:
        """Return the line where an element begins, or `line` if libxml2 reports an earlier line."""
        known = element.sourceline or _LAST_KNOWN_LINE
        return line if known >= _LAST_KNOWN_LINE else max(line, known + self.first_line - 1)


@cache
def _load_etree() -> Any:
    return import_library("lxml.etree")


def parse(text: str) -> Element | None:
    """Parse a page. Returns its root element, or None for an empty page."""
    root = _parse(text)
    if root is not None and _is_cut_off(root):
        root = _parse(_ANY_TAG.sub(" ", text))
    return root


def _parse(text: str) -> Element | None:
    etree = _load_etree()
    parser = etree.HTMLParser(encoding="utf-8", remove_pis=True, no_network=True, huge_tree=True)
    if not text.strip():
        return None
    return etree.fromstring(_END_OF_PAGE.sub(" ", text).encode("utf-8", "replace"), parser)


def _is_cut_off(root: Element) -> bool:
    depth, element = 0, root
    while len(element):
        depth, element = depth + 1, element[-1]
    return depth >= _TREE_DEPTH


def apply_dialects(root: Element, text: str) -> None:
    """Rewrite program-specific markup as plain HTML: checkboxes and tags from Notion, titles from
    Word, pages from Confluence, articles in `noscript` elements, and tables made of elements with
    roles."""
    if "checkbox-on" in text or "checkbox-off" in text:
        for box in root.iter("div"):
            states = {"checkbox-on": "[x]", "checkbox-off": "[ ]"}.items()
            marks = [mark for name, mark in states if name in (box.get("class") or "").split()]
            if marks and not len(box):
                box.tag, box.text = "span", f"{marks[0]} "
    if "selected-value" in text:
        for tag in root.iter("span"):
            after = tag.getnext()
            is_listed = after is not None and after.get("class") == tag.get("class")
            if is_listed and "selected-value" in (tag.get("class") or "") and not tag.tail:
                tag.tail = ", "
    if "MsoTitle" in text:
        for title in root.iter("p"):
            if title.get("class") == "MsoTitle":
                title.tag = "h1"
    if 'id="title-heading"' in text and 'id="title-text"' in text:
        _tidy_confluence(root)
    if "<noscript" in text:
        _show_articles(root)
    if _ROLE_OF_CELL.search(text):
        _write_tables(root)


def _tidy_confluence(root: Element) -> None:
    """Drop the footer and the list of attachments of a page that Confluence exported, and the name
    of the space before its title. Its author and day become metadata."""
    named = {element.get("id"): element for element in root.iter() if element.get("id")}
    if "title-text" not in named:  # a page about Confluence
        return
    attachments = named.get("attachments")
    section = attachments.getparent() if attachments is not None else None
    for part in (named.get("footer"), section.getparent() if section is not None else None):
        if part is not None and part.getparent() is not None:
            part.getparent().remove(part)
    title = next(root.iter("title"), None)
    for element in (title, named["title-text"]):
        if element is not None and element.text:
            element.text = element.text.partition(" : ")[2] or element.text
    for about in root.iter("div"):
        if about.get("class") != "page-metadata":
            continue
        authors = [span for span in about.iter("span") if span.get("class") == "author"]
        days = [found.day for found in find_dates(" ".join(about.itertext()))]
        facts = [("author", "".join(span.itertext()).strip()) for span in authors]
        for name, value in [*facts, *(("last-modified", day) for day in days[-1:])]:
            about.append(about.makeelement("meta", {"name": name, "content": value}))
        return


def _show_articles(root: Element) -> None:
    """Turn `noscript` elements with long paragraphs, which contain articles, into `div` elements.
    Shorter elements are notices and counters."""
    for part in [*root.iter("noscript")]:
        if sum(len("".join(p.itertext())) for p in part.iter("p")) > _MAX_NOTICE_CHARACTERS:
            part.tag = "div"


def _write_tables(root: Element) -> None:
    """Turn elements that have table roles into tables."""
    inside: set[Element] = set()  # the elements in tables
    for element in root.iter(_load_etree().Element):
        tag = _TABLE_ROLES.get((element.get("role") or "").strip().lower())
        is_inside = element.getparent() in inside
        if tag and element.tag not in _TABLE_PARTS and (tag == "table" or is_inside):
            element.tag = tag
        if is_inside or element.tag == "table":
            inside.add(element)


def make_page(root: Element, first_line: int = 1, *, whole: bool = False) -> Page:
    """Make the Page of the document in `root`, whose first line is `first_line`, and choose the
    elements to leave out.

    If `whole`, the site's navigation is kept.
    """
    page = Page(root, [element for element in root.iter() if isinstance(element.tag, str)])
    page.first_line = first_line
    sizes = _Sizes(page.elements)
    page.size = sizes.text[root]
    frame = set() if whole else _find_outside_main(page.elements, sizes)
    inside: set[Element] = set()
    for element in page.elements:
        if element.getparent() in inside:
            inside.add(element)
            continue
        kind = _find_kind(element, sizes, frame, whole=whole)
        if kind is None:
            continue
        inside.add(element)
        (page.links_only if kind in _FOLLOWED else page.skipped).add(element)
        if kind and (sizes.text[element] or element.tag in _UNSEEN):
            page.kinds[kind] += 1
    return page


class _Sizes:
    """Counts the characters in each element, and the characters of its links."""

    def __init__(self, elements: list[Element]) -> None:
        self.text: dict[Element, int] = dict.fromkeys(elements, 0)
        self.links: dict[Element, int] = dict.fromkeys(elements, 0)
        for element in reversed(elements):  # so inner elements come first
            length = (
                0 if element.tag in _UNSEEN else _measure_length(element.text) + self.text[element]
            )
            self.text[element] = length
            if element.tag == "a" and element.get("href") is not None:
                self.links[element] = length
            parent = element.getparent()
            if parent is not None:
                self.text[parent] += length + _measure_length(element.tail)
                self.links[parent] += self.links[element]

    def measure_prose(self, element: Element) -> int:
        return self.text[element] - self.links[element]

    def is_linked(self, element: Element) -> bool:
        """Whether at least half of the element's text is in links."""
        return 2 * self.links[element] >= self.text[element]


def _measure_length(text: str | None) -> int:
    return len(text) - text.count(" ") - text.count("\n") if text else 0


def _find_outside_main(elements: list[Element], sizes: _Sizes) -> set[Element]:
    """Return the headers, footers and similar parts outside the main part of a page.

    The result is empty unless the main part contains most of the page's prose.
    """
    root = elements[0]
    mains = {*root.iter("main"), *root.xpath("descendant-or-self::*[@role = 'main']")}
    mains = mains or {*root.iter("article")}
    outermost = [main for main in mains if mains.isdisjoint(main.iterancestors())]
    if sum(map(sizes.measure_prose, outermost)) <= _MAIN_SHARE * sizes.measure_prose(elements[0]):
        return set()
    around = {up for main in outermost for up in main.iterancestors()}
    return {
        element
        for element in elements
        if (element.tag in _FRAME or element.get("role") in _FRAME_ROLES)
        and element not in around
        and element not in mains
        and mains.isdisjoint(element.iterancestors())
    }


def _find_kind(element: Element, sizes: _Sizes, frame: set[Element], *, whole: bool) -> str | None:
    """Return the kind under which a skipped element is counted, or "" if the element is skipped
    without being counted. Returns None if the element is read.

    `frame` contains the page's headers and footers. If `whole`, only invisible and deleted elements
    are skipped.
    """
    tag = element.tag
    if tag in _UNSEEN and not (whole and tag == "noscript"):
        return _UNSEEN[tag]
    if tag in _DELETED:
        return "deletions"
    if whole or tag in _NEVER_LEFT_OUT:
        return None
    if element in frame or (tag in _FRAME and _is_linked_frame(element, sizes)):
        return "page headers and footers"
    words = f"{element.get('class', '')} {element.get('id', '')}".lower().split()
    role = element.get("role", "").lower()
    size = sizes.text[element]
    is_handle = role == "doc-backlink" or not _HANDLES.isdisjoint(words)
    if size <= _MAX_HANDLE_CHARACTERS and (is_handle or _is_permalink(element)):
        return ""
    if tag == "button":
        return "buttons" if _is_label(element) else None
    is_marked = tag == "nav" or role in _NAVIGATION_ROLES or any(map(_is_navigation, words))
    # A `nav` element without a paragraph contains only labels. A class name such as "menu" does
    # not prove that.
    is_menu = tag == "nav" and next(element.iter("p"), None) is None
    most = _MAX_HANDLE_CHARACTERS if is_menu else _MAX_LABEL_CHARACTERS
    if is_marked and (sizes.is_linked(element) or size <= most):
        return "navigation"
    if size <= _MAX_NOTICE_CHARACTERS and _is_pager(element, sizes):
        return "navigation"
    # Panels and tabs that open on a click are hidden too.
    is_unseen = is_hidden(element) or element.get("aria-hidden") == "true"
    if is_unseen and (tag in _INLINE or sizes.is_linked(element)):
        return "hidden parts"
    return None


def _is_permalink(element: Element) -> bool:
    """Whether the element is a link such as `#` in a heading, which leads to that heading."""
    if element.tag != "a" or not element.get("href", "").startswith("#"):
        return False
    text = "".join(element.itertext()).strip()
    is_sign = 0 < len(text) <= _MAX_SIGN_CHARACTERS and not any(map(str.isalnum, text))
    return is_sign and next(element.iterancestors(*_TITLES), None) is not None


def _is_pager(element: Element, sizes: _Sizes) -> bool:
    """Whether the element has little more than links to the next and previous page."""
    if not sizes.links[element] or not sizes.is_linked(element):
        return False
    links = (link.get("rel", "").lower() for link in element.iter("a"))
    return sum(link in _PAGER for link in links) > 1


def is_hidden(element: Element) -> bool:
    """Whether a browser hides the element before any script runs."""
    is_marked = element.get("hidden") is not None
    return is_marked or bool(_HIDDEN_STYLE.search(element.get("style", "")))


def _is_linked_frame(element: Element, sizes: _Sizes) -> bool:
    return sizes.is_linked(element) and next(element.iter("h1", "h2", "h3"), None) is None


def _is_navigation(word: str) -> bool:
    return word in _NAVIGATION or word.endswith(_NAVIGATION_ENDS)


def _is_label(button: Element) -> bool:
    """Whether a button only labels an action; other buttons contain questions or panel titles."""
    text = " ".join("".join(button.itertext()).split())
    if "?" in text or len(text.split()) > _MAX_BUTTON_WORDS:
        return False
    if button.get("aria-controls") or button.get("aria-expanded") or button.get("role") == "tab":
        return not text
    return not any(up.tag in _TITLES for up in button.iterancestors())


class Event(NamedTuple):
    """Text, or the start or end of an element, with its line in the file.

    A `link` event is a navigation link without its text. A `table` event is a whole table.
    """

    kind: Literal["text", "open", "close", "link", "table"]
    value: str  # the text, the element's name, or the address
    line: int
    element: Element = None


def list_events(page: Page, top: Element, line: int, *, tables: bool = True) -> Iterator[Event]:
    """Yield the readable content of the element `top`, which begins at `line`, in order.

    With `tables`, each data table is one event. Other tables yield their elements.
    """
    walker = _load_etree().iterwalk(top, events=("start", "end", "comment"))
    entered: list[bool] = []  # for each open element: whether its content is yielded
    for what, element in walker:
        text = element.tail
        if what == "start":
            line = line if element is top else page.find_line(element, line)
            instead = (
                None if element is top else _replace_events(page, element, line, tables=tables)
            )
            entered.append(instead is None)
            if instead is None:
                if element is not top:
                    yield Event("open", element.tag, line, element)
                text = element.text
            else:
                yield from instead
                walker.skip_subtree()
                line += sum(inner.count("\n") for inner in element.itertext(with_tail=False))
                continue
        elif what == "comment":
            line += element.text.count("\n")
        elif entered.pop() and element is not top:
            yield Event("close", element.tag, line, element)
        if text and (element is not top or what == "start"):
            yield Event("text", text, line)
            line += text.count("\n")


def _replace_events(page: Page, element: Element, line: int, *, tables: bool) -> list[Event] | None:
    """Return the events that replace an element's content; None if the content is read normally."""
    if element in page.skipped:
        return []
    if element in page.links_only:
        links = (Event("link", link.get("href", ""), line) for link in element.iter("a"))
        return [Event("open", "div", line, element), *links, Event("close", "div", line, element)]
    if tables and element.tag == "table" and is_data(element):
        return [Event("table", "", line, element)]
    return None


def is_data(table: Element) -> bool:
    """Whether a table contains data, rather than page layout."""
    if table.get("role") in ("presentation", "none"):
        return False
    if next(find_own_parts(table, ("th", "caption", "thead")), None) is not None:
        return True
    has_inner = sum(1 for _ in islice(table.iter("table"), 2)) > 1
    return not has_inner and next(table.iter(*_OF_PAGES), None) is None


def find_own_parts(table: Element, names: tuple[str, ...]) -> Iterator[Element]:
    """Yield the elements in a table that have one of the tags `names`, except elements in nested
    tables."""
    walker = _load_etree().iterwalk(table, events=("start",))
    for _, element in walker:
        if element is table:
            continue
        if element.tag in names:
            yield element
        if element.tag in ("table", "td", "th"):
            walker.skip_subtree()
