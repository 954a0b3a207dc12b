"""A local copy of the text that answers show, for reading while the database server is away.

A SQLite file with the tables that queries read, reduced to the rows of the served version and the
version before it. It is derived data. After a purge or another rewrite of history, it is made
again.
"""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from store.changes import Stamp, stamp
from store.contract import Connection
from store.engines.sqlite.database import (
    FileConnection,
    fresh_database,
    open_file,
    unreadable_file,
)
from store.exceptions import NoSuchVersion, ServerLost
from store.transactions import transaction
from store.versions import version

SHOWN_NAME = "shown.db"
_TABLES = ("source recipe version document placement passage life question_set question").split()
_AT_ONCE = 1000  # rows that are looked up together


class LocalCopy:
    """The copy in a file. One thread calls `follow`; any thread may call `connection`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self.lost: ServerLost | None = None  # why the server is not asked now

    def connection(self, opened: Callable[[], Connection], number: int | None) -> Connection:
        """The server's connection; while the server is away, the copy's.

        Raises ServerLost if the copy does not have the version.
        """
        lost = self.lost  # another thread may find the server again
        if lost is None:
            try:
                found = opened()
                found.execute("SELECT 1")
                return found
            except ServerLost as error:
                lost = self.lost = error
        copy = self._reader() if number is not None else None
        known = "SELECT 1 FROM version WHERE id = ?"
        if copy is None or copy.execute(known, [number]).fetchone() is None:
            raise lost.with_traceback(None)
        return copy

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def follow(self, connection: Connection, until: int) -> None:
        """Copy the changes up to `until`, the newest version. Call it in a snapshot.

        Raises Unreadable, NotADatabase or DiskFailure.
        """
        with unreadable_file(self._path):
            self._copy_changes(connection, until)

    def _copy_changes(self, connection: Connection, until: int) -> None:
        after = self._followed_version(connection)
        if after is None:
            self.forget()
            self._make()
        if after == until or not until:
            return
        with closing(open_file(self._path)) as copy, transaction(copy):
            _follow(connection, copy, after or 0, until)
            made = stamp(connection, until)
            copy.execute("DELETE FROM made")
            copy.execute(
                "INSERT INTO made VALUES (?, ?, ?)", [made.version, made.rewrites, made.digest]
            )

    def forget(self) -> None:
        """Remove it from the disk."""
        for end in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)

    def _followed_version(self, connection: Connection) -> int | None:
        """The version that the copy has; None if it has to be made again."""
        if not self.exists:
            return None
        with closing(open_file(self._path)) as copy:
            row = copy.execute("SELECT version, rewrites, digest FROM made").fetchone()
        try:
            if row is None or stamp(connection, row[0]) != Stamp(*row):
                return None
            return version(connection, row[0]).id
        except NoSuchVersion:
            return None

    def _make(self) -> None:
        """An empty copy, with the record's own tables."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        with closing(fresh_database()) as fresh, closing(open_file(self._path, "rwc")) as copy:
            copy.execute("PRAGMA journal_mode = WAL")
            with transaction(copy):
                for (sql,) in fresh.execute(
                    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
                    f" AND tbl_name IN {copy.dialect.names()} ORDER BY type DESC",
                    [json.dumps(_TABLES)],
                ).fetchall():
                    copy.execute(sql)
                copy.execute("CREATE INDEX life_of_set ON life (question_set)")
                copy.execute("CREATE TABLE made (version, rewrites, digest)")

    def _reader(self) -> FileConnection | None:
        """This thread's connection to the file that there is now."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            return None
        if getattr(self._local, "inode", None) != inode:
            self._local.connection, self._local.inode = open_file(self._path), inode
        found: FileConnection = self._local.connection
        return found


def _follow(record: Connection, copy: Connection, after: int, until: int) -> None:
    _drop(copy, after)
    for table in ("source", "recipe"):
        _take(record, copy, table, "0 = ?", [0])
    _take(record, copy, "version", "id = ?", [until])
    span = [after, until, after]
    for table in ("document", "life"):
        ended = f"SELECT died, id FROM {table} WHERE died > ? AND died <= ? AND born <= ?"
        copy.executemany(
            f"UPDATE {table} SET died = ? WHERE id = ?", record.execute(ended, span).fetchall()
        )
    for some in _begun_ids(record, "document", after, until):
        _take(record, copy, "document", f"id IN {record.dialect.ids()}", [some])
        _take(record, copy, "placement", f"document IN {record.dialect.ids()}", [some])
        placed = f"SELECT passage FROM placement WHERE document IN {record.dialect.ids()}"
        _take(record, copy, "passage", f"id IN ({placed})", [some])
    for some in _begun_ids(record, "life", after, until):
        _take(record, copy, "life", f"id IN {record.dialect.ids()}", [some])
        used = f"SELECT question_set FROM life WHERE id IN {record.dialect.ids()}"
        _take(record, copy, "question_set", f"id IN ({used})", [some])
        _take(record, copy, "question", f"question_set IN ({used})", [some])


def _begun_ids(record: Connection, table: str, after: int, until: int) -> list[str]:
    """The ids of rows that began and did not end, as JSON arrays."""
    rows = record.execute(
        f"SELECT id FROM {table} WHERE born > ? AND born <= ? AND died > ? ORDER BY id",
        [after, until, until],
    ).fetchall()
    return [
        json.dumps([row[0] for row in rows[start : start + _AT_ONCE]])
        for start in range(0, len(rows), _AT_ONCE)
    ]


def _take(
    record: Connection, copy: Connection, table: str, where: str, values: Sequence[object]
) -> None:
    columns = [row[1] for row in copy.execute(f"PRAGMA table_info({table})")]
    places = ", ".join("?" * len(columns))
    copy.executemany(
        f"INSERT OR REPLACE INTO {table} VALUES ({places})",
        record.execute(
            f"SELECT {', '.join(columns)} FROM {table} WHERE {where}", values
        ).fetchall(),
    )


def _drop(copy: Connection, after: int) -> None:
    """Delete the rows that had ended by that version, and content that only they used."""
    copy.execute("DELETE FROM version WHERE id < ?", [after])
    placed = _ids(
        copy,
        "SELECT passage FROM placement WHERE document IN (SELECT id FROM document WHERE died <= ?)",
        after,
    )
    copy.execute(
        "DELETE FROM placement WHERE document IN (SELECT id FROM document WHERE died <= ?)", [after]
    )
    copy.execute("DELETE FROM document WHERE died <= ?", [after])
    copy.execute(
        f"DELETE FROM passage WHERE id IN {copy.dialect.ids()}"
        " AND NOT EXISTS (SELECT 1 FROM placement WHERE passage = passage.id)",
        [placed],
    )
    used = _ids(copy, "SELECT question_set FROM life WHERE died <= ?", after)
    copy.execute("DELETE FROM life WHERE died <= ?", [after])
    copy.execute(
        f"DELETE FROM question_set WHERE id IN {copy.dialect.ids()}"
        " AND NOT EXISTS (SELECT 1 FROM life WHERE question_set = question_set.id)",
        [used],
    )
    copy.execute(
        f"DELETE FROM question WHERE question_set IN {copy.dialect.ids()}"
        " AND NOT EXISTS (SELECT 1 FROM question_set AS s WHERE s.id = question_set)",
        [used],
    )


def _ids(copy: Connection, sql: str, after: int) -> str:
    return json.dumps([row[0] for row in copy.execute(sql, [after]).fetchall()])
