"""From an answer to what it is: a page to index, a list of pages, or neither."""

import hashlib
import re
from dataclasses import dataclass

from connectors.protocol import Fetched
from connectors.web.address import address
from connectors.web.client import unpacked
from connectors.web.feed import Links, links_of, looks_like_feed
from connectors.web.page import page_of
from connectors.web.visitor import Visit

_HTML = frozenset(("text/html", "application/xhtml+xml"))
_TEXT = frozenset(("text/plain", "text/markdown", "text/x-markdown", "text/x-rst"))
_FILES = frozenset(("application/pdf",))
_GZIP = frozenset(("application/gzip", "application/x-gzip"))
_XML = ("/xml", "+xml")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_MAX_LINKS = 1000


@dataclass(frozen=True, slots=True)
class Content:
    """`page` is None for a list of pages. `links` are all addresses that it names."""

    page: Fetched | None
    links: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def is_readable(media_type: str) -> bool:
    """Whether the body is worth asking for; a type that is not given may be anything."""
    return media_type in _HTML | _TEXT | _FILES | _GZIP | {""} or media_type.endswith(_XML)


def content_of(visit: Visit, max_bytes: int, max_links: int) -> Content | None:
    """None for what is neither. Raises NoFeed and Unreachable for what is damaged."""
    kind, body = visit.reply.media_type, visit.reply.body
    if body.startswith(b"\x1f\x8b"):
        kind, body = "application/xml", unpacked(body, max_bytes)
    if not is_readable(kind):
        return None
    if looks_like_feed(kind, body):
        return _listed(links_of(body, max_links), visit.url)
    if kind in _FILES:
        return Content(_fetched(visit, body, kind))
    text = _decoded(body, visit.reply.header("content-type"))
    if kind in _TEXT:
        return Content(_fetched(visit, text.encode(), f"{kind}; charset=utf-8"))
    if kind not in _HTML and "<html" not in text[:2000].lower():
        return None
    page = page_of(text)
    inner = _addresses(page.main_links, visit.url)[:_MAX_LINKS]
    fetched = _fetched(
        visit, page.html.encode(), "text/html; charset=utf-8", title=page.title, links=inner
    )
    return Content(fetched, _addresses(page.links, visit.url)[:max_links])


def _listed(links: Links, base: str) -> Content:
    return Content(None, _addresses(links.pages, base), _addresses(links.sitemaps, base))


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
