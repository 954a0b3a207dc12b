"""Tracks the context of blocks in HTML lists: introductions, parent items and terms."""

import re
from dataclasses import replace

from hopsyncd.formats.blocks import Block, Kind
from hopsyncd.formats.fields import lead_in_of, lead_of
from hopsyncd.formats.html_text import LISTS
from hopsyncd.formats.html_tree import Element
from hopsyncd.formats.list_numbers import ItemNumbers, add_label, parse_number

_UNSAID = " "  # stands for a missing lead
_MAX_LEADS = 3
_NO_NUMBERS = re.compile(r"list-style(?:-type)?\s*:\s*none", re.IGNORECASE)
_MAX_DEPTH = 12  # unclosed lists would nest without limit


class Leads:
    def __init__(self) -> None:
        self._open: list[str] = []  # the introduction of each list, and the text of each item
        self._lists: list[ItemNumbers | None] = []
        self._label = ""  # the number of an item whose text has not been read
        self._introduction = ""
        self._terms: list[Block] = []
        self._element = ""

    @property
    def kind(self) -> Kind:
        return "list_item" if self._lists else "paragraph"

    def end_at_heading(self) -> None:
        """Stop using the current item as a lead, because the item's heading is now part of the
        heading path."""
        self._introduction = ""
        if self._open and not self._open[-1]:
            self._open[-1] = _UNSAID

    def add_number(self, heading: Block) -> Block:
        """Put the item's number before a heading that begins the item, unless the heading has a
        number."""
        label, self._label = self._label, ""
        if heading.text[:1].isdigit():
            return heading
        text, links = add_label(label, heading.text, heading.links)
        return replace(heading, text=text, links=links)

    def list_above(self) -> tuple[str, ...]:
        """Return the leads of the next block, outermost first."""
        above = [*filter(str.strip, [*self._open[-_MAX_DEPTH:], self._introduction])]
        return tuple(dict.fromkeys(above))[-_MAX_LEADS:]

    def end_introduction(self) -> None:
        """Discard the introduction. Call this function after adding the introduced block."""
        self._introduction = ""

    def handle_tag(self, element: Element, opens: bool) -> list[Block]:
        """Enter an element if `opens`, or else leave it. Returns terms for which no definition
        followed, as separate blocks."""
        name = element.tag
        self._element = name if opens else ""
        left = self.take_terms() if name in LISTS or (name == "li" and opens) else []
        if name in LISTS and opens:
            self._lists.append(_find_numbers(element) if name == "ol" else None)
            self._open += [self._introduction, ""]
        elif name in LISTS and self._lists:
            self._lists.pop()
            del self._open[-2:]
        elif self._open and (name in ("li", "dt") or not opens):
            self._open[-1] = ""
        numbers = self._lists[-1] if self._lists else None
        is_item = name == "li" and opens and numbers is not None
        self._label = numbers.take(element.get("value", "")) if is_item and numbers else ""
        self._introduction = ""
        return left

    def add_leads(self, block: Block) -> list[Block]:
        """Return the block with its leads. A term is held back until its definition is added."""
        if self._element == "dt":
            self._terms.append(block)
            return []
        if self._label and block.kind != "code":
            text, links = add_label(self._label, block.text, block.links)
            block = replace(block, text=text, links=links)
            self._label = ""
        leads = self.list_above()
        if self._terms:
            block = self._add_definition(block)
        if self._open and not self._open[-1]:
            self._open[-1] = lead_of(block.text)
        else:
            self._introduction = lead_in_of(block.text)
        return [replace(block, leads=leads)] if leads else [block]

    def take_terms(self) -> list[Block]:
        terms, self._terms = self._terms, []
        return terms

    def _add_definition(self, block: Block) -> Block:
        terms = self.take_terms()
        name = ", ".join(term.text for term in terms)
        self._open[-1:] = [lead_of(name)]
        joint = "\n" if block.kind == "code" else " " if name[-1:] in (":", "?", ".") else ": "
        start = len(name) + len(joint)
        links = [(0, link) for term in terms for _, link in term.links]
        links += [(start + offset, link) for offset, link in block.links]
        text, first = f"{name}{joint}{block.text}", terms[0].first_line
        return replace(block, text=text, first_line=first, links=tuple(links))


def _find_numbers(element: Element) -> ItemNumbers | None:
    """Return the counter of an `ol` element, or None if the page hides the numbers of its items."""
    if _NO_NUMBERS.search(element.get("style", "")):
        return None
    is_reversed = element.get("reversed") is not None
    count = sum(1 for child in element if child.tag == "li") if is_reversed else 1
    start = parse_number(element.get("start", ""), count)
    return ItemNumbers(start, element.get("type", "1"), -1 if is_reversed else 1)
