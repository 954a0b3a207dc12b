"""Opens the record, in a file or on a server."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

from store.contract import Connection
from store.engines.sqlite import database
from store.engines.sqlite.database import (
    Library,
    SqliteError,
    find_loss,
    fresh_database,
    library,
    memory_database,
)
from store.engines.sqlite.migrations import SCHEMA_VERSION
from store.exceptions import StoreError

__all__ = [
    "SCHEMA_VERSION",
    "Database",
    "Library",
    "SqliteError",
    "exists",
    "find_loss",
    "fresh_database",
    "library",
    "memory_database",
    "open_reader",
    "open_serving",
    "open_writer",
    "shown",
    "stored_bytes",
    "writer_place",
]

Database = Path | str
"""The path of a SQLite database, or the URL of a PostgreSQL one."""


def exists(place: Database) -> bool:
    """Whether the file exists; always True for a server, which is not asked."""
    return not isinstance(place, Path) or place.exists()


def shown(place: Database) -> str:
    """The path or URL to display, without user name and password."""
    if isinstance(place, Path):
        return str(place)
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def stored_bytes(place: Database, connection: Connection) -> int:
    """The size of the record with its log, in bytes."""
    if not isinstance(place, Path):
        return connection.server.size_bytes() if connection.server else 0
    files = [place, place.with_name(f"{place.name}-wal")]
    return sum(file.stat().st_size for file in files if file.exists())


def open_writer(place: Database, *, accept_loss: bool = False) -> Connection:
    """Open for writing, creating or migrating as needed; the caller is then the one writer.

    Of a file, hold its `writer_place` first. Raises what the engines do: see
    `store.engines.sqlite.database` and `store.engines.postgres.session`.
    """
    if isinstance(place, Path):
        return database.open_writer(place, accept_loss=accept_loss)
    _require_driver()
    from store.engines.postgres.session import open_writing

    return open_writing(place)


def open_serving(place: Database) -> Connection:
    """Open as the writer; on a server, where there is one, as a reader that may become it."""
    if isinstance(place, Path):
        return database.open_writer(place)
    _require_driver()
    from store.engines.postgres.session import open_standing_by

    return open_standing_by(place)


def open_reader(place: Database) -> Connection:
    """Open for queries only."""
    if isinstance(place, Path):
        return database.open_reader(place)
    _require_driver()
    from store.engines.postgres.session import open_reading

    return open_reading(place)


def writer_place(place: Database) -> AbstractContextManager[object]:
    """Hold the writer lock. On a server the writer's own session holds it."""
    return database.writer_place(place) if isinstance(place, Path) else nullcontext()


def _require_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreError(
            "Cannot use a PostgreSQL database",
            "psycopg is not installed",
            'Install it: `pip install "hopsyncd[postgres]"`',
        ) from error
