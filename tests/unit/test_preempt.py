"""A small edit preempts a long sync: what that has read before is not believed, and nothing is
lost, counted twice or made twice."""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from connectors.protocol import Fetched, Item, SourceUnavailable
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.source_thread import SourceThread, Stopping, Turn
from hopsyncd.ingest.upkeep import purge_document
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.questions import QuestionMaker
from store.content import read_counters
from store.operational import count_waiting_by_reason
from store.reads import read_live_documents
from store.records import hash_content
from store.sources import read_seen_items, register_source
from tests.fakes.dump import graph_at
from tests.fakes.llm import FakeLlm, asked_maker
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack, fake_maker

WAIT_S = 60.0
EDITED = b"Rome is in Gaul. Gaul is far from Rome."
FILES = {
    "a.md": b"Rome is in Italy. Nero met Rome.",
    "b.md": b"Ada met Babbage. Babbage met Rome.",
    "c.md": b"Oslo has a fjord. Ibsen met Oslo.",
}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "graph.db", MemoryConnector(FILES))
    yield made
    made.close()


def memory(stack: Stack) -> MemoryConnector:
    assert isinstance(stack.connector, MemoryConnector)
    return stack.connector


def at_step(stack: Stack, number: int, act: Callable[[], object]) -> list[int]:
    """Do that at a slow step of the next sync, counted from 0; gives the steps that there were."""
    steps: list[int] = []
    inside: list[bool] = []

    def yield_to_edits() -> None:
        if inside:
            return
        steps.append(len(steps))
        if len(steps) == number + 1:
            inside.append(True)
            act()
            inside.clear()

    stack.path.yield_to_edits = yield_to_edits
    return steps


def steps_of_a_sync(tmp_path: Path) -> int:
    stack = Stack(tmp_path / "counted.db", MemoryConnector(FILES))
    steps = at_step(stack, -1, lambda: None)
    stack.sync()
    stack.close()
    return len(steps)


def assert_as_built_afresh(
    stack: Stack, tmp_path: Path, maker: QuestionMaker | None = None
) -> None:
    fresh = Stack(tmp_path / "fresh.db", MemoryConnector(memory(stack).files), maker)
    fresh.sync()
    ours, theirs = (graph_at(one.connection, one.head.id) for one in (stack, fresh))
    fresh.close()
    assert ours == theirs


@pytest.mark.parametrize("what", ["edit", "delete", "create"])
def test_a_hint_at_any_step_of_a_sync_is_served_and_the_end_is_the_same(
    tmp_path: Path, what: str
) -> None:
    count = steps_of_a_sync(tmp_path)
    assert count > 10
    for number in range(count):
        stack = Stack(tmp_path / f"{number}.db", MemoryConnector(FILES))
        files = memory(stack)

        def act(stack: Stack = stack, files: MemoryConnector = files) -> None:
            path = "new.md" if what == "create" else "b.md"
            if what == "delete":
                files.remove(path)
            else:
                files.put(path, EDITED)
            stack.preempt(path)
            live = read_live_documents(stack.connection, stack.source.id)
            assert live.get(path) == (None if what == "delete" else hash_content(EDITED))

        at_step(stack, number, act)
        stack.sync()
        for file in tmp_path.glob("fresh.*"):
            file.unlink()
        assert_as_built_afresh(stack, tmp_path)
        spent = [version.counters["passages_generated"] for version in stack.versions]
        assert sum(spent) == read_counters(stack.connection)["passages_generated"]
        assert len(stack.maker.made) == len({*stack.maker.made}) == sum(spent)  # type: ignore[attr-defined]
        stack.close()


def test_a_file_that_comes_back_while_its_removal_is_decided_is_kept(tmp_path: Path) -> None:
    for number in range(7):
        stack = Stack(tmp_path / f"{number}.db", MemoryConnector(FILES))
        files = memory(stack)
        stack.sync()
        files.remove("b.md")
        files.put("c.md", b"Oslo has two fjords.")

        def act(stack: Stack = stack, files: MemoryConnector = files) -> None:
            files.put("b.md", EDITED)
            stack.preempt("b.md")

        steps = at_step(stack, number, act)
        stack.sync()
        assert len(steps) > number
        live = read_live_documents(stack.connection, stack.source.id)
        assert live == {path: hash_content(data) for path, data in files.files.items()}
        stack.close()


def test_a_preempting_sync_that_fails_takes_nothing_out_of_the_long_one(stack: Stack) -> None:
    files = memory(stack)

    def act() -> None:
        files.available = False
        assert stack.preempt("b.md").problem
        files.available = True

    at_step(stack, 8, act)
    stack.sync()
    assert read_live_documents(stack.connection, stack.source.id).keys() == FILES.keys()


def test_a_large_edit_waits_for_its_turn(stack: Stack) -> None:
    stack.sync()
    before = stack.head.id
    lines = (b"Name%d saw Rome." % number for number in range(200))
    memory(stack).put("large.md", b"\n\n".join(lines))
    memory(stack).put("a.md", EDITED)
    assert stack.preempt("large.md", "a.md").too_large
    assert stack.head.id == before
    assert not stack.preempt("a.md").too_large
    assert "large.md" not in read_seen_items(stack.connection, stack.source.id)


def test_a_document_that_takes_long_to_read_is_left_to_its_turn(stack: Stack) -> None:
    stack.sync()
    memory(stack).put("a.md", b". " * (1 << 20))
    fetched = len(memory(stack).fetched)
    assert stack.preempt("a.md").too_large
    assert len(memory(stack).fetched) == fetched


