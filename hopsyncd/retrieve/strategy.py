"""The registry of search strategies, and the models and caches that strategies share."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config.values import Search, Strategy
from hopsyncd.errors import BadRequest, ModelUnavailable
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import Encoder, Reranker, encode_questions
from hopsyncd.retrieve.likeness import fit
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.query_parser import drop_unrelated_sentences
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.content import read_passages
from store.contract import Connection
from store.records import Passage, PassageId, Vectors, to_grid

_KEPT_PASSAGES = 1024
_KEPT_VECTORS = 512  # More than parallel queries need, because agents repeat questions.


class PassageCache:
    """Caches the passages that were read recently. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[PassageId, Passage] = {}

    def read(self, connection: Connection, ids: Iterable[PassageId]) -> Mapping[PassageId, Passage]:
        """Return passages from the cache or the database. Purged passages are left out."""
        cache = self._kept  # `forget` replaces the dictionary
        passages = {id_: cache.get(id_) for id_ in ids}
        missing = [id_ for id_, passage in passages.items() if passage is None]
        new = read_passages(connection, missing) if missing else {}
        if len(cache) + len(new) > _KEPT_PASSAGES:
            cache.clear()
        cache.update(new)
        return {id_: passage for id_, passage in passages.items() if passage} | new

    def forget(self) -> None:
        """Drop all cached passages, because a purge may have removed some of them."""
        self._kept = {}


class VectorCache:
    """Caches the vectors of questions. Thread-safe.

    The same question is often encoded again, for another version or for its answer.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._kept: dict[str, NDArray[np.float32]] = {}
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return an unrounded (d,) vector for each text. All new texts are encoded in one call."""
        with self._lock:
            vectors = {text: self._kept[text] for text in texts if text in self._kept}
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            vectors |= zip(missing, encode_questions(self._encoder, missing), strict=True)
        with self._lock:
            for text in texts:
                self._kept.pop(text, None)
                self._kept[text] = vectors[text]
            for text in [*self._kept][:-_KEPT_VECTORS]:
                del self._kept[text]
        return [vectors[text] for text in texts]


class SearchTools:
    """The models, caches and settings that strategies share.

    The `settings` may be replaced at any time.
    """

    def __init__(self, encoder: Encoder, settings: WalkSettings, reranker: Reranker | None) -> None:
        self.encoded = VectorCache(encoder)
        self.passages = PassageCache()
        self.settings = settings
        # A walk is thousands of small steps. Threads that walk side by side take twice as long,
        # because they hand the interpreter's lock to each other.
        self.walk_lock = threading.Lock()
        self._reranker = reranker

    def encode(self, text: str) -> Vectors:
        """Encode the text. Returns a (d,) vector, rounded like stored vectors."""
        vector: Vectors = self.encode_all([text])[0]
        return vector

    def encode_all(self, texts: Sequence[str]) -> Vectors:
        """Encode m >= 1 texts. Returns (m, d) vectors, rounded like stored vectors."""
        return to_grid(np.stack(self.encoded.encode(texts)))

    def drop_unrelated_sentences(self, head: Snapshot, question: str) -> str:
        """Drop sentences of the question that resemble no passage of the version."""
        return drop_unrelated_sentences(question, lambda part: fit(head, self.encode(part)))

    def make_context(
        self,
        connection: Connection,
        head: Snapshot,
        question: str,
        *,
        needs_all_cosines: bool = False,
    ) -> QueryContext:
        """Compare the question with the version, or with all vectors if `needs_all_cosines`."""
        return QueryContext.build(
            question,
            self.encode(question),
            head,
            partial(self.passages.read, connection),
            self.encode_all,
            needs_all_cosines=needs_all_cosines,
        )

    def encode_unlocked(self, texts: Sequence[str]) -> Vectors:
        """Encode texts like `encode_all`, and release `walk_lock` meanwhile. The caller must hold
        the lock.
        """
        self.walk_lock.release()
        try:
            return self.encode_all(texts)
        finally:
            self.walk_lock.acquire()

    def walk_settings(self, search: Search) -> WalkSettings:
        """Return the settings of the walk, with the number of hops that the search requests."""
        return replace(self.settings, hops=search.n_hop) if search.n_hop else self.settings

    @property
    def has_reranker(self) -> bool:
        return self._reranker is not None

    def require_reranker(self) -> None:
        """Raise BadRequest if no reranker is configured."""
        if self._reranker is None:
            raise BadRequest(
                "The search was refused",
                "no reranker is configured",
                "Set models.reranker in the configuration to the folder of a cross-encoder, or"
                " models.reranker_url to an API",
            )

    def rerank_scores(
        self, question: str, texts: Sequence[str], notes: list[str]
    ) -> list[float] | None:
        """Return the reranker's score of each text. Raises BadRequest if there is no reranker.

        If the reranker fails, None is returned and `notes` gets an explanation.
        """
        self.require_reranker()
        assert self._reranker is not None
        try:
            return self._reranker.score_texts(question, texts)
        except ModelUnavailable as error:
            notes.append(f"the results are not reranked: {error.what}: {error.why}")
            return None


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search for the k best passages at a version, without an LLM.

    notes: a list to which strategies append a reason if they do less than requested.
    """

    tools: SearchTools
    connection: Connection
    snapshot: Snapshot
    question: str
    k: int
    search: Search
    notes: list[str] = field(default_factory=list)


def _encode_question(_snapshot: Snapshot, question: str) -> list[str]:
    return [question]


@dataclass(frozen=True, slots=True)
class StrategyDefinition:
    """A search strategy and its abilities.

    list_texts: a function that returns the texts whose vectors the strategy needs.
    has_statement_options: whether the strategy supports the options `unit`, `beam` and `rerank`.
    """

    run: Callable[[SearchRequest], list[Ranked]]
    list_texts: Callable[[Snapshot, str], list[str]] = _encode_question
    has_statement_options: bool = False


_definitions: dict[str, StrategyDefinition] = {}


def register_strategy(name: Strategy, definition: StrategyDefinition) -> None:
    """Register a strategy. Each module of `hopsyncd.retrieve.strategies` calls this function when
    the module is imported."""
    _definitions[name] = definition


def find_strategy(name: Strategy) -> StrategyDefinition:
    return _definitions[name]
