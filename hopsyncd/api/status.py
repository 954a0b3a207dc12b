"""Answers about the daemon itself: its state, its sources, its jobs, and what a sync changed."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from hopsyncd.answers.changed import SyncAnswer, SyncedSource
from hopsyncd.answers.daemon_state import (
    LlmStatus,
    ScheduleAnswer,
    SourceStatus,
    StatusAnswer,
    SyncProgress,
)
from hopsyncd.errors import ReaderUnavailable
from hopsyncd.ingest.source_sync import SyncOutcome
from hopsyncd.ingest.timetable import Planned
from store.records import Version
from store.sqlite.content import counters
from store.sqlite.database import Connection, snapshot
from store.sqlite.history import source_changes
from store.sqlite.operational import all_jobs, count_quarantined, waiting_by_reason
from store.sqlite.sources import SourceRow, all_sources, item_problems
from store.sqlite.versions import head

_MAX_PROBLEMS = 100  # in an answer, of all sources


class Watching(Protocol):
    """Whether file events arrive, and if not, why."""

    @property
    def watching(self) -> bool: ...

    @property
    def why(self) -> str: ...

    @property
    def hint(self) -> str: ...


class Progressing(Protocol):
    """How far the current sync is."""

    source: str
    documents_done: int
    documents_total: int
    passages_done: int
    passages_total: int

    @property
    def share(self) -> float: ...


@dataclass(frozen=True, slots=True)
class DaemonState:
    """What the daemon knows about itself, beyond the database.

    `version` is None before the first one, and `llm` is None if no endpoint is configured.
    `next_ms` has the time of each source's next scan. `config_refused` says why the configuration
    file is not in force, and `restart_needed` which of its keys wait for a restart. `unavailable`
    has the media types that cannot be read on this machine. `hidden` names the sources that the
    caller may not see.
    """

    database: Path
    socket: Path
    started_ms: int
    version: Version | None
    recipe: str
    configured: tuple[str, ...]
    next_ms: Mapping[str, int]
    watching: Mapping[str, Watching]
    progress: Progressing | None
    busy: bool
    pending: bool
    error: str | None
    degraded: list[str]
    unavailable: Mapping[str, ReaderUnavailable]
    queries: int
    llm: LlmStatus | None
    config_refused: str | None
    restart_needed: Sequence[str]
    hidden: frozenset[str] = frozenset()


def status_answer(connection: Connection, state: DaemonState) -> StatusAnswer:
    """The status, with the counts of the served version.

    A caller from whom sources are hidden gets no totals and no error texts: they would tell of
    those sources.
    """
    version, whole = state.version, not state.hidden
    error = state.error if whole or not state.error else "the last sync failed"
    return {
        "version": version.id if version else 0,
        "created": time_text(version.created_ms) if version else None,
        "documents": version.documents if version else 0,
        "passages": version.passages if version else 0,
        "edges": min(version.edge_budget, version.matches) if version else 0,
        "edge_budget": version.edge_budget if version else 0,
        "matches": version.matches if version else 0,
        "degraded": state.degraded,
        "syncing": state.busy,
        "pending": state.pending,
        "progress": sync_progress(state.progress, state.hidden) if state.busy else None,
        "error": error,
        "sources": [
            _source(row, state)
            for row in all_sources(connection)
            if row.name not in state.hidden and (row.documents or row.name in state.configured)
        ],
        "problems": [
            {"source": source, "document": path, "why": why, "hint": hint}
            for source, path, why, hint in item_problems(connection, _MAX_PROBLEMS, state.hidden)
        ],
        "unavailable_readers": [
            {"media_type": kind, "why": error.why, "hint": error.hint}
            for kind, error in sorted(state.unavailable.items())
        ],
        "quarantined": count_quarantined(connection) if whole else 0,
        "counters": {**counters(connection), "queries": state.queries} if whole else {},
        "waiting": waiting_by_reason(connection, version.id) if version and whole else {},
        "models": {
            "recipe": state.recipe,
            "llm_endpoint": state.llm["endpoint"] if state.llm else None,
        },
        "llm": state.llm if whole else None,
        "configuration": {
            "refused": state.config_refused if whole else None,
            "restart_needed": list(state.restart_needed) if whole else [],
        },
        "database": str(state.database),
        "database_bytes": _bytes(state.database) if whole else None,
        "socket": str(state.socket),
        "pid": os.getpid(),
        "started": moment_text(state.started_ms),
    }


def sync_progress(
    progress: Progressing | None, hidden: frozenset[str] = frozenset()
) -> SyncProgress | None:
    """How far the sync is; None if none runs, or none that the caller may see."""
    if progress is None or progress.source in hidden:
        return None
    return {
        "source": progress.source,
        "documents_done": progress.documents_done,
        "documents_total": progress.documents_total,
        "passages_done": progress.passages_done,
        "passages_total": progress.passages_total,
        "share": round(progress.share, 4),
    }


def _source(row: SourceRow, state: DaemonState) -> SourceStatus:
    watch = state.watching.get(row.name)
    return {
        "name": row.name,
        "kind": row.kind,
        "location": row.location,
        "state": _source_state(row, state),
        "documents": row.documents,
        "problems": row.problems,
        "pinned": row.pinned,
        "scanned": time_text(row.scanned_ms),
        "next": time_text(state.next_ms.get(row.name)),
        "problem": row.problem,
        "hint": row.hint,
        "watching": bool(watch and watch.watching),
        "watch_problem": f"{watch.why}. {watch.hint}" if watch and not watch.watching else None,
    }


def _source_state(
    row: SourceRow, state: DaemonState
) -> Literal["new", "ok", "paused", "unconfigured"]:
    if row.name not in state.configured:
        return "unconfigured"
    if row.problem:
        return "paused"
    return "ok" if row.scanned_ms else "new"


def time_text(unix_ms: int | None) -> str | None:
    """Unix milliseconds in ISO 8601, UTC; None stays None."""
    return None if unix_ms is None else moment_text(unix_ms)


def moment_text(unix_ms: int) -> str:
    """Unix milliseconds in ISO 8601, UTC."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _bytes(database: Path) -> int:
    total = 0
    for suffix in ("", "-wal"):
        path = database.with_name(database.name + suffix)
        total += path.stat().st_size if path.exists() else 0
    return total


