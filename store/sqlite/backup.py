"""Backup: a consistent copy of the database while the writer works.

SQLite's online backup copies pages inside one read transaction, so the copy is one version, and in
WAL mode neither readers nor the writer wait for it. VACUUM INTO would be smaller, but it renumbers
rows of tables without an INTEGER PRIMARY KEY, and sqlite-vec finds its chunks by such numbers.
"""

import os
import tempfile
from contextlib import closing
from pathlib import Path

from store.exceptions import BackupFailed, DiskFailure
from store.sqlite.database import Connection, SqliteError, disk_failure, open_file, snapshot


def backup(connection: Connection, target: Path) -> None:
    """Write the database as one file, readable by its owner only. Raises BackupFailed.

    An existing target is refused. The copy is made and checked under a temporary name beside the
    target (.NAME.*.part) and renamed when it is on disk: a kill leaves at most that.
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
            "there is something of that name",
            "Choose a new name, or move the old backup away",
        )


def _failed(target: Path, why: str) -> BackupFailed:
    return BackupFailed(
        f"Cannot write the backup {target}", why, "Choose a folder with room that you may write to"
    )


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    told = error if isinstance(error, DiskFailure) else disk_failure(error, "")
    return told.why if told else str(error)


def _copy(connection: Connection, part: Path) -> None:
    with closing(open_file(part)) as copy:
        with snapshot(connection):
            connection.backup(copy)
        # The copy says WAL in its header; without, it is one file that needs no others beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        lines = [row[0] for row in copy.execute("PRAGMA quick_check")]
        if lines != ["ok"]:
            raise SqliteError(f"the copy is damaged: {lines[0]}")


def _name(part: Path, target: Path) -> None:
    """Give the copy its name, on disk too, or none at all."""
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
