"""The daemon: the one place that puts the parts together."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from connectors.folder import widened
from connectors.protocol import Connector
from hopsyncd.answering.asker import Asker
from hopsyncd.answering.reply import reply_json
from hopsyncd.config import DATABASE_NAME, Config
from hopsyncd.config_sources import FolderSource, SourceConfig
from hopsyncd.errors import BadRequest
from hopsyncd.extraction.process import ExtractionProcess
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.jobs import GC, full_scan_times, gc_times, scan_times, schedule_json
from hopsyncd.llm.meter import Meter
from hopsyncd.logs import configure_logs
from hopsyncd.models import Models, load_models
from hopsyncd.preview import preview_json
from hopsyncd.query.answer import answer_json
from hopsyncd.query.engine import Engine
from hopsyncd.query.head import head_of, load_head
from hopsyncd.removal import drop_mirror, removed
from hopsyncd.serve.app import make_app
from hopsyncd.serve.history import diff_json, entry_json
from hopsyncd.serve.requests import (
    AskRequest,
    BackupRequest,
    CheckRequest,
    GcRequest,
    PauseRequest,
    PreviewRequest,
    PurgeRequest,
    QueryRequest,
    RebuildRequest,
    ReleaseRequest,
    RemoveRequest,
    RestoreRequest,
    SyncRequest,
    TagRequest,
)
from hopsyncd.serve.server import serve
from hopsyncd.serve.socket import bound_socket
from hopsyncd.serve.status import Served, status_json
from hopsyncd.sources import Unusable, connector_of, folder_of, settings_of
from hopsyncd.strategy import Search
from hopsyncd.sync.apply import Writer
from hopsyncd.sync.aside import Aside, Caller, Here
from hopsyncd.sync.read import READER, rules_of
from hopsyncd.sync.rota import Task, full_scan_job, scan_job
from hopsyncd.sync.sync import Outcome, Source, SourceSync
from hopsyncd.sync.watch import FolderWatcher
from hopsyncd.sync.worker import UPGRADE, Chore, SyncWorker
from hopsyncd.upkeep import (
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
from store.check import opening_check
from store.content import recipe_of
from store.database import Connection, open_reader, open_writer, snapshot, writer_place
from store.errors import StoreError
from store.gc import Retention
from store.history import log as history_log
from store.history import resolve
from store.quarantine import end_quarantine, put_quarantined, quarantined
from store.records import Version
from store.sources import listing_state, register_source
from store.versions import head
from store.waiting import end_waits

log = structlog.get_logger(__name__)

First = TypeVar("First")

_STOP_WORKER_S = 6.0
_STOP_CALLS_S = 2.0  # for which a stop waits for sources that are being asked
_LLM_PATIENCE_S = 60.0  # for which a batch waits for questions that an LLM is asked for


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class Daemon:
    """Serves queries and keeps the graph in step with the sources. Implements serve.app.Service."""

    def __init__(self, config: Config, connection: Connection, models: Models) -> None:
        self._config = config
        self._connection = connection
        self._maker = models.maker
        self._endpoint = models.endpoint
        self._database = config.daemon.data_dir / DATABASE_NAME
        self._engine = Engine(
            self._database,
            models.encoder,
            WalkSettings(hops=config.query.hops),
            models.llm,
            models.reranker,
            config.llm.max_calls_per_query or None,
        )
        self._asker = Asker(self._engine, self._reader, models.encoder, models.language, models.llm)
        gc_when = gc_times(config)
        chores = (Chore(GC, gc_when, self._collect),) if gc_when else ()
        self._worker = SyncWorker(self._open_path, chores)
        self._watchers: dict[str, FolderWatcher] = {}
        self._path: SourceSync | None = None
        self._extraction: ExtractionProcess | None = None
        self._connectors: list[tuple[Connector, Caller]] = []
        self._removed: set[str] = set()  # sources to leave alone though the configuration has them
        self._started_ms = now_ms()
        self._queries = 0
        self._local = threading.local()

    def start(self) -> None:
        """Watch, then scan: a change between the two is seen by either."""
        for configured in self._config.sources:
            if self._config.watch.enabled and isinstance(configured, FolderSource):
                connector = folder_of(configured, self._config)
                watcher = FolderWatcher(
                    self._config.watch.debounce_ms / 1000, skip=connector.is_noise
                )
                watcher.watch(configured.path, partial(self._hint, configured.name))
                self._watchers[configured.name] = watcher
        self._worker.start()

    def stop(self) -> None:
        """Abandon the batch in hand, keep what it prepared, and end every thread."""
        for watcher in self._watchers.values():
            watcher.stop()
        if self._endpoint:
            self._endpoint.close()
        if not self._worker.stop(_STOP_WORKER_S):
            log.warning("the sync did not stop in time; the last whole version is kept")
        else:
            self._close_connectors()
        if self._extraction:
            self._extraction.close()

    def query(self, request: QueryRequest) -> dict[str, Any]:
        search = Search(
            request.strategy or self._config.query.strategy,
            request.profile,
            request.reasoner,
            request.top_k,
            request.n_hop,
        )
        answer = self._engine.query(
            request.question, request.k or self._config.query.k, search, request.at
        )
        self._queries += 1
        return answer_json(answer, search, self._degraded())

    def ask(self, request: AskRequest) -> dict[str, Any]:
        search = Search(self._config.query.strategy)
        found, reply = self._asker.ask(
            request.question, request.k, search, request.at, by_llm=request.llm
        )
        self._queries += 1
        return reply_json(found, reply, self._degraded())

    def sync(self, request: SyncRequest) -> "Future[dict[str, Any]]":
        self._wanted(request.sources)
        return _then(self._worker.request(request.sources, request.accept_empty), self._synced)

    def preview(self, request: PreviewRequest) -> dict[str, Any]:
        wanted = self._wanted(request.sources)
        return preview_json(self._reader(), self._config, wanted, request.limit)

    def _wanted(self, named: Sequence[str]) -> Sequence[str]:
        """The named sources, or all if none is. Raises BadRequest for one that is not there."""
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
        return [one.name for one in self._config.sources if one.name not in self._removed]

    def restore(self, request: RestoreRequest) -> "Future[dict[str, Any]]":
        wanted = self._wanted(request.sources)
        return self._worker.submit(lambda path: restored(path, request.version, wanted))

    def release(self, request: ReleaseRequest) -> "Future[dict[str, Any]]":
        wanted = self._wanted(request.sources)
        freed = self._worker.submit(lambda path: released(path, wanted))
        synced = self.sync(SyncRequest(sources=request.sources))

        def unless_failed(done: dict[str, Any]) -> dict[str, Any]:
            freed.result()  # done by now: jobs come before syncs
            return done

        return _then(synced, unless_failed)

    def pause(self, request: PauseRequest) -> "Future[dict[str, Any]]":
        (name,) = self._wanted([request.name])
        return self._worker.submit(lambda path: paused(path, name, now_ms()))

    def resume(self, request: PauseRequest) -> "Future[dict[str, Any]]":
        (name,) = self._wanted([request.name])
        done = self._worker.submit(lambda path: resumed(path, name))
        self._worker.hint(name, None)
        return done

    def remove(self, request: RemoveRequest) -> "Future[dict[str, Any]]":
        def job(path: SourceSync) -> dict[str, Any]:
            self._removed.add(request.name)
            path.paused.pop(request.name, None)
            try:
                done = removed(path.connection, path.commit, request.name, request.purge)
            finally:
                self._engine.forget_pasts()
            drop_mirror(self._config, request.name)
            return done

        return self._worker.submit(job)

    def tag(self, request: TagRequest) -> "Future[dict[str, Any]]":
        return self._worker.submit(
            lambda path: tagged(path, request.name, request.version, now_ms())
        )

    def untag(self, name: str) -> "Future[dict[str, Any]]":
        return self._worker.submit(lambda path: untagged(path, name))

    def check(self, request: CheckRequest) -> dict[str, Any]:
        return checked(self._reader(), request.deep)

    def backup(self, request: BackupRequest) -> dict[str, Any]:
        return backed_up(self._reader(), Path(request.file))

    def rebuild(self, _: RebuildRequest) -> "Future[dict[str, Any]]":
        return self._worker.submit(rebuilt)

    def gc(self, request: GcRequest) -> "Future[dict[str, Any]]":
        collect = partial(self._collect, dry_run=request.dry_run)
        return self._worker.submit(collect, None if request.dry_run else GC)

    def _collect(self, path: SourceSync, *, dry_run: bool = False) -> dict[str, Any]:
        configured = self._config.retention
        retention = Retention(
            configured.keep_versions, configured.keep_days, self._engine.being_read
        )
        try:
            done = collected(path, retention, now_ms(), dry_run)
        finally:
            self._engine.forget_pasts()
        if not dry_run:
            log.info("gc", versions=len(done["versions"]), freed_bytes=done["freed_bytes"])
        return done

    def purge(self, request: PurgeRequest) -> "Future[dict[str, Any]]":
        def job(path: SourceSync) -> dict[str, Any]:
            if request.again:
                return included_again(path, request.document, request.source)
            try:
                return purged(path, request.document, request.source, now_ms())
            finally:
                self._engine.forget_pasts()

        return self._worker.submit(job)

    def log(self, limit: int, before: int | None) -> dict[str, Any]:
        with snapshot(connection := self._reader()):
            return {"versions": [entry_json(one) for one in history_log(connection, limit, before)]}

    def diff(self, old: str, new: str, limit: int | None) -> dict[str, Any]:
        with snapshot(connection := self._reader()):
            ends = resolve(connection, old), resolve(connection, new)
            return diff_json(connection, *ends, limit)

    def _synced(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        return {
            "version": self._engine.head.version.id if self._engine.head else 0,
            "sources": [
                {
                    "name": outcome.source,
                    "changed": outcome.changed,
                    "removed": outcome.removed,
                    "problem": outcome.problem,
                }
                for outcome in outcomes
            ],
            "degraded": self._degraded(),
        }

    def schedule(self) -> dict[str, Any]:
        asks = self._endpoint and self._config.llm.questions != "off"
        gone = {
            job(one.name)
            for one in self._config.sources
            if one.name in self._removed
            for job in (scan_job, full_scan_job)
        }
        planned = [
            one
            for one in self._worker.planned()
            if (asks or one.job != UPGRADE) and one.job not in gone
        ]
        return schedule_json(self._reader(), planned)

    def status(self) -> dict[str, Any]:
        return status_json(self._reader(), self._served())

    def health(self) -> dict[str, Any]:
        served = self._engine.head
        return {"status": "ok", "version": served.version.id if served else 0}

    def _served(self) -> Served:
        names = self._names()
        jobs = {one.job: one.next_ms for one in self._worker.planned()}
        return Served(
            database=self._database,
            socket=self._config.daemon.socket,
            started_ms=self._started_ms,
            version=self._engine.head.version if self._engine.head else None,
            recipe=self._maker.recipe.name,
            configured=tuple(names),
            next_ms={name: jobs[scan_job(name)] for name in names if scan_job(name) in jobs},
            watching={name: watcher.status() for name, watcher in self._watchers.items()},
            progress=self._path.progress if self._path else None,
            busy=self._worker.busy,
            pending=self._worker.pending,
            error=self._worker.error,
            degraded=self._degraded(),
            queries=self._queries,
            llm=self._endpoint.status() if self._endpoint else None,
        )

    def _degraded(self) -> list[str]:
        """Why the answer may be behind the documents: empty when nothing is known against it."""
        reasons = []
        if not self._config.sources:
            reasons.append("no source is configured: add one to the configuration")
        elif self._engine.head is None:
            reasons.append("nothing is indexed yet: the first sync is not finished")
        if self._worker.error:
            reasons.append(f"the last sync failed: {self._worker.error}")
        elif self._worker.pending and self._engine.head is not None:
            reasons.append("changes are being indexed")
        if self._path:
            reasons += [
                f"source {name} is paused: {why}" for name, why in dict(self._path.paused).items()
            ]
        return reasons

    def _hint(self, source: str, paths: Sequence[str] | None) -> None:
        self._worker.hint(source, None if paths is None else widened(paths))

    def _reader(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._database)
        return connection

    def _open_path(self, give_way: Callable[[], None]) -> tuple[SourceSync, Sequence[Task], bool]:
        """Put the write path together, on the worker's thread."""
        index = self._config.index
        rules = rules_of(index.passage_tokens)
        writer = Writer(
            self._connection,
            self._maker,
            rules=rules,
            budget_factor=index.edge_budget_factor,
            now_ms=now_ms,
            patience_s=_LLM_PATIENCE_S,
        )
        end_waits(self._connection)
        self._close_connectors()
        end_quarantine(self._connection, READER)
        self._extraction = self._extraction or ExtractionProcess(
            give_way,
            quarantined=quarantined(self._connection, READER),
            on_quarantine=self._quarantine,
        )
        path = SourceSync(
            connection=self._connection,
            writer=writer,
            passage_tokens=index.passage_tokens,
            batch_documents=index.batch_documents,
            now_ms=now_ms,
            on_version=partial(self._publish, writer),
            give_way=give_way,
            new_meter=lambda: Meter(max_tokens=self._config.llm.max_tokens_per_sync or None),
            extract=self._extraction.extract,
            removed=self._removed,
        )
        self._path = path
        newest = head(self._connection)
        encoder = self._maker.recipe.encoder
        if newest and recipe_of(self._connection, newest.recipe).encoder == encoder:
            self._engine.publish(load_head(self._connection, newest, self._maker.recipe.dimensions))
        renewed = writer.renew()
        if renewed:
            self._publish(writer, renewed)
        tasks = [self._task(source) for source in self._config.sources]
        return path, tasks, newest is not None and newest.rules != rules

    def _quarantine(self, content: bytes, why: str) -> None:
        put_quarantined(self._connection, content, READER, why, now_ms())

    def _close_connectors(self) -> None:
        for _, caller in self._connectors:
            caller.end()
        end_s = time.monotonic() + _STOP_CALLS_S
        while self._connectors:
            connector, caller = self._connectors.pop()
            if not caller.has_ended(end_s - time.monotonic()):
                kind = type(connector).__name__
                log.warning("a source is left in the middle of a call", connector=kind)
                continue
            try:
                connector.close()
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are closed too
                kind = type(connector).__name__
                log.warning("a connector did not close", connector=kind, why=str(error))

    def _publish(self, writer: Writer, version: Version) -> None:
        self._engine.publish(head_of(self._connection, version, writer.index))
        log.info("version", version=version.id, reason=version.reason, **version.counters)
        if self._endpoint and "llm_calls" in version.counters:
            try:
                self._endpoint.ledger.attribute(version.id, "questions")
            except StoreError as error:
                log.warning("the ledger of LLM calls does not name the version", why=str(error))

    def _task(self, source: SourceConfig) -> Task:
        row_id = register_source(
            self._connection, source.name, source.kind, source.location, settings_of(source)
        )
        connector = connector_of(source, self._config)
        if isinstance(connector, Unusable):
            log.error("a connector cannot be made", source=source.name, exc_info=connector.error)
        # Hints name the parts of folders only; their calls are quick and find the small edits.
        caller = Here() if isinstance(source, FolderSource) else Aside(source.name)
        self._connectors.append((connector, caller))
        return Task(
            Source(row_id, source.name, connector, caller),
            scan_times(source, self._config),
            full_scan_times(source, self._config),
            at_start=isinstance(source, FolderSource)
            or listing_state(self._connection, row_id).listed_ms is None,
        )


