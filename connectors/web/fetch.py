"""Sends HTTP requests to untrusted servers, with limits on time and size, and only to public
addresses.

A `Visitor` obeys robots.txt and waits between requests to a host. For each request, the host name
is resolved once, every address is checked, and the request is sent to one of these addresses. As a
result, the name cannot resolve to another address a moment later. The certificate must still match
the name. No proxy is used, and the caller follows redirects. A single time limit covers the whole
request.
"""

import asyncio
import functools
import ipaddress
import re
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import httpx2
from protego import Protego

from connectors.settings import get_host, normalise_address

Resolve = Callable[[str, int], Sequence[str]]
IsAllowed = Callable[[str], bool]

USER_AGENT = "hopsyncd"
_CONNECT_S = 10.0
_MAX_PACKED_RATIO = 200  # ordinary text is rarely compressed to less than 1/20
_ALWAYS_ALLOWED_BYTES = 1 << 20  # after decompression, whatever the ratio is
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL = ipaddress.ip_network("2000::/3")  # all public IPv6 addresses that are allocated
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
_PORTS = {"http": 80, "https": 443}
_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError)


class Unreachable(Exception):
    """The server sent no usable response. If `host_is_down` is true, requests for other pages of
    the host would fail too. `hint` says what the user can do."""

    def __init__(
        self,
        why: str,
        hint: str = "Open the page in a browser. The next scan tries again.",
        *,
        host_is_down: bool = False,
    ) -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint
        self.host_is_down = host_is_down


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response, with header names in lower case and the body decompressed."""

    status: int
    headers: dict[str, str]
    body: bytes

    def get_header(self, name: str) -> str:
        return self.headers.get(name, "")

    @property
    def media_type(self) -> str:
        return self.get_header("content-type").partition(";")[0].strip().lower()


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in infos))


def is_public(address: str) -> bool:
    """Whether an address is on the public internet, not on this machine or its network.

    >>> is_public("93.184.216.34"), is_public("::ffff:10.0.0.1"), is_public("169.254.169.254")
    (True, False, False)
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner and not is_public(str(inner)):
            return False
        if not ip.ipv4_mapped and ip not in _NAT64 and ip not in _GLOBAL:
            return False
        ip = ip.ipv4_mapped or ip
    return ip.is_global and not ip.is_multicast and ip not in _PROTOCOLS


@dataclass(slots=True)
class PageFetcher:
    """Fetches pages one at a time, each over a new connection.

    `is_allowed` returns whether an IP address may be used. `max_bytes` limits a body after
    decompression.
    """

    timeout_s: float
    max_bytes: int
    is_allowed: IsAllowed = is_public
    resolve: Resolve = resolve

    def get(self, url: str, headers: dict[str, str], accepts: Callable[[str], bool]) -> HttpReply:
        """Send a GET request. The reply has a body only if its status is 200 and `accepts` returns
        True for its media type.

        Raises Unreachable if the server sends no usable response.
        """
        try:
            target = httpx2.URL(url)
            addresses = self._resolve_addresses(target)
            return asyncio.run(self._request(target, addresses, headers, accepts))
        except _FAILURES as error:
            is_slow = isinstance(error, TimeoutError | httpx2.TimeoutException)
            why = f"no answer within {self.timeout_s:g} s" if is_slow else str(error)
            raise Unreachable(why or type(error).__name__, host_is_down=True) from error

    def _resolve_addresses(self, url: httpx2.URL) -> Sequence[str]:
        addresses = self.resolve(url.host, url.port or _PORTS[url.scheme])
        for ip in addresses:
            if not self.is_allowed(ip):
                raise Unreachable(
                    f"{url.host} is at {ip}, a private address",
                    "If you trust this host, set `allow_private = true` for this source in"
                    " config.toml.",
                )
        return addresses

    async def _request(
        self,
        url: httpx2.URL,
        addresses: Sequence[str],
        headers: dict[str, str],
        accepts: Callable[[str], bool],
    ) -> HttpReply:
        async with asyncio.timeout(self.timeout_s), _make_client() as http:
            response = await _send(http, url, addresses, headers)
            try:
                reply = HttpReply(response.status_code, dict(response.headers), b"")
                if reply.status != 200 or not accepts(reply.media_type):
                    return reply
                return replace(reply, body=await self._read_body(reply, response.aiter_raw()))
            finally:
                await response.aclose()

    async def _read_body(self, reply: HttpReply, parts: AsyncIterator[bytes]) -> bytes:
        packing = reply.get_header("content-encoding").strip().lower() or "identity"
        if packing not in ("identity", "gzip", "x-gzip"):
            raise Unreachable(
                f"the response uses the compression {packing!r}, which was not requested"
            )
        body = bytearray()
        async for part in parts:
            body += part
            if len(body) > self.max_bytes:
                raise too_large_error(self.max_bytes)
        return bytes(body) if packing == "identity" else decompress(bytes(body), self.max_bytes)


