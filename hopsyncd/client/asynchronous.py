"""The client for asyncio; its methods are those of Client, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from hopsyncd.client import calls
from hopsyncd.client.calls import Call
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
from hopsyncd.client.trust import check_peer, trusted_users
from hopsyncd.errors import DaemonUnavailable

if TYPE_CHECKING:
    import httpx2

    from hopsyncd.answers.found import Event

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


def _sent(
    make: Callable[Asked, Call[Answer]],
) -> Callable[Concatenate[AsyncClient, Asked], Awaitable[Answer]]:
    @wraps(make)
    async def method(self: AsyncClient, /, *asked: Asked.args, **more: Asked.kwargs) -> Answer:
        return await self.send(make(*asked, **more))

    return method


def _told(
    make: Callable[Asked, Call[Any]],
) -> Callable[Concatenate[AsyncClient, Asked], AsyncIterator[Event]]:
    @wraps(make)
    def method(
        self: AsyncClient, /, *asked: Asked.args, **more: Asked.kwargs
    ) -> AsyncIterator[Event]:
        return self.events(make(*asked, **more))

    return method


class AsyncClient:
    """Speaks to the daemon at `place`, as Client does; use it with `async with`.

    Every method raises what those of Client raise.
    """

    def __init__(self, place: Path | str, token: str = "", timeout_s: float | None = None) -> None:
        import httpx2  # a fifth of a second that `hopsyncd query` does not wait for

        self._place = place_of(place)
        self._timeout_s = timeout_s
        over_tcp = isinstance(self._place, str)
        self._http = httpx2.AsyncClient(
            # Without verify=False all root certificates are loaded, for a socket that needs none.
            transport=httpx2.AsyncHTTPTransport(
                uds=None if over_tcp else str(self._place),
                verify=False,
                limits=httpx2.Limits(max_keepalive_connections=0),
            ),
            base_url=f"http://{self._place}" if over_tcp else "http://hopsyncd",
            headers=headers_of(token),
            timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End what is under way."""
        await self._http.aclose()

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

    async def send(self, call: Call[Answer]) -> Answer:
        """The answer to any call."""
        try:
            async with asyncio.timeout(self._timeout_s), self._response(call, JSON) as response:
                content = await _content_of(self._place, response)
        except TimeoutError as error:
            raise unreachable(self._place, error, connecting=False) from error
        media_type = response.headers.get("Content-Type", "")
        answer: Answer = answer_of(self._place, call, response.status_code, media_type, content)
        return answer

    async def events(self, call: Call[Any]) -> AsyncIterator[Event]:
        """What is told while the work goes on; the last event has the answer.

        Closing the iterator before that ends the work, as far as only this client waits for it.
        """
        async with self._response(call, NDJSON) as response:
            media_type = response.headers.get("Content-Type", "")
            if response.status_code != 200:
                content = await _content_of(self._place, response)
                answer_of(self._place, call, response.status_code, media_type, content)
            check_type(self._place, response.status_code, media_type, NDJSON)
            async for line in _lines(self._place, response):
                event = event_of(self._place, call, line)
                yield event
                if event["event"] == "answer":
                    return
        raise unusable(self._place, "the stream ended before the answer")

    @asynccontextmanager
    async def _response(self, call: Call[Any], accept: str) -> AsyncIterator[httpx2.Response]:
        import httpx2

        place = self._place
        extensions = {}
        if isinstance(place, Path):
            extensions["trace"] = _only_to(place, trusted_users(place))
        try:
            async with self._http.stream(
                call.method,
                call.path,
                content=None if call.body is None else body_of(call.body),
                headers={"Accept": accept},
                extensions=extensions,
            ) as response:
                yield response
        except httpx2.RequestError as error:
            raise _unreachable(place, error) from error


def _only_to(
    place: Path, trusted: frozenset[int]
) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """What httpx2 tells of its steps; a connection to another user ends before it is used."""

    async def trace(step: str, told: Mapping[str, Any]) -> None:
        if step == "connection.connect_unix_socket.complete":
            stream = told["return_value"]
            try:
                check_peer(place, stream.get_extra_info("socket"), trusted)
            except BaseException:
                await stream.aclose()
                raise

    return trace


async def _content_of(place: Path | str, response: httpx2.Response) -> bytes:
    """What follows the headers, which come with the rest of an answer in one piece."""
    content = bytearray()
    async with asyncio.timeout(WHOLE_S):
        async for part in response.aiter_raw():
            content += part
            if len(content) > MAX_BYTES:
                raise too_long(place)
    return bytes(content)


async def _lines(place: Path | str, response: httpx2.Response) -> AsyncIterator[bytes]:
    begun = bytearray()
    async for part in response.aiter_raw():
        *ended, rest = part.split(b"\n")
        for line in ended:
            yield bytes(begun + line)
            begun.clear()
        begun += rest
        if len(begun) > MAX_BYTES:
            raise too_long(place)
    if begun:
        yield bytes(begun)


def _unreachable(place: object, error: httpx2.RequestError) -> DaemonUnavailable:
    import httpx2

    connecting = isinstance(error, httpx2.ConnectError)
    below: BaseException | None = error
    if isinstance(error, httpx2.TimeoutException):
        below = TimeoutError()
    while connecting and below and not isinstance(below, OSError):  # the system's own words
        below = below.__cause__ or below.__context__
    if isinstance(error, httpx2.NetworkError) and not connecting:
        below = ConnectionError()
    return unreachable(place, below or error, connecting=connecting)
