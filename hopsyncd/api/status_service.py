"""The endpoints that report the state of the daemon: its sources, jobs, requests and metrics."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar, get_args

import structlog

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.metrics import METRICS_TYPE, Load, Requests
from hopsyncd.api.requests import NoParameters
from hopsyncd.api.serving import DaemonParts
from hopsyncd.api.source_status import (
    describe_source,
    list_rights,
    restrict_source,
    restrict_watch_status,
)
from hopsyncd.api.tls import ServerTls
from hopsyncd.api.tokens import Right
from hopsyncd.api.version_log import format_moment, format_time
from hopsyncd.config.configuration import Config
from hopsyncd.config.edit import Reloaded
from hopsyncd.errors import ReaderUnavailable
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.backup_schedule import Backups
from hopsyncd.ingest.generation_switch import SwitchProgress
from hopsyncd.ingest.source_scheduler import BACKUP, name_full_scan_job, name_scan_job
from hopsyncd.ingest.sync_worker import UPGRADE
from hopsyncd.ingest.watch import SourceWatchers
from hopsyncd.models.loading import Models
from hopsyncd.responses.daemon_state import (
    AuditStatus,
    BackupStatus,
    ConfigurationStatus,
    HealthAnswer,
    ItemProblem,
    JobsAnswer,
    ListeningStatus,
    ScheduleAnswer,
    SkippedParts,
    SourcesAnswer,
    SourceStatus,
    StatsAnswer,
    StatusAnswer,
    StatusModels,
    StoreStatus,
    SwitchStatus,
    SyncProgress,
    UnavailableReader,
)
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from store.content import read_counters
from store.contract import Connection
from store.exceptions import StoreError
from store.open_database import format_place, measure_database, open_fresh_database, unreadable_file
from store.operational import JobRow, count_quarantined, count_waiting_by_reason, read_jobs
from store.purge import list_pending_purges
from store.sources import count_skipped_by_kind, list_item_problems, list_sources
from store.transactions import snapshot
from store.visibility import Mask

log = structlog.get_logger(__name__)

_Answer = TypeVar("_Answer")

MAX_PROBLEMS = 100  # in one answer, for all sources together


_KEEP_COUNTS_MS, _MOST_COUNTS = 2_000, 100


def read_clock_ms() -> int:
    """Return the Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(eq=False, repr=False)
