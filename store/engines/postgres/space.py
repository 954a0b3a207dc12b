"""The space of deleted rows on a PostgreSQL server."""

from collections.abc import Callable

from store.contract import Connection, server_of


def shrink(connection: Connection, between: Callable[[], None]) -> None:
    """Let new rows take the space of deleted rows."""
    server_of(connection).reclaim_space(whole=False)


def erase(connection: Connection, between: Callable[[], None]) -> bool:
    """Rewrite the tables without the deleted rows."""
    server_of(connection).reclaim_space(whole=True)
    return True
