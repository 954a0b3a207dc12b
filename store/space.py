"""Reclaims unused space and erases deleted rows, in a file or on a server."""

from collections.abc import Callable

from store.contract import Connection
from store.engines.sqlite import space as file_space
from store.engines.sqlite.space import copy_to_file
from store.heap import release_heap

__all__ = ["copy_to_file", "erase", "release_memory", "shrink"]


def release_memory(connection: Connection) -> None:
    """Return unused memory to the system, including all but the most recent database pages."""
    connection.drop_pages()
    release_heap()


def shrink(connection: Connection, between: Callable[[], None]) -> None:
    """Reclaim the space of deleted rows, in steps. `between` is called after each step."""
    if connection.server:
        connection.server.reclaim_space(whole=False)
    else:
        file_space.shrink(connection, between)


def erase(connection: Connection, between: Callable[[], None]) -> bool:
    """Erase the bytes of deleted rows from the disk, in steps. `between` is called after each step.

    Returns False if a reader prevented the log from being emptied.
    """
    if connection.server:
        connection.server.reclaim_space(whole=True)
        return True
    return file_space.erase(connection, between)
