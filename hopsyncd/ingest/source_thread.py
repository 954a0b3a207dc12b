"""Where the calls to a source are made: on the writer's thread, or on one beside it.

A source over a network may take seconds to answer. Its calls are made on a thread of its own, and
the writer gives way while it waits. All calls of one source come from one thread, in order.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from itertools import islice
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

GiveWay = Callable[[], None]
"""Called at every slow step: others may commit meanwhile, or it raises to abandon the work."""

Result = TypeVar("Result")

_WAIT_S = 0.05
_CHUNK = 256  # items of a listing that are asked for together


class CallRunner(Protocol):
    """Makes the calls to one source."""

    def begin(self, work: Callable[[], Result]) -> "Future[Result]":
        """Make the call; who does not wait for its end abandons it."""
        ...

    def end(self) -> None:
        """Take no more calls; the one under way is not waited for."""
        ...

    def has_ended(self, timeout_s: float) -> bool:
        """After end(): whether no call is under way any more."""
        ...


class WriterThread:
    """Calls that are quick: they are made by the thread that wants them."""

    def begin(self, work: Callable[[], Result]) -> "Future[Result]":
        done: Future[Result] = Future()
        _work(work, done)
        return done

    def end(self) -> None:
        """There is nothing to end."""

    def has_ended(self, timeout_s: float) -> bool:
        return True


class SourceThread:
    """Calls that may be slow: they are made by a thread beside, which starts with the first.

    A call that was abandoned goes on until its own time limits end it.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"source {name}", daemon=True)

    def begin(self, work: Callable[[], Result]) -> "Future[Result]":
        if not self._thread.ident:
            self._thread.start()
        done: Future[Result] = Future()
        self._calls.put((work, done))
        return done

    def end(self) -> None:
        self._calls.put(None)

    def has_ended(self, timeout_s: float) -> bool:
        if self._thread.ident:
            self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while next_ := self._calls.get():
            _work(*next_)
            del next_  # what it holds is let go of here, not at the next call


def call(caller: CallRunner, work: Callable[[], Result], give_way: GiveWay) -> Result:
    """The result of a call, or its exception; what `give_way` raises abandons it."""
    give_way()
    done = caller.begin(work)
    while not _is_done(done):
        give_way()
    return done.result()


def each(items: Iterator[Result], caller: CallRunner, give_way: GiveWay) -> Iterator[Result | None]:
    """The items, asked for by the caller, and None for each short wait; gives way before each."""
    while True:
        give_way()
        done = caller.begin(lambda: [*islice(items, _CHUNK)])
        while not _is_done(done):
            give_way()
            yield None
        if not done.result():
            return
        for item in done.result():
            give_way()
            yield item


def _is_done(done: "Future[Any]") -> bool:
    """Whether a call has ended, or does so shortly."""
    return bool(wait([done], _WAIT_S).done)


def _work(work: Callable[[], Result], done: "Future[Result]") -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001 - handed on to who waits for it
        done.set_exception(error)
