"""The endpoints that change the index or the database. Only the writer's thread writes."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.requests import (
    CheckRequest,
    GcRequest,
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
from hopsyncd.api.serving import DaemonParts
from hopsyncd.api.status_service import MAX_PROBLEMS, read_clock_ms
from hopsyncd.api.worker_pools import Listener
from hopsyncd.config.configuration import Config
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.ingest.preview import format_preview
from hopsyncd.ingest.removal import drop_mirror, finish_purges, remove_source_documents
from hopsyncd.ingest.source_scheduler import GC
from hopsyncd.ingest.source_sync import SourceSync, SyncOutcome
from hopsyncd.ingest.upkeep import (
    add_tag,
    check_database,
    collect_garbage,
    include_document_again,
    pause_source,
    purge_document,
    rebuild_all,
    release_sources,
    remove_tag,
    restore_sources,
    resume_source,
)
from hopsyncd.models.embedding.kept_exports import remove_unused_exports
from hopsyncd.models.loading import CACHE_NAME
from hopsyncd.responses.changes import (
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
    SyncedSource,
    TagAnswer,
    UntagAnswer,
)
from hopsyncd.retrieve.engine import Engine
from store.content import list_encoders
from store.contract import Connection
from store.gc import Retention
from store.history import count_source_changes
from store.purge import list_pending_purges
from store.restoring import drop_replaced
from store.sources import list_item_problems
from store.transactions import snapshot
from store.versions import read_head

log = structlog.get_logger(__name__)

First = TypeVar("First")
Second = TypeVar("Second")


def collect(
    pipeline: SourceSync, config: Config, engine: Engine, *, dry_run: bool = False
) -> GcAnswer:
    """Delete the versions that the configured retention does not keep, on the writer's thread.

    Versions that a request is reading are kept until the next run.
    """
    retention = Retention(
        config.retention.keep_versions, config.retention.keep_days, engine.being_read
    )
    try:
        result = collect_garbage(pipeline, retention, read_clock_ms(), dry_run)
    finally:
        engine.forget_pasts()
    if result["versions"] and not dry_run and pipeline.writer.index.is_worn:
        reload_index(pipeline, engine)
    if not dry_run:
        cache = config.daemon.data_dir / CACHE_NAME
        remove_unused_exports(cache, list_encoders(pipeline.connection))
        log.info("gc", versions=len(result["versions"]), freed_bytes=result["freed_bytes"])
    return result


def reload_index(pipeline: SourceSync, engine: Engine) -> None:
    """Load an index without the content that a purge removed from every version, and serve it."""
    pipeline.writer.forget_index()
    newest = read_head(pipeline.connection)
    if newest and pipeline.writer.serves(newest):
        engine.publish(pipeline.writer.make_snapshot(newest))
    engine.forget_pasts()


class ReportedVersions:
    """Remembers which changes `sync` has reported, for each caller and source.

    For a caller's first sync, changes are reported since the version at the daemon's start.
    """

    def __init__(self, at_start: int) -> None:
        self._at_start = at_start
        self._versions: dict[tuple[str, str], int] = {}

    def list_reported_versions(self, caller: str, sources: Collection[str]) -> dict[str, int]:
        """Return the version up to which each source's changes were reported to the caller."""
        return {name: self._versions.get((caller, name), self._at_start) for name in sources}

    def note(self, caller: str, sources: Collection[str], version: int) -> None:
        """Record that these sources' changes up to `version` were reported to the caller."""
        self._versions |= {(caller, name): version for name in sources}


