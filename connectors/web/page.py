"""The main part of an HTML page, its title and its links, in one pass of linear time.

Scripts, navigation, headers, footers, forms and asides are left out, and so is every attribute:
what differs at each visit (tokens, counters in scripts) is mostly there, and a page that says the
same must stay the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from itertools import islice

from connectors.html_tokens import Token, tokens
from connectors.web.fetch import Unreachable

_MAX_LINKS = 2000
_MAX_PIECES = 300_000

_HIDDEN = frozenset("script style template svg iframe noscript textarea".split())
_LEFT_OUT = frozenset("nav header footer aside form button dialog".split())
_KEPT = frozenset(
    "title h1 h2 h3 h4 h5 h6 p pre blockquote ul ol li dl dt dd table thead tbody tfoot caption tr"
    " td th br hr div section article main figure figcaption details summary address body".split()
)
_MAIN = ("main", "article")


@dataclass(frozen=True, slots=True)
class Page:
    """The main part as plain HTML, and where it links to, as written there."""

    html: str
    title: str | None
    links: tuple[str, ...]
    main_links: tuple[str, ...]


def page_of(text: str) -> Page:
    """Read a page; all of it is the main part where no `main` or `article` holds text.

    Raises Unreachable for one made of nothing but tags, which would take too much memory.
    """
    pieces = list(islice(tokens(text, _HIDDEN), _MAX_PIECES + 1))
    if len(pieces) > _MAX_PIECES:
        raise Unreachable(f"it has more than {_MAX_PIECES:,} tags")
    links = _hrefs(pieces)
    title = _title(pieces)
    body = list(_without(pieces))
    kept = next((part for name in _MAIN if _has_text(part := list(_inside(body, name)))), body)
    html = "".join(_shown(kept))
    head = f"<title>{_escaped(title)}</title>\n" if title else ""
    return Page(head + html, title, links, _hrefs(kept))


def _without(pieces: list[Token]) -> Iterator[Token]:
    """What stands in no left out element; one that never ends leaves out nothing.

    The header of an article is part of it.
    """
    ends = {piece.tag: at for at, piece in enumerate(pieces) if piece.closes}
    depth, inside, mains = 0, "", 0
    for at, piece in enumerate(pieces):
        if piece.tag in _MAIN:
            mains = max(0, mains + (-1 if piece.closes else 1))
        if inside:
            depth += (-1 if piece.closes else 1) if piece.tag == inside else 0
            inside = inside if depth and at < ends[inside] else ""
        elif piece.tag not in _LEFT_OUT:
            yield piece
        elif mains and piece.tag == "header":
            continue
        elif not piece.closes and ends.get(piece.tag, -1) > at:
            inside, depth = piece.tag, 1


def _inside(pieces: list[Token], name: str) -> Iterator[Token]:
    depth = 0
    for piece in pieces:
        if piece.tag == name:
            depth = max(0, depth + (-1 if piece.closes else 1))
        elif depth:
            yield piece


def _has_text(pieces: list[Token]) -> bool:
    return any(not piece.tag and piece.value.strip() for piece in pieces)


def _title(pieces: list[Token]) -> str | None:
    for at, piece in enumerate(pieces[:-1]):
        if piece.tag == "title" and not piece.closes and not pieces[at + 1].tag:
            return " ".join(unescape(pieces[at + 1].value).split())[:300] or None
    return None


def _shown(pieces: list[Token]) -> Iterator[str]:
    in_title = False
    for piece in pieces:
        if piece.tag == "title":
            in_title = not piece.closes
        elif not piece.tag:
            yield "" if in_title else piece.value.replace("<", "&lt;")
        elif piece.tag in _KEPT:
            yield f"<{'/' if piece.closes else ''}{piece.tag}>"


def _hrefs(pieces: list[Token]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for piece in pieces:
        if piece.href:
            found[piece.href] = None
            if len(found) >= _MAX_LINKS:
                break
    return tuple(found)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