class StatusService:
    """The endpoints that report the daemon's state, with the counts of its requests.

    `unavailable` has the media types whose readers do not work on this machine.
    """

    _parts: DaemonParts
    _watchers: SourceWatchers
    _unavailable: Mapping[str, ReaderUnavailable]
    _load: Load
    _backups: Backups
    _tls: ServerTls | None = None
    _started_ms: int = field(default_factory=read_clock_ms)
    _requests: Requests = field(default_factory=Requests)
    _skipped_at: dict[Mask, tuple[int, list[SkippedParts]]] = field(default_factory=dict)

    @endpoint("GET", "/v1/status", "read")
    def status(self, request: NoParameters, caller: Caller) -> StatusAnswer:
        """Report the state of the daemon and its sources."""
        writes_notes = self._parts.state.config.mcp.inbox is not None and caller.may("write")
        rights = sorted(right for right in get_args(Right) if caller.may(right))
        return {
            **self._describe_status_for(caller.acl),
            "notes": writes_notes,
            "caller": {"user": caller.name, "role": caller.role, "rights": rights},
        }

    def _describe_status_for(self, acl: Acl) -> StatusAnswer:
        return self._describe(
            lambda connection, error: self._describe_status(connection, acl, error)
        )

    def _describe(self, describe: Callable[[Connection, str | None], _Answer]) -> _Answer:
        """Call `describe` with the database, or with an empty database and an error text if the
        database cannot be read."""
        try:
            database = self._parts.state.config.database
            with (
                unreadable_file(database),
                snapshot(connection := self._parts.reader.get_connection()),
            ):
                return describe(connection, None)
        except StoreError as error:
            with closing(open_fresh_database()) as empty:
                return describe(empty, str(error))

    def _find_hidden(self, connection: Connection, acl: Acl) -> tuple[Mask, Snapshot | None]:
        """Return what `acl` hides, and the served version without it."""
        state = self._parts.state
        head = state.engine.head
        hidden = acl.select_hidden(self._parts.names.list_known(connection))
        if hidden:
            with state.engine.reading(hidden=acl) as (_, head):
                pass
        return hidden, head

    def _describe_status(
        self, connection: Connection, acl: Acl, trouble: str | None
    ) -> StatusAnswer:
        """Return the status, with the counts of the served version.

        A caller from whom sources are hidden gets no totals, and only admins get error texts,
        because these can name hidden sources.
        """
        worker, state = self._parts.worker, self._parts.state
        # Read before the version: a sync that ends later is still reported with the old version.
        syncing, pending = worker.busy, worker.pending
        hidden, head = self._find_hidden(connection, acl)
        whole, config = not hidden, state.config
        version = head.version if head else None
        endpoint, error = state.models.endpoint, self._parts.freshness.explain_error() or trouble
        return {
            "version": version.id if version else 0,
            "created": format_time(version.created_ms) if version else None,
            "documents": version.documents if version else 0,
            "passages": version.passages if version else 0,
            "edges": min(version.edge_budget, version.matches) if version else 0,
            "edge_budget": version.edge_budget if version else 0,
            "matches": version.matches if version else 0,
            "degraded": self._parts.freshness.list_reasons(acl, pending),
            "syncing": syncing,
            "pending": pending,
            "progress": self._measure_progress(acl),
            "error": error if acl.visible is None or not error else "the last sync failed",
            "sources": self._list_sources(connection, acl, hidden, head),
            "problems": _list_problems(connection, hidden),
            "skipped": self._count_skipped(connection, hidden),
            "unavailable_readers": self._list_unavailable_readers(),
            "watch_problems": self._parts.watched.list_problems() if whole else [],
            "purging": len(list_pending_purges(connection)) if whole else 0,
            "quarantined": count_quarantined(connection) if whole else 0,
            "counters": self._read_counters(connection) if whole else {},
            "waiting": count_waiting_by_reason(connection, version.id) if version and whole else {},
            "models": _describe_models(state.models, worker.switching if whole else None),
            "llm": endpoint.describe_status() if endpoint and whole else None,
            "llm_answers": state.models.llm is not None,
            "notes": False,
            "configuration": _describe_configuration(state.reloaded, whole),
            "store": self._store_status(),
            "audit": self._audit_status(acl),
            "backup": self._describe_backups(connection, acl) if whole else None,
            "database": format_place(config.database),
            "database_bytes": measure_database(config.database, connection) if whole else None,
            "socket": str(config.daemon.socket),
            "listening": self._describe_listening(config) if whole else None,
            "pid": os.getpid(),
            "started": format_moment(self._started_ms),
        }

    def _list_next_runs(self) -> dict[str, int]:
        """Return the Unix time in milliseconds at which each job runs next."""
        return {run.job: run.next_ms for run in self._parts.worker.list_next_runs()}

    def _list_sources(
        self, connection: Connection, acl: Acl, hidden: Mask, head: Snapshot | None
    ) -> list[SourceStatus]:
        """Describe the sources that the caller may see.

        `head` is the version as the caller sees it.
        """
        names, state = self._parts.names.configured, self._parts.state
        sees_rights = acl.visible is None
        rights = list_rights(state.config.sources, head, state.access) if sees_rights else {}
        next_ms = self._list_next_runs()
        return [
            describe_source(
                restrict_source(connection, row, head, hidden),
                row.name in names,
                next_ms.get(name_scan_job(row.name)),
                restrict_watch_status(
                    self._watchers.describe_status(row.name), acl.shows_whole(row.name)
                ),
                rights.get(row.name),
            )
            for row in list_sources(connection)
            if acl.shows(row.name) and (row.documents or row.name in names)
        ]

    def _read_counters(self, connection: Connection) -> dict[str, int]:
        return {**read_counters(connection), "queries": self._parts.metrics.questions}

    def _list_unavailable_readers(self) -> list[UnavailableReader]:
        return [
            {"media_type": kind, "why": reader.why, "hint": reader.hint}
            for kind, reader in sorted(dict(self._unavailable).items())
        ]

    def _describe_listening(self, config: Config) -> ListeningStatus | None:
        if not config.access.listen:
            return None
        tls = self._tls
        return {
            "address": config.access.listen,
            "expires": format_moment(int(tls.certificate.expires_s * 1000)) if tls else None,
            "problem": tls.problem if tls else None,
        }

    def _store_status(self) -> StoreStatus:
        follower = self._parts.follower
        if follower is None:
            return {"role": "writer", "behind": 0, "lost": False}
        return {
            "role": "reader" if follower.is_following else "writer",
            "behind": follower.behind,
            "lost": follower.trouble is not None,
        }

    def _audit_status(self, acl: Acl) -> AuditStatus:
        """Return the settings of the audit log. Only admins also get the number of lost lines."""
        status = self._parts.audit.describe_status()
        return status if acl.visible is None else {**status, "lost": 0, "problem": None}

    def _describe_backups(self, connection: Connection, acl: Acl) -> BackupStatus | None:
        folder = self._parts.state.config.backup.dir
        if folder is None:
            return None
        row, newest = read_jobs(connection).get(BACKUP), self._backups.newest
        error = row.error if row else None
        return {
            "folder": str(folder),
            "kept": self._backups.kept,
            "newest": newest.name if newest else None,
            "created": format_time(newest.manifest.created_ms if newest else None),
            "version": newest.manifest.version if newest else None,
            "bytes": newest.manifest.bytes if newest else None,
            "running": self._backups.is_running,
            "succeeded": format_time(row.succeeded_ms if row else None),
            "next": format_time(self._list_next_runs().get(BACKUP)),
            "error": error if acl.visible is None or not error else "the last backup failed",
        }

    def _count_skipped(self, connection: Connection, hidden: Mask) -> list[SkippedParts]:
        """Count the parts of documents that readers skipped. The counts are cached."""
        now = read_clock_ms()
        counted_ms, counts = self._skipped_at.get(hidden, (0, []))
        if now - counted_ms > _KEEP_COUNTS_MS:
            counts = [
                {"kind": kind, "parts": parts, "documents": documents}
                for kind, parts, documents in count_skipped_by_kind(connection, hidden)
            ]
            if len(self._skipped_at) > _MOST_COUNTS:
                self._skipped_at.clear()
            self._skipped_at[hidden] = now, counts
        return counts

    @endpoint("GET", "/v1/sources", "read")
    def sources(self, request: NoParameters, caller: Caller) -> SourcesAnswer:
        """List sources and their states."""
        acl, pending = caller.acl, self._parts.worker.pending  # read before the version

        def describe(connection: Connection, _: str | None) -> SourcesAnswer:
            hidden, head = self._find_hidden(connection, acl)
            return {
                "version": head.version.id if head else 0,
                "degraded": self._parts.freshness.list_reasons(acl, pending),
                "sources": self._list_sources(connection, acl, hidden, head),
            }

        return self._describe(describe)

    @endpoint("GET", "/v1/health", "health")
    def health(self, request: NoParameters, caller: Caller) -> HealthAnswer:
        """Report whether the daemon can answer; fast enough for frequent checks."""
        self._parts.freshness.require_database()
        return {"status": "ok", "version": self._parts.state.version}

    @endpoint("GET", "/v1/schedule", "read")
    def schedule(self, request: NoParameters, caller: Caller) -> ScheduleAnswer:
        """List scheduled jobs and their last runs."""
        rows = read_jobs(self._parts.reader.get_connection())
        state, removed = self._parts.state, {*self._parts.names.removed}
        asks_llm = state.models.endpoint and state.config.llm.questions != "off"
        hidden = {
            job(name)
            for name in {source.name for source in state.config.sources} | removed
            if name in removed or not caller.acl.shows(name)
            for job in (name_scan_job, name_full_scan_job)
        }
        visible_jobs = {
            job(source.name)
            for source in state.config.sources
            if caller.acl.shows_whole(source.name)
            for job in (name_scan_job, name_full_scan_job)
        }
        return {
            "jobs": [
                {
                    "job": next_run.job,
                    "times": next_run.times,
                    "next": format_moment(next_run.next_ms),
                    "last_run": format_time(row.ran_ms) if row else None,
                    "last_success": format_time(row.succeeded_ms) if row else None,
                    "last_error": _explain_failure(caller.acl, row, next_run.job in visible_jobs),
                }
                for next_run in sorted(
                    self._parts.worker.list_next_runs(), key=lambda next_run: next_run.next_ms
                )
                for row in (rows.get(next_run.job),)
                if (asks_llm or next_run.job != UPGRADE) and next_run.job not in hidden
            ]
        }

    @endpoint("GET", "/v1/jobs", "read")
    def jobs(self, request: NoParameters, caller: Caller) -> JobsAnswer:
        """List the running sync and the scheduled jobs."""
        return {
            "running": self._measure_progress(caller.acl),
            "pending": self._parts.worker.pending,
            "jobs": self.schedule(request, caller)["jobs"],
        }

    @endpoint("GET", "/v1/stats", "read")
    def stats(self, request: NoParameters, caller: Caller) -> StatsAnswer:
        """Count requests since the daemon started, by endpoint."""
        behind = self._parts.worker.pending
        with self._parts.state.engine.reading(hidden=caller.acl) as (_, head):
            version = head.version if head else None
        return {
            "version": version.id if version else 0,
            "degraded": self._parts.freshness.list_reasons(caller.acl, behind),
            "passages": version.passages if version else 0,
            "queries": self._parts.metrics.questions,
            "requests": self._requests.sum_by_operation(),
            "connections": self._load.connections,
            "refused": self._load.refused,
            "queue": self._load.queue,
        }

    @endpoint("GET", "/v1/metrics", "metrics", media_type=METRICS_TYPE)
    def metrics(self, request: NoParameters, caller: Caller) -> str:
        """Return metrics in Prometheus's text format."""
        endpoint = self._parts.state.models.endpoint
        spent = endpoint.ledger.sum_spending(0) if endpoint else ()
        status, folder = (
            self._describe_status_for(EVERYTHING),
            self._parts.state.config.daemon.data_dir,
        )
        return self._parts.metrics.format_text(status, self._load, spent, folder)

    def measure_progress(self) -> SyncProgress | None:
        """Return the progress of the current sync, or None if no sync is running."""
        return self._measure_progress(EVERYTHING)

    def _measure_progress(self, acl: Acl) -> SyncProgress | None:
        progress = self._parts.worker.progress
        if progress is None or not acl.shows_whole(progress.source):
            return None
        return {
            "source": progress.source,
            "again": progress.again,
            "documents_done": progress.documents_done,
            "documents_total": progress.documents_total,
            "passages_done": progress.passages_done,
            "passages_total": progress.passages_total,
            "share": round(progress.share, 4),
        }

    def note(self, operation: str, status: int, took_ms: float) -> None:
        self._requests.note(operation, status, took_ms)
        self._parts.metrics.note_request(operation, status, took_ms / 1000)
        log.debug("request", operation=operation, status=status, took_ms=round(took_ms, 1))

    def summarise(self) -> str:
        """Summarise the daemon's state in one line, without names.

        Reads no file, so the event loop may call this method.
        """
        state = self._parts.state
        head = state.engine.head
        if head is None:
            return "nothing is indexed yet"
        version = head.version
        doing = "indexing" if self._parts.worker.pending else "up to date"
        if self._parts.freshness.explain_error():
            waits = self._parts.worker.waits_for_encoder
            doing = "indexing waits for the encoder" if waits else "the last sync failed"
        if state.reloaded.refused:
            doing += ", the changed configuration is refused"
        return f"version {version.id}: {version.passages} passages, {doing}"


