"""Reads the rows of versions. `store/commit.py` writes them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from store.contract import Connection
from store.exceptions import NoSuchVersion
from store.records import (
    ALIVE,
    EdgeThreshold,
    QuestionId,
    Version,
)

# `recipe` is the older name of a generation, `cut_*` of the edge threshold.
COLUMNS = (
    "id, created_ms, reason, recipe, rules, documents, passages, words, matches, edge_budget, "
    "cut_similarity, cut_question, counters"
)
CHANGES = "documents_added, documents_changed, documents_removed, passages_added, passages_removed"


def read_head(connection: Connection) -> Version | None:
    """Return the newest version, or None if there is no version yet."""
    row = connection.execute(f"SELECT {COLUMNS} FROM version ORDER BY id DESC LIMIT 1").fetchone()
    return _read_version(row) if row else None


def read_version(connection: Connection, number: int) -> Version:
    """Return the version with this number. Raises NoSuchVersion if it never existed or has
    expired."""
    row = connection.execute(
        f"SELECT collected_ms, {COLUMNS} FROM version WHERE id = ?",
        [min(number, ALIVE)],  # SQLite rejects larger integers.
    ).fetchone()
    if row and row[0] is None:
        return _read_version(row[1:])
    if row:
        raise _expired_error(connection, number, row[0])
    newest = read_head(connection)
    if newest and 0 < number < newest.id:
        why = f"version {number} was lost in a recovery or a restore"
    else:
        why = f"the newest version is {newest.id}" if newest else "nothing has been indexed yet"
    raise NoSuchVersion(
        f"Cannot read version {number}",
        why,
        "Run `hopsyncd status` to see the newest version",
    )


def scan_reason(source: str, read: int, removed: int, renamed: int = 0) -> str:
    """Return the reason of a version that a scan of a source created. `read` counts the new or
    changed documents."""
    counts = {"new or changed": read, "renamed": renamed, "removed": removed}
    changes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{source}: {changes or 'nothing changed'}"


def read_logged_version(connection: Connection, number: int) -> Version:
    """Return a version that is kept or collected. The version must exist."""
    row = connection.execute(f"SELECT {COLUMNS} FROM version WHERE id = ?", [number]).fetchone()
    return _read_version(row)


def list_kept_versions(connection: Connection) -> list[int]:
    """Return the numbers of the versions that can be read, in ascending order."""
    rows = connection.execute("SELECT id FROM version WHERE collected_ms IS NULL ORDER BY id")
    return [row[0] for row in rows]


def _expired_error(connection: Connection, number: int, collected_ms: int) -> NoSuchVersion:
    day = datetime.fromtimestamp(collected_ms / 1000, UTC).date()
    kept_ranges = format_ranges(list_kept_versions(connection))
    return NoSuchVersion(
        f"Cannot read version {number}",
        f"version {number} expired and was deleted on {day}; the kept versions are {kept_ranges}",
        "To keep versions longer, tag them or change [retention] in the configuration",
    )


def format_ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers as text with ranges.

    >>> format_ranges([1, 3, 4, 5, 9])
    '1, 3 to 5 and 9'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    words = [" to ".join(map(str, run)) for run in runs]
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def _read_version(row: Sequence[Any]) -> Version:
    *plain, threshold_similarity, threshold_question, counters = row
    edge_threshold = (
        None
        if threshold_question is None
        else EdgeThreshold(threshold_similarity, QuestionId(threshold_question))
    )
    names = COLUMNS.replace("recipe", "generation").split(", ")
    fields = dict(zip(names, plain, strict=False))
    return Version(**fields, edge_threshold=edge_threshold, counters=json.loads(counters))
