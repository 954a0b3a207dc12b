"""Questions go before bulk work, in one process.

A question takes the interpreter's lock hundreds of times. Each time it would wait for a thread that
compares many vectors, so it takes twice as long even where a processor is free. Such a thread rests
while anybody asks: after each piece of work for a bounded time, so that it comes to its end.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_QUIET_S = 0.03  # without a question, until nobody is taken to ask any more

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


class _Asked:
    """How many threads compute for a question, and when the last of them ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._ended_s = -_QUIET_S

    def change(self, by: int) -> None:
        with self._changed:
            self._count += by
            self._ended_s = time.monotonic()
            self._changed.notify_all()

    def rest(self, longest_s: float) -> None:
        until_s = time.monotonic() + longest_s
        with self._changed:
            while (now_s := time.monotonic()) < until_s:
                quiet_s = until_s if self._count else self._ended_s + _QUIET_S
                if quiet_s <= now_s:
                    return
                self._changed.wait(min(quiet_s, until_s) - now_s)


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
    _asked.change(-1)
    try:
        yield
    finally:
        _asked.change(+1)


@contextmanager
def giving_way(times: float) -> Iterator[None]:
    """While this thread does bulk work: it rests at most so many times as long as it works."""
    _thread.times = times
    try:
        yield
    finally:
        _thread.times = 0.0


def politely(work: Callable[[_Part], _Found]) -> Callable[[_Part], _Found]:
    """The same work, for any thread, with the rests of this one after each piece."""
    times: float = getattr(_thread, "times", 0.0)
    if not times:
        return work

    def resting(part: _Part) -> _Found:
        began_s = time.monotonic()
        found = work(part)
        _asked.rest(times * (time.monotonic() - began_s))
        return found

    return resting
