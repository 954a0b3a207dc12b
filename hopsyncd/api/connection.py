"""Limits the number of client connections, their duration, and the data that each may send.

uvicorn handles HTTP. A request that is refused here never reaches the application. Its error has
the same JSON form as the application's errors. Some file descriptors are reserved, so that
connections cannot use all of them.
"""

import asyncio
import json
import math
import resource
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hopsyncd.api.failures import make_failure_body
from hopsyncd.api.metrics import Load
from hopsyncd.api.worker_pools import choose_greediest
from hopsyncd.client.trust import UNKNOWN, Credentials, read_peer_credentials

log = structlog.get_logger(__name__)

WANTED = 65_536
"""How many descriptors the daemon asks for; the hard limit may allow fewer."""

RESERVED = 256
"""The descriptors reserved for the database, the index, the reader, watches and query workers."""

ACCEPTED_AT_ONCE = 32
"""How many connections a listener accepts at once, before the limits apply."""

_SHORT_BODY_BYTES = 1 << 16  # after a refusal, a shorter body is read and the connection kept
_GENERATIONS = 3  # connections may be open, being refused, or being closed
_LISTENERS = 3
_LEAST_CONNECTIONS = 8


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to WANTED, or to a lower hard limit. Returns the limit
    then in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError) as error:
        log.warning("cannot raise the limit of open files", limit=soft, why=str(error))
        return soft
    return allowed


def compute_connection_limit(limit: int, descriptors: int) -> int:
    """Return how many connections, up to `limit`, leave enough of the file descriptors free.

    descriptors: the limit of open files. A fifth of the free descriptors is kept for connections
    that are closing.

    >>> [compute_connection_limit(256, descriptors) for descriptors in (1024, 512, 65536)]
    [256, 8, 256]
    """
    burst = ACCEPTED_AT_ONCE * _GENERATIONS * _LISTENERS
    room = (descriptors - RESERVED - burst) * 4 // 5
    return max(min(limit, room), min(limit, _LEAST_CONNECTIONS))


