"""Similarity of triplets, and of keyword sets: Eq. 1 of HopRAG (Liu et al. 2025, section 3.2)."""

from collections.abc import Collection, Iterable, Sequence, Set
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.names import Mentions
from store.records import GRID

# A dot product of two grid vectors, times this, is half their cosine.
HALF_COSINE = 0.5 / (GRID * GRID)


def jaccard(a: Set[str], b: Set[str]) -> float:
    """Shared keywords by all keywords; 0 when both sets are empty.

    >>> jaccard({"rome", "italy"}, {"rome"})
    0.5
    >>> jaccard(set(), set())
    0.0
    """
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def similarity(
    keywords_a: Set[str],
    vector_a: NDArray[np.integer],
    keywords_b: Set[str],
    vector_b: NDArray[np.integer],
) -> float:
    """Eq. 1: SIM(a, b) = (|ka & kb| / |ka | kb| + cos(va, vb)) / 2.

    The vectors are (d,) on the grid of store.records. The cosine is their exact integer dot
    product by GRID squared, within about 1e-4 of that of the unrounded vectors, so that equal
    inputs give equal bits everywhere.

    >>> v = np.array([4000, 0])
    >>> similarity({"rome", "italy"}, v, {"rome"}, v)
    0.75
    """
    dot = int(np.dot(vector_a.astype(np.int64), vector_b.astype(np.int64)))
    return jaccard(keywords_a, keywords_b) / 2 + dot * HALF_COSINE


Integers = NDArray[np.int64]


class KeywordSets:
    """m sets of keywords, arranged for comparing all of them with one more."""

    def __init__(self, sets: Iterable[Set[str]]) -> None:
        sizes: list[int] = []
        self._having: dict[str, list[int]] = {}
        for at, keywords in enumerate(sets):
            sizes.append(len(keywords))
            for keyword in keywords:
                self._having.setdefault(keyword, []).append(at)
        self._sizes = np.array(sizes, dtype=np.int64)

    def jaccards(self, keywords: Collection[str]) -> NDArray[np.float64]:
        """(m,) shared keywords by all keywords; 0 where both sets are empty.

        >>> KeywordSets([{"rome", "italy"}, {"gaul"}, set()]).jaccards({"rome"}).tolist()
        [0.5, 0.0, 0.0]
        """
        wanted = set(keywords)
        shared = np.zeros(len(self._sizes))
        for keyword in wanted:
            shared[self._having.get(keyword, [])] += 1
        result: NDArray[np.float64] = shared / np.maximum(self._sizes + len(wanted) - shared, 1)
        return result


class Keywords:
    """The keywords of one version's edges and passages, arranged when they are first asked for.

    The default walk never asks. What is given only grows, so a reader may keep it: `asked` and
    `answered` are the keywords of outgoing and incoming questions by position, `outs` and `ins`
    the (e,) positions of each edge's two questions.
    """

    def __init__(
        self,
        asked: Sequence[frozenset[str]],
        answered: Sequence[frozenset[str]],
        outs: Integers,
        ins: Integers,
        mentions: Mentions,
        passages: int,
    ) -> None:
        self._asked = asked
        self._answered = answered
        self._ends = outs, ins
        self._mentions = mentions
        self._passages = passages

    @cached_property
    def of_edges(self) -> KeywordSets:
        """Those of either question of the edge (HopRAG section 3.2)."""
        outs, ins = self._ends
        return KeywordSets(
            self._asked[out] | self._answered[in_]
            for out, in_ in zip(outs.tolist(), ins.tolist(), strict=True)
        )

    @cached_property
    def of_passages(self) -> KeywordSets:
        """Those of the questions that the passage answers, apart from the ones on it as a whole."""
        names: list[set[str]] = [set() for _ in range(self._passages)]
        mentions, said = self._mentions, slice(self._mentions.said)
        at, having = mentions.passage[said].tolist(), mentions.name[said].tolist()
        for passage, name in zip(at, having, strict=True):
            names[passage].add(mentions.spelled[name])
        return KeywordSets(names)
