"""Reclaiming the space of deleted rows: in vector tables, in full text, in the file."""

from collections.abc import Callable

from store.sqlite.database import Connection, disk_failures, transaction
from store.sqlite.presence import expect_shrinking, note_size
from store.sqlite.search import is_worn, recipes, renew_vectors

_PAGES = 2000  # freed per step
_MERGED_PAGES = 500  # of the full-text index rewritten per step
_WAIT_MS, _NO_WAIT_MS = 10_000, 200


def file_bytes(connection: Connection) -> int:
    """The size of the database without its WAL."""
    pages, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    return int(pages * size)


def shrink(connection: Connection, between: Callable[[], None], *, text: bool) -> None:
    """Shrink the file by what was deleted, in steps; `between` runs after each.

    `text` says whether full text was deleted, which stays in the index until it is merged. If a
    tenth of the file is free, about as much again is lost in half-empty pages, so the whole file is
    vacuumed. The writer waits for that, readers do not, and the disk needs room for a WAL as large
    as the file. This also turns incremental vacuum on for a database made without it.
    """
    for recipe in recipes(connection):
        if is_worn(connection, recipe):
            renew_vectors(connection, recipe)
            between()
    if text:
        _merge_text(connection, between)
    _vacuum(connection, between)
    truncate_wal(connection, wait=False)


def _merge_text(connection: Connection, between: Callable[[], None]) -> None:
    """Optimise in steps, as FTS5 documents it: the first, negative step covers all segments."""
    pages, changes = -_MERGED_PAGES, 2
    while changes >= 2:
        with transaction(connection):
            before = connection.total_changes
            connection.execute(
                "INSERT INTO passage_text (passage_text, rank) VALUES ('merge', ?)", [pages]
            )
            pages, changes = _MERGED_PAGES, connection.total_changes - before
        between()


def _vacuum(connection: Connection, between: Callable[[], None]) -> None:
    free, whole = _free_pages(connection), connection.execute("PRAGMA page_count").fetchone()[0]
    if 10 * free > whole:
        vacuum(connection)
        between()
        return
    while free:
        _shrunk(connection, f"PRAGMA incremental_vacuum({_PAGES})")
        before, free = free, _free_pages(connection)
        between()
        if free >= before:
            return


def _free_pages(connection: Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def vacuum(connection: Connection) -> None:
    """Rewrite the whole file as one that can be vacuumed in steps.

    The vector tables are rewritten first: their parts refer to each other by row numbers, which
    VACUUM preserves only where there are no gaps.
    """
    for recipe in recipes(connection):
        renew_vectors(connection, recipe)
    with disk_failures(connection):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _shrunk(connection, "VACUUM")


def _shrunk(connection: Connection, statement: str) -> None:
    """Run a statement that frees pages: anyone's next checkpoint may make the file smaller.

    That is possible even if the statement fails, as the disk may have done it all the same.
    """
    with disk_failures(connection):
        expect_shrinking(connection)
        try:
            connection.execute(statement).fetchall()
        finally:
            note_size(connection)


def truncate_wal(connection: Connection, *, wait: bool) -> bool:
    """Move the WAL into the file and truncate it.

    False while a reader still uses an older state of the file: the WAL then keeps its content.
    """
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS if wait else _NO_WAIT_MS}")
    try:
        with disk_failures(connection):
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
    return not busy


def erase(connection: Connection) -> bool:
    """Leave no byte of deleted rows in the database's files. Returns what truncate_wal does."""
    with transaction(connection):
        connection.execute("INSERT INTO passage_text (passage_text) VALUES ('optimize')")
    vacuum(connection)
    return truncate_wal(connection, wait=True)
