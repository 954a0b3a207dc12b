"""Checks the database against its invariants, without changing it, at three depths:

- refuse_damaged: indexes and small tables, in a fraction of a second, before a daemon serves.
- check: SQLite's own structure, the schema, and the intervals at the head.
- check(deep): every invariant in docs/reference/database-format.md that needs only the database.
hopsyncd.ingest.upkeep checks the similarities of matches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from store.check_rows import CONTENT_CHECKS, GRAPH_CHECKS, INTERVAL_KEYS
from store.contract import Connection, Engine, require_server
from store.engines.sqlite import structure as sqlite
from store.engines.sqlite.acknowledged import database_gone_error, read_state
from store.engines.sqlite.database import (
    SqliteError,
    open_file,
    to_disk_failure,
)
from store.exceptions import DatabaseGone, DiskFailure, NotADatabase, StoreError
from store.records import ALIVE, REBUILD, RESTORE, Finding, name_rows
from store.transactions import snapshot
from store.versions import list_kept_versions, read_head, read_version

Check = Callable[[Connection], Iterator[Finding]]
OnCheck = Callable[[str], None]  # called with the name of each check before it runs

# Errors that damaged rows raise when they are read as text, JSON, numbers or rows.
UNREADABLE = (SqliteError, ValueError, TypeError, LookupError, OverflowError)


@dataclass(frozen=True, slots=True)
class _Structure:
    """The structure checks of an engine, grouped by when they run: in every `check`, in a deep
    check, or when the database is opened."""

    quick: tuple[Check, ...]
    deep: tuple[Check, ...]
    opening: tuple[Check, ...]


def count_checks(deep: bool) -> int:
    """Return the maximum number of checks that `check` runs."""
    return 3 + len(_STRUCTURE) + (len(GRAPH_CHECKS + CONTENT_CHECKS) if deep else 0)


def check(
    connection: Connection, deep: bool, on_check: OnCheck = lambda name: None
) -> list[Finding]:
    """Check the database, and return the problems found. Without `deep`, only the quick checks run.
    Calls `on_check` with the name of each check."""
    structure = _STRUCTURE_OF[connection.engine]
    checks = structure.deep + _STRUCTURE + GRAPH_CHECKS + CONTENT_CHECKS
    return run_checks(connection, checks if deep else structure.quick + _STRUCTURE, on_check)


def run_checks(
    connection: Connection, checks: Iterable[Check], on_check: OnCheck = lambda name: None
) -> list[Finding]:
    """Run the checks on a single snapshot of the database, and return the problems found. If a
    check cannot read its rows, that is a finding too."""
    findings: list[Finding] = []
    try:
        with snapshot(connection):
            for check in checks:
                on_check(_format_name(check))
                findings.extend(_run(connection, check))
    except SqliteError as error:
        # On a damaged file, even ending a read transaction can fail.
        findings.append(_report_unreadable("file", error))
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return findings


def _run(connection: Connection, check_: Check) -> list[Finding]:
    findings: list[Finding] = []
    try:
        findings.extend(check_(connection))
    except UNREADABLE as error:
        findings.append(_report_unreadable(_format_name(check_), error))
    return findings


def _format_name(check_: Check) -> str:
    return check_.__name__.lstrip("_").removeprefix("check_").replace("_", " ")


def _report_unreadable(what: str, error: Exception) -> Finding:
    return Finding("all rows can be read", what, str(error), RESTORE)


def refuse_damaged(connection: Connection) -> None:
    """Raise NotADatabase if the file is too damaged to serve from."""
    checks = (
        *_STRUCTURE_OF[connection.engine].opening,
        _check_versions,
        _check_interval_bounds,
        _check_head_counts,
    )
    findings = run_checks(connection, checks)
    if findings:
        other_count = len(findings) - 1
        suffix = f", and {other_count} more problem{'s' * (other_count > 1)}" if other_count else ""
        raise NotADatabase(
            "Cannot serve from the database",
            f"the database is damaged: {findings[0].where}: {findings[0].detail}{suffix}",
            "Run `hopsyncd check --deep` to list all problems, then restore a backup. Without a"
            " backup, move the database away and start the daemon, which indexes the files again",
        )


def refuse_overwritten(connection: Connection) -> None:
    """Raise DatabaseGone if another program has overwritten the files that the writer has open.

    SQLite does not notice this on a connection that is already open.
    """
    connection.refuse_gone()
    if connection.opened is None:
        return
    database, why = connection.opened.database, None
    try:
        with closing(open_file(database)) as fresh:
            if read_state(fresh) != read_state(connection):
                why = "the content of the file was replaced"
    except (StoreError, *UNREADABLE) as error:
        if failure := to_disk_failure(error, f"Cannot use the database {database}"):
            raise failure from error
        why = f"the file can no longer be read: {error}"
    if why:
        connection.opened.overwritten = why
        raise database_gone_error(database, why)


def as_store_error(error: BaseException, connection: Connection) -> BaseException:
    """Convert an SQLite error of the writer to DatabaseGone or DiskFailure. Returns any other error
    unchanged.

    The writer may call this function after any failed read.
    """
    if connection.opened is None or not isinstance(error, SqliteError):
        return error
    try:
        refuse_overwritten(connection)
    except DatabaseGone as gone_:
        return gone_
    except DiskFailure:
        pass  # the first error is the one to report
    return to_disk_failure(error, f"Cannot use the database {connection.opened.database}") or error


def _check_versions(connection: Connection) -> Iterator[Finding]:
    numbers = list_kept_versions(connection)
    for number in numbers:
        version = read_version(connection, number)
        counts = (
            version.documents,
            version.passages,
            version.words,
            version.matches,
            version.edge_budget,
        )
        if number < 1 or min(counts) < 0:
            yield Finding(
                "versions and their counts are positive",
                f"version {number}",
                f"the documents, passages, words, matches and edge budget are {counts}",
                RESTORE,
            )
    for table in () if numbers else INTERVAL_KEYS:
        if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
            yield Finding(
                "every row belongs to a version",
                name_rows(table),
                "rows exist, but no version exists",
                RESTORE,
            )


def _check_intervals(connection: Connection) -> Iterator[Finding]:
    newest = read_head(connection)
    last = newest.id if newest else 0
    # A damaged file can contain texts in these integer columns.
    wrong_types = connection.dialect.match_wrong_types("born", "died")
    for table, key in INTERVAL_KEYS.items():
        rows = connection.execute(
            f"SELECT {key}, born, died FROM {table}"
            f" WHERE {wrong_types} OR born < 1 OR born > ?1 OR died <= born"
            " OR (died > ?1 AND died <> ?2)",
            [last, ALIVE],
        )
        for *columns, born, died in rows:
            yield Finding(
                f"rows begin at an existing version and end later (the head is {last})",
                f"{name_rows(table)} {_format_key(columns)}",
                f"the row begins at version {born} and ends at version {died}",
                RESTORE,
            )


def _check_interval_bounds(connection: Connection) -> Iterator[Finding]:
    """Check intervals like `_check_intervals`, but faster: read only the ends of the indexes."""
    newest = read_head(connection)
    last = newest.id if newest else 0
    for table in INTERVAL_KEYS:
        first, latest, later = connection.execute(
            f"SELECT (SELECT min(born) FROM {table}), (SELECT max(born) FROM {table}),"
            f" EXISTS (SELECT 1 FROM {table} WHERE died > ?1 AND died < {ALIVE})",
            [last],
        ).fetchone()
        if later or not (first is None or 1 <= first <= latest <= last):
            yield Finding(
                f"rows begin at an existing version and end later (the head is {last})",
                name_rows(table),
                f"rows begin at versions {first} to {latest}"
                f"{', and some end after the head' if later else ''}",
                RESTORE,
            )


def _check_one_live_row(connection: Connection) -> Iterator[Finding]:
    for table, key in INTERVAL_KEYS.items():
        rows = connection.execute(
            f"SELECT {key}, count(*) FROM {table} WHERE died = {ALIVE}"
            f" GROUP BY {key} HAVING count(*) > 1"
        )
        for *columns, count in rows:
            yield Finding(
                "each key has at most one row at the head",
                f"{name_rows(table)} {_format_key(columns)}",
                f"the key has {count} rows",
                RESTORE,
            )


def _check_head_counts(connection: Connection) -> Iterator[Finding]:
    newest = read_head(connection)
    if newest is None:
        return
    stated = {
        "document": newest.documents,
        "life": newest.passages,
        "match": newest.matches,
    }
    for table, count in stated.items():
        # Both counts read only an index.
        live = connection.execute(
            f"SELECT count(*) - (SELECT count(*) FROM {table} WHERE died < {ALIVE}) FROM {table}"
        ).fetchone()
        if live[0] != count:
            yield Finding(
                "the head's counts equal its rows in force",
                f"version {newest.id}",
                f"counts {count} rows of {name_rows(table)}, but {live[0]} are in force",
                REBUILD,
            )


def _format_key(key: Iterable[object]) -> str:
    return ", ".join(str(part) for part in key)


_STRUCTURE: tuple[Check, ...] = (
    _check_versions,
    _check_intervals,
    _check_one_live_row,
    _check_head_counts,
)


def _check_server_structure(connection: Connection) -> Iterator[Finding]:
    for detail in require_server(connection).check_structure():
        yield Finding("the database's structure is sound", "database", detail, RESTORE)


_SERVER_CHECKS: tuple[Check, ...] = (_check_server_structure,)
_STRUCTURE_OF: Mapping[Engine, _Structure] = {
    "sqlite": _Structure(
        (sqlite.check_schema, sqlite.check_quick_integrity, sqlite.check_references),
        (sqlite.check_schema, sqlite.check_integrity, sqlite.check_references),
        (sqlite.check_schema, sqlite.check_small_tables),
    ),
    "postgres": _Structure(_SERVER_CHECKS, _SERVER_CHECKS, _SERVER_CHECKS),
}
