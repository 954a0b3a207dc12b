"""Shares the writer's thread among syncs, and calls slow sources on other threads.

Two kinds of work interrupt a sync:

- Small edits preempt the sync, which calls `yield_to_edits` at every slow step.
- Other sources get their turns. A sync is a generator that yields a `Turn` between two batches, and
  while it waits for a slow source.

A network source may take seconds to respond. So calls to this source run one after the other on a
separate thread, and the writer's thread can do other work meanwhile.
"""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

YieldToEdits = Callable[[], None]
"""Called at every slow step of a sync. It may commit small edits, or raise an error to abandon the
sync."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Interruptions:
    """Callbacks by which work on the writer's thread yields to small edits.

    The work must call `yield_to_edits` at every slow step, and should end a long step early if
    `is_awaited` returns True.
    """

    yield_to_edits: YieldToEdits = lambda: None
    is_awaited: Callable[[], bool] = lambda: False


_WAIT_S = 0.05


class Stopping(Exception):
    """Raised inside a sync to abandon the sync. Committed and prepared work is kept."""


class Turn(Enum):
    """The reason why a turn ended: the sync committed a batch, or waited for its source."""

    COMMITTED = "a batch"
    WAITED = "for its source"


def run_to_end(turns: Generator[Turn, None, Result]) -> Result:
    while True:
        try:
            next(turns)
        except StopIteration as ended:
            result: Result = ended.value
            return result


class CallRunner(Protocol):
    """Runs the calls to a source, on any thread."""

    def begin(self, work: Callable[[], Result]) -> "Future[Result]":
        """Start the call `work`. The returned future is done when the call ends."""
        ...

    def end(self) -> None:
        """Stop accepting calls. Does not wait for the running call."""
        ...

    def has_ended(self, timeout_s: float) -> bool:
        """Wait for the last call to end. Call `end` first. Returns False if the timeout passes
        first."""
        ...


class WriterThread:
    """Runs fast calls immediately, on the calling thread."""

    def begin(self, work: Callable[[], Result]) -> "Future[Result]":
        done: Future[Result] = Future()
        _run_call(work, done)
        return done

    def end(self) -> None:
        """Do nothing, because `begin` returns only after the call has ended."""

    def has_ended(self, timeout_s: float) -> bool:
        return True


class SourceThread:
    """Runs slow calls on a separate thread, which starts with the first call.

    A call whose result is no longer needed is not interrupted. The call continues until it ends or
    times out.
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
            _run_call(*next_)
            del next_  # A reference would keep the call's data in memory until the next call.


def run_in_turns(
    work: Callable[[], Result], caller: CallRunner, yield_to_edits: YieldToEdits
) -> Generator[Turn, None, Result]:
    """Run the call `work` with `caller`, and return its result or raise its exception. While the
    call runs, yields a turn every 50 ms."""
    yield_to_edits()
    done = caller.begin(work)
    while not wait([done], _WAIT_S).done:
        yield_to_edits()
        yield Turn.WAITED
    return done.result()


def _run_call(work: Callable[[], Result], done: "Future[Result]") -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
        done.set_exception(error)
