"""Reads HTML: the visible text as headings, paragraphs, items, rows and preformatted blocks."""

import re
from collections import Counter
from dataclasses import replace

from hopsyncd.formats.blocks import (
    RECORDS,
    Block,
    Kind,
    Links,
    lower_headings,
    make_skipped_block,
    with_title,
)
from hopsyncd.formats.html_leads import Leads
from hopsyncd.formats.html_styles import apply_styles
from hopsyncd.formats.html_table import read_table
from hopsyncd.formats.html_text import BLOCKS, HEADINGS, LISTS, InlineText
from hopsyncd.formats.html_tree import (
    Element,
    Event,
    Page,
    apply_dialects,
    list_events,
    make_page,
    parse,
)
from hopsyncd.formats.table_text import make_table_blocks

_BESIDE_ENDS = ("-sidebar",)
_CAPTIONED_NAMES = "note tip important warning caution danger admonition table example figure"
_CAPTIONED = frozenset(_CAPTIONED_NAMES.split())
_MAX_BOLD_CHARACTERS = 80
_READ_SHARE = 10  # at least one tenth of a page is read
_SHORT_CHARACTERS = 500
_METAS = {
    **dict.fromkeys(("author", "article:author", "dc.creator", "dcterms.creator"), "author"),
    **dict.fromkeys(("article:published_time", "date", "dc.date", "dcterms.created"), "created"),
    **dict.fromkeys(("article:modified_time", "last-modified", "dcterms.modified"), "modified"),
}
_MAX_META_CHARACTERS = 200
_NOTION_INDEX = re.compile(r"<title>Export-[0-9a-f-]{36}</title>")


def read_html(text: str, first_line: int = 1) -> tuple[Block, ...]:
    """Read HTML whose first line has the number `first_line`.

    Scripts, styles, comments and navigation are left out, but the links of menus are attached to
    the text after them. A page that would be nearly empty without its navigation is read in full. A
    term is joined with its definition. A short paragraph entirely in bold is a heading. The title
    of a sidebar is a heading that ends with the sidebar; the title of a note or a table becomes a
    line above it. The `title` element becomes the level-1 heading, unless the `h1` has the same
    text.
    """
    if _NOTION_INDEX.search(text[:1000]):  # the other files have all of its words
        return (make_skipped_block({RECORDS: 1}),)
    root = parse(text)
    if root is None:
        return ()
    apply_dialects(root, text)
    apply_styles(root, text)
    builder = _Builder(make_page(root, first_line))
    builder.read()
    if builder.is_poor:
        builder = _Builder(make_page(root, first_line, whole=True), is_whole=True)
        builder.read()
    blocks = _add_title(tuple(builder.blocks), builder.title, builder.title_line)
    if blocks and (metadata := tuple(_read_metadata(root))):
        blocks = (replace(blocks[0], properties=metadata), *blocks[1:])
    if kinds := builder.skipped:
        blocks = (*blocks, make_skipped_block(kinds))
    return blocks


def _add_title(blocks: tuple[Block, ...], title: str, line: int) -> tuple[Block, ...]:
    """Add the page's title as the top heading.

    If the only `h1` has different text, the title goes above it, and all headings move down.
    """
    tops = [block.text for block in blocks if block.level == 1 and block.text]
    words, words_of_tops = (
        set(re.findall(r"\w+", text.lower())) for text in (title, " ".join(tops))
    )
    if len(tops) != 1 or words_of_tops <= words or words <= words_of_tops:
        return with_title(blocks, title, line)
    return (Block("heading", title, line, line, level=1), *lower_headings(blocks))


