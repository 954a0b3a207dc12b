"""What a sync tells of: all that came since its caller was last told."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from hopsyncd.sync.sync import Outcome
from store.database import Connection, snapshot
from store.history import source_changes
from store.sources import item_problems
from store.versions import head

_MOST_UNREADABLE = 100  # documents that are named, of all sources


class Told:
    """The version that each caller was last told of, by source; a new one, what the start found.

    What a daemon indexes by itself, when it starts or as files change, is news to whoever asks.
    """

    def __init__(self) -> None:
        self.at_start = 0
        self._versions: dict[tuple[str, str], int] = {}

    def before(self, caller: str, sources: Collection[str]) -> dict[str, int]:
        """The version that the caller knows of each source."""
        return {name: self._versions.get((caller, name), self.at_start) for name in sources}

    def note(self, caller: str, sources: Collection[str], version: int) -> None:
        """The caller is told of everything up to that version."""
        self._versions |= {(caller, name): version for name in sources}


def synced(
    connection: Connection, outcomes: Sequence[Outcome], since: dict[str, int]
) -> dict[str, Any]:
    """The newest version, and by source what came to it since then and what cannot be read."""
    with snapshot(connection):
        newest = head(connection)
        now = newest.id if newest else 0
        problems = item_problems(connection, _MOST_UNREADABLE)
        sources = [
            {
                "name": one.source,
                "since": since.get(one.source, 0),
                **asdict(source_changes(connection, one.source, since.get(one.source, 0), now)),
                "unreadable": [
                    {"document": path, "why": why, "hint": hint}
                    for name, path, why, hint in problems
                    if name == one.source
                ],
                "problem": one.problem,
            }
            for one in outcomes
        ]
    return {"version": now, "sources": sources}
