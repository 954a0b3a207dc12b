"""Answering a question at one version: search by a strategy, then fetch what was found."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hopsyncd.graph.merge import MergeIndex
from hopsyncd.graph.view import GraphView, view_of
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.query.hop import hop
from hopsyncd.query.ranked import Ranked
from hopsyncd.query.words import WordIndex
from hopsyncd.strategy import Search
from hopsyncd.text.encoder import Encoder
from store.content import known_passages, question_texts, recipe_of, sets_at
from store.database import Connection, open_reader, snapshot
from store.errors import NoSuchVersion
from store.history import resolve
from store.reads import Place, matches_at, places_at, words_at
from store.records import Passage, PassageId, QuestionId, Version, to_grid
from store.search import nearest, postings
from store.versions import version

# Reciprocal rank fusion (Cormack, Clarke & Buettcher 2009) and the depth that it fuses.
_FUSION_K = 60
_FUSION_DEPTH = 100
_KEPT_PASTS = 3  # versions other than the head that stay in memory


@dataclass(frozen=True, slots=True)
class Head:
    """The served version and its graph."""

    version: Version
    view: GraphView
    words: WordIndex


@dataclass(frozen=True, slots=True)
class Answer:
    """Ranked passages with what is needed to show them, all of one version."""

    version: int
    search: Search
    ranked: tuple[Ranked, ...]
    passages: dict[PassageId, Passage]
    places: dict[PassageId, list[Place]]
    questions: dict[QuestionId, str]


class Engine:
    """The read path over one database file; from any thread."""

    def __init__(self, database: Path, encoder: Encoder, settings: WalkSettings) -> None:
        self._database = database
        self._encoder = encoder
        self._settings = settings
        self._local = threading.local()
        self._head: Head | None = None
        self._pasts: dict[int, Head] = {}
        self._past_lock = threading.Lock()

    @property
    def head(self) -> Head | None:
        """What is served; None before the first version."""
        return self._head

    def publish(self, head: Head) -> None:
        """Serve another version from now on; a request that has begun keeps its own."""
        self._head = head

    def forget_pasts(self) -> None:
        """Drop what is kept of past versions: a purge has rewritten them."""
        with self._past_lock:
            self._pasts.clear()

    def query(self, question: str, k: int, search: Search, at: str = "head") -> Answer | None:
        """Answer at the version that `at` names. None while there is no version at all.

        Raises NoSuchVersion.
        """
        connection = self._connection()
        while True:
            with snapshot(connection):
                served = self._served(connection, at)
                if served is None:
                    return None
                if self._is_kept(connection, served):
                    return self._answer(connection, served, question, k, search)

    def _is_kept(self, connection: Connection, served: Head) -> bool:
        """Whether the snapshot still has the version: gc may have run since it was taken up.

        False when another version is served by now. Raises NoSuchVersion when there is none.
        """
        try:
            version(connection, served.version.id)
        except NoSuchVersion:
            if self._head is served:
                raise
            return False
        return True

    def _answer(
        self, connection: Connection, served: Head, question: str, k: int, search: Search
    ) -> Answer:
        ranked = self._search(connection, served, question, k, search)
        shown = {one.passage for one in ranked}
        for one in ranked:
            shown.update(passage for step in one.hops for passage in (step.source, step.target))
        return Answer(
            version=served.version.id,
            search=search,
            ranked=tuple(ranked),
            passages=known_passages(connection, shown),
            places=places_at(connection, served.version.id, shown),
            questions=question_texts(
                connection, [step.question for one in ranked for step in one.hops]
            ),
        )

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._database)
        return connection

    def _served(self, connection: Connection, at: str) -> Head | None:
        head = self._head
        if at == "head":
            return head
        version = resolve(connection, at)
        if head is not None and head.version.id == version.id:
            return head
        return self._past(connection, version)

    def _past(self, connection: Connection, version: Version) -> Head:
        """A stored version, kept for the next question about it. Raises NoSuchVersion."""
        encoder = recipe_of(connection, version.recipe).encoder
        if encoder != self._encoder.name:
            raise NoSuchVersion(
                f"Cannot ask version {version.id}",
                f"its vectors are of the encoder {encoder}, and {self._encoder.name} is loaded",
                "Ask a newer version, or set models.encoder back",
            )
        with self._past_lock:
            if version.id not in self._pasts:
                head = load_head(connection, version, self._encoder.dimensions)
                while len(self._pasts) >= _KEPT_PASTS:
                    self._pasts.pop(next(iter(self._pasts)))
                self._pasts[version.id] = head
            return self._pasts[version.id]

    def _search(
        self, connection: Connection, head: Head, question: str, k: int, search: Search
    ) -> list[Ranked]:
        strategy = search.strategy
        found = partial(postings, connection)
        if strategy == "bm25":
            return _best_by_words(head, head.words.scores(question, found), k)
        vector = to_grid(self._encoder.encode([question]))[0]
        if strategy == "hop":
            return hop(head.view, head.words, found, question, vector, k, self._settings)
        depth = k if strategy == "dense" else max(k, _FUSION_DEPTH)
        by_vector = nearest(connection, head.version, vector, depth)
        if strategy == "dense":
            return [Ranked(passage, score) for passage, score in by_vector]
        by_words = head.words.scores(question, found)
        words = [one.passage for one in _best_by_words(head, by_words, depth)]
        return _best(_fused(words, [passage for passage, _ in by_vector]), k)


def head_of(connection: Connection, version: Version, index: MergeIndex) -> Head:
    """The version as a reader needs it, from the index that the writer keeps of it."""
    return Head(
        version,
        view_of(index, version.edge_budget),
        WordIndex(*words_at(connection, version.id)),
    )


def load_head(connection: Connection, version: Version, dimensions: int) -> Head:
    """The same from the store alone."""
    index = MergeIndex(dimensions)
    matches = matches_at(connection, version.id)
    index.load(
        sets_at(connection, version.id), matches.question, matches.target, matches.similarity
    )
    return head_of(connection, version, index)


def _best_by_words(head: Head, scores: NDArray[np.float64], k: int) -> list[Ranked]:
    best = np.lexsort((head.view.passage, -scores))[:k]
    return [
        Ranked(PassageId(int(head.view.passage[at])), float(scores[at]))
        for at in best
        if scores[at] > 0
    ]


def _best(scores: dict[PassageId, float], k: int) -> list[Ranked]:
    """The k best scored, ties going to the lower id."""
    ordered = sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))
    return [Ranked(passage, score) for passage, score in ordered[:k]]


def _fused(*rankings: Iterable[PassageId]) -> dict[PassageId, float]:
    """Reciprocal rank fusion: the sum over rankings of 1 / (60 + rank), ranks from 1.

    >>> sorted(_fused([PassageId(1), PassageId(2)], [PassageId(2)]).items())[0][1] == 1 / 61
    True
    """
    scores: dict[PassageId, float] = {}
    for ranking in rankings:
        for rank, passage in enumerate(ranking, 1):
            scores[passage] = scores.get(passage, 0.0) + 1 / (_FUSION_K + rank)
    return scores
