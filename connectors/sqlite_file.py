"""Opens untrusted SQLite databases for reading, with limits.

A table can be a view that never ends, or that makes a gigabyte from a few bytes. So each read has a
deadline, each value a maximum length, and the connection a memory limit. SQLite enforces these
limits, because they must hold within one statement.

A file at rest is opened as immutable: no lock is taken or waited for, and no file is created beside
it. If the file changed meanwhile, the result is refused. While another program has it open for
writing, it is opened with locks.
"""

import importlib.util
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from connectors.protocol import SourceUnavailable

BUSY_S = 5.0
LIST_S = 30.0
FETCH_S = 10.0
MAX_MEMORY_BYTES = 512 << 20

_MORE_THAN_A_ROW_BYTES = 1 << 20
_AT_REST_S = 2.0  # the clock of a file system may have ticks this long
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COLUMN: 2000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


@dataclass(frozen=True, slots=True)
class Database:
    """The file of a source. `never` are folders with hopsyncd's own data.

    `max_value_bytes`: how long a value, or a row that SQLite makes, may be.
    """

    path: Path
    max_value_bytes: int
    busy_s: float = BUSY_S
    never: Sequence[Path] = ()

    @contextmanager
    def reading(self, limit_s: float) -> Iterator[sqlite3.Connection]:
        """A connection for at most `limit_s`, in one transaction.

        Raises SourceUnavailable for all that goes wrong, in the body too; TooBig for a value that
        is too long.
        """
        try:
            with self._open() as connection, _deadline(connection, limit_s) as is_late:
                try:
                    connection.execute("BEGIN")
                    yield connection
                except (sqlite3.Error, MemoryError) as error:
                    if is_late():
                        raise self._slow(limit_s) from error
                    raise
        except sqlite3.DataError as error:
            if "too big" in str(error):
                raise TooBig(*self._describe_error(error)) from error
            raise SourceUnavailable(*self._describe_error(error)) from error
        except (OSError, sqlite3.Error, MemoryError) as error:
            raise SourceUnavailable(*self._describe_error(error)) from error

    def refusal(self, why: str, hint: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"Cannot list the database {self.path}", why, f"{hint} Its index is kept."
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        before = self._state()
        mode = "immutable=1" if before.is_at_rest(time.time()) else "mode=ro"
        with closing(self._connect_once(mode)) as connection:
            yield connection
        if mode == "immutable=1" and self._state() != before:
            raise self.refusal("it was written while it was read", "The next scan tries again.")

    def _connect_once(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=ro&{mode}",
            uri=True,
            isolation_level=None,
            timeout=self.busy_s,
            check_same_thread=False,
            cached_statements=0,
        )
        try:
            for limit, value in _LIMITS.items():
                connection.setlimit(limit, value)
            connection.setlimit(
                sqlite3.SQLITE_LIMIT_LENGTH, self.max_value_bytes + _MORE_THAN_A_ROW_BYTES
            )
            for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {pragma}")
            if _is_apart():
                # Temporary tables count too, so that none fills the disk.
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.execute(f"PRAGMA hard_heap_limit = {MAX_MEMORY_BYTES}")
        except BaseException:
            connection.close()
            raise
        # Text that is not UTF-8 must not keep the other rows from being read.
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        return connection

    def _state(self) -> "_State":
        if not self.path.is_file():
            raise FileNotFoundError
        own = [os.path.realpath(folder) for folder in self.never]
        if any(Path(os.path.realpath(self.path)).is_relative_to(folder) for folder in own):
            raise self.refusal("it is hopsyncd's own database", "Choose another file.")
        found = self.path.stat()
        return _State(
            (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
            any(Path(f"{self.path}{end}").exists() for end in ("-wal", "-journal")),
        )

    def _slow(self, limit_s: float) -> SourceUnavailable:
        return self.refusal(
            f"it takes more than {limit_s:g} seconds to read",
            "Select fewer rows by `query`, or add an index on `key`.",
        )

    def _describe_error(self, error: Exception) -> tuple[str, str, str]:
        why = str(error)
        if isinstance(error, FileNotFoundError):
            why = "there is no such file"
        elif isinstance(error, MemoryError):
            why = f"it takes more than {MAX_MEMORY_BYTES >> 20} MiB of memory to read"
        elif "too big" in why:
            why = f"it has values that are longer than {self.max_value_bytes:,} bytes"
        hint = next((hint for part, hint in _HINTS.items() if part in why), "Check the file.")
        told = self.refusal(why, hint)
        return told.what, told.why, told.hint


class TooBig(SourceUnavailable):
    """A value is longer than SQLite was allowed to make or read."""


_HINTS = {
    "no such file": "Mount or create it, or correct `path` of this source in config.toml.",
    "locked": "Another program writes to it; the next scan tries again.",
    "no such": "Correct `table`, `query` or the columns of this source in config.toml.",
    "memory": "Select fewer rows by `query`, or sort less in its views.",
    "longer than": "Raise `max_bytes` of this source in config.toml, or leave them out by `query`.",
}


@dataclass(frozen=True, slots=True)
class _State:
    facts: tuple[int, ...]
    has_log: bool

    def is_at_rest(self, now_s: float) -> bool:
        """Whether nobody seems to have it open for writing, and any change would show."""
        return not self.has_log and abs(now_s - self.facts[3] / 1e9) > _AT_REST_S


class _Late:
    """Interrupts a connection at a deadline, and says whether that has passed."""

    def __init__(self, connection: sqlite3.Connection, limit_s: float) -> None:
        self._connection = connection
        self._end_s = time.monotonic() + limit_s
        self._timer = threading.Timer(limit_s, self._interrupt)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self) -> bool:
        return time.monotonic() >= self._end_s

    def cancel(self) -> None:
        self._timer.cancel()
        self._timer.join()

    def _interrupt(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.interrupt()


@contextmanager
def _deadline(connection: sqlite3.Connection, limit_s: float) -> Iterator[_Late]:
    late = _Late(connection, limit_s)
    try:
        yield late
    finally:
        late.cancel()


def _is_apart() -> bool:
    """Whether the store has another SQLite library, which the limit of memory spares."""
    return importlib.util.find_spec("pysqlite3") is not None