@dataclass(eq=False, repr=False)
class AdminService:
    """The endpoints of administration.

    `_reported` has the versions up to which `sync` has reported changes. `_removed` has the names
    of the sources that were removed but are still configured. `_reload` applies the changed
    configuration. `_reencode` embeds all passages with the configured encoder, or reports the cost
    if its second argument (`dry_run`) is true.
    """

    _parts: DaemonParts
    _reported: ReportedVersions
    _removed: set[str]
    _reload: Callable[[], ReloadAnswer]
    _reencode: Callable[[SourceSync, bool], RebuildAnswer]

    @endpoint("POST", "/v1/sync", "admin", streams=True, may_accept=True)
    def sync(self, request: SyncRequest, caller: Caller) -> Future[SyncAnswer]:
        """Scan sources, and bring the graph up to date with the files on disk."""
        since = self._reported.list_reported_versions(
            caller.name, self._require_names(request.sources)
        )
        self._parts.freshness.require_database()

        def answer(outcomes: Sequence[SyncOutcome]) -> SyncAnswer:
            changes = _sync_answer(
                self._parts.reader.get_connection(), outcomes, since, self._parts.state.version
            )
            self._reported.note(
                caller.name, [outcome.source for outcome in outcomes], changes["version"]
            )
            changes["degraded"] = self._parts.freshness.list_reasons()
            return changes

        return _convert_result(
            self._parts.worker.request(request.sources, request.accept_empty), answer
        )

    @endpoint("POST", "/v1/preview", "admin")
    def preview(self, request: PreviewRequest, caller: Caller) -> PreviewAnswer:
        """Report what a sync would change and cost, without syncing."""
        self._parts.freshness.require_database()
        names = self._require_names(request.sources)
        config = self._parts.state.config
        sources = format_preview(self._parts.reader.get_connection(), config, names, request.limit)
        sources["degraded"] = self._parts.freshness.list_reasons()
        return sources

    def _require_names(self, named: Sequence[str]) -> Sequence[str]:
        """Return the names in `named`, or all names if `named` is empty. Raises BadRequest for an
        unknown name."""
        names = self._parts.names.configured
        for name in named:
            if name not in names:
                raise BadRequest(
                    "The request was refused",
                    f"there is no source named {name!r}",
                    f"The sources are: {', '.join(names) or 'none'}",
                )
        return named or names

    @endpoint("POST", "/v1/restore", "admin")
    def restore(self, request: RestoreRequest, caller: Caller) -> Future[RestoreAnswer]:
        """Commit a new version with the documents of an earlier version."""
        names = self._require_names(request.sources)
        return self._parts.worker.submit(
            lambda pipeline: restore_sources(pipeline, request.version, names)
        )

    @endpoint("POST", "/v1/release", "admin", streams=True)
    def release(self, request: ReleaseRequest, caller: Caller) -> Future[SyncAnswer]:
        """Unpin the documents that restores pinned, and sync."""
        names = self._require_names(request.sources)
        unpinned = self._parts.worker.submit(lambda pipeline: release_sources(pipeline, names))
        scanned = self.sync(SyncRequest(sources=request.sources), caller)

        def raise_failure(answer: SyncAnswer) -> SyncAnswer:
            unpinned.result()  # does not block: the job ran before the sync
            return answer

        return _convert_result(scanned, raise_failure)

    @endpoint("POST", "/v1/pause", "admin")
    def pause(self, request: PauseRequest, caller: Caller) -> Future[PauseAnswer]:
        """Stop reading a source until it is resumed."""
        (name,) = self._require_names([request.name])
        return self._parts.worker.submit(
            lambda pipeline: pause_source(pipeline, name, read_clock_ms())
        )

    @endpoint("POST", "/v1/resume", "admin")
    def resume(self, request: PauseRequest, caller: Caller) -> Future[PauseAnswer]:
        """Resume a paused source."""
        (name,) = self._require_names([request.name])
        result = self._parts.worker.submit(lambda pipeline: resume_source(pipeline, name))
        self._parts.worker.add_change(name, None)
        return result

    @endpoint("POST", "/v1/remove", "admin")
    def remove(self, request: RemoveRequest, caller: Caller) -> Future[RemoveAnswer]:
        """Remove a source's documents from the newest version, or from all versions."""

        def job(pipeline: SourceSync) -> RemoveAnswer:
            self._removed.add(request.name)
            pipeline.paused.pop(request.name, None)
            try:
                result = remove_source_documents(
                    pipeline.connection,
                    partial(pipeline.commit, yield_to_edits=pipeline.yield_to_edits),
                    request.name,
                    request.purge,
                    pipeline.yield_to_edits,
                )
            finally:
                if request.purge:
                    self._drop_purged_text(pipeline)
            drop_mirror(self._parts.state.config, request.name)
            return result

        self._parts.freshness.require_database()
        if request.name not in self._parts.names.list_visible():
            raise NotFound(
                f"Cannot remove {request.name!r}",
                f"no source is called {request.name!r}",
                "`hopsyncd sources` lists the sources",
            )
        return self._parts.worker.submit(job)

    @endpoint("POST", "/v1/tags", "admin")
    def tag(self, request: TagRequest, caller: Caller) -> Future[TagAnswer]:
        """Give a version a name."""
        return self._parts.worker.submit(
            lambda pipeline: add_tag(pipeline, request.name, request.version, read_clock_ms())
        )

    @endpoint("DELETE", "/v1/tags/{name}", "admin")
    def untag(self, request: UntagRequest, caller: Caller) -> Future[UntagAnswer]:
        """Remove a tag from its version."""
        return self._parts.worker.submit(lambda pipeline: remove_tag(pipeline, request.name))

    @endpoint("POST", "/v1/check", "admin", streams=True)
    def check(self, request: CheckRequest, caller: Caller, listener: Listener) -> CheckAnswer:
        """Verify the database."""
        self._parts.freshness.require_database()

        def tell(name: str, done: int, total: int) -> None:
            listener.tell("progress", checking=name, checks_done=done, checks_total=total)

        return check_database(self._parts.reader.get_connection(), request.deep, tell)

    @endpoint("POST", "/v1/rebuild", "admin")
    def rebuild(self, request: RebuildRequest, caller: Caller) -> Future[RebuildAnswer]:
        """Recompute everything that is derived from passages and questions."""
        if request.encoder:
            return self._parts.worker.submit(
                lambda pipeline: self._reencode(pipeline, request.dry_run)
            )
        if request.dry_run:
            raise BadRequest(
                "The request was refused",
                "`dry_run` works only with `encoder`",
                "Add `encoder`, or leave `dry_run` out",
            )
        return self._parts.worker.submit(rebuild_all)

    @endpoint("POST", "/v1/gc", "admin")
    def gc(self, request: GcRequest, caller: Caller) -> Future[GcAnswer]:
        """Delete the versions that [retention] does not keep. With `dry_run`, only report them."""
        state = self._parts.state
        job = partial(collect, config=state.config, engine=state.engine, dry_run=request.dry_run)
        return self._parts.worker.submit(job, None if request.dry_run else GC)

    @endpoint("POST", "/v1/purge", "admin")
    def purge(self, request: PurgeRequest, caller: Caller) -> Future[PurgeAnswer]:
        """Remove a document from every version; with `again`, let scans index it again."""

        def job(pipeline: SourceSync) -> PurgeAnswer:
            if request.again:
                return include_document_again(pipeline, request.document, request.source)
            try:
                return purge_document(pipeline, request.document, request.source, read_clock_ms())
            finally:
                self._drop_purged_text(pipeline)

        return self._parts.worker.submit(job)

    def continue_purges(self, pipeline: SourceSync) -> None:
        """Continue interrupted purges once the database is open."""
        if count := len(list_pending_purges(pipeline.connection)):
            log.info("interrupted purges continue", purges=count)
            self._parts.worker.submit(self._finish_purges).add_done_callback(_log_failure)

    def _finish_purges(self, pipeline: SourceSync) -> None:
        try:
            emptied = finish_purges(pipeline)
        finally:
            self._drop_purged_text(pipeline)
        log.info("purged")
        for name in emptied.intersection(self._parts.names.configured):
            self._parts.worker.add_change(name, None)

    def _drop_purged_text(self, pipeline: SourceSync) -> None:
        """Drop all caches and files that may contain purged text."""
        drop_replaced(self._parts.state.config.daemon.data_dir)
        reload_index(pipeline, self._parts.state.engine)
        self._parts.workers.require_update(self._parts.state.version)

    @endpoint("POST", "/v1/reload", "admin")
    def reload(self, request: ReloadRequest, caller: Caller) -> ReloadAnswer:
        """Apply the changed configuration."""
        return self._reload()


