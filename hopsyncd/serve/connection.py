"""One connection of a client: who it is, how long it may take, and how much it may send.

The HTTP itself is uvicorn's. What is refused here never reaches the application, and is answered in
the same form of errors.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hopsyncd.serve.failures import failed
from hopsyncd.serve.peer import UNKNOWN, Peer, peer_of
from hopsyncd.serve.stats import Load

MAX_HEAD_BYTES = 16 << 10
_LINGER_S = 2.0  # for which a client that still sends can read its answer
_LINGERING = 4  # times as many as may be open
_RETRY_AFTER = b"retry-after: 1\r\n"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client may take: to send a head, and then a body, or to take what is sent."""

    header_s: float
    body_s: float


class Connections:
    """All that are open, at most `most` of them."""

    def __init__(self, most: int, load: Load) -> None:
        self._most = most
        self._load = load
        self._open: dict[Connection, None] = {}
        self._lingering: dict[Connection, asyncio.TimerHandle] = {}

    def admit(self, new: "Connection") -> bool:
        """Whether there is room, perhaps as someone with more connections gives one up."""
        if len(self._open) >= self._most:
            greedy = self._greedier(new.peer)
            if greedy is None:
                self._load.refused += 1
                return False
            del self._open[greedy]
            greedy.give_way()
        self._open[new] = None
        self._load.connections = len(self._open)
        return True

    def forget(self, gone: "Connection") -> None:
        """It is closed."""
        self._open.pop(gone, None)
        self._load.connections = len(self._open)
        if closing := self._lingering.pop(gone, None):
            closing.cancel()

    def _greedier(self, peer: Peer) -> "Connection | None":
        """An idle connection of the user, then of the process, that has more than this one would.

        Of those, one of whoever has most, the longest open first.
        """
        users = Counter(one.peer.uid for one in self._open)
        processes = Counter((one.peer.uid, one.peer.pid) for one in self._open)

        def process_has(of: Peer) -> int:
            return processes[of.uid, of.pid]

        def has_more(other: Peer) -> bool:
            if other.uid != peer.uid:
                return users[other.uid] > users[peer.uid] + 1
            return process_has(other) > process_has(peer) + 1

        return max(
            (one for one in self._open if one.is_idle and has_more(one.peer)),
            key=lambda one: (users[one.peer.uid], process_has(one.peer)),
            default=None,
        )

    def linger(self, closing: "Connection") -> None:
        """Say no more, and close a little later: a client that is cut off while it sends may never
        read what it was answered. At once if too many do that.
        """
        if len(self._lingering) >= _LINGERING * self._most:
            closing.transport.close()
            return
        closing.transport.write_eof()
        self._lingering[closing] = closing.loop.call_later(_LINGER_S, closing.transport.close)


class Connection(HttpToolsProtocol):
    """uvicorn's connection within limits. The peer is in the state of its requests."""

    def __init__(
        self, *arguments: Any, connections: Connections, patience: Patience, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.peer = UNKNOWN
        self._all = connections
        self._patience = patience
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = False
        self._in_body = False
        self._deaf = False  # to whatever else is sent

    @property
    def is_idle(self) -> bool:
        """Whether no request is in hand."""
        return (self.cycle is None or self.cycle.response_complete) and not self.pipeline

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = peer_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, "peer": self.peer}
        if self._all.admit(self):
            self._expect(self._patience.header_s)
        else:
            self.give_way()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self)
        self._expect(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._reading is None and not self._in_body:
            self._expect(self._patience.header_s)
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        sent = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if sent > MAX_HEAD_BYTES:
            self._refuse_head()
        if self._deaf:
            return
        self._in_body = True
        self._expect(self._patience.body_s)
        super().on_headers_complete()
        if self.parser.should_upgrade():  # to nothing that is spoken here
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if not self._deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._expect(None)
        if not self._deaf:
            super().on_message_complete()
            self._deaf = self.parser.should_upgrade()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete:  # more than anyone wanted to read
            self._deaf = True
            self._all.linger(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(self._patience.body_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing:
            self._writing.cancel()
            self._writing = None

    def give_way(self) -> None:
        """Close for want of room."""
        self._refuse(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "busy",
            "The connection was refused: too many are open",
            "Try again in a second, over fewer connections; limits.connections sets how many",
        )

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP; uvicorn calls this."""
        self._refuse(
            HTTPStatus.BAD_REQUEST,
            "bad_request",
            "The request was refused: it is no HTTP/1.1",
            "docs/api.md says how to ask",
        )

    def _expect(self, within_s: float | None) -> None:
        """Set the time until which the client must have sent what comes next, if anything must."""
        if self._reading:
            self._reading.cancel()
        self._reading = self.loop.call_later(within_s, self._too_slow) if within_s else None

    def _too_slow(self) -> None:
        self._reading = None
        self._refuse(
            HTTPStatus.REQUEST_TIMEOUT,
            "timeout",
            "The request was refused: it did not arrive in time",
            "Send it at once; limits.header_s and limits.body_s set how long it may take",
        )

    def _refuse_head(self) -> None:
        self._refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            "bad_request",
            f"The request was refused: its head is longer than {MAX_HEAD_BYTES} bytes",
            "Put what is long into the body of a POST",
        )

    def _refuse(self, status: HTTPStatus, code: str, message: str, hint: str) -> None:
        """Answer and close, unless an earlier request is still to be answered: then after that."""
        if self._deaf or self.transport.is_closing():
            return
        self._deaf = True
        self._expect(None)
        in_hand = self.cycle is not None and not self.cycle.response_complete
        if in_hand and not self._in_body:
            self.cycle.keep_alive = False
            return
        if in_hand:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not (in_hand and (self.cycle.response_started or self.pipeline)):
            self._answer(status, json.dumps(failed(code, message, hint)).encode())
        self._all.linger(self)

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode())
            + b"content-type: application/json\r\n"
            + b"content-length: %d\r\n" % len(body)
            + (_RETRY_AFTER if status == HTTPStatus.SERVICE_UNAVAILABLE else b"")
            + b"connection: close\r\n\r\n"
            + body
        )
