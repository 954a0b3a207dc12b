"""The daemon: creates its parts, connects them, and runs them."""

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

from hopsyncd.api.access_guard import TeamPage, guard_daemon
from hopsyncd.api.access_rules import Access, AccessRules, list_rules_at_reload, list_rules_at_start
from hopsyncd.api.admin_service import AdminService, ReportedVersions, collect
from hopsyncd.api.app import DescriptionService, Services, make_app
from hopsyncd.api.audit import AUDIT_NAME, AuditLog
from hopsyncd.api.audit_service import AuditService
from hopsyncd.api.backup_service import BackupService
from hopsyncd.api.collection_service import CollectionService
from hopsyncd.api.connection import raise_descriptor_limit
from hopsyncd.api.metrics import Load, Metrics
from hopsyncd.api.model_reload import ModelReload, has_other_models, run_in_thread
from hopsyncd.api.query_workers import make_query_workers
from hopsyncd.api.read_service import ReadService
from hopsyncd.api.server import open_listeners, serve, share_heap
from hopsyncd.api.serving import (
    DaemonParts,
    Freshness,
    Publisher,
    RecordReader,
    Serving,
    ServingState,
    SourceNames,
    make_engine,
    make_sync_usage,
)
from hopsyncd.api.status_service import StatusService, read_clock_ms
from hopsyncd.api.supervisor import Supervisor, is_terminal, reload_at_hang_ups
from hopsyncd.api.tls import ServerTls
from hopsyncd.api.watch_delivery import ACTIONS_NAME, WatchActions
from hopsyncd.api.watch_rights import Makers
from hopsyncd.api.watch_service import WatchService
from hopsyncd.api.watched_questions import WatchedQuestions
from hopsyncd.api.worker_pools import make_worker_pools
from hopsyncd.config.configuration import (
    INDEX_NAME,
    NEXT_INDEX_NAME,
    TEMPORARY_NAME,
    Config,
    find_config_path,
)
from hopsyncd.config.edit import ConfigChange, Reloaded, compare_configs
from hopsyncd.config.privacy import (
    check_config_file,
    configure_daemon_logs,
    create_own_folder,
    load_checked,
    use_own_temporary,
)
from hopsyncd.errors import REPORTABLE, ReaderUnavailable
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess, try_readers_soon
from hopsyncd.ingest.backup_schedule import Backups, complete_restore
from hopsyncd.ingest.connector_setup import close_sources, create_tesseract
from hopsyncd.ingest.encoder_probe import require_same_model, store_probe
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.generation_switch import GenerationSwitch
from hopsyncd.ingest.read import READER, identify_rules
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.source_scheduler import GC, Chore, Task, make_task, parse_gc_times
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.source_thread import Interruptions
from hopsyncd.ingest.sync_worker import SyncWorker, WritePath
from hopsyncd.ingest.upkeep import find_generation_in_use, switch_encoder
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.ingest.watch import SourceWatchers
from hopsyncd.models.generations import load_serving_models
from hopsyncd.models.loading import Models
from hopsyncd.responses.changes import RebuildAnswer, ReloadAnswer
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from hopsyncd.web.serving import load_team_page, with_page
from store.check import refuse_damaged
from store.contract import Connection
from store.exceptions import ServerLost
from store.open_database import hold_writer_lock, open_serving
from store.operational import end_quarantine, end_waits, find_quarantined, put_quarantined
from store.records import Version
from store.sources import put_access_rules, read_access_rules
from store.versions import read_head

log = structlog.get_logger(__name__)

_STOP_WORKER_S = 6.0
_RELOAD_PATIENCE_S = 5.0
_LLM_PATIENCE_S = 60.0  # how long a batch waits for the LLM's questions


