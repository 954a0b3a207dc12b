"""Garbage collection: content that no version has, what a kill leaves, and room in the file."""

import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.content import read_passages
from store.gc import Retention, collect, find_unused_sets, plan_gc
from store.history import set_tag
from store.records import ALIVE, Passage
from store.versions import CHANGES
from tests.fakes.dump import graph_at
from tests.fakes.edited import LATER_MS, NOTHING, assert_whole, edited, graphs
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

DAY_MS = 86_400_000


# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return edited(tmp_path / "s.db")


class TestUnusedContent:
    """Content that no version ever held: what a killed sync had paid for."""

    def test_unused_content_survives_until_it_is_old_and_a_newer_version_exists(
        self, stack: Stack
    ) -> None:
        paid = Passage((), "Paid for Brutus and never committed.")
        stack.prepare(paid)
        keep = Retention(1, 2)
        now_ms = LATER_MS
        collect(stack.connection, keep, now_ms)
        collect(stack.connection, keep, now_ms + 3 * DAY_MS)
        assert read_passages(stack.connection, [paid.id])
        _commit_at(stack, now_ms + 3 * DAY_MS, b"One more.")
        plan = plan_gc(stack.connection, keep, now_ms + 4 * DAY_MS)
        done = collect(stack.connection, keep, now_ms + 4 * DAY_MS)
        assert (plan.question_sets, plan.passages) == (done.question_sets, done.passages)
        assert not read_passages(stack.connection, [paid.id])
        assert_whole(stack.connection)

    @pytest.mark.parametrize("sets_at_once", [1, 2, 7, 1000])
    def test_unused_content_is_found_in_parts(self, stack: Stack, sets_at_once: int) -> None:
        known = [row[0] for row in stack.connection.execute("SELECT id FROM question_set")]
        for number in range(5):
            stack.prepare(Passage((), f"Paid for Brutus and {number}."))
        steps: list[int] = []
        found = find_unused_sets(stack.connection, lambda: steps.append(1), sets_at_once)
        now = [row[0] for row in stack.connection.execute("SELECT id FROM question_set")]
        assert sorted(found) == sorted({*now} - {*known})
        assert len(found) == len({*found}) == 5
        assert len(steps) == len(now) // (sets_at_once + 1)

    def test_content_that_came_into_use_is_no_longer_counted_as_unused(self, stack: Stack) -> None:
        assert isinstance(stack.connector, MemoryConnector)
        paid = Passage((), "Paid for Brutus.")
        stack.prepare(paid)
        collect(stack.connection, NOTHING, LATER_MS)
        stack.connector.put("new.md", paid.text.encode())
        stack.sync()
        assert stack.head.counters["passages_generated"] == 0
        collect(stack.connection, NOTHING, LATER_MS + 1)
        assert stack.connection.execute("SELECT count(*) FROM unused").fetchone() == (0,)
        assert read_passages(stack.connection, [paid.id])


def _commit_at(stack: Stack, now_ms: int, data: bytes) -> None:
    assert isinstance(stack.connector, MemoryConnector)
    stack.connector.put("more.md", data)
    stack.sync()
    stack.connection.execute(
        "UPDATE version SET created_ms = ? WHERE id = ?", [now_ms, stack.head.id]
    )


class Killed(Exception):
    """Stands for a kill: nothing after it runs."""


def killing(after: int) -> Callable[[], None]:
    left = iter(range(after))

    def between() -> None:
        if next(left, None) is None:
            raise Killed

    return between


def test_gc_can_be_killed_between_any_two_transactions(tmp_path: Path) -> None:
    steps = 0
    while True:
        stack = edited(tmp_path / f"{steps}.db")
        set_tag(stack.connection, "mine", 3, 0)
        before = graphs(stack.connection)
        try:
            collect(stack.connection, NOTHING, LATER_MS, between=killing(steps))
        except Killed:
            assert graphs(stack.connection) == {3: before[3], 6: before[6]}
            assert stack.connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert stack.connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
            plan = plan_gc(stack.connection, NOTHING, LATER_MS)
            assert plan.versions == ()
            assert (
                collect(stack.connection, NOTHING, LATER_MS).passage_intervals
                == plan.passage_intervals
            )
        else:
            break
        finally:
            assert graphs(stack.connection) == {3: before[3], 6: before[6]}
            assert_whole(stack.connection)
            stack.close()
        steps += 1
    assert steps > 3


