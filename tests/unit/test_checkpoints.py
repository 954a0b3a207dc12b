"""The log is moved into the database by a thread, not by the commit that fills it."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from store.engines.sqlite import checkpoints
from store.engines.sqlite.checkpoints import count_frames
from store.engines.sqlite.database import FileConnection, open_writer
from store.transactions import transaction

PAGE = 4096
FRAME = PAGE + 24
DEADLINE_S = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.db"


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def write_pages(connection: FileConnection, pages: int) -> None:
    """Write about that many pages in one transaction."""
    with transaction(connection):
        connection.execute("CREATE TABLE IF NOT EXISTS large (bytes BLOB)")
        connection.executemany(
            "INSERT INTO large VALUES (zeroblob(?))", [(PAGE - 100,) for _ in range(pages)]
        )


def restart_log(connection: FileConnection) -> None:
    connection.execute("PRAGMA wal_checkpoint(RESTART)")


def test_frames_are_counted_as_sqlite_counts_them(path: Path) -> None:
    with closing(open_writer(path)) as connection:
        for pages in (3, 50, 1):
            write_pages(connection, pages)
            _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            assert count_frames(log_of(path), FRAME) == frames


def test_frames_of_the_log_before_are_not_counted(path: Path) -> None:
    with closing(open_writer(path)) as connection:
        write_pages(connection, 50)
        restart_log(connection)
        write_pages(connection, 1)
        assert 0 < count_frames(log_of(path), FRAME) < 50


def test_a_missing_log_has_no_frames(path: Path) -> None:
    assert count_frames(log_of(path), FRAME) == 0


def stored_pages(path: Path) -> int:
    """The pages that the database file has without its log."""
    return path.stat().st_size // PAGE


def test_a_long_log_is_moved_by_a_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LOG_FRAMES", 100)
    with closing(open_writer(path)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        restart_log(connection)
        before = stored_pages(path)
        write_pages(connection, 50)
        assert stored_pages(path) == before  # the log is short
        write_pages(connection, 100)
        end_s = time.monotonic() + DEADLINE_S
        while stored_pages(path) < before + 140 and time.monotonic() < end_s:
            time.sleep(0.01)
        assert stored_pages(path) >= before + 140
        write_pages(connection, 1)
        assert connection.execute("SELECT count(*) FROM large").fetchone() == (151,)


def test_the_log_of_a_large_database_may_be_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LOG_FRAMES", 100)
    monkeypatch.setattr(checkpoints, "MOST_FRAMES", 400)
    with closing(open_writer(path)) as connection:
        assert connection.checkpointer
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        write_pages(connection, 800)
        connection.checkpointer.wait()
        restart_log(connection)
        before = stored_pages(path)
        assert before > 800
        write_pages(connection, 150)
        connection.checkpointer.wait()
        assert stored_pages(path) == before
        write_pages(connection, 100)
        connection.checkpointer.wait()
        assert stored_pages(path) >= before + 240


def test_a_paused_checkpoint_thread_does_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LOG_FRAMES", 1)
    with closing(open_writer(path)) as connection:
        assert connection.checkpointer
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        with connection.checkpointer.pause():
            restart_log(connection)
            before = stored_pages(path)
            write_pages(connection, 50)
            connection.checkpointer.wait()
            assert stored_pages(path) == before
        write_pages(connection, 1)
        connection.checkpointer.wait()
        assert stored_pages(path) >= before + 40
