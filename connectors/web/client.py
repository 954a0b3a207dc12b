"""One HTTP request to a server that is not trusted: bounded in time and size, to a public address.

The name is looked up once, every address is checked, and the connection goes to one of those, so
that a name cannot stand for another address a moment later. No proxy is used, and redirects are
left to the caller. Timeouts of HTTP libraries hold for each read; here one bounds the whole.
"""

import contextlib
import functools
import ipaddress
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpcore2

Resolve = Callable[[str, int], Sequence[str]]
IsAllowed = Callable[[str], bool]

USER_AGENT = "hopsyncd"
_CONNECT_S = 10.0
_MAX_PACKED_RATIO = 200  # of honest text 20 is much
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL = ipaddress.ip_network("2000::/3")  # all that is given out of IPv6
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
_FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
    OSError,
    ValueError,
)


class Unreachable(Exception):
    """No answer that could be used: why, and whether asking another page there is as futile."""

    def __init__(self, why: str, *, host_is_down: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.host_is_down = host_is_down


@dataclass(frozen=True, slots=True)
class Reply:
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
class Client:
    """Asks for one page after the other, each over a connection of its own.

    `is_allowed` judges addresses, `max_bytes` bounds a body as it is unpacked.
    """

    timeout_s: float
    max_bytes: int
    is_allowed: IsAllowed = is_public
    resolve: Resolve = resolve

    def get(self, url: str, headers: dict[str, str], accepts: Callable[[str], bool]) -> Reply:
        """The answer to one GET; the body only of a 200 whose media type `accepts` takes.

        Raises Unreachable.
        """
        backend = _Backend(self, time.monotonic() + self.timeout_s)
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, identity", **headers}
        try:
            pool = httpcore2.ConnectionPool(ssl_context=_certificates(), network_backend=backend)
            with pool, pool.stream("GET", url, headers=list(sent.items())) as response:
                got = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers
                }
                reply = Reply(response.status, got, b"")
                if reply.status != 200 or not accepts(reply.media_type):
                    return reply
                return Reply(reply.status, got, self._body(reply, response.iter_stream()))
        except _FAILURES as error:
            is_slow = isinstance(error, httpcore2.TimeoutException)
            why = f"no answer within {self.timeout_s:g} s" if is_slow else str(error)
            raise Unreachable(why or type(error).__name__, host_is_down=True) from error

    def _body(self, reply: Reply, parts: Iterable[bytes]) -> bytes:
        packing = reply.header("content-encoding").strip().lower() or "identity"
        if packing not in ("identity", "gzip", "x-gzip"):
            raise Unreachable(f"its answer is packed as {packing!r}, which was not asked for")
        body = bytearray()
        for part in parts:
            body += part
            if len(body) > self.max_bytes:
                raise too_large(self.max_bytes)
        return bytes(body) if packing == "identity" else unpacked(bytes(body), self.max_bytes)


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


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, client: Client, deadline_s: float) -> None:
        self._client = client
        self._deadline_s = deadline_s
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = self._client.resolve(host, port)
        refused = [address for address in addresses if not self._client.is_allowed(address)]
        if refused or not addresses:
            raise Unreachable(
                f"{host} is at {refused[0]}, a private address"
                if refused
                else f"no {host} is known"
            )
        error: Exception = OSError(f"no {host} is known")
        for address in addresses:
            try:
                limit = min(left_s(self._deadline_s), _CONNECT_S)
                inner = self._inner.connect_tcp(address, port, limit, None, socket_options)
                return _Stream(inner, self._deadline_s)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                error = failed
        raise error


class _Stream(httpcore2.NetworkStream):
    """Whose every wait ends at the deadline."""

    def __init__(self, inner: httpcore2.NetworkStream, deadline_s: float) -> None:
        self._inner = inner
        self._deadline_s = deadline_s

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, left_s(self._deadline_s))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, left_s(self._deadline_s))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        limit = left_s(self._deadline_s)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, limit), self._deadline_s)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def left_s(deadline_s: float) -> float:
    """Raises ReadTimeout when the deadline has passed."""
    left = deadline_s - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("no time is left")
    return left
