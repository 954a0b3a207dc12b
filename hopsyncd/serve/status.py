"""The status object of /v1/status: documented in docs/api.md."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from hopsyncd.errors import ReaderUnavailable
from store.content import counters
from store.database import Connection
from store.quarantine import count_quarantined
from store.records import Version
from store.sources import SourceRow, all_sources, item_problems
from store.waiting import waiting_by_reason

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
    llm: Mapping[str, Any] | None
    config_refused: str | None
    restart_needed: Sequence[str]
    hidden: frozenset[str] = frozenset()


def status_json(connection: Connection, served: Served) -> dict[str, Any]:
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
        "started": time_text(served.started_ms),
    }


def progress_json(
    progress: Progressing | None, hidden: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
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


def _source(row: SourceRow, served: Served) -> dict[str, Any]:
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


def _state(row: SourceRow, served: Served) -> str:
    if row.name not in served.configured:
        return "unconfigured"
    if row.problem:
        return "paused"
    return "ok" if row.scanned_ms else "new"


def time_text(unix_ms: int | None) -> str | None:
    """Unix milliseconds in ISO 8601, UTC."""
    if unix_ms is None:
        return None
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _bytes(database: Path) -> int:
    total = 0
    for suffix in ("", "-wal"):
        path = database.with_name(database.name + suffix)
        total += path.stat().st_size if path.exists() else 0
    return total
