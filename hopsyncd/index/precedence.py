"""Questions go before bulk work, in one process.

A question takes the interpreter's lock hundreds of times. Each time it would wait for a thread that
reads many files or compares many vectors, so it takes several times as long even where a processor
is free. Such a thread hands the lock over soon, and rests while anybody asks: in proportion to what
it has worked, so that it comes to its end, and seldom but long, so that most questions meet none of
it. Where the process ends, it is given up.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

_SWITCH_S = 0.0002  # that a thread holds the interpreter's lock while another wants it
_QUIET_S = 0.03  # without a question, until nobody is taken to ask any more
_AT_ONCE_S = 0.02  # of bulk work for which it rests at once

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


def hand_over_soon() -> None:
    """Let no thread hold the interpreter's lock for long: Python's own 5 ms are half a question."""
    sys.setswitchinterval(_SWITCH_S)


@dataclass(slots=True)
class _Rest:
    """When the threads that share bulk work go on with it, and how long they may rest after that
    for what they have worked: at most so many `times` as long."""

    times: float
    until_s: float = 0.0
    owed_s: float = 0.0


class ProcessEnds(Exception):
    """Raised inside bulk work: what it would come to is of no use any more."""


def is_ending() -> bool:
    """Whether the interpreter waits for its threads, to end."""
    return not threading.main_thread().is_alive()


class _Asked:
    """How many threads compute for a question, when the last of them ended, and how many wait for
    bulk work, which does not rest then."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = self._waiting = 0
        self._ended_s = -_QUIET_S

    def change(self, by: int, waiting: int = 0) -> None:
        with self._changed:
            self._count += by
            self._waiting += waiting
            self._ended_s = time.monotonic()
            if self._waiting:
                self._changed.notify_all()

    def rest(self, rest: _Rest, worked_s: float) -> None:
        with self._changed:
            rest.owed_s += rest.times * worked_s
            now_s, full_s = time.monotonic(), rest.times * _AT_ONCE_S
            if rest.until_s > now_s or rest.owed_s >= full_s:
                rest.until_s, rest.owed_s = max(rest.until_s, now_s) + rest.owed_s, 0.0
            while now_s < rest.until_s:
                quiet_s = (now_s if self._count else self._ended_s) + _QUIET_S
                if quiet_s <= now_s or self._waiting:
                    rest.until_s, rest.owed_s = now_s, min(rest.until_s - now_s, full_s)
                    return
                self._changed.wait(min(quiet_s, rest.until_s) - now_s)
                now_s = time.monotonic()


_asked = _Asked()
_thread = threading.local()


@contextmanager
def asking() -> Iterator[None]:
    """While this thread computes for a question."""
    _asked.change(+1)
    try:
        yield
    finally:
        _asked.change(-1)


@contextmanager
def waiting() -> Iterator[None]:
    """While this thread, which is asking, waits for what another computes."""
    _asked.change(-1, waiting=+1)
    try:
        yield
    finally:
        _asked.change(+1, waiting=-1)


@contextmanager
def giving_way(times: float) -> Iterator[None]:
    """While this thread does bulk work: it rests at most so many times as long as it works."""
    _thread.rest = _Rest(times) if times else None
    try:
        yield
    finally:
        _thread.rest = None


def politely(work: Callable[[_Part], _Found]) -> Callable[[_Part], _Found]:
    """The same work, for any thread, with the rests of this one between its pieces.

    Threads that share it rest for one another's pieces too, so that many take no more than one.
    """
    rest: _Rest | None = getattr(_thread, "rest", None)
    if rest is None:
        return work

    def resting(part: _Part) -> _Found:
        began_s = time.thread_time()  # while it waits for a disk or a server it slows nobody
        found = work(part)
        _asked.rest(rest, time.thread_time() - began_s)
        if is_ending():
            raise ProcessEnds
        return found

    return resting
