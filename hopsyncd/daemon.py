"""The daemon: puts the parts together."""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import structlog

from connectors.folder import widened
from hopsyncd.answers.changed import RebuildAnswer, ReloadAnswer
from hopsyncd.api.access import AUDIT_NAME, Access, AuditLog, Guard
from hopsyncd.api.access_rules import AccessRules, rules_at_reload, rules_at_start
from hopsyncd.api.app import make_app
from hopsyncd.api.daemon_service import DaemonService, collect
from hopsyncd.api.descriptors import raise_descriptor_limit
from hopsyncd.api.server import bound_listeners, serve, share_heap
from hopsyncd.api.status import now_ms
from hopsyncd.api.supervision import Supervisor, is_terminal, reload_at_hang_ups
from hopsyncd.api.worker_pools import worker_pools
from hopsyncd.config.configuration import (
    INDEX_NAME,
    TEMPORARY_NAME,
    Config,
    config_path,
    load_config,
)
from hopsyncd.config.edit import ConfigChange, Reloaded, change
from hopsyncd.config.privacy import check_config_file, own_folder, secrets_of, use_own_temporary
from hopsyncd.config.source_kinds import FolderSource, SourceConfig
from hopsyncd.errors import REPORTABLE
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess, try_readers_soon
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.connect import close_sources, folder_of, is_slow, opened, tesseract_of
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.read import READER, rules_of
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.source_scheduler import Task
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.sync_worker import SyncWorker
from hopsyncd.ingest.timetable import GC, Chore, full_scan_times, gc_times, scan_times
from hopsyncd.ingest.upkeep import generation_in_use, reencoded
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.ingest.watch import FolderWatcher
from hopsyncd.logs import configure_logs
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.loading import Models, load_models
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from hopsyncd.web.listener import with_page
from store.check import opening_check
from store.content import get_generation
from store.contract import Connection
from store.exceptions import ServerLost, StoreError
from store.open_database import hold_writer_lock, open_serving
from store.operational import end_quarantine, end_waits, find_quarantined, put_quarantined
from store.records import Version
from store.sources import access_rules, listing_state, put_access_rules
from store.versions import head

log = structlog.get_logger(__name__)

_STOP_WORKER_S = 6.0
_RELOAD_PATIENCE_S = 5.0
_LLM_PATIENCE_S = 60.0  # how long a batch waits for the LLM's questions


