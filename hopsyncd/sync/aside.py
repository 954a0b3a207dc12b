"""Where the calls to a source are made: on the writer's thread, or on one beside it.

A source over a network may take seconds to answer. Its calls are made on a thread of its own, and
the writer gives way while it waits. All calls of one source come from one thread, in order.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import islice
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

GiveWay = Callable[[], None]
"""Called at every slow step: others may commit meanwhile, or it raises to abandon the work."""

Result = TypeVar("Result")

_WAIT_S = 0.05
_CHUNK = 256  # items of a listing that are asked for together


class Caller(Protocol):
    """Makes the calls to one source."""

    def call(self, work: Callable[[], Result], give_way: GiveWay) -> Result:
        """The result of the call, or its exception; what `give_way` raises abandons it."""
        ...

    def end(self) -> None:
        """Take no more calls; the one under way is not waited for."""
        ...

    def has_ended(self, timeout_s: float) -> bool:
        """After end(): whether no call is under way any more."""
        ...


class Here:
    """Calls that are quick: they are made by the thread that wants them."""

    def call(self, work: Callable[[], Result], give_way: GiveWay) -> Result:
        give_way()
        return work()

    def end(self) -> None:
        """There is nothing to end."""

    def has_ended(self, timeout_s: float) -> bool:
        return True


class Aside:
    """Calls that may be slow: they are made by a thread beside, which starts with the first.

    A call that was abandoned goes on until its own time limits end it.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"source {name}", daemon=True)

    def call(self, work: Callable[[], Result], give_way: GiveWay) -> Result:
        if not self._thread.ident:
            self._thread.start()
        done: Future[Result] = Future()
        self._calls.put((work, done))
        while True:
            give_way()
            try:
                return done.result(_WAIT_S)
            except TimeoutError:
                if done.done():
                    raise  # it is the call's own

    def end(self) -> None:
        self._calls.put(None)

    def has_ended(self, timeout_s: float) -> bool:
        if self._thread.ident:
            self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while next_ := self._calls.get():
            work, done = next_
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - handed on to who waits for it
                done.set_exception(error)
            del next_, work, done  # what they hold is let go of here, not at the next call


def each(items: Iterator[Result], caller: Caller, give_way: GiveWay) -> Iterator[Result]:
    """The items, asked for by the caller; gives way before each."""
    while chunk := caller.call(lambda: [*islice(items, _CHUNK)], give_way):
        for item in chunk:
            give_way()
            yield item