class Daemon:
    """Keeps the graph up to date with the sources, and creates the `services` that answer from it.

    Only the worker's thread uses the database connection, the tasks and the file reader's process.
    """

    def __init__(
        self,
        config: Config,
        connection: Connection,
        load: Callable[[Config, str], Models],
        read_config: Callable[[], Config],
        config_file: Path,
        tls: ServerTls | None = None,
        page: TeamPage | None = None,
    ) -> None:
        self._tls, self._read_config = tls, read_config
        self._models = ModelReload(load)
        self._backups = Backups(lambda: self._serving.state.config, config_file)
        self._connection = connection
        self._saved = SavedIndex(config.daemon.data_dir / INDEX_NAME)
        self._saved_next = SavedIndex(config.daemon.data_dir / NEXT_INDEX_NAME)
        self._follower = Follower(config.store.url, self._saved) if config.store.url else None
        self.load, metrics = Load(), Metrics()
        self._worker = SyncWorker(
            self._follower,
            metrics.note_sync,
            # A function, because there is no state yet.
            require_encoder=lambda: self._serving.state.models.require_encoder(),  # noqa: PLW0108
        )
        self._watchers = SourceWatchers(self._worker.add_change)
        self._removed: set[str] = set()  # removed sources that are still configured
        self._unavailable: dict[str, ReaderUnavailable] = {}  # failed readers, by media type
        self._tasks: dict[str, Task] = {}
        self._extraction: ExtractionProcess | None = None
        rules = AccessRules.from_config(config, read_access_rules(connection))
        models = load(config, find_generation_in_use(connection))
        for loaded in filter(None, (models, models.next)):
            require_same_model(connection, loaded.encoder)
        engine = self._make_engine(config, models, rules)
        self._serving = Serving(ServingState(config, models, engine, rules, Reloaded()))
        self.access = Access(lambda: self._serving.state.access)
        audit_file = config.daemon.data_dir / AUDIT_NAME
        self.audit = AuditLog(audit_file, lambda: self._serving.state.config.audit)
        self._workers = make_query_workers(config, self._saved)
        self._watched = WatchedQuestions(
            config.database,
            lambda: self._serving.state.answering,
            self._worker,
            read_clock_ms,
            Makers.from_config(config, self.access, page),
            WatchActions(config.daemon.data_dir / ACTIONS_NAME),
        )
        self._publisher = Publisher(self._serving, self._follower, self._watched, self._make_engine)
        self.services = self._make_services(config, connection, metrics)

    def _make_services(self, config: Config, connection: Connection, metrics: Metrics) -> Services:
        serving, worker, follower = self._serving, self._worker, self._follower
        newest = read_head(connection)
        parts = DaemonParts(
            serving,
            # Any connection will do. On a server, refuse_gone() does nothing.
            Freshness(serving, worker, follower, connection.refuse_gone),
            SourceNames(serving, self._removed),
            RecordReader(config.database),
            worker,
            follower,
            self._workers,
            self._watched,
            metrics,
            self.audit,
        )
        reported = ReportedVersions(newest.id if newest else 0)
        return Services(
            ReadService(parts),
            CollectionService(parts),
            StatusService(
                parts, self._watchers, self._unavailable, self.load, self._backups, self._tls
            ),
            WatchService(parts),
            AdminService(parts, reported, self._removed, self.reload, self._reencode),
            BackupService(parts, self._backups),
            AuditService(self.audit),
            DescriptionService(),
        )

    def _make_engine(self, config: Config, models: Models, rules: AccessRules) -> Engine:
        copy = self._follower.copy if self._follower else None
        return make_engine(config, models, rules, copy, self._worker)

    def start(self) -> None:
        """Start to watch the sources, and only then scan them, so that no change is missed."""
        config = self._serving.state.config
        for source in config.sources:
            self._watchers.watch(source, config)
        self._worker.start(self._open_pipeline)
        try_readers_soon(self._unavailable)

    def wait_for_stored(self) -> None:
        """Wait until the stored version is served or found unusable. Then start the watches."""
        self._publisher.stored.wait()
        self._watched.start()

    def stop(self) -> None:
        """Abandon the current batch and end every thread. Prepared work of the batch is kept."""
        self._watched.stop()
        self._backups.stop()
        self._workers.close()
        self._watchers.stop()
        self._serving.state.models.close()
        self._models.close()
        if not self._worker.stop(_STOP_WORKER_S):
            log.warning("the sync did not stop in time; the last committed version is kept")
        else:
            close_sources(task.source for task in self._tasks.values())
            with suppress(ServerLost):
                self._worker.keep_index()
            self._serving.state.engine.save_views()
        if self._extraction:
            self._extraction.close()

    def reload(self) -> ReloadAnswer:
        """Apply a changed configuration. Call this from any thread except the worker's thread.

        If the current batch takes long to end, the answer says `pending`. Raises ConfigError, or
        the error of a changed source. After an error, the old configuration stays in force.
        """
        try:
            new = self._read_config()
            config = self._serving.state.config
            with_models = has_other_models(config, new)
            applying = run_in_thread(lambda: self._load_and_apply(new))
            return applying.result(_RELOAD_PATIENCE_S).to_json(pending=False)
        except TimeoutError:
            applying.add_done_callback(self._note_late)
            return compare_configs(config, new, with_models=with_models).to_json(pending=True)
        except REPORTABLE as error:
            self._refuse(error)
            raise

    def _load_and_apply(self, new: Config) -> ConfigChange:
        models = self._models.load(self._serving.state, new)
        follow = partial(self._models.apply_following, self._serving, new, models)
        follow = partial(follow, self._make_engine, self._watchers)
        if self._follower and (following := self._follower.submit(follow)):
            return following.result()
        return self._worker.submit(lambda pipeline: self._apply(pipeline, new, models)).result()

    def _apply(self, pipeline: SourceSync, new: Config, models: Models | None) -> ConfigChange:
        """Apply a configuration on the worker's thread. After an error, the old one stays."""
        state = self._serving.state
        applied = compare_configs(state.config, new, with_models=models is not None)
        config, before = applied.config, self._tasks
        re_added = self._removed & before.keys() & {source.name for source in config.sources}
        renewed = {*applied.added, *applied.changed, *re_added}
        tasks = {
            source.name: make_task(
                self._connection,
                source,
                config,
                None if source.name in renewed else before[source.name],
            )
            for source in config.sources
        }
        chores = self._list_chores(config)
        ended = [before[name] for name in {*applied.removed, *applied.changed, *re_added}]
        rewatched = {*before, *tasks}
        if config.watch == state.config.watch:
            rewatched = {*renewed, *applied.removed}
        recorded = read_access_rules(self._connection)
        ruled = list_rules_at_reload(recorded, state.config.sources, config.sources)
        put_access_rules(self._connection, ruled)
        self._serving.change(
            config=config,
            access=AccessRules.from_config(config, {**recorded, **ruled}),
            reloaded=Reloaded(restart_needed=applied.waiting),
        )
        if models:
            self._models.retire(state.models)
            head, writer = read_head(self._connection), self._make_writer(models)
            self._serve_with(pipeline, models, writer, head)
            self._plan_switch(pipeline, models)
        self._serving.state.access.warn_of_closed(config.sources)
        self._tasks = tasks
        self._removed.clear()
        self._worker.plan(list(tasks.values()), chores)
        close_sources(task.source for task in ended)
        state.engine.set_walk_settings(WalkSettings.from_config(config.query))
        configure_daemon_logs(config)
        self._watchers.rewatch(rewatched, config)
        for source in config.sources:
            # A scan finds changes from before the watch began.
            if source.name in renewed | (rewatched & self._watchers.names):
                self._worker.add_change(source.name, None)
        log.info("configuration applied", **applied.to_json(pending=False))
        return applied

    def _note_late(self, applying: "Future[ConfigChange]") -> None:
        if error := applying.exception():
            self._refuse(error)

    def _refuse(self, error: BaseException) -> None:
        log.error("configuration refused; the old configuration stays in force", why=str(error))
        reloaded = replace(self._serving.state.reloaded, refused=str(error))
        self._serving.change(reloaded=reloaded)

    def _list_chores(self, config: Config) -> Sequence[Chore]:
        when = parse_gc_times(config)
        collecting = (Chore(GC, when, self._collect),) if when else ()
        return (*collecting, *self._backups.list_chores(config))

    def _collect(self, pipeline: SourceSync) -> None:
        state = self._serving.state
        collect(pipeline, state.config, state.engine)

    def _open_pipeline(self, interruptions: Interruptions) -> WritePath:
        """Create the write path on the worker's thread, and serve the stored version first."""
        yield_to_edits, publisher = interruptions.yield_to_edits, self._publisher
        if self._follower:
            self._connection = self._follower.follow_until_elected(
                self._connection, publisher, yield_to_edits
            )
        state, connection = self._serving.state, self._connection
        models = state.models.choose_generation(find_generation_in_use(connection))
        if models is not state.models:  # an error occurred after the switch was committed
            engine = self._make_engine(state.config, models, state.access)
            self._serving.change(models=models, engine=engine)
            state = self._serving.state
        try:
            connection.acknowledge()
            writer = self._make_writer(state.models)
            if self._follower:
                writer.adopt_index(*self._follower.hand_over())
            publisher.publish_stored(connection, writer)
        finally:
            publisher.stored.set()
        end_waits(connection)
        close_sources(task.source for task in self._tasks.values())
        end_quarantine(connection, READER)
        path = self._sync_by(writer, interruptions)
        self.services.administration.continue_purges(path)
        renewed = writer.renew()
        if renewed:
            publisher.publish(connection, writer, renewed)
        self._plan_switch(path, state.models)
        config = state.config
        self._tasks = {
            source.name: make_task(connection, source, config) for source in config.sources
        }
        self._record_access()
        return WritePath(path, list(self._tasks.values()), self._list_chores(config))

    def _sync_by(self, writer: VersionWriter, interruptions: Interruptions) -> SourceSync:
        connection, config = self._connection, self._serving.state.config
        self._extraction = self._extraction or ExtractionProcess(
            interruptions.yield_to_edits,
            quarantined=find_quarantined(connection, READER),
            on_quarantine=lambda content, why: put_quarantined(
                self._connection, content, READER, why, read_clock_ms()
            ),
            unavailable=self._unavailable,
            tesseract=create_tesseract(config),
        )
        return SourceSync(
            connection=connection,
            writer=writer,
            passage_tokens=config.index.passage_tokens,
            batch_documents=config.index.batch_documents,
            now_ms=read_clock_ms,
            on_version=partial(self._publisher.publish, connection, writer),
            yield_to_edits=interruptions.yield_to_edits,
            is_awaited=interruptions.is_awaited,
            new_usage=lambda: make_sync_usage(self._serving.state.config),
            extract=self._extraction.extract,
            on_reading=self._serving.wake_models,
            on_idle=self._extraction.end_idle,
            removed=self._removed,
        )

    def _record_access(self) -> None:
        """Record the configuration's access rules in the database, and apply them."""
        config, recorded = self._serving.state.config, read_access_rules(self._connection)
        is_shared = bool(config.store.url)
        rules = list_rules_at_start(recorded, config.sources, is_shared=is_shared)
        put_access_rules(self._connection, rules)
        self._publisher.learn_access(self._connection)
        self._serving.state.access.warn_of_closed(config.sources)

    def _plan_switch(self, pipeline: SourceSync, models: Models) -> None:
        """Prepare the switch to the configured models. Until then, the current models answer."""
        pipeline.switch = None
        self._saved_next.forget()
        if (following := models.next) is None:
            return
        require_same_model(self._connection, following.encoder)
        open_writer = partial(self._make_writer, following, self._saved_next)
        pipeline.switch = GenerationSwitch(self._connection, open_writer, pipeline.yield_to_edits)
        pipeline.on_switch = lambda version: self._switch_models(
            pipeline, following, self._make_writer(following), version
        )

    def _switch_models(
        self, pipeline: SourceSync, models: Models, writer: VersionWriter, version: Version
    ) -> None:
        """Use these models to answer and to write. They must have made the head `version`."""
        self._serve_with(pipeline, models, writer, version)
        self._publisher.announce(self._connection, writer, version)

    def _serve_with(
        self, pipeline: SourceSync, models: Models, writer: VersionWriter, version: Version | None
    ) -> None:
        state, connection = self._serving.state, self._connection
        require_same_model(connection, models.encoder)
        # Running requests keep their engine.
        engine = self._make_engine(state.config, models, state.access)
        if version:
            engine.publish(writer.make_snapshot(version))
        self._serving.change(models=models, engine=engine)
        pipeline.use_writer(writer, partial(self._publisher.publish, connection, writer))

    def _make_writer(self, models: Models, saved: SavedIndex | None = None) -> VersionWriter:
        config = self._serving.state.config
        writer = VersionWriter(
            self._connection,
            models.maker,
            rules=identify_rules(config.index.passage_tokens, create_tesseract(config)),
            budget_factor=config.index.edge_budget_factor,
            now_ms=read_clock_ms,
            patience_s=_LLM_PATIENCE_S,
            saved=saved or self._saved,
        )
        store_probe(self._connection, models.maker.generation, models.encoder)
        return writer

    def _reencode(self, pipeline: SourceSync, dry_run: bool) -> RebuildAnswer:
        """Re-embed the head with the newer encoder, and use it. Runs on the writer's thread."""
        state = self._serving.state
        newer = state.models.with_newer_encoder()
        writer = self._make_writer(newer)
        version, answer = switch_encoder(pipeline, writer, dry_run)
        if version:
            self._switch_models(pipeline, newer, writer, version)
        return answer


