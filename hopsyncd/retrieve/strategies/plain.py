"""Searches that do not walk: by words, by vectors, by both, by sub-questions, or reranked."""

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.plain_search import (
    by_parts,
    by_vector,
    by_words,
    fused,
    fusion_depth,
    reranked,
    split,
)
from hopsyncd.retrieve.query_context import words_of
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.strategy import SearchRequest, StrategyDefinition, register_strategy


def search_words(request: SearchRequest) -> list[Ranked]:
    """The best passages by BM25."""
    scores = words_of(request.snapshot, request.question).scores
    return by_words(request.snapshot.passage_ids, scores, request.k)


def search_vectors(request: SearchRequest) -> list[Ranked]:
    """The passages whose vectors are nearest to the question's."""
    vector = request.tools.vector(request.question)
    return by_vector(request.connection, request.snapshot, vector, request.k)


def search_hybrid(request: SearchRequest) -> list[Ranked]:
    """The rankings by words and by vectors, fused."""
    snapshot, depth = request.snapshot, fusion_depth(request.k)
    scores = words_of(snapshot, request.question).scores
    words = by_words(snapshot.passage_ids, scores, depth)
    vector = request.tools.vector(request.question)
    return fused(request.k, words, by_vector(request.connection, snapshot, vector, depth))


def search_parts(request: SearchRequest) -> list[Ranked]:
    """The rankings by the vectors of the question and of its clauses, fused."""
    vectors = [
        request.tools.vector(part) for part in list_parts(request.snapshot, request.question)
    ]
    return by_parts(request.connection, request.snapshot, vectors, request.k)


def search_reranked(request: SearchRequest) -> list[Ranked]:
    """The passages nearest by their vectors, in the order of the cross-encoder."""
    reranker = request.tools.required_reranker()
    return reranked(
        request.connection,
        request.snapshot,
        request.question,
        request.tools.vector(request.question),
        reranker,
        request.k,
    )


def list_parts(snapshot: Snapshot, question: str) -> list[str]:
    """The question and those of its clauses that use a name known to the graph."""
    return split(question, snapshot.select_mentioned_names)


def _list_nothing(_snapshot: Snapshot, _question: str) -> list[str]:
    return []


register_strategy("bm25", StrategyDefinition(search_words, list_texts=_list_nothing))
register_strategy("dense", StrategyDefinition(search_vectors))
register_strategy("hybrid", StrategyDefinition(search_hybrid))
register_strategy("decompose", StrategyDefinition(search_parts, list_texts=list_parts))
register_strategy("rerank", StrategyDefinition(search_reranked))