class Daemon:
    """Keeps the graph in step with the sources; `service` answers from it."""

    def __init__(
        self,
        config: Config,
        connection: Connection,
        models: Models,
        read_config: Callable[[], Config],
    ) -> None:
        self._config = config
        self._read_config = read_config
        self._connection = connection
        self._models = models
        self._endpoint = models.endpoint
        self._worker = SyncWorker(self._open_path, self._chores(config))
        self._saved = SavedIndex(config.daemon.data_dir / INDEX_NAME)
        if config.store.url:
            self._worker.follower = Follower(
                lambda: self._models.maker.generation, config.store.url, self._saved, self._serve
            )
            self._worker.follower.learn = self._learn_access
        self.access = Access(AccessRules.of(config, access_rules(connection)))
        self._engine = self._engine_of(models)
        self._watchers: dict[str, FolderWatcher] = {}
        self.service = DaemonService(
            config, models, self._engine, self._worker, self._watchers, self.reload, self._reencode
        )
        newest = head(connection)
        self.service.reported.at_start = newest.id if newest else 0
        self._published = threading.Event()
        self.service.follower = self._worker.follower
        self._worker.on_synced = self.service.measurements.note_sync
        self._extraction: ExtractionProcess | None = None
        self._tasks: dict[str, Task] = {}
        self.service.require_database = self._require_database

    def _require_database(self) -> None:
        self._connection.refuse_gone()  # which connection changes while a daemon stands by

    def _engine_of(self, models: Models) -> Engine:
        config, follower = self._config, self._worker.follower
        engine = Engine(
            config.place,
            models.encoder,
            WalkSettings.of(config.query),
            models.llm,
            models.reranker,
            config.llm.max_calls_per_query or None,
            config.index.edge_budget_factor,
            follower.copy if follower else None,
            lambda: self._worker.busy,
        )
        engine.expect(self.access.rules.masks())
        return engine

    def start(self) -> None:
        """Watch, then scan, so that no change between the two is missed."""
        for source in self._config.sources:
            self._watch(source)
        self._worker.start()
        try_readers_soon(self.service.unavailable)

    def wait_for_stored(self) -> None:
        """Wait until the stored version is published, or cannot be: no query comes before it."""
        self._published.wait()
        self.service.watched.start()

    def stop(self) -> None:
        """Abandon the current batch, keep what it prepared, and end every thread."""
        self.service.close()
        for watcher in [*self._watchers.values()]:
            watcher.stop()
        if self._endpoint:
            self._endpoint.close()
        if not self._worker.stop(_STOP_WORKER_S):
            log.warning("the sync did not stop in time; the last committed version is kept")
        else:
            close_sources(task.source for task in self._tasks.values())
            if self.service.path:
                with suppress(ServerLost):
                    self.service.path.writer.keep_index()
        if self._extraction:
            self._extraction.close()

    def reload(self) -> ReloadAnswer:
        """Apply a changed configuration. Callable from any thread but the worker's.

        The current batch ends first; if that takes long, the answer says `pending`. Raises
        ConfigError, or the error of a changed source; then nothing changes.
        """
        try:
            wanted = self._read_config()
            applying = self._worker.submit(lambda _: self._apply(wanted))
            return applying.result(_RELOAD_PATIENCE_S).told(pending=False)
        except TimeoutError:
            applying.add_done_callback(self._note_late)
            return change(self._config, wanted).told(pending=True)
        except REPORTABLE as error:
            self._refuse(error)
            raise

    def _apply(self, wanted: Config) -> ConfigChange:
        """Runs on the worker's thread. What can fail comes first, and changes nothing."""
        applied = change(self._config, wanted)
        config, before = applied.config, self._tasks
        again = self.service.removed & before.keys() & {one.name for one in config.sources}
        renewed = {*applied.added, *applied.changed, *again}
        tasks = {
            source.name: self._task(
                source, config, None if source.name in renewed else before[source.name]
            )
            for source in config.sources
        }
        chores = self._chores(config)
        ended = [before[name] for name in {*applied.removed, *applied.changed, *again}]
        rewatched = {*before, *tasks}
        if config.watch == self._config.watch:
            rewatched = {*renewed, *applied.removed}
        recorded = access_rules(self._connection)
        ruled = rules_at_reload(recorded, self._config.sources, config.sources)
        put_access_rules(self._connection, ruled)
        access = AccessRules.of(config, {**recorded, **ruled})
        self._config = self.service.config = config
        self._decide_by(access)
        self._warn_of_closed()
        self._tasks = tasks
        self.service.removed.clear()
        self._worker.plan(list(tasks.values()), chores)
        close_sources(task.source for task in ended)
        self._engine.walk_by(WalkSettings.of(config.query))
        configure_daemon_logs(config)
        for name in rewatched:
            self._unwatch(name)
        for source in config.sources:
            if source.name in rewatched:
                self._watch(source)
            # A scan finds what changed before the watch began.
            if source.name in renewed | (rewatched & self._watchers.keys()):
                self._worker.hint(source.name, None)
        self.service.reloaded = Reloaded(restart_needed=applied.waiting)
        log.info("configuration applied", **applied.told(pending=False))
        return applied

    def _note_late(self, applying: "Future[ConfigChange]") -> None:
        if error := applying.exception():
            self._refuse(error)

    def _refuse(self, error: BaseException) -> None:
        log.error("configuration refused; the old one stays in force", why=str(error))
        self.service.reloaded = replace(self.service.reloaded, refused=str(error))

    def _chores(self, config: Config) -> Sequence[Chore]:
        if not (when := gc_times(config)):
            return ()
        return (Chore(GC, when, lambda path: collect(path, self._config, self._engine)),)

    def _watch(self, source: SourceConfig) -> None:
        """Watch a folder, so that changes become hints."""
        watch = self._config.watch
        if watch.enabled and isinstance(source, FolderSource):
            is_noise = folder_of(source, self._config).is_noise
            watcher = FolderWatcher(watch.debounce_ms / 1000, skip=is_noise)
            watcher.watch(source.path, partial(self._hint, source.name))
            self._watchers[source.name] = watcher

    def _unwatch(self, name: str) -> None:
        if watcher := self._watchers.pop(name, None):
            watcher.stop()

    def _hint(self, source: str, paths: Sequence[str] | None) -> None:
        wide = None if paths is None else widened(paths)
        self._worker.hint(source, wide)
        if wide is None and paths:
            self._worker.hint(source, paths)

    def _open_path(self, yield_to_edits: Callable[[], None]) -> tuple[SourceSync, Sequence[Task]]:
        """Put the write path together, on the worker's thread; what is stored is served first."""
        index, follower = self._config.index, self._worker.follower
        if follower:
            self._connection = follower.until_elected(self._connection, yield_to_edits)
        try:
            self._connection.acknowledge()
            writer = self._writer_of(self._models)
            if follower:
                writer.go_on_with(*follower.hand_over())
            self._publish_stored(writer)
        finally:
            self._published.set()
        end_waits(self._connection)
        close_sources(task.source for task in self._tasks.values())
        end_quarantine(self._connection, READER)
        self._extraction = self._extraction or ExtractionProcess(
            yield_to_edits,
            quarantined=find_quarantined(self._connection, READER),
            on_quarantine=lambda content, why: put_quarantined(
                self._connection, content, READER, why, now_ms()
            ),
            unavailable=self.service.unavailable,
            tesseract=tesseract_of(self._config),
        )
        path = SourceSync(
            connection=self._connection,
            writer=writer,
            passage_tokens=index.passage_tokens,
            batch_documents=index.batch_documents,
            now_ms=now_ms,
            on_version=partial(self._publish, writer),
            yield_to_edits=yield_to_edits,
            new_usage=lambda: Usage(max_tokens=self._config.llm.max_tokens_per_sync or None),
            extract=self._extraction.extract,
            removed=self.service.removed,
        )
        self.service.write_by(path)
        renewed = writer.renew()
        if renewed:
            self._publish(writer, renewed)
        self._tasks = {
            source.name: self._task(source, self._config) for source in self._config.sources
        }
        self._record_access()
        return path, list(self._tasks.values())

    def _record_access(self) -> None:
        """Record the access rules of the configuration that this daemon starts to write with."""
        recorded = access_rules(self._connection)
        is_shared = bool(self._config.store.url)
        rules = rules_at_start(recorded, self._config.sources, is_shared=is_shared)
        put_access_rules(self._connection, rules)
        self._learn_access(self._connection)
        self._warn_of_closed()

    def _learn_access(self, connection: Connection) -> None:
        """Decide from now on by what the record and the configuration in force say."""
        self._decide_by(AccessRules.of(self._config, access_rules(connection)))

    def _decide_by(self, rules: AccessRules) -> None:
        if rules == self.access.rules:
            return
        self.access.rules = rules
        self._engine.expect(rules.masks())

    def _warn_of_closed(self) -> None:
        if closed := self.access.rules.closed_by_record(self._config.sources):
            log.warning(
                "sources without `visible_to` stay closed to members, as they were before"
                " (docs/security.md says how to open them)",
                sources=closed,
            )

    def _writer_of(self, models: Models) -> VersionWriter:
        index = self._config.index
        return VersionWriter(
            self._connection,
            models.maker,
            rules=rules_of(index.passage_tokens, tesseract_of(self._config)),
            budget_factor=index.edge_budget_factor,
            now_ms=now_ms,
            patience_s=_LLM_PATIENCE_S,
            saved=self._saved,
        )

    def _reencode(self, path: SourceSync, dry_run: bool) -> RebuildAnswer:
        """Bring the head to the newer encoder, on the writer's thread, and answer by it."""
        newer = self._models.with_newer_encoder()
        writer = self._writer_of(newer)
        version, answer = reencoded(path, writer, dry_run)
        if version:
            # A request that has begun keeps the engine that it has.
            self._models, self._engine = newer, self._engine_of(newer)
            path.write_by(writer, partial(self._publish, writer))
            self._publish(writer, version)
            self.service.answer_by(newer, self._engine)
        return answer

    def _publish_stored(self, writer: VersionWriter) -> None:
        """Serve the newest version, if its vectors are from the current encoder."""
        newest = head(self._connection)
        generation = self._models.maker.generation
        if (
            newest
            and get_generation(self._connection, newest.generation).encoder == generation.encoder
        ):
            self._engine.publish(writer.snapshot_of(newest))

    def _serve(self, snapshot: Snapshot | None) -> None:
        """Serve what another daemon wrote; None while that cannot be told."""
        if snapshot:
            self._engine.publish(snapshot)
        self._published.set()

    def _publish(self, writer: VersionWriter, version: Version) -> None:
        self._engine.publish(writer.snapshot_of(version))
        if self._worker.follower:
            self._worker.follower.keep(self._connection, version.id)
        self.service.watched.note_version()
        log.info("version", version=version.id, reason=version.reason, **version.counters)
        if self._endpoint and "llm_calls" in version.counters:
            try:
                self._endpoint.ledger.attribute(version.id, "questions")
            except StoreError as error:
                log.warning("the ledger did not book LLM calls to the version", why=str(error))
        writer.keep_index_if_due()

    def _task(self, source: SourceConfig, config: Config, same: Task | None = None) -> Task:
        """The task that keeps a source in sync; `same` is its present task if it is unchanged."""
        ready = same.source if same else opened(self._connection, source, config)
        return Task(
            ready,
            scan_times(source, config),
            full_scan_times(source, config),
            at_start=not is_slow(source)
            or listing_state(self._connection, ready.id).listed_ms is None,
        )


