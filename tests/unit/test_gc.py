"""Garbage collection: what expires, and what stays as it was."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hopsyncd.config.values import Search, Strategy
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.engines.sqlite.database import open_reader
from store.exceptions import NoSuchVersion
from store.gc import Retention, collect, find_expired, plan_gc
from store.history import diff, read_log, resolve, set_tag
from store.records import Version
from store.transactions import snapshot
from store.versions import list_kept_versions, read_version
from tests.fakes.dump import Rows, graph_at
from tests.fakes.edited import LATER_MS, NOTHING, assert_whole, edited, graphs, text
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

DAY_MS = 86_400_000


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return edited(tmp_path / "s.db")


class TestWhatExpires:
    def test_the_head_is_kept_whatever_its_age(self, stack: Stack) -> None:
        assert find_expired(stack.connection, NOTHING, LATER_MS) == [1, 2, 3, 4, 5]
        assert find_expired(stack.connection, Retention(0, 0), LATER_MS) == [1, 2, 3, 4, 5]

    def test_the_configured_number_of_newest_versions_is_kept(self, stack: Stack) -> None:
        assert find_expired(stack.connection, Retention(4, 0), LATER_MS) == [1, 2]

    def test_tagged_versions_are_kept(self, stack: Stack) -> None:
        set_tag(stack.connection, "mine", 2, 0)
        assert find_expired(stack.connection, NOTHING, LATER_MS) == [1, 3, 4, 5]

    def test_a_version_is_as_old_as_it_has_been_replaced(self, stack: Stack) -> None:
        """What was in force within the last days can be asked for, however long it had been."""
        replaced_ms = stack.versions[3].created_ms  # version 4 replaced version 3
        now_ms = replaced_ms + 30 * DAY_MS
        assert find_expired(stack.connection, Retention(1, 30), now_ms) == [1, 2, 3]
        assert find_expired(stack.connection, Retention(1, 30), now_ms - 1) == [1, 2]

    def test_a_collected_version_does_not_expire_again(self, stack: Stack) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        assert find_expired(stack.connection, NOTHING, LATER_MS) == []

    def test_a_store_without_a_version_has_nothing_to_collect(self, tmp_path: Path) -> None:
        empty = Stack(tmp_path / "empty.db", MemoryConnector())
        assert collect(empty.connection, NOTHING, LATER_MS).versions == ()


class TestWhatIsKept:
    @pytest.mark.parametrize("keep", [1, 2, 5])
    def test_kept_versions_read_as_before(self, stack: Stack, keep: int) -> None:
        set_tag(stack.connection, "mine", 3, 0)
        before = graphs(stack.connection)
        collect(stack.connection, Retention(keep, 0), LATER_MS)
        after = graphs(stack.connection)
        assert after.keys() == {3, *range(7 - keep, 7)}
        assert after == {number: before[number] for number in after}
        assert_whole(stack.connection)

    def test_rows_of_expired_versions_only_are_deleted(self, stack: Stack) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        texts = [row[0] for row in stack.connection.execute("SELECT text FROM passage")]
        assert not any("Lutetia" in one or "Brutus1" in one for one in texts)
        assert any("Brutus6" in one for one in texts)
        sets = stack.connection.execute("SELECT count(*) FROM question_set").fetchone()
        assert sets == (stack.head.passages,)

    def test_a_restored_version_outlives_the_one_it_equals(self, stack: Stack) -> None:
        before = graph_at(stack.connection, 2)
        stack.restore(2)
        collect(stack.connection, NOTHING, LATER_MS)
        assert graph_at(stack.connection, 7) == before
        assert_whole(stack.connection)

    def test_a_kept_version_can_be_restored_without_new_questions(self, stack: Stack) -> None:
        set_tag(stack.connection, "mine", 2, 0)
        before = graph_at(stack.connection, 2)
        collect(stack.connection, NOTHING, LATER_MS)
        made = stack.restore(2)
        assert made is not None and made.counters["passages_generated"] == 0
        assert graph_at(stack.connection, made.id) == before

    def test_a_sync_after_gc_gives_the_same_graph_as_a_new_index(
        self, stack: Stack, tmp_path: Path
    ) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        assert isinstance(stack.connector, MemoryConnector)
        stack.connector.put("rome.md", text(1))  # whose content was collected
        stack.sync()
        fresh = Stack(tmp_path / "fresh.db", MemoryConnector(dict(stack.connector.files)))
        fresh.sync()
        assert graph_at(stack.connection, 7) == graph_at(fresh.connection, 1)

    def test_the_log_and_diffs_are_unchanged_by_gc(self, stack: Stack) -> None:
        def told() -> list[dict[str, object]]:
            return [
                asdict(entry) | {"collected_ms": None} for entry in read_log(stack.connection, 10)
            ]

        ends = read_version(stack.connection, 4), read_version(stack.connection, 6)
        before = told(), diff(stack.connection, *ends)
        set_tag(stack.connection, "mine", 4, 0)
        before[0][2]["tags"] = ("mine",)
        collect(stack.connection, NOTHING, LATER_MS)
        assert (told(), diff(stack.connection, *ends)) == before
        assert [entry.collected_ms for entry in read_log(stack.connection, 3)] == [
            None,
            LATER_MS,
            None,
        ]

    def test_a_reader_keeps_what_it_began_with(self, stack: Stack, tmp_path: Path) -> None:
        reader = open_reader(tmp_path / "s.db")
        before = graph_at(stack.connection, 1)
        with snapshot(reader):
            assert graph_at(reader, 1) == before
            collect(
                stack.connection,
                NOTHING,
                LATER_MS,
                between=lambda: _same(graph_at(reader, 1), before),
            )
            assert graph_at(reader, 1) == before
        with pytest.raises(NoSuchVersion):
            read_version(reader, 1)


def _same(one: Rows, other: Rows) -> None:
    assert one == other


class Meanwhile(FakeEncoder):
    """Lets something happen in the middle of a query: after its version was taken up, before any
    of the rows is read."""

    def __init__(self, happen: Callable[[], object]) -> None:
        super().__init__()
        self._happen = happen

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._happen()
        return super().encode(texts)


@pytest.mark.parametrize("strategy", ["hop", "dense", "hybrid"])
def test_a_query_keeps_its_version_until_it_is_done(
    stack: Stack, tmp_path: Path, strategy: Strategy
) -> None:
    """And does not hold gc up; the next query is told that the version has expired."""
    question, search = "Whom did Caesar meet in Paris?", Search(strategy)
    quiet = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    quiet.publish(stack.writer.make_snapshot(stack.head))
    alone = quiet.query(question, 5, search, at="2")
    assert alone is not None
    assert any("Lutetia" in passage.text for passage in alone.passages.values())
    encoder = Meanwhile(lambda: collect(stack.connection, NOTHING, LATER_MS))
    engine = Engine(tmp_path / "s.db", encoder, WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    assert engine.query(question, 5, search, at="2") == alone
    assert list_kept_versions(stack.connection) == [6]
    for asked in (engine, quiet):
        with pytest.raises(
            NoSuchVersion, match="expired and was deleted on 1970-04-26; the kept versions are 6"
        ):
            asked.query(question, 5, search, at="2")


class TestExpired:
    @pytest.mark.parametrize("at", ["2", "time"])
    def test_an_expired_version_says_so(self, stack: Stack, at: str) -> None:
        set_tag(stack.connection, "mine", 4, 0)
        collect(stack.connection, NOTHING, LATER_MS)
        if at == "time":
            at = _moment(stack.versions[1])
        with pytest.raises(
            NoSuchVersion,
            match="expired and was deleted on 1970-04-26; the kept versions are 4 and 6",
        ):
            resolve(stack.connection, at)

    def test_an_expired_version_can_be_neither_tagged_nor_restored(self, stack: Stack) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        with pytest.raises(NoSuchVersion, match="expired"):
            set_tag(stack.connection, "late", 2, 0)
        with pytest.raises(NoSuchVersion, match="expired"):
            stack.restore(2)
        assert stack.head.id == 6


def _moment(of: Version) -> str:
    minutes, ms = divmod(of.created_ms, 60_000)
    return f"1970-01-01T00:{minutes:02}:{ms / 1000:06.3f}+00:00"


class TestPlan:
    @pytest.mark.parametrize("keep", [1, 3, 100])
    def test_gc_does_what_its_plan_says(self, stack: Stack, keep: int) -> None:
        reader = open_reader(Path(stack.connection.execute("PRAGMA database_list").fetchone()[2]))
        plan = asdict(plan_gc(reader, Retention(keep, 0), LATER_MS))
        done = asdict(collect(stack.connection, Retention(keep, 0), LATER_MS))
        assert (plan.pop("bytes") > 0) == (keep < 6)
        done.pop("freed_bytes")
        assert done == plan

    def test_a_dry_run_of_gc_changes_nothing(self, stack: Stack) -> None:
        before = graphs(stack.connection)
        plan_gc(stack.connection, NOTHING, LATER_MS)
        assert graphs(stack.connection) == before
