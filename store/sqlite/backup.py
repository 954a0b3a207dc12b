"""Backup: a consistent copy of the database while the writer works.

SQLite's online backup copies pages inside one read transaction, so the copy is one version, and in
WAL mode neither readers nor the writer wait for it. VACUUM INTO would make a smaller copy, but it
renumbers rows of tables without an INTEGER PRIMARY KEY, by which sqlite-vec finds its chunks.
"""

import os
import tempfile
from contextlib import closing
from pathlib import Path

from store.exceptions import BackupFailed, DiskFailure
from store.sqlite.database import Connection, SqliteError, disk_failure, open_file, snapshot


def backup(connection: Connection, target: Path) -> None:
    """Write the database as one file that only its owner can read. Raises BackupFailed.

    An existing target is refused. The copy is made and checked under a temporary name beside the
    target (.NAME.*.part), and renamed once it is on disk. A kill leaves at most that file.
    """
    _refuse_existing(target)
    try:
        descriptor, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    except OSError as error:
        raise _failed(target, _why(error)) from error
    os.close(descriptor)
    part = Path(name)
    try:
        _copy(connection, part)
        _sync(part)
        _name(part, target)
    except (OSError, SqliteError, DiskFailure) as error:
        raise _failed(target, _why(error)) from error
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


def _failed(target: Path, why: str) -> BackupFailed:
    return BackupFailed(
        f"Cannot write the backup {target}",
        why,
        "Choose a folder that you can write to and that has enough space",
    )


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    failure = error if isinstance(error, DiskFailure) else disk_failure(error, "")
    return failure.why if failure else str(error)


def _copy(connection: Connection, part: Path) -> None:
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
