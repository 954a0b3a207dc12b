"""Turns are fair, bounded and limited in time."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from hopsyncd.errors import Busy, TimedOut
from hopsyncd.serve.lanes import Turns
from hopsyncd.serve.peer import Peer
from hopsyncd.serve.stats import Load

ANN, ANN_TOO, BOB = Peer(1000, 1), Peer(1000, 2), Peer(1001, 3)


class Gate:
    """Work that waits until it is let go, and says in which order it was done."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.done: list[str] = []

    def work(self, name: str) -> Callable[[], str]:
        def act() -> str:
            assert self.open.wait(10)
            self.done.append(name)
            return name

        return act


def test_users_take_turns_and_then_their_processes() -> None:
    async def scenario() -> list[str]:
        gate, turns = Gate(), Turns(1, 10, 10, Load())
        asked = [("a1", ANN), ("a2", ANN), ("a3", ANN), ("a4", ANN_TOO), ("b1", BOB), ("b2", BOB)]
        tasks = [asyncio.create_task(turns.run(peer, gate.work(name))) for name, peer in asked]
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*tasks)
        return gate.done

    assert asyncio.run(scenario()) == ["a1", "b1", "a4", "b2", "a2", "a3"]


def test_what_does_not_fit_the_queue_is_refused() -> None:
    async def scenario() -> None:
        gate, load = Gate(), Load()
        turns = Turns(1, 1, 10, load)
        tasks = [asyncio.create_task(turns.run(ANN, gate.work(name))) for name in "ab"]
        await asyncio.sleep(0)
        assert load.queue == 1
        with pytest.raises(Busy, match="1 others wait"):
            await turns.run(BOB, gate.work("c"))
        assert load.refused == 1
        gate.open.set()
        assert await asyncio.gather(*tasks) == ["a", "b"]
        assert load.queue == 0

    asyncio.run(scenario())


def test_work_that_takes_too_long_is_given_up_and_holds_its_turn_until_it_ends() -> None:
    async def scenario() -> None:
        gate, turns = Gate(), Turns(1, 10, 0.05, Load())
        with pytest.raises(TimedOut):
            await turns.run(ANN, gate.work("slow"))
        with pytest.raises(TimedOut):
            await turns.run(BOB, gate.work("never"))
        gate.open.set()
        await asyncio.sleep(0.02)
        assert await turns.run(BOB, gate.work("next")) == "next"
        assert gate.done == ["slow", "next"]

    asyncio.run(scenario())


def test_who_leaves_the_queue_costs_nobody_a_turn() -> None:
    async def scenario() -> None:
        gate, load = Gate(), Load()
        turns = Turns(1, 10, 10, load)
        first, left, last = (
            asyncio.create_task(turns.run(ANN, gate.work(name))) for name in ("1", "2", "3")
        )
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        assert load.queue == 1
        gate.open.set()
        assert await asyncio.gather(first, last) == ["1", "3"]
        assert await turns.run(BOB, gate.work("4")) == "4"
        assert gate.done == ["1", "3", "4"]

    asyncio.run(scenario())


def test_an_error_of_the_work_is_its_callers() -> None:
    def fails() -> None:
        raise TimeoutError("of the work itself")

    async def scenario() -> None:
        turns = Turns(1, 0, 10, Load())
        with pytest.raises(TimeoutError, match="of the work itself"):
            await turns.run(ANN, fails)
        assert await turns.run(ANN, lambda: 1) == 1

    asyncio.run(scenario())
