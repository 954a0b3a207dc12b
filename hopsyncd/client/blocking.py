"""The blocking client. It uses only the standard library, because the CLI must start quickly."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopsyncd.client import protocol
from hopsyncd.client.call import Answer, Call
from hopsyncd.client.calls import Methods
from hopsyncd.client.remote import Remote
from hopsyncd.client.starting import PAUSE_S, wait_while_starting
from hopsyncd.client.trust import check_peer, list_trusted_users

if TYPE_CHECKING:
    from hopsyncd.client.asynchronous import AsyncClient
    from hopsyncd.responses.results import Event

_PART_BYTES = 1 << 16
_MAX_IDLE = 4  # the most idle connections that are kept.
_IDLE_S = 30.0  # Idle connections are dropped before the server's limit ends them.


class _Deadline(socket.socket):
    """A socket with a deadline for the whole answer, even if the server sends it slowly."""

    until_s: float | None = None  # the deadline, by time.monotonic()
    whole_s: float | None = None  # the time limit of the answer, from its first byte

    def recv_into(self, buffer: Any, *sizes: Any) -> int:
        """Receive bytes into a buffer. Raises TimeoutError if the deadline has passed."""
        if self.until_s is not None:
            left_s = self.until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("timed out")
            self.settimeout(left_s)
        received = super().recv_into(buffer, *sizes)
        if self.whole_s is not None:
            until_s, self.whole_s = time.monotonic() + self.whole_s, None
            self.until_s = min(until_s, self.until_s or until_s)
        return received


class _TlsDeadline(_Deadline, ssl.SSLSocket):
    """A TLS socket with a deadline for the whole answer."""


class _Connection(HTTPConnection):
    """A connection over a Unix socket, or over TCP."""

    sock: _Deadline

    def __init__(self, place: Path | Remote) -> None:
        super().__init__(
            place.host if isinstance(place, Remote) else "hopsyncd", timeout=protocol.CONNECT_S
        )
        self._place = place
        if isinstance(place, Remote):
            self.port = place.port
        self.idle_since_s = 0.0

    def connect(self) -> None:
        if isinstance(self._place, Remote):
            self.sock = self._connect_to(self._place)
            return
        connected = _Deadline(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock = connected  # closed with the connection
        trusted = list_trusted_users(self._place)
        connected.settimeout(protocol.CONNECT_S)
        connected.connect(str(self._place))
        check_peer(self._place, connected, trusted)

    @staticmethod
    def _connect_to(place: Remote) -> _Deadline:
        with socket.create_connection((place.host, place.port), protocol.CONNECT_S) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not place.tls:
                deadline = _Deadline(fileno=plain.detach())
                deadline.settimeout(protocol.CONNECT_S)
                return deadline
            context = place.context
            context.sslsocket_class = _TlsDeadline
            secured = context.wrap_socket(plain, server_hostname=place.host)
            assert isinstance(secured, _TlsDeadline)
            return secured

    def expect(self, timeout_s: float | None, *, streams: bool) -> None:
        """Set the deadlines of the next answer.

        timeout_s: the limit until the answer begins; None means no limit. streams: whether the
        answer may pause between two lines. Otherwise it must be complete WHOLE_S after its
        beginning.
        """
        self.sock.settimeout(timeout_s)
        self.sock.until_s = self.sock.whole_s = None
        if not streams:
            self.sock.until_s = time.monotonic() + timeout_s if timeout_s else None
            self.sock.whole_s = protocol.WHOLE_S

    @property
    def is_usable(self) -> bool:
        """Return whether an idle connection is still open.

        If the server closed the connection, its socket is readable.
        """
        if time.monotonic() - self.idle_since_s > _IDLE_S:
            return False
        readable, _, _ = select.select([self.sock], [], [], 0)
        return not readable


class Client(Methods):
    """Connects to the daemon at `place`: the path of its socket, or "https://HOST:PORT" with the
    `token`. "HOST:PORT" is plain TCP on this machine.

    Every method raises DaemonUntrusted if another user could have created the socket,
    DaemonUnavailable if no valid answer comes within `timeout_s`, and RequestFailed if the daemon
    answers with an error. `ca` is a file of certificate authorities to trust instead of the
    system's. Connections over TLS are kept for further requests. `browser` is set only by the
    daemon's web interface: the address of the browser, which gets the rights of the `token`.
    """

    def __init__(
        self,
        place: Path | str | Remote,
        token: str = "",
        timeout_s: float | None = None,
        ca: Path | None = None,
        browser: str | None = None,
    ) -> None:
        self._place = protocol.parse_place(place, ca)
        self._timeout_s = timeout_s
        self._keeps = isinstance(self._place, Remote) and self._place.tls
        self._browser = browser
        self._headers = protocol.make_headers(token, browser)
        if not self._keeps:
            self._headers["Connection"] = "close"
        self._token = token
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    @property
    def is_remote(self) -> bool:
        """Whether the daemon's documents may be on a machine other than the user's."""
        return isinstance(self._place, Remote) or self._browser is not None

    def asynchronous(self) -> AsyncClient:
        """Create a client for asyncio that uses the same daemon and the same token."""
        from hopsyncd.client.asynchronous import AsyncClient

        return AsyncClient(self._place, self._token, self._timeout_s, browser=self._browser)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def get(self, path: str) -> dict[str, Any]:
        """GET a path such as /v1/status."""
        return self.send(Call("GET", path))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.send(Call("POST", path, body))

    def delete(self, path: str) -> dict[str, Any]:
        return self.send(Call("DELETE", path))

    def send(self, call: Call[Answer]) -> Answer:
        with self._response(call, protocol.JSON) as response:
            content = self._read_content(response)
        media_type = response.headers.get("Content-Type", "")
        answer: Answer = protocol.parse_answer(
            self._place, call, response.status, media_type, content
        )
        return answer

    def stream_events(self, call: Call[Any]) -> Generator[Event, None, None]:
        """Yield the events of the call's work. The last event has the answer.

        Closing the iterator early ends the work, unless another client needs it.
        """
        with self._response(call, protocol.NDJSON) as response:
            media_type = response.headers.get("Content-Type", "")
            if response.status != 200:
                content = self._read_content(response)
                protocol.parse_answer(self._place, call, response.status, media_type, content)
            protocol.check_type(self._place, response.status, media_type, protocol.NDJSON)
            while line := response.readline(protocol.MAX_BYTES + 1):
                if len(line) > protocol.MAX_BYTES:
                    raise protocol.too_long_error(self._place)
                event = protocol.parse_event(self._place, call, line)
                yield event
                if event["event"] == "answer":
                    return
        raise protocol.unusable_error(self._place, "the stream ended before the answer")

    def _read_content(self, response: HTTPResponse) -> bytes:
        content = bytearray()
        while part := response.read(_PART_BYTES):
            content += part
            if len(content) > protocol.MAX_BYTES:
                raise protocol.too_long_error(self._place)
        if response.length:
            raise protocol.unusable_error(self._place, "the response was cut off")
        return bytes(content)

    @contextmanager
    def _response(self, call: Call[Any], accept: str) -> Iterator[HTTPResponse]:
        body = None if call.body is None else protocol.encode_body(call.body)
        headers = {**self._headers, "Accept": accept}
        for _ in wait_while_starting(self._place, self._timeout_s):
            time.sleep(PAUSE_S)
        connection, may_keep = self._get_connection(), False
        try:
            connection.expect(self._timeout_s, streams=accept == protocol.NDJSON)
            # A server that refuses a request may answer before it has read the whole request.
            with suppress(BrokenPipeError):
                connection.request(call.method, call.path, body, headers)
            with connection.getresponse() as response:
                yield response
                may_keep = self._keeps and response.isclosed() and not response.will_close
        except (OSError, HTTPException) as error:
            raise protocol.unreachable_error(self._place, error, connecting=False) from error
        finally:
            self._release(connection, may_keep=may_keep)

    def _get_connection(self) -> _Connection:
        """Return an idle connection, or open a new one."""
        while self._idle:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle and idle.is_usable:
                return idle
            if idle:
                idle.close()
        connection = _Connection(self._place)
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError | UnicodeError):
                raise protocol.unreachable_error(self._place, error, connecting=True) from error
            raise
        return connection

    def _release(self, connection: _Connection, *, may_keep: bool) -> None:
        with self._lock:
            if may_keep and len(self._idle) < _MAX_IDLE:
                connection.idle_since_s = time.monotonic()
                self._idle.append(connection)
                return
        connection.close()