def test_the_database_file_shrinks_after_gc(tmp_path: Path) -> None:
    files = MemoryConnector({"keep.md": b"Rome."})
    stack = Stack(tmp_path / "s.db", files)
    stack.sync()
    start = stack.connection.measure_size()
    for number in range(3):
        words = (f"Word{number}x{n} met Rome{n}." for n in range(600))
        files.put("big.md", "\n\n".join(words).encode())
        stack.sync()
    files.remove("big.md")
    stack.sync()
    grown = stack.connection.measure_size()
    done = collect(stack.connection, NOTHING, LATER_MS)
    left = stack.connection.measure_size()
    assert done.freed_bytes == grown - left
    assert left - start < (grown - start) / 20
    assert (tmp_path / "s.db").stat().st_size == left
    assert_whole(stack.connection)


def test_an_old_database_is_vacuumed_once(stack: Stack) -> None:
    stack.connection.execute("PRAGMA auto_vacuum = NONE")
    stack.connection.execute("VACUUM")
    before = graph_at(stack.connection, 6)
    stack.connection.execute("CREATE TABLE ballast AS SELECT zeroblob(1000000) AS zeros")
    stack.connection.execute("DROP TABLE ballast")
    collect(stack.connection, NOTHING, LATER_MS)
    assert stack.connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert stack.connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert graph_at(stack.connection, 6) == before


paths = st.sampled_from(["a.md", "b.md", "c.md"])
words = st.sampled_from(["Rome met Ada.", "Ada wrote X1.", "X1 ran in Paris.", "of note", "..."])
documents = st.lists(words, min_size=1, max_size=3).map(lambda some: "\n\n".join(some).encode())
changes = st.tuples(paths, st.none() | documents)
histories = st.lists(st.lists(changes, min_size=1, max_size=2), min_size=2, max_size=9)


@settings(max_examples=settings().max_examples // 3)
@given(
    history=histories,
    keep=st.integers(1, 4),
    tags=st.sets(st.integers(1, 9)),
    between_gcs=st.integers(1, 4),
)
def test_every_kept_version_reads_the_same_after_any_history(
    history: list[list[tuple[str, bytes | None]]], keep: int, tags: set[int], between_gcs: int
) -> None:
    with TemporaryDirectory(dir=MEMORY) as folder:
        files = MemoryConnector({"z.md": b"Rome."})
        stack = Stack(Path(folder) / "s.db", files)
        stack.sync()
        for turn, change in enumerate(history, 1):
            for path, data in change:
                if data is not None:
                    files.put(path, data)
                elif path in files.files:
                    files.remove(path)
            stack.sync()
            if stack.head.id in tags:
                set_tag(stack.connection, f"tag {stack.head.id}", stack.head.id, 0)
            if turn % between_gcs == 0:
                before = graphs(stack.connection)
                collect(stack.connection, Retention(keep, 0), LATER_MS)
                after = graphs(stack.connection)
                assert after == {number: before[number] for number in after}
                assert_whole(stack.connection)
        stack.close()


def test_gc_keeps_all_passage_intervals_that_are_in_force(stack: Stack) -> None:
    alive = f"SELECT count(*) FROM life WHERE died = {ALIVE}"
    before = stack.connection.execute(alive).fetchone()
    collect(stack.connection, NOTHING, LATER_MS)
    assert stack.connection.execute(alive).fetchone() == before


def test_the_migration_counts_what_commits_would_have_counted(stack: Stack) -> None:
    counted = f"SELECT id, {CHANGES} FROM version ORDER BY id"
    before = stack.connection.execute(counted).fetchall()
    zeros = ", ".join(f"{column} = 0" for column in CHANGES.split(", "))
    stack.connection.execute(f"UPDATE version SET {zeros}")
    script = (
        resources.files("store.engines.sqlite").joinpath("schema", "004_retention.sql").read_text()
    )
    for statement in script.split(";"):
        if "UPDATE version" in statement:
            stack.connection.execute(statement)
    assert stack.connection.execute(counted).fetchall() == before
    assert len({row[1:] for row in before}) > 2