MAX_HEAD_BYTES = 16 << 10
_LINGER_S = 2.0  # a client that is still sending has this long to read its answer
_LINGERING_SHARE = 4  # at most a quarter of the connection limit may linger
_RETRY_AFTER = b"retry-after: 1\r\n"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The seconds within which a client must send headers, and send a body or receive an answer."""

    header_s: float
    body_s: float


class Connections:
    """The open connections, at most `limit` of them."""

    def __init__(self, limit: int, load: Load) -> None:
        self._limit = limit
        self._load = load
        self._open: dict[ClientConnection, None] = {}
        self._lingering: dict[ClientConnection, asyncio.TimerHandle] = {}

    def admit(self, new: "ClientConnection") -> bool:
        """Admit a connection. At the limit, close a connection of a user with more connections.

        Returns False if no user has more connections.
        """
        if len(self._open) >= self._limit:
            greedy = self._choose_greediest(new.credentials)
            if greedy is None:
                self._load.refused += 1
                return False
            del self._open[greedy]
            greedy.close_for_others()
        self._open[new] = None
        self._load.connections = len(self._open)
        return True

    def forget(self, closed: "ClientConnection") -> None:
        """Remove a closed connection."""
        self._open.pop(closed, None)
        self._load.connections = len(self._open)
        if closing := self._lingering.pop(closed, None):
            closing.cancel()

    def _choose_greediest(self, newcomer: Credentials) -> "ClientConnection | None":
        """Choose the connection to close so that there is room for a new connection.

        Chooses the oldest idle connection of the user with the most connections, or that user's
        newest connection if none is idle. Over TCP, the new connection's user is not known yet, so
        idle TCP connections are preferred.
        """
        idle = [connection for connection in self._open if connection.is_idle]
        if newcomer.uid is None and (
            remote := [connection for connection in idle if _is_remote(connection)]
        ):
            counts = Counter(connection.credentials.account for connection in self._open)
            return max(remote, key=lambda connection: counts[connection.credentials.account])
        return choose_greediest(self._open, newcomer, idle) or choose_greediest(
            self._open, newcomer, reversed(self._open)
        )

    def linger(self, closing: "ClientConnection") -> None:
        """Stop sending, and close the connection soon, or at once if too many connections linger.

        If a connection is closed while the client is still sending, the client may never read the
        answer.
        """
        if len(self._lingering) >= max(1, self._limit // _LINGERING_SHARE):
            closing.transport.close()
            return
        if closing.transport.can_write_eof():  # TLS cannot close one direction
            closing.transport.write_eof()
        self._lingering[closing] = closing.loop.call_later(_LINGER_S, closing.transport.close)


def _is_remote(connection: "ClientConnection") -> bool:
    return connection.credentials.uid is None


class ClientConnection(HttpToolsProtocol):
    """An HTTP connection of uvicorn, with limits. Each request has the credentials of the
    connection's client in its state."""

    def __init__(
        self, *arguments: Any, connections: Connections, timeouts: Timeouts, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.credentials = UNKNOWN
        self._all = connections
        self._timeouts = timeouts
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._open_bytes = 0  # received since the end of the headers or of a body's part
        self._part_ended = False  # whether a part ended in the data being read
        self._in_head = False
        self._in_body = False
        self._body_is_short = False
        self._ignores_input = False
        self._last_answer = b""  # sent after the answers to earlier requests

    @property
    def is_idle(self) -> bool:
        return (self.cycle is None or self.cycle.response_complete) and not self.pipeline

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.credentials = read_peer_credentials(transport.get_extra_info("socket"))
        if self.credentials == UNKNOWN and self.client:
            self.credentials = Credentials(address=self.client[0])
        self.app_state = {
            **self.app_state,
            "credentials": self.credentials,
            "identify": self.identify,
        }
        if self._all.admit(self):
            self._expect(self._timeouts.header_s)
        else:
            self.close_for_others()

    def identify(self, credentials: Credentials) -> None:
        """Assign the connection to the user of the newest request's token."""
        self.credentials = credentials

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self)
        self._expect(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        if self._reading is None and not self._in_body:
            self._expect(self._timeouts.header_s)
        self._part_ended = False
        super().data_received(data)
        self._open_bytes = 0 if self._part_ended else self._open_bytes + len(data)
        if (self._in_head or self._in_body) and self._open_bytes > MAX_HEAD_BYTES:
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers come after the request was checked
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._part_ended = False, True
        head_bytes = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if head_bytes > MAX_HEAD_BYTES:
            self._refuse_head()
        if self._ignores_input:
            return
        self._in_body = True
        self._body_is_short = _read_body_length(self.headers) <= _SHORT_BODY_BYTES
        self._expect(self._timeouts.body_s)
        super().on_headers_complete()
        if self.parser.should_upgrade():  # upgrades, such as to WebSocket, are not supported
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._part_ended = True
        if not self._ignores_input:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._part_ended = False, True
        self._expect(None)
        if not self._ignores_input:
            super().on_message_complete()
            self._ignores_input = self.parser.should_upgrade()

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if self._last_answer and is_last and not self.transport.is_closing():
            self.transport.write(self._last_answer)
            self._all.linger(self)
        elif self._in_body and self.cycle.response_complete and not self._body_is_short:
            # The client still sends a body that nobody reads.
            self._ignores_input = True
            self._all.linger(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(self._timeouts.body_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing:
            self._writing.cancel()
            self._writing = None

    def close_for_others(self) -> None:
        """Close the connection, even during a request, to make room for another connection."""
        if self.pipeline:
            self.transport.close()
            return
        self._refuse(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "busy",
            "The connection was refused: too many connections are open",
            "Try again in a second, over fewer connections, or raise limits.connections",
            at_once=True,
        )

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP with status 400. Called by uvicorn."""
        self._refuse(
            HTTPStatus.BAD_REQUEST,
            "bad_request",
            "The request was refused: not valid HTTP/1.1",
            "docs/reference/http-api.md has an example of a request",
        )

    def _expect(self, within_s: float | None) -> None:
        """Start the timer: the client must send its next data within this many seconds. None stops
        the timer."""
        if self._reading:
            self._reading.cancel()
        self._reading = self.loop.call_later(within_s, self._close_slow) if within_s else None

    def _close_slow(self) -> None:
        self._reading = None
        self._refuse(
            HTTPStatus.REQUEST_TIMEOUT,
            "timeout",
            "The request was refused: the whole request did not arrive in time",
            "Send the request faster, or raise limits.header_s and limits.body_s",
        )

    def _refuse_head(self) -> None:
        self._refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            "bad_request",
            f"The request was refused: the headers are longer than {MAX_HEAD_BYTES} bytes",
            "Put long values into the body of a POST",
        )

    def _refuse(
        self, status: HTTPStatus, code: str, message: str, hint: str, *, at_once: bool = False
    ) -> None:
        """Refuse further requests: send an error after the answers to earlier requests, and close.

        at_once: send the error even if the current request, which was received completely, has no
        answer yet. Otherwise, that request is answered, and no error is sent.
        """
        if self._ignores_input or self.transport.is_closing():
            return
        self._ignores_input = True
        self._expect(None)
        in_hand = self.cycle is not None and not self.cycle.response_complete
        if in_hand and not self._in_body and not at_once:
            self.cycle.keep_alive = False
            return
        answer = _format_answer(status, json.dumps(make_failure_body(code, message, hint)).encode())
        if in_hand and self.pipeline:
            self.pipeline.popleft()  # drop the newest request, which is refused
            self._last_answer = answer
            return
        if in_hand:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not (in_hand and self.cycle.response_started):
            self.transport.write(answer)
        self._all.linger(self)


def _read_body_length(headers: list[tuple[bytes, bytes]]) -> float:
    """Return the body's length from the Content-Length header, or infinity without one."""
    declared = dict(headers).get(b"content-length", b"")
    return int(declared) if declared.isdigit() else math.inf


def _format_answer(status: HTTPStatus, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode())
        + b"content-type: application/json\r\n"
        + b"content-length: %d\r\n" % len(body)
        + (_RETRY_AFTER if status == HTTPStatus.SERVICE_UNAVAILABLE else b"")
        + b"connection: close\r\n\r\n"
        + body
    )
