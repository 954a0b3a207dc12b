"""Publishes versions: from then on they are served, and watched questions are compared."""

import threading

import structlog

from hopsyncd.api.access_rules import AccessRules
from hopsyncd.api.serving import Serving
from hopsyncd.api.watched_questions import WatchedQuestions
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.version_writer import VersionWriter
from store.content import get_generation
from store.contract import Connection
from store.exceptions import StoreError
from store.records import GenerationConfig, Version
from store.sources import access_rules
from store.versions import head

log = structlog.get_logger(__name__)


class Publisher:
    """The audience of a follower too. `stored` is set once a stored version is served, or cannot
    be."""

    def __init__(
        self, serving: Serving, follower: Follower | None, watched: WatchedQuestions
    ) -> None:
        self._serving = serving
        self._follower = follower
        self._watched = watched
        self.stored = threading.Event()

    @property
    def generation(self) -> GenerationConfig:
        return self._serving.state.models.maker.generation

    def serve(self, snapshot: Snapshot | None) -> None:
        """Serve what another daemon wrote; None while that is unknown."""
        if snapshot:
            self._serving.state.engine.publish(snapshot)
        self.stored.set()

    def learn_access(self, connection: Connection) -> None:
        """Decide from now on by what the record and the configuration in force say."""
        config = self._serving.state.config
        self._serving.change(access=AccessRules.of(config, access_rules(connection)))

    def publish_stored(self, connection: Connection, writer: VersionWriter) -> None:
        """Serve the newest version, if its vectors are from the current encoder."""
        newest = head(connection)
        if (
            newest
            and get_generation(connection, newest.generation).encoder == self.generation.encoder
        ):
            self._serving.state.engine.publish(writer.snapshot_of(newest))

    def publish(self, connection: Connection, writer: VersionWriter, version: Version) -> None:
        """Serve a version that was committed just now."""
        self._serving.state.engine.publish(writer.snapshot_of(version))
        self.announce(connection, writer, version)

    def announce(self, connection: Connection, writer: VersionWriter, version: Version) -> None:
        """Tell everybody but the engine of a new version."""
        if self._follower:
            self._follower.keep(connection, version.id)
        self._watched.note_version()
        log.info("version", version=version.id, reason=version.reason, **version.counters)
        endpoint = self._serving.state.models.endpoint
        if endpoint and "llm_calls" in version.counters:
            try:
                endpoint.ledger.attribute(version.id, "questions")
            except StoreError as error:
                log.warning("the ledger did not book LLM calls to the version", why=str(error))
        writer.keep_index_if_due()
