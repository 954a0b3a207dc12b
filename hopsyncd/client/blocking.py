"""The client for programs that wait; the standard library alone, for it starts quickly."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from hopsyncd.client import calls
from hopsyncd.client.calls import Call
from hopsyncd.client.response import (
    CONNECT_S,
    NDJSON,
    answer_of,
    body_of,
    event_of,
    headers_of,
    unreachable,
    whole,
)

if TYPE_CHECKING:
    from hopsyncd.serve.answers import Event

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class _Connection(HTTPConnection):
    """Over a Unix socket, or TCP. Without `timeout_s` an answer may take as long as it takes."""

    def __init__(self, place: Path | str, timeout_s: float | None) -> None:
        super().__init__(place if isinstance(place, str) else "hopsyncd", timeout=CONNECT_S)
        self._place = place
        self._timeout_s = timeout_s

    def connect(self) -> None:
        if isinstance(self._place, str):
            super().connect()
        else:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(CONNECT_S)
            self.sock.connect(str(self._place))
        self.sock.settimeout(self._timeout_s)


def _sent(
    make: Callable[Asked, Call[Answer]],
) -> Callable[Concatenate[Client, Asked], Answer]:
    @wraps(make)
    def method(self: Client, /, *asked: Asked.args, **more: Asked.kwargs) -> Answer:
        return self.send(make(*asked, **more))

    return method


def _told(
    make: Callable[Asked, Call[Any]],
) -> Callable[Concatenate[Client, Asked], Iterator[Event]]:
    @wraps(make)
    def method(self: Client, /, *asked: Asked.args, **more: Asked.kwargs) -> Iterator[Event]:
        return self.events(make(*asked, **more))

    return method


class Client:
    """Speaks to the daemon at `place`: the path of its socket, or "HOST:PORT" with the `token`.

    Every method raises DaemonUnavailable where nobody answers, or is silent for `timeout_s`, and
    RequestFailed for an error.
    """

    def __init__(self, place: Path | str, token: str = "", timeout_s: float | None = None) -> None:
        self._place = place
        self._timeout_s = timeout_s
        self._headers = headers_of(token)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing stays open between two requests: this is for symmetry with other clients."""

    query = _sent(calls.query)
    queries = _sent(calls.queries)
    ask = _sent(calls.ask)
    passage = _sent(calls.passage)
    documents = _sent(calls.documents)
    document = _sent(calls.document)
    neighbours = _sent(calls.neighbours)
    paths = _sent(calls.paths)
    log = _sent(calls.log)
    diff = _sent(calls.diff)
    status = _sent(calls.status)
    sources = _sent(calls.sources)
    health = _sent(calls.health)
    schedule = _sent(calls.schedule)
    jobs = _sent(calls.jobs)
    stats = _sent(calls.stats)
    metrics = _sent(calls.metrics)
    openapi = _sent(calls.openapi)
    sync = _sent(calls.sync)
    start_sync = _sent(calls.start_sync)
    preview = _sent(calls.preview)
    restore = _sent(calls.restore)
    release = _sent(calls.release)
    pause = _sent(calls.pause)
    resume = _sent(calls.resume)
    remove = _sent(calls.remove)
    tag = _sent(calls.tag)
    untag = _sent(calls.untag)
    reload = _sent(calls.reload)
    check = _sent(calls.check)
    backup = _sent(calls.backup)
    rebuild = _sent(calls.rebuild)
    gc = _sent(calls.gc)
    purge = _sent(calls.purge)

    ask_events = _told(calls.ask)
    sync_events = _told(calls.sync)
    release_events = _told(calls.release)

    def get(self, path: str) -> dict[str, Any]:
        """GET a path such as /v1/status."""
        return self.send(Call("GET", path))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST a JSON object."""
        return self.send(Call("POST", path, body))

    def delete(self, path: str) -> dict[str, Any]:
        """DELETE a path."""
        return self.send(Call("DELETE", path))

    def send(self, call: Call[Answer]) -> Answer:
        """The answer to any call."""
        with self._response(call, "application/json") as response:
            content = response.read()
        answer: Answer = answer_of(self._place, response.status, content, is_text=call.is_text)
        return answer

    def events(self, call: Call[Any]) -> Iterator[Event]:
        """What is told while the work goes on; the last event has the answer.

        Closing the iterator before that ends the work, as far as only this client waits for it.
        """
        with self._response(call, NDJSON) as response:
            if response.status != 200:
                answer_of(self._place, response.status, response.read())
            yield from whole(self._place, (event_of(self._place, line) for line in response))

    @contextmanager
    def _response(self, call: Call[Any], accept: str) -> Iterator[HTTPResponse]:
        body = None if call.body is None else body_of(call.body)
        headers = {**self._headers, "Accept": accept, "Connection": "close"}
        with closing(_Connection(self._place, self._timeout_s)) as connection:
            try:
                connection.connect()
            except OSError as error:
                raise unreachable(self._place, error, connecting=True) from error
            try:
                connection.request(call.method, call.path, body, headers)
                with connection.getresponse() as response:
                    yield response
            except (OSError, HTTPException) as error:
                raise unreachable(self._place, error, connecting=False) from error
