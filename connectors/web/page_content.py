"""Classifies an HTTP reply: a page to index, a list of pages (a sitemap or a feed), or neither.

An HTML page is passed on without comments, scripts, styles, templates, SVG, iframes and text areas;
hopsyncd.formats selects the text. Only the main part determines whether the page has changed.
Attributes, navigation, headers, footers, forms and `aside` elements are ignored, because they
contain tokens and counters that differ at each visit. The links in the main part become links of
the document; all other links lose their address. Sitemaps and feeds are parsed with expat. A file
that declares entities is refused, because entities can exhaust the memory or read files.
"""

import hashlib
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from html import escape, unescape
from itertools import islice
from xml.parsers import expat

from connectors.html_tokens import Token, tokenize_html
from connectors.protocol import Fetched
from connectors.settings import normalise_address
from connectors.web.fetch import Unreachable, Visit, decompress

_HTML = frozenset(("text/html", "application/xhtml+xml"))
_TEXT = frozenset(("text/plain", "text/markdown", "text/x-markdown", "text/x-rst"))
_FILES = frozenset(("application/pdf",))
_GZIP = frozenset(("application/gzip", "application/x-gzip"))
_XML = ("/xml", "+xml")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_MAX_LINKS = 1000
_MAX_DEPTH = 100
_MAX_TEXT_CHARACTERS = 4000
_ROOTS = {"urlset": "pages", "sitemapindex": "sitemaps", "rss": "pages", "RDF": "pages",
          "feed": "pages"}  # fmt: skip
_BEGINNING = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml|<rss|<feed|<urlset|<sitemapindex|<rdf:RDF)"
)
_MAX_PAGE_LINKS = 2000
_MAX_PIECES = 300_000

_HIDDEN = frozenset("script style template svg iframe noscript textarea".split())
_LEFT_OUT = frozenset("nav header footer aside form button dialog".split())
_KEPT = frozenset(
    "title h1 h2 h3 h4 h5 h6 p pre blockquote ul ol li dl dt dd table thead tbody tfoot caption tr"
    " td th br hr div section article main figure figcaption details summary address body".split()
)
_MAIN = ("main", "article")


class NoFeed(Exception):
    """The data is not a readable sitemap or feed: it is damaged, unsafe or of another type.

    The message states the reason.
    """


@dataclass(frozen=True, slots=True)
class PageContent:
    """The content of a reply. `page` is None for a list of pages. `links` are all addresses in the
    reply."""

    page: Fetched | None
    links: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def is_readable(media_type: str) -> bool:
    """Whether to fetch a body of this media type. The result is True if the reply states no media
    type."""
    return media_type in _HTML | _TEXT | _FILES | _GZIP | {""} or media_type.endswith(_XML)


def parse_content(visit: Visit, max_bytes: int, max_links: int) -> PageContent | None:
    """Return the content of a reply, or None if the reply is neither a page nor a list of pages.

    Raises NoFeed if the reply is XML but not a readable sitemap or feed. Raises Unreachable if the
    compressed data is damaged or the page has too many tags.
    """
    kind, body = visit.reply.media_type, visit.reply.body
    if body.startswith(b"\x1f\x8b"):
        kind, body = "application/xml", decompress(body, max_bytes)
    if not is_readable(kind):
        return None
    if looks_like_feed(kind, body):
        feed_links = parse_links(body, max_links)
        pages, sitemaps = (
            _normalise_addresses(addresses, visit.url)
            for addresses in (feed_links.pages, feed_links.sitemaps)
        )
        return PageContent(None, pages, sitemaps)
    if kind in _FILES:
        return PageContent(_make_fetched(visit, body, kind))
    text = _decode(body, visit.reply.get_header("content-type"))
    if kind in _TEXT:
        return PageContent(_make_fetched(visit, text.encode(), f"{kind}; charset=utf-8"))
    if kind not in _HTML and "<html" not in text[:2000].lower():
        return None
    page = parse_page(text, visit.url)
    inner = _normalise_addresses(page.main_links, visit.url)[:_MAX_LINKS]
    data, media_type = page.html.encode("utf-8", "replace"), "text/html; charset=utf-8"
    fetched = _make_fetched(visit, data, media_type, page.main.encode(), page.title, inner)
    return PageContent(fetched, _normalise_addresses(page.links, visit.url)[:max_links])


