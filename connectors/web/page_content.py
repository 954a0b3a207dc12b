"""What an HTTP answer is: a page to index, a list of pages (a sitemap or a feed), or neither.

The parser is expat, fed as it stands; a document that declares entities is refused, since these
can blow it up, or read files.
"""

import hashlib
import re
from dataclasses import dataclass, field
from xml.parsers import expat

from connectors.protocol import Fetched
from connectors.web.address import address
from connectors.web.fetch import unpacked
from connectors.web.page import page_of
from connectors.web.visitor import Visit

_MAX_DEPTH = 100
_MAX_TEXT_CHARACTERS = 4000
_ROOTS = {"urlset": "pages", "sitemapindex": "sitemaps", "rss": "pages", "RDF": "pages",
          "feed": "pages"}  # fmt: skip
_BEGINNING = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml|<rss|<feed|<urlset|<sitemapindex|<rdf:RDF)"
)


class NoFeed(Exception):
    """Damaged, of another kind, or not safe to read; the message says which."""


@dataclass(slots=True)
class FeedLinks:
    """What was named, in order: pages, and further sitemaps."""

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)


def looks_like_feed(media_type: str, data: bytes) -> bool:
    """Whether it should be read as a sitemap or feed, by its type or by how it begins."""
    if media_type in ("text/html", "application/xhtml+xml"):
        return False
    return media_type.endswith(("/xml", "+xml")) or bool(_BEGINNING.match(data))


def links_of(data: bytes, limit: int) -> FeedLinks:
    """The first `limit` addresses of a sitemap or feed. Raises NoFeed."""
    reader = _Reader(limit)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.EntityDeclHandler = reader.entity
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise NoFeed(f"it is damaged ({error})") from error
    return reader.links


class _Reader:
    def __init__(self, limit: int) -> None:
        self.links = FeedLinks()
        self._limit = limit
        self._path: list[str] = []
        self._said = ""

    def entity(self, *_: object) -> None:
        raise NoFeed("it declares entities, which no feed needs and which can do harm")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        if not self._path and local not in _ROOTS:
            raise NoFeed(f"it is XML, but no sitemap, RSS or Atom: its root is {local[:50]!r}")
        if len(self._path) >= _MAX_DEPTH:
            raise NoFeed("its elements are nested too deeply")
        self._path.append(local)
        self._said = ""
        is_entry = self._path[:-1] == ["feed", "entry"]
        if is_entry and local == "link" and attributes.get("rel", "alternate") == "alternate":
            self._add(attributes.get("href", ""))

    def text(self, said: str) -> None:
        if len(self._said) < _MAX_TEXT_CHARACTERS:
            self._said += said

    def end(self, _: str) -> None:
        match self._path:
            case ["urlset", "url", "loc"] | ["sitemapindex", "sitemap", "loc"]:
                self._add(self._said)
            case ["rss", "channel", "item", "link"] | ["RDF", "item", "link"]:
                self._add(self._said)
        self._path.pop()

    def _add(self, link: str) -> None:
        into = self.links.sitemaps if self._path[0] == "sitemapindex" else self.links.pages
        if link.strip() and len(into) < self._limit:
            into.append(link.strip())


_HTML = frozenset(("text/html", "application/xhtml+xml"))
_TEXT = frozenset(("text/plain", "text/markdown", "text/x-markdown", "text/x-rst"))
_FILES = frozenset(("application/pdf",))
_GZIP = frozenset(("application/gzip", "application/x-gzip"))
_XML = ("/xml", "+xml")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_MAX_LINKS = 1000


@dataclass(frozen=True, slots=True)
class PageContent:
    """`page` is None for a list of pages. `links` are all addresses that it names."""

    page: Fetched | None
    links: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def is_readable(media_type: str) -> bool:
    """Whether the body is worth asking for; a type that is not given may be anything."""
    return media_type in _HTML | _TEXT | _FILES | _GZIP | {""} or media_type.endswith(_XML)


def content_of(visit: Visit, max_bytes: int, max_links: int) -> PageContent | None:
    """None for what is neither. Raises NoFeed and Unreachable for what is damaged."""
    kind, body = visit.reply.media_type, visit.reply.body
    if body.startswith(b"\x1f\x8b"):
        kind, body = "application/xml", unpacked(body, max_bytes)
    if not is_readable(kind):
        return None
    if looks_like_feed(kind, body):
        return _listed(links_of(body, max_links), visit.url)
    if kind in _FILES:
        return PageContent(_fetched(visit, body, kind))
    text = _decoded(body, visit.reply.header("content-type"))
    if kind in _TEXT:
        return PageContent(_fetched(visit, text.encode(), f"{kind}; charset=utf-8"))
    if kind not in _HTML and "<html" not in text[:2000].lower():
        return None
    page = page_of(text)
    inner = _addresses(page.main_links, visit.url)[:_MAX_LINKS]
    fetched = _fetched(
        visit, page.html.encode(), "text/html; charset=utf-8", title=page.title, links=inner
    )
    return PageContent(fetched, _addresses(page.links, visit.url)[:max_links])


def _listed(links: FeedLinks, base: str) -> PageContent:
    return PageContent(None, _addresses(links.pages, base), _addresses(links.sitemaps, base))


def _addresses(links: list[str] | tuple[str, ...], base: str) -> tuple[str, ...]:
    found = (address(link, base) for link in links)
    return tuple(dict.fromkeys(url for url in found if url))


def _fetched(
    visit: Visit, data: bytes, media_type: str, title: str | None = None,
    links: tuple[str, ...] = (),
) -> Fetched:  # fmt: skip
    told = f"{media_type} {visit.elsewhere}".rstrip()
    revision = hashlib.sha256(told.encode() + b"\0" + data).hexdigest()[:32]
    origin = {"url": visit.elsewhere} if visit.elsewhere else {}
    return Fetched(data, revision, media_type, title, links, origin)


def _decoded(body: bytes, content_type: str) -> str:
    declared = _CHARSET.search(content_type)
    in_page = _META.search(body[:4096])
    names = ["utf-8-sig", declared and declared[1], in_page and in_page[1].decode("ascii")]
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        names.insert(0, "utf-16")
    for name in names:
        try:
            # Some charsets can spell what no UTF-8 can hold.
            return body.decode(name or "utf-8").encode("utf-8", "replace").decode()
        except (LookupError, ValueError):
            continue
    return body.decode("cp1252", "replace")
