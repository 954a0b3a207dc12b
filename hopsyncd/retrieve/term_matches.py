"""Finds the visible passages that have a term, with their BM25 scores.

BM25 uses only the statistics of visible passages, so a past version ranks as it did when it was the
head.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import Floats, Int32s, Integers, take_flags
from hopsyncd.index.live_index import compute_name_key
from hopsyncd.index.snapshot import Snapshot
from store.records import Passage, PassageId

# The usual constants of BM25 (Robertson & Zaragoza 2009, section 3.5).
K1 = 1.2
B = 0.75

Read = Callable[[Iterable[PassageId]], Mapping[PassageId, Passage]]

TermRows = tuple[Int32s, Integers]
"""Rows of the `terms` table with one key, and their passage rows."""

_NO_ROWS = np.empty(0, dtype=np.int32)

WORD = re.compile(r"\w+")
NO_OTHERS: Mapping[str, Integers] = {}
OF_FORMS = 0.9  # the weight of another form of a word
_TERMS_KEPT, _MOST_ROWS_KEPT = 64, 1 << 14  # terms whose rows are cached, and rows of one term
_COMMON_KEPT = 8  # common terms whose scores are cached for each version


class TermMatches:
    """The visible passages that have a term.

    df: the number of these passages.
    """

    def __init__(
        self, snapshot: Snapshot, key: int, rows: Int32s, visible: TermRows | None
    ) -> None:
        """Prepare the lookup of a term.

        rows: all rows of the `terms` table with this key. visible: the visible rows, if known.
        """
        self._snapshot, self._key, self._rows = snapshot, key, rows
        if visible:
            self._visible = visible
        elif len(rows) <= _MOST_ROWS_KEPT:
            cache = snapshot.statistics.term_rows
            if len(cache) >= _TERMS_KEPT:
                cache.clear()
            cache[key] = self._visible
        passage_counts = snapshot.statistics.term_passage_counts
        if key not in passage_counts:
            passage_counts[key] = len(self._visible[0])
        self.df = passage_counts[key]

    @cached_property
    def _visible(self) -> TermRows:
        """The visible rows of the `terms` table, and their passage rows."""
        rows = self._rows
        # Arrays are indexed by 64-bit numbers in half the time.
        passage_rows = self._snapshot.index.terms.passage_row.take(rows).astype(np.int64)
        seen = take_flags(self._snapshot.statistics.visible.passages, passage_rows)
        return (rows, passage_rows) if seen.all() else (rows[seen], passage_rows[seen])

    @property
    def passage_rows(self) -> Integers:
        """(df,) passage rows that have the term."""
        return self._visible[1]

    @cached_property
    def counts(self) -> NDArray[np.float32]:
        """(df,) BM25 scores of the term in each passage, without the factor idf."""
        rows, passage_rows = self._visible
        times = self._snapshot.index.terms.count.take(rows).astype(np.float32)
        return _saturate(self._snapshot, times, passage_rows)

    @property
    def counts_of_all(self) -> NDArray[np.float32]:
        """(n,) BM25 scores without idf for all passage rows, cached for the next question."""
        cache = self._snapshot.statistics.common_term_scores
        counts = cache.get(self._key)
        if counts is None:
            counts = np.zeros(len(self._snapshot.statistics.visible.passages), dtype=np.float32)
            counts[self.passage_rows] = self.counts
            if len(cache) >= _COMMON_KEPT:
                cache.clear()
            cache[self._key] = counts
        return counts


class MatchesInAnyForm(TermMatches):
    """The visible passages that have a term or another form of it. Other forms count less."""

    def __init__(self, matches: TermMatches, others: Integers) -> None:
        super().__init__(matches._snapshot, matches._key, matches._rows, matches._visible)
        self._others = np.setdiff1d(others, self._visible[1])
        self.df += len(self._others)

    @property
    def passage_rows(self) -> Integers:
        return np.concatenate([self._visible[1], self._others])

    @cached_property
    def counts(self) -> NDArray[np.float32]:
        once = np.ones(len(self._others), dtype=np.float32)
        others = np.float32(OF_FORMS) * _saturate(self._snapshot, once, self._others)
        return np.concatenate([super().counts, others])

    @property
    def counts_of_all(self) -> NDArray[np.float32]:
        counts = np.zeros(len(self._snapshot.statistics.visible.passages), dtype=np.float32)
        counts[self.passage_rows] = self.counts
        return counts


def _saturate(
    snapshot: Snapshot, times: NDArray[np.float32], passage_rows: Integers
) -> NDArray[np.float32]:
    """Return the BM25 score of a term without the factor idf.

    `times` is how often the term occurs in each passage.
    """
    index, statistics = snapshot.index, snapshot.statistics
    mean = max(statistics.words / max(statistics.passages, 1), 1.0)
    saturation = index.passages.word_count.take(passage_rows).astype(np.float32)
    saturation *= np.float32(K1 * B / mean)
    saturation += np.float32(K1 * (1 - B))
    saturation += times
    return times * np.float32(K1 + 1) / saturation


def look_up_terms(
    snapshot: Snapshot, terms: Sequence[str], others: Mapping[str, Integers] = NO_OTHERS
) -> list[TermMatches]:
    """Look up the visible passages that have each term, or another form of it.

    `others` maps a term to the rows of passages with another form of the term.
    """
    keys = [compute_name_key(term) for term in terms]
    cache = snapshot.statistics.term_rows
    by_key = {key: cache.get(key) for key in keys}
    new = [key for key, known in by_key.items() if known is None]
    every = snapshot.index.postings.terms_by_key.find_each(np.array(new, dtype=np.int64))
    rows = dict(zip(new, every, strict=True))
    matches = [TermMatches(snapshot, key, rows.get(key, _NO_ROWS), by_key[key]) for key in keys]
    return [
        MatchesInAnyForm(term_rows, others[term]) if term in others else term_rows
        for term, term_rows in zip(terms, matches, strict=True)
    ]


def compute_idf(snapshot: Snapshot, df: Integers) -> Floats:
    """Return log(1 + (n - df + 0.5) / (df + 0.5)) for terms that `df` of n passages have.

    The value is never negative.
    """
    idf: Floats = np.log1p((snapshot.statistics.passages - df + 0.5) / (df + 0.5))
    return idf
