"""Copies a database from a file to a server or back, and keeps a follower's local copy.

`copy_database` copies everything, and rows keep their ids. It copies the versions last, in one
transaction. So an interrupted copy has no versions, and no daemon serves from it. To complete the
copy, call `copy_database` again.

While the server cannot be reached, a `LocalCopy` supplies the text that answers show. It is a
SQLite file with the tables that queries read, and has only the rows of the served version and of
the version before. After a purge or another rewrite of history, the file is recreated.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

from store.changes import Stamp, find_last_kept_before, read_left, stamp
from store.contract import Connection
from store.engines.sqlite.database import (
    FileConnection,
    open_file,
    open_fresh_database,
    unreadable_file,
)
from store.exceptions import ServerLost, StoreError
from store.operational import reduce_act_to_kind
from store.transactions import snapshot, transaction
from store.versions import read_head

_BEFORE = (
    "source seen source_state recipe counter passage question_set question document placement"
    " life match"
).split()
_WITH_VERSIONS = (
    "version tag pin unused excluded purging waiting job quarantine watch telling"
).split()
_AT_ONCE = 1000  # rows inserted per transaction


def count_rows(connection: Connection) -> dict[str, int]:
    tables = (*_BEFORE, *_WITH_VERSIONS)
    return {
        table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in tables
    }


def copy_database(
    source: Connection, target: Connection, report: Callable[[str], None] = lambda table: None
) -> dict[str, int]:
    """Copy all rows, and return the number of rows by table. `report` is called with each table's
    name.

    If the target is already complete, nothing is written. This happens if an earlier copy was
    killed just before it ended. Raises StoreError if the target has other rows or versions.
    """
    with closing(open_fresh_database()) as fresh, snapshot(source):
        columns = {
            table: [row[1] for row in fresh.execute(f"PRAGMA table_info({table})")]
            for table in (*_BEFORE, *_WITH_VERSIONS)
        }
        if read_head(target) is not None:
            return _count_rows_if_copied(source, target, columns)
        for table in _BEFORE:
            report(table)
            rows = _read_rows(source, table, columns[table])
            for start in range(0, len(rows), _AT_ONCE):
                with transaction(target):
                    _insert_rows(target, table, columns[table], rows[start : start + _AT_ONCE])
        with transaction(target):
            for table in _WITH_VERSIONS:
                report(table)
                _insert_rows(
                    target, table, columns[table], _read_rows(source, table, columns[table])
                )
            counts = {table: _count(source, table) for table in columns}
            target_counts = {table: _count(target, table) for table in columns}
            # The target counts its own transactions.
            wrong_tables = [
                name for name in counts if name != "counter" and target_counts[name] != counts[name]
            ]
            if wrong_tables:
                raise StoreError(
                    "Cannot copy the database",
                    f"the target has other rows: {', '.join(wrong_tables)}",
                    "Choose an empty target",
                )
            target.restart_sequences()
    return counts


def _count_rows_if_copied(
    source: Connection, target: Connection, columns: Mapping[str, list[str]]
) -> dict[str, int]:
    """Count the rows by table if the target is a complete copy. Raises StoreError otherwise.

    Versions are copied last, and each has a digest of its content. So equal versions and equal
    counts prove that an earlier copy was committed.
    """
    counts = {table: _count(source, table) for table in columns}
    if _read_rows(source, "version", columns["version"]) != _read_rows(
        target, "version", columns["version"]
    ) or any(
        _count(target, table) != count for table, count in counts.items() if table != "counter"
    ):
        raise StoreError(
            "Cannot copy the database", "the target already has versions", "Choose an empty target"
        )
    return counts


def _read_rows(source: Connection, table: str, columns: list[str]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = source.execute(
        f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2"
    ).fetchall()
    if table == "watch":  # the copy must not contain programs or addresses
        act = columns.index("act")
        return [
            (*row[:act], reduce_act_to_kind(cast(str | None, row[act])), *row[act + 1 :])
            for row in rows
        ]
    return rows


def _count(connection: Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _insert_rows(
    target: Connection, table: str, columns: list[str], rows: list[tuple[object, ...]]
) -> None:
    """Insert the given rows, except rows that the table already has."""
    places = ", ".join("?" * len(columns))
    target.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}) ON CONFLICT DO NOTHING",
        rows,
    )


SHOWN_NAME = "shown.db"
_TABLES = ("source recipe version document placement passage life question_set question").split()
_ROWS_AT_ONCE = 1000  # rows looked up per query


class LocalCopy:
    """A follower's copy of the database in a local file. Call `follow` from only one thread. Any
    thread may call `connection`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self.lost: ServerLost | None = None  # the reason why the copy is used instead of the server

    def get_connection(
        self, open_connection: Callable[[], Connection], number: int | None
    ) -> Connection:
        """Return the connection that `open_connection` returns, or a connection to the copy while
        the server is unreachable.

        Raises ServerLost if the server is unreachable and the copy lacks version `number`, or if
        `number` is None.
        """
        error_of_loss = self.lost  # read once, because another thread may reset it
        if error_of_loss is None:
            try:
                connection = open_connection()
                connection.execute("SELECT 1")
                return connection
            except ServerLost as error:
                error_of_loss = self.lost = error
        copy = self._get_reader() if number is not None else None
        select_version = "SELECT 1 FROM version WHERE id = ?"
        if copy is None or copy.execute(select_version, [number]).fetchone() is None:
            raise error_of_loss.with_traceback(None)
        return copy

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def follow(self, connection: Connection, until: int) -> None:
        """Update the copy to `until`, the newest version. Call this method inside a snapshot of the
        server's database.

        Raises Unreadable, NotADatabase or DiskFailure.
        """
        with unreadable_file(self._path):
            self._copy_changes(connection, until)

    def _copy_changes(self, connection: Connection, until: int) -> None:
        after = self._read_followed_version(connection)
        if after is None:
            self.forget()
            self._make()
        if after == until or not until:
            return
        with closing(open_file(self._path)) as copy, transaction(copy):
            _follow(connection, copy, after or 0, until)
            state = stamp(connection, until)
            copy.execute("DELETE FROM made")
            copy.execute(
                "INSERT INTO made VALUES (?, ?, ?)", [state.version, state.rewrites, state.digest]
            )

    def forget(self) -> None:
        for end in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)

    def _read_followed_version(self, connection: Connection) -> int | None:
        """Return the newest version in the copy, or None if the copy is missing or outdated."""
        if not self.exists:
            return None
        with closing(open_file(self._path)) as copy:
            row = copy.execute("SELECT version, rewrites, digest FROM made").fetchone()
        if row is None or stamp(connection, row[0]) != Stamp(*row):
            return None
        return int(row[0])

    def _make(self) -> None:
        """Create an empty copy with the tables of the database."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        with closing(open_fresh_database()) as fresh, closing(open_file(self._path, "rwc")) as copy:
            copy.execute("PRAGMA journal_mode = WAL")
            with transaction(copy):
                for (sql,) in fresh.execute(
                    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
                    f" AND tbl_name IN {copy.dialect.select_names()} ORDER BY type DESC",
                    [json.dumps(_TABLES)],
                ).fetchall():
                    copy.execute(sql)
                copy.execute("CREATE INDEX life_of_set ON life (question_set)")
                copy.execute("CREATE TABLE made (version, rewrites, digest)")

    def _get_reader(self) -> FileConnection | None:
        """Return this thread's connection to the current copy, or None if there is no copy."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            return None
        if getattr(self._local, "inode", None) != inode:
            self._local.connection, self._local.inode = open_file(self._path), inode
        connection: FileConnection = self._local.connection
        return connection


