"""BM25 over the passages of one version."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from store.words import index_terms

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# The usual constants of BM25 (Robertson & Zaragoza 2009, section 3.5).
K1 = 1.2
B = 0.75


class WordIndex:
    """BM25 with the statistics of exactly the passages given, so that a past version ranks as it
    did when it was the head.

    `passage` are (n,) rising ids and `words` their lengths; `postings` gives (m, 2) passage id and
    frequency of a term, of any version. What it gave is kept: common words are in every question.
    """

    def __init__(self, passage: Integers, words: Integers) -> None:
        self._passage = passage
        self._saturation = (
            K1 * (1 - B + B * words / max(float(words.mean()), 1.0))
            if len(words)
            else words.astype(np.float64)
        )
        self._kept: dict[str, tuple[Integers, Floats]] = {}

    def scores(self, query: str, postings: Callable[[str], Integers]) -> Floats:
        """(n,) BM25 scores. idf is log(1 + (n - df + 0.5) / (df + 0.5)), never negative."""
        scores = np.zeros(len(self._passage))
        for term in index_terms(query):
            if term not in self._kept:
                self._kept[term] = self._weighted(postings(term))
            at, weights = self._kept[term]
            scores[at] += weights
        return scores

    def _weighted(self, found: Integers) -> tuple[Integers, Floats]:
        at = np.searchsorted(self._passage, found[:, 0])
        inside = at < len(self._passage)
        inside[inside] = self._passage[at[inside]] == found[inside, 0]
        at, frequency = at[inside], found[inside, 1]
        idf = np.log1p((len(self._passage) - len(at) + 0.5) / (len(at) + 0.5))
        return at, idf * frequency * (K1 + 1) / (frequency + self._saturation[at])
