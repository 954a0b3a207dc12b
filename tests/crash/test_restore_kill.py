"""kill -9 while a backup is restored: the next start has the old database or the restored one."""

import os
import signal
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from hopsyncd.ingest.backup_process import verify_copy
from store.backup_folder import DATABASE, list_backups, make_backup
from store.check import check
from store.engines.sqlite.database import open_reader, open_writer
from store.restoring import find_pending_restore, finish_restore, list_replaced, stage_restore
from store.versions import read_head
from tests.fakes.dump import graph_at
from tests.fakes.lived import lived, page
from tests.fakes.memory import MemoryConnector

NOW_MS = 1_795_662_000_000
STEPS = ("move hopsyncd.db", "move hopsyncd.head", "rename", "continue", "forget")
_FORKS = get_context("fork")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database at version 7, and a backup at version 6 in `b`."""
    (tmp_path / "data").mkdir()
    stack = lived(tmp_path / "data/hopsyncd.db")
    make_backup(stack.connection, tmp_path / "b", verify_copy, NOW_MS, "0.3.0")
    assert isinstance(stack.connector, MemoryConnector)
    stack.connector.put("new.md", page("Turin", "Rome"))
    stack.sync()
    stack.close()
    return tmp_path / "data/hopsyncd.db"


def prepare(database: Path) -> None:
    (found,) = list_backups(database.parents[1] / "b")
    stage_restore(database, found.name, found, verify_copy, NOW_MS)


def killed(work: Callable[[], object]) -> None:
    """Do the work in a process that kills itself."""
    process = _FORKS.Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("at", STEPS)
def test_a_kill_while_the_files_change_places_is_repaired_at_the_next_start(
    database: Path, at: str
) -> None:
    prepare(database)
    with closing(open_reader(database)) as connection:
        former = graph_at(connection, 7)

    def step(name: str) -> None:
        if name == at:
            die()

    killed(lambda: finish_restore(database, NOW_MS, step))
    assert find_pending_restore(database), "a start completes it"
    restored = finish_restore(database, NOW_MS)
    assert restored and restored.version == 6
    assert find_pending_restore(database) is None and not (database.parent / "restore").exists()
    (replaced,) = list_replaced(database)
    with closing(open_reader(replaced)) as connection:
        assert graph_at(connection, 7) == former
    with closing(open_writer(database)) as connection:
        newest = read_head(connection)
        assert newest and newest.id == 6 and check(connection, deep=True) == []


@pytest.mark.parametrize("name", ["compute_file_digest", "write_private", "sync_folder"])
def test_a_kill_while_a_restore_is_prepared_leaves_the_database_unchanged(
    database: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(f"store.restoring.{name}", die)
        killed(lambda: prepare(database))
    done = finish_restore(database, NOW_MS)
    # The order is complete before its folder is synced, and then it is carried out.
    assert (done is not None) == (name == "sync_folder")
    with closing(open_writer(database)) as connection:
        newest = read_head(connection)
        assert newest and newest.id == (6 if done else 7)
    assert not (database.parent / "restore").exists()


def test_a_kill_while_a_backup_is_made_leaves_the_older_ones(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = database.parents[1] / "b"
    before = list_backups(folder)

    def make() -> None:
        with closing(open_reader(database)) as connection:
            make_backup(connection, folder, die, NOW_MS, "0.3.0")

    killed(make)
    assert list_backups(folder) == before
    assert [path for path in folder.glob(".*.part") if (path / DATABASE).exists()]
    with closing(open_reader(database)) as connection:
        make_backup(connection, folder, verify_copy, NOW_MS + 1000, "0.3.0")
    assert len(list_backups(folder)) == 2 and not [*folder.glob(".*.part")]
