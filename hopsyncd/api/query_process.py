"""The process that answers queries for the daemon, and the messages between the two processes.

The process has its own live index but no models. The daemon sends the vectors with each query. If a
query needs more from a model, the process asks the daemon.
"""

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config.values import Search
from hopsyncd.errors import REPORTABLE
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.index.throttle import shorten_switch_interval
from hopsyncd.ingest.index_loading import follow
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.models.encoder import PromptedEncoder
from hopsyncd.models.language import Entity
from hopsyncd.responses.results import AskAnswer, QueryAnswer
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import format_reply
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import Understood
from hopsyncd.retrieve.results import format_answer
from hopsyncd.retrieve.searcher import EncodedTexts
from hopsyncd.retrieve.visible_sources import Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.content import get_generation
from store.exceptions import NoSuchVersion
from store.open_database import Database, open_reader
from store.records import GenerationConfig, Version
from store.space import release_memory
from store.transactions import count_rewrites, snapshot
from store.versions import read_head, read_version
from store.visibility import Mask

_QUIET_S = 1.0  # after this time without a message, a worker frees memory


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The database, index folder and edge budget that a worker uses.

    checked: the digest of the manifest of a saved index that the daemon has checked; empty if none.
    """

    database: Database
    index: Path
    budget_factor: float
    checked: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class QueryMessage:
    """A query at a version.

    encoded: the vectors of the query's texts. encoder: the name of the encoder that made them.
    """

    understood: Understood
    k: int
    search: Search
    at: str
    hidden: Mask | Acl
    settings: WalkSettings
    encoder: str
    encoded: EncodedTexts


@dataclass(frozen=True, slots=True)
class AskMessage:
    """A question to answer from the passages that its query finds."""

    query: QueryMessage
    with_passages: bool


@dataclass(frozen=True, slots=True)
class UpdateMessage:
    """A request to update the index to a version. `checked` is as in WorkerSettings."""

    version: int
    checked: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A worker's request for results of the daemon's models, one for each text."""

    kind: Literal["questions", "vectors", "entities"]
    texts: tuple[str, ...]


class _Outdated(Exception):
    """The worker's index is out of date, so the daemon must start a new worker."""


class _Unaided(Exception):
    """The daemon cannot supply model results, because its models failed or were replaced."""


class _DaemonModels(PromptedEncoder):
    """Requests results of the daemon's models for a worker, unless the query came with them."""

    def __init__(self, generation: GenerationConfig, wants: Callable[[Wanted], Any]) -> None:
        self._generation = generation
        self.encoded: Mapping[str, NDArray[np.float32]] = {}
        self._wants = wants

    @property
    def name(self) -> str:
        return self._generation.encoder

    @property
    def dimensions(self) -> int:
        return self._generation.dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of passages. Raises _Unaided if the daemon cannot supply them."""
        vectors = self._wants(Wanted("vectors", tuple(texts))) if texts else ()
        return np.array(vectors).reshape(len(texts), self.dimensions)

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions. Raises _Unaided if the daemon cannot supply them."""
        missing = tuple(text for text in dict.fromkeys(texts) if text not in self.encoded)
        if missing:
            vectors = self._wants(Wanted("questions", missing))
            self.encoded = {**self.encoded, **dict(zip(missing, vectors, strict=True))}
        return np.array([self.encoded[text] for text in texts]).reshape(len(texts), self.dimensions)

    def find_entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """Return the entities in texts. Raises _Unaided if the daemon cannot supply them."""
        names: list[tuple[Entity, ...]] = self._wants(Wanted("entities", tuple(texts)))
        return names


