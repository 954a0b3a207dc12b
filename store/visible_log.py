"""The log for one who may not see some of the sources."""

from collections.abc import Callable, Collection
from dataclasses import replace

from store.database import Connection
from store.history import LogEntry, with_renames
from store.visible import (
    SEEN_DOCUMENTS,
    VISIBLE_DOCUMENTS,
    VISIBLE_LIVES,
    names_json,
    placed_in,
)

_BEGUN = f"{SEEN_DOCUMENTS} AND d.born = ?1"
_ENDED = f"{SEEN_DOCUMENTS} AND d.died = ?1"
_BEFORE = f"{SEEN_DOCUMENTS} AND d.born < ?1 AND ?1 <= d.died"
_REPLACED = "EXISTS (SELECT 1 FROM document AS o WHERE o.source = d.source AND o.path = d.path"
_OUTGOING = (
    "question AS q JOIN life AS l ON l.question_set = q.question_set"
    f" WHERE q.direction = 1 AND l.id IN ({VISIBLE_LIVES})"
)


def visible_entry(
    connection: Connection, entry: LogEntry, hidden: Collection[str], budget: Callable[[int], int]
) -> LogEntry:
    """A version of the log, told of the visible sources alone, as far as its rows are kept.

    `budget` gives how many edges so many passages may have; each outgoing question has one match.
    """
    arguments = [entry.version.id, names_json(hidden)]

    def count(rows: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {rows}", arguments).fetchone()[0])

    seen = connection.execute(
        "SELECT name FROM source WHERE name NOT IN (SELECT value FROM json_each(?))",
        [names_json(hidden)],
    )
    reason = entry.version.reason
    passages = count(f"({VISIBLE_LIVES})")
    before, now = placed_in(_BEFORE), placed_in(VISIBLE_DOCUMENTS)
    told = replace(
        entry,
        version=replace(
            entry.version,
            reason=reason if reason.split(": ")[0] in {row[0] for row in seen} else "",
            documents=count(VISIBLE_DOCUMENTS),
            passages=passages,
            matches=count(_OUTGOING) if passages > 1 else 0,
            edge_budget=budget(passages),
            counters={},
        ),
        documents_renamed=0,
        documents_added=count(f"{_BEGUN} AND NOT {_REPLACED} AND o.died = d.born)"),
        documents_changed=count(f"{_BEGUN} AND {_REPLACED} AND o.died = d.born)"),
        documents_removed=count(f"{_ENDED} AND NOT {_REPLACED} AND o.born = d.died)"),
        passages_added=count(f"({now} EXCEPT {before})"),
        passages_removed=count(f"({before} EXCEPT {now})"),
    )
    return with_renames(connection, told, hidden)
