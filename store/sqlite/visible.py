"""SQL for what remains of a version for a reader who may not see some of the sources.

A passage is visible while a document of a visible source holds it.
"""

import json
from collections.abc import Collection

from store.records import SetId
from store.sqlite.database import Connection

# ?1 is the version, ?2 a JSON array with the names of the hidden sources.
SEEN_DOCUMENTS = (
    "document AS d JOIN source AS s ON s.id = d.source"
    " WHERE s.name NOT IN (SELECT value FROM json_each(?2))"
)
VISIBLE_DOCUMENTS = f"{SEEN_DOCUMENTS} AND d.born <= ?1 AND ?1 < d.died"


def placed_in(documents: str) -> str:
    """A SELECT of the passages that these documents hold."""
    return (
        f"SELECT p.passage FROM placement AS p WHERE p.document IN (SELECT d.id FROM {documents})"
    )


VISIBLE_LIVES = (
    "SELECT id FROM life WHERE born <= ?1 AND ?1 < died"
    f" AND passage IN ({placed_in(VISIBLE_DOCUMENTS)})"
)


def names_json(hidden: Collection[str]) -> str:
    """The hidden names as one SQL argument."""
    return json.dumps(sorted(hidden))


def visible_sets(connection: Connection, version: int, hidden: Collection[str]) -> list[SetId]:
    """The question sets of the visible passages at a version."""
    rows = connection.execute(
        f"SELECT question_set FROM life WHERE id IN ({VISIBLE_LIVES})",
        [version, names_json(hidden)],
    )
    return [SetId(row[0]) for row in rows]


def visible_documents(connection: Connection, version: int, hidden: Collection[str]) -> int:
    """How many documents of visible sources are in force at a version."""
    row = connection.execute(
        f"SELECT count(*) FROM {VISIBLE_DOCUMENTS}", [version, names_json(hidden)]
    ).fetchone()
    return int(row[0])
