"""When the LLM is asked again: at once when it answers, ever later while it does not."""

from pathlib import Path

import pytest

from hopsyncd.ingest.source_sync import Upgrades
from hopsyncd.models.llm.budget import Usage
from store.operational import count_waiting_by_reason
from tests.fakes.llm import FakeLlm, asked_maker, down, library, up
from tests.fakes.stack import Stack


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def llm() -> FakeLlm:
    return FakeLlm(down)


@pytest.fixture
def stack(tmp_path: Path, llm: FakeLlm) -> Stack:
    made = Stack(tmp_path / "s.db", library(), asked_maker(llm))
    made.sync()
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def upgrades(stack: Stack, clock: Clock) -> Upgrades:
    return Upgrades(stack.writer, Usage, stack.versions.append, clock)


def waits_s(upgrades: Upgrades, clock: Clock, times: int) -> list[float]:
    """How long it leaves the LLM alone, so many times in a row."""
    waits = []
    for _ in range(times):
        upgrades.run(lambda: True)
        waits.append(upgrades.due_s - clock.now_s)
        clock.now_s = upgrades.due_s
    return waits


def test_while_the_llm_is_away_the_waits_grow_to_ten_minutes(
    upgrades: Upgrades, clock: Clock
) -> None:
    assert waits_s(upgrades, clock, 7) == [30, 60, 120, 240, 480, 600, 600]


def test_when_the_llm_is_back_all_waiting_passages_are_asked_for(
    upgrades: Upgrades, clock: Clock, stack: Stack, llm: FakeLlm
) -> None:
    waits_s(upgrades, clock, 3)
    llm.play = up
    upgrades.run(lambda: True)
    assert stack.versions[-1] == stack.head
    assert count_waiting_by_reason(stack.connection, stack.head.id) == {}
    assert waits_s(upgrades, clock, 2) == [600, 600]


def test_the_llm_is_not_asked_before_the_wait_ends(
    upgrades: Upgrades, clock: Clock, llm: FakeLlm
) -> None:
    upgrades.run(lambda: True)
    asked = len(llm.calls)
    clock.now_s = upgrades.due_s - 1
    upgrades.run(lambda: True)
    assert len(llm.calls) == asked


def test_a_sync_that_it_answers_brings_it_forward(
    upgrades: Upgrades, clock: Clock, llm: FakeLlm
) -> None:
    waits_s(upgrades, clock, 4)
    upgrades.run(lambda: True)
    assert upgrades.due_s == clock.now_s + 480
    answered = Usage()
    answered.settle(0, 10, 5)
    upgrades.schedule_next(answered)
    assert upgrades.due_s == clock.now_s
    upgrades.run(lambda: True)
    assert upgrades.due_s == clock.now_s + 30, "the waits begin anew"


def test_a_sync_that_it_fails_does_not_put_it_off(upgrades: Upgrades, clock: Clock) -> None:
    waits_s(upgrades, clock, 3)
    due_s = upgrades.due_s
    failed = Usage()
    failed.count_failure("unavailable")
    upgrades.schedule_next(failed)
    assert upgrades.due_s == due_s


def test_an_interrupted_upgrade_is_retried_soon(upgrades: Upgrades, clock: Clock) -> None:
    upgrades.run(lambda: False)
    assert upgrades.due_s <= clock.now_s