def _normalise_addresses(links: list[str] | tuple[str, ...], base: str) -> tuple[str, ...]:
    addresses = (normalise_address(link, base) for link in links)
    return tuple(dict.fromkeys(url for url in addresses if url))


def _make_fetched(
    visit: Visit, data: bytes, media_type: str, main: bytes | None = None,
    title: str | None = None, links: tuple[str, ...] = (),
) -> Fetched:  # fmt: skip
    facts = f"{media_type} {visit.elsewhere}".rstrip()
    content = data if main is None else main
    revision = hashlib.sha256(facts.encode() + b"\0" + content).hexdigest()[:32]
    origin = {"url": visit.elsewhere} if visit.elsewhere else {}
    written_ms = parse_date_ms(visit.reply.get_header("last-modified"))
    return Fetched(data, revision, media_type, title, links, origin, written_ms)


def parse_date_ms(header: str) -> int | None:
    """Parse an HTTP date to Unix milliseconds. Returns None if the date is missing or invalid.

    >>> parse_date_ms("Mon, 02 Nov 2026 10:00:00 GMT"), parse_date_ms("soon")
    (1793613600000, None)
    """
    try:
        return int(parsedate_to_datetime(header).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _decode(body: bytes, content_type: str) -> str:
    declared = _CHARSET.search(content_type)
    in_page = _META.search(body[:4096])
    names = ["utf-8-sig", declared and declared[1], in_page and in_page[1].decode("ascii")]
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        names.insert(0, "utf-16")
    for name in names:
        try:
            # Some charsets can encode characters that UTF-8 cannot.
            return body.decode(name or "utf-8").encode("utf-8", "replace").decode()
        except (LookupError, ValueError):
            continue
    return body.decode("cp1252", "replace")


@dataclass(slots=True)
class FeedLinks:
    """The links in a sitemap or feed, in order: links to pages, and links to further sitemaps."""

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)


def looks_like_feed(media_type: str, data: bytes) -> bool:
    """Whether the media type or the first bytes of a body suggest a sitemap or feed."""
    if media_type in ("text/html", "application/xhtml+xml"):
        return False
    return media_type.endswith(("/xml", "+xml")) or bool(_BEGINNING.match(data))


def parse_links(data: bytes, limit: int) -> FeedLinks:
    """Return the first `limit` links of a sitemap or feed. Raises NoFeed if the data is neither."""
    reader = _Reader(limit)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.EntityDeclHandler = reader.refuse_entity
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.add_text
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise NoFeed(f"the sitemap or feed is damaged ({error})") from error
    return reader.links


class _Reader:
    def __init__(self, limit: int) -> None:
        self.links = FeedLinks()
        self._limit = limit
        self._path: list[str] = []
        self._said = ""

    def refuse_entity(self, *_: object) -> None:
        raise NoFeed("the XML declares entities, which are not allowed because they can be harmful")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        if not self._path and local not in _ROOTS:
            raise NoFeed(f"the XML is not a sitemap, RSS or Atom: its root is {local[:50]!r}")
        if len(self._path) >= _MAX_DEPTH:
            raise NoFeed("the XML elements are nested too deeply")
        self._path.append(local)
        self._said = ""
        is_entry = self._path[:-1] == ["feed", "entry"]
        if is_entry and local == "link" and attributes.get("rel", "alternate") == "alternate":
            self._add(attributes.get("href", ""))

    def add_text(self, text: str) -> None:
        if len(self._said) < _MAX_TEXT_CHARACTERS:
            self._said += text

    def end(self, _: str) -> None:
        match self._path:
            case ["urlset", "url", "loc"] | ["sitemapindex", "sitemap", "loc"]:
                self._add(self._said)
            case ["rss", "channel", "item", "link"] | ["RDF", "item", "link"]:
                self._add(self._said)
        self._path.pop()

    def _add(self, link: str) -> None:
        links = self.links.sitemaps if self._path[0] == "sitemapindex" else self.links.pages
        if link.strip() and len(links) < self._limit:
            links.append(link.strip())


