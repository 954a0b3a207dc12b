"""Erases deleted rows, so that no byte of them is left in the database's files.

SQLite zeroes deleted and freed bytes (secure_delete), with one exception: when it rebalances a
b-tree, a copy of a moved cell can stay in the gap between a page's cell pointers and its cells.
Nothing reads a gap, so this module zeroes it in the file itself.

It works in steps of some pages, and the writer continues between them. This is safe because:

- During a step the log is empty and the writer holds the write lock, so the file is the whole
  database and does not change. Readers continue.
- Only unused bytes are written, so a crash or a power cut changes no row.
- The writer's cache still has the old gaps. It is dropped before anything is written from it.
- A page that was written between two steps is scrubbed again: when SQLite reorders sibling pages, a
  page takes its gap along under another number.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from store.contract import Connection
from store.engines.sqlite.space import shrink, truncate_wal, vacuum
from store.exceptions import DiskFailure

# SQLite's file format: https://sqlite.org/fileformat2.html.
_WAL_HEADER, _FRAME_HEADER = 32, 24
_RESERVED_AT, _FIRST_PAGE_HEADER = 20, 100
_LOCK_BYTE = 1 << 30  # the page that has it is not used
_MAP_ENTRY, _ROOT, _BTREE = 5, 1, 5  # bytes for a page in the pointer map; kinds of pages there
_POINTERS_AT = {2: 12, 5: 12, 10: 8, 13: 8}  # by the type of a b-tree page

_TRIES = 50  # to empty the log, of 0.2 s each


class _UnknownFormat(Exception):
    """The file has no pointer map, so its unused bytes are not known."""


@dataclass(frozen=True, slots=True)
class _File:
    """The database file. `descriptor` is SQLite's own: if we opened another and closed it, the
    process would lose all of SQLite's locks on the file."""

    path: Path
    descriptor: int
    page_bytes: int

    @property
    def log(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def page(self, number: int) -> bytes:
        return os.pread(self.descriptor, self.page_bytes, (number - 1) * self.page_bytes)


def erase(connection: Connection, between: Callable[[], None]) -> bool:
    """Shrink the file, and leave no byte of deleted rows in it or its log; `between` runs after
    each step.

    False if a reader kept the log from being emptied. A file without a pointer map, as an older
    hopsyncd made it, is rewritten as a whole, and has one then.
    """
    shrink(connection, between)
    try:
        return scrub(connection, between)
    except _UnknownFormat:
        vacuum(connection, between)
        return truncate_wal(connection, wait=True)


def scrub(connection: Connection, between: Callable[[], None], pages_at_once: int = 4096) -> bool:
    """Zero the gaps, and empty the log; returns what erase does. Raises _UnknownFormat."""
    file = _file_of(connection)
    pages, first, again = _page_count(connection), 1, set[int]()
    with _no_checkpoints(connection):
        while first <= pages or again:
            if not _empty_log(connection, file, again, between):
                return False
            with _alone(connection, file) as is_alone:
                if not is_alone:
                    continue
                there = _page_count(connection)
                numbers = again.union(range(first, min(first + pages_at_once, pages + 1)))
                _scrub_pages(file, sorted(number for number in numbers if number <= there))
            connection.execute("PRAGMA shrink_memory")
            again.clear()
            first += pages_at_once
            if first <= pages:
                between()
            again.update(_logged_pages(file))
    return True


def _file_of(connection: Connection) -> _File:
    if not connection.execute("PRAGMA auto_vacuum").fetchone()[0]:
        raise _UnknownFormat  # it has no pointer map
    path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
    page_bytes = int(connection.execute("PRAGMA page_size").fetchone()[0])
    return _File(path, _descriptor(path), page_bytes)


def _descriptor(path: Path) -> int:
    """A descriptor that SQLite opened. SQLite keeps it open while this process has a lock."""
    wanted = path.stat()
    for one in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself
            number = int(one.name)
            mode = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
            if mode == os.O_RDWR and os.path.samestat(os.fstat(number), wanted):
                return number
    raise _UnknownFormat


def _page_count(connection: Connection) -> int:
    return int(connection.execute("PRAGMA page_count").fetchone()[0])


@contextmanager
def _no_checkpoints(connection: Connection) -> Iterator[None]:
    """Switch off automatic checkpoints, so that the log keeps all pages written in the block."""
    usual = connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA wal_autocheckpoint = {usual}")


def _empty_log(
    connection: Connection, file: _File, again: set[int], between: Callable[[], None]
) -> bool:
    """Empty the log, and add to `again` the pages that it had."""
    for _ in range(_TRIES):
        connection.refuse_gone()
        again.update(_logged_pages(file))
        if truncate_wal(connection, wait=False):
            return True
        between()
    return False


def _logged_pages(file: _File) -> Iterator[int]:
    """The numbers of the pages that the log has."""
    frame_bytes = _FRAME_HEADER + file.page_bytes
    with _disk_errors(file), file.log.open("rb") as log:
        for at in range(_WAL_HEADER, os.fstat(log.fileno()).st_size, frame_bytes):
            log.seek(at)
            yield int.from_bytes(log.read(4))


@contextmanager
def _disk_errors(file: _File) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskFailure(
            f"Cannot use the database {file.path}",
            (error.strerror or str(error)).lower(),
            "Look for a full or failing disk, then purge again",
        ) from error


@contextmanager
def _alone(connection: Connection, file: _File) -> Iterator[bool]:
    """Hold the write lock; False if something was written before it was taken."""
    with connection.disk_failures():
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield file.log.stat().st_size == 0
        finally:
            connection.execute("ROLLBACK")


def _scrub_pages(file: _File, numbers: Iterable[int]) -> None:
    """Zero the gaps of these pages, on disk too."""
    maps: dict[int, bytes] = {}
    with _disk_errors(file):
        for number in numbers:
            if _is_btree(file, number, maps):
                page = file.page(number)
                start, end = _gap(page, _FIRST_PAGE_HEADER if number == 1 else 0)
                if page[start:end] != bytes(end - start):
                    at = (number - 1) * file.page_bytes + start
                    os.pwrite(file.descriptor, bytes(end - start), at)
        os.fsync(file.descriptor)


def _is_btree(file: _File, number: int, maps: dict[int, bytes]) -> bool:
    """`maps` are the pages of the pointer map that were read."""
    if number == 1:
        if file.page(1)[_RESERVED_AT]:
            raise _UnknownFormat
        return True
    apart = file.page_bytes // _MAP_ENTRY + 1
    at = (number - 2) // apart * apart + 2
    if at == _LOCK_BYTE // file.page_bytes + 1:
        raise _UnknownFormat
    if at not in maps:
        maps[at] = file.page(at)
    return number > at and maps[at][(number - at - 1) * _MAP_ENTRY] in (_ROOT, _BTREE)


def _gap(page: bytes, header: int) -> tuple[int, int]:
    """Where the gap of a b-tree page begins and ends."""
    pointers = _POINTERS_AT.get(page[header])
    if pointers is None:
        raise _UnknownFormat
    cells, content = (int.from_bytes(page[header + at : header + at + 2]) for at in (3, 5))
    start, end = header + pointers + 2 * cells, content or 65536
    if not start <= end <= len(page):
        raise _UnknownFormat
    return start, end
