"""The rota: what a new plan keeps of the old one, and who is answered by it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from connectors.protocol import Found
from hopsyncd.config.schedule import make_interval
from hopsyncd.ingest.plan import Source
from hopsyncd.ingest.source_scheduler import Clocks, Request, SourceScheduler, Task, Timetable
from hopsyncd.ingest.source_sync import SyncOutcome
from hopsyncd.ingest.source_thread import SourceThread
from store.reads import read_live_documents
from store.records import hash_content
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

FILES = {f"{name}.md": f"{name} met Nero in Rome.".encode() for name in ("Ada", "Ibsen", "Sappho")}
HOURLY = make_interval(3600)
WAIT_S = 60


class Sources:
    """Two sources whose syncs have a document a batch, and the rota of them."""

    def __init__(self, path: Path) -> None:
        self.files, self.more_files = MemoryConnector(FILES), MemoryConnector(FILES)
        self.stack = Stack(path, self.files, batch_documents=1)
        self.notes = self.stack.source
        row = register_source(self.stack.connection, "more", "memory", "")
        self.more = Source(row, "more", self.more_files)
        self.rota = self.scheduler()
        assert self.plan(self.notes, self.more) == []

    def scheduler(self) -> SourceScheduler:
        times = Timetable(self.stack.connection, {}, Clocks())
        return SourceScheduler(self.stack.path, lambda: 0.0, lambda _: None, times)

    def plan(self, *sources: Source, at_start: bool = True) -> list[Request]:
        times = Timetable(self.stack.connection, {}, Clocks())
        return self.rota.plan(
            [Task(source, HOURLY, at_start=at_start) for source in sources], times
        )

    def ask(self, *names: str) -> Request:
        request = Request(frozenset(names), accept_empty=False)
        self.rota.accept(request)
        return request

    def work(self) -> list[Request]:
        """All turns that there are to do; the requests that are answered, each once."""
        answered = []
        while self.rota.is_wanted:
            answered += self.rota.turn()
        return answered


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Sources]:
    made = Sources(tmp_path / "s.db")
    yield made
    made.stack.close()


def elsewhere(source: Source, files: MemoryConnector) -> Source:
    """The same source, configured otherwise."""
    return Source(source.id, source.name, files)


def test_a_sync_under_way_goes_on_where_its_source_is_the_same(two: Sources) -> None:
    request = two.ask("notes")
    two.rota.turn()
    two.rota.turn()
    assert two.plan(two.notes) == []
    assert two.work() == [request]
    assert request.outcomes == {"notes": SyncOutcome("notes", changed=3)}
    assert two.files.fetched == sorted(FILES), "nothing was read twice"
    assert two.more_files.fetched == ["Ada.md"], "the other one was abandoned"


def test_a_source_that_is_the_same_is_not_scanned_again_for_a_new_plan(two: Sources) -> None:
    two.work()
    assert two.plan(two.notes, two.more) == []
    assert not two.rota.is_wanted


def test_waiters_for_a_changed_source_get_the_result_of_its_next_scan(two: Sources) -> None:
    first = two.ask("notes")
    two.rota.turn()
    second = two.ask("notes")
    moved = MemoryConnector({"Basho.md": b"Basho walked to Kyoto."})
    assert two.plan(elsewhere(two.notes, moved), two.more, at_start=False) == []
    assert two.work() == [first, second]
    there = SyncOutcome("notes", changed=1, removed=1)
    assert first.outcomes == second.outcomes == {"notes": there}
    assert moved.fetched == ["Basho.md"]


def test_waiters_for_a_removed_source_get_the_results_of_the_others(two: Sources) -> None:
    of_more, of_both = two.ask("more"), two.ask("notes", "more")
    two.rota.turn()
    two.rota.turn()
    assert two.plan(two.notes) == [of_more]
    of_more.answer()
    assert of_more.done.result() == ()
    assert two.work() == [of_both]
    of_both.answer()
    assert of_both.done.result() == (SyncOutcome("notes", changed=3),)


def test_waiters_for_removed_sources_are_answered_once(two: Sources) -> None:
    request = two.ask()
    two.rota.turn()
    assert two.plan() == [request]
    assert not two.rota.is_wanted


def test_a_source_with_outdated_rules_is_scanned_completely(two: Sources, tmp_path: Path) -> None:
    two.work()
    two.stack.close()
    two.stack = Stack(tmp_path / "s.db", two.files, passage_tokens=50, batch_documents=1)
    two.rota = two.scheduler()
    two.files.fetched.clear()
    assert two.plan(two.notes, at_start=False) == []
    two.rota.turn()
    two.files.put("Sappho.md", b"Sappho met Ada in Oslo.")
    assert two.rota.preempt("notes", ["Sappho.md"]) == ()
    assert two.files.fetched == ["Ada.md", "Sappho.md"], "an edit does not wait for the scan"
    live = read_live_documents(two.stack.connection, two.notes.id)
    assert live["Sappho.md"] == hash_content(b"Sappho met Ada in Oslo.")
    two.work()
    assert two.files.fetched == ["Ada.md", "Sappho.md", "Ibsen.md", "Sappho.md"]
    two.rota.preempt("notes", ["Ada.md"])
    two.work()
    assert len(two.files.fetched) == 4
    assert not two.stack.path.is_behind(two.notes)


class Waiting(MemoryConnector):
    """Is in the middle of a listing until it is let go on."""

    def __init__(self) -> None:
        super().__init__(FILES)
        self.begun, self.let = threading.Event(), threading.Event()
        self.waits_for_parts = False

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        if self.waits_for_parts == bool(under):
            self.begun.set()
            assert self.let.wait(WAIT_S)
        yield from super().discover(since, under)


@pytest.fixture
def slow(two: Sources) -> Iterator[tuple[Waiting, Source]]:
    files, aside = Waiting(), SourceThread("slow")
    row = register_source(two.stack.connection, "slow", "memory", "")
    yield files, Source(row, "slow", files, aside)
    files.let.set()
    aside.end()
    assert aside.has_ended(WAIT_S)


def work_until(two: Sources, is_done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_done():
        assert time.monotonic() < end_s
        two.rota.turn()


def test_others_have_their_turns_while_a_source_is_listed(
    two: Sources, slow: tuple[Waiting, Source]
) -> None:
    files, source = slow
    two.plan(source, two.notes, two.more)
    request = two.ask("notes", "more")
    work_until(two, lambda: request.is_answered)
    assert files.begun.wait(WAIT_S)
    assert not read_live_documents(two.stack.connection, source.id)
    files.let.set()
    two.work()
    assert read_live_documents(two.stack.connection, source.id).keys() == FILES.keys()


def test_others_have_their_turns_while_removals_are_looked_at_again(
    two: Sources, slow: tuple[Waiting, Source]
) -> None:
    files, source = slow
    files.waits_for_parts = True
    two.plan(source, two.notes, two.more)
    two.work()
    files.remove("Ada.md")
    files.put("Ibsen.md", b"Ibsen met Sappho in Oslo.")
    two.ask("slow")
    work_until(two, files.begun.is_set)
    request = two.ask("notes", "more")
    work_until(two, lambda: request.is_answered)
    assert read_live_documents(two.stack.connection, source.id).keys() == FILES.keys()
    files.let.set()
    two.work()
    assert read_live_documents(two.stack.connection, source.id).keys() == FILES.keys() - {"Ada.md"}


def storm(two: Sources) -> list[str]:
    """Many new documents, as hints name them."""
    paths = [f"new/{number}.md" for number in range(1200)]
    for path in paths:
        two.files.put(path, f"{path} is new in Rome.".encode())
    return paths


def test_an_edit_among_a_storm_is_synced_first_and_the_rest_in_its_turn(two: Sources) -> None:
    two.work()
    before = two.stack.head.id
    for hinted in (storm(two), storm(two)[:150]):
        two.files.put("Ada.md", b"Ada met Sappho in Oslo %d." % len(hinted))
        assert two.rota.preempt("notes", [*hinted, "Ada.md"]) == ()
        live = read_live_documents(two.stack.connection, two.notes.id)
        assert live["Ada.md"] == hash_content(two.files.files["Ada.md"])
        assert live.keys() == FILES.keys()
    assert two.stack.head.id == before + 2
    assert two.rota.is_wanted


def test_many_edits_among_a_storm_are_synced_a_few_at_a_time_the_newest_first(
    two: Sources,
) -> None:
    paths = [f"{number}.md" for number in range(20)]
    for path in paths:
        two.files.put(path, b"Nero met Rome.")
    two.work()
    new = storm(two)
    for path in paths:
        two.files.put(path, f"{path} met Oslo.".encode())
    left = two.rota.preempt("notes", [*paths, *new])
    assert left == tuple(paths[8:])
    live = read_live_documents(two.stack.connection, two.notes.id)
    done = {path for path in paths if live[path] == hash_content(two.files.files[path])}
    assert done == {*paths[:8]}
