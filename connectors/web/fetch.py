"""One HTTP request to a server that is not trusted: bounded in time and size, to a public address.

The name is looked up once, every address is checked, and the request names one of those, so that a
name cannot stand for another address a moment later; the certificate must still be the name's. No
proxy is used, and redirects are left to the caller. One time limit bounds the whole request.
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
_MAX_PACKED_RATIO = 200  # of honest text 20 is much
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL = ipaddress.ip_network("2000::/3")  # all that is given out of IPv6
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
_PORTS = {"http": 80, "https": 443}
_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError)


class Unreachable(Exception):
    """No answer that could be used: why, and whether asking another page there is as futile."""

    def __init__(self, why: str, *, host_is_down: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.host_is_down = host_is_down


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer. Header names are in lower case; the body is unpacked."""

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
    """Whether an address is one of the internet at large, not of this machine or network.

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
    """Asks for one page after the other, each over a connection of its own.

    `is_allowed` judges addresses, `max_bytes` bounds a body as it is unpacked.
    """

    timeout_s: float
    max_bytes: int
    is_allowed: IsAllowed = is_public
    resolve: Resolve = resolve

    def get(self, url: str, headers: dict[str, str], accepts: Callable[[str], bool]) -> HttpReply:
        """The answer to one GET; the body only of a 200 whose media type `accepts` takes.

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
            response = await _sent(http, url, addresses, headers)
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
            raise Unreachable(f"its answer is packed as {packing!r}, which was not asked for")
        body = bytearray()
        async for part in parts:
            body += part
            if len(body) > self.max_bytes:
                raise too_large(self.max_bytes)
        return bytes(body) if packing == "identity" else unpacked(bytes(body), self.max_bytes)


async def _sent(
    http: httpx2.AsyncClient, url: httpx2.URL, addresses: Sequence[str], headers: dict[str, str]
) -> httpx2.Response:
    """What the first of the addresses that can be reached answers, its body not read yet."""
    failed: Exception = OSError(f"no {url.host} is known")
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


def unpacked(data: bytes, max_bytes: int) -> bytes:
    """What a gzip holds. Raises Unreachable for what is none, or too large."""
    limit = min(max_bytes, len(data) * _MAX_PACKED_RATIO)
    inflater = zlib.decompressobj(wbits=31)
    try:
        body = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise Unreachable("its answer is damaged: it is no gzip") from error
    if len(body) > limit:
        raise too_large(limit)
    return body


def too_large(max_bytes: int) -> Unreachable:
    return Unreachable(f"it is too large: more than {max_bytes:,} bytes")


@functools.cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()
