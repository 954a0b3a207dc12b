"""Sitemaps and feeds (RSS, Atom): the addresses that they name.

The parser is expat, fed as it stands; a document that declares entities is refused, since these
can blow it up, or read files.
"""

import re
from dataclasses import dataclass, field
from xml.parsers import expat

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
class Links:
    """What was named, in order: pages, and further sitemaps."""

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)


def looks_like_feed(media_type: str, data: bytes) -> bool:
    """Whether it should be read as a sitemap or feed, by its type or by how it begins."""
    if media_type in ("text/html", "application/xhtml+xml"):
        return False
    return media_type.endswith(("/xml", "+xml")) or bool(_BEGINNING.match(data))


def links_of(data: bytes, limit: int) -> Links:
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
        self.links = Links()
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
