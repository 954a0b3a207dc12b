"""Manages the database file: reclaims space, erases deleted rows, and makes backups.

A backup is a consistent copy, made while the writer works. SQLite's online backup copies pages
inside one read transaction, so the copy is a single state. In WAL mode neither readers nor the
writer wait for it.
"""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from store.contract import Connection
from store.engines.sqlite.acknowledged import expect_shrinking, note_size
from store.engines.sqlite.database import FileConnection, SqliteError, open_file, to_disk_failure
from store.exceptions import BackupFailed, DiskFailure
from store.files import sync_to_disk
from store.transactions import snapshot

_PAGES = 1000  # pages freed per step
_QUICK_BYTES = 1 << 25  # A file of up to this size is rewritten within a second.
_WAIT_MS, _NO_WAIT_MS = 10_000, 200


def shrink(connection: Connection, between: Callable[[], None]) -> None:
    """Return free pages to the file system, in steps; `between` runs after each step.

    If more than a tenth of the pages of a small file are free, the file is vacuumed completely,
    because half-empty pages waste about the same amount of space. A complete vacuum also turns on
    incremental vacuum for databases created without it. Vacuuming a large file would block the
    writer for too long, so only its free pages are returned.
    """
    _vacuum(connection, between)
    truncate_wal(connection, wait=False)


def _vacuum(connection: Connection, between: Callable[[], None]) -> None:
    free = _count_free_pages(connection)
    if 10 * free > _count_pages(connection) and connection.measure_size() <= _QUICK_BYTES:
        vacuum(connection, between)
        return
    while free:
        _run_shrinking(connection, f"PRAGMA incremental_vacuum({_PAGES})")
        before, free = free, _count_free_pages(connection)
        between()
        if free >= before:
            return


def _count_free_pages(connection: Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def vacuum(connection: Connection, between: Callable[[], None] = lambda: None) -> None:
    """Rewrite the whole file, and turn on incremental vacuum. `between` is called at the end."""
    with connection.convert_disk_errors():
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _run_shrinking(connection, "VACUUM")
    between()


def _run_shrinking(connection: Connection, statement: str) -> None:
    """Run a statement that frees pages. Afterwards, a checkpoint of any process may shrink the
    file.

    The file may shrink even if the statement fails, because some of the work may be done.
    """
    with connection.convert_disk_errors():
        expect_shrinking(connection)
        try:
            connection.execute(statement).fetchall()
        finally:
            note_size(connection)


def truncate_wal(connection: Connection, *, wait: bool) -> bool:
    """Copy the write-ahead log (WAL) into the database file, and truncate the WAL.

    If a reader still uses an older state of the database, returns False and does not truncate the
    WAL.
    """
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS if wait else _NO_WAIT_MS}")
    try:
        with connection.convert_disk_errors():
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
    return not busy


def copy_to_file(connection: Connection, target: Path) -> None:
    """Write the database as one file that only its owner can read. Raises BackupFailed.

    The target must not exist. The copy is written to a temporary file in the target's folder
    (.NAME.*.part), checked, and renamed once it is on disk. After a crash, only the temporary file
    can remain.
    """
    if not isinstance(connection, FileConnection):
        raise _backup_error(
            target, "the database is on a server", "Use `pg_dump`, or `hopsyncd copy`"
        )
    try:
        _refuse_existing(target)
        descriptor, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    except OSError as error:
        raise _backup_error(target, _describe_error(error)) from error
    os.close(descriptor)
    part = Path(name)
    try:
        _copy(connection, part)
        sync_to_disk(part)
        _publish(part, target)
    except (OSError, SqliteError, DiskFailure) as error:
        raise _backup_error(target, _describe_error(error)) from error
    finally:
        # SQLite cannot delete these on a failing disk
        for suffix in ("", "-journal", "-wal", "-shm"):
            part.with_name(part.name + suffix).unlink(missing_ok=True)