def _follow(record: Connection, copy: Connection, after: int, until: int) -> None:
    _drop(copy, after)
    for table in ("source", "recipe"):
        _copy_rows(record, copy, table, "0 = ?", [0])
    _copy_rows(record, copy, "version", "id = ?", [until])
    since = find_last_kept_before(record, after)
    if since is not None:
        for table in ("document", "life"):
            _end_deleted(record, copy, table, since, after)
    span = [after, until, after]
    for table in ("document", "life"):
        ended = f"SELECT died, id FROM {table} WHERE died > ? AND died <= ? AND born <= ?"
        copy.executemany(
            f"UPDATE {table} SET died = ? WHERE id = ?", record.execute(ended, span).fetchall()
        )
    for ids in _list_begun_ids(record, "document", after, until):
        _copy_rows(record, copy, "document", f"id IN {record.dialect.select_ids()}", [ids])
        _copy_rows(record, copy, "placement", f"document IN {record.dialect.select_ids()}", [ids])
        placed = f"SELECT passage FROM placement WHERE document IN {record.dialect.select_ids()}"
        _copy_rows(record, copy, "passage", f"id IN ({placed})", [ids])
    for ids in _list_begun_ids(record, "life", after, until):
        _copy_rows(record, copy, "life", f"id IN {record.dialect.select_ids()}", [ids])
        select_used_sets = (
            f"SELECT question_set FROM life WHERE id IN {record.dialect.select_ids()}"
        )
        _copy_rows(record, copy, "question_set", f"id IN ({select_used_sets})", [ids])
        _copy_rows(record, copy, "question", f"question_set IN ({select_used_sets})", [ids])


