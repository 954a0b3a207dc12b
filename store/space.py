"""The space that the record takes, and copies of it, on either engine."""

import ctypes
from collections.abc import Callable, Mapping
from contextlib import suppress

from store.contract import Connection, Engine
from store.engines.postgres import space as server_space
from store.engines.sqlite import erasure
from store.engines.sqlite import space as file_space
from store.engines.sqlite.space import backup

__all__ = ["backup", "erase", "release_heap", "release_memory", "shrink"]


def release_memory(connection: Connection) -> None:
    """Return unused memory to the system, including all but the most recent database pages."""
    connection.drop_pages()
    release_heap()


def release_heap() -> None:
    """Return free memory to the system."""
    with suppress(AttributeError):  # only glibc has this function
        ctypes.CDLL(None).malloc_trim(0)


def shrink(connection: Connection, between: Callable[[], None]) -> None:
    """Give back the space of deleted rows, in steps; `between` runs after each."""
    _SHRINK[connection.engine](connection, between)


def erase(connection: Connection, between: Callable[[], None]) -> bool:
    """Leave no byte of deleted rows on disk; `between` runs after each step.

    False if a reader kept the log from being emptied.
    """
    return _ERASE[connection.engine](connection, between)


_SHRINK: Mapping[Engine, Callable[[Connection, Callable[[], None]], None]] = {
    "sqlite": file_space.shrink,
    "postgres": server_space.shrink,
}
_ERASE: Mapping[Engine, Callable[[Connection, Callable[[], None]], bool]] = {
    "sqlite": erasure.erase,
    "postgres": server_space.erase,
}
