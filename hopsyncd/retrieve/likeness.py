"""Measures the likeness of passages to a question, from the cosines of vectors and from words.

Each passage is compared as a whole. Its sentences are compared only if the passage is among the
most similar passages, or if an edge, a link or a name leads to it. So the cost of a question
depends on the number of passages that the search reaches. If the version has few vectors, all
vectors are compared at once, which is faster.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import AnyIntegers, Floats, Integers, expand_ranges, find_range_maxima
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from store.records import Vectors

OF_LIKENESS = 15.0
OF_WORDS = 25.0
NEAR = 1000  # passages whose sentences are compared
FEW_VECTORS = 1 << 15  # with up to this many vectors, all are compared at once
_SPARSE = 16

Cosines = NDArray[np.float32]


class Likeness:
    """Compares a question's (d,) vector with the vectors of a version.

    The comparison starts in another thread when the object is created.
    """

    def __init__(self, snapshot: Snapshot, vector: Vectors, limit: int = FEW_VECTORS) -> None:
        """Start the comparison. If the index has at most `limit` vectors, all are compared at
        once.
        """
        index = snapshot.index
        self._vectors, self._vector = index.vectors, vector
        self._first = index.passages.vector_start[: len(snapshot.statistics.visible.passages)]
        self._is_small = len(index.vectors) <= limit
        among = (
            index.vectors.codes
            if self._is_small
            else index.vectors.passage_codes[: len(self._first)]
        )
        self._begun = index.vectors.start_cosines(vector, among)

    @cached_property
    def every(self) -> Cosines:
        """(r,) cosines of the question with each of the r vectors of the index."""
        if self._is_small:
            return self._begun()
        return self._vectors.start_cosines(self._vector, self._vectors.codes)()

    @cached_property
    def whole(self) -> Cosines:
        """(n,) cosines of the question with the whole-text vector of each passage row."""
        return self.every[self._first] if self._is_small else self._begun()

    def get_cosines(self, rows: AnyIntegers) -> Cosines:
        """Return (w,) cosines of the question with the vectors in these w vector rows."""
        if self._is_small:
            return self.every.take(rows)
        return self._vectors.compute_cosines(self._vector, rows)


@dataclass(frozen=True, slots=True, eq=False)
class NearPassages:
    """The `NEAR` visible passages most like the question, and the passages that tie with the last
    of them.

    passage_rows: (m,) ascending. like: (m,) the likeness of each passage by words and by
    its best vector. rows: (w,) the rows of all vectors of these passages. cosines: (w,) the cosine
    of the question with each of these vectors.
    """

    passage_rows: Integers
    like: Floats
    rows: Integers
    cosines: Cosines

    @classmethod
    def select(cls, snapshot: Snapshot, likeness: Likeness, by_words: Floats) -> Self:
        """Select the passages by their words and by the vector of each whole passage."""
        is_near = snapshot.statistics.visible.passages
        if snapshot.statistics.passages > NEAR:
            like = OF_LIKENESS * likeness.whole + OF_WORDS * by_words
            like[~is_near] = -np.inf
            is_near = like >= _find_least_near(like)
        passage_rows = np.flatnonzero(is_near)
        columns = snapshot.index.passages
        first = columns.vector_start[passage_rows].astype(np.int64)
        end = columns.vector_end[passage_rows].astype(np.int64)
        rows, _ = expand_ranges(first, end)
        cosines, until = likeness.get_cosines(rows), (end - first).cumsum()
        best = np.zeros(0, dtype=np.float32)
        if len(passage_rows):
            best = find_range_maxima(cosines, until - (end - first), until)
        of_words = OF_WORDS * by_words[passage_rows]
        return cls(passage_rows, OF_LIKENESS * best.astype(np.float64) + of_words, rows, cosines)


def _find_least_near(like: Floats) -> float:
    """Return the `NEAR`-th largest likeness.

    An estimate from a sample of one likeness in 16 usually excludes most likenesses.
    """
    guessed = 2 * NEAR // _SPARSE
    if len(like) > _SPARSE * guessed:
        sample = np.partition(like[::_SPARSE], -guessed)
        among = like[like >= sample[-guessed]]
        if len(among) >= NEAR:
            like = among
    return float(np.partition(like, -NEAR)[-NEAR])


def fit(snapshot: Snapshot, vector: Vectors) -> float:
    """Return the largest cosine of this vector with a vector of the nearest visible passages.

    The result is at least 0. Only the `NEAR` passages with the most similar whole-text vectors are
    compared by their sentences.
    """
    count = len(snapshot.statistics.visible.passages)
    near = NearPassages.select(snapshot, Likeness(snapshot, vector), np.zeros(count))
    return float(near.cosines.max(initial=0.0))


def compare_best_vectors(index: LiveIndex, vector: Vectors, passage_rows: Integers) -> Floats:
    """Return (m,) cosines of this vector with the most similar vector of each of the m passages. A
    passage has a vector of its whole text and of each sentence.
    """
    if not len(passage_rows):
        return np.empty(0)
    columns = index.passages
    starts = columns.vector_start[passage_rows].astype(np.int64)
    ends = columns.vector_end[passage_rows].astype(np.int64)
    vector_rows, _ = expand_ranges(starts, ends)
    cosines = index.vectors.compute_cosines(vector, vector_rows)
    until = (ends - starts).cumsum()
    return find_range_maxima(cosines, until - (ends - starts), until).astype(np.float64)