def _refuse_existing(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise BackupFailed(
            f"Cannot write the backup {target}",
            "a file with that name exists",
            "Choose a new name, or move the old backup away",
        )


def _backup_error(
    target: Path,
    why: str,
    hint: str = "Choose a folder that you can write to and that has enough space",
) -> BackupFailed:
    return BackupFailed(f"Cannot write the backup {target}", why, hint)


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    failure = error if isinstance(error, DiskFailure) else to_disk_failure(error, "")
    return failure.why if failure else str(error)


def _copy(connection: FileConnection, part: Path) -> None:
    with closing(open_file(part)) as copy:
        with snapshot(connection):
            connection.backup(copy)
        # The copied header says WAL. Without WAL, the backup is one self-contained file.
        copy.execute("PRAGMA journal_mode = DELETE")
        lines = [row[0] for row in copy.execute("PRAGMA quick_check")]
        if lines != ["ok"]:
            raise SqliteError(f"the copy is damaged: {lines[0]}")


def _publish(part: Path, target: Path) -> None:
    """Rename the copy `part` to `target`, and sync the new name to disk. If that fails, delete the
    copy."""
    _refuse_existing(target)
    part.rename(target)
    try:
        sync_to_disk(target.parent)
    except OSError:
        target.unlink()
        raise


# SQLite's file format: https://sqlite.org/fileformat2.html.
_WAL_HEADER, _FRAME_HEADER = 32, 24
_RESERVED_AT, _FIRST_PAGE_HEADER = 20, 100
_LOCK_BYTE = 1 << 30  # SQLite leaves the page at this offset unused.
# The pointer map has this number of bytes per page, and these types of b-tree pages.
_MAP_ENTRY, _ROOT, _BTREE = 5, 1, 5
# By the type of a b-tree page: where its cell pointers begin, in bytes.
_POINTERS_AT = {2: 12, 5: 12, 10: 8, 13: 8}

_TRIES = 50  # attempts to empty the log, each of _NO_WAIT_MS


class _UnknownFormat(Exception):
    """Unused bytes of the database file cannot be found, because the file has no pointer map."""


@dataclass(frozen=True, slots=True)
class _File:
    """The database file. `descriptor` is SQLite's own descriptor.

    Opening and closing another descriptor would drop all of SQLite's locks on the file.
    """

    path: Path
    descriptor: int
    page_bytes: int

    @property
    def log(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def read_page(self, number: int) -> bytes:
        return os.pread(self.descriptor, self.page_bytes, (number - 1) * self.page_bytes)


def erase(connection: Connection, between: Callable[[], None]) -> bool:
    """Shrink the file, and erase deleted rows from the file and its log.

    `between` runs after each step. Returns False if a reader prevented the log from being emptied.
    An older file without a pointer map is rewritten completely, which adds one.
    """
    shrink(connection, between)
    try:
        return scrub(connection, between)
    except _UnknownFormat:
        vacuum(connection, between)
        return truncate_wal(connection, wait=True)


def scrub(connection: Connection, between: Callable[[], None], pages_at_once: int = 4096) -> bool:
    """Zero the unused bytes between the cells of each page, and empty the log. Returns the same as
    `erase`. Raises _UnknownFormat.

    SQLite zeroes deleted and freed bytes (secure_delete), with one exception: when it rebalances a
    b-tree, a copy of a moved cell can stay in the gap between a page's cell pointers and its cells.
    SQLite never reads this gap, so this function zeroes it directly in the file.

    It processes `pages_at_once` pages in each step, and the writer continues between the steps.
    This is safe because:

    - During a step the log is empty and the writer holds the write lock, so the file is the whole
      database and does not change. Readers continue.
    - Only unused bytes are written, so a crash or a power cut changes no row.
    - The writer's cache still has the old gaps, but it is dropped before anything is written from
      it.
    - A page that was written between two steps is scrubbed again: when SQLite reorders sibling
      pages, a page takes its gap to another number.
    """
    file = _get_file(connection)
    pages, first, logged = _count_pages(connection), 1, set[int]()
    with _no_checkpoints(connection):
        while first <= pages or logged:
            if not _empty_log(connection, file, logged, between):
                return False
            with _hold_write_lock(connection, file) as is_alone:
                if not is_alone:
                    continue
                page_count = _count_pages(connection)
                numbers = logged.union(range(first, min(first + pages_at_once, pages + 1)))
                _scrub_pages(file, sorted(number for number in numbers if number <= page_count))
            connection.execute("PRAGMA shrink_memory")
            logged.clear()
            first += pages_at_once
            if first <= pages:
                between()
            logged.update(_list_logged_pages(file))
    return True


def _get_file(connection: Connection) -> _File:
    if not connection.execute("PRAGMA auto_vacuum").fetchone()[0]:
        raise _UnknownFormat  # Without auto_vacuum a file has no pointer map.
    path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
    page_bytes = int(connection.execute("PRAGMA page_size").fetchone()[0])
    return _File(path, _find_descriptor(path), page_bytes)


def _find_descriptor(path: Path) -> int:
    """Return the file descriptor that SQLite opened for this path. The descriptor stays open while
    this process has a lock on the file."""
    status = path.stat()
    for entry in Path("/dev/fd").iterdir():
        with suppress(OSError):  # One entry is the descriptor of this listing.
            number = int(entry.name)
            mode = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
            if mode == os.O_RDWR and os.path.samestat(os.fstat(number), status):
                return number
    raise _UnknownFormat


def _count_pages(connection: Connection) -> int:
    return int(connection.execute("PRAGMA page_count").fetchone()[0])


@contextmanager
def _no_checkpoints(connection: Connection) -> Iterator[None]:
    """Switch off automatic checkpoints in the block. The log then keeps all pages that are
    written."""
    usual = connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    checkpointer = connection.checkpointer if isinstance(connection, FileConnection) else None
    try:
        with checkpointer.pause() if checkpointer else nullcontext():
            yield
    finally:
        connection.execute(f"PRAGMA wal_autocheckpoint = {usual}")


def _empty_log(
    connection: Connection, file: _File, logged: set[int], between: Callable[[], None]
) -> bool:
    """Empty the log, and add the numbers of the pages in the log to `logged`. Returns False if a
    reader kept the log in use."""
    for _ in range(_TRIES):
        connection.refuse_gone()
        logged.update(_list_logged_pages(file))
        if truncate_wal(connection, wait=False):
            return True
        between()
    return False


def _list_logged_pages(file: _File) -> Iterator[int]:
    """Yield the numbers of the pages in the log."""
    frame_bytes = _FRAME_HEADER + file.page_bytes
    with _disk_errors(file), file.log.open("rb") as log:
        for offset in range(_WAL_HEADER, os.fstat(log.fileno()).st_size, frame_bytes):
            log.seek(offset)
            yield int.from_bytes(log.read(4))


@contextmanager
def _disk_errors(file: _File) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskFailure(
            f"Cannot use the database {file.path}",
            (error.strerror or str(error)).lower(),
            "Free disk space, or replace the failing disk. Then purge again",
        ) from error


@contextmanager
def _hold_write_lock(connection: Connection, file: _File) -> Iterator[bool]:
    """Hold the write lock in the block. Yields False if another transaction wrote before the lock
    was acquired."""
    with connection.convert_disk_errors():
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield file.log.stat().st_size == 0
        finally:
            connection.execute("ROLLBACK")


def _scrub_pages(file: _File, numbers: Iterable[int]) -> None:
    """Zero the gaps between cell pointers and cells in these pages of the file, and sync the
    file."""
    maps: dict[int, bytes] = {}
    with _disk_errors(file):
        for number in numbers:
            if _is_btree(file, number, maps):
                page = file.read_page(number)
                start, end = _find_gap(page, _FIRST_PAGE_HEADER if number == 1 else 0)
                if page[start:end] != bytes(end - start):
                    offset = (number - 1) * file.page_bytes + start
                    os.pwrite(file.descriptor, bytes(end - start), offset)
        os.fsync(file.descriptor)


def _is_btree(file: _File, number: int, maps: dict[int, bytes]) -> bool:
    """Whether a page belongs to a b-tree. `maps` caches the pages of the pointer map."""
    if number == 1:
        if file.read_page(1)[_RESERVED_AT]:
            raise _UnknownFormat
        return True
    interval = file.page_bytes // _MAP_ENTRY + 1
    map_page = (number - 2) // interval * interval + 2
    if map_page == _LOCK_BYTE // file.page_bytes + 1:
        raise _UnknownFormat
    if map_page not in maps:
        maps[map_page] = file.read_page(map_page)
    return number > map_page and maps[map_page][(number - map_page - 1) * _MAP_ENTRY] in (
        _ROOT,
        _BTREE,
    )


def _find_gap(page: bytes, header: int) -> tuple[int, int]:
    """Return the start and end of the gap between the cell pointers and the cells of a b-tree page.
    `header` is the offset of the page's header."""
    pointers = _POINTERS_AT.get(page[header])
    if pointers is None:
        raise _UnknownFormat
    cells, content = (
        int.from_bytes(page[header + offset : header + offset + 2]) for offset in (3, 5)
    )
    start, end = header + pointers + 2 * cells, content or 65536
    if not start <= end <= len(page):
        raise _UnknownFormat
    return start, end
