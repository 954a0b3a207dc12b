"""The interface between the record and its database engines.

Each SQL statement is written once, for a `Connection`. Its `Dialect` supplies the parts that
engines word differently. A connection to a server also has a `Server` for everything but SQL.
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

    `least_bytes` is the least size of the database as of the last commit. `overwritten` says how it
    was found to be overwritten, which is final.
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
        """A join for which SQLite reads the table on the left first."""

    @property
    def unindexed(self) -> str:
        """Follows a table that SQLite has to read without an index."""

    def indexed_by(self, index: str) -> str:
        """Follows a table that SQLite has to read by this index."""

    def ids(self, parameter: str = ...) -> str:
        """A subquery: the whole numbers in a JSON array."""

    def names(self, parameter: str = ...) -> str:
        """A subquery: the strings in a JSON array."""

    def list_rows(self, parameter: str, alias: str) -> str:
        """A table of the strings in a JSON array, with the column `value`."""

    @property
    def has_vector_tables(self) -> bool:
        """Whether each generation has a table of passage vectors, as sqlite-vec makes them."""

    def wrong_types(self, *columns: str) -> str:
        """A condition: one of these columns has a value that is no whole number."""


class FoundRows(Protocol):
    """The result of a statement."""

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
        """Become the writer; False if another session is the writer."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the notification of a new version; False if none came in time."""

    def findings(self) -> Iterator[str]:
        """Problems with the structure of the database."""


class Connection(Protocol):
    """A connection to the record, in one thread at a time.

    `opened` is the writer's file, `server` the server; a reader of a file has neither.
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
        """Forget most of the database's pages that this process has in memory."""

    def restart_sequences(self) -> None:
        """Set the id sequences behind the ids of copied rows, where the engine needs that."""

    def begin_write(self) -> None:
        """Begin a transaction that may write."""

    def begin_read(self) -> None:
        """Begin a transaction whose statements all see the same state."""

    def without_reference_checks(self) -> AbstractContextManager[None]:
        """Transactions within it do not check foreign keys if that is slow on this engine."""

    def disk_failures(self) -> AbstractContextManager[None]:
        """Raise the engine's errors about the disk as DiskFailure."""

    def refuse_gone(self) -> None:
        """Raise DatabaseGone unless the writer's files are at their paths. For any thread."""

    def acknowledge(self) -> None:
        """Record on disk how far the writer's database has come; call it before replying.

        Raises DatabaseGone or NotAcknowledged.
        """

    def execute(self, sql: str, parameters: Parameters = ..., /) -> FoundRows: ...
    def executemany(self, sql: str, parameters: Any, /) -> FoundRows: ...
    def close(self) -> None: ...


def server_of(connection: Connection) -> Server:
    """The server of a record that is on one."""
    assert connection.server is not None, "the record is in a file"
    return connection.server
