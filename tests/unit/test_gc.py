"""Garbage collection: what expires, what stays as it was, and what a kill leaves."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hopsyncd.graph.walk import WalkSettings
from hopsyncd.query.engine import Engine
from hopsyncd.strategy import Search, Strategy
from store.check import check
from store.content import known_passages
from store.database import Connection, open_reader, snapshot
from store.errors import NoSuchVersion
from store.gc import Retention, collect, expired, plan_gc
from store.history import diff, log, resolve, set_tag
from store.records import ALIVE, Passage, Version
from store.space import file_bytes
from store.versions import CHANGES, kept_versions, version
from tests.fakes.dump import Rows, graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

DAY_MS = 86_400_000
LATER_MS = 10_000_000_000  # long after every version of a Stack
NOTHING = Retention(keep_versions=1, keep_days=0)
# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
CONTENT = {"passage": "id", "question_set": "id", "question": "id", "passage_text": "rowid"}


def text(number: int) -> bytes:
    return f"# Rome\n\nCaesar met Brutus{number}.\n\nNero burnt Rome{number} in Italy.\n".encode()


def edited(path: Path, versions: int = 6) -> Stack:
    """rome.md, edited once a version; oslo.md stays, paris.md comes at 2 and goes at 4."""
    files = MemoryConnector({"rome.md": text(1), "oslo.md": b"# Oslo\n\nHarald founded Oslo.\n"})
    stack = Stack(path, files)
    stack.sync()
    for number in range(2, versions + 1):
        files.put("rome.md", text(number))
        if number == 2:
            files.put("paris.md", b"# Paris\n\nParis met Caesar. Lutetia is Paris.\n")
        if number == 4:
            files.remove("paris.md")
        stack.sync()
    assert stack.head.id == versions
    return stack


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return edited(tmp_path / "s.db")


def graphs(connection: Connection) -> dict[int, Rows]:
    """Every version that can be read."""
    return {number: graph_at(connection, number) for number in kept_versions(connection)}


def ids(connection: Connection, table: str) -> set[int]:
    return {row[0] for row in connection.execute(f"SELECT {CONTENT[table]} FROM {table}")}


def assert_whole(connection: Connection) -> None:
    """Nothing refers to what is not there, and nothing is there that no kept version has."""
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert ids(connection, "passage") == ids(connection, "passage_text")
    kept = kept_versions(connection)
    for table in ("document", "life", "match"):
        for born, died in connection.execute(f"SELECT born, died FROM {table}"):
            assert any(born <= number < died for number in kept), (table, born, died)
    assert check(connection, deep=True) == []


class TestWhatExpires:
    def test_the_head_is_kept_whatever_its_age(self, stack: Stack) -> None:
        assert expired(stack.connection, NOTHING, LATER_MS) == [1, 2, 3, 4, 5]
        assert expired(stack.connection, Retention(0, 0), LATER_MS) == [1, 2, 3, 4, 5]

    def test_so_many_newest_are_kept(self, stack: Stack) -> None:
        assert expired(stack.connection, Retention(4, 0), LATER_MS) == [1, 2]

    def test_tagged_versions_are_kept(self, stack: Stack) -> None:
        set_tag(stack.connection, "mine", 2, 0)
        assert expired(stack.connection, NOTHING, LATER_MS) == [1, 3, 4, 5]

    def test_a_version_is_as_old_as_it_has_been_replaced(self, stack: Stack) -> None:
        """What was in force within the last days can be asked for, however long it had been."""
        replaced_ms = stack.versions[3].created_ms  # version 4 replaced version 3
        now_ms = replaced_ms + 30 * DAY_MS
        assert expired(stack.connection, Retention(1, 30), now_ms) == [1, 2, 3]
        assert expired(stack.connection, Retention(1, 30), now_ms - 1) == [1, 2]

    def test_what_was_collected_does_not_expire_again(self, stack: Stack) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        assert expired(stack.connection, NOTHING, LATER_MS) == []

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

    def test_what_only_expired_versions_had_is_deleted(self, stack: Stack) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        texts = [row[0] for row in stack.connection.execute("SELECT text FROM passage")]
        assert not any("Lutetia" in one or "Brutus1" in one for one in texts)
        assert any("Brutus6" in one for one in texts)
        sets = stack.connection.execute("SELECT count(*) FROM question_set").fetchone()
        assert sets == (stack.head.passages,)

    def test_a_restored_version_outlives_the_one_it_equals(self, stack: Stack) -> None:
        before = graph_at(stack.connection, 2)
        stack.path.restore(2, {stack.source.id: "notes"})
        collect(stack.connection, NOTHING, LATER_MS)
        assert graph_at(stack.connection, 7) == before
        assert_whole(stack.connection)

    def test_a_kept_version_can_be_restored_without_new_questions(self, stack: Stack) -> None:
        set_tag(stack.connection, "mine", 2, 0)
        before = graph_at(stack.connection, 2)
        collect(stack.connection, NOTHING, LATER_MS)
        made = stack.path.restore(2, {stack.source.id: "notes"})
        assert made is not None and made.counters["passages_generated"] == 0
        assert graph_at(stack.connection, made.id) == before

    def test_the_write_path_goes_on(self, stack: Stack, tmp_path: Path) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        assert isinstance(stack.connector, MemoryConnector)
        stack.connector.put("rome.md", text(1))  # whose content was collected
        stack.sync()
        fresh = Stack(tmp_path / "fresh.db", MemoryConnector(dict(stack.connector.files)))
        fresh.sync()
        assert graph_at(stack.connection, 7) == graph_at(fresh.connection, 1)

    def test_the_log_and_diffs_say_what_they_said(self, stack: Stack) -> None:
        def told() -> list[dict[str, object]]:
            return [asdict(one) | {"collected_ms": None} for one in log(stack.connection, 10)]

        ends = version(stack.connection, 4), version(stack.connection, 6)
        before = told(), diff(stack.connection, *ends)
        set_tag(stack.connection, "mine", 4, 0)
        before[0][2]["tags"] = ("mine",)
        collect(stack.connection, NOTHING, LATER_MS)
        assert (told(), diff(stack.connection, *ends)) == before
        assert [one.collected_ms for one in log(stack.connection, 3)] == [None, LATER_MS, None]

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
            version(reader, 1)


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
    alone = quiet.query(question, 5, search, at="2")
    assert alone is not None
    assert any("Lutetia" in one.text for one in alone.passages.values())
    encoder = Meanwhile(lambda: collect(stack.connection, NOTHING, LATER_MS))
    engine = Engine(tmp_path / "s.db", encoder, WalkSettings())
    assert engine.query(question, 5, search, at="2") == alone
    assert kept_versions(stack.connection) == [6]
    for asked in (engine, quiet):
        with pytest.raises(NoSuchVersion, match="expired: collected on 1970-04-26, kept are 6"):
            asked.query(question, 5, search, at="2")


class TestExpired:
    @pytest.mark.parametrize("at", ["2", "time"])
    def test_an_expired_version_says_so(self, stack: Stack, at: str) -> None:
        set_tag(stack.connection, "mine", 4, 0)
        collect(stack.connection, NOTHING, LATER_MS)
        if at == "time":
            at = _moment(stack.versions[1])
        with pytest.raises(
            NoSuchVersion, match="expired: collected on 1970-04-26, kept are 4 and 6"
        ):
            resolve(stack.connection, at)

    def test_it_can_be_neither_tagged_nor_restored(self, stack: Stack) -> None:
        collect(stack.connection, NOTHING, LATER_MS)
        with pytest.raises(NoSuchVersion, match="expired"):
            set_tag(stack.connection, "late", 2, 0)
        with pytest.raises(NoSuchVersion, match="expired"):
            stack.path.restore(2, {stack.source.id: "notes"})
        assert stack.head.id == 6


def _moment(of: Version) -> str:
    minutes, ms = divmod(of.created_ms, 60_000)
    return f"1970-01-01T00:{minutes:02}:{ms / 1000:06.3f}+00:00"


class TestPlan:
    @pytest.mark.parametrize("keep", [1, 3, 100])
    def test_the_plan_is_what_happens(self, stack: Stack, keep: int) -> None:
        reader = open_reader(Path(stack.connection.execute("PRAGMA database_list").fetchone()[2]))
        plan = asdict(plan_gc(reader, Retention(keep, 0), LATER_MS))
        done = asdict(collect(stack.connection, Retention(keep, 0), LATER_MS))
        assert (plan.pop("bytes") > 0) == (keep < 6)
        done.pop("freed_bytes")
        assert done == plan

    def test_it_changes_nothing(self, stack: Stack) -> None:
        before = graphs(stack.connection)
        plan_gc(stack.connection, NOTHING, LATER_MS)
        assert graphs(stack.connection) == before


class TestUnusedContent:
    """Content that no version ever held: what a killed sync had paid for."""

    def test_it_survives_until_it_is_old_and_another_version_came(self, stack: Stack) -> None:
        paid = Passage((), "Paid for Brutus and never committed.")
        stack.prepare(paid)
        keep = Retention(1, 2)
        now_ms = LATER_MS
        collect(stack.connection, keep, now_ms)
        collect(stack.connection, keep, now_ms + 3 * DAY_MS)
        assert known_passages(stack.connection, [paid.id])
        _commit_at(stack, now_ms + 3 * DAY_MS, b"One more.")
        plan = plan_gc(stack.connection, keep, now_ms + 4 * DAY_MS)
        done = collect(stack.connection, keep, now_ms + 4 * DAY_MS)
        assert (plan.question_sets, plan.passages) == (done.question_sets, done.passages)
        assert not known_passages(stack.connection, [paid.id])
        assert_whole(stack.connection)

    def test_what_came_into_use_is_no_longer_counted_as_unused(self, stack: Stack) -> None:
        assert isinstance(stack.connector, MemoryConnector)
        paid = Passage((), "Paid for Brutus.")
        stack.prepare(paid)
        collect(stack.connection, NOTHING, LATER_MS)
        stack.connector.put("new.md", paid.text.encode())
        stack.sync()
        assert stack.head.counters["passages_generated"] == 0
        collect(stack.connection, NOTHING, LATER_MS + 1)
        assert stack.connection.execute("SELECT count(*) FROM unused").fetchone() == (0,)
        assert known_passages(stack.connection, [paid.id])


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


def test_it_can_be_killed_between_any_two_transactions(tmp_path: Path) -> None:
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
            assert collect(stack.connection, NOTHING, LATER_MS).lives == plan.lives
        else:
            break
        finally:
            assert graphs(stack.connection) == {3: before[3], 6: before[6]}
            assert_whole(stack.connection)
            stack.close()
        steps += 1
    assert steps > 5


def test_the_file_shrinks_again(tmp_path: Path) -> None:
    files = MemoryConnector({"keep.md": b"Rome."})
    stack = Stack(tmp_path / "s.db", files)
    stack.sync()
    start = file_bytes(stack.connection)
    for number in range(3):
        words = (f"Word{number}x{n} met Rome{n}." for n in range(600))
        files.put("big.md", "\n\n".join(words).encode())
        stack.sync()
    files.remove("big.md")
    stack.sync()
    grown = file_bytes(stack.connection)
    done = collect(stack.connection, NOTHING, LATER_MS)
    left = file_bytes(stack.connection)
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


@settings(max_examples=60)
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


def test_a_life_that_is_alive_is_never_dead(stack: Stack) -> None:
    alive = f"SELECT count(*) FROM life WHERE died = {ALIVE}"
    before = stack.connection.execute(alive).fetchone()
    collect(stack.connection, NOTHING, LATER_MS)
    assert stack.connection.execute(alive).fetchone() == before


def test_the_migration_counts_what_commits_would_have_counted(stack: Stack) -> None:
    counted = f"SELECT id, {CHANGES} FROM version ORDER BY id"
    before = stack.connection.execute(counted).fetchall()
    zeros = ", ".join(f"{column} = 0" for column in CHANGES.split(", "))
    stack.connection.execute(f"UPDATE version SET {zeros}")
    script = resources.files("store.schema").joinpath("004_retention.sql").read_text()
    for statement in script.split(";"):
        if "UPDATE version" in statement:
            stack.connection.execute(statement)
    assert stack.connection.execute(counted).fetchall() == before
    assert len({row[1:] for row in before}) > 2
