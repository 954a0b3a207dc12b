"""Makes bulk work yield to queries in the same process.

A query takes the interpreter's lock hundreds of times. Each time, it would wait for any thread that
reads many files or compares many vectors. So it would take several times as long, even with an idle
processor. Such a thread therefore releases the lock soon, and pauses while queries run. Its pauses
are proportional to its own work, so that it still finishes. They are rare and long, so that most
queries do not overlap with the work at all. When the process ends, the work is abandoned.
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
    """Let threads release the interpreter's lock sooner than after Python's 5 ms, which is half the
    time of a query."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


@dataclass(slots=True)
class _Pause:
    """The pauses of threads that share bulk work: `factor` seconds for each second of work.

    `until_s` is the end of the current pause. `owed_s` is the total length of the pauses that are
    still due.
    """

    factor: float
    until_s: float = 0.0
    owed_s: float = 0.0


class ProcessEnds(Exception):
    """Raised in bulk work to stop it, because the process ends and nobody needs the result."""


def is_ending() -> bool:
    """Whether the main thread has ended, so that the process ends once its other threads have
    ended."""
    return not threading.main_thread().is_alive()


class _Queries:
    """Tracks running queries, and queries that wait for bulk work.

    It counts the threads that compute for a query, and records when the last query ended. While a
    query waits for bulk work, that work does not pause.
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
        """Pause in proportion to `worked_s`. End early if no query runs, or if one waits for this
        work."""
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
    """Count this thread as computing for a query during the block."""
    _queries.change(+1)
    try:
        yield
    finally:
        _queries.change(-1)


@contextmanager
def waiting_for_work() -> Iterator[None]:
    """Count this query as waiting for the result of another thread during the block."""
    _queries.change(-1, waiting=+1)
    try:
        yield
    finally:
        _queries.change(+1, waiting=-1)


@contextmanager
def yielding_to_queries(factor: float) -> Iterator[None]:
    """Do bulk work in the block, with pauses of at most `factor` times the working time."""
    _thread.pause = _Pause(factor) if factor else None
    try:
        yield
    finally:
        _thread.pause = None


def throttle(work: Callable[[_Part], _Result]) -> Callable[[_Part], _Result]:
    """Add pauses between the parts of the work, if this thread is yielding to queries.

    Any thread may call the returned function. Threads that share it also pause for each other's
    parts, so together they take no more time than a single thread.
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
        return result

    return work_and_pause
