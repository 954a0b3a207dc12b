"""Running the work of a request while its client waits: for one answer, or for a stream of events.

When the client goes away, its request leaves the queue, and the work can stop early.
"""

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

log = structlog.get_logger(__name__)

CLIENT_GONE = 499  # the status that web servers log; nobody receives it
_TICK_S = 0.3

Json = Mapping[str, Any]  # an answer, or an event of a stream
Work = Callable[[], Json | Future[Json]]
Run = Callable[[Work], Awaitable[Json | Future[Json]]]


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Listener:
    """The client that waits for a request's work, as the thread that does the work sees it.

    `send` takes the events that the client asked for; None if it wants the answer alone.
    """

    def __init__(self, send: Callable[[Json], None] | None = None) -> None:
        self._send = send
        self.wants_events = send is not None
        self._lock = threading.Lock()
        self._acts: list[Callable[[], None]] = []
        self.gone = False

    def tell(self, event: str, **fields: Any) -> None:
        """Send an event, if the client asked for events and is still there."""
        if self._send and not self.gone:
            self._send({"event": event, **fields})

    def when_gone(self, act: Callable[[], None]) -> None:
        """Call `act` when the client leaves: at once if it has left already."""
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


async def result_of(work: Work, run: Run = run_in_threadpool) -> Json:
    """The result of work that `run` does off the event loop, or the writer's thread does."""
    answer = await run(work)
    return await asyncio.wrap_future(answer) if isinstance(answer, Future) else answer


async def while_connected(request: Request, listener: Listener, work: Awaitable[Json]) -> Json:
    """The result of the work. Raises ClientGone, and cancels it, if the client goes away first.

    However it ends, the listener learns that nobody waits any more: work that exceeded its time
    limit may still run.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        gone.cancel()
        listener.leave()
        task.cancel()


async def event_lines(
    work: Callable[[Listener], Work],
    progress: Callable[[], Json | None],
    run: Run,
    note: Callable[[int], None],
) -> AsyncIterator[bytes]:
    """The events of the work, one JSON object a line; the last is its answer or its error.

    `progress` is polled, and sent whenever it has changed. `note` receives the status that the
    answer would have had without streaming.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Json | None] = asyncio.Queue()

    def send(event: Json) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    listener = Listener(send)
    task = asyncio.ensure_future(result_of(work(listener), run))
    task.add_done_callback(lambda _: events.put_nowait(None))
    sent: Json | None = None
    status = CLIENT_GONE
    try:
        while True:
            try:
                event = await asyncio.wait_for(events.get(), _TICK_S)
            except TimeoutError:
                now = progress()
                if now is None or now == sent:
                    continue
                sent, event = now, {"event": "progress", **now}
            if event is None:
                break
            yield _line(event)
        status, last = _last_event(task)
    finally:
        listener.leave()
        task.cancel()
        note(status)
    yield _line(last)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _last_event(task: "asyncio.Task[Json]") -> tuple[int, Json]:
    error = task.exception()
    if error is None:
        return 200, {"event": "answer", "answer": task.result()}
    if isinstance(error, REPORTABLE):
        status, body = failure_of(error)
        return status, {"event": "error", "status": status, **body}
    log.error("request failed", exc_info=error)
    return 500, {"event": "error", "status": 500, **INTERNAL}


def _line(event: Json) -> bytes:
    """Pure ASCII: names may contain U+0085 and U+2028, which some clients read as line ends."""
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"
