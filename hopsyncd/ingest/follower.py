"""Follows a PostgreSQL database to which another daemon writes, until this daemon is elected
writer.

Any thread may call `request`, `submit` and `refusal`, and read the attributes and properties of
`Follower`. All other methods run on the writer's thread.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog

from hopsyncd.errors import BadRequest, SyncFailed
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.ingest.index_loading import follow, is_mostly_deleted
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.source_scheduler import make_future
from hopsyncd.ingest.source_sync import SyncOutcome
from store.changes import Stamp, stamp
from store.content import get_generation
from store.contract import Connection, require_server
from store.copying import SHOWN_NAME, LocalCopy
from store.exceptions import (
    Deposed,
    DiskFailure,
    NoSuchVersion,
    NotADatabase,
    ServerLost,
    Unreadable,
)
from store.open_database import open_reader, open_serving
from store.operational import (
    SyncReply,
    list_pending_syncs,
    read_replies,
    store_reply,
    store_sync_request,
)
from store.records import GenerationConfig
from store.transactions import snapshot
from store.versions import read_head

log = structlog.get_logger(__name__)

_ROUND_S = 0.5  # how often a follower looks for new versions and tries to become the writer.
_WORN_S = 60.0  # how often it checks whether most rows of its index are unused.
_REPLY_S = 0.05  # how often it looks for the reply to a request.

Request = Callable[[Sequence[str], bool], "Future[tuple[SyncOutcome, ...]]"]
SyncOutcomes = tuple[SyncOutcome, ...]
Result = TypeVar("Result")


class NotWriter(BadRequest):
    """Another daemon is the writer, so this daemon cannot do the operation."""


class Audience(Protocol):
    """Receives the versions and access rules that a follower loads."""

    def get_generation(self, name: str) -> GenerationConfig:
        """Return this daemon's generation settings for the stored settings with this name.

        If this daemon has not loaded settings with this name, returns the settings that it uses
        now.
        """
        ...

    def serve(self, snapshot: Snapshot | None, generation: str = "") -> None:
        """Serve this snapshot from now on. `generation` is the name of the snapshot's generation
        settings.

        If `snapshot` is None, no newer version can be loaded at present.
        """
        ...

    def learn_access(self, connection: Connection) -> None:
        """Reload the access rules from the database."""
        ...


@dataclass(frozen=True, slots=True)
class _Job:
    do: Callable[[Connection], None]
    done: "Future[Any]"


class Follower:
    """Follows the database at a URL, and becomes the writer of this database once this daemon is
    elected."""

    def __init__(self, url: str, saved: SavedIndex) -> None:
        self._url = url
        self._saved = saved
        self.copy = LocalCopy(saved.folder / SHOWN_NAME)
        self._is_kept = True
        self._waiting: dict[int, Future[SyncOutcomes]] = {}
        self._lock = threading.Lock()
        self._takes_jobs = True
        self._jobs: list[_Job] = []
        self._made: Stamp | None = None
        self._accepted: set[int] = set()
        self._index: LiveIndex | None = None
        self._encoder = ""  # the encoder whose vectors are in the index
        self._statistics: Statistics | None = None
        self._worn_check_s = 0.0  # the time (monotonic) of the next check for unused rows
        self.served = self.newest = 0
        # the encoder that the newest version needs, if this daemon does not have it
        self.lacks_encoder = ""
        self.is_writer = False

    @property
    def is_following(self) -> bool:
        return not self.is_writer

    @property
    def trouble(self) -> str | None:
        """The reason why the database server cannot be reached, or None while it can be reached."""
        return str(self.copy.lost) if self.copy.lost else None

    @property
    def behind(self) -> int:
        return 0 if self.is_writer else self.newest - self.served

    def follow_until_elected(
        self, connection: Connection, audience: Audience, check_stop: Callable[[], None]
    ) -> Connection:
        """Follow the database until this daemon is elected writer. Returns the writer's session."""
        is_logged = is_lost = False
        self._set_role(writes=False)
        self._accepted.clear()
        while True:
            check_stop()
            try:
                is_elected = require_server(connection).elect()
                self.copy.lost = None  # The server is reachable again.
                if is_elected:
                    self._catch_up(connection, audience)
                    self._set_role(writes=True)
                    self._do_jobs(connection)
                    log.info("this daemon is now the writer", version=self.served)
                    return connection
                if not is_logged:
                    log.info("following another writer")
                    is_logged = True
                self._follow_a_while(connection, audience, check_stop)
                is_lost = False
            except ServerLost as error:
                if not is_lost:
                    log.error("lost the connection to the database server", why=error.why)
                self.copy.lost, is_lost = error, True
                audience.serve(None)
                time.sleep(_ROUND_S)
                connection = self._reconnect(connection)

    def keep(self, connection: Connection, number: int) -> None:
        """Update the local copy of the database to version `number`. If the update fails, delete
        the copy."""
        try:
            with snapshot(connection):
                self.copy.follow(connection, number)
            self._is_kept = True
        except (DiskFailure, NotADatabase, Unreadable, OSError) as error:
            log.warning(
                "the local copy was not updated, so searches need the server", why=str(error)
            )
            self.copy.forget()
            self._is_kept = False

    def keep_index(self) -> None:
        """Save the index for the next start. Call this method after the worker's thread has
        ended."""
        if self._index is not None and self._made is not None:
            self._saved.finish_saving()
            if not self._saved.is_close(self._index):
                self._saved.save(self._made, self._index, self._encoder)

    def hand_over(self) -> tuple[LiveIndex | None, Statistics | None]:
        """Return the index and its statistics to the writer, which owns them from then on."""
        index_and_statistics = self._index, self._statistics
        self._index = self._statistics = self._made = None
        return index_and_statistics

    def abandon(self, error: BaseException) -> None:
        """Fail all waiting requests and jobs with this error. The next writer still runs the
        requested syncs."""
        self.is_writer = False
        with self._lock:
            self._takes_jobs = False
            jobs, self._jobs = self._jobs, []
        for done in [*self._waiting.values(), *(job.done for job in jobs)]:
            done.set_exception(error)
        self._waiting.clear()

    def request(self, sources: Collection[str], accept_empty: bool) -> "Future[SyncOutcomes]":
        """Request a sync from the writer. The future is done once this daemon serves the result.
        Thread-safe."""
        done: Future[SyncOutcomes] = make_future()
        try:
            with closing(open_reader(self._url)) as connection:
                number = store_sync_request(connection, sources, accept_empty)
        except ServerLost as error:
            done.set_exception(error)
        else:
            self._waiting[number] = done
        return done

    def submit(self, job: Callable[[Connection], Result]) -> "Future[Result] | None":
        """Run a job on the writer's thread while this daemon follows. Returns None if this daemon
        is the writer. Thread-safe."""
        done: Future[Result] = make_future()

        def do(connection: Connection) -> None:
            try:
                done.set_result(job(connection))
            except BaseException as error:  # noqa: BLE001 - raised again by the future
                done.set_exception(error)

        with self._lock:
            if not self._takes_jobs:
                return None
            self._jobs.append(_Job(do, done))
        return done

    def not_writer_error(self) -> NotWriter:
        """Create the error for an operation that only the writer can do."""
        return NotWriter(
            "The request was refused",
            "another daemon writes to this database, so this daemon is read-only",
            "Send the request to the daemon whose `hopsyncd status --json` shows the role `writer`",
        )

    def start_requested_syncs(self, connection: Connection, request: Request) -> None:
        """Start the syncs that followers requested, by a call of `request` for each sync. Call this
        method only while this daemon is the writer. Raises ServerLost."""
        asks = list_pending_syncs(connection)
        self.copy.lost = None
        if self._is_kept and not self.copy.exists:  # A purge has deleted the copy.
            newest = read_head(connection)
            self.keep(connection, newest.id if newest else 0)
        for sync in asks:
            if sync.id not in self._accepted:
                self._accepted.add(sync.id)
                answered = partial(self._store_reply, connection, sync.id)
                request(sync.sources, sync.accept_empty).add_done_callback(answered)
        self._settle(connection)

    def is_deposed_by(self, error: Exception) -> bool:
        """Return whether this error means that another daemon may be the writer now. If true, this
        daemon becomes a follower again."""
        if not isinstance(error, ServerLost | Deposed):
            return False
        self.is_writer = False
        return True

    def _store_reply(
        self, connection: Connection, number: int, done: "Future[SyncOutcomes]"
    ) -> None:
        """Store the result of a sync for the follower that requested the sync. Does nothing if this
        daemon is no longer the writer. The next writer then runs the sync."""
        if not self.is_writer:
            return
        newest = read_head(connection)
        version = newest.id if newest else 0
        if error := done.exception():
            store_reply(connection, number, SyncReply(version, (), str(error)))
        else:
            outcomes = tuple((outcome.source, outcome.problem) for outcome in done.result())
            store_reply(connection, number, SyncReply(version, outcomes))

    def _settle(self, connection: Connection) -> None:
        """Resolve the futures of the requests whose results this daemon serves."""
        replies = read_replies(connection, self._waiting) if self._waiting else {}
        for number, answer in replies.items():
            if answer.version > self.served and not self.is_writer:
                continue
            done = self._waiting.pop(number)
            if answer.error is None:
                done.set_result(
                    tuple(SyncOutcome(source, problem=why) for source, why in answer.outcomes)
                )
            else:
                done.set_exception(
                    SyncFailed("The sync failed", answer.error, "See the log of the writer")
                )

    def _reconnect(self, connection: Connection) -> Connection:
        connection.close()
        try:
            return open_serving(self._url)
        except ServerLost:
            return connection

    def _follow_a_while(
        self, connection: Connection, audience: Audience, check_stop: Callable[[], None]
    ) -> None:
        self._catch_up(connection, audience)
        end_s = time.monotonic() + _ROUND_S
        while (left_s := end_s - time.monotonic()) > 0:
            check_stop()
            self._do_jobs(connection)
            if require_server(connection).wait(min(left_s, _REPLY_S) if self._waiting else left_s):
                self._catch_up(connection, audience)
            self._settle(connection)

    def _set_role(self, *, writes: bool) -> None:
        """Switch to writing, or to following. Only a follower accepts jobs."""
        with self._lock:
            self.is_writer, self._takes_jobs = writes, not writes

    def _do_jobs(self, connection: Connection) -> None:
        while self._jobs:
            with self._lock:
                job = self._jobs.pop(0)
            job.do(connection)

    def _catch_up(self, connection: Connection, audience: Audience) -> None:
        """Update the index to the newest version, and serve it."""
        with snapshot(connection):
            audience.learn_access(connection)
            newest = read_head(connection)
            self.newest = newest.id if newest else 0
            if newest is None:
                audience.serve(None)
                return
            stored = get_generation(connection, newest.generation)
            generation = audience.get_generation(stored.name)
            lacks = generation.encoder != stored.encoder
            self.lacks_encoder = stored.encoder if lacks else ""
            if lacks:
                audience.serve(None)
                return
            self._forget_if_worn(connection)
            index_stamp = self._made
            if (
                index_stamp is not None
                and index_stamp.version == newest.id
                and self._matches_database(connection, index_stamp)
            ):
                return
            # If the encoder has changed, this takes long. The previous version is served meanwhile.
            index = self._follow_to(connection, generation, newest.id)
            self._index, self._made = index, stamp(connection, newest.id)
            self._encoder = generation.encoder
            self._statistics = Statistics.count(index, newest.id, base=self._statistics)
        self.served = newest.id
        audience.serve(Snapshot(index, newest, self._statistics), stored.name)
        self.keep(connection, newest.id)
        if not self._saved.is_saving:
            self._saved.finish_saving()
            if self._saved.is_due(index):
                self._saved.start_saving(self._made, index, self._encoder)

    def _forget_if_worn(self, connection: Connection) -> None:
        """Drop the index if garbage collection has deleted most of its rows from the database.

        The next load then reads only the remaining rows. Until then, the served version does not
        change.
        """
        index, now_s = self._index, time.monotonic()
        if index is None or now_s < self._worn_check_s:
            return
        self._worn_check_s = now_s + _WORN_S
        if index.is_worn and is_mostly_deleted(connection, index):
            log.info("most of the index is unused, so it is rebuilt", version=index.version)
            self._saved.forget()
            self._index = self._made = self._statistics = None

    def _follow_to(
        self, connection: Connection, generation: GenerationConfig, until: int
    ) -> LiveIndex:
        """Return the index at version `until`: the present index after an update, or a newly loaded
        index."""
        index, index_stamp = self._index, self._made
        self._index = self._made = None  # While it is being changed, the index is invalid.
        rewritten = index_stamp is not None and not self._matches_database(connection, index_stamp)
        is_other = self._encoder != generation.encoder
        if index is not None and index_stamp is not None and not rewritten and not is_other:
            try:
                follow(connection, index, generation.encoder, index_stamp.version, until)
            except NoSuchVersion:
                log.info(
                    "the index is too old to update, so it is rebuilt", version=index_stamp.version
                )
            else:
                return index
        if rewritten:
            self._saved.forget()
        self._statistics = None
        return self._saved.load(connection, generation, until)

    @staticmethod
    def _matches_database(connection: Connection, index_stamp: Stamp) -> bool:
        return stamp(connection, index_stamp.version) == index_stamp
