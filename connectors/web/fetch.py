"""One HTTP request to an untrusted server: bounded in time and size, to a public address.

The name is resolved once, every address is checked, and the request goes to one of them, so that
the name cannot resolve to another address a moment later. The certificate must still match the
name. No proxy is used, and redirects are left to the caller. One time limit bounds it all.
"""

import asyncio
import functools
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

import httpx2

Resolve = Callable[[str, int], Sequence[str]]
IsAllowed = Callable[[str], bool]

USER_AGENT = "hopsyncd"
_CONNECT_S = 10.0
_MAX_PACKED_RATIO = 200  # ordinary text rarely reaches 20
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL = ipaddress.ip_network("2000::/3")  # all of IPv6 that has been allocated
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
_PORTS = {"http": 80, "https": 443}
_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError)


class Unreachable(Exception):
    """No usable answer; `host_is_down` if other pages of the host would fail too."""

    def __init__(self, why: str, *, host_is_down: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.host_is_down = host_is_down


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer, with header names in lower case and the body decompressed."""

    status: int
    headers: dict[str, str]
    body: bytes

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


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
    """Fetches pages one at a time, each over its own connection.

    `is_allowed` judges addresses; `max_bytes` bounds a body after decompression.
    """

    timeout_s: float
    max_bytes: int
    is_allowed: IsAllowed = is_public
    resolve: Resolve = resolve

    def get(self, url: str, headers: dict[str, str], accepts: Callable[[str], bool]) -> HttpReply:
        """The answer to a GET, with the body only if it is a 200 of a type that `accepts` accepts.

        Raises Unreachable.
        """
        try:
            target = httpx2.URL(url)
            addresses = self._addresses(target)
            return asyncio.run(self._answer(target, addresses, headers, accepts))
        except _FAILURES as error:
            is_slow = isinstance(error, TimeoutError | httpx2.TimeoutException)
            why = f"no answer within {self.timeout_s:g} s" if is_slow else str(error)
            raise Unreachable(why or type(error).__name__, host_is_down=True) from error

    def _addresses(self, url: httpx2.URL) -> Sequence[str]:
        addresses = self.resolve(url.host, url.port or _PORTS[url.scheme])
        for address in addresses:
            if not self.is_allowed(address):
                raise Unreachable(f"{url.host} is at {address}, a private address")
        return addresses

    async def _answer(
        self,
        url: httpx2.URL,
        addresses: Sequence[str],
        headers: dict[str, str],
        accepts: Callable[[str], bool],
    ) -> HttpReply:
        async with asyncio.timeout(self.timeout_s), _http() as http:
            response = await _send(http, url, addresses, headers)
            try:
                reply = HttpReply(response.status_code, dict(response.headers), b"")
                if reply.status != 200 or not accepts(reply.media_type):
                    return reply
                return replace(reply, body=await self._body(reply, response.aiter_raw()))
            finally:
                await response.aclose()

    async def _body(self, reply: HttpReply, parts: AsyncIterator[bytes]) -> bytes:
        packing = reply.header("content-encoding").strip().lower() or "identity"
        if packing not in ("identity", "gzip", "x-gzip"):
            raise Unreachable(f"its answer is compressed as {packing!r}, which was not requested")
        body = bytearray()
        async for part in parts:
            body += part
            if len(body) > self.max_bytes:
                raise too_large(self.max_bytes)
        return bytes(body) if packing == "identity" else decompress(bytes(body), self.max_bytes)


async def _send(
    http: httpx2.AsyncClient, url: httpx2.URL, addresses: Sequence[str], headers: dict[str, str]
) -> httpx2.Response:
    """The response of the first address that can be reached, its body still unread."""
    failed: Exception = OSError(f"{url.host} has no address")
    for address in addresses:
        request = http.build_request(
            "GET",
            url.copy_with(host=address),
            headers={"Host": url.netloc.decode(), **headers},
            extensions={"sni_hostname": url.host},
        )
        try:
            return await http.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failed = error
    raise failed


def _http() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, identity"},
        verify=_certificates(),
        timeout=httpx2.Timeout(None, connect=_CONNECT_S),
        trust_env=False,
        follow_redirects=False,
    )


def decompress(data: bytes, max_bytes: int) -> bytes:
    """The content of gzip data. Raises Unreachable if it is damaged or too large."""
    limit = min(max_bytes, len(data) * _MAX_PACKED_RATIO)
    inflater = zlib.decompressobj(wbits=31)
    try:
        body = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise Unreachable("its answer is damaged: it is not gzip") from error
    if len(body) > limit:
        raise too_large(limit)
    return body


def too_large(max_bytes: int) -> Unreachable:
    return Unreachable(f"it is too large: more than {max_bytes:,} bytes")


@functools.cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()
