"""The client for asyncio, with the methods of Client as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopsyncd.client import protocol
from hopsyncd.client.call import Answer, Call
from hopsyncd.client.calls import Methods
from hopsyncd.client.remote import Remote
from hopsyncd.client.starting import PAUSE_S, wait_while_starting
from hopsyncd.client.trust import check_peer, list_trusted_users
from hopsyncd.errors import DaemonUnavailable, DaemonUntrusted

if TYPE_CHECKING:
    import httpx2

    from hopsyncd.responses.results import Event


_MAX_IDLE = 4  # the most idle connections that are kept.
_IDLE_S = 30.0  # Idle connections are dropped before the server's limit ends them.


class AsyncClient(Methods):
    """Client for asyncio of the daemon at `place`. Use it with `async with`.

    Client explains the parameters. Every method raises what the same method of Client raises.
    """

    def __init__(
        self,
        place: Path | str | Remote,
        token: str = "",
        timeout_s: float | None = None,
        ca: Path | None = None,
        browser: str | None = None,
    ) -> None:
        import httpx2  # takes 0.2 s to import, which the CLI does not need

        self._place = protocol.parse_place(place, ca)
        self._timeout_s = timeout_s
        remote = self._place if isinstance(self._place, Remote) else None
        over_tls = remote is not None and remote.tls
        self._http = httpx2.AsyncClient(
            # verify=False: loading root certificates is slow, and a local connection needs none.
            transport=httpx2.AsyncHTTPTransport(
                uds=None if remote else str(self._place),
                verify=remote.context if remote and over_tls else False,
                limits=httpx2.Limits(
                    max_keepalive_connections=_MAX_IDLE if over_tls else 0, keepalive_expiry=_IDLE_S
                ),
            ),
            base_url=remote.url if remote else "http://hopsyncd",
            headers=protocol.make_headers(token, browser),
            timeout=httpx2.Timeout(timeout_s, connect=protocol.CONNECT_S),
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections, including connections of running requests."""
        await self._http.aclose()

    async def send(self, call: Call[Answer]) -> Answer:
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._response(call, protocol.JSON) as response,
            ):
                content = await _read_content(self._place, response)
        except TimeoutError as error:
            raise protocol.unreachable_error(self._place, error, connecting=False) from error
        media_type = response.headers.get("Content-Type", "")
        answer: Answer = protocol.parse_answer(
            self._place, call, response.status_code, media_type, content
        )
        return answer

    async def stream_events(self, call: Call[Any]) -> AsyncGenerator[Event, None]:
        """Yield the events of the call's work. The last event has the answer.

        Closing the iterator early ends the work, unless another client needs it.
        """
        async with self._response(call, protocol.NDJSON) as response:
            media_type = response.headers.get("Content-Type", "")
            if response.status_code != 200:
                content = await _read_content(self._place, response)
                protocol.parse_answer(self._place, call, response.status_code, media_type, content)
            protocol.check_type(self._place, response.status_code, media_type, protocol.NDJSON)
            async for line in _read_lines(self._place, response):
                event = protocol.parse_event(self._place, call, line)
                yield event
                if event["event"] == "answer":
                    return
        raise protocol.unusable_error(self._place, "the stream ended before the answer")

    @asynccontextmanager
    async def _response(self, call: Call[Any], accept: str) -> AsyncIterator[httpx2.Response]:
        import httpx2

        place = self._place
        for _ in wait_while_starting(place, self._timeout_s):
            await asyncio.sleep(PAUSE_S)
        extensions = {}
        if isinstance(place, Path):
            extensions["trace"] = _make_trust_hook(place, list_trusted_users(place))
        try:
            async with self._http.stream(
                call.method,
                call.path,
                content=None if call.body is None else protocol.encode_body(call.body),
                headers={"Accept": accept},
                extensions=extensions,
            ) as response:
                yield response
        except httpx2.RequestError as error:
            raise _unreachable_error(place, error) from error


def _make_trust_hook(
    place: Path, trusted: frozenset[int]
) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Create a trace hook for httpx2 that refuses connections to an untrusted user's process."""

    async def trace(step: str, info: Mapping[str, Any]) -> None:
        if step == "connection.connect_unix_socket.complete":
            stream = info["return_value"]
            try:
                check_peer(place, stream.get_extra_info("socket"), trusted)
            except BaseException:
                await stream.aclose()
                raise

    return trace


async def _read_content(place: Path | Remote, response: httpx2.Response) -> bytes:
    """Read the body of an answer that is not streamed. The body must be complete within WHOLE_S."""
    content = bytearray()
    async with asyncio.timeout(protocol.WHOLE_S):
        async for part in response.aiter_raw():
            content += part
            if len(content) > protocol.MAX_BYTES:
                raise protocol.too_long_error(place)
    return bytes(content)


async def _read_lines(place: Path | Remote, response: httpx2.Response) -> AsyncIterator[bytes]:
    unfinished = bytearray()
    async for part in response.aiter_raw():
        *ended, rest = part.split(b"\n")
        for line in ended:
            yield bytes(unfinished + line)
            unfinished.clear()
        unfinished += rest
        if len(unfinished) > protocol.MAX_BYTES:
            raise protocol.too_long_error(place)
    if unfinished:
        yield bytes(unfinished)


def _unreachable_error(
    place: Path | Remote, error: httpx2.RequestError
) -> DaemonUnavailable | DaemonUntrusted:
    import httpx2

    connecting = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
    if isinstance(error, httpx2.TimeoutException):
        return protocol.unreachable_error(place, TimeoutError(), connecting=connecting)
    below: BaseException | None = error
    # Find the system's error. anyio tries all addresses of a host and groups their errors.
    while connecting and below and not (isinstance(below, OSError) and below.errno):
        if isinstance(below, BaseExceptionGroup):
            below = below.exceptions[0]
        else:
            below = below.__cause__ or below.__context__
    if isinstance(error, httpx2.NetworkError) and not connecting:
        below = ConnectionError()
    return protocol.unreachable_error(place, below or error, connecting=connecting)
