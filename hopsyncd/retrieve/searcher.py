"""The ways to search one version, dispatched: plain ones, the walk, and those that ask an LLM."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config.values import PAPER_HOPS, Search
from hopsyncd.errors import BadRequest, LlmError
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import Encoder, Reranker
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import Llm
from hopsyncd.retrieve.edge_traversal import (
    Choose,
    Offers,
    choose_first,
    follow,
    follow_paper,
    offers_of,
)
from hopsyncd.retrieve.footprint import Footprint
from hopsyncd.retrieve.hop import hop, walked_hop
from hopsyncd.retrieve.likeness import fit
from hopsyncd.retrieve.llm_reasoner import LlmReasoner, materials
from hopsyncd.retrieve.logic import (
    SHOWN,
    LlmUse,
    LogicSearch,
    Resolution,
    Tell,
    united,
)
from hopsyncd.retrieve.plain_search import (
    by_parts,
    by_vector,
    by_words,
    decomposed,
    fused,
    fusion_depth,
    reranked,
    split,
)
from hopsyncd.retrieve.query_context import QueryContext, words_of
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.statements import StatementGraph, by_statements, statement_starts
from hopsyncd.retrieve.topics import topic_starts
from hopsyncd.retrieve.understood import without_asides
from hopsyncd.retrieve.walk import WalkSettings
from store.records import Passage, PassageId, Vectors, to_grid
from store.sqlite.content import known_passages
from store.sqlite.database import Connection, snapshot

_KEPT_PASSAGES = 1024
_KEPT_VECTORS = 512  # of questions: more than may be under way, and agents ask many again

EncodedTexts = Mapping[str, NDArray[np.float32]]
"""(d,) the vector of each text, as its encoder gives it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, and what kept it from searching as it was told to."""

    ranked: Sequence[Ranked]
    degraded: Sequence[str] = ()
    resolution: Resolution | None = None


_OF_STATEMENTS = ("unit", "beam", "rerank")
_PLAIN = Search()


def _refuse_unheeded(search: Search) -> None:
    """Raise BadRequest for what only `statement` and `topic` heed, with another strategy."""
    if search.strategy in ("statement", "topic"):
        return
    for name in _OF_STATEMENTS:
        value = getattr(search, name)
        if value != getattr(_PLAIN, name):
            raise BadRequest(
                "The search was refused",
                f"the strategy {search.strategy} has no {name} {value}",
                f"Leave {name} out, or take the strategy statement or topic",
            )


def _encoded(encoder: Encoder, text: str) -> NDArray[np.float32]:
    vector: NDArray[np.float32] = encoder.encode([text])[0]
    return vector


class PassageCache:
    """Passages that were read lately, to compare questions with; for any thread."""

    def __init__(self) -> None:
        self._kept: dict[PassageId, Passage] = {}

    def read(self, connection: Connection, ids: Iterable[PassageId]) -> Mapping[PassageId, Passage]:
        """Those of the passages that the store has, or had when they were kept."""
        kept = self._kept  # `forget` puts another in its place
        found = {one: kept.get(one) for one in ids}
        missing = [one for one, passage in found.items() if passage is None]
        new = known_passages(connection, missing) if missing else {}
        if len(kept) + len(new) > _KEPT_PASSAGES:
            kept.clear()
        kept.update(new)
        return {one: passage for one, passage in found.items() if passage} | new

    def forget(self) -> None:
        """Read all of them anew: a purge may have removed some."""
        self._kept = {}


class Searcher:
    """`llm` and `reranker` are asked only by searches that want them.

    `settings` may be replaced.
    """

    def __init__(
        self, encoder: Encoder, settings: WalkSettings, llm: Llm | None, reranker: Reranker | None
    ) -> None:
        # The same question is often asked again: at another version, or for its answer.
        self.encoded = lru_cache(_KEPT_VECTORS)(partial(_encoded, encoder))
        self.passages = PassageCache()
        self.settings = settings
        self._llm = llm
        self._reranker = reranker
        # A walk is thousands of small steps, and threads that take them side by side spend twice
        # the walk on handing the interpreter's lock to each other.
        self._walking = threading.Lock()

    def vector(self, text: str) -> Vectors:
        """(d,) on the grid."""
        vector: Vectors = to_grid(self.encoded(text)[None])[0]
        return vector

    def encoded_for(self, head: Snapshot, question: str, search: Search) -> EncodedTexts:
        """The texts that such a search has encoded, unless it leaves out parts of the question or
        takes its words for others."""
        if search.strategy == "bm25":
            return {}
        is_split = search.strategy == "decompose"
        texts = split(question, head.select_mentioned_names) if is_split else [question]
        return {text: self.encoded(text) for text in texts}

    def asked(self, head: Snapshot, question: str) -> str:
        """The question without what the version has nothing like."""
        return without_asides(question, lambda part: fit(head, self.vector(part)))

    def search(
        self, connection: Connection, head: Snapshot, question: str, k: int, search: Search
    ) -> list[Ranked]:
        """Search without an LLM. Raises BadRequest."""
        _refuse_unheeded(search)
        strategy = search.strategy
        if strategy in ("hop", "statement", "topic"):
            question = self.asked(head, question)
        if strategy == "hop":
            context = self._context(connection, head, question)
            if search.profile == "default" and search.chosen_reasoner == "walk":
                with self._walking:
                    return hop(context, k, self._rounds(search))
            return self._follow(context, k, search, choose_first, self._offers(context, search))
        if strategy in ("statement", "topic"):
            return self._by_statements(connection, head, question, k, search)
        if strategy == "decompose":
            return self._by_parts(connection, head, split(question, head.select_mentioned_names), k)
        if strategy == "dense":
            return by_vector(connection, head, self.vector(question), k)
        if strategy == "rerank":
            reranker = self._required_reranker()
            return reranked(connection, head, question, self.vector(question), reranker, k)
        scores = words_of(head, question).scores
        if strategy == "bm25":
            return by_words(head.passage_ids, scores, k)
        depth = fusion_depth(k)
        words = by_words(head.passage_ids, scores, depth)
        return fused(k, words, by_vector(connection, head, self.vector(question), depth))

    def trace(
        self, connection: Connection, head: Snapshot, question: str, k: int
    ) -> tuple[list[Ranked], Footprint | None]:
        """What `hop` finds, and what that rests on; None where there is nothing to walk."""
        asked = self.asked(head, question)
        context = self._context(connection, head, asked)
        ranked, walked, _ = walked_hop(context, k, self.settings)
        if walked is None:
            return ranked, None
        return ranked, Footprint.of(question, context, self.vector(asked), walked, k)

    def search_by_llm(
        self,
        connection: Connection,
        head: Snapshot,
        question: str,
        k: int,
        search: Search,
        usage: Usage,
        tell: Tell,
    ) -> Found:
        """Search with an LLM. Opens snapshots of its own between the calls. Raises BadRequest.

        `tell` hears how far a search by logic is.
        """
        _refuse_unheeded(search)
        llm = self._required_llm()
        if search.method == "logic":
            return self._by_logic(connection, head, question, k, search, LlmUse(llm, usage, tell))
        if search.strategy == "decompose":
            parts, degraded = split(question, head.select_mentioned_names), []
            try:
                parts = decomposed(question, llm, usage)
            except LlmError as error:
                degraded = [f"the question was split by rule, not by the LLM: {error.why}"]
            with snapshot(connection):
                return Found(self._by_parts(connection, head, parts, k), degraded)
        context = self._context(connection, head, self.asked(head, question))
        offers = self._offers(context, search)
        read = partial(materials, connection, head, offers, search.profile == "default")
        graded = search.reasoner == "llm-relevance"
        reasoner = LlmReasoner(llm, usage, question, read, graded)
        ranked = self._follow(context, k, search, reasoner.choose, offers)
        return Found(ranked, reasoner.degraded)

    def _by_logic(
        self,
        connection: Connection,
        head: Snapshot,
        question: str,
        k: int,
        search: Search,
        use: LlmUse,
    ) -> Found:
        """The union of the retrievals for the parts of a question."""
        plain = replace(search, method="direct")
        if plain.wants_llm:
            raise BadRequest(
                "The search was refused",
                "the method logic asks the LLM between searches, and its searches would ask it too",
                "Leave the reasoner out, or take the method direct",
            )
        retrieved: list[list[Ranked]] = []

        def retrieve(query: str) -> list[tuple[PassageId, Passage]]:
            with snapshot(connection):
                retrieved.append(self.search(connection, head, query, max(k, SHOWN), plain))
                first = [one.passage for one in retrieved[-1][:SHOWN]]
                passages = known_passages(connection, first)
            return [(one, passages[one]) for one in first if one in passages]

        resolution = LogicSearch(question, retrieve, use).resolve()
        found = united(retrieved, resolution.cited)
        return Found(found[:k], resolution.degraded, resolution)

    def _follow(
        self, context: QueryContext, k: int, search: Search, choose: Choose, offers: Offers
    ) -> list[Ranked]:
        if search.profile == "default":
            return follow(context, k, choose, search.top_k, self._rounds(search), offers)
        if search.reasoner == "walk":
            raise BadRequest(
                "The search was refused",
                "the paper's profile follows single edges, and the walk takes all at once",
                "Take the reasoner similarity or llm, or the default profile",
            )
        hops = search.n_hop or PAPER_HOPS
        return follow_paper(context, k, choose, search.top_k, hops, offers)

    def _offers(self, context: QueryContext, search: Search) -> Offers:
        return offers_of(context, self.settings if search.profile == "default" else None)

    def _rounds(self, search: Search) -> WalkSettings:
        return replace(self.settings, hops=search.n_hop) if search.n_hop else self.settings

    def _by_parts(
        self, connection: Connection, head: Snapshot, parts: Sequence[str], k: int
    ) -> list[Ranked]:
        return by_parts(connection, head, [self.vector(part) for part in parts], k)

    def _by_statements(
        self, connection: Connection, head: Snapshot, question: str, k: int, search: Search
    ) -> list[Ranked]:
        scores = None
        if search.rerank == "cross-encoder":
            scores = partial(self._required_reranker().scores, question)
        context = self._context(connection, head, question)
        graph = StatementGraph(context, self.vector(question))
        begin = topic_starts if search.strategy == "topic" else statement_starts
        return by_statements(connection, graph, begin(graph, search.top_k), k, search, scores)

    def _context(self, connection: Connection, head: Snapshot, question: str) -> QueryContext:
        read = partial(self.passages.read, connection)
        return QueryContext.of(question, self.vector(question), head, read)

    def _required_llm(self) -> Llm:
        if self._llm is None:
            raise BadRequest(
                "The search was refused",
                "no LLM is configured",
                "Add [llm] to the configuration, or take the reasoner similarity",
            )
        return self._llm

    def _required_reranker(self) -> Reranker:
        if self._reranker is None:
            raise BadRequest(
                "The search was refused",
                "no reranker is configured",
                "Set models.reranker in the configuration to the folder of a cross-encoder",
            )
        return self._reranker
