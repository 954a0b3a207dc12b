"""Syncs that readers request from the writer. The rows survive restarts of both."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from store.contract import Connection

_KEPT = 1000  # answered requests


@dataclass(frozen=True, slots=True)
class RequestedSync:
    """A requested sync of these sources; of all sources if there are none."""

    id: int
    sources: tuple[str, ...]
    accept_empty: bool


@dataclass(frozen=True, slots=True)
class SyncReply:
    """The outcome as of a version: a (source, problem) for each source, or the error."""

    version: int
    outcomes: tuple[tuple[str, str | None], ...]
    error: str | None = None


def request_sync(connection: Connection, sources: Collection[str], accept_empty: bool) -> int:
    """Request a sync from the current or next writer; returns the id of the request."""
    row = connection.execute(
        "INSERT INTO asked_sync (sources, accept_empty) VALUES (?, ?) RETURNING id",
        [json.dumps(sorted(sources)), int(accept_empty)],
    ).fetchone()
    return int(row[0])


def pending_syncs(connection: Connection) -> list[RequestedSync]:
    """Requests without a reply, oldest first."""
    rows = connection.execute(
        "SELECT id, sources, accept_empty FROM asked_sync WHERE version IS NULL ORDER BY id"
    )
    return [RequestedSync(row[0], tuple(json.loads(row[1])), bool(row[2])) for row in rows]


def reply(connection: Connection, asked: int, done: SyncReply) -> None:
    outcomes = done.error if done.error is not None else done.outcomes
    connection.execute(
        "UPDATE asked_sync SET version = ?, outcomes = ? WHERE id = ?",
        [done.version, json.dumps(outcomes), asked],
    )
    connection.execute("DELETE FROM asked_sync WHERE id < ?", [asked - _KEPT])


def replies(connection: Connection, asked: Collection[int]) -> dict[int, SyncReply]:
    """The replies to these requests, by id, as far as they have one."""
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
