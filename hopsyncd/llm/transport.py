"""HTTP to an endpoint that is not trusted: bounded in time and size, and abandoned when told so.

The timeouts of HTTP libraries hold for each read, so that a server that sends a byte now and then
keeps its caller for ever. Here the read timeout of a request bounds all of it, headers included.
"""

import contextlib
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import httpcore2
import httpx2

MAX_REPLY_BYTES = 1 << 20
_CONNECT_S = 10.0
_PIECE_BYTES = 1 << 16
_SLICE_S = 0.25  # how long an abandoned request may go on
_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)

Stop = threading.Event
Hear = Callable[[bytes], None]
_stop: ContextVar[Stop] = ContextVar("stop")
_hear: ContextVar[Hear | None] = ContextVar("hear")
_deadline: ContextVar[float] = ContextVar("deadline")


class ReplyUnreadable(httpx2.TransportError):
    """The response is larger than any reply can be, or packed though that was not asked for."""


@contextlib.contextmanager
def attended(stop: Stop, hear: Hear | None) -> Iterator[None]:
    """Requests of this thread end soon after `stop` is set.

    `hear` gets the body of a response that is no error, part by part as it comes.
    """
    stopped, heard = _stop.set(stop), _hear.set(hear)
    try:
        yield
    finally:
        _hear.reset(heard)
        _stop.reset(stopped)


class BoundedTransport(httpx2.BaseTransport):
    """Redirects are not followed; the proxies of the environment are used.

    Looking up the host's name is left to the system and its own timeouts.
    """

    def __init__(self, base_url: str) -> None:
        host, scheme = httpx2.URL(base_url).host, httpx2.URL(base_url).scheme
        proxies = {} if urllib.request.proxy_bypass(host) else urllib.request.getproxies()
        proxy = proxies.get(scheme) or proxies.get("all")
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            proxy=_proxy(proxy) if proxy else None,
            max_connections=None,
            keepalive_expiry=30.0,
            network_backend=_Backend(),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        token = _deadline.set(time.monotonic() + request.extensions["timeout"]["read"])
        try:
            return self._answer(request)
        except httpcore2.TimeoutException as error:
            raise httpx2.ReadTimeout(str(error), request=request) from error
        except (httpcore2.ConnectError, httpcore2.ProxyError) as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        except _ERRORS as error:
            raise httpx2.ReadError(str(error), request=request) from error
        finally:
            _deadline.reset(token)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        with self._pool.stream(
            request.method, url, headers=request.headers.raw, content=request.read()
        ) as response:
            headers = httpx2.Headers(response.headers)
            if headers.get("content-encoding", "identity").lower() != "identity":
                raise ReplyUnreadable("it is compressed, which was not asked for")
            hear = _hear.get() if response.status == 200 else None
            body = bytearray()
            for part in response.iter_stream():
                body += part
                if len(body) > MAX_REPLY_BYTES:
                    raise ReplyUnreadable(f"it is larger than {MAX_REPLY_BYTES} bytes")
                if hear:
                    hear(part)
            return httpx2.Response(response.status, headers=headers, content=bytes(body))

    def close(self) -> None:
        self._pool.close()


def _proxy(address: str) -> httpcore2.Proxy:
    proxy = httpx2.Proxy(address)
    return httpcore2.Proxy(str(proxy.url), auth=proxy.raw_auth)


def _left_s() -> float:
    """Until the deadline. Raises ReadTimeout when it has passed or the request is abandoned."""
    left = _deadline.get() - time.monotonic()
    if left <= 0 or _stop.get().is_set():
        raise httpcore2.ReadTimeout("no time is left")
    return left


class _Backend(httpcore2.NetworkBackend):
    def __init__(self) -> None:
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        limit = min(_left_s(), _CONNECT_S)
        try:
            inner = self._inner.connect_tcp(host, port, limit, local_address, socket_options)
        except httpcore2.ConnectTimeout as error:
            raise httpcore2.ConnectError(f"no connection within {limit:.0f} s") from error
        return _Stream(inner)


class _Stream(httpcore2.NetworkStream):
    """Reads and writes in slices of time, to look at the deadline and at `stop` in between."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            limit = min(_left_s(), _SLICE_S)
            with contextlib.suppress(httpcore2.ReadTimeout):
                return self._inner.read(max_bytes, limit)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _PIECE_BYTES):
            self._inner.write(buffer[at : at + _PIECE_BYTES], _left_s())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        limit = min(_left_s(), _CONNECT_S)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, limit))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
