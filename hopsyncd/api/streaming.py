"""Answers that somebody waits for: whole or line by line, and not worked on for nobody."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from hopsyncd.api.failures import INTERNAL, failure_of
from hopsyncd.errors import REPORTABLE

Json = Mapping[str, Any]  # an answer, or a line of a stream


class Listener:
    """`hear` is called with what there is to tell, from a thread that does the work."""

    def __init__(self, hear: Callable[[Json], None] | None = None) -> None:
        self._hear = hear
        self.hears = hear is not None
        self._lock = threading.Lock()
        self._acts: list[Callable[[], None]] = []
        self.gone = False

    def tell(self, event: str, **more: Any) -> None:
        """Say how far the work is, or a part of the answer; unheard where nobody asked for it."""
        if self._hear and not self.gone:
            self._hear({"event": event, **more})

    def when_gone(self, act: Callable[[], None]) -> None:
        """Have work ended that only this client waits for; at once if it has gone already."""
        with self._lock:
            if not self.gone:
                self._acts.append(act)
                return
        act()

    def leave(self) -> None:
        """The client has gone away."""
        with self._lock:
            self.gone = True
            acts, self._acts = self._acts, []
        for act in acts:
            act()


log = structlog.get_logger(__name__)

CLIENT_GONE = 499  # as web servers log it; nobody receives it
_TICK_S = 0.3

Work = Callable[[], Json | Future[Json]]
Run = Callable[[Work], Awaitable[Json | Future[Json]]]


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


async def result_of(work: Work, run: Run = run_in_threadpool) -> Json:
    """What work gives that `run` does off the event loop, or on the writer's thread."""
    answer = await run(work)
    return await asyncio.wrap_future(answer) if isinstance(answer, Future) else answer


async def heard(request: Request, listener: Listener, work: Awaitable[Json]) -> Json:
    """The result of the work; it is cancelled when the client goes away. Raises ClientGone then.

    Work that is given up for taking too long learns that nobody waits for it, too.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        gone.cancel()
        listener.leave()
        task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def lines(
    work: Callable[[Listener], Work],
    progress: Callable[[], Json | None],
    run: Run,
    note: Callable[[int], None],
) -> AsyncIterator[bytes]:
    """The events of the work, one JSON object a line; the last is its answer or its error.

    What `progress` gives is told whenever it has changed. `note` takes the status that an answer
    in one piece would have had.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Json | None] = asyncio.Queue()

    def hear(event: Json) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    listener = Listener(hear)
    task = asyncio.ensure_future(result_of(work(listener), run))
    task.add_done_callback(lambda _: events.put_nowait(None))
    told: Json | None = None
    status = CLIENT_GONE
    try:
        while True:
            try:
                event = await asyncio.wait_for(events.get(), _TICK_S)
            except TimeoutError:
                now = progress()
                if now is None or now == told:
                    continue
                told, event = now, {"event": "progress", **now}
            if event is None:
                break
            yield _line(event)
        status, last = _ended(task)
    finally:
        listener.leave()
        task.cancel()
        note(status)
    yield _line(last)


def _ended(task: "asyncio.Task[Json]") -> tuple[int, Json]:
    error = task.exception()
    if error is None:
        return 200, {"event": "answer", "answer": task.result()}
    if isinstance(error, REPORTABLE):
        status, body = failure_of(error)
        return status, {"event": "error", "status": status, **body}
    log.error("request failed", exc_info=error)
    return 500, {"event": "error", "status": 500, **INTERNAL}


def _line(event: Json) -> bytes:
    """In ASCII: some clients take U+0085 and U+2028, which names may have, for ends of lines."""
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"
