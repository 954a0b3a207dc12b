"""Matching, kept up to date: the edge merging of HopRAG section 3.2, made incremental.

Every outgoing question is matched with its argmax incoming question of another passage under
Eq. 1, ties going to the lowest id. That order is total, so the argmax over a union is the better of
the two argmaxes, and after a change it suffices to compare

- the outgoing questions that are new, or whose match is gone, with all incoming ones;
- all the others with the new incoming ones.

Vectors are multiplied by blocks, exactly (`store.records`). A pair that shares a keyword has its
Jaccard added; all others have none, so few pairs need to be looked at one by one.

Worked example. A asks a1, B answers b1: a1 -> b1. Passage C arrives and answers c1: a1 keeps b1
unless c1 is more similar. C leaves again: only the questions matched with c1 look for another.
"""

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Floats, Integers, best_of_each, ranges, with_places
from hopsyncd.index.live_index import DEAD, LiveIndex
from store.records import GRID, Cut, Match, QuestionId

# A dot product of two grid vectors, times this, is half their cosine.
HALF_COSINE = 0.5 / (GRID * GRID)

_AT_ONCE = 256  # vectors that are compared with a block of rows
_BLOCK = 1 << 12  # rows
_EXACT_AT_ONCE = 1 << 15  # pairs
_MOST = 1.02 * GRID * GRID  # more than any product of vectors
_ROUNDING = np.float32(8.0)  # of a product with a Jaccard added, as float32
_NOTHING = -16.0  # less than any similarity
_NEVER = np.float32(-1e30)

Flags = NDArray[np.bool_]


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


@dataclass(frozen=True, slots=True, eq=False)
class MatchColumns:
    """m matches: outgoing question, its incoming one, and Eq. 1 of the two."""

    out: Integers
    into: Integers
    similarity: Floats

    def __len__(self) -> int:
        return len(self.out)


_NO_MATCHES = MatchColumns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def questions_of(index: LiveIndex, side: str, entries: Integers) -> Integers:
    """The questions of a side ("incoming", "outgoing") that the entries have."""
    columns = index["entries"]
    return ranges(columns[f"first_{side}"][entries], columns[f"end_{side}"][entries])[0]


@dataclass(frozen=True, slots=True, eq=False)
class MatchDelta:
    """What a change does to the matches; a question whose match moves is in both."""

    ended: Integers
    begun: MatchColumns


def rematch(index: LiveIndex, gone: Integers, new: Integers) -> MatchDelta:
    """Bring the matches at the head up to date with entries that ceased or came to be vertices."""
    match = index["outgoing"]["match"]
    asked = questions_of(index, "outgoing", gone)
    ended = asked[match[asked] >= 0]
    rows, _ = index.postings["matches_to"].of_each(gone)
    rows = rows[index["matches"]["died"][rows] == DEAD]
    orphans = np.setdiff1d(index["matches"]["out"][rows], ended).astype(np.int64)
    held_out = np.setdiff1d(np.flatnonzero(match >= 0), np.union1d(ended, orphans))
    held = match_rows(index, match[held_out])
    beaten = beating(index, held, questions_of(index, "incoming", new))
    unmatched = np.flatnonzero(match < 0)
    alive = index.alive
    unmatched = unmatched[alive[index["outgoing"]["entry"][unmatched]]]
    found = best_matches(index, np.union1d(orphans, unmatched), alive)
    begun = MatchColumns(
        *(
            np.concatenate([getattr(one, name) for one in (found, beaten)])
            for name in ("out", "into", "similarity")
        )
    )
    delta = MatchDelta(np.concatenate([ended, orphans, beaten.out]), begun)
    index.end_matches(delta.ended)
    index.begin_matches(begun.out, begun.into, begun.similarity)
    return delta


def replaced(index: LiveIndex, best: MatchColumns) -> MatchDelta:
    """Let these be the matches at the head: those that hold already stay as they are."""
    match = index["outgoing"]["match"]
    held = match_rows(index, match[best.out])
    same = (match[best.out] >= 0) & (held.into == best.into) & (held.similarity == best.similarity)
    stays = np.zeros(len(match), dtype=np.bool_)
    stays[best.out[same]] = True
    ended = np.flatnonzero((match >= 0) & ~stays)
    begun = MatchColumns(best.out[~same], best.into[~same], best.similarity[~same])
    index.end_matches(ended)
    index.begin_matches(begun.out, begun.into, begun.similarity)
    return MatchDelta(ended, begun)


