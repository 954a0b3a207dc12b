"""Two bounded pools of worker threads, each behind a queue that is fair to users and processes.

One pool is for work that uses the processor, the other for work that waits for an LLM. A client
waits for one answer or for a stream of events. When the client disconnects, its request leaves the
queue, and the work can stop early.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from hopsyncd.api.failures import INTERNAL, make_failure
from hopsyncd.api.metrics import Load
from hopsyncd.client.trust import Credentials
from hopsyncd.config.values import LimitsConfig
from hopsyncd.errors import REPORTABLE, Busy, TimedOut

_LLM_WORKERS = 4  # per processor worker, because calls of an LLM mostly wait


class Holder(Protocol):
    """A request or connection of a process, which counts towards a limit."""

    @property
    def credentials(self) -> Credentials: ...


Held = TypeVar("Held", bound=Holder)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class WorkerPools:
    """The pool for computation (`processor`), and the pool for work that waits for an LLM
    (`llm`)."""

    processor: "FairQueue"
    llm: "FairQueue"


def make_worker_pools(limits: LimitsConfig, load: Load) -> WorkerPools:
    """Create the pools of a daemon.

    LLM calls have their own time limit, so the pool `llm` has none."""
    return WorkerPools(
        FairQueue(limits.parallel, limits.queue, limits.query_s, load),
        FairQueue(_LLM_WORKERS * limits.parallel, limits.queue, None, load),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    credentials: Credentials
    turn: "asyncio.Future[None]"


class FairQueue:
    """Runs work on at most `parallel` threads while at most `queue` requests wait.

    The next turn goes to the user whose last turn is longest ago, and to that user's process whose
    last turn is longest ago. When the queue is full, a new request replaces a request of the user
    with the most waiting requests. A thread cannot be stopped: if the client disconnects, its work
    still uses the thread until it ends. Must be used from one event loop.
    """

    def __init__(self, parallel: int, queue: int, limit_s: float | None, load: Load) -> None:
        self._parallel = parallel
        self._queue = queue
        self._limit_s = limit_s
        self._load = load
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="request")
        self._busy = 0
        self._waiting: list[_Waiting] = []
        self._turns = 0
        self._last_turn: dict[object, int] = {}

    async def run(self, credentials: Credentials, work: Callable[[], Result]) -> Result:
        """Run the work. Raises Busy if the queue is full, TimedOut, or the work's error."""
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                await self._wait_for_turn(credentials)
                job = asyncio.get_running_loop().run_in_executor(self._threads, work)
                job.add_done_callback(self._finish)
                return await asyncio.shield(job)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimedOut(
                "The request was stopped",
                f"the request took longer than {self._limit_s:g} s",
                "Ask for fewer results, try again, or raise limits.query_s",
            ) from error

    async def _wait_for_turn(self, credentials: Credentials) -> None:
        if self._busy < self._parallel:
            self._count_turn(credentials)
            self._busy += 1
            return
        if len(self._waiting) >= self._queue:
            self._make_room(credentials)
        waiting = _Waiting(credentials, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._load.queue += 1
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._dequeue(waiting)
            elif not (waiting.turn.cancelled() or waiting.turn.exception()):
                self._start_next_turn()  # the request had its turn but will not use it
            raise

    def _make_room(self, newcomer: Credentials) -> None:
        """Refuse a request of the user with the most waiting requests.

        Raises Busy if no other user has more waiting requests than the new request's user.
        """
        self._load.refused += 1
        busy = Busy(
            "The request was refused",
            f"all workers are busy, and the queue is full (limits.queue = {self._queue})",
            "Try again in a second, or raise limits.queue",
        )
        greedy = choose_greediest(self._waiting, newcomer, reversed(self._waiting))
        if greedy is None:
            raise busy
        self._dequeue(greedy)
        if not greedy.turn.done():
            greedy.turn.set_exception(busy)

    def _dequeue(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        self._load.queue -= 1

    def _finish(self, job: "asyncio.Future[Result]") -> None:
        if not job.cancelled():
            job.exception()  # mark it as retrieved, because the client may be gone
        self._start_next_turn()

    def _start_next_turn(self) -> None:
        while self._waiting:
            last = self._last_turn
            best = min(
                self._waiting,
                key=lambda request: (
                    last.get(request.credentials.account, 0),
                    last.get(_identify_process(request.credentials), 0),
                ),
            )
            self._dequeue(best)
            if not best.turn.done():
                self._count_turn(best.credentials)
                best.turn.set_result(None)
                return
        self._busy -= 1
        self._last_turn.clear()

    def _count_turn(self, credentials: Credentials) -> None:
        self._turns += 1
        process = _identify_process(credentials)
        self._last_turn[credentials.account] = self._last_turn[process] = self._turns


def choose_greediest(
    holders: Collection[Held], newcomer: Credentials, candidates: Iterable[Held]
) -> Held | None:
    """Choose the candidate to remove for a new request, or return None to refuse the new request.

    A candidate can be removed if its user holds more than the new request's user or, for the same
    user, if its process holds more. The new request is counted. Returns the first such candidate of
    the user or process that holds most.
    """
    candidates = [*candidates]
    if not candidates:
        return None
    users = Counter(holder.credentials.account for holder in holders)
    processes = Counter(_identify_process(holder.credentials) for holder in holders)

    def holds_more(other: Credentials) -> bool:
        if other.account != newcomer.account:
            return users[other.account] > users[newcomer.account] + 1
        return processes[_identify_process(other)] > processes[_identify_process(newcomer)] + 1

    return max(
        (candidate for candidate in candidates if holds_more(candidate.credentials)),
        key=lambda request: (
            users[request.credentials.account],
            processes[_identify_process(request.credentials)],
        ),
        default=None,
    )


def _identify_process(credentials: Credentials) -> tuple[object, object]:
    """Identify the user's process or, over TCP, the user's machine."""
    return credentials.account, credentials.pid or credentials.address


log = structlog.get_logger(__name__)

CLIENT_GONE = 499  # only logged, as other web servers do
_TICK_S = 0.3

Json = Mapping[str, Any]  # an answer, or an event of a stream
Work = Callable[[], Json | Future[Json]]
Run = Callable[[Work], Awaitable[Json | Future[Json]]]


class ClientGone(Exception):
    """The client no longer waits for the answer."""


class Listener:
    """The client that waits for an answer, as the thread that does the work sees it.

    send: receives the events that the client asked for; None if it only wants the answer.
    note_found: receives the sources and the number of the passages found, before any text is sent.
    """

    note_found: Callable[[Collection[str], int], None] = staticmethod(lambda *_: None)

    def __init__(self, send: Callable[[Json], None] | None = None) -> None:
        self._send = send
        self.wants_events = send is not None
        self._lock = threading.Lock()
        self._acts: list[Callable[[], None]] = []
        self.is_gone = False

    def tell(self, event: str, **fields: Any) -> None:
        """Send an event if the client asked for events and is still connected."""
        if self._send and not self.is_gone:
            self._send({"event": event, **fields})

    def on_disconnect(self, act: Callable[[], None]) -> None:
        """Call `act` when the client disconnects, or at once if it already has."""
        with self._lock:
            if not self.is_gone:
                self._acts.append(act)
                return
        act()

    def note_disconnect(self) -> None:
        with self._lock:
            self.is_gone = True
            acts, self._acts = self._acts, []
        for act in acts:
            act()


async def wait_for_result(work: Work, run: Run = run_in_threadpool) -> Json:
    """Wait for work that a pool or the writer's thread does outside the event loop."""
    answer = await run(work)
    return await asyncio.wrap_future(answer) if isinstance(answer, Future) else answer


async def wait_while_connected(request: Request, listener: Listener, work: Awaitable[Json]) -> Json:
    """Wait for the result of the work.

    If the client disconnects first, cancels the work and raises ClientGone. At the end, the
    listener is always marked as gone, because work that exceeded its time limit may still run.
    """
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        disconnect.cancel()
        listener.note_disconnect()
        task.cancel()


async def stream_event_lines(
    work: Callable[[Listener], Work],
    progress: Callable[[], Json | None],
    run: Run,
    note: Callable[[int], None],
) -> AsyncIterator[bytes]:
    """Yield the events of the work as JSON lines. The last line is the answer or the error.

    `progress` is polled, and sent whenever it has changed. `note` receives the status that the
    answer would have had without streaming.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Json | None] = asyncio.Queue()

    def send(event: Json) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    listener = Listener(send)
    task = asyncio.ensure_future(wait_for_result(work(listener), run))
    task.add_done_callback(lambda _: events.put_nowait(None))
    sent_progress: Json | None = None
    status = CLIENT_GONE
    try:
        while True:
            try:
                event = await asyncio.wait_for(events.get(), _TICK_S)
            except TimeoutError:
                now = progress()
                if now is None or now == sent_progress:
                    continue
                sent_progress, event = now, {"event": "progress", **now}
            if event is None:
                break
            yield _format_line(event)
        status, last = _make_last_event(task)
    finally:
        listener.note_disconnect()
        task.cancel()
        note(status)
    yield _format_line(last)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _make_last_event(task: "asyncio.Task[Json]") -> tuple[int, Json]:
    error = task.exception()
    if error is None:
        return 200, {"event": "answer", "answer": task.result()}
    if isinstance(error, REPORTABLE):
        status, body = make_failure(error)
        return status, {"event": "error", "status": status, **body}
    log.error("request failed", exc_info=error)
    return 500, {"event": "error", "status": 500, **INTERNAL}


def _format_line(event: Json) -> bytes:
    """Format an event as a line of ASCII.

    Some clients take U+0085 and U+2028 in names for line ends.
    """
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"
