"""How the daemon, its jobs and its sources are, and what a sync changed: see docs/api.md."""

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
from hopsyncd.config.configuration import Config
from hopsyncd.config.schedule import When, at, every, zone_of
from hopsyncd.config.source_kinds import FolderSource, SourceConfig
from hopsyncd.errors import ConfigError, ReaderUnavailable
from hopsyncd.ingest.source_sync import SyncOutcome
from hopsyncd.ingest.timetable import Planned
from store.records import Version
from store.sqlite.content import counters
from store.sqlite.database import Connection, snapshot
from store.sqlite.history import source_changes
from store.sqlite.operational import all_jobs, count_quarantined, waiting_by_reason
from store.sqlite.sources import SourceRow, all_sources, item_problems
from store.sqlite.versions import head

_MAX_PROBLEMS = 100


class Watching(Protocol):
    """Whether file events arrive, and why not."""

    @property
    def watching(self) -> bool: ...

    @property
    def why(self) -> str: ...

    @property
    def hint(self) -> str: ...


class Progressing(Protocol):
    """How far the present work is."""

    source: str
    documents_done: int
    documents_total: int
    passages_done: int
    passages_total: int

    @property
    def share(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Served:
    """What the daemon knows of itself.

    `version` is None before the first; `llm` where no endpoint is configured. `next_ms` says when
    a source is scanned next.
    `config_refused` says why the configuration file is not the one in force, `restart_needed` which
    of its keys are not yet. `unavailable` says by type which documents cannot be read on this
    machine. `hidden` names the sources that the caller may not see.
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


def status_json(connection: Connection, served: Served) -> StatusAnswer:
    """The whole status; counts are of the served version.

    For one who may not see all sources: that of the others, and no totals or errors of the whole.
    """
    version, whole = served.version, not served.hidden
    error = served.error if whole or not served.error else "the last sync failed"
    return {
        "version": version.id if version else 0,
        "created": time_text(version.created_ms) if version else None,
        "documents": version.documents if version else 0,
        "passages": version.passages if version else 0,
        "edges": min(version.edge_budget, version.matches) if version else 0,
        "edge_budget": version.edge_budget if version else 0,
        "matches": version.matches if version else 0,
        "degraded": served.degraded,
        "syncing": served.busy,
        "pending": served.pending,
        "progress": progress_json(served.progress, served.hidden) if served.busy else None,
        "error": error,
        "sources": [
            _source(row, served)
            for row in all_sources(connection)
            if row.name not in served.hidden and (row.documents or row.name in served.configured)
        ],
        "problems": [
            {"source": source, "document": path, "why": why, "hint": hint}
            for source, path, why, hint in item_problems(connection, _MAX_PROBLEMS, served.hidden)
        ],
        "unavailable_readers": [
            {"media_type": kind, "why": error.why, "hint": error.hint}
            for kind, error in sorted(served.unavailable.items())
        ],
        "quarantined": count_quarantined(connection) if whole else 0,
        "counters": {**counters(connection), "queries": served.queries} if whole else {},
        "waiting": waiting_by_reason(connection, version.id) if version and whole else {},
        "models": {
            "recipe": served.recipe,
            "llm_endpoint": served.llm["endpoint"] if served.llm else None,
        },
        "llm": served.llm if whole else None,
        "configuration": {
            "refused": served.config_refused if whole else None,
            "restart_needed": list(served.restart_needed) if whole else [],
        },
        "database": str(served.database),
        "database_bytes": _bytes(served.database) if whole else None,
        "socket": str(served.socket),
        "pid": os.getpid(),
        "started": moment_text(served.started_ms),
    }


def progress_json(
    progress: Progressing | None, hidden: frozenset[str] = frozenset()
) -> SyncProgress | None:
    """How far a sync is; None where there is none, or none that the caller may see."""
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


def _source(row: SourceRow, served: Served) -> SourceStatus:
    watch = served.watching.get(row.name)
    return {
        "name": row.name,
        "kind": row.kind,
        "location": row.location,
        "state": _state(row, served),
        "documents": row.documents,
        "problems": row.problems,
        "pinned": row.pinned,
        "scanned": time_text(row.scanned_ms),
        "next": time_text(served.next_ms.get(row.name)),
        "problem": row.problem,
        "hint": row.hint,
        "watching": bool(watch and watch.watching),
        "watch_problem": f"{watch.why}. {watch.hint}" if watch and not watch.watching else None,
    }


def _state(row: SourceRow, served: Served) -> Literal["new", "ok", "paused", "unconfigured"]:
    if row.name not in served.configured:
        return "unconfigured"
    if row.problem:
        return "paused"
    return "ok" if row.scanned_ms else "new"


def time_text(unix_ms: int | None) -> str | None:
    """Unix milliseconds in ISO 8601, UTC."""
    return None if unix_ms is None else moment_text(unix_ms)


def moment_text(unix_ms: int) -> str:
    """As time_text, of what has certainly been."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _bytes(database: Path) -> int:
    total = 0
    for suffix in ("", "-wal"):
        path = database.with_name(database.name + suffix)
        total += path.stat().st_size if path.exists() else 0
    return total


GC = "gc"


def scan_times(source: SourceConfig, config: Config) -> When:
    """When a source is scanned. Raises ConfigError."""
    if source.scan_at:
        return _at(source.scan_at, config)
    seconds = source.scan_every_s or config.watch.scan_every_s
    return every(seconds, config.schedule.jitter_s)


def full_scan_times(source: SourceConfig, config: Config) -> When | None:
    """When a source is listed whole; None where every scan does that. Raises ConfigError."""
    if isinstance(source, FolderSource) or not config.schedule.full_scan_at:
        return None
    return _at(config.schedule.full_scan_at, config)


def gc_times(config: Config) -> When | None:
    """When gc is done, if it is by itself. Raises ConfigError."""
    return _at(config.schedule.gc_at, config) if config.schedule.gc_at else None


def _at(expression: str, config: Config) -> When:
    zone = config.schedule.time_zone
    try:
        return at(expression, zone_of(zone) if zone else None, config.schedule.jitter_s)
    except ValueError as error:
        raise ConfigError(
            f'Cannot make out the times "{expression}"',
            str(error),
            "Correct them, or write schedule.time_zone",
        ) from error


def schedule_json(connection: Connection, planned: Sequence[Planned]) -> ScheduleAnswer:
    """Each job with its times and its last run, the next one first."""
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
    connection: Connection, outcomes: Sequence[SyncOutcome], since: dict[str, int]
) -> SyncAnswer:
    """The newest version, and by source what came to it since then and what cannot be read."""
    with snapshot(connection):
        newest = head(connection)
        now = newest.id if newest else 0
        problems = item_problems(connection, _MOST_UNREADABLE)
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
