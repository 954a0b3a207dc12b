"""Backups: one version, whole, private, and never half there."""

import stat
import threading
from pathlib import Path

import pytest

from hopsyncd.ingest.upkeep import verify_matches
from store.check import check
from store.engines.sqlite import space
from store.engines.sqlite.database import SqliteError, open_reader, open_writer
from store.exceptions import BackupFailed
from store.space import copy_to_file
from store.versions import read_head
from tests.fakes.dump import graph_at
from tests.fakes.lived import lived, page
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return lived(tmp_path / "s.db")


def test_a_backup_opened_elsewhere_equals_the_original(stack: Stack, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "copy.db"
    target.parent.mkdir()
    copy_to_file(stack.connection, target)
    assert [file.name for file in target.parent.iterdir()] == ["copy.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    copy = open_writer(target)
    assert check(copy, deep=True) + verify_matches(copy) == []
    for number in range(1, 7):
        assert graph_at(copy, number) == graph_at(stack.connection, number)


def test_a_backup_during_writes_is_one_version(stack: Stack, tmp_path: Path) -> None:
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    stop = threading.Event()

    def write() -> None:
        for number in range(1000):
            if stop.is_set():
                break
            files.put("rome.md", page("Rome", f"Place{number}", "Oslo"))
            stack.sync()

    thread = threading.Thread(target=write)
    thread.start()
    reader = open_reader(tmp_path / "s.db")
    targets = [tmp_path / f"backup{number}.db" for number in range(5)]
    try:
        for target in targets:
            copy_to_file(reader, target)
    finally:
        stop.set()
        thread.join()
    for target in targets:
        copy = open_writer(target)
        newest = read_head(copy)
        assert newest is not None
        assert check(copy, deep=True) == []
        assert graph_at(copy, newest.id) == graph_at(stack.connection, newest.id)


@pytest.mark.parametrize("existing", ["file", "folder", "link"])
def test_a_backup_does_not_overwrite_an_existing_file(
    stack: Stack, tmp_path: Path, existing: str
) -> None:
    target = tmp_path / "b.db"
    if existing == "file":
        target.write_bytes(b"mine")
    elif existing == "folder":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    with pytest.raises(BackupFailed, match=r"b\.db: a file with that name exists"):
        copy_to_file(stack.connection, target)
    assert existing != "file" or target.read_bytes() == b"mine"


def test_a_folder_that_is_not_there_is_named(stack: Stack, tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="No such file or directory"):
        copy_to_file(stack.connection, tmp_path / "no" / "b.db")


def test_a_failed_backup_leaves_no_file(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SqliteError("database or disk is full")

    monkeypatch.setattr(space, "sync_to_disk", full)
    before = set(tmp_path.iterdir())
    with pytest.raises(BackupFailed, match="disk is full"):
        copy_to_file(stack.connection, tmp_path / "b.db")
    assert set(tmp_path.iterdir()) == before


def test_a_name_that_is_too_long_is_reported(stack: Stack, tmp_path: Path) -> None:
    with pytest.raises(BackupFailed, match="too long"):
        copy_to_file(stack.connection, tmp_path / ("a" * 300))
    assert not [*tmp_path.glob("a*")]
