"""Opens the database, in a file or on a server."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from store.contract import Connection, Database, format_place
from store.engines.sqlite import database as sqlite_database
from store.engines.sqlite.database import (
    Library,
    describe_library,
    find_loss,
    open_fresh_database,
    open_memory_database,
    unreadable_file,
)
from store.engines.sqlite.migrations import SCHEMA_VERSION
from store.exceptions import StoreError

__all__ = [
    "SCHEMA_VERSION",
    "Database",
    "Library",
    "describe_library",
    "exists",
    "find_loss",
    "format_place",
    "hold_writer_lock",
    "measure_database",
    "open_fresh_database",
    "open_memory_database",
    "open_reader",
    "open_serving",
    "open_writer",
    "unreadable_file",
]


def exists(database: Database) -> bool:
    """Whether the database file exists. Returns True for a server, without contacting it."""
    return not isinstance(database, Path) or database.exists()


def measure_database(database: Database, connection: Connection) -> int:
    """Return the size of the database with its log, in bytes."""
    if not isinstance(database, Path):
        return connection.measure_size() if connection.server else 0
    files = [database, database.with_name(f"{database.name}-wal")]
    return sum(file.stat().st_size for file in files if file.exists())


def open_writer(database: Database, *, accept_loss: bool = False) -> Connection:
    """Open a database as its only writer. Creates or migrates the database if needed.

    If the database is a file, call `hold_writer_lock` first. For the errors, see `open_writer` in
    `store.engines.sqlite.database` and `open_writing` in `store.engines.postgres.session`.
    """
    if isinstance(database, Path):
        return sqlite_database.open_writer(database, accept_loss=accept_loss)
    _require_driver()
    from store.engines.postgres.session import open_writing

    return open_writing(database)


def open_serving(database: Database) -> Connection:
    """Open a database as the writer. If a database on a server already has a writer, open it as a
    reader that can become the writer later."""
    if isinstance(database, Path):
        return sqlite_database.open_writer(database)
    _require_driver()
    from store.engines.postgres.session import open_standing_by

    return open_standing_by(database)


def open_reader(database: Database) -> Connection:
    """Open a database for queries only.

    For the errors, see `open_reader` in `store.engines.sqlite.database` and `open_reading` in
    `store.engines.postgres.session`.
    """
    if isinstance(database, Path):
        return sqlite_database.open_reader(database)
    _require_driver()
    from store.engines.postgres.session import open_reading

    return open_reading(database)


def hold_writer_lock(database: Database) -> AbstractContextManager[object]:
    """Hold the writer lock of a database file. Does nothing for a server, where the writer's
    session holds the lock.
    """
    return (
        sqlite_database.hold_writer_lock(database) if isinstance(database, Path) else nullcontext()
    )


def _require_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreError(
            "Cannot use a PostgreSQL database",
            "psycopg is not installed",
            'Run: pip install "hopsyncd[postgres]"',
        ) from error