def _explain_failure(acl: Acl, row: JobRow | None, in_full: bool) -> str | None:
    """Explain why a job failed. Members get a general text, because the error may name hidden
    items."""
    if row is None or row.error is None:
        return None
    if acl.visible is None or in_full:
        return row.error
    return "the last run failed; an admin can see why in `hopsyncd schedule`"


def _list_problems(connection: Connection, hidden: Mask) -> list[ItemProblem]:
    return [
        {"source": source, "document": path, "why": why, "hint": hint}
        for source, path, why, hint in list_item_problems(connection, MAX_PROBLEMS, hidden)
    ]


def _describe_configuration(reloaded: Reloaded, whole: bool) -> ConfigurationStatus:
    return {
        "refused": reloaded.refused if whole else None,
        "restart_needed": list(reloaded.restart_needed) if whole else [],
    }


def _describe_switch(models: Models, progress: SwitchProgress) -> SwitchStatus:
    endpoint = models.encoder_endpoint
    is_known = endpoint is None or endpoint.is_known
    generation = models.maker.generation.name if is_known else models.encoder.name
    return {
        "generation": generation,
        "encoder": models.encoder.name,
        "passages_done": progress.done,
        "passages_total": progress.total,
        "left_s": None if progress.left_s is None else round(progress.left_s, 1),
        "problem": progress.problem,
    }


def _describe_models(models: Models, progress: SwitchProgress | None) -> StatusModels:
    endpoint = models.encoder_endpoint
    is_known = endpoint is None or endpoint.is_known
    generation = models.maker.generation.name if is_known else models.encoder.name
    reranker = models.reranker_endpoint
    # The endpoint of the next models already receives passages.
    next_endpoint = models.next.encoder_endpoint if models.next else None
    next_endpoint = next_endpoint or endpoint
    return {
        "generation": generation,
        "recipe": generation,
        "encoder_endpoint": next_endpoint.describe_status() if next_endpoint else None,
        "reranker_endpoint": reranker.describe_status() if reranker else None,
        "encoder_due": models.newer.encoder.name if models.newer else None,
        "preparing": models.preparing,
        "switch": _describe_switch(models.next, progress) if models.next and progress else None,
        "cluster": models.cluster,
        "llm_endpoint": models.endpoint.describe_status()["endpoint"] if models.endpoint else None,
    }
