"""The client for asyncio; its methods are those of Client, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from hopsyncd.client import calls
from hopsyncd.client.calls import Call
from hopsyncd.client.response import (
    CONNECT_S,
    NDJSON,
    answer_of,
    body_of,
    cut_off,
    event_of,
    headers_of,
    unreachable,
)
from hopsyncd.errors import DaemonUnavailable

if TYPE_CHECKING:
    from hopsyncd.serve.answers import Event

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

    Every method raises DaemonUnavailable where nobody answers, and RequestFailed for an error.
    """

    def __init__(self, place: Path | str, token: str = "") -> None:
        import httpx  # a fifth of a second that `hopsyncd query` does not wait for

        self._place = place
        over_tcp = isinstance(place, str)
        self._http = httpx.AsyncClient(
            # Without verify=False all root certificates are loaded, for a socket that needs none.
            transport=httpx.AsyncHTTPTransport(
                uds=None if over_tcp else str(place),
                verify=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            ),
            base_url=f"http://{place}" if over_tcp else "http://hopsyncd",
            headers=headers_of(token),
            timeout=httpx.Timeout(None, connect=CONNECT_S),
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
        import httpx

        try:
            response = await self._http.request(
                call.method,
                call.path,
                content=_content(call),
                headers={"Accept": "application/json"},
            )
        except httpx.TransportError as error:
            raise _unreachable(self._place, error) from error
        answer: Answer = answer_of(
            self._place, response.status_code, response.content, is_text=call.is_text
        )
        return answer

    async def events(self, call: Call[Any]) -> AsyncIterator[Event]:
        """What is told while the work goes on; the last event has the answer.

        Closing the iterator before that ends the work, as far as only this client waits for it.
        """
        import httpx

        try:
            async with self._http.stream(
                call.method, call.path, content=_content(call), headers={"Accept": NDJSON}
            ) as response:
                if not response.is_success:
                    answer_of(self._place, response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    event = event_of(self._place, line.encode())
                    yield event
                    if event["event"] == "answer":
                        return
        except httpx.TransportError as error:
            raise _unreachable(self._place, error) from error
        raise cut_off(self._place, "the stream ended before the answer")


def _unreachable(place: object, error: Exception) -> DaemonUnavailable:
    import httpx

    connecting = isinstance(error, httpx.ConnectError)
    below: BaseException | None = error
    while connecting and below and not isinstance(below, OSError):  # the system's own words
        below = below.__cause__ or below.__context__
    return unreachable(place, below or error, connecting=connecting)


def _content(call: Call[Any]) -> bytes | None:
    return None if call.body is None else body_of(call.body)