def test_a_preempting_edit_does_not_wait_for_an_llm_and_gets_its_questions_later(
    tmp_path: Path,
) -> None:
    llm = FakeLlm()
    stack = Stack(tmp_path / "graph.db", MemoryConnector(FILES), asked_maker(llm))
    stack.sync()
    asked = len(llm.calls)
    memory(stack).put("a.md", EDITED)
    stack.preempt("a.md")
    assert len(llm.calls) == asked
    assert set(count_waiting_by_reason(stack.connection, stack.head.id)) == {"queued"}
    assert stack.path.upgrades.run(lambda: True)
    assert count_waiting_by_reason(stack.connection, stack.head.id) == {}
    stack.close()


def test_an_edit_preempts_a_sync_that_waits_for_an_llm_at_any_step(tmp_path: Path) -> None:
    number, steps = 0, [0]
    while number < len(steps):
        llm = FakeLlm()
        stack = Stack(tmp_path / f"{number}.db", MemoryConnector(FILES), asked_maker(llm))

        def act(stack: Stack = stack) -> None:
            memory(stack).put("b.md", EDITED)
            stack.preempt("b.md")

        steps = at_step(stack, number, act)
        stack.sync()
        while stack.writer.upgrade(100, Usage()):
            pass
        assert count_waiting_by_reason(stack.connection, stack.head.id) == {}
        assert llm.times[EDITED.decode()] == 1
        for file in tmp_path.glob("fresh.*"):
            file.unlink()
        assert_as_built_afresh(stack, tmp_path, asked_maker(FakeLlm()))
        stack.close()
        number += 1
    assert number > 10


def test_an_item_purged_between_two_batches_is_not_indexed_again(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "graph.db", MemoryConnector(FILES), batch_documents=1)
    stack.sync()
    for path, data in FILES.items():
        memory(stack).put(path, data + b" It rained.")
    turns = stack.path.sync_in_turns(stack.source, Scope())
    next(turns)
    purge_document(stack.path, "c.md", "notes", 1)
    assert [*turns] == [Turn.COMMITTED]
    assert "c.md" not in read_live_documents(stack.connection, stack.source.id)
    stack.close()


def test_two_sources_take_turns(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "graph.db", MemoryConnector(FILES), batch_documents=1)
    other = Source(
        register_source(stack.connection, "other", "memory", ""),
        "other",
        MemoryConnector({f"other/{path}": data + b" It snowed." for path, data in FILES.items()}),
    )
    turns = [stack.path.sync_in_turns(one, Scope()) for one in (stack.source, other)]
    for one in turns * 3:
        next(one)
    assert [version.reason.partition(":")[0] for version in stack.versions] == [
        "notes",
        "other",
    ] * 3
    stack.close()


class Slow(MemoryConnector):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__(FILES)
        self.let = threading.Event()
        self.threads: set[int] = set()

    def fetch(self, item: Item) -> Fetched:
        self.threads.add(threading.get_ident())
        assert self.let.wait(WAIT_S)
        if item.id == "c.md":
            raise SourceUnavailable("Cannot fetch", "it is away", "Bring it back")
        return super().fetch(item)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Slow, Stack, Source, SourceThread]]:
    connector = Slow()
    stack = Stack(tmp_path / "graph.db", MemoryConnector(FILES), fake_maker())
    stack.sync()
    aside = SourceThread("slow")
    row = register_source(stack.connection, "slow", "memory", "")
    yield connector, stack, Source(row, "slow", connector, aside), aside
    connector.let.set()
    aside.end()
    assert aside.has_ended(WAIT_S)
    stack.close()


def test_small_edits_are_served_while_a_slow_source_is_asked(
    slow: tuple[Slow, Stack, Source, SourceThread],
) -> None:
    connector, stack, source, _ = slow
    memory(stack).put("a.md", EDITED)

    def yield_to_edits() -> None:
        stack.path.yield_to_edits = lambda: None
        if connector.threads:
            stack.preempt("a.md")
            connector.let.set()
        else:
            stack.path.yield_to_edits = yield_to_edits

    stack.path.yield_to_edits = yield_to_edits
    outcome = stack.path.sync(source, Scope())
    assert outcome.problem == "it is away"
    assert connector.threads and threading.get_ident() not in connector.threads
    assert read_live_documents(stack.connection, stack.source.id)["a.md"] == hash_content(EDITED)
    assert read_live_documents(stack.connection, source.id).keys() == {"a.md", "b.md"}


@pytest.mark.parametrize(("pause_s", "batches"), [(1, 1), (11, 2)])
def test_a_batch_of_a_slow_source_ends_after_ten_seconds(
    slow: tuple[Slow, Stack, Source, SourceThread], pause_s: int, batches: int
) -> None:
    connector, stack, source, _ = slow
    connector.let.set()
    stack.path.monotonic_s = count(0, pause_s).__next__
    before = len(stack.versions)
    stack.path.sync(source, Scope())
    assert read_live_documents(stack.connection, source.id).keys() == {"a.md", "b.md"}
    assert len(stack.versions) == before + batches


def test_a_stop_does_not_wait_for_a_slow_source(
    slow: tuple[Slow, Stack, Source, SourceThread],
) -> None:
    connector, stack, source, aside = slow

    def yield_to_edits() -> None:
        if connector.threads:
            raise Stopping

    stack.path.yield_to_edits = yield_to_edits
    began_s = time.monotonic()
    with pytest.raises(Stopping):
        stack.path.sync(source, Scope())
    aside.end()
    assert not aside.has_ended(0.01)
    assert time.monotonic() - began_s < WAIT_S / 2
    connector.let.set()
    assert aside.has_ended(WAIT_S)