class _Builder:
    def __init__(self, page: Page, *, is_whole: bool = False) -> None:
        self.blocks: list[Block] = []
        self.title = ""
        self.title_line = 1
        self._title_again: Block | None = None  # text above all headings that equals the title
        self._page = page
        self._is_whole = is_whole
        self._menus = 0  # the number of blocks that consist of links within the page or the site
        self._inline = InlineText()
        self._element = ""
        self._has_headings = any(element.tag in HEADINGS for element in page.elements)
        self._level = 0  # the level of the last heading
        self._levels: list[int] = []  # the levels of the headings above each open box
        self._is_caption = False  # whether the next heading is the title of a note or table
        self._has_caption = False  # whether the enclosing figure has a caption
        self._around: dict[Element, str] = {}  # the kinds of the open elements
        self._leads = Leads()

    @property
    def is_poor(self) -> bool:
        """Whether almost none of the page's text was read."""
        if self._is_whole:
            return False
        read = sum(len(block.text) for block in self.blocks) + len(self.title)
        return read < min(_SHORT_CHARACTERS, self._page.size // _READ_SHARE)

    @property
    def skipped(self) -> Counter[str]:
        """Count the parts left out on purpose, by kind."""
        return self._page.kinds + Counter({"navigation": self._menus})

    def read(self) -> None:
        for event in list_events(self._page, self._page.root, self._page.first_line):
            if event.kind == "table":
                self._add_table(event.element, event.line)
            elif not self._inline.take(event, pre=self._element == "pre"):
                self._take(event)
        self._flush()
        self.blocks += self._leads.take_terms()
        if self._title_again and not any(block.text for block in self.blocks):
            self.blocks.insert(0, self._title_again)

    def _take(self, event: Event) -> None:
        name, opens = event.value, event.kind == "open"
        if opens:
            around = self._around[event.element] = _classify_box(event.element)
        else:
            around = self._around.pop(event.element, "")
        if opens and around:
            self._enter(around)
        if name == "figure" and opens:
            self._flush()
            self._has_caption = next(event.element.iter("figcaption"), None) is not None
        elif name in BLOCKS:
            self._flush()
            self._element = name if opens else ""
            if name in LISTS or name in ("li", "dt", "dd"):
                self.blocks += self._leads.handle_tag(event.element, opens)
        self._has_caption = self._has_caption and (opens or name != "figure")
        if around and not opens:
            self._leave(around, event.line)

    def _enter(self, around: str) -> None:
        self._flush()
        if around == "box":
            self._levels.append(self._level)
        else:
            self._is_caption = True

    def _leave(self, around: str, line: int) -> None:
        """Close a note or, if `around` is "box", a sidebar. Headings in a sidebar rank below the
        headings around it."""
        self._flush()
        if around != "box":
            self._is_caption = False
            return
        above = self._levels.pop()
        if self._level > above:
            self.blocks.append(Block("heading", "", line, line, above + 1))
            self._leads.end_at_heading()
        self._level = above

    def _flush(self) -> None:
        """End the current block, and keep the block if it has text or links."""
        inline = self._inline
        text, links = inline.take_text(pre=self._element == "pre")
        first, last = inline.lines
        if not text and inline.pictures:
            self._add_picture(links)
        elif text or links:
            if self._element == "title":
                self.title, self.title_line = self.title or " ".join(text.split()), first
            else:
                self._add(text, first, max(first, last), links)
        if text and inline.readings:
            note = "; ".join(filter(None, inline.readings))
            self.blocks += [Block("note", note, first, last)] if note else []
        inline.begin()

    def _add_picture(self, links: Links) -> None:
        """Add the description of a picture that is not within text, unless the picture has a
        caption."""
        text, line = ", ".join(self._inline.pictures), self._inline.lines[1]
        if self._element in HEADINGS:
            self._add(text, line, line, links)
        elif not self._has_caption:
            self.blocks += self._leads.add_leads(Block("figure", text, line, line, links=links))
        elif links:
            self.blocks.append(Block("paragraph", "", line, line, links=links))

    def _add_table(self, table: Element, line: int) -> None:
        self._flush()
        self._element = ""
        grid, readings = read_table(self._page, table, line)
        self.blocks += make_table_blocks(grid, self._leads.list_above())
        self._leads.end_introduction()
        if note := "; ".join(filter(None, readings)):
            self.blocks.append(Block("note", note, line, line))

    def _add(self, text: str, first: int, last: int, links: Links) -> None:
        level = HEADINGS.get(self._element, 0)
        is_title = bool(level) or self._is_bold_heading(text)
        is_caption, self._is_caption = is_title and self._is_caption, False
        if is_title and not is_caption:
            self._add_heading(Block("heading", " ".join(text.split()), first, last, level, links))
        elif not self._level and " ".join(text.split()) == self.title:
            self.blocks += [Block("paragraph", "", first, last, links=links)] if links else []
            self._title_again = Block("heading", self.title, first, last, level=1)
        elif self._is_menu(text):
            self._menus += bool(text)
            self.blocks.append(Block("paragraph", "", first, last, links=links))
        elif is_caption:
            caption = f"{text.rstrip(':')}:"
            self.blocks += self._leads.add_leads(
                Block("paragraph", caption, first, last, links=links)
            )
        else:
            self.blocks += self._leads.add_leads(Block(self._kind, text, first, last, links=links))

    @property
    def _kind(self) -> Kind:
        kinds: dict[str, Kind] = {"pre": "code", "figcaption": "figure"}
        return kinds.get(self._element) or self._leads.kind

    def _add_heading(self, heading: Block) -> None:
        """Add a heading. In a sidebar, it ranks below the headings around the sidebar. A bold
        paragraph (level 0) gets the next deeper level."""
        above = self._levels[-1] if self._levels else 0
        if heading.level:
            self._level = level = min(max(heading.level, above + 1), 6)
        else:
            level = min((above if self._levels else self._level) + 1, 6)
            self._level = max(self._level, level) if self._levels else self._level
            heading = replace(heading, text=heading.text.rstrip(":"))
        self.blocks.append(self._leads.add_number(replace(heading, level=level)))
        self._leads.end_at_heading()

    def _is_bold_heading(self, text: str) -> bool:
        is_apart = self._element in ("p", "div", "li", "")
        is_title = len(text) <= _MAX_BOLD_CHARACTERS and text[-1:] not in (".", ",", ";", "!", "")
        return is_apart and is_title and not self._inline.is_plain and bool(self._level)

    def _is_menu(self, text: str) -> bool:
        """Whether a block has no text, or consists of links within this page or of links above the
        first heading."""
        if not text or not self._inline.is_linked:
            return not text
        inside = all(href.startswith("#") for href, _ in self._inline.links)
        is_above = self._has_headings and not self._level
        return not self._is_whole and (inside or is_above)


def _classify_box(element: Element) -> str:
    """Return "box" for a sidebar, "captioned" for a note or table with a title, and "" for other
    elements."""
    if element.tag != "aside" and not element.attrib:
        return ""
    words = (element.get("class") or "").lower().split()
    if element.tag == "aside" or _is_beside([*words, (element.get("id") or "").lower()]):
        return "box"
    is_captioned = element.tag == "div" and not _CAPTIONED.isdisjoint(words)
    return "captioned" if is_captioned else ""


def _is_beside(words: list[str]) -> bool:
    return any(word == "sidebar" or word.endswith(_BESIDE_ENDS) for word in words)


def _read_metadata(root: Element) -> dict[tuple[str, str], None]:
    """Read the authors and dates in the page's metadata, as (name, value) pairs in order."""
    found: dict[tuple[str, str], None] = {}
    for meta in root.iter("meta"):
        key = (meta.get("name") or meta.get("property") or meta.get("itemprop") or "").lower()
        value = " ".join((meta.get("content") or "").split())[:_MAX_META_CHARACTERS]
        if value and (name := _METAS.get(key)) and not value.startswith(("http:", "https:")):
            found[(name, value)] = None
    return found