async def _send(
    http: httpx2.AsyncClient, url: httpx2.URL, addresses: Sequence[str], headers: dict[str, str]
) -> httpx2.Response:
    """Return the response from the first address that can be reached. The body has not been read
    yet."""
    failed: Exception = OSError(f"{url.host} has no address")
    for ip in addresses:
        request = http.build_request(
            "GET",
            url.copy_with(host=ip),
            headers={"Host": url.netloc.decode(), **headers},
            extensions={"sni_hostname": url.host},
        )
        try:
            return await http.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failed = error
    raise failed


def _make_client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, identity"},
        verify=_load_certificates(),
        timeout=httpx2.Timeout(None, connect=_CONNECT_S),
        trust_env=False,
        follow_redirects=False,
    )


def decompress(data: bytes, max_bytes: int) -> bytes:
    """Decompress gzip data. Raises Unreachable if the data is damaged or the result is too large.

    The result may have `max_bytes`, but at most 200 times the length of `data` or 1 MiB, whichever
    is more.
    """
    limit = min(max_bytes, max(len(data) * _MAX_PACKED_RATIO, _ALWAYS_ALLOWED_BYTES))
    inflater = zlib.decompressobj(wbits=31)
    try:
        body = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise Unreachable("the response is not valid gzip") from error
    if len(body) > max_bytes:
        raise too_large_error(max_bytes)
    if len(body) > limit:
        raise Unreachable(
            f"the page is too large: {len(data):,} compressed bytes contain more than {limit:,}"
        )
    if not inflater.eof:
        raise Unreachable("the gzip data of the response is truncated")
    return body


def too_large_error(max_bytes: int) -> Unreachable:
    return Unreachable(
        f"the page is too large: more than {max_bytes:,} bytes",
        "Raise `max_bytes` of this source in config.toml.",
    )


@functools.cache
def _load_certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_ROBOTS_BYTES = 500 * 1024  # the size that RFC 9309 requires crawlers to read
_ROBOTS_AGE_S = 3600.0
_MAX_CRAWL_DELAY_S = 30.0
_FAILURES_IN_A_ROW = 2
_MAX_HOSTS = 100
_AGENT = re.compile(r"\s*user\W*agent\s*:?\s*([^\s#]*)", re.IGNORECASE)

Accepts = Callable[[str], bool]


class RobotsForbidden(Exception):
    """The robots.txt of the host forbids access to the page."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A server's reply and the address `url` of the reply. `elsewhere` is `url` if the request was
    redirected, or else empty."""

    url: str
    reply: HttpReply
    elsewhere: str = ""


@dataclass(slots=True)
class _Host:
    """The state of a host. `down` is the reason why no more requests are sent to the host in this
    round, or empty."""

    next_s: float = 0.0
    delay_s: float = 0.0
    failures: int = 0
    down: str = ""
    rules: Protego | None = None
    rules_until_s: float = 0.0


