"""Defines the interface between the database's logic and its engines.

Each SQL statement is written once, for a `Connection`. Its `Dialect` supplies the parts that differ
between engines. A connection to a database server also has a `Server` for operations that are not
SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Parameters = Sequence[Any] | Mapping[str, Any]


Identity = tuple[int, int]  # a file's device and inode


@dataclass(slots=True)
class Opened:
    """The files behind the writer's connection.

    `least_bytes` is the smallest valid size of the database since the last commit. `overwritten` is
    None until another program has overwritten the file; then it says how that was detected.
    """

    database: Path
    file: Identity
    log: Identity
    least_bytes: int = 0
    overwritten: str | None = None


Engine = Literal["sqlite", "postgres"]


class Dialect(Protocol):
    """The SQL that differs between engines. Each method returns a part of a statement."""

    @property
    def first_join(self) -> str:
        """Return the join keyword that makes SQLite read the left table first."""

    @property
    def unindexed(self) -> str:
        """Return the suffix of a table that SQLite must read without an index."""

    def indexed_by(self, index: str) -> str:
        """Return the suffix of a table that SQLite must read by this index."""

    def ids(self, parameter: str = ...) -> str:
        """Return a subquery of the integers in a JSON array."""

    def names(self, parameter: str = ...) -> str:
        """Return a subquery of the strings in a JSON array."""

    def list_rows(self, parameter: str, alias: str) -> str:
        """Return a table of the strings in a JSON array, with the column `value`."""

    @property
    def has_vector_tables(self) -> bool:
        """Whether each generation has a sqlite-vec table of passage vectors."""

    def wrong_types(self, *columns: str) -> str:
        """Return a condition that is true if one of these columns contains a non-integer."""


class FoundRows(Protocol):
    """The result of a SELECT statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Server(Protocol):
    """The server behind a connection. Its methods raise StoreError."""

    def reclaim_space(self, whole: bool) -> None:
        """Reclaim the space of deleted rows. With `whole`, rewrite the tables to erase them."""

    def elect(self) -> bool:
        """Become the writer. Returns False if another session is the writer."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the notification of a new version. Returns False after the timeout."""

    def lock_table(self, table: str) -> None:
        """Prevent other sessions from changing the table until the current transaction ends."""

    def findings(self) -> Iterator[str]:
        """Yield problems with the structure of the database."""


class Connection(Protocol):
    """A connection to the database. Only one thread at a time may use it.

    `opened` are the writer's files, `server` is the database server. A reader of a file has
    neither.
    """

    opened: Opened | None
    engine: Engine
    dialect: Dialect

    @property
    def server(self) -> Server | None: ...
    @property
    def in_transaction(self) -> bool: ...
    def size_bytes(self) -> int:
        """The size of the database without its log."""

    def drop_pages(self) -> None:
        """Release most of the database pages that this process caches in memory."""

    def restart_sequences(self) -> None:
        """Set the id sequences after rows were copied with their ids, if the engine needs it."""

    def begin_write(self) -> None:
        """Begin a transaction that may write."""

    def begin_read(self) -> None:
        """Begin a transaction whose statements all see the same state."""

    def without_reference_checks(self) -> AbstractContextManager[None]:
        """Skip foreign key checks within the block, if they are slow on this engine."""

    def disk_failures(self) -> AbstractContextManager[None]:
        """Raise the engine's disk errors as DiskFailure."""

    def refuse_gone(self) -> None:
        """Raise DatabaseGone unless the writer's files are still at their paths. Thread-safe."""

    def acknowledge(self) -> None:
        """Record the state of the writer's database on disk. Call it before replying to a client.

        Raises DatabaseGone or NotAcknowledged.
        """

    def execute(self, sql: str, parameters: Parameters = ..., /) -> FoundRows: ...
    def executemany(self, sql: str, parameters: Any, /) -> FoundRows: ...
    def close(self) -> None: ...


def server_of(connection: Connection) -> Server:
    """Return the server of a connection to a database server."""
    assert connection.server is not None, "the record is in a file"
    return connection.server
