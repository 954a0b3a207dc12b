"""Records LLM calls in a small separate database that limits the tokens used per day.

A reservation is in the file before its request is sent, so a killed process loses none. Commits are
not synced, so a power cut can lose the last seconds.
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
from store.transactions import transaction

_SCHEMA_VERSION = 1
_WAIT_MS = 2000

_ADD = """
INSERT INTO spent VALUES (:day, :purpose, :source, 0, :calls, :prompt, :completion, :reserved)
ON CONFLICT DO UPDATE SET calls = calls + excluded.calls,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens,
    reserved_tokens = reserved_tokens + excluded.reserved_tokens
"""
_ATTRIBUTE = """
INSERT INTO spent
SELECT day, purpose, source, :version, calls, prompt_tokens, completion_tokens, 0
FROM spent WHERE version = 0 AND purpose = :purpose
ON CONFLICT DO UPDATE SET calls = calls + excluded.calls,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens
"""
_CLEAR = """
UPDATE spent SET calls = 0, prompt_tokens = 0, completion_tokens = 0
WHERE version = 0 AND purpose = :purpose
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
    """The tokens that calls used. `unsettled_tokens` are reserved and not settled."""

    purpose: str
    source: str
    version: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    unsettled_tokens: int

    @property
    def tokens(self) -> int:
        """All tokens that count against a limit."""
        return self.prompt_tokens + self.completion_tokens + self.unsettled_tokens


class Ledger:
    """Counts by day, purpose, source and version, within daily limits (0: no limit). Thread-safe.

    The file is opened on first use. While it cannot be used, each call raises a StoreError.
    """

    def __init__(self, path: Path, max_calls_per_day: int = 0, max_tokens_per_day: int = 0) -> None:
        self._path = path
        self._max_calls = max_calls_per_day
        self._max_tokens = max_tokens_per_day
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open file

    def reserve(self, day: int, purpose: str, source: str, tokens: int) -> Reservation | None:
        """Reserve up to `tokens` for one request; None if that would exceed a daily limit."""
        with self._writing() as connection:
            calls, spent = connection.execute(
                "SELECT coalesce(sum(calls), 0), coalesce(sum(prompt_tokens + completion_tokens"
                " + reserved_tokens), 0) FROM spent WHERE day = ?",
                [day],
            ).fetchone()
            if self._max_calls and calls >= self._max_calls:
                return None
            if self._max_tokens and spent + tokens > self._max_tokens:
                return None
            reservation = Reservation(day, purpose, source, tokens)
            _add(connection, reservation, calls=1, reserved=tokens)
        return reservation

    def settle(self, reserved: Reservation, prompt_tokens: int, completion_tokens: int) -> None:
        with self._writing() as connection:
            _add(
                connection,
                reserved,
                prompt=prompt_tokens,
                completion=completion_tokens,
                reserved=-reserved.tokens,
            )

    def attribute(self, version: int, purpose: str) -> None:
        """Attribute the purpose's spending that has no version yet to this version."""
        with self._writing() as connection:
            connection.execute(_ATTRIBUTE, {"version": version, "purpose": purpose})
            connection.execute(_CLEAR, {"purpose": purpose})
            connection.execute(
                "DELETE FROM spent WHERE version = 0 AND calls = 0 AND prompt_tokens = 0"
                " AND completion_tokens = 0 AND reserved_tokens = 0"
            )

    def spent(self, since_day: int) -> list[Spent]:
        """The spending since that day, by purpose, source and version."""
        with self._use_connection() as connection:
            rows = connection.execute(
                "SELECT purpose, source, version, sum(calls), sum(prompt_tokens),"
                " sum(completion_tokens), sum(reserved_tokens) FROM spent WHERE day >= ?"
                " GROUP BY purpose, source, version ORDER BY purpose, source, version",
                [since_day],
            ).fetchall()
        return [Spent(*row) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._use_connection() as connection, transaction(connection):
            yield connection

    @contextmanager
    def _use_connection(self) -> Iterator[Connection]:
        """The connection, for one thread at a time. After an error, the next use reopens it."""
        with self._lock:
            try:
                if self._connection is not None and _identity(self._path) != self._file:
                    self._drop()  # the user moved it away to begin a new one
                if self._connection is None:
                    self._connection = _open(self._path)
                    self._file = _identity(self._path)
                yield self._connection
            except (SqliteError, OSError, UnicodeDecodeError) as error:
                self._drop()
                raise _unusable(self._path, str(error)) from error
            except StoreError:
                self._drop()
                raise


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _add(
    connection: Connection,
    to: Reservation,
    *,
    calls: int = 0,
    prompt: int = 0,
    completion: int = 0,
    reserved: int = 0,
) -> None:
    row = {"day": to.day, "purpose": to.purpose, "source": to.source, "calls": calls}
    connection.execute(
        _ADD, {**row, "prompt": prompt, "completion": completion, "reserved": reserved}
    )


def _open(path: Path) -> Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)  # SQLite accepts an empty file as a new database
    connection = open_file(path)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _SCHEMA_VERSION:
            raise _unusable(path, "a newer hopsyncd wrote it")
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
        return  # another process created it first
    connection.execute(resources.files("store").joinpath("ledger.sql").read_text())
    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _unusable(path: Path, why: str) -> NotADatabase:
    hint = "Move it away to begin a new one, which forgets what was spent today"
    if "locked" in why:
        hint = "Stop the other program that has it open"
    return NotADatabase(f"Cannot use the ledger of LLM calls {path}", why, hint)
