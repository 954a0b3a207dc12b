"""The note of what was acknowledged: torn, damaged, missing, of another database."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from store.engines.sqlite.acknowledged import note_path, read_acknowledged, read_state
from store.engines.sqlite.database import hold_writer_lock, open_reader, open_writer
from store.engines.sqlite.space import copy_to_file, truncate_wal, vacuum
from store.exceptions import DatabaseGone, DiskFailure, NotAcknowledged, VersionsLost
from store.history import delete_tag, set_tag
from store.transactions import transaction
from tests.fakes.lived import lived


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lived(tmp_path / "s.db").close()
    return tmp_path / "s.db"


def test_each_commit_is_noted_and_the_note_is_private(path: Path) -> None:
    with closing(open_writer(path)) as connection:
        before = read_acknowledged(path)
        set_tag(connection, "release", 6, 0)
        after = read_acknowledged(path)
        assert before and after == read_state(connection)
        assert (after.writes, after.version) == (before.writes + 1, 6)
    assert note_path(path).stat().st_mode & 0o777 == 0o600
    assert not list(path.parent.glob("*.part"))


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_write_leaves_the_note_before(path: Path, slot: int) -> None:
    whole = note_path(path).read_bytes()
    known = read_acknowledged(path)
    assert known
    torn = bytearray(whole)
    torn[slot * 4096 + 40] ^= 1
    note_path(path).write_bytes(torn)
    left = read_acknowledged(path)
    assert left and left.writes == known.writes - (known.writes % 2 == slot)
    open_writer(path).close()
    assert read_acknowledged(path) == known


@pytest.mark.parametrize("content", [None, b"", b"no note at all", bytes(8192)])
def test_without_a_note_a_database_opens_and_gets_one(path: Path, content: bytes | None) -> None:
    known = read_acknowledged(path)
    note_path(path).unlink()
    if content is not None:
        note_path(path).write_bytes(content)
    open_writer(path).close()
    assert read_acknowledged(path) == known


def test_a_backup_opens_elsewhere_and_in_its_old_place_by_hand(path: Path) -> None:
    copy = path.parent / "elsewhere/copy.db"
    copy.parent.mkdir()
    with closing(open_writer(path)) as connection:
        copy_to_file(connection, copy)
        set_tag(connection, "release", 6, 0)
    open_writer(copy).close()
    shutil.copy(copy, path)
    for opened in (open_writer, open_reader):
        with pytest.raises(VersionsLost, match="`hopsyncd recover`"):
            opened(path)
    open_writer(path, accept_loss=True).close()
    open_reader(path).close()


def test_a_missing_database_is_not_replaced_silently(path: Path) -> None:
    path.unlink()
    with pytest.raises(
        VersionsLost, match="version 6 was committed, but the database file is missing"
    ):
        open_writer(path)
    assert not path.exists()


def test_a_commit_that_cannot_be_noted_is_not_acknowledged(path: Path) -> None:
    with closing(open_writer(path)) as connection:
        note_path(path).unlink()
        note_path(path).mkdir()
        with pytest.raises(NotAcknowledged, match="is a directory"):
            set_tag(connection, "release", 6, 0)


@pytest.mark.parametrize("act", ["deleted", "replaced", "cut short", "log deleted"])
def test_a_database_that_goes_away_takes_no_write(path: Path, act: str) -> None:
    with closing(open_writer(path)) as connection:
        if act == "deleted":
            path.unlink()
        elif act == "replaced":
            path.rename(path.with_name("old.db"))
            shutil.copy(path.with_name("old.db"), path)
        elif act == "cut short":
            with path.open("r+b") as file:
                file.truncate(4096)
        else:
            path.with_name("s.db-wal").unlink()
        with pytest.raises(DatabaseGone, match="Nothing more is stored") as gone:
            delete_tag(connection, "release")
        assert "`hopsyncd backup restore latest`" in gone.value.hint


def test_a_database_that_a_vacuum_made_smaller_was_not_cut_short(path: Path) -> None:
    with closing(open_writer(path)) as connection:
        with transaction(connection):
            connection.execute("CREATE TABLE filler AS SELECT zeroblob(1 << 20)")
        truncate_wal(connection, wait=True)
        with transaction(connection):
            connection.execute("DROP TABLE filler")
        large = path.stat().st_size
        vacuum(connection)
        truncate_wal(connection, wait=True)
        assert path.stat().st_size < large - (1 << 20)
        set_tag(connection, "release", 6, 0)


@pytest.mark.parametrize("name", ["s.head", "s.db-wal", "s.db-shm"])
def test_an_unreadable_file_at_the_start_is_named(path: Path, name: str) -> None:
    shutil.copytree(path.parent, kept := path.parent / "killed", ignore=lambda *_: ["killed"])
    with closing(open_writer(path)) as connection:
        set_tag(connection, "release", 6, 0)
        for file in path.parent.glob("s.*"):
            shutil.copy(file, kept)
    (kept / name).unlink()
    (kept / name).mkdir()
    with pytest.raises(DiskFailure, match=rf"Cannot read .*{name}.*: is a directory"):
        open_writer(kept / path.name)


def test_a_lock_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.db.lock").mkdir()
    told = r"Cannot write to .*: s\.db\.lock: is a directory\. Give this user write permission"
    with pytest.raises(DiskFailure, match=told), hold_writer_lock(tmp_path / "s.db"):
        """It is not held."""
