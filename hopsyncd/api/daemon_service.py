"""The API of a daemon: one method for each endpoint; writes run on the writer's thread."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from hopsyncd.answers.changed import (
    BackupAnswer,
    CheckAnswer,
    GcAnswer,
    PauseAnswer,
    PreviewAnswer,
    PurgeAnswer,
    RebuildAnswer,
    ReloadAnswer,
    RemoveAnswer,
    RestoreAnswer,
    SyncAnswer,
    TagAnswer,
    UntagAnswer,
)
from hopsyncd.answers.daemon_state import (
    HealthAnswer,
    JobsAnswer,
    ScheduleAnswer,
    SourcesAnswer,
    StatsAnswer,
    StatusAnswer,
    SyncProgress,
)
from hopsyncd.api.access import Caller
from hopsyncd.api.endpoints import openapi_document
from hopsyncd.api.metrics import Load, Requests
from hopsyncd.api.read_service import ReadService
from hopsyncd.api.requests import (
    BackupRequest,
    CheckRequest,
    GcRequest,
    NoParameters,
    PauseRequest,
    PreviewRequest,
    PurgeRequest,
    RebuildRequest,
    ReleaseRequest,
    ReloadRequest,
    RemoveRequest,
    RestoreRequest,
    SyncRequest,
    TagRequest,
    UntagRequest,
)
from hopsyncd.api.status import (
    DaemonState,
    ReportedVersions,
    schedule_answer,
    status_answer,
    sync_answer,
    sync_progress,
)
from hopsyncd.api.streaming import Listener
from hopsyncd.config.configuration import Config
from hopsyncd.config.reload import Reloaded
from hopsyncd.errors import BadRequest, NotFound, ReaderUnavailable
from hopsyncd.ingest.preview import preview_json
from hopsyncd.ingest.removal import drop_mirror, removed
from hopsyncd.ingest.source_scheduler import full_scan_job, scan_job
from hopsyncd.ingest.source_sync import SourceSync, SyncOutcome
from hopsyncd.ingest.timetable import GC
from hopsyncd.ingest.upkeep import (
    backed_up,
    checked,
    collected,
    included_again,
    paused,
    purged,
    rebuilt,
    released,
    restored,
    resumed,
    tagged,
    untagged,
)
from hopsyncd.ingest.watch import FolderWatcher
from hopsyncd.ingest.writer import UPGRADE, SyncWorker
from hopsyncd.models.loading import Models
from hopsyncd.retrieve.engine import Engine
from store.exceptions import StoreError
from store.sqlite.database import SqliteError, fresh_database
from store.sqlite.gc import Retention

log = structlog.get_logger(__name__)

First = TypeVar("First")
Second = TypeVar("Second")


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def collect(path: SourceSync, config: Config, engine: Engine, *, dry_run: bool = False) -> GcAnswer:
    """Collect the versions that the configured retention does not keep, on the writer's thread.

    Versions that a request is reading are left for the next time.
    """
    retention = Retention(
        config.retention.keep_versions, config.retention.keep_days, engine.being_read
    )
    try:
        done = collected(path, retention, now_ms(), dry_run)
    finally:
        engine.forget_pasts()
    if not dry_run:
        log.info("gc", versions=len(done["versions"]), freed_bytes=done["freed_bytes"])
    return done


class DaemonService(ReadService):
    """Implements api.endpoints.Service. `reloaded` has the result of the last reload."""

    def __init__(
        self,
        config: Config,
        models: Models,
        engine: Engine,
        worker: SyncWorker,
        watchers: Mapping[str, FolderWatcher],
        reload: Callable[[], ReloadAnswer],
    ) -> None:
        super().__init__(config, models, engine, worker)
        self._reload = reload
        self.reloaded = Reloaded()
        self.load = Load()
        self._recipe = models.maker.recipe.name
        self._endpoint = models.endpoint
        self._watchers = watchers
        self._started_ms = now_ms()
        self._requests = Requests()
        self.unavailable: dict[str, ReaderUnavailable] = {}  # by media type
        self.reported = ReportedVersions()
        self.removed: set[str] = set()  # removed, though the configuration still has them

    def sync(self, request: SyncRequest, caller: Caller) -> Future[SyncAnswer]:
        since = self.reported.known_to(caller.name, self._wanted(request.sources))
        self.require_database()

        def answer(outcomes: Sequence[SyncOutcome]) -> SyncAnswer:
            changes = sync_answer(self._reader(), outcomes, since)
            self.reported.note(caller.name, [one.source for one in outcomes], changes["version"])
            changes["degraded"] = self._degraded()
            return changes

        return _then(self._worker.request(request.sources, request.accept_empty), answer)

    def preview(self, request: PreviewRequest, _: Caller) -> PreviewAnswer:
        self.require_database()
        wanted = self._wanted(request.sources)
        found = preview_json(self._reader(), self.config, wanted, request.limit)
        found["degraded"] = self._degraded()
        return found

    def _wanted(self, named: Sequence[str]) -> Sequence[str]:
        """The named sources, or all if none is named. Raises BadRequest for an unknown name."""
        names = self._names()
        for name in named:
            if name not in names:
                raise BadRequest(
                    "The request was refused",
                    f"there is no source named {name!r}",
                    f"The sources are: {', '.join(names) or 'none'}",
                )
        return named or names

    def _names(self) -> list[str]:
        return [one.name for one in self.config.sources if one.name not in self.removed]

    def restore(self, request: RestoreRequest, _: Caller) -> Future[RestoreAnswer]:
        wanted = self._wanted(request.sources)
        return self._worker.submit(lambda path: restored(path, request.version, wanted))

    def release(self, request: ReleaseRequest, caller: Caller) -> Future[SyncAnswer]:
        wanted = self._wanted(request.sources)
        unpinned = self._worker.submit(lambda path: released(path, wanted))
        scanned = self.sync(SyncRequest(sources=request.sources), caller)

        def unless_failed(done: SyncAnswer) -> SyncAnswer:
            unpinned.result()  # done by now: jobs run before syncs
            return done

        return _then(scanned, unless_failed)

    def pause(self, request: PauseRequest, _: Caller) -> Future[PauseAnswer]:
        (name,) = self._wanted([request.name])
        return self._worker.submit(lambda path: paused(path, name, now_ms()))

    def resume(self, request: PauseRequest, _: Caller) -> Future[PauseAnswer]:
        (name,) = self._wanted([request.name])
        done = self._worker.submit(lambda path: resumed(path, name))
        self._worker.hint(name, None)
        return done

    def remove(self, request: RemoveRequest, _: Caller) -> Future[RemoveAnswer]:
        def job(path: SourceSync) -> RemoveAnswer:
            self.removed.add(request.name)
            path.paused.pop(request.name, None)
            try:
                done = removed(path.connection, path.commit, request.name, request.purge)
            finally:
                self._engine.forget_pasts()
            drop_mirror(self.config, request.name)
            return done

        self.require_database()
        if request.name not in self._known():
            raise NotFound(
                f"Cannot remove {request.name!r}",
                "there is no source of that name",
                "`hopsyncd sources` lists them",
            )
        return self._worker.submit(job)

    def tag(self, request: TagRequest, _: Caller) -> Future[TagAnswer]:
        return self._worker.submit(
            lambda path: tagged(path, request.name, request.version, now_ms())
        )

    def untag(self, request: UntagRequest, _: Caller) -> Future[UntagAnswer]:
        return self._worker.submit(lambda path: untagged(path, request.name))

    def check(self, request: CheckRequest, _: Caller, listener: Listener) -> CheckAnswer:
        self.require_database()

        def tell(name: str, done: int, total: int) -> None:
            listener.tell("progress", checking=name, checks_done=done, checks_total=total)

        return checked(self._reader(), request.deep, tell)

    def backup(self, request: BackupRequest, _: Caller) -> BackupAnswer:
        self.require_database()
        return backed_up(self._reader(), Path(request.file))

    def rebuild(self, request: RebuildRequest, _: Caller) -> Future[RebuildAnswer]:
        return self._worker.submit(rebuilt)

    def gc(self, request: GcRequest, _: Caller) -> Future[GcAnswer]:
        job = partial(collect, config=self.config, engine=self._engine, dry_run=request.dry_run)
        return self._worker.submit(job, None if request.dry_run else GC)

    def purge(self, request: PurgeRequest, _: Caller) -> Future[PurgeAnswer]:
        def job(path: SourceSync) -> PurgeAnswer:
            if request.again:
                return included_again(path, request.document, request.source)
            try:
                return purged(path, request.document, request.source, now_ms())
            finally:
                self._engine.forget_pasts()

        return self._worker.submit(job)

    def schedule(self, _: NoParameters, caller: Caller) -> ScheduleAnswer:
        asks_llm = self._endpoint and self.config.llm.questions != "off"
        hidden = {
            job(name) for name in caller.hidden | self.removed for job in (scan_job, full_scan_job)
        }
        planned = [
            one
            for one in self._worker.planned()
            if (asks_llm or one.job != UPGRADE) and one.job not in hidden
        ]
        return schedule_answer(self._reader(), planned)

    def status(self, _: NoParameters, caller: Caller) -> StatusAnswer:
        state = self._state(caller.hidden)
        try:
            return status_answer(self._reader(), state)
        except (StoreError, SqliteError) as error:
            # The database cannot be read. The rest of the status can still say so.
            with closing(fresh_database()) as empty:
                return status_answer(empty, replace(state, error=state.error or str(error)))

    def sources(self, request: NoParameters, caller: Caller) -> SourcesAnswer:
        whole = self.status(request, caller)
        return {
            "version": whole["version"],
            "degraded": whole["degraded"],
            "sources": whole["sources"],
        }

    def health(self, _: NoParameters, __: Caller) -> HealthAnswer:
        self.require_database()
        return {"status": "ok", "version": self._version}

    def jobs(self, request: NoParameters, caller: Caller) -> JobsAnswer:
        return {
            "running": self._progress(caller.hidden),
            "pending": self._worker.pending,
            "jobs": self.schedule(request, caller)["jobs"],
        }

    def stats(self, _: NoParameters, caller: Caller) -> StatsAnswer:
        with self._engine.reading(hidden=caller.hidden) as (__, head):
            version = head.version if head else None
        return {
            "version": version.id if version else 0,
            "degraded": self._degraded(caller.hidden),
            "passages": version.passages if version else 0,
            "queries": self._queries,
            "requests": self._requests.by_operation(),
            "connections": self.load.connections,
            "refused": self.load.refused,
            "queue": self.load.queue,
        }

    def metrics(self, request: NoParameters, caller: Caller) -> str:
        spent = self._endpoint.ledger.spent(0) if self._endpoint else ()
        return self.measurements.text(self.status(request, caller), self.load, spent)

    def reload(self, _: ReloadRequest, __: Caller) -> ReloadAnswer:
        return self._reload()

    def openapi(self, _: NoParameters, __: Caller) -> dict[str, Any]:
        return openapi_document()

    def progress(self) -> SyncProgress | None:
        return self._progress(frozenset())

    def _progress(self, hidden: frozenset[str]) -> SyncProgress | None:
        return (
            sync_progress(self.path.progress, hidden) if self.path and self._worker.busy else None
        )

    def note(self, operation: str, status: int, took_ms: float) -> None:
        self._requests.note(operation, status, took_ms)
        self.measurements.note_request(operation, status, took_ms / 1000)
        log.debug("request", operation=operation, status=status, took_ms=round(took_ms, 1))

    def summary(self) -> str:
        """One line on the daemon's state, without names. Safe on the event loop: reads no file."""
        head = self._engine.head
        if head is None:
            return "nothing is indexed yet"
        version = head.version
        doing = "indexing" if self._worker.pending else "up to date"
        if self._error():
            doing = "the last sync failed"
        if self.reloaded.refused:
            doing += ", the changed configuration is refused"
        return f"version {version.id}: {version.passages} passages, {doing}"

    def _state(self, hidden: frozenset[str]) -> DaemonState:
        head = self._engine.head
        if hidden:
            with self._engine.reading(hidden=hidden) as (_, restricted):
                head = restricted
        names = self._names()
        jobs = {one.job: one.next_ms for one in self._worker.planned()}
        return DaemonState(
            database=self._database,
            socket=self.config.daemon.socket,
            started_ms=self._started_ms,
            version=head.version if head else None,
            recipe=self._recipe,
            configured=tuple(names),
            next_ms={name: jobs[scan_job(name)] for name in names if scan_job(name) in jobs},
            watching={name: watcher.status() for name, watcher in dict(self._watchers).items()},
            progress=self.path.progress if self.path else None,
            busy=self._worker.busy,
            pending=self._worker.pending,
            error=self._error(),
            degraded=self._degraded(hidden),
            unavailable=dict(self.unavailable),
            queries=self._queries,
            llm=self._endpoint.status() if self._endpoint else None,
            config_refused=self.reloaded.refused,
            restart_needed=self.reloaded.restart_needed,
            hidden=hidden,
        )


def _then(first: Future[First], convert: Callable[[First], Second]) -> Future[Second]:
    """A future of the converted result, or of the error of either step."""
    result: Future[Second] = Future()
    result.set_running_or_notify_cancel()

    def pass_on(done: Future[First]) -> None:
        try:
            result.set_result(convert(done.result()))
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            result.set_exception(error)

    first.add_done_callback(pass_on)
    return result