class _Copy:
    """Answers queries from the worker's own live index. Use an object of this class on only one
    thread."""

    def __init__(self, settings: WorkerSettings, wants: Callable[[Wanted], Any]) -> None:
        self._connection = open_reader(settings.database)
        with snapshot(self._connection):
            newest = read_head(self._connection)
            if newest is None:
                raise _Outdated
            generation = get_generation(self._connection, newest.generation)
            self._rewrites = count_rewrites(self._connection)
            self._saved = SavedIndex(settings.index, is_owned=False, trusted=settings.checked)
            self._index = self._saved.load(self._connection, generation, newest.id)
        self._generation = generation
        self._models = _DaemonModels(generation, wants)
        self._engine = Engine(
            settings.database,
            self._models,
            WalkSettings(),
            budget_factor=settings.budget_factor,
            saved_views=settings.index,
            owns_views=False,
        )
        self._asker = Asker(self._engine, self._models, self._models)
        self._statistics: Statistics | None = None
        self.version = 0
        self._publish(newest)

    def follow(self, number: int, checked: str = "") -> None:
        """Update the index to version `number`. Raises _Outdated if only a new worker can serve it.

        `checked` is as in WorkerSettings.
        """
        self._saved.trusted = checked
        with snapshot(self._connection):
            self._check()
            if number <= self.version:
                return
            try:
                newest = read_version(self._connection, number)
                if get_generation(self._connection, newest.generation).encoder != self._models.name:
                    raise _Outdated
                if self._saved.is_renewed(self._index):
                    self._read_again(newest)
                    return
                after = self._index.version  # may be newer than the served version
                if after < number:
                    follow(self._connection, self._index, self._models.name, after, number)
            except NoSuchVersion:  # a version was garbage collected
                raise _Outdated from None
        self._publish(newest)

    def _read_again(self, version: Version) -> None:
        """Replace the index, which has grown in memory, with the newly saved index on disk."""
        self._statistics = None
        self._index = self._saved.load(self._connection, self._generation, version.id)
        self._publish(version)
        self.release_memory()

    def release_memory(self) -> None:
        """Release the memory that is needed only to answer queries."""
        release_memory(self._connection)

    def answer(self, message: QueryMessage | AskMessage) -> QueryAnswer | AskAnswer | None:
        """Answer a message. Returns None if the daemon must answer. Raises _Outdated."""
        query = message.query if isinstance(message, AskMessage) else message
        with snapshot(self._connection):
            self._check()
        if query.encoder != self._models.name or int(query.at) > self.version:
            return None
        if not self._engine.is_ready(int(query.at), query.hidden):
            return None
        self._models.encoded = query.encoded
        self._engine.set_walk_settings(query.settings)
        try:
            if isinstance(message, AskMessage):
                return self._answer_question(query, message.with_passages)
            return self._answer_query(query)
        except (*REPORTABLE, _Unaided):  # the daemon answers, and reports the same error
            return None

    def _answer_query(self, message: QueryMessage) -> QueryAnswer:
        understood, search, hidden = message.understood, message.search, message.hidden
        result = self._engine.query(
            understood.question,
            message.k,
            search,
            message.at,
            hidden=hidden,
            filter_=understood.filter_,
        )
        return format_answer(result, search, understood)

    def _answer_question(self, message: QueryMessage, with_passages: bool) -> AskAnswer:
        understood, search, hidden = message.understood, message.search, message.hidden
        result, reply = self._asker.ask(
            understood.question,
            message.k,
            search,
            message.at,
            hidden=hidden,
            filter_=understood.filter_,
        )
        return format_reply(result, reply, [], understood, with_passages)

    def _check(self) -> None:
        """Raise _Outdated after a purge or a rebuild, which the change feed does not report."""
        if count_rewrites(self._connection) != self._rewrites:
            raise _Outdated

    def _publish(self, newest: Version) -> None:
        self._statistics = Statistics.count(self._index, newest.id, base=self._statistics)
        self._engine.publish(Snapshot(self._index, newest, self._statistics))
        self.version = newest.id


def serve(descriptor: int) -> None:
    """Answer the daemon's messages on the pipe, until it is closed or the index is outdated."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shorten_switch_interval()
    with (
        suppress(EOFError, BrokenPipeError, ConnectionResetError, _Outdated),
        Pipe(descriptor) as pipe,
    ):

        def wants(request: Wanted) -> Any:
            pipe.send(request)
            message = pipe.recv()
            if message is None:
                raise _Unaided
            return message

        copy = _Copy(pipe.recv(), wants)
        pipe.send(copy.version)
        while True:
            if not pipe.poll(_QUIET_S):
                copy.release_memory()
            message = pipe.recv()
            if isinstance(message, UpdateMessage):
                copy.follow(message.version, message.checked)
                pipe.send(copy.version)
            else:
                pipe.send(copy.answer(message))
