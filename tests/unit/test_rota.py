"""The rota: what a new plan keeps of the old one, and who is answered by it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hopsyncd.schedule import every
from hopsyncd.sync.rota import Request, Rota, Task
from hopsyncd.sync.sync import Outcome, Source
from hopsyncd.sync.timetable import Clocks, Timetable
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

FILES = {f"{name}.md": f"{name} met Nero in Rome.".encode() for name in ("Ada", "Ibsen", "Sappho")}
HOURLY = every(3600)


class Sources:
    """Two sources whose syncs have a document a batch, and the rota of them."""

    def __init__(self, path: Path) -> None:
        self.files, self.more_files = MemoryConnector(FILES), MemoryConnector(FILES)
        self.stack = Stack(path, self.files, batch_documents=1)
        self.notes = self.stack.source
        row = register_source(self.stack.connection, "more", "memory", "")
        self.more = Source(row, "more", self.more_files)
        self.rota = Rota(self.stack.path, lambda: 0.0, lambda _: None)
        assert self.plan(self.notes, self.more) == []

    def plan(self, *sources: Source, at_start: bool = True) -> list[Request]:
        times = Timetable(self.stack.connection, {}, Clocks())
        return self.rota.plan([Task(one, HOURLY, at_start=at_start) for one in sources], times)

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
    assert request.outcomes == {"notes": Outcome("notes", changed=3)}
    assert two.files.fetched == sorted(FILES), "nothing was read twice"
    assert two.more_files.fetched == ["Ada.md"], "the other one was abandoned"


def test_a_source_that_is_the_same_is_not_scanned_again_for_a_new_plan(two: Sources) -> None:
    two.work()
    assert two.plan(two.notes, two.more) == []
    assert not two.rota.is_wanted


def test_who_waits_for_a_changed_source_has_the_answer_of_its_next_scan(two: Sources) -> None:
    first = two.ask("notes")
    two.rota.turn()
    second = two.ask("notes")
    moved = MemoryConnector({"Basho.md": b"Basho walked to Kyoto."})
    assert two.plan(elsewhere(two.notes, moved), two.more, at_start=False) == []
    assert two.work() == [first, second]
    there = Outcome("notes", changed=1, removed=1)
    assert first.outcomes == second.outcomes == {"notes": there}
    assert moved.fetched == ["Basho.md"]


def test_who_waits_for_a_source_that_went_away_is_answered_by_the_others(two: Sources) -> None:
    of_more, of_both = two.ask("more"), two.ask("notes", "more")
    two.rota.turn()
    two.rota.turn()
    assert two.plan(two.notes) == [of_more]
    of_more.answer()
    assert of_more.done.result() == ()
    assert two.work() == [of_both]
    of_both.answer()
    assert of_both.done.result() == (Outcome("notes", changed=3),)


def test_who_waits_for_sources_that_all_went_away_is_answered_once(two: Sources) -> None:
    request = two.ask()
    two.rota.turn()
    assert two.plan() == [request]
    assert not two.rota.is_wanted


def test_a_source_that_other_rules_read_is_scanned_whole_whatever_is_hinted_at(
    two: Sources, tmp_path: Path
) -> None:
    two.work()
    two.stack.close()
    two.stack = Stack(tmp_path / "s.db", two.files, passage_tokens=50)
    two.rota = Rota(two.stack.path, lambda: 0.0, lambda _: None)
    two.files.fetched.clear()
    assert two.plan(two.notes, at_start=False) == []
    two.rota.overtake("notes", ["Ada.md"])
    assert two.files.fetched == [], "an edit waits for the scan"
    two.work()
    assert two.files.fetched == sorted(FILES)
    two.rota.overtake("notes", ["Ada.md"])
    two.work()
    assert two.files.fetched == sorted(FILES)
    assert not two.stack.path.is_behind(two.notes)
