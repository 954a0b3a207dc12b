"""The feed: a copy that it keeps is, at every kept version, what reading the store gives."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.ingest.index_loading import follow, load_index, load_snapshot
from hopsyncd.ingest.read import Batch
from store.changes import read_changes, stamp
from store.copying import LocalCopy
from store.engines.sqlite.database import open_file
from store.exceptions import NoSuchVersion
from store.gc import Retention, collect
from store.history import set_tag
from store.purge import purge, request_purge
from store.records import ALIVE
from store.transactions import snapshot
from store.versions import list_kept_versions, read_version
from tests.fakes.dump import served_by
from tests.fakes.edited import LATER_MS, edited
from tests.fakes.follower import Follower, read_at
from tests.fakes.lived import lived
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack


def shown_by(copy: Path, version: int) -> dict[str, list[tuple[object, ...]]]:
    """What a local copy has in force at a version."""
    with closing(open_file(copy)) as connection:
        return {
            table: connection.execute(
                f"SELECT * FROM {table} WHERE born <= ?1 AND died > ?1 ORDER BY id", [version]
            ).fetchall()
            for table in ("document", "life")
        }


def assert_same(follower: Follower, stack: Stack) -> None:
    for number in list_kept_versions(stack.connection):
        assert follower.at(number) == read_at(stack.connection, number)


@pytest.fixture(params=[edited, lived])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Stack:
    make: Callable[[Path], Stack] = request.param
    return make(tmp_path / "s.db")


class TestFollowing:
    @pytest.mark.parametrize("stops", [(6,), (1, 2, 3, 4, 5, 6), (2, 5, 6), (4, 6)])
    def test_a_follower_reaches_every_version_in_any_steps(
        self, stack: Stack, stops: tuple[int, ...]
    ) -> None:
        follower, after = Follower(), 0
        for until in stops:
            follower.apply(read_changes(stack.connection, after, until))
            for number in range(1, until + 1):
                assert follower.at(number) == read_at(stack.connection, number)
            after = until
        assert_same(follower, stack)

    def test_rows_in_force_at_the_end_of_a_feed_are_alive_despite_later_changes(
        self, stack: Stack
    ) -> None:
        fed = read_changes(stack.connection, 0, 3)
        assert {*fed.passages_begun.died.tolist()} <= {2, 3, ALIVE}
        assert len(fed.passages_ended.key) == len(fed.matches_ended.key) == 0

    def test_an_unchanged_store_gives_no_changes(self, stack: Stack) -> None:
        fed = read_changes(stack.connection, 6, 6)
        assert not fed.documents_begun
        assert not len(fed.passages_begun.passage) + len(fed.matches_begun.question)

    def test_a_set_that_takes_another_s_place_ends_and_begins(self, stack: Stack) -> None:
        fed = read_changes(stack.connection, 5, 6)
        document = fed.documents_begun[0]
        assert (document.source, document.born, document.died) == ("notes", 6, ALIVE)
        assert {passage for passage, _ in document.occurrences} >= {
            *fed.passages_begun.passage.tolist()
        }


class TestAfterRowsWereDeleted:
    def test_a_copy_goes_on_after_a_gc_and_a_new_one_has_all_that_is_kept(
        self, stack: Stack
    ) -> None:
        set_tag(stack.connection, "mine", 2, 0)
        follower = Follower()
        follower.apply(read_changes(stack.connection, 0, 5))
        collect(stack.connection, Retention(2, 0), LATER_MS)
        assert list_kept_versions(stack.connection) == [2, 5, 6]
        follower.apply(read_changes(stack.connection, 5, 6))
        assert_same(follower, stack)
        fresh = Follower()
        fresh.follow(stack.connection)
        assert_same(fresh, stack)
        for after, until in ((2, 5), (2, 6), (5, 6)):
            between = Follower()
            between.apply(read_changes(stack.connection, 0, after))
            between.apply(read_changes(stack.connection, after, until))
            assert between.at(until) == read_at(stack.connection, until)

    @pytest.mark.parametrize("tagged", [(), (2,), (2, 4), (5,)])
    @pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
    def test_a_copy_of_a_collected_version_goes_on(
        self, stack: Stack, after: int, tagged: tuple[int, ...]
    ) -> None:
        for number in tagged:
            set_tag(stack.connection, f"mine{number}", number, 0)
        follower = Follower()
        follower.apply(read_changes(stack.connection, 0, after))
        index = load_index(stack.connection, stack.maker.generation, after)
        collect(stack.connection, Retention(1, 0), LATER_MS)
        follower.apply(read_changes(stack.connection, after, 6))
        follow(stack.connection, index, stack.maker.generation.encoder, after, 6)
        for number in [
            number for number in list_kept_versions(stack.connection) if number >= after
        ]:
            assert follower.at(number) == read_at(stack.connection, number)
            at = read_version(stack.connection, number)
            followed = Snapshot(index, at, Statistics.count(index, number))
            assert served_by(followed) == served_by(load_snapshot(stack.connection, at))

    @pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
    def test_a_local_copy_of_a_collected_version_goes_on(
        self, stack: Stack, after: int, tmp_path: Path
    ) -> None:
        followed, fresh = tmp_path / "followed.db", tmp_path / "fresh.db"
        with snapshot(stack.connection):
            LocalCopy(followed).follow(stack.connection, after)
        inode = followed.stat().st_ino
        collect(stack.connection, Retention(1, 0), LATER_MS)
        for path in (followed, fresh):
            with snapshot(stack.connection):
                LocalCopy(path).follow(stack.connection, 6)
        assert followed.stat().st_ino == inode
        assert shown_by(followed, 6) == shown_by(fresh, 6)

    def test_a_collected_version_is_no_place_to_end(self, stack: Stack) -> None:
        collect(stack.connection, Retention(1, 0), LATER_MS)
        with pytest.raises(NoSuchVersion):
            read_changes(stack.connection, 0, 3)
        with pytest.raises(NoSuchVersion):
            read_changes(stack.connection, 9, 6)

    def test_a_purge_makes_a_copy_start_again(self, stack: Stack) -> None:
        follower = Follower()
        follower.follow(stack.connection)
        path = "rome.md"
        stack.writer.apply(Batch("", gone=((stack.source.id, path),)))
        follower.follow(stack.connection)
        assert follower.began_again == 0
        purge(stack.connection, request_purge(stack.connection, stack.source.id, path, LATER_MS))
        follower.follow(stack.connection)
        assert follower.began_again == 1
        assert_same(follower, stack)

    def test_a_rebuild_makes_a_copy_start_again(self, stack: Stack) -> None:
        before = stamp(stack.connection, 6)
        stack.writer.rebuild()
        assert stamp(stack.connection, 6) != before


def test_versions_of_one_number_in_two_databases_have_two_stamps(tmp_path: Path) -> None:
    one = Stack(tmp_path / "one.db", MemoryConnector({"a.md": b"Rome."}))
    other = Stack(tmp_path / "other.db", MemoryConnector({"a.md": b"Rome.", "b.md": b"Oslo."}))
    one.sync()
    other.sync()
    assert stamp(one.connection, 1) != stamp(other.connection, 1)


def test_changes_contain_only_changed_rows(tmp_path: Path) -> None:
    """By their indexes: a scan would read every row of a table."""
    stack = lived(tmp_path / "s.db")
    asked: list[str] = []
    stack.file.set_trace_callback(asked.append)
    read_changes(stack.connection, 5, 6)
    stack.file.set_trace_callback(None)
    for sql in asked:
        plan = stack.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
        assert not [row for row in plan if row[3].startswith("SCAN")], (sql, plan)
