"""Passages that serve with provisional questions until the LLM gives its own. Only those count that
are in force."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from store.database import Connection, transaction
from store.records import PassageId, SetId

_IN_FORCE = (
    "question_set AS s JOIN life AS l ON l.passage = s.passage AND l.question_set = s.id"
    " AND l.born <= ?1 AND ?1 < l.died LEFT JOIN waiting AS w ON w.question_set = s.id"
    " WHERE s.provisional = 1"
)
UNTRIED = "queued"


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a provisional set is still one, and when (Unix time) to ask for a better one."""

    question_set: SetId
    why: str
    tries: int
    next_ms: int


def waits_of(connection: Connection, sets: Iterable[SetId]) -> dict[SetId, Wait]:
    """What is recorded of these sets."""
    rows = connection.execute(
        "SELECT question_set, why, tries, next_ms FROM waiting"
        " WHERE question_set IN (SELECT value FROM json_each(?))",
        [json.dumps(list(sets))],
    )
    return {SetId(row[0]): Wait(*row) for row in rows}


def put_waits(connection: Connection, waits: Iterable[Wait]) -> None:
    """Record the last attempts."""
    with transaction(connection):
        connection.executemany(
            "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?)",
            [(one.question_set, one.why, one.tries, one.next_ms) for one in waits],
        )


def due_passages(
    connection: Connection, version: int, recipe: int, now_ms: int, limit: int
) -> list[PassageId]:
    """The passages to ask the LLM for, under a recipe (a row id): the least tried first."""
    rows = connection.execute(
        f"SELECT s.passage FROM {_IN_FORCE} AND s.recipe = ?2 AND coalesce(w.next_ms, 0) <= ?3"
        " ORDER BY coalesce(w.tries, 0), s.passage LIMIT ?4",
        [version, recipe, now_ms, limit],
    )
    return [PassageId(row[0]) for row in rows]


def waiting_by_reason(connection: Connection, version: int) -> dict[str, int]:
    """How many passages wait at a version, by the kind of error of the last attempt."""
    return dict(
        connection.execute(
            f"SELECT coalesce(w.why, '{UNTRIED}') AS why, count(*) FROM {_IN_FORCE}"
            " GROUP BY why ORDER BY why",
            [version],
        )
    )


def end_waits(connection: Connection) -> None:
    """Let all be asked for again at once: what stood in the way may have been set right."""
    with transaction(connection):
        connection.execute("UPDATE waiting SET next_ms = 0")
