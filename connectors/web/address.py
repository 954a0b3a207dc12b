"""Addresses of pages: their canonical spelling, and which belong to a source."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

MAX_CHARACTERS = 2000
_PORTS = {"http": 80, "https": 443}
_SAFE = "!$&'()*+,;=:@/?%-._~[]"


def address(text: str, base: str = "") -> str | None:
    """A link as a canonical address without fragment; None if it is not a page on the web.

    >>> address("../B c#top", "HTTP://Example.org:80/a/d/e.html")
    'http://example.org/a/B%20c'
    >>> address("mailto:ann@example.org", "http://example.org/") is None
    True
    """
    try:
        parts = urlsplit(urljoin(base, text.strip()))
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        if scheme not in _PORTS or not host or parts.username is not None:
            return None
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError:
        return None
    if any(ord(character) <= 32 or character in '"<>\\^`{|}/?#@' for character in name):
        return None
    name = f"[{name}]" if ":" in name else name
    place = name if port in (None, _PORTS[scheme]) else f"{name}:{port}"
    path, query = quote(parts.path or "/", _SAFE), quote(parts.query, _SAFE)
    found = urlunsplit((scheme, place, path, query, ""))
    return found if len(found) <= MAX_CHARACTERS else None


def host_of(url: str) -> str:
    """The host and port that identify a site, without `www.`.

    >>> host_of("https://www.example.org/a"), host_of("http://localhost:8080/")
    ('example.org', 'localhost:8080')
    """
    return urlsplit(url).netloc.removeprefix("www.")


def is_of(url: str, hosts: Sequence[str]) -> bool:
    """Whether the address is at one of the hosts, which may be shell patterns."""
    return any(fnmatchcase(host_of(url), host) for host in hosts)
