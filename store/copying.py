"""Copies a record from a file to a server, or back.

Rows keep their ids. Versions come last, in one transaction, so a killed copy leaves a record
without versions, which no daemon serves. Running the same copy again completes it.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import cast

from store.contract import Connection
from store.engines.sqlite.database import fresh_database
from store.exceptions import StoreError
from store.operational import kind_of_act
from store.search import create_vectors, put_vectors
from store.transactions import snapshot, transaction
from store.versions import head

_BEFORE = (
    "source seen source_state recipe counter passage question_set question document placement"
    " life match"
).split()
_WITH_VERSIONS = (
    "version tag pin unused excluded purging waiting job quarantine watch telling"
).split()
_AT_ONCE = 1000  # rows


def copy_record(
    source: Connection, target: Connection, report: Callable[[str], None] = lambda table: None
) -> dict[str, int]:
    """Copy all rows, and count them by table. `report` gets the name of each table.

    If the target already has the whole record, as after a copy that was killed at its very end,
    nothing is written. Raises StoreError if the target has versions of its own, or other rows than
    the source then.
    """
    with closing(fresh_database()) as fresh, snapshot(source):
        columns = {
            table: [row[1] for row in fresh.execute(f"PRAGMA table_info({table})")]
            for table in (*_BEFORE, *_WITH_VERSIONS)
        }
        if head(target) is not None:
            return _counts_if_copied(source, target, columns)
        for table in _BEFORE:
            report(table)
            rows = _rows(source, table, columns[table])
            for start in range(0, len(rows), _AT_ONCE):
                with transaction(target):
                    _insert_rows(target, table, columns[table], rows[start : start + _AT_ONCE])
        with transaction(target):
            for table in _WITH_VERSIONS:
                report(table)
                _insert_rows(target, table, columns[table], _rows(source, table, columns[table]))
            counts = {table: _count(source, table) for table in columns}
            found = {table: _count(target, table) for table in columns}
            # The target counts its own transactions.
            wrong = [name for name in counts if name != "counter" and found[name] != counts[name]]
            if wrong:
                raise StoreError(
                    "Cannot copy the record",
                    f"other rows are at the target: {', '.join(wrong)}",
                    "Choose an empty place",
                )
            target.restart_sequences()
    return counts


def _counts_if_copied(
    source: Connection, target: Connection, columns: Mapping[str, list[str]]
) -> dict[str, int]:
    """The counts of the rows if the target is a whole copy. Raises StoreError if it is not.

    Versions come last, and each carries a digest of its content. So equal versions and equal counts
    mean that an earlier copy was committed.
    """
    counts = {table: _count(source, table) for table in columns}
    if _rows(source, "version", columns["version"]) != _rows(
        target, "version", columns["version"]
    ) or any(
        _count(target, table) != count for table, count in counts.items() if table != "counter"
    ):
        raise StoreError(
            "Cannot copy the record", "there are versions at the target", "Choose an empty place"
        )
    return counts


def _rows(source: Connection, table: str, columns: list[str]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = source.execute(
        f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2"
    ).fetchall()
    if table == "watch":  # programs and addresses stay where they are
        at = columns.index("act")
        return [(*row[:at], kind_of_act(cast(str | None, row[at])), *row[at + 1 :]) for row in rows]
    return rows


def _count(connection: Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _insert_rows(
    target: Connection, table: str, columns: list[str], rows: list[tuple[object, ...]]
) -> None:
    """Insert missing rows; into a file also their passage vectors."""
    known = set()
    if target.dialect.has_vector_tables and table in ("recipe", "life"):
        known = {
            row[0]
            for row in target.execute(
                f"SELECT id FROM {table} WHERE id IN {target.dialect.ids()}",
                [json.dumps([row[0] for row in rows])],
            )
        }
    places = ", ".join("?" * len(columns))
    target.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}) ON CONFLICT DO NOTHING",
        rows,
    )
    if not target.dialect.has_vector_tables:
        return
    new = [row for row in rows if row[0] not in known]
    if table == "recipe":
        at = columns.index("dimensions")
        for row in new:
            create_vectors(target, int(str(row[0])), int(str(row[at])))
    elif table == "life":
        put_vectors(target, [int(str(row[0])) for row in new])
