"""Records LLM calls in a small separate database, and limits the tokens used per day.

A reservation of tokens is stored before the LLM request is sent, so the reservation survives if the
process is killed. Commits are not synced to disk, so a power cut can lose the last few seconds.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from store.contract import Connection
from store.engines.sqlite.database import SqliteError, open_file
from store.exceptions import NotADatabase, StoreError
from store.open_database import Database, format_place, open_reader
from store.transactions import transaction

_SCHEMA_VERSION = 1
_WAIT_MS = 2000

_SPENT = "spent"  # the table's name in a file

# {spent} is replaced by the name of the table.
_SUM = """
SELECT coalesce(sum(calls), 0), coalesce(sum(prompt_tokens + completion_tokens + reserved_tokens),
    0) FROM {spent} WHERE day = ?
"""
_ADD = """
INSERT INTO {spent} VALUES (?, ?, ?, 0, ?, ?, ?, ?)
ON CONFLICT (day, purpose, source, version) DO UPDATE SET calls = {spent}.calls + excluded.calls,
    prompt_tokens = {spent}.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = {spent}.completion_tokens + excluded.completion_tokens,
    reserved_tokens = {spent}.reserved_tokens + excluded.reserved_tokens
"""
_ATTRIBUTE = """
INSERT INTO {spent}
SELECT day, purpose, source, {version}, calls, prompt_tokens, completion_tokens, 0
FROM {spent} WHERE version = 0 AND purpose = ?
ON CONFLICT (day, purpose, source, version) DO UPDATE SET calls = {spent}.calls + excluded.calls,
    prompt_tokens = {spent}.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = {spent}.completion_tokens + excluded.completion_tokens
"""
_CLEAR = """
UPDATE {spent} SET calls = 0, prompt_tokens = 0, completion_tokens = 0
WHERE version = 0 AND purpose = ?
"""
_DELETE_EMPTY = """
DELETE FROM {spent} WHERE version = 0 AND calls = 0 AND prompt_tokens = 0
    AND completion_tokens = 0 AND reserved_tokens = 0
"""
_LIST = """
SELECT purpose, source, version, sum(calls), sum(prompt_tokens), sum(completion_tokens),
    sum(reserved_tokens) FROM {spent} WHERE day >= ?
GROUP BY purpose, source, version ORDER BY purpose, source, version
"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens reserved for one request on `day` (days since 1970-01-01, UTC)."""

    day: int
    purpose: str
    source: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Spent:
    """The LLM calls and tokens of a purpose, source and version. `unsettled_tokens` are reserved
    for requests whose actual use of tokens is not known yet."""

    purpose: str
    source: str
    version: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    unsettled_tokens: int

    @property
    def tokens(self) -> int:
        """Return all tokens that count against a limit."""
        return self.prompt_tokens + self.completion_tokens + self.unsettled_tokens


class Ledger:
    """Counts calls and tokens of one endpoint (LLM, encoder or reranker) by day, purpose, source
    and version, and enforces daily limits. Thread-safe.

    A limit of 0 means no limit. The database is opened at the first use. While the database cannot
    be used, methods that read or write it raise StoreError.
    """

    def __init__(
        self,
        place: Database,
        max_calls_per_day: int = 0,
        max_tokens_per_day: int = 0,
        table: str = _SPENT,
    ) -> None:
        """`place` is a file for the ledger alone, or the URL of a database with `table`."""
        self._place = place
        self._table = table
        self._max_calls = max_calls_per_day
        self._max_tokens = max_tokens_per_day
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open file

    def reserve(self, day: int, purpose: str, source: str, tokens: int) -> Reservation | None:
        """Reserve `tokens` for one request. Returns None if a daily limit would be exceeded."""
        with self._writing() as connection:
            calls, spent = connection.execute(self._qualify_sql(_SUM), [day]).fetchone()
            if self._max_calls and calls >= self._max_calls:
                return None
            if self._max_tokens and spent + tokens > self._max_tokens:
                return None
            reservation = Reservation(day, purpose, source, tokens)
            self._add(connection, reservation, calls=1, reserved=tokens)
        return reservation

    def settle(self, reserved: Reservation, prompt_tokens: int, completion_tokens: int) -> None:
        with self._writing() as connection:
            self._add(
                connection,
                reserved,
                prompt=prompt_tokens,
                completion=completion_tokens,
                reserved=-reserved.tokens,
            )

    def assign_version(self, version: int, purpose: str) -> None:
        """Assign to this version all spending for this purpose that has no version yet."""
        with self._writing() as connection:
            connection.execute(self._qualify_sql(_ATTRIBUTE, version=int(version)), [purpose])
            connection.execute(self._qualify_sql(_CLEAR), [purpose])
            connection.execute(self._qualify_sql(_DELETE_EMPTY))

    def sum_spending(self, since_day: int) -> list[Spent]:
        """Return the spending since `since_day` (days since 1970-01-01, UTC), by purpose, source
        and version."""
        with self._use_connection() as connection:
            rows = connection.execute(self._qualify_sql(_LIST), [since_day]).fetchall()
        return [Spent(*row) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _qualify_sql(self, sql: str, **more: int) -> str:
        return sql.format(spent=self._table, **more)

    def _add(
        self,
        connection: Connection,
        to: Reservation,
        *,
        calls: int = 0,
        prompt: int = 0,
        completion: int = 0,
        reserved: int = 0,
    ) -> None:
        row = [to.day, to.purpose, to.source, calls, prompt, completion, reserved]
        connection.execute(self._qualify_sql(_ADD), row)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Run the block in a transaction that excludes all other processes that write to the
        ledger."""
        with self._use_connection() as connection, transaction(connection):
            if connection.server:
                connection.server.lock_table(self._table)
            yield connection

    @contextmanager
    def _use_connection(self) -> Iterator[Connection]:
        """Give the block exclusive use of the connection. After an error, the next use opens a new
        connection."""
        with self._lock:
            try:
                if self._connection is not None and _identify_file(self._place) != self._file:
                    self._drop()  # The user moved the file away to start a new ledger.
                if self._connection is None:
                    self._connection = _open(self._place)
                    self._file = _identify_file(self._place)
                yield self._connection
            except (SqliteError, OSError, UnicodeDecodeError) as error:
                self._drop()
                raise _unusable_error(self._place, str(error)) from error
            except StoreError:
                self._drop()
                raise


def _identify_file(place: Database) -> tuple[int, int] | None:
    """Return the device and inode of a file; None for a server or a missing file."""
    if not isinstance(place, Path):
        return None
    try:
        status = place.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _open(place: Database) -> Connection:
    return _open_file(place) if isinstance(place, Path) else open_reader(place)


def _open_file(path: Path) -> Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)  # SQLite treats an empty file as a new database.
    connection = open_file(path)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _SCHEMA_VERSION:
            raise _unusable_error(path, "a newer version of hopsyncd wrote the ledger")
        connection.execute("PRAGMA synchronous = NORMAL")
        if version < _SCHEMA_VERSION:
            connection.execute("PRAGMA journal_mode = WAL")
            with transaction(connection):
                _create(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] == _SCHEMA_VERSION:
        return  # Another process has created the table.
    connection.execute(resources.files("store").joinpath("ledger.sql").read_text())
    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _unusable_error(place: Database, why: str) -> NotADatabase:
    hint = "Move the file away to start a new ledger, without today's spending"
    if "locked" in why:
        hint = "Stop the other program that has the file open"
    return NotADatabase(f"Cannot use the ledger of model calls {format_place(place)}", why, hint)
