"""Makes bulk work yield to queries in the same process.

A query takes the interpreter's lock hundreds of times. Each time, the query would wait for a thread
that reads many files or compares many vectors. So the query would take several times as long, even
if processors are idle. Threads that do bulk work therefore release the lock soon, and pause while
queries run. Pauses are proportional to the work done, so the work still finishes. Pauses are rare
and long, so most queries do not overlap with the work at all. The work is abandoned when the
process ends, or when more urgent work waits for it.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

_SWITCH_INTERVAL_S = 0.0002  # how long a thread keeps the interpreter's lock while another waits
_QUIET_S = 0.03  # bulk work stops pausing this long after the last query
_MAX_BURST_S = 0.02  # bulk work runs this long between pauses

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def shorten_switch_interval() -> None:
    """Make threads release the interpreter's lock after 0.2 ms. Python's default of 5 ms is half
    the time of a query."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


@dataclass(slots=True)
class _Pause:
    """The pauses of threads that share bulk work, with `factor` seconds of pause for each second of
    work.

    `until_s` is the end of the current pause. `owed_s` is the total length of the pauses that are
    still due. The work is abandoned once `is_preempted` returns True.
    """

    factor: float
    is_preempted: Callable[[], bool]
    until_s: float = 0.0
    owed_s: float = 0.0


class ProcessEnds(Exception):
    """Raised in bulk work to abandon the work, because the process is ending."""


class Preempted(Exception):
    """Raised in bulk work to abandon the work, because more urgent work waits for it."""


def is_ending() -> bool:
    """Whether the process is ending: the main thread has ended, and only other threads still
    run."""
    return not threading.main_thread().is_alive()


class _Queries:
    """Tracks running queries, and queries that wait for bulk work.

    Counts the threads that work on a query, and records when the last query ended. While a query
    waits for bulk work, bulk work does not pause.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = self._waiting = 0
        self._ended_s = -_QUIET_S

    def change(self, running: int, waiting: int = 0) -> None:
        with self._changed:
            self._running += running
            self._waiting += waiting
            self._ended_s = time.monotonic()
            if self._waiting:
                self._changed.notify_all()

    def pause(self, pause: _Pause, worked_s: float) -> None:
        """Pause in proportion to `worked_s`. The pause ends early if no query runs, or if a query
        waits for bulk work."""
        with self._changed:
            pause.owed_s += pause.factor * worked_s
            now_s, max_s = time.monotonic(), pause.factor * _MAX_BURST_S
            if pause.until_s > now_s or pause.owed_s >= max_s:
                pause.until_s = max(pause.until_s, now_s) + pause.owed_s
                pause.owed_s = 0.0
            while now_s < pause.until_s:
                quiet_s = (now_s if self._running else self._ended_s) + _QUIET_S
                if quiet_s <= now_s or self._waiting:
                    remaining_s = pause.until_s - now_s
                    pause.until_s, pause.owed_s = now_s, min(remaining_s, max_s)
                    return
                self._changed.wait(min(quiet_s, pause.until_s) - now_s)
                now_s = time.monotonic()


_queries = _Queries()
_thread = threading.local()


@contextmanager
def running_query() -> Iterator[None]:
    """Count this thread as working on a query during the block."""
    _queries.change(+1)
    try:
        yield
    finally:
        _queries.change(-1)


@contextmanager
def waiting_for_work() -> Iterator[None]:
    """Count this thread's query as waiting for another thread during the block. Use this only
    inside `running_query`."""
    _queries.change(-1, waiting=+1)
    try:
        yield
    finally:
        _queries.change(+1, waiting=-1)


@contextmanager
def yielding_to_queries(
    factor: float, is_preempted: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Let functions made by `throttle` in the block pause while queries run, for at most `factor`
    times the working time. They raise Preempted once `is_preempted` returns True.

    If `factor` is 0, they neither pause nor raise Preempted.
    """
    _thread.pause = _Pause(factor, is_preempted) if factor else None
    try:
        yield
    finally:
        _thread.pause = None


def throttle(work: Callable[[_Part], _Result]) -> Callable[[_Part], _Result]:
    """Return `work` with a pause after each call, if this thread is inside `yielding_to_queries`.
    Otherwise return `work` itself.

    Any thread may call the returned function. Threads that share the function also pause for each
    other's work. So together they use no more processor time than a single thread. Raises
    ProcessEnds if the process is ending, and Preempted as `yielding_to_queries` says.
    """
    pause: _Pause | None = getattr(_thread, "pause", None)
    if pause is None:
        return work

    def work_and_pause(part: _Part) -> _Result:
        started_s = time.thread_time()  # waiting for a disk or server does not slow queries
        result = work(part)
        _queries.pause(pause, time.thread_time() - started_s)
        if is_ending():
            raise ProcessEnds
        if pause.is_preempted():
            raise Preempted
        return result

    return work_and_pause
