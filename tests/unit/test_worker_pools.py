"""Turns are fair, bounded and limited in time."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple, Unpack

import pytest

from hopsyncd.api.metrics import Load
from hopsyncd.api.worker_pools import FairQueue
from hopsyncd.client.trust import Credentials
from hopsyncd.errors import Busy, TimedOut

_Arguments = TypeVarTuple("_Arguments")
ANN, ANN_TOO, BOB = Credentials(1000, 1), Credentials(1000, 2), Credentials(1001, 3)


class Gate:
    """Work that waits until it is let go, and says in which order it was done."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.done: list[str] = []

    def work(self, name: str) -> Callable[[], str]:
        def act() -> str:
            assert self.open.wait(60)
            self.done.append(name)
            return name

        return act


def test_users_take_turns_and_then_their_processes() -> None:
    async def scenario() -> list[str]:
        gate, turns = Gate(), FairQueue(1, 10, 60, Load())
        asked = [("a1", ANN), ("a2", ANN), ("a3", ANN), ("a4", ANN_TOO), ("b1", BOB), ("b2", BOB)]
        tasks = [asyncio.create_task(turns.run(peer, gate.work(name))) for name, peer in asked]
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*tasks)
        return gate.done

    assert asyncio.run(scenario()) == ["a1", "b1", "a4", "b2", "a2", "a3"]


def test_a_request_beyond_the_queue_is_refused() -> None:
    async def scenario() -> None:
        gate, load = Gate(), Load()
        turns = FairQueue(1, 1, 60, load)
        tasks = [asyncio.create_task(turns.run(ANN, gate.work(name))) for name in "ab"]
        await asyncio.sleep(0)
        assert load.queue == 1
        with pytest.raises(Busy, match=r"the queue is full \(limits\.queue = 1\)"):
            await turns.run(BOB, gate.work("c"))
        assert load.refused == 1
        gate.open.set()
        assert await asyncio.gather(*tasks) == ["a", "b"]
        assert load.queue == 0

    asyncio.run(scenario())


def test_in_a_full_queue_the_newest_request_of_the_busiest_user_is_dropped() -> None:
    async def scenario() -> None:
        gate, turns = Gate(), FairQueue(1, 2, None, Load())
        first, second, third = (
            asyncio.create_task(turns.run(ANN, gate.work(name))) for name in ("a1", "a2", "a3")
        )
        await asyncio.sleep(0)
        other = asyncio.create_task(turns.run(BOB, gate.work("b")))
        with pytest.raises(Busy):
            await third
        with pytest.raises(Busy):
            await turns.run(ANN, gate.work("a4"))
        gate.open.set()
        assert [*await asyncio.gather(first, other, second)] == ["a1", "b", "a2"]

    asyncio.run(scenario())


def test_a_client_that_leaves_while_it_is_dropped_does_not_change_the_turns() -> None:
    async def scenario() -> None:
        gate, turns = Gate(), FairQueue(1, 2, None, Load())
        tasks = [asyncio.create_task(turns.run(ANN, gate.work(name))) for name in "abc"]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(turns.run(BOB, gate.work("d"))))
        await asyncio.sleep(0)
        tasks[2].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[2]
        assert not gate.done
        for _ in range(2):
            with pytest.raises(Busy):
                await turns.run(ANN, gate.work("e"))
        gate.open.set()
        assert await asyncio.gather(*tasks[:2], tasks[3]) == ["a", "b", "d"]

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_work_that_takes_too_long_is_given_up_and_holds_its_turn_until_it_ends() -> None:
    async def scenario() -> None:
        gate, turns = Gate(), FairQueue(1, 10, 1.0, Load())
        with pytest.raises(TimedOut):
            await turns.run(ANN, gate.work("slow"))
        with pytest.raises(TimedOut):
            await turns.run(BOB, gate.work("never"))
        gate.open.set()
        assert await turns.run(BOB, gate.work("next")) == "next"
        assert gate.done == ["slow", "next"]

    asyncio.run(scenario())


def test_a_client_that_leaves_the_queue_costs_nobody_a_turn() -> None:
    async def scenario() -> None:
        gate, load = Gate(), Load()
        turns = FairQueue(1, 10, 60, load)
        first, left, last = (
            asyncio.create_task(turns.run(ANN, gate.work(name))) for name in ("1", "2", "3")
        )
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        assert load.queue == 1
        gate.open.set()
        assert [*await asyncio.gather(first, last)] == ["1", "3"]
        assert await turns.run(BOB, gate.work("4")) == "4"
        assert gate.done == ["1", "3", "4"]

    asyncio.run(scenario())


class _Loop(asyncio.SelectorEventLoop):
    """A loop where something else, `then`, happens just after a thread has handed in its result."""

    then: Callable[[], object] | None = None

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[_Arguments]], object],
        *arguments: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        then, self.then = self.then, None

        def both() -> None:
            callback(*arguments)
            if then:
                then()

        return super().call_soon_threadsafe(both, context=context)


def test_a_client_that_leaves_at_its_turn_frees_the_turn() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _Loop)
        gate, turns = Gate(), FairQueue(1, 1, None, Load())
        first = asyncio.create_task(turns.run(ANN, gate.work("first")))
        left = asyncio.create_task(turns.run(ANN, gate.work("left")))
        await asyncio.sleep(0)
        loop.then = left.cancel
        gate.open.set()
        await asyncio.wait([first, left])
        assert left.cancelled() and gate.done == ["first"]
        gate.open.clear()
        tasks = [asyncio.create_task(turns.run(BOB, gate.work(name))) for name in "ab"]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await turns.run(ANN, gate.work("c"))
        gate.open.set()
        assert await asyncio.gather(*tasks) == ["a", "b"]

    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(asyncio.wait_for(scenario(), 60))


def test_an_error_of_the_work_reaches_its_caller() -> None:
    def fails() -> None:
        raise TimeoutError("of the work itself")

    async def scenario() -> None:
        turns = FairQueue(1, 0, 60, Load())
        with pytest.raises(TimeoutError, match="of the work itself"):
            await turns.run(ANN, fails)
        assert await turns.run(ANN, lambda: 1) == 1

    asyncio.run(scenario())