def match_rows(index: LiveIndex, rows: Integers) -> MatchColumns:
    """These rows of the matches."""
    matches = index["matches"]
    return MatchColumns(
        matches["out"][rows].astype(np.int64),
        matches["into"][rows].astype(np.int64),
        matches["similarity"][rows].astype(np.float64),
    )


def match_records(index: LiveIndex, matches: MatchColumns) -> list[Match]:
    """The matches as the store has them."""
    columns = (
        index["outgoing"]["id"][matches.out].tolist(),
        index["incoming"]["id"][matches.into].tolist(),
        matches.similarity.tolist(),
    )
    return [
        Match(QuestionId(out), QuestionId(into), s) for out, into, s in zip(*columns, strict=True)
    ]


def best_matches(index: LiveIndex, out: Integers, entries: Flags) -> MatchColumns:
    """The best match of each outgoing question among the incoming ones of these entries.

    A question for which there is none is left out.
    """
    into = questions_of(index, "incoming", np.flatnonzero(entries))
    floor = np.full(len(out), _NOTHING)
    best = _NO_MATCHES
    for start in range(0, len(out), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        pairs = _Pairs(index, ("outgoing", out[part]), ("incoming", into), floor[part], True)
        best = _best(index, best, [MatchColumns(*pair) for pair in pairs.found()])
    return best


def beating(index: LiveIndex, held: MatchColumns, into: Integers) -> MatchColumns:
    """For each of the held matches that one of these incoming questions beats, the best that does.

    Of equal ones the lower id is better.
    """
    order = np.argsort(held.out)
    out, floor = held.out[order], held.similarity[order]
    best = _NO_MATCHES
    for start in range(0, len(into), _AT_ONCE):
        part = into[start : start + _AT_ONCE]
        pairs = _Pairs(index, ("incoming", part), ("outgoing", out), floor, False)
        best = _best(index, best, [MatchColumns(o, i, s) for i, o, s in pairs.found()])
    at = order[np.searchsorted(out, best.out)]
    ids = index["incoming"]["id"]
    won = (best.similarity > held.similarity[at]) | (
        (best.similarity == held.similarity[at]) & (ids[best.into] < ids[held.into[at]])
    )
    return MatchColumns(best.out[won], best.into[won], best.similarity[won])


def _best(index: LiveIndex, best: MatchColumns, more: list[MatchColumns]) -> MatchColumns:
    """The best of each outgoing question."""
    out, into, value = (
        np.concatenate([getattr(one, name) for one in (best, *more)])
        for name in ("out", "into", "similarity")
    )
    first = best_of_each(out, -value, index["incoming"]["id"][into])
    return MatchColumns(out[first], into[first], value[first])


Side = tuple[str, Integers]
Found = tuple[Integers, Integers, Floats]


class _Pairs:
    """Pairs of a few questions, the columns, and many of the other side, the rows (rising).

    `floor` is the similarity that a pair must reach: of each column if these are the outgoing
    questions (`rising`: it grows with what is found), else of each row. Of each outgoing question
    the best pair that reaches it is found.
    """

    def __init__(
        self, index: LiveIndex, columns: Side, rows: Side, floor: Floats, rising: bool
    ) -> None:
        self._index = index
        self._columns, self._column = columns[0], columns[1]
        self._rows, self._row = rows[0], rows[1]
        self._floor = (floor / HALF_COSINE - _ROUNDING).astype(np.float32)
        self._rising = rising
        self._near = index[self._columns]["row"][self._column]
        self._entry = index[self._columns]["entry"][self._column]
        self._vectors = index.vectors.exact[self._near].astype(np.float32)

    def found(self) -> Iterator[Found]:
        """Column question, row question and exact Eq. 1 of each pair."""
        at, column, more = self._sharing()
        if not self._rising:
            at = self._leave_out(at)
        for start in range(0, len(self._row), _BLOCK):
            low, high = np.searchsorted(at, (start, start + _BLOCK))
            sharing = at[low:high] - start, column[low:high], more[low:high]
            block = self._row[start : start + _BLOCK]
            yield self._exact(block, *self._likely(start, block, *sharing))

    def _leave_out(self, sharing: Integers) -> Integers:
        """Leave out rows whose floor no vectors alone can reach, if they share no keyword."""
        kept = self._floor < _MOST
        kept[sharing] = True
        self._row, self._floor = self._row[kept], self._floor[kept]
        return np.cumsum(kept)[sharing] - 1

    def _sharing(self) -> tuple[Integers, Integers, Floats]:
        """Pairs that share a keyword, by row: its place, the column's, and half their Jaccard."""
        index = self._index
        own = index[self._columns]
        names, column = ranges(
            own["first_keyword"][self._column],
            own["first_keyword"][self._column] + own["keywords"][self._column],
        )
        names = index["keyword"]["name"][names].astype(np.int64)
        having, of = index.postings[f"{self._rows}_having"].of_each(names)
        at, there = with_places(self._row, having.astype(np.int64))
        pair, shared = np.unique(
            at[there] * len(self._column) + column[of[there]], return_counts=True
        )
        at, column = np.divmod(pair, len(self._column))
        sizes = own["keywords"][self._column[column]].astype(np.int64)
        others = index[self._rows]["keywords"][self._row[at]]
        return at, column, shared / (sizes + others - shared) / 2

    def _likely(
        self, start: int, block: Integers, at: Integers, column: Integers, more: Floats
    ) -> tuple[Integers, Integers, Floats]:
        """The pairs of a block that could reach the floor."""
        index = self._index
        row = index[self._rows]["row"][block]
        product = index.vectors.exact[row].astype(np.float32) @ self._vectors.T
        product[self._own(block)] = _NEVER
        product[at, column] += (more / HALF_COSINE).astype(np.float32)
        if self._rising:
            self._floor = np.maximum(self._floor, product.max(0) - _ROUNDING)
            likely = np.flatnonzero(product >= self._floor[None])
        else:
            likely = np.flatnonzero(product >= self._floor[start : start + len(block), None])
        half = np.zeros(len(likely))
        place, there = with_places(at * len(self._column) + column, likely)
        half[there] = more[place[there]]
        return *np.divmod(likely, len(self._column)), half

    def _own(self, block: Integers) -> tuple[Integers, Integers]:
        """The pairs of a block that one entry has with itself."""
        entries = self._index[self._rows]["entry"][block]
        first = np.searchsorted(entries, self._entry)
        end = np.searchsorted(entries, self._entry, "right")
        return ranges(first, end)

    def _exact(self, block: Integers, at: Integers, column: Integers, half: Floats) -> Found:
        vectors = self._index.vectors.exact
        row = self._index[self._rows]["row"][block[at]]
        products = [
            np.einsum(
                "ij,ij->i",
                vectors[row[part]].astype(np.float32),
                vectors[self._near[column[part]]].astype(np.float32),
            )
            for start in range(0, max(len(at), 1), _EXACT_AT_ONCE)
            for part in [slice(start, start + _EXACT_AT_ONCE)]
        ]
        exact = np.concatenate(products).astype(np.float64) * HALF_COSINE + half
        return self._column[column], block[at], exact


def edge_budget(passages: int, factor: float) -> int:
    """How many edges a graph of n passages may keep: O(n log n), HopRAG section 3.2.

    >>> edge_budget(994, 1.0)
    6860
    """
    return math.floor(factor * passages * math.log(passages)) if passages > 1 else 0


def cut_of(question: NDArray[np.int64], similarity: NDArray[np.float64], budget: int) -> Cut | None:
    """The last match that the budget admits, by falling similarity and rising question id.

    None when it admits all. A budget of 0 admits none: the cut then stands above every match.

    >>> cut_of(np.array([7, 3]), np.array([0.5, 0.5]), 1)
    Cut(similarity=0.5, question=3)
    """
    if budget >= len(question):
        return None
    if budget == 0:
        return Cut(math.inf, QuestionId(-1))
    least = -float(np.partition(-similarity, budget - 1)[budget - 1])
    better = int(np.count_nonzero(similarity > least))
    alike = np.sort(question[similarity == least])
    return Cut(least, QuestionId(int(alike[budget - better - 1])))