def _end_deleted(record: Connection, copy: Connection, table: str, since: int, after: int) -> None:
    """If version `after` was collected, end the rows of `copy` that gc has deleted from
    `record`."""
    left = json.dumps(read_left(record, table, "id", since, after).tolist())
    copy.execute(
        f"UPDATE {table} SET died = ? WHERE born > ? AND died > ?"
        f" AND id NOT IN {copy.dialect.select_ids()}",
        [after + 1, since, after, left],
    )


def _list_begun_ids(record: Connection, table: str, after: int, until: int) -> list[str]:
    """Return, as JSON arrays, the ids of the rows that began after `after` and are in force at
    `until`.
    """
    rows = record.execute(
        f"SELECT id FROM {table} WHERE born > ? AND born <= ? AND died > ? ORDER BY id",
        [after, until, until],
    ).fetchall()
    return [
        json.dumps([row[0] for row in rows[start : start + _ROWS_AT_ONCE]])
        for start in range(0, len(rows), _ROWS_AT_ONCE)
    ]


def _copy_rows(
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
    """Delete from the copy the versions before `after`, the rows that had ended by version `after`,
    and the content that only those rows used."""
    copy.execute("DELETE FROM version WHERE id < ?", [after])
    placed = _list_ids(
        copy,
        "SELECT passage FROM placement WHERE document IN (SELECT id FROM document WHERE died <= ?)",
        after,
    )
    copy.execute(
        "DELETE FROM placement WHERE document IN (SELECT id FROM document WHERE died <= ?)", [after]
    )
    copy.execute("DELETE FROM document WHERE died <= ?", [after])
    copy.execute(
        f"DELETE FROM passage WHERE id IN {copy.dialect.select_ids()}"
        " AND NOT EXISTS (SELECT 1 FROM placement WHERE passage = passage.id)",
        [placed],
    )
    used_ids = _list_ids(copy, "SELECT question_set FROM life WHERE died <= ?", after)
    copy.execute("DELETE FROM life WHERE died <= ?", [after])
    copy.execute(
        f"DELETE FROM question_set WHERE id IN {copy.dialect.select_ids()}"
        " AND NOT EXISTS (SELECT 1 FROM life WHERE question_set = question_set.id)",
        [used_ids],
    )
    copy.execute(
        f"DELETE FROM question WHERE question_set IN {copy.dialect.select_ids()}"
        " AND NOT EXISTS (SELECT 1 FROM question_set AS s WHERE s.id = question_set)",
        [used_ids],
    )


def _list_ids(copy: Connection, sql: str, after: int) -> str:
    return json.dumps([row[0] for row in copy.execute(sql, [after]).fetchall()])