def load_checked(file: Path) -> Config:
    """The configuration, if nobody else can have written it. Raises ConfigError."""
    check_config_file(file)
    return load_config(file)


def configure_daemon_logs(config: Config) -> None:
    """Log as the configuration says, without the secrets that it holds."""
    daemon = config.daemon
    configure_logs(daemon.log_level, daemon.log_format, secrets_of(config), daemon.log_file)


def run(
    config: Config,
    load: Callable[[Config, str], Models] = load_models,
    config_file: Path | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. Raises whatever prevents the start.

    SIGHUP reloads the configuration from `config_path(config_file)`.
    """
    configure_daemon_logs(config)
    supervisor = Supervisor()
    # Until there is work to finish, SIGTERM unwinds the stack below, which frees socket and locks.
    signal.signal(signal.SIGTERM, supervisor.end)
    hang_ups: SimpleQueue[None] = SimpleQueue()
    at_terminal = is_terminal()
    signal.signal(signal.SIGHUP, lambda *_: hang_ups.put(None))
    share_heap()
    raise_descriptor_limit()
    check_config_file(config_path(config_file))
    own_folder(config.daemon.data_dir)
    with ExitStack() as stack:
        listeners, tokens = bound_listeners(stack, config)
        stack.enter_context(hold_writer_lock(config.place))
        use_own_temporary(config.daemon.data_dir / TEMPORARY_NAME)
        connection = open_serving(config.place)
        stack.callback(connection.close)
        opening_check(connection)
        log.info("loading models")
        # With an explicit path, a file that is gone by then is an error, not a wish for defaults.
        read_again = partial(load_checked, config_path(config_file))
        daemon = Daemon(config, connection, load(config, generation_in_use(connection)), read_again)
        supervisor.status = daemon.service.summary
        stack.callback(daemon.stop)
        daemon.start()
        daemon.wait_for_stored()
        answer = partial(
            reload_at_hang_ups, hang_ups, daemon.reload, supervisor, at_terminal=at_terminal
        )
        threading.Thread(target=answer, name="reload", daemon=True).start()
        log.info("serving", socket=str(config.daemon.socket), pid=os.getpid())
        if not config.sources:
            log.warning(
                "no source is configured: `hopsyncd init --folder DIR` writes a configuration,"
                " `hopsyncd add PATH` adds to one"
            )
        service = daemon.service
        app = make_app(service, worker_pools(config.limits, service.load))
        audit = AuditLog(config.daemon.data_dir / AUDIT_NAME)
        whole = stack.enter_context(with_page(Guard(app, daemon.access, audit, tokens), config))
        serve(whole, listeners, config.limits, service.load, daemon.stop, supervisor)
    log.info("stopped")