@dataclass(frozen=True, slots=True)
class Page:
    """A page as HTML, the page's main part, and the links of both as written."""

    html: str
    main: str
    title: str | None
    links: tuple[str, ...]
    main_links: tuple[str, ...]


def parse_page(text: str, url: str) -> Page:
    """Parse a page. If no `main` or `article` element contains text, the whole page is the main
    part.

    Raises Unreachable if the page has more tags than fit into memory.
    """
    pieces = list(islice(tokenize_html(text, _HIDDEN), _MAX_PIECES + 1))
    if len(pieces) > _MAX_PIECES:
        raise Unreachable(f"the page has more than {_MAX_PIECES:,} tags")
    body = list(_drop_left_out(pieces))
    mains = (list(_select_inside(body, name)) for name in _MAIN)
    main_pieces = next(
        (part for part in mains if any(not p.tag and p.value.strip() for p in part)), body
    )
    title, main_links = _find_title(pieces), _list_hrefs(main_pieces)
    main = f"{title or ''}\n{''.join(_select_visible_text(main_pieces))}"
    html = "".join(_with_full_links(pieces, {piece.start for piece in main_pieces}, url))
    return Page(html, main, title, _list_hrefs(pieces), main_links)


def _with_full_links(pieces: list[Token], main: Set[int], url: str) -> Iterator[str]:
    """Yield the HTML of the page without scripts. Links in the main part become absolute addresses;
    other links lose their address."""
    for piece in pieces:
        if not piece.tag:
            yield "&lt;" if piece.value == "<" else piece.value
        elif piece.tag in _HIDDEN:
            continue
        elif piece.closes:
            yield f"</{piece.tag}>"
        elif piece.tag == "a" and piece.href:
            full_address = normalise_address(piece.href, url) if piece.start in main else ""
            yield f'<a href="{escape(full_address or "")}">'
        else:
            yield f"<{piece.tag}{piece.attributes}"


def _drop_left_out(pieces: list[Token]) -> Iterator[Token]:
    """Yield the tokens outside the elements that are left out. An element without an end tag leaves
    out nothing.

    The header of an article is kept.
    """
    ends = {piece.tag: index for index, piece in enumerate(pieces) if piece.closes}
    depth, inside, mains = 0, "", 0
    for index, piece in enumerate(pieces):
        if piece.tag in _MAIN:
            mains = max(0, mains + (-1 if piece.closes else 1))
        if inside:
            depth += (-1 if piece.closes else 1) if piece.tag == inside else 0
            inside = inside if depth and index < ends[inside] else ""
        elif piece.tag not in _LEFT_OUT:
            yield piece
        elif mains and piece.tag == "header":
            continue
        elif not piece.closes and ends.get(piece.tag, -1) > index:
            inside, depth = piece.tag, 1


def _select_inside(pieces: list[Token], name: str) -> Iterator[Token]:
    depth = 0
    for piece in pieces:
        if piece.tag == name:
            depth = max(0, depth + (-1 if piece.closes else 1))
        elif depth:
            yield piece


def _find_title(pieces: list[Token]) -> str | None:
    for index, piece in enumerate(pieces[:-1]):
        if piece.tag == "title" and not piece.closes and not pieces[index + 1].tag:
            return " ".join(unescape(pieces[index + 1].value).split())[:300] or None
    return None


def _select_visible_text(pieces: list[Token]) -> Iterator[str]:
    in_title = False
    for piece in pieces:
        if piece.tag == "title":
            in_title = not piece.closes
        elif not piece.tag:
            yield "" if in_title else piece.value.replace("<", "&lt;")
        elif piece.tag in _KEPT:
            yield f"<{'/' if piece.closes else ''}{piece.tag}>"


def _list_hrefs(pieces: list[Token]) -> tuple[str, ...]:
    hrefs = dict.fromkeys(href for piece in pieces if (href := piece.href))
    return tuple(islice(hrefs, _MAX_PAGE_LINKS))
