"""Searches a version: with a registered strategy, or with the help of an LLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest, LlmError
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import Encoder, Reranker
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import Llm
from hopsyncd.retrieve.dependencies import Dependencies
from hopsyncd.retrieve.hop_variants import follow_edges, make_offers
from hopsyncd.retrieve.literal_search import (
    LiteralMatches,
    find_literals,
    rank_exact,
    rank_literals,
)
from hopsyncd.retrieve.llm_reasoner import LlmReasoner, read_materials
from hopsyncd.retrieve.logic import (
    SHOWN,
    SHOWN_TOKENS,
    LlmUse,
    LogicSearch,
    Resolution,
    Tell,
    unite,
)
from hopsyncd.retrieve.material import Material, make_material
from hopsyncd.retrieve.numbered_items import find_item
from hopsyncd.retrieve.query_words import read_query_words
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.sentences import (
    PassageTexts,
    compute_term_weights,
    list_sentences,
    read_best_sets,
    read_visible_places,
)
from hopsyncd.retrieve.similar import SPARE, Collapsed, collapse_similar
from hopsyncd.retrieve.strategies.hop import rank_hops, run_hop_search
from hopsyncd.retrieve.strategies.plain import decompose_by_llm, rank_by_parts, split_question
from hopsyncd.retrieve.strategy import SearchRequest, SearchTools, find_strategy
from hopsyncd.retrieve.strength import Strength, rate
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.conflict_copies import is_conflict_copy
from store.content import read_passages
from store.contract import Connection
from store.reads import read_places
from store.records import PassageId
from store.transactions import snapshot

EncodedTexts = Mapping[str, NDArray[np.float32]]
"""The (d,) vector of each text, as the encoder returns it."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The passages that a search found.

    degraded: the reasons why the search differs from the request. matches: the passages of the
    searched version with the question's words as typed.
    """

    ranked: Sequence[Ranked]
    degraded: Sequence[str] = ()
    resolution: Resolution | None = None
    matches: LiteralMatches | None = None


_STATEMENT_OPTIONS = ("unit", "beam", "rerank")
_PLAIN = Search()


def _refuse_unsupported_options(search: Search) -> None:
    """Raise BadRequest if options of `statement` and `topic` are used with another strategy."""
    if find_strategy(search.strategy).has_statement_options:
        return
    for name in _STATEMENT_OPTIONS:
        value = getattr(search, name)
        if name == "rerank" and value == "cross-encoder" and search.strategy == "hop":
            continue
        if value != getattr(_PLAIN, name):
            raise BadRequest(
                "The search was refused",
                f"the strategy `{search.strategy}` does not support `{name} = {value}`",
                f"Leave out {name}, or use the strategy `statement` or `topic`",
            )


class Searcher(SearchTools):
    """Runs searches. The LLM and the reranker are needed only by searches that request them."""

    def __init__(
        self, encoder: Encoder, settings: WalkSettings, llm: Llm | None, reranker: Reranker | None
    ) -> None:
        super().__init__(encoder, settings, reranker)
        self._encoder = encoder
        self._llm = llm

    def encode_texts(self, head: Snapshot, question: str, search: Search) -> EncodedTexts:
        """Encode the texts whose vectors this search needs, and return the vectors by text.

        Raises EncoderUnavailable.
        """
        texts = find_strategy(search.strategy).list_texts(head, question)
        return dict(zip(texts, self.encoded.encode(texts), strict=True)) if texts else {}

    def search(
        self, connection: Connection, head: Snapshot, question: str, k: int, search: Search
    ) -> list[Ranked]:
        """Search without an LLM. Raises BadRequest if this search is not possible."""
        return list(self.find(connection, head, question, k, search).ranked)

    def find(
        self, connection: Connection, head: Snapshot, question: str, k: int, search: Search
    ) -> SearchResult:
        """Search without an LLM, and look up the question's words as typed.

        Raises BadRequest if this search is not possible.
        """
        _refuse_unsupported_options(search)
        is_exact = search.match == "exact"
        matches = self._find_literals(connection, head, question, is_exact=is_exact)
        depth = k + SPARE if search.collapses_similar else k
        notes: list[str] = []
        if is_exact:
            ranked = rank_exact(head, matches, depth)
        else:
            request = SearchRequest(self, connection, head, question, depth, search, notes)
            ranked = find_strategy(search.strategy).run(request)
        if search.leads_with_literals:
            ranked = self._rank_as_typed(connection, head, matches, ranked, depth)
        if search.collapses_similar:
            ranked = self.collapse_similar(connection, head, question, ranked, k).hits
        return SearchResult([hit.with_hops() for hit in ranked], notes, matches=matches)

    def collapse_similar(
        self,
        connection: Connection,
        head: Snapshot,
        question: str,
        ranked: Sequence[Ranked],
        k: int,
    ) -> Collapsed:
        """Return the first k hits, each with its near-duplicates listed below it."""

        def find_copies(ids: Sequence[PassageId]) -> set[PassageId]:
            places = read_places(connection, head.version.id, ids, head.hidden) if ids else {}
            return {
                id_
                for id_, passage_places in places.items()
                if all(is_conflict_copy(place.document) for place in passage_places)
            }

        read = partial(self.passages.read, connection)
        return collapse_similar(ranked, question, k, read, find_copies)

    def rate(
        self, connection: Connection, head: Snapshot, question: str, result: SearchResult
    ) -> tuple[tuple[str, ...], Mapping[PassageId, Strength]]:
        """Rate the passages found.

        Returns the query's words and phrases that no visible passage has, and each passage's
        strength.
        """
        matches = result.matches or self._find_literals(connection, head, question)
        asked = question
        if not matches.query.is_keywords:
            asked = self.drop_unrelated_sentences(head, question)
        return matches.absent, rate(head, asked, self.encode(asked), result.ranked, matches)

    def _find_literals(
        self, connection: Connection, head: Snapshot, question: str, *, is_exact: bool = False
    ) -> LiteralMatches:
        read = partial(self.passages.read, connection)
        return find_literals(head, read_query_words(question), read, is_exact=is_exact)

    def _rank_as_typed(
        self,
        connection: Connection,
        head: Snapshot,
        matches: LiteralMatches,
        ranked: Sequence[Ranked],
        k: int,
    ) -> list[Ranked]:
        """Rank the passages with the query's words as typed first. If the query names a numbered
        item, the passage with this item comes before all others.
        """
        ranked = rank_literals(head, matches, ranked, k)
        if not matches.query.item:
            return ranked
        passages = self.passages.read(connection, [hit.passage for hit in ranked])
        ranked_passages = [
            (hit.passage, passages[hit.passage]) for hit in ranked if hit.passage in passages
        ]
        item = find_item(
            matches.query.item, compute_term_weights(head, matches.query.text), ranked_passages
        )
        if item is None:
            return ranked
        first = next(hit for hit in ranked if hit.passage == item.passage)
        most = max(hit.score for hit in ranked)
        others = [hit for hit in ranked if hit is not first]
        return [replace(first, score=most), *others]

    def trace(
        self, connection: Connection, head: Snapshot, question: str, k: int
    ) -> tuple[list[Ranked], Dependencies | None]:
        """Search with `hop`. Returns the results and their dependencies.

        If no passage is visible, the dependencies are None.
        """
        asked = self.drop_unrelated_sentences(head, question)
        context = self.make_context(connection, head, asked)
        search = run_hop_search(context, self.settings)
        if search is None:
            return [], None
        matches = self._find_literals(connection, head, question)
        depth = k + SPARE
        ranked = rank_hops(context, search, depth, self.settings)
        ranked = self._rank_as_typed(connection, head, matches, ranked, depth)
        collapsed = self.collapse_similar(connection, head, question, ranked, k)
        dependencies = Dependencies.collect(
            question, context, self.encode(asked), search, max(k, collapsed.looked_at)
        )
        return [hit.with_hops() for hit in collapsed.hits], dependencies

    def search_by_llm(
        self,
        connection: Connection,
        head: Snapshot,
        question: str,
        k: int,
        search: Search,
        usage: Usage,
        tell: Tell,
    ) -> SearchResult:
        """Search with an LLM. Raises BadRequest if this search is not possible.

        Each step opens a snapshot, so no snapshot stays open while the LLM is called. `tell`
        receives the progress of a search by logic.
        """
        _refuse_unsupported_options(search)
        llm = self._require_llm()
        if search.method == "logic":
            return self._search_by_logic(
                connection, head, question, k, search, LlmUse(llm, usage, tell)
            )
        if search.strategy == "decompose":
            parts, degraded = split_question(question, head.select_mentioned_names), []
            try:
                parts = decompose_by_llm(question, llm, usage)
            except LlmError as error:
                degraded = [f"the question was split by rule, not by the LLM: {error.why}"]
            vectors = [self.encode(part) for part in parts]
            return SearchResult(rank_by_parts(head, vectors, k), degraded)
        context = self.make_context(connection, head, self.drop_unrelated_sentences(head, question))
        offers = make_offers(self, context, search)
        read = partial(read_materials, connection, head, offers, search.profile == "default")
        graded = search.reasoner == "llm-relevance"
        reasoner = LlmReasoner(llm, usage, question, read, graded)
        ranked = follow_edges(self, context, k, search, reasoner.choose, offers)
        return SearchResult(ranked, reasoner.degraded)

    def _search_by_logic(
        self,
        connection: Connection,
        head: Snapshot,
        question: str,
        k: int,
        search: Search,
        use: LlmUse,
    ) -> SearchResult:
        """Search for the subproblems of a question by logic, and merge the results."""
        plain = replace(search, method="direct")
        if plain.wants_llm:
            raise BadRequest(
                "The search was refused",
                "the method `logic` and an LLM reasoner would both call the LLM at each step",
                "Leave out the reasoner, or use the method `direct`",
            )
        retrieved: list[list[Ranked]] = []

        def retrieve(query: str) -> Material:
            with snapshot(connection):
                retrieved.append(self.search(connection, head, query, max(k, SHOWN), plain))
                first = [hit.passage for hit in retrieved[-1][:SHOWN]]
                return self._select_material(connection, head, query, first)

        resolution = LogicSearch(question, retrieve, use).resolve()
        united = unite(retrieved, resolution.cited)
        return SearchResult(united[:k], resolution.degraded, resolution)

    def _select_material(
        self, connection: Connection, head: Snapshot, query: str, ids: Sequence[PassageId]
    ) -> Material:
        """Choose excerpts of these passages for an LLM that answers the query."""
        passages = read_passages(connection, ids)
        places = read_visible_places(connection, head, passages)
        texts = PassageTexts(tuple(id_ for id_ in ids if id_ in passages), passages, places)
        sets = read_best_sets(connection, head.version.id, texts.ranked)
        weights = compute_term_weights(head, query)
        vector = self.encode(query)
        sentences = list_sentences(texts, sets, vector, weights, self._encoder)
        return make_material(texts, sentences, weights, head, SHOWN_TOKENS)

    def _require_llm(self) -> Llm:
        if self._llm is None:
            raise BadRequest(
                "The search was refused",
                "no LLM is configured",
                "Set `base_url` and `model` in [llm], or leave out the options that need an LLM",
            )
        return self._llm
