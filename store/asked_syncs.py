"""Syncs that a reader asks the writer for, by rows that outlive either."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from store.contract import Connection

_KEPT = 1000  # answered ones


@dataclass(frozen=True, slots=True)
class AskedSync:
    """A sync of these sources (none: of all) that somebody waits for."""

    id: int
    sources: tuple[str, ...]
    accept_empty: bool


@dataclass(frozen=True, slots=True)
class SyncReply:
    """What came of it as of a version: (source, problem) of each; or the error."""

    version: int
    outcomes: tuple[tuple[str, str | None], ...]
    error: str | None = None


def ask_sync(connection: Connection, sources: Collection[str], accept_empty: bool) -> int:
    """Ask the writer, whoever that is or will be."""
    row = connection.execute(
        "INSERT INTO asked_sync (sources, accept_empty) VALUES (?, ?) RETURNING id",
        [json.dumps(sorted(sources)), int(accept_empty)],
    ).fetchone()
    return int(row[0])


def open_asks(connection: Connection) -> list[AskedSync]:
    """Those without a reply, oldest first."""
    rows = connection.execute(
        "SELECT id, sources, accept_empty FROM asked_sync WHERE version IS NULL ORDER BY id"
    )
    return [AskedSync(row[0], tuple(json.loads(row[1])), bool(row[2])) for row in rows]


def reply(connection: Connection, asked: int, done: SyncReply) -> None:
    outcomes = done.error if done.error is not None else done.outcomes
    connection.execute(
        "UPDATE asked_sync SET version = ?, outcomes = ? WHERE id = ?",
        [done.version, json.dumps(outcomes), asked],
    )
    connection.execute("DELETE FROM asked_sync WHERE id < ?", [asked - _KEPT])


def replies(connection: Connection, asked: Collection[int]) -> dict[int, SyncReply]:
    """The replies that there are to these."""
    rows = connection.execute(
        "SELECT id, version, outcomes FROM asked_sync WHERE version IS NOT NULL"
        f" AND id IN {connection.dialect.ids()}",
        [json.dumps(sorted(asked))],
    )
    return {row[0]: _reply(row[1], json.loads(row[2])) for row in rows}


def _reply(version: int, outcomes: str | list[list[str | None]]) -> SyncReply:
    if isinstance(outcomes, str):
        return SyncReply(version, (), outcomes)
    return SyncReply(version, tuple((str(source), problem) for source, problem in outcomes))
