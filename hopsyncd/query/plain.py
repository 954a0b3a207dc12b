"""The searches that walk nothing: by words, by vectors, and what is made of those."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hopsyncd.query.head import Head
from hopsyncd.query.ranked import Ranked
from hopsyncd.text.reranker import Reranker
from store.content import full_text, known_passages
from store.database import Connection
from store.records import PassageId, Vectors
from store.search import nearest

# Reciprocal rank fusion (Cormack, Clarke & Buettcher 2009) and the depth that it fuses.
_FUSION_K = 60
_FUSION_DEPTH = 100
_RERANK_DEPTH = 50


def by_words(passage: NDArray[np.int64], scores: NDArray[np.float64], k: int) -> list[Ranked]:
    """The k best of the (n,) BM25 scores above 0; `passage` are the ids."""
    best = np.lexsort((passage, -scores))[:k]
    return [Ranked(PassageId(int(passage[at])), float(scores[at])) for at in best if scores[at] > 0]


def by_vector(connection: Connection, head: Head, vector: Vectors, k: int) -> list[Ranked]:
    """The k nearest."""
    found = nearest(connection, head.version, vector, k, head.hidden)
    return [Ranked(*one) for one in found]


def fusion_depth(k: int) -> int:
    """How deep the rankings go that are fused into the k best."""
    return max(k, _FUSION_DEPTH)


def fused(k: int, *rankings: Iterable[Ranked]) -> list[Ranked]:
    """Reciprocal rank fusion: the sum over rankings of 1 / (60 + rank), ranks from 1.

    >>> first, second = (Ranked(PassageId(n), 0.0) for n in (1, 2))
    >>> [one.passage for one in fused(2, [first, second], [second])]
    [2, 1]
    """
    scores: dict[PassageId, float] = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, 1):
            scores[one.passage] = scores.get(one.passage, 0.0) + 1 / (_FUSION_K + rank)
    return _best(scores, k)


def by_parts(
    connection: Connection, head: Head, vectors: Sequence[Vectors], k: int
) -> list[Ranked]:
    """The nearest to each of the parts of a question, fused."""
    depth = fusion_depth(k)
    return fused(k, *(by_vector(connection, head, vector, depth) for vector in vectors))


def reranked(
    connection: Connection,
    head: Head,
    question: str,
    vector: Vectors,
    reranker: Reranker,
    k: int,
) -> list[Ranked]:
    """The nearest, read again by the reranker. Raises ModelUnavailable."""
    near = by_vector(connection, head, vector, max(k, _RERANK_DEPTH))
    passages = known_passages(connection, (one.passage for one in near))
    ids = [one.passage for one in near]
    scores = reranker.scores(question, [full_text(passages[id_]) for id_ in ids])
    return _best(dict(zip(ids, scores, strict=True)), k)


def _best(scores: dict[PassageId, float], k: int) -> list[Ranked]:
    """The k best scored, ties going to the lower id."""
    ordered = sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))
    return [Ranked(passage, score) for passage, score in ordered[:k]]
