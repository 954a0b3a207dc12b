"""Splits HTML into text and tags.

No available library is suitable. In supported Python releases, the standard library's `html.parser`
takes quadratic time on unclosed tags and comments (CVE-2025-6069). libxml2 does not count lines
above 65,535. Parsers that build an HTML 5 tree reopen unclosed elements in each paragraph, which
can exhaust the memory: selectolax took 1.8 GB for 27 kB.
"""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from html import unescape
from typing import Literal

_TAG_NAME = re.compile(r"</?([a-zA-Z][^\s/>]*+)")
_TAG_REST = re.compile(r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""")
_HREF = re.compile(r"""\shref\s*=\s*(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""", re.IGNORECASE)
_MAX_HREF_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text as written, or the start or end tag of an element.

    `start` is the offset in the source. `attributes` is the text after the name of a start tag, as
    written, with the final `>`.
    """

    kind: Literal["text", "open", "close"]
    value: str
    start: int
    attributes: str = ""

    @property
    def href(self) -> str:
        """The address in the start tag of an `a` element, or an empty string for other tokens."""
        match = _HREF.search(self.attributes)
        address = (match[1] or match[2] or match[3] or "") if match else ""
        return unescape(address) if len(address) <= _MAX_HREF_CHARACTERS else ""

    @property
    def tag(self) -> str:
        """The element's name, or "" for text."""
        return "" if self.kind == "text" else self.value

    @property
    def closes(self) -> bool:
        return self.kind == "close"


def tokenize_html(text: str, hidden: Set[str]) -> Iterator[Token]:
    """Yield the tokens of a page, without comments and without the content of `hidden` elements.

    An unclosed comment or hidden element extends to the end of the page. This takes linear time,
    because each search either advances past the scanned text or is never repeated.
    """
    place, quotes_close = 0, True
    while (start := text.find("<", place)) >= 0:
        if start > place:
            yield Token("text", text[place:start], place)
        if text.startswith(("<!", "<?"), start):
            place = _skip_declaration(text, start)
            continue
        name = _TAG_NAME.match(text, start)
        if not name:
            yield Token("text", "<", start)
            place = start + 1
            continue
        rest = _TAG_REST.match(text, name.end()) if quotes_close else None
        quotes_close = rest is not None
        place = rest.end() if rest else _skip_past(text, ">", name.end())
        tag, opens = name[1].lower(), text[start + 1] != "/"
        attributes = text[name.end() : place] if opens else ""
        yield Token("open" if opens else "close", tag, start, attributes)
        if tag in hidden and opens and text[place - 2] != "/":
            place = _skip_hidden(text, tag, place)
    if place < len(text):
        yield Token("text", text[place:], place)


def _skip_past(text: str, mark: str, start: int) -> int:
    position = text.find(mark, start)
    return len(text) if position < 0 else position + len(mark)


def _skip_declaration(text: str, start: int) -> int:
    if text.startswith("<!--", start):
        return _skip_past(text, "-->", start + 2)
    return _skip_past(text, ">", start)


def _skip_hidden(text: str, tag: str, start: int) -> int:
    match = re.compile(rf"</{tag}[^>]*+>", re.IGNORECASE).search(text, start)
    return match.end() if match else len(text)
