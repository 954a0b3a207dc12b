"""The client for asyncio; its methods are those of Client, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopsyncd.client.calls import AsynchronousMethods
from hopsyncd.client.daemon_call import Answer, Call
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


class AsyncClient(AsynchronousMethods):
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