def _sync_answer(
    connection: Connection, outcomes: Sequence[SyncOutcome], since: dict[str, int], served: int
) -> SyncAnswer:
    """Build the answer of a sync: the served version, each source's changes, and unreadable
    documents.

    The served version contains all requested changes. If another daemon writes, the database may
    have newer versions.
    """
    with snapshot(connection):
        newest = read_head(connection)
        now = min(newest.id, served or newest.id) if newest else 0
        problems = list_item_problems(connection, MAX_PROBLEMS)
        sources: list[SyncedSource] = [
            {
                "name": outcome.source,
                "since": since.get(outcome.source, 0),
                "added": changes.added,
                "changed": changes.changed,
                "moved": changes.moved,
                "removed": changes.removed,
                "unreadable": [
                    {"document": path, "why": why, "hint": hint}
                    for name, path, why, hint in problems
                    if name == outcome.source
                ],
                "problem": outcome.problem,
            }
            for outcome in outcomes
            for changes in [
                count_source_changes(connection, outcome.source, since.get(outcome.source, 0), now)
            ]
        ]
    return {"version": now, "sources": sources, "degraded": []}


def _log_failure(future: Future[None]) -> None:
    if error := future.exception():
        log.error(
            "a purge was interrupted; it continues when the daemon starts again", why=str(error)
        )


def _convert_result(first: Future[First], convert: Callable[[First], Second]) -> Future[Second]:
    """Return a future for the result of `convert`, which is called with the result of `first`. An
    error of either is passed on."""
    result: Future[Second] = Future()
    result.set_running_or_notify_cancel()

    def set_result(future: Future[First]) -> None:
        try:
            result.set_result(convert(future.result()))
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            result.set_exception(error)

    first.add_done_callback(set_result)
    return result