def run(
    config: Config,
    load: Callable[[Config, str], Models] = load_serving_models,
    config_file: Path | None = None,
    on_listening: Callable[[], None] = lambda: None,
) -> None:
    """Run the daemon until SIGTERM or SIGINT. Raises any error that prevents the start.

    `on_listening` is called once the socket exists. Requests to the socket wait until the start is
    complete. SIGHUP reloads the configuration from `find_config_path(config_file)`.
    """
    configure_daemon_logs(config)
    supervisor = Supervisor()
    # Until the server runs, SIGTERM raises, so that the stack below frees socket and locks.
    signal.signal(signal.SIGTERM, supervisor.end)
    hang_ups: SimpleQueue[None] = SimpleQueue()
    origin = {"at_terminal": is_terminal()}
    signal.signal(signal.SIGHUP, lambda *_: hang_ups.put(None))
    share_heap()
    raise_descriptor_limit()
    check_config_file(find_config_path(config_file))
    create_own_folder(config.daemon.data_dir)
    with ExitStack() as stack:
        listeners = open_listeners(stack, config)
        page = load_team_page(config)
        on_listening()
        stack.enter_context(hold_writer_lock(config.database))
        use_own_temporary(config.daemon.data_dir / TEMPORARY_NAME)
        complete_restore(config)
        connection = open_serving(config.database)
        stack.callback(connection.close)
        refuse_damaged(connection)
        log.info("loading models")
        # An explicit path, so that a file that is gone at a reload is an error, not the defaults.
        file = find_config_path(config_file)
        read_config = partial(load_checked, file)
        daemon = Daemon(config, connection, load, read_config, file, listeners.tls, page)
        services, summary = daemon.services, daemon.services.status.summarise
        stack.callback(daemon.stop)
        daemon.start()
        daemon.wait_for_stored()
        answer = partial(reload_at_hang_ups, hang_ups, daemon.reload, supervisor, summary)
        threading.Thread(target=answer, kwargs=origin, name="reload", daemon=True).start()
        log.info("serving", socket=str(config.daemon.socket), pid=os.getpid())
        if not config.sources:
            log.warning(
                "no source is configured: `hopsyncd init --folder DIR` writes a configuration,"
                " `hopsyncd add PATH` adds a source to it"
            )
        app = make_app(services, make_worker_pools(config.limits, daemon.load))
        guard = guard_daemon(app, daemon.access, daemon.audit, config, listeners.tls, page)
        whole_app = stack.enter_context(with_page(guard, config, config_file))
        serve(whole_app, listeners, config.limits, daemon.load, daemon.stop, supervisor, summary)
    log.info("stopped")