def schedule_answer(connection: Connection, planned: Sequence[Planned]) -> ScheduleAnswer:
    """Each job with its times and its last run, the next job first."""
    rows = all_jobs(connection)
    return {
        "jobs": [
            {
                "job": one.job,
                "times": one.times,
                "next": moment_text(one.next_ms),
                "last_run": time_text(row.ran_ms) if row else None,
                "last_success": time_text(row.succeeded_ms) if row else None,
                "last_error": row.error if row else None,
            }
            for one in sorted(planned, key=lambda one: one.next_ms)
            for row in (rows.get(one.job),)
        ]
    }


class ReportedVersions:
    """The version of each source up to which a caller knows the changes.

    A caller who has not synced before knows the version at the start: what the daemon indexed by
    itself since then is news to them.
    """

    def __init__(self) -> None:
        self.at_start = 0
        self._versions: dict[tuple[str, str], int] = {}

    def known_to(self, caller: str, sources: Collection[str]) -> dict[str, int]:
        """The version of each source that the caller knows."""
        return {name: self._versions.get((caller, name), self.at_start) for name in sources}

    def note(self, caller: str, sources: Collection[str], version: int) -> None:
        """The caller now knows these sources up to that version."""
        self._versions |= {(caller, name): version for name in sources}


def sync_answer(
    connection: Connection, outcomes: Sequence[SyncOutcome], since: dict[str, int]
) -> SyncAnswer:
    """The newest version, what changed in each source since then, and what cannot be read."""
    with snapshot(connection):
        newest = head(connection)
        now = newest.id if newest else 0
        problems = item_problems(connection, _MAX_PROBLEMS)
        sources: list[SyncedSource] = [
            {
                "name": one.source,
                "since": since.get(one.source, 0),
                "added": changes.added,
                "changed": changes.changed,
                "moved": changes.moved,
                "removed": changes.removed,
                "unreadable": [
                    {"document": path, "why": why, "hint": hint}
                    for name, path, why, hint in problems
                    if name == one.source
                ],
                "problem": one.problem,
            }
            for one in outcomes
            for changes in [source_changes(connection, one.source, since.get(one.source, 0), now)]
        ]
    return {"version": now, "sources": sources, "degraded": []}