@dataclass(slots=True)
class Visitor:
    """Sends GET requests one at a time, follows redirects to allowed addresses, and obeys
    robots.txt."""

    client: PageFetcher
    delay_s: float
    is_wanted: Callable[[str], bool]
    _hosts: dict[str, _Host] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a new round, in which hosts that were down are tried again."""
        for host in self._hosts.values():
            host.failures, host.down = 0, ""

    def visit(self, url: str, headers: Mapping[str, str], accepts: Accepts) -> Visit:
        """Send a GET request, and follow up to five redirects.

        `is_wanted` must accept the target of each redirect. Raises Unreachable or RobotsForbidden.
        After two failures in a row, or status 429, no more requests are sent to the host in this
        round.
        """
        for redirects in range(_MAX_REDIRECTS + 1):
            if not self._load_rules(url).can_fetch(url, USER_AGENT):
                raise RobotsForbidden
            reply = self._get(url, headers, accepts)
            if reply.status not in _REDIRECTS:
                return Visit(url, reply, url if redirects else "")
            url = self._resolve_target(url, reply)
            if not self.is_wanted(url):
                raise Unreachable(
                    f"the page redirects to {url}, which is on another host",
                    f'Add "{get_host(url)}" to `hosts` of this source in config.toml.',
                )
        raise Unreachable(f"the page redirects more than {_MAX_REDIRECTS} times")

    def _load_rules(self, url: str) -> Protego:
        host = self._get_host(url)
        if host.rules is None or time.monotonic() > host.rules_until_s:
            host.rules = self._read_rules(url)
            host.rules_until_s = time.monotonic() + _ROBOTS_AGE_S
            delay = host.rules.crawl_delay(USER_AGENT)
            host.delay_s = min(float(delay or 0), _MAX_CRAWL_DELAY_S)
        return host.rules

    def _read_rules(self, url: str) -> Protego:
        """Read robots.txt as RFC 9309 requires.

        A response with a 4xx status other than 429 allows every page. Raises Unreachable for status
        429 or 5xx, and after more than five redirects.
        """
        parts = urlsplit(url)
        robots_url = f"{parts.scheme}://{parts.netloc}/robots.txt"
        for _ in range(_MAX_REDIRECTS + 1):
            reply = self._get(robots_url, {}, lambda _: True)
            if reply.status not in _REDIRECTS:
                break
            robots_url = self._resolve_target(robots_url, reply)
        if reply.status >= 500 or reply.status in (*_REDIRECTS, 429):
            raise Unreachable(f"the site's robots.txt cannot be read (HTTP {reply.status})")
        return read_robots(reply.body if reply.status == 200 else b"")

    def _get(self, url: str, headers: Mapping[str, str], accepts: Accepts) -> HttpReply:
        host = self._get_host(url)
        if host.down:
            raise Unreachable(host.down)
        wait_s = host.next_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        try:
            reply = self.client.get(url, dict(headers), accepts)
        except Unreachable as error:
            host.failures += error.host_is_down
            if host.failures >= _FAILURES_IN_A_ROW:
                host.down = f"{error.why}, repeatedly"
            raise
        finally:
            host.next_s = time.monotonic() + max(self.delay_s, host.delay_s)
        host.failures = 0
        if reply.status == 429:
            host.down = "the host asks for fewer requests (HTTP 429)"
        return reply

    def _resolve_target(self, url: str, reply: HttpReply) -> str:
        target = normalise_address(reply.get_header("location"), url)
        if target is None:
            raise Unreachable("the page redirects to an address that is not http or https")
        return target

    def _get_host(self, url: str) -> _Host:
        parts = urlsplit(url)
        name = f"{parts.scheme}://{parts.netloc}"
        if name not in self._hosts:
            while len(self._hosts) >= _MAX_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            self._hosts[name] = _Host()
        return self._hosts[name]


def read_robots(body: bytes) -> Protego:
    """Parse a robots.txt file. Only the first 500 KiB of a longer file are read."""
    text = body[:_MAX_ROBOTS_BYTES].decode("utf-8-sig", "replace")
    return Protego.parse(_merge_other_agents(text))


def _merge_other_agents(robots: str) -> str:
    """Replace the names of all other user agents with a single name.

    The parser stores each rule once per agent, which would take too much memory for thousands of
    agents.
    """

    def rename(line: str) -> str:
        match = _AGENT.match(line)
        if not match:
            return line
        name = match[1].lower()
        return f"user-agent: {name if name in ('*', USER_AGENT) else 'another'}"

    return "\n".join(map(rename, robots.splitlines()))
