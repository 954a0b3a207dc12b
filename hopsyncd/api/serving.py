"""The state from which requests are answered, and its replacement when there are new versions.

The state is one frozen object, which is replaced as a whole. `Freshness` says whether it may be out
of date.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from hopsyncd.api.access_rules import AccessRules
from hopsyncd.api.audit import AuditLog
from hopsyncd.api.metrics import Metrics
from hopsyncd.api.query_workers import QueryWorkers
from hopsyncd.api.watched_questions import WatchedQuestions
from hopsyncd.config.configuration import INDEX_NAME, Config
from hopsyncd.config.edit import Reloaded
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.sync_worker import SyncWorker
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.loading import Models
from hopsyncd.retrieve.acl_view_cache import WriterState
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.content import get_generation
from store.contract import Connection
from store.copying import LocalCopy
from store.exceptions import DatabaseGone, StoreError
from store.open_database import Database, open_reader
from store.records import GenerationConfig, Version
from store.sources import read_access_rules, read_source_names
from store.versions import read_head


@dataclass(frozen=True, slots=True)
class ServingState:
    """The state from which requests are answered.

    reloaded: the result of the last reload.
    """

    config: Config
    models: Models
    engine: Engine
    access: AccessRules
    reloaded: Reloaded

    @property
    def asker(self) -> Asker:
        models, tokens = self.models, self.config.llm.tokens_per_question
        return Asker(self.engine, models.encoder, models.language, models.llm, tokens)

    @property
    def answering(self) -> tuple[Engine, Asker]:
        return self.engine, self.asker

    @property
    def version(self) -> int:
        """The number of the served version; 0 before the first one."""
        return self.engine.head.version.id if self.engine.head else 0


def make_engine(
    config: Config,
    models: Models,
    rules: AccessRules,
    copy: LocalCopy | None,
    worker: SyncWorker,
) -> Engine:
    """Create the engine of a configuration.

    copy: the local copy of a database to which another daemon can write; otherwise None.
    """
    engine = Engine(
        config.database,
        models.encoder,
        WalkSettings.from_config(config.query),
        models.llm,
        models.reranker,
        config.llm.max_calls_per_query or None,
        config.index.edge_budget_factor,
        copy,
        WriterState(lambda: worker.busy, worker.is_awaited),
        config.daemon.data_dir / INDEX_NAME,
    )
    engine.expect(rules.list_masks())
    return engine


def make_sync_usage(config: Config) -> Usage:
    return Usage(max_tokens=config.llm.max_tokens_per_sync or None)


class Serving:
    """Holds the current state. A request that needs several parts of it must read `state` once."""

    def __init__(self, state: ServingState) -> None:
        self._state = state
        self._lock = threading.Lock()  # for changes; reading needs no lock

    @property
    def state(self) -> ServingState:
        return self._state

    def change(self, **changes: Any) -> None:
        """Replace these fields of the state, all at once."""
        with self._lock:
            before, self._state = self._state, replace(self._state, **changes)
            state = self._state
        if state.access != before.access:
            state.engine.expect(state.access.list_masks())

    def wake_models(self) -> None:
        """Start models that ended while idle, because they will soon be needed."""
        self._state.models.wake()


class SourceNames:
    """Lists the names of the sources.

    removed: sources that were removed but are still configured.
    """

    def __init__(self, serving: Serving, removed: Collection[str]) -> None:
        self._serving = serving
        self.removed = removed

    @property
    def configured(self) -> list[str]:
        """List the configured sources that are not removed, in the order of the configuration."""
        sources = self._serving.state.config.sources
        return [source.name for source in sources if source.name not in self.removed]

    def list_known(self, connection: Connection) -> set[str]:
        """List the names of all configured or stored sources."""
        configured = {source.name for source in self._serving.state.config.sources}
        return configured | {*read_source_names(connection).values()}

    def list_visible(self, acl: Acl = EVERYTHING) -> set[str]:
        """List the names of all configured or stored sources that `acl` permits."""
        with self._serving.state.engine.reading() as (connection, _):
            return {name for name in self.list_known(connection) if acl.shows(name)}


class RecordReader:
    """Opens one reading connection for each thread, and keeps it open."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._local = threading.local()

    def get_connection(self) -> Connection:
        """This thread's connection, which is opened at the first use."""
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._database)
        return connection


