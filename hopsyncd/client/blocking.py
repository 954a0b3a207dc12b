"""The blocking client, on the standard library alone: the CLI must start quickly."""

from __future__ import annotations

import socket
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopsyncd.client.call import Answer, Call
from hopsyncd.client.calls import Methods
from hopsyncd.client.response import (
    CONNECT_S,
    JSON,
    MAX_BYTES,
    NDJSON,
    WHOLE_S,
    answer_of,
    body_of,
    check_type,
    event_of,
    headers_of,
    place_of,
    too_long,
    unreachable,
    unusable,
)
from hopsyncd.client.starting import PAUSE_S, while_starting
from hopsyncd.client.trust import check_peer, trusted_users

if TYPE_CHECKING:
    from hopsyncd.answers.found import Event
    from hopsyncd.client.asynchronous import AsyncClient

_PART_BYTES = 1 << 16


class _Socket(socket.socket):
    """A socket whose deadline holds for a whole answer, however slowly that drips in."""

    until_s: float | None = None  # the deadline, by time.monotonic()
    whole_s: float | None = None  # the time for the answer, from its first byte on

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Raises TimeoutError once the deadline has passed."""
        if self.until_s is not None:
            left_s = self.until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("timed out")
            self.settimeout(left_s)
        received = super().recv_into(buffer, nbytes, flags)
        if self.whole_s is not None:
            until_s, self.whole_s = time.monotonic() + self.whole_s, None
            self.until_s = min(until_s, self.until_s or until_s)
        return received


class _Connection(HTTPConnection):
    """A connection over a Unix socket, or over TCP. Without `timeout_s` it waits for an answer.

    A response that `streams` may pause between two lines. Any other has WHOLE_S once it has begun.
    """

    def __init__(self, place: Path | str, timeout_s: float | None, *, streams: bool) -> None:
        super().__init__(place if isinstance(place, str) else "hopsyncd", timeout=CONNECT_S)
        self._place = place
        self._timeout_s = timeout_s
        self._streams = streams

    def connect(self) -> None:
        if isinstance(self._place, str):
            super().connect()
            made = _Socket(fileno=self.sock.detach())
        else:
            made = _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock = made  # so that it is closed with the connection
            trusted = trusted_users(self._place)
            made.settimeout(CONNECT_S)
            made.connect(str(self._place))
            check_peer(self._place, made, trusted)
        self.sock = made
        made.settimeout(self._timeout_s)
        if not self._streams:
            made.until_s = time.monotonic() + self._timeout_s if self._timeout_s else None
            made.whole_s = WHOLE_S


class Client(Methods):
    """Speaks to the daemon at `place`: the path of its socket, or "HOST:PORT" with the `token`.

    Every method raises DaemonUntrusted if another user could be answering, DaemonUnavailable if no
    valid answer comes within `timeout_s`, and RequestFailed if the daemon answers with an error.
    """

    def __init__(self, place: Path | str, token: str = "", timeout_s: float | None = None) -> None:
        self._place = place_of(place)
        self._timeout_s = timeout_s
        self._headers = headers_of(token)
        self._token = token

    def asynchronous(self) -> AsyncClient:
        """A client for asyncio that speaks to the same daemon with the same token."""
        from hopsyncd.client.asynchronous import AsyncClient

        return AsyncClient(self._place, self._token, self._timeout_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Does nothing, as no connection outlives its request; here so that `closing` works."""

    def get(self, path: str) -> dict[str, Any]:
        """GET a path such as /v1/status."""
        return self.send(Call("GET", path))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.send(Call("POST", path, body))

    def delete(self, path: str) -> dict[str, Any]:
        return self.send(Call("DELETE", path))

    def send(self, call: Call[Answer]) -> Answer:
        """The answer to any call."""
        with self._response(call, JSON) as response:
            content = self._content_of(response)
        media_type = response.headers.get("Content-Type", "")
        answer: Answer = answer_of(self._place, call, response.status, media_type, content)
        return answer

    def events(self, call: Call[Any]) -> Generator[Event, None, None]:
        """The events of the work; the last one has the answer.

        Closing the iterator early ends the work, unless somebody else needs it.
        """
        with self._response(call, NDJSON) as response:
            media_type = response.headers.get("Content-Type", "")
            if response.status != 200:
                content = self._content_of(response)
                answer_of(self._place, call, response.status, media_type, content)
            check_type(self._place, response.status, media_type, NDJSON)
            while line := response.readline(MAX_BYTES + 1):
                if len(line) > MAX_BYTES:
                    raise too_long(self._place)
                event = event_of(self._place, call, line)
                yield event
                if event["event"] == "answer":
                    return
        raise unusable(self._place, "the stream ended before the answer")

    def _content_of(self, response: HTTPResponse) -> bytes:
        content = bytearray()
        while part := response.read(_PART_BYTES):
            content += part
            if len(content) > MAX_BYTES:
                raise too_long(self._place)
        if response.length:
            raise unusable(self._place, "it was cut off")
        return bytes(content)

    @contextmanager
    def _response(self, call: Call[Any], accept: str) -> Iterator[HTTPResponse]:
        body = None if call.body is None else body_of(call.body)
        headers = {**self._headers, "Accept": accept, "Connection": "close"}
        streams = accept == NDJSON
        for _ in while_starting(self._place, self._timeout_s):
            time.sleep(PAUSE_S)
        with closing(_Connection(self._place, self._timeout_s, streams=streams)) as connection:
            try:
                connection.connect()
            except (OSError, UnicodeError) as error:
                raise unreachable(self._place, error, connecting=True) from error
            try:
                # Who refuses a request may answer before all of it is read.
                with suppress(BrokenPipeError):
                    connection.request(call.method, call.path, body, headers)
                with connection.getresponse() as response:
                    yield response
            except (OSError, HTTPException) as error:
                raise unreachable(self._place, error, connecting=False) from error
