"""Garbage collection (gc): decides which versions expire, and deletes their rows.

First, one transaction marks the expired versions as collected; reading them raises an error from
then on. Then gc deletes the rows that are in force at no kept version, in small transactions:
matches, then documents, then passage intervals with the content that nothing else refers to. The
database is consistent after each transaction. If gc is interrupted, the next run continues.

Between two neighbouring kept versions a < b, the rows in force at neither are those with a < born
and died <= b. Rows in force at the head are never deleted.

Content that no version ever used comes from an interrupted sync, and an LLM may have been paid for
it. gc records when it first finds such content, and deletes it `keep_days` later if a version has
been committed since.

A reader inside a transaction keeps its snapshot (WAL), so running requests are not disturbed. gc
runs on the writer's thread.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from store.contract import Connection
from store.records import ALIVE
from store.space import shrink
from store.transactions import transaction
from store.versions import list_kept_versions, read_head

_DAY_MS = 86_400_000
# Rows deleted per transaction. _ROWS_AT_ONCE is for documents, intervals and question sets.
_MATCHES_AT_ONCE, _ROWS_AT_ONCE = 2000, 100

# Estimated sizes of a row without its long columns, and of a match with its index entries.
_ROW_BYTES, _MATCH_BYTES = 40, 60

Gap = tuple[int, int]
_Row = tuple[int, ...]
Between = Callable[[], None]

# The last condition lets SQL use indexes that contain only ended rows.
_DEAD = f"born > ?1 AND died > ?1 AND died <= ?2 AND died < {ALIVE}"
_IS_UNUSED = (
    "NOT EXISTS (SELECT 1 FROM life AS l WHERE l.passage = s.passage AND l.question_set = s.id)"
)


@dataclass(frozen=True, slots=True)
class Retention:
    """The versions to keep besides the head and tagged versions: the newest `keep_versions`
    versions, and all versions of the last `keep_days`.

    The age of a version is the time since the next version replaced it. So if `keep_days` is 30,
    every moment of the last 30 days can be queried. The versions in `being_read`, which running
    requests use, are kept too.
    """

    keep_versions: int
    keep_days: float
    being_read: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class GcPlan:
    """The versions that gc would collect, the number of rows of each kind that it would delete, and
    the approximate size of these rows in bytes."""

    versions: tuple[int, ...]
    documents: int
    passage_intervals: int
    matches: int
    passages: int
    question_sets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GcResult:
    """The versions that gc collected, the number of rows of each kind that it deleted, and the
    number of bytes by which the file shrank."""

    versions: tuple[int, ...]
    documents: int
    passage_intervals: int
    matches: int
    passages: int
    question_sets: int
    freed_bytes: int


def find_expired(connection: Connection, retention: Retention, now_ms: int) -> list[int]:
    """Return the kept versions that need not be kept any longer, in ascending order."""
    rows = connection.execute(
        "SELECT id, created_ms, replaced_ms, place FROM (SELECT id, created_ms, collected_ms,"
        " lead(created_ms) OVER (ORDER BY id) AS replaced_ms,"
        " row_number() OVER (ORDER BY id DESC) AS place FROM version) AS v"
        " WHERE collected_ms IS NULL AND replaced_ms IS NOT NULL"
        " AND id NOT IN (SELECT version FROM tag) ORDER BY id"
    )
    oldest_ms = now_ms - retention.keep_days * _DAY_MS
    return [
        number
        for number, created_ms, replaced_ms, place in rows
        if place > retention.keep_versions
        and max(created_ms, replaced_ms) <= oldest_ms
        and number not in retention.being_read
    ]


def plan_gc(connection: Connection, retention: Retention, now_ms: int) -> GcPlan:
    """Count the rows that `collect` would delete, including rows left by an interrupted gc. Writes
    nothing."""
    versions = find_expired(connection, retention, now_ms)
    gaps = _find_gaps(set(list_kept_versions(connection)) - set(versions))
    matches = _count(connection, "match", gaps)
    documents = _count(connection, "document", gaps)
    passage_intervals = _find_dead_intervals(connection, gaps)
    sets = _find_sets_used_only_by(connection, passage_intervals) | set(
        _list_expired_sets(connection, retention, now_ms)
    )
    passages = _find_passages_without_sets(connection, sets)
    return GcPlan(
        versions=tuple(versions),
        documents=documents,
        passage_intervals=len(passage_intervals),
        matches=matches,
        passages=len(passages),
        question_sets=len(sets),
        bytes=matches * _MATCH_BYTES
        + (documents + len(passage_intervals)) * _ROW_BYTES
        + _measure_content(connection, sets, passages),
    )


def collect(
    connection: Connection, retention: Retention, now_ms: int, between: Between = lambda: None
) -> GcResult:
    """Collect the expired versions, and shrink the file. `between` is called after each
    transaction.

    To stop early, `between` may raise an error. The next call of `collect` deletes the remaining
    rows.
    """
    size = connection.measure_size()
    unused = find_unused_sets(connection, between)
    with transaction(connection):
        versions = find_expired(connection, retention, now_ms)
        connection.executemany(
            "UPDATE version SET collected_ms = ? WHERE id = ?",
            [(now_ms, number) for number in versions],
        )
        _note_unused(connection, unused, now_ms)
    between()
    deleted_counts = sweep(connection, between)
    deleted_counts.update(
        drop_unused(connection, _list_expired_sets(connection, retention, now_ms), between)
    )
    shrink(connection, between)
    return GcResult(
        versions=tuple(versions),
        documents=deleted_counts["documents"],
        passage_intervals=deleted_counts["passage_intervals"],
        matches=deleted_counts["matches"],
        passages=deleted_counts["passages"],
        question_sets=deleted_counts["question_sets"],
        freed_bytes=size - connection.measure_size(),
    )


def sweep(connection: Connection, between: Between = lambda: None) -> Counter[str]:
    """Delete the rows in force at no kept version, and their content. Returns the number of deleted
    rows by table.
    """
    deleted_counts: Counter[str] = Counter()
    for table, key, at_once, delete in _STEPS:
        # A dead row stays dead, whatever `between` commits, so one search is enough.
        dead = [
            row
            for gap in _find_gaps(list_kept_versions(connection))
            for row in connection.execute(f"SELECT {key} FROM {table} WHERE {_DEAD}", gap)
        ]
        for start in range(0, len(dead), at_once):
            with transaction_without_checks(connection):
                deleted_counts.update(delete(connection, dead[start : start + at_once]))
            between()
    return deleted_counts


def drop_unused(connection: Connection, sets: Sequence[int], between: Between) -> Counter[str]:
    """Delete question sets like `drop_sets`, in several transactions. `between` is called after
    each transaction."""
    deleted_counts: Counter[str] = Counter()
    for start in range(0, len(sets), _ROWS_AT_ONCE):
        with transaction_without_checks(connection):
            deleted_counts.update(drop_sets(connection, sets[start : start + _ROWS_AT_ONCE]))
        between()
    return deleted_counts


def drop_sets(connection: Connection, sets: Iterable[int]) -> Counter[str]:
    """Delete each question set in `sets` that no passage interval uses, and passages that then have
    no question set.

    Runs inside the caller's transaction. Returns the number of deleted rows by table.
    """
    set_ids = json.dumps(list(sets))
    doomed = connection.execute(
        "SELECT s.id, s.passage FROM question_set AS s"
        f" WHERE s.id IN {connection.dialect.select_ids()} AND {_IS_UNUSED}",
        [set_ids],
    ).fetchall()
    ids = [(row[0],) for row in doomed]
    connection.executemany("DELETE FROM question WHERE question_set = ?", ids)
    connection.executemany("DELETE FROM question_set WHERE id = ?", ids)
    for table in ("unused", "waiting"):
        connection.executemany(f"DELETE FROM {table} WHERE question_set = ?", ids)
    passages = connection.execute(
        f"SELECT p.id FROM passage AS p WHERE p.id IN {connection.dialect.select_ids()}"
        " AND NOT EXISTS (SELECT 1 FROM question_set WHERE passage = p.id)"
        " AND NOT EXISTS (SELECT 1 FROM placement WHERE passage = p.id)",
        [json.dumps([row[1] for row in doomed])],
    ).fetchall()
    connection.executemany("DELETE FROM passage WHERE id = ?", passages)
    return Counter(question_sets=len(ids), passages=len(passages))


def find_unused_sets(
    connection: Connection, between: Between, sets_at_once: int = 50_000
) -> list[int]:
    """Return the ids of the question sets that no passage interval uses. The sets are read in
    batches of about `sets_at_once`, and `between` is called between two batches.

    If `between` commits a version, the result may lack sets that became unused, or contain sets
    that are in use again.
    """
    unused: list[int] = []
    after = -1
    while True:
        row = connection.execute(
            "SELECT passage FROM question_set WHERE passage > ? ORDER BY passage LIMIT 1 OFFSET ?",
            [after, sets_at_once],
        ).fetchone()
        until = row[0] if row else ALIVE  # No id is larger than ALIVE.
        rows = connection.execute(
            "SELECT s.id FROM question_set AS s"
            f" WHERE s.passage > ? AND s.passage <= ? AND {_IS_UNUSED}",
            [after, until],
        )
        unused += [row_id for (row_id,) in rows]
        if row is None:
            return unused
        after = until
        between()


@contextmanager
def transaction_without_checks(connection: Connection) -> Iterator[None]:
    """Run a transaction without foreign key checks, on engines where they are slow.

    In SQLite the checks would scan all matches for each deleted question. They are unnecessary,
    because a row is deleted before the rows to which it refers.
    """
    with connection.skip_reference_checks(), transaction(connection):
        yield


def _find_gaps(kept_numbers: Iterable[int]) -> list[Gap]:
    """Return the pairs of neighbouring kept versions (a, b) with collected versions between them.
    For the first kept version b, a is 0.

    >>> _find_gaps([1, 4, 5, 9])
    [(1, 4), (5, 9)]
    """
    ascending = sorted(kept_numbers)
    return [(a, b) for a, b in zip([0, *ascending], ascending, strict=False) if b - a > 1]


def _sweep_matches(connection: Connection, rows: Sequence[_Row]) -> Counter[str]:
    connection.executemany("DELETE FROM match WHERE question = ? AND born = ?", rows)
    return Counter(matches=len(rows))


def _sweep_documents(connection: Connection, rows: Sequence[_Row]) -> Counter[str]:
    connection.executemany("DELETE FROM placement WHERE document = ?", rows)
    connection.executemany("DELETE FROM document WHERE id = ?", rows)
    return Counter(documents=len(rows))


def _sweep_intervals(connection: Connection, rows: Sequence[_Row]) -> Counter[str]:
    connection.executemany("DELETE FROM life WHERE id = ?", [(row[0],) for row in rows])
    return Counter(passage_intervals=len(rows)) + drop_sets(connection, [row[1] for row in rows])


_STEPS = (
    ("match", "question, born", _MATCHES_AT_ONCE, _sweep_matches),
    ("document", "id", _ROWS_AT_ONCE, _sweep_documents),
    ("life", "id, question_set", _ROWS_AT_ONCE, _sweep_intervals),
)


def _note_unused(connection: Connection, unused: Sequence[int], now_ms: int) -> None:
    connection.execute(
        f"DELETE FROM unused WHERE question_set NOT IN {connection.dialect.select_ids()}",
        [json.dumps(unused)],
    )
    connection.executemany(
        "INSERT INTO unused VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(id_, now_ms) for id_ in unused],
    )


def _list_expired_sets(connection: Connection, retention: Retention, now_ms: int) -> list[int]:
    """Return the unused question sets that gc first found at least `keep_days` ago, and before the
    newest version was committed."""
    newest = read_head(connection)
    rows = connection.execute(
        "SELECT s.id FROM question_set AS s WHERE s.id IN"
        " (SELECT question_set FROM unused WHERE since_ms <= ? AND since_ms < ?)"
        f" AND {_IS_UNUSED} ORDER BY s.id",
        [now_ms - retention.keep_days * _DAY_MS, newest.created_ms if newest else 0],
    )
    return [row[0] for row in rows]


def _count(connection: Connection, table: str, gaps: Sequence[Gap]) -> int:
    return sum(
        connection.execute(f"SELECT count(*) FROM {table} WHERE {_DEAD}", gap).fetchone()[0]
        for gap in gaps
    )


def _find_dead_intervals(connection: Connection, gaps: Sequence[Gap]) -> list[tuple[int, int]]:
    """Return the (interval id, question set) pair of each passage interval that is in force only
    within these gaps."""
    rows: list[tuple[int, int]] = []
    for gap in gaps:
        rows += connection.execute(f"SELECT id, question_set FROM life WHERE {_DEAD}", gap)
    return rows


def _find_sets_used_only_by(
    connection: Connection, passage_intervals: Sequence[tuple[int, int]]
) -> set[int]:
    """Return the question sets that only these intervals use. An interval is given as (interval id,
    question set)."""
    rows = connection.execute(
        "SELECT l.question_set FROM life AS d JOIN life AS l ON l.passage = d.passage"
        f" WHERE d.id IN {connection.dialect.select_ids('?1')}"
        f" AND l.id NOT IN {connection.dialect.select_ids('?1')}",
        [json.dumps([interval for interval, _ in passage_intervals])],
    )
    return {question_set for _, question_set in passage_intervals} - {row[0] for row in rows}


def _find_passages_without_sets(connection: Connection, sets: Iterable[int]) -> list[int]:
    """Return the passages whose only question sets are these."""
    rows = connection.execute(
        "SELECT s.passage FROM question_set AS s WHERE s.passage IN"
        f" (SELECT passage FROM question_set WHERE id IN {connection.dialect.select_ids('?1')})"
        " GROUP BY s.passage HAVING count(*) ="
        f" count(CASE WHEN s.id IN {connection.dialect.select_ids('?1')} THEN 1 END)",
        [json.dumps(list(sets))],
    )
    return [row[0] for row in rows]


def _measure_content(connection: Connection, sets: Iterable[int], passages: Sequence[int]) -> int:
    """Return the approximate size of these question sets and passages in bytes."""
    row = connection.execute(
        "SELECT (SELECT coalesce(sum(length(vectors)), 0) FROM question_set"
        f" WHERE id IN {connection.dialect.select_ids('?1')})"
        f" + (SELECT coalesce(sum(length(text) + length(keywords) + {_ROW_BYTES}), 0) FROM question"
        f" WHERE question_set IN {connection.dialect.select_ids('?1')})"
        " + (SELECT coalesce(sum(length(text)), 0) FROM passage"
        f" WHERE id IN {connection.dialect.select_ids('?2')})",
        [json.dumps(list(sets)), json.dumps(list(passages))],
    ).fetchone()
    return int(row[0])
