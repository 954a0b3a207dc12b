"""Bounded pools of workers; clients take turns in the queue and give way when it is full."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hopsyncd.api.metrics import Load
from hopsyncd.client.trust import Credentials
from hopsyncd.config.values import LimitsConfig
from hopsyncd.errors import Busy, TimedOut


class Holder(Protocol):
    """What takes up room for a process."""

    @property
    def peer(self) -> Credentials: ...


Held = TypeVar("Held", bound=Holder)


def of_the_greediest(
    holders: Collection[Held], newcomer: Credentials, losable: Iterable[Held]
) -> Held | None:
    """Of the `losable` ones that of a user, and then of a process, with more than the newcomer has.

    Of those, the first one of whoever has most. None: the newcomer is no better than the others.
    """
    users = Counter(one.peer.uid for one in holders)
    processes = Counter((one.peer.uid, one.peer.pid) for one in holders)

    def process_has(of: Credentials) -> int:
        return processes[of.uid, of.pid]

    def has_more(other: Credentials) -> bool:
        if other.uid != newcomer.uid:
            return users[other.uid] > users[newcomer.uid] + 1
        return process_has(other) > process_has(newcomer) + 1

    return max(
        (one for one in losable if has_more(one.peer)),
        key=lambda one: (users[one.peer.uid], process_has(one.peer)),
        default=None,
    )


_PATIENT = 4  # times as many requests may wait for an LLM at a time

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    peer: Credentials
    turn: "asyncio.Future[None]"


class FairQueue:
    """Work in threads of its own, at most `parallel` at a time while at most `queue` wait.

    Whose user, and then whose process, has waited longest since its last turn is next, and whose
    has most that wait gives a place up to another's when the queue is full. A thread
    cannot be stopped: work whose client has left keeps its turn until it ends. Of one event loop.
    """

    def __init__(self, parallel: int, queue: int, limit_s: float | None, load: Load) -> None:
        self._parallel = parallel
        self._queue = queue
        self._limit_s = limit_s
        self._load = load
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="request")
        self._busy = 0
        self._waiting: list[_Waiting] = []
        self._given = 0
        self._last: dict[object, int] = {}

    async def run(self, peer: Credentials, work: Callable[[], Result]) -> Result:
        """The result of the work. Raises Busy if the queue is full, TimedOut, or what it raises."""
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                await self._turn(peer)
                job = asyncio.get_running_loop().run_in_executor(self._threads, work)
                job.add_done_callback(self._done)
                return await asyncio.shield(job)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimedOut(
                "The request was given up",
                f"it took longer than {self._limit_s:g} s",
                "Ask for less, or ask again; limits.query_s sets how long is too long",
            ) from error

    async def _turn(self, peer: Credentials) -> None:
        if self._busy < self._parallel:
            self._take(peer)
            self._busy += 1
            return
        if len(self._waiting) >= self._queue:
            self._load.refused += 1
            busy = Busy(
                "The request was refused",
                f"{len(self._waiting)} others wait already",
                "Ask again in a second; limits.queue sets how many may wait",
            )
            greedy = of_the_greediest(self._waiting, peer, reversed(self._waiting))
            if greedy is None:
                raise busy
            self._leave(greedy)
            if not greedy.turn.done():
                greedy.turn.set_exception(busy)
        one = _Waiting(peer, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._load.queue += 1
        try:
            await one.turn
        except asyncio.CancelledError:
            if one in self._waiting:
                self._leave(one)
            elif not (one.turn.cancelled() or one.turn.exception()):  # its turn had come already
                self._pass_on()
            raise

    def _leave(self, one: _Waiting) -> None:
        self._waiting.remove(one)
        self._load.queue -= 1

    def _done(self, job: "asyncio.Future[Result]") -> None:
        if not job.cancelled():
            job.exception()  # it may be that nobody waits for it any more
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            last = self._last
            best = min(
                self._waiting,
                key=lambda one: (last.get(one.peer.uid, 0), last.get(_process(one.peer), 0)),
            )
            self._leave(best)
            if not best.turn.done():
                self._take(best.peer)
                best.turn.set_result(None)
                return
        self._busy -= 1
        self._last.clear()

    def _take(self, peer: Credentials) -> None:
        self._given += 1
        self._last[peer.uid] = self._last[_process(peer)] = self._given


def _process(peer: Credentials) -> tuple[int | None, int | None]:
    return peer.uid, peer.pid


@dataclass(frozen=True, slots=True)
class WorkerPools:
    """`quick` is for what keeps the processor busy, `patient` for what waits for an LLM."""

    quick: FairQueue
    patient: FairQueue


def lanes_of(limits: LimitsConfig, load: Load) -> WorkerPools:
    """An LLM's time is limited by what is configured for it."""
    return WorkerPools(
        FairQueue(limits.parallel, limits.queue, limits.query_s, load),
        FairQueue(_PATIENT * limits.parallel, limits.queue, None, load),
    )
