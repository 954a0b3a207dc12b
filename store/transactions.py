"""Runs and counts transactions on the database."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

from store.contract import Connection

_COUNT_ONE = (
    "INSERT INTO counter VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = counter.value + 1"
)
# Internal rows of `counter`: all transactions, transactions that rewrote history, and the highest
# lost version.
INTERNAL_COUNTERS = ("writes", "rewrites", "lost_version")


def count_write(connection: Connection) -> None:
    """Count the current transaction in the counter of writes, if this is the writer's
    connection."""
    if connection.opened:
        connection.execute(_COUNT_ONE, ["writes"])


def count_history_change(connection: Connection) -> None:
    """Count the current transaction as a transaction that changes past versions."""
    connection.execute(_COUNT_ONE, ["rewrites"])


def count_rewrites(connection: Connection) -> int:
    """Return the number of transactions that have changed past versions: purges and rebuilds."""
    return count_of(connection, "rewrites")


def reserve_lost(connection: Connection, number: int) -> None:
    """Reserve the version numbers up to `number`. New versions never use these numbers again. Call
    this function inside a transaction."""
    connection.execute(
        "INSERT INTO counter VALUES ('lost_version', ?)"
        " ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        [number],
    )


def read_lost_version(connection: Connection) -> int:
    """Return the highest version that was acknowledged and then lost; 0 if none was."""
    return count_of(connection, "lost_version")


def count_of(connection: Connection, name: str) -> int:
    """Return the value of a counter, or 0 if it was never set."""
    row = connection.execute("SELECT value FROM counter WHERE name = ?", [name]).fetchone()
    return int(row[0]) if row else 0


def compute_version_digest(connection: Connection, number: int) -> str:
    """Return the digest of the columns of a version's row that never change, or "" if the version
    has no row."""
    row = connection.execute(
        "SELECT id, created_ms, reason, rules FROM version WHERE id = ?", [number]
    ).fetchone()
    return blake2b(json.dumps(row).encode(), digest_size=16).hexdigest() if row else ""


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Run the block in one write transaction.

    After the block ends without an error, the caller may confirm the change to a client. Raises
    DiskFailure, NotAcknowledged or DatabaseGone. After NotAcknowledged or DatabaseGone, the change
    may be committed nevertheless.
    """
    connection.refuse_gone()
    with connection.convert_disk_errors():
        try:
            connection.begin_write()
            yield
            count_write(connection)
            connection.execute("COMMIT")
        except BaseException:
            # SQLite rolls back after some errors, but not after all of them.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    connection.acknowledge()


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Run the block in one read transaction, in which all reads see the same state. Raises
    DiskFailure."""
    with connection.convert_disk_errors():
        try:
            connection.begin_read()
            yield
        finally:
            if connection.in_transaction:  # A disk error may have ended the transaction.
                connection.execute("COMMIT")