@dataclass(eq=False, repr=False)
class Freshness:
    """Reports whether answers are up to date.

    `require_database` raises DatabaseGone if the database file is gone.
    """

    _serving: Serving
    _worker: SyncWorker
    _follower: Follower | None
    require_database: Callable[[], None]

    @property
    def is_behind(self) -> bool:
        """Whether changes were noticed that the served version does not contain yet."""
        return self._worker.pending

    def list_reasons(self, acl: Acl = EVERYTHING, was_behind: bool = False) -> list[str]:
        """List the reasons why an answer may be out of date; empty if no reason is known.

        `was_behind` is the value of `is_behind` when the answer was begun. Sources that `acl` hides
        are not mentioned.
        """
        state, reasons = self._serving.state, []
        if not state.config.sources:
            reasons.append("no source is configured: `hopsyncd add` adds one")
        elif state.engine.head is None:
            reasons.append("nothing is indexed yet: the first sync is not finished")
        if self._follower and (lost := self._follower.trouble):
            why = "" if acl.visible is not None else f": {lost}"
            reasons.append(
                f"the database server cannot be reached, so results may be out of date{why}"
            )
        elif self._follower and self._follower.is_following and self._follower.lacks_encoder:
            reasons.append(
                f"the newest version has vectors of {self._follower.lacks_encoder}, and this daemon"
                f" has {state.models.encoder.name}, so results may be out of date: set [models]"
                " of this daemon as in the other daemons, then run `hopsyncd reload`"
            )
        elif error := self.explain_error():
            why = "" if acl.visible is not None else f": {error}"
            waits = self._worker.waits_for_encoder
            what = "indexing waits for the encoder" if waits else "the last sync failed"
            reasons.append(f"{what}{why}")
        elif (was_behind or self.is_behind) and state.engine.head is not None:
            reasons.append("changes are being indexed")
        configured = {source.name for source in state.config.sources}
        reasons += [
            f"source {name} is paused" + (f": {why}" if acl.shows_whole(name) else "")
            for name, why in self._worker.paused.items()
            if name in configured and acl.shows(name)
        ]
        return reasons

    def explain_error(self) -> str | None:
        """Explain why the last sync failed, or why the next sync will fail."""
        try:
            self.require_database()
        except DatabaseGone as error:
            return str(error)
        if self._follower and (self._follower.is_following or self._follower.trouble):
            return self._follower.trouble
        return self._worker.error


log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class Publisher:
    """Publishes new versions, on the writer and on followers.

    `stored` is set once a stored version is served, or is known to be unusable.
    """

    _serving: Serving
    _follower: Follower | None
    _watched: WatchedQuestions
    _make_engine: Callable[[Config, Models, AccessRules], Engine]
    stored: threading.Event = field(default_factory=threading.Event)

    @property
    def generation(self) -> GenerationConfig:
        return self._serving.state.models.maker.generation

    def get_generation(self, name: str) -> GenerationConfig:
        """Return the settings of the models that answer queries at versions of the generation
        `name`."""
        return self._serving.state.models.choose_generation(name).maker.generation

    def serve(self, snapshot: Snapshot | None, generation: str = "") -> None:
        """Serve a version that another daemon wrote. With None, no version can be served yet.

        From the first version of the configured generation on, the configured models answer.
        """
        state = self._serving.state
        models = state.models.choose_generation(generation)
        if snapshot and models is not state.models:
            # Running requests keep their engine.
            engine = self._make_engine(state.config, models, state.access)
            engine.publish(snapshot)
            self._serving.change(models=models, engine=engine)
        elif snapshot:
            state.engine.publish(snapshot)
        self.stored.set()

    def learn_access(self, connection: Connection) -> None:
        """Apply the access rules of the database and of the configuration from now on."""
        config = self._serving.state.config
        self._serving.change(access=AccessRules.from_config(config, read_access_rules(connection)))

    def publish_stored(self, connection: Connection, writer: VersionWriter) -> None:
        """Serve the newest version, if its vectors are from the current encoder."""
        newest = read_head(connection)
        if (
            newest
            and get_generation(connection, newest.generation).encoder == self.generation.encoder
        ):
            self._serving.state.engine.publish(writer.make_snapshot(newest))

    def publish(self, connection: Connection, writer: VersionWriter, version: Version) -> None:
        """Serve a version that has just been committed."""
        self._serving.state.engine.publish(writer.make_snapshot(version))
        self.announce(connection, writer, version)

    def announce(self, connection: Connection, writer: VersionWriter, version: Version) -> None:
        """Notify all parts except the engine of a new version."""
        if self._follower:
            self._follower.keep(connection, version.id)
        self._watched.note_version()
        log.info("version", version=version.id, reason=version.reason, **version.counters)
        endpoint = self._serving.state.models.endpoint
        if endpoint and "llm_calls" in version.counters:
            try:
                endpoint.ledger.assign_version(version.id, "questions")
            except StoreError as error:
                log.warning("cannot record the LLM calls of the version", why=str(error))
        writer.keep_index_if_due()


@dataclass(frozen=True, slots=True)
class DaemonParts:
    """The parts of the daemon that the services share. `workers` are the query workers."""

    serving: Serving
    freshness: Freshness
    names: SourceNames
    reader: RecordReader
    worker: SyncWorker
    follower: Follower | None
    workers: QueryWorkers
    watched: WatchedQuestions
    metrics: Metrics
    audit: AuditLog

    @property
    def state(self) -> ServingState:
        return self.serving.state
