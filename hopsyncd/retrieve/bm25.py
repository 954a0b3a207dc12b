"""BM25 over the passages of one version, and which of them have which of a query's words."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.retrieve.walk import Coverage
from store.words import index_terms

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Postings = Callable[[str], Integers]

# The usual constants of BM25 (Robertson & Zaragoza 2009, section 3.5).
K1 = 1.2
B = 0.75

_MIN_SHARE = 0.02  # of the idf of all terms


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A term in one version: the passages that have it, its idf, its part of their scores."""

    at: Integers
    idf: float
    score: Floats


class WordIndex:
    """BM25 with the statistics of exactly the passages given, so that a past version ranks as it
    did when it was the head.

    `passage` are (n,) rising ids and `words` their lengths; postings give (m, 2) passage id and
    frequency of a term, of any version. What they gave is kept: common words are in every question.
    """

    def __init__(self, passage: Integers, words: Integers) -> None:
        self._passage = passage
        self.passages = len(passage)
        mean = max(float(words.mean()), 1.0) if len(words) else 1.0
        self._saturation = K1 * (1 - B + B * words / mean)
        self._kept: dict[str, Term] = {}

    def scores(self, query: str, postings: Postings) -> Floats:
        """(n,) BM25 scores. idf is log(1 + (n - df + 0.5) / (df + 0.5)), never negative."""
        scores = np.zeros(len(self._passage))
        for term in self._terms(query, postings):
            scores[term.at] += term.score
        return scores

    def coverage(self, query: str, postings: Postings) -> Coverage:
        """Which passages have which of the query's terms.

        Terms that no passage has, or too many to tell them apart, are left out.
        """
        found = [term for term in self._terms(query, postings) if len(term.at)]
        least = _MIN_SHARE * sum(term.idf for term in found)
        terms = [term for term in found if term.idf > least]
        has = np.zeros((len(terms), len(self._passage)))
        for line, term in zip(has, terms, strict=True):
            line[term.at] = 1.0
        idf = np.array([term.idf for term in terms])
        return Coverage(idf / idf.sum() if len(idf) else idf, has)

    def weights(self, query: str, postings: Postings) -> dict[str, float]:
        """The idf of each of the query's terms, also of those that no passage has."""
        found = self._terms(query, postings)
        return {name: term.idf for name, term in zip(index_terms(query), found, strict=True)}

    def _terms(self, query: str, postings: Postings) -> list[Term]:
        terms = index_terms(query)
        for term in terms:
            if term not in self._kept:
                self._kept[term] = self._weighted(postings(term))
        return [self._kept[term] for term in terms]

    def _weighted(self, found: Integers) -> Term:
        at = np.searchsorted(self._passage, found[:, 0])
        inside = at < len(self._passage)
        inside[inside] = self._passage[at[inside]] == found[inside, 0]
        at, frequency = at[inside], found[inside, 1]
        idf = float(np.log1p((len(self._passage) - len(at) + 0.5) / (len(at) + 0.5)))
        return Term(at, idf, idf * frequency * (K1 + 1) / (frequency + self._saturation[at]))