def _then(
    first: "Future[First]", convert: Callable[[First], dict[str, Any]]
) -> "Future[dict[str, Any]]":
    """A future of the converted result, or of the error that either ends in."""
    result: Future[dict[str, Any]] = Future()
    result.set_running_or_notify_cancel()

    def pass_on(done: "Future[First]") -> None:
        try:
            result.set_result(convert(done.result()))
        except Exception as error:  # noqa: BLE001 - handed on to who waits for it
            result.set_exception(error)

    first.add_done_callback(pass_on)
    return result


def own_folder(folder: Path) -> None:
    """Make the data folder for its owner alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def run(config: Config, load: Callable[[Config], Models] = load_models) -> None:
    """Serve until SIGTERM or SIGINT. Raises what keeps it from starting."""
    configure_logs(config.daemon.log_level, config.daemon.log_format)
    # Until there is work to finish, SIGTERM unwinds what is below: socket and locks go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    own_folder(config.daemon.data_dir)
    database = config.daemon.data_dir / DATABASE_NAME
    with ExitStack() as stack:
        listener = stack.enter_context(bound_socket(config.daemon.socket))
        stack.enter_context(writer_place(database))
        connection = open_writer(database)
        stack.callback(connection.close)
        opening_check(connection)
        log.info("loading models")
        daemon = Daemon(config, connection, load(config))
        daemon.start()
        stack.callback(daemon.stop)
        log.info("serving", socket=str(config.daemon.socket), pid=os.getpid())
        if not config.sources:
            log.warning("no source is configured; `hopsyncd init --folder DIR` writes one")
        serve(make_app(daemon), listener, daemon.stop)
    log.info("stopped")
