"""Whether the files that the writer has open are still the ones at their paths.

SQLite continues with deleted or replaced files: every commit succeeds, and all is lost at the next
start.
"""

from pathlib import Path

from store.contract import Connection, Opened
from store.exceptions import DatabaseGone


def opened_now(database: Path) -> Opened:
    """The files that are now at the paths."""
    file, log = database.stat(), _log_of(database).stat()
    return Opened(database, (file.st_dev, file.st_ino), (log.st_dev, log.st_ino))


def note_size(connection: Connection) -> None:
    """Remember the size of the writer's database. A checkpoint may cut it to its pages in use."""
    if connection.opened:
        pages, page_bytes = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "page_size")
        )
        stored_bytes = connection.opened.database.stat().st_size
        connection.opened.least_bytes = min(stored_bytes, pages * page_bytes)


def expect_shrinking(connection: Connection) -> None:
    """Until its size is noted again, the writer's database may become smaller by itself."""
    if connection.opened:
        connection.opened.least_bytes = 0


def refuse_gone(connection: Connection) -> None:
    """Raise DatabaseGone unless the writer's files are at their paths. Callable from any thread."""
    if connection.opened and (why := _what_is_wrong(connection.opened)):
        raise database_gone_error(connection.opened.database, why)


def database_gone_error(database: Path, why: str) -> DatabaseGone:
    """The error that refuses to continue on files that are no longer the database's."""
    return DatabaseGone(
        f"Cannot use the database {database}",
        why,
        "Nothing is stored from now on: stop the daemon, put the file back (or a backup, which"
        " `hopsyncd recover` then accepts), and start the daemon again",
    )


def _what_is_wrong(opened: Opened) -> str | None:
    if opened.overwritten:
        return opened.overwritten
    try:
        file = opened.database.stat()
        if (file.st_dev, file.st_ino) != opened.file:
            return "another file has replaced it"
        if file.st_size < opened.least_bytes:
            return f"it was cut short, to {file.st_size} bytes"
        log = _log_of(opened.database).stat()
        if (log.st_dev, log.st_ino) != opened.log:
            return "another file has replaced its log (-wal)"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} was deleted or moved away"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _log_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")
