"""Sends requests to an endpoint with `openai`. Returns the reply or raises RequestFailure.

The endpoint is not trusted: a request is limited in time and its reply in size. This module does
not retry. One thread runs all HTTP on an event loop. The waiting thread enforces the time limit, so
no server can exceed it.
"""

import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import httpx2

from hopsyncd.models.llm.chat_completion import Completion, read_completion, read_stream
from hopsyncd.models.llm.retry import RequestFailure, make_printable

if TYPE_CHECKING:
    import openai

MAX_REPLY_BYTES = 1 << 20
_CONNECT_S = 10.0
# The caller limits the time of the whole request.
_TIMEOUT = httpx2.Timeout(None, connect=_CONNECT_S)
_STOP_CHECK_S = 0.25  # An abandoned request ends within this time.
# A shorter key is not removed from messages: it is a dummy, maybe an ordinary word.
_SECRET_CHARS = 8
_NO_KEY = "none"  # sent without a key, because some local servers require any key
_STARTING = threading.Lock()

Put: TypeAlias = Callable[[str], None]
Reply = TypeVar("Reply")


class ReplyUnreadable(httpx2.TransportError):
    """The response is too large, or is compressed although no compression was requested."""


class HttpClient:
    """Sends requests to the endpoint at `base_url`. The key is sent only to this address.

    Redirects are not followed. Proxies from the environment are used.
    """

    def __init__(self, base_url: str, key: str, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        self._base_url = base_url
        self._key = key
        self._max_reply_bytes = max_reply_bytes

    def __repr__(self) -> str:
        return f"HttpClient({self._base_url!r})"

    def complete(
        self,
        body: dict[str, Any],
        timeout_s: float,
        stop: threading.Event,
        write: Callable[[str], None],
    ) -> Completion:
        """Send a request and read the reply. Raises RequestFailure or UnusableReply.

        Ends soon after `stop` is set. `write` is called on the caller's thread.
        """
        return self._run(lambda put: self._complete(body, put), timeout_s, stop, write)

    def post(
        self, path: str, body: dict[str, Any], timeout_s: float, stop: threading.Event
    ) -> bytes:
        """Post a request to a path of the API. Returns the whole reply. Raises RequestFailure."""
        return self._run(lambda _: self._post(path, body), timeout_s, stop, lambda _: None)

    def _run(
        self,
        send: Callable[[Put], Coroutine[Any, Any, Reply]],
        timeout_s: float,
        stop: threading.Event,
        write: Callable[[str], None],
    ) -> Reply:
        """Run `send` on the event loop and return its result.

        Text that `send` streams is passed to `write` on the caller's thread.
        """
        deadline_s = time.monotonic() + timeout_s
        with _STARTING:
            loop, _ = _start_loop(), self._client
        texts: SimpleQueue[str | None] = SimpleQueue()
        request = asyncio.run_coroutine_threadsafe(send(texts.put), loop)
        request.add_done_callback(lambda _: texts.put(None))
        try:
            while (text := _wait_for_text(texts, deadline_s, stop)) is not None:
                write(text)
            return request.result()
        finally:
            request.cancel()

    @functools.cached_property
    def _client(self) -> "openai.AsyncOpenAI":
        import openai  # This takes half a second, so do it only if an endpoint is used.

        return openai.AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._key or _NO_KEY,
            max_retries=0,
            timeout=_TIMEOUT,
            http_client=make_bounded_http(max_reply_bytes=self._max_reply_bytes),
        )

    async def _complete(self, body: dict[str, Any], put: Put) -> Completion:
        import openai

        completions = self._client.chat.completions.with_streaming_response
        with self._failures():
            async with completions.create(**body) as response:
                whole = "json" in response.headers.get("content-type", "")
                if whole or "stream" not in body:
                    return read_completion(await response.read())
                return await read_stream(await response.parse(to=openai.AsyncStream[object]), put)

    async def _post(self, path: str, body: dict[str, Any]) -> bytes:
        # `openai` has no method for reranking, and `embeddings.create` would ask for base64, which
        # some servers do not know.
        with self._failures():
            return await self._client.post(path, body=body, cast_to=bytes)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Convert errors of `openai` to RequestFailure."""
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise self._refusal_error(error) from None
        except openai.APIConnectionError as error:
            raise self._connection_error(error.__cause__) from None
        except openai.APIError:
            raise RequestFailure(0, "the reply ended with an error") from None
        except httpx2.TransportError as error:
            raise self._connection_error(error) from None

    def _refusal_error(self, error: "openai.APIStatusError") -> RequestFailure:
        code = error.code if isinstance(error.code, str) else ""
        details = error.body.get("message") if isinstance(error.body, dict) else error.body
        message = (
            self._remove_key(details)
            if isinstance(details, str) and details
            else "the endpoint gave no reason"
        )
        retry_after = error.response.headers.get("retry-after", "")
        return RequestFailure(error.status_code, message, code, retry_after)

    def _connection_error(self, cause: BaseException | None) -> RequestFailure:
        if isinstance(cause, ReplyUnreadable):
            return RequestFailure(0, f"the reply was not read: {cause}", readable=False)
        if isinstance(cause, httpx2.ConnectTimeout):
            return RequestFailure(0, f"no connection within {_CONNECT_S:.0f} s", sent=False)
        sent = not isinstance(cause, httpx2.ConnectError | httpx2.ProxyError)
        return RequestFailure(0, self._remove_key(str(cause)) or "the connection failed", sent=sent)

    def _remove_key(self, text: str) -> str:
        """Make untrusted text safe to log: remove the key and control characters, and shorten the
        text.
        """
        if len(self._key) >= _SECRET_CHARS:
            text = text.replace(self._key, "[key]")
        return make_printable(text)


def make_bounded_http(
    use_proxies: bool = True, max_reply_bytes: int = MAX_REPLY_BYTES
) -> httpx2.AsyncClient:
    """Create a client for an untrusted endpoint. The client raises ReplyUnreadable if a body has
    more than `max_reply_bytes`."""
    return httpx2.AsyncClient(
        trust_env=use_proxies,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [functools.partial(_limit_body, max_reply_bytes)]},
        limits=httpx2.Limits(keepalive_expiry=30.0),
        timeout=_TIMEOUT,
        follow_redirects=False,
    )


@functools.cache
def _start_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop for all requests. Its thread runs until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="llm-http", daemon=True).start()
    return loop


def _wait_for_text(
    texts: SimpleQueue[str | None], deadline_s: float, stop: threading.Event
) -> str | None:
    """Return the next text of a streamed reply, or None at the end.

    Raises RequestFailure at the deadline, or if `stop` is set.
    """
    while (left_s := deadline_s - time.monotonic()) > 0 and not stop.is_set():
        try:
            return texts.get(timeout=min(left_s, _STOP_CHECK_S))
        except Empty:
            continue
    raise RequestFailure(0, "no complete reply came in time")


async def _limit_body(max_bytes: int, response: httpx2.Response) -> None:
    """Limit the size of a body before it is read. `openai` reads the whole body of an error."""
    packed = response.headers.get("content-encoding", "identity").lower()
    if packed != "identity":
        raise ReplyUnreadable("the reply is compressed, although no compression was requested")
    response.stream = _LimitedBody(response.stream, max_bytes)


class _LimitedBody(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        async for part in self._inner:
            size_bytes += len(part)
            if size_bytes > self._max_bytes:
                raise ReplyUnreadable(f"the reply is larger than {self._max_bytes} bytes")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
