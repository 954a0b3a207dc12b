"""Defines the interface between the store's queries and the database engines.

Each SQL statement is written once and run on a `Connection`. The engine's `Dialect` supplies the
parts that differ between engines. A connection to a database server also has a `Server`, for
operations other than SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

Database = Path | str
"""The path of a SQLite database, or the URL of a PostgreSQL one."""

Parameters = Sequence[Any] | Mapping[str, Any]


Identity = tuple[int, int]  # a file's device and inode


@dataclass(slots=True)
class Opened:
    """The files that the writer's connection has open: the database and its log.

    `least_bytes` is the smallest valid size of the database since the last commit. If another
    program has overwritten the file, `overwritten` says how that was detected; otherwise it is
    None.
    """

    database: Path
    file: Identity
    log: Identity
    least_bytes: int = 0
    overwritten: str | None = None


Engine = Literal["sqlite", "postgres"]


class Dialect(Protocol):
    """Returns the SQL that differs between engines. Each method returns a part of a statement."""

    @property
    def first_join(self) -> str:
        """Return the join keyword that makes SQLite read the left table first."""

    @property
    def unindexed(self) -> str:
        """Return the clause after a table's name that makes SQLite read the table without an
        index."""

    @property
    def max_path_bytes(self) -> int | None:
        """Return the longest path of a document that the engine can index, in bytes of UTF-8, or
        None if there is no limit."""

    def force_index(self, index: str) -> str:
        """Return the clause after a table's name that makes SQLite use this index."""

    def select_ids(self, parameter: str = ...) -> str:
        """Return a subquery that selects the integers in the JSON array bound to `parameter`."""

    def select_names(self, parameter: str = ...) -> str:
        """Return a subquery that selects the strings in the JSON array bound to `parameter`."""

    def list_rows(self, parameter: str, alias: str) -> str:
        """Return a FROM item named `alias` whose column `value` has the strings in the JSON array
        bound to `parameter`."""

    def match_wrong_types(self, *columns: str) -> str:
        """Return a condition that is true if any of these columns contains a value that is not an
        integer.
        """


class FoundRows(Protocol):
    """The result of a statement: the rows that were found."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Server(Protocol):
    """The server at the other end of a connection. Its methods raise StoreError."""

    def reclaim_space(self, whole: bool) -> None:
        """Make the space of deleted rows available for new rows. If `whole` is true, rewrite the
        tables, which also erases the deleted rows."""

    def elect(self) -> bool:
        """Try to become the writer. Returns whether this session is now the writer."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until the writer announces a new version. Returns False if the timeout passes
        first."""

    def lock_table(self, table: str) -> None:
        """Prevent other sessions from changing the table until the current transaction ends."""

    def check_structure(self) -> Iterator[str]:
        """Yield a description of each problem with the structure of the database."""


class Connection(Protocol):
    """A connection to the database. Only one thread at a time may use it.

    `opened` is set on the writer's connection to a file, and `server` on a connection to a database
    server. A reader of a file has neither.
    """

    opened: Opened | None
    engine: Engine
    dialect: Dialect

    @property
    def server(self) -> Server | None: ...
    @property
    def in_transaction(self) -> bool: ...
    def measure_size(self) -> int:
        """Return the size of the database in bytes, without its log."""

    def drop_pages(self) -> None:
        """Release most of the database pages that this process caches in memory."""

    def restart_sequences(self) -> None:
        """Advance the id sequences past the highest existing ids, if the engine uses sequences.
        Call this method after inserting rows with explicit ids."""

    def begin_write(self) -> None:
        """Begin a transaction that may write."""

    def begin_read(self) -> None:
        """Begin a transaction whose statements all read the same state."""

    def skip_reference_checks(self) -> AbstractContextManager[None]:
        """Skip foreign key checks in the block if they are slow on this engine."""

    def convert_disk_errors(self) -> AbstractContextManager[None]:
        """Convert the engine's disk errors in the block to DiskFailure."""

    def refuse_gone(self) -> None:
        """Raise DatabaseGone unless the writer's files are still at their paths. Thread-safe."""

    def acknowledge(self) -> None:
        """Record the state of the writer's database on disk. Call this method before confirming a
        change to a client.

        Raises DatabaseGone or NotAcknowledged.
        """

    def execute(self, sql: str, parameters: Parameters = ..., /) -> FoundRows: ...
    def executemany(self, sql: str, parameters: Any, /) -> FoundRows: ...
    def close(self) -> None: ...


def format_place(database: Database) -> str:
    """Return the path, or the URL without user name and password, to show to users."""
    if isinstance(database, Path):
        return str(database)
    parts = urlsplit(database)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def require_server(connection: Connection) -> Server:
    """Return the server of a connection to a database server."""
    assert connection.server is not None, "the database is in a file"
    return connection.server
