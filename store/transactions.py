"""Transactions on the record."""

from collections.abc import Iterator
from contextlib import contextmanager

from store.contract import Connection
from store.counters import count_write


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """One write transaction.

    If it ends without an error, the caller may acknowledge what it wrote. Raises DiskFailure,
    NotAcknowledged or DatabaseGone; after the latter two it may be committed nevertheless.
    """
    connection.refuse_gone()
    with connection.disk_failures():
        try:
            connection.begin_write()
            yield
            count_write(connection)
            connection.execute("COMMIT")
        except BaseException:
            # Some errors roll back by themselves; others do not, even on BEGIN and COMMIT.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    connection.acknowledge()


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """One read transaction: all reads within it see the same state. Raises DiskFailure."""
    with connection.disk_failures():
        try:
            connection.begin_read()
            yield
        finally:
            if connection.in_transaction:  # a disk error may have ended it
                connection.execute("COMMIT")
