"""The database as a file: its space, and copies of it.

A backup is a consistent copy, made while the writer works. SQLite's online backup copies pages
inside one read transaction, so the copy is one version, and in WAL mode neither readers nor the
writer wait for it. VACUUM INTO would make a smaller copy, but it renumbers rows of tables without
an INTEGER PRIMARY KEY, by which sqlite-vec finds its chunks.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from store.contract import Connection
from store.engines.sqlite.database import FileConnection, SqliteError, disk_failure, open_file
from store.engines.sqlite.presence import expect_shrinking, note_size
from store.exceptions import BackupFailed, DiskFailure
from store.search import generation_rows, move_vectors, renew_vectors, sparse_chunks
from store.transactions import snapshot

_PAGES = 1000  # freed per step
_QUICK_BYTES = 1 << 25  # of a file that is rewritten within a second
_WAIT_MS, _NO_WAIT_MS = 10_000, 200


def shrink(connection: Connection, between: Callable[[], None]) -> None:
    """Return deleted pages to the file system, in steps; `between` runs after each.

    If a tenth of a small file is free, about as much again is lost in half-empty pages, so the file
    is vacuumed as a whole; this also turns incremental vacuum on for a database made without it.
    The writer would wait too long for a large one, which gives back its free pages in steps.
    """
    for generation in generation_rows(connection):
        for intervals in sparse_chunks(connection, generation):
            move_vectors(connection, generation, intervals)
            between()
    _vacuum(connection, between)
    truncate_wal(connection, wait=False)


def _vacuum(connection: Connection, between: Callable[[], None]) -> None:
    free, whole = _free_pages(connection), connection.execute("PRAGMA page_count").fetchone()[0]
    if 10 * free > whole and connection.size_bytes() <= _QUICK_BYTES:
        vacuum(connection, between)
        return
    while free:
        _shrunk(connection, f"PRAGMA incremental_vacuum({_PAGES})")
        before, free = free, _free_pages(connection)
        between()
        if free >= before:
            return


def _free_pages(connection: Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def vacuum(connection: Connection, between: Callable[[], None] = lambda: None) -> None:
    """Rewrite the whole file as one that can be vacuumed in steps; `between` runs after each part.

    The vector tables are rewritten first: their parts refer to each other by row numbers, which
    VACUUM preserves only where there are no gaps. Rows that are written in between are only added.
    """
    for generation in generation_rows(connection):
        renew_vectors(connection, generation)
        between()
    with connection.disk_failures():
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _shrunk(connection, "VACUUM")
    between()


def _shrunk(connection: Connection, statement: str) -> None:
    """Run a statement that frees pages: anyone's next checkpoint may make the file smaller.

    That is possible even if the statement fails, as the disk may have done it all the same.
    """
    with connection.disk_failures():
        expect_shrinking(connection)
        try:
            connection.execute(statement).fetchall()
        finally:
            note_size(connection)


def truncate_wal(connection: Connection, *, wait: bool) -> bool:
    """Move the WAL into the file and truncate it.

    False while a reader still uses an older state of the file: the WAL then keeps its content.
    """
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS if wait else _NO_WAIT_MS}")
    try:
        with connection.disk_failures():
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
    return not busy


def backup(connection: Connection, target: Path) -> None:
    """Write the database as one file that only its owner can read. Raises BackupFailed.

    An existing target is refused. The copy is made and checked under a temporary name beside the
    target (.NAME.*.part), and renamed once it is on disk. A kill leaves at most that file.
    """
    if not isinstance(connection, FileConnection):
        raise _backup_error(
            target, "the database is on a server", "Use `pg_dump`, or `hopsyncd copy`"
        )
    try:
        _refuse_existing(target)
        descriptor, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    except OSError as error:
        raise _backup_error(target, _why(error)) from error
    os.close(descriptor)
    part = Path(name)
    try:
        _copy(connection, part)
        _sync(part)
        _name(part, target)
    except (OSError, SqliteError, DiskFailure) as error:
        raise _backup_error(target, _why(error)) from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):  # SQLite cannot delete these on a bad disk
            part.with_name(part.name + suffix).unlink(missing_ok=True)


def _refuse_existing(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise BackupFailed(
            f"Cannot write the backup {target}",
            "that name is taken",
            "Choose a new name, or move the old backup away",
        )


def _backup_error(
    target: Path,
    why: str,
    hint: str = "Choose a folder that you can write to and that has enough space",
) -> BackupFailed:
    return BackupFailed(f"Cannot write the backup {target}", why, hint)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    failure = error if isinstance(error, DiskFailure) else disk_failure(error, "")
    return failure.why if failure else str(error)


def _copy(connection: FileConnection, part: Path) -> None:
    with closing(open_file(part)) as copy:
        with snapshot(connection):
            connection.backup(copy)
        # The copied header says WAL; without that, the backup is one self-contained file.
        copy.execute("PRAGMA journal_mode = DELETE")
        lines = [row[0] for row in copy.execute("PRAGMA quick_check")]
        if lines != ["ok"]:
            raise SqliteError(f"the copy is damaged: {lines[0]}")


def _name(part: Path, target: Path) -> None:
    """Give the copy its final name, synced to disk, or remove it."""
    _refuse_existing(target)
    part.rename(target)
    try:
        _sync(target.parent)
    except OSError:
        target.unlink()
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
