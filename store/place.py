"""Opening the record where it is: in a file, or on a server."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from store.contract import Connection
from store.exceptions import StoreError
from store.sqlite import database

Place = Path | str
"""The path of a SQLite database, or the URL of a PostgreSQL one."""


def open_writer(place: Place, *, accept_loss: bool = False) -> Connection:
    """Open for writing, creating or migrating as needed; the caller is then the one writer.

    Of a file, hold its `writer_place` first. Raises what the engines do: see
    `store.sqlite.database` and `store.postgres.session`.
    """
    if isinstance(place, Path):
        return database.open_writer(place, accept_loss=accept_loss)
    _require_driver(place)
    from store.postgres.session import open_writing

    return open_writing(place)


def open_reader(place: Place) -> Connection:
    """Open for queries only."""
    if isinstance(place, Path):
        return database.open_reader(place)
    _require_driver(place)
    from store.postgres.session import open_reading

    return open_reading(place)


def writer_place(place: Place) -> AbstractContextManager[object]:
    """Hold the writer lock. On a server the writer's own session holds it."""
    return database.writer_place(place) if isinstance(place, Path) else nullcontext()


def _require_driver(url: str) -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreError(
            "Cannot use a PostgreSQL database",
            "psycopg is not installed",
            'Install it: `pip install "hopsyncd[postgres]"`',
        ) from error
