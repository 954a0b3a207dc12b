"""Comparing outgoing with incoming questions under Eq. 1: which pairs could be best, and exactly.

Pairs that share a keyword are compared first, name by name. They are few, and what they reach is
the floor for the others, which have their vectors alone (`hopsyncd.index.vector_pairs`). Each
distinct vector is multiplied once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import (
    Floats,
    Integers,
    best_of_each,
    holds,
    marked,
    ranges,
    with_places,
)
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.precedence import politely
from hopsyncd.index.vector_pairs import (
    BLOCK,
    EXACT_AT_ONCE,
    ROUNDING,
    TILE,
    UNLIKE,
    Pairs,
    VectorPairs,
    alike,
    joined,
    shared,
    together,
)
from hopsyncd.index.vectors import FAR, CodeBounds, doubt_of, in_units, parts_of
from store.records import GRID

# A dot product of two grid vectors, times this, is half their cosine.
HALF_COSINE = 0.5 / (GRID * GRID)

_QUESTIONS_AT_ONCE = 1 << 16
_BULK = 1 << 9  # questions, more than an edit has: comparing them rests while somebody asks
_PARTS = 64  # of what was found, until the best are taken

_FEW_PAIRS = 256  # of a name: faster to compare one by one than as a product
_PAIRS = TILE * BLOCK  # of few with many: as many as of a tile in one product
_ROWS = 1 << 14  # questions of a tile, until it may rest
_ALIKE = np.float32(GRID * GRID)  # what a Jaccard of 1 adds to a product
_MOST = 1.02 * GRID * GRID  # more than any product of vectors


@dataclass(frozen=True, slots=True, eq=False)
class MatchColumns:
    """m matches: outgoing question, its incoming one, and Eq. 1 of the two."""

    out: Integers
    into: Integers
    similarity: Floats

    def __len__(self) -> int:
        return len(self.out)


NO_MATCHES = MatchColumns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def _similar(index: LiveIndex, out: Integers, into: Integers) -> MatchColumns:
    """Exact Eq. 1 of pairs of questions, but for those that one entry has with itself."""
    asked, answered = index["outgoing"], index["incoming"]
    others = asked["entry"][out] != answered["entry"][into]
    out, into = out[others], into[others]
    product = index.vectors.products(asked["row"][out], answered["row"][into])
    similarity = product.astype(np.float64) * HALF_COSINE + _half_jaccard(index, out, into)
    return MatchColumns(out, into, similarity)


def _half_jaccard(index: LiveIndex, out: Integers, into: Integers) -> Floats:
    own, of = _names(index, "outgoing", out)
    other, whose = _names(index, "incoming", into)
    known = len(index.names)
    own_of = np.sort(of * known + own)
    both = with_places(own_of, whose * known + other)[1]
    shared = np.bincount(whose[both], minlength=len(out))
    every = index["outgoing"]["keywords"][out] + index["incoming"]["keywords"][into] - shared
    half: Floats = shared / np.maximum(every, 1) / 2
    return half


def _names(index: LiveIndex, side: str, questions: Integers) -> tuple[Integers, Integers]:
    """The keywords of the questions, and which of the questions each is of."""
    columns = index[side]
    first = columns["first_keyword"][questions].astype(np.int64)
    rows, of = ranges(first, first + columns["keywords"][questions])
    return index["keyword"]["name"][rows].astype(np.int64), of


@dataclass(frozen=True, slots=True, eq=False)
class _ByVector:
    """Questions of one side, found by the row of their vector: `rows`, rising, has that of each."""

    questions: Integers
    rows: Integers

    @classmethod
    def of(cls, index: LiveIndex, side: str, questions: Integers) -> Self:
        """Arrange them."""
        rows = index[side]["row"][questions].astype(np.int64)
        order = np.argsort(rows, kind="stable")
        return cls(questions[order], rows[order])

    def at(self, rows: Integers) -> tuple[Integers, Integers]:
        """The questions with the vectors of these rows, and the place of the row of each."""
        first = np.searchsorted(self.rows, rows)
        found, of = ranges(first, np.searchsorted(self.rows, rows, "right"))
        return self.questions[found], of


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """Pairs of outgoing and incoming questions that have one name: all of `out`, which rise, with
    all of `into`, in whose order most of those with as many keywords stand together.

    floor: (m,) no more than what a pair of each outgoing one has to reach. It rises, for all tiles
    with these.
    """

    out: Integers
    into: Integers
    floor: NDArray[np.float32]


class Comparison:
    """Outgoing questions compared with incoming ones, for the best of each.

    `asked` are compared with all of `among`, and those of the `held` matches with the `new` ones,
    which have to reach what is held. A vector that asks and answers is multiplied once for both.
    """

    def __init__(
        self,
        index: LiveIndex,
        asked: Integers,
        among: Integers,
        held: MatchColumns,
        new: Integers,
    ) -> None:
        self._index = index
        self._asked, self._among, self._held, self._new = asked, among, held.out, new
        # Of each outgoing question the product, its Jaccard added, that a pair must reach. It rises
        # with what is found.
        self._floor = np.full(len(index["outgoing"]), np.inf)
        self._floor[asked] = -np.inf
        self._floor[held.out] = held.similarity / HALF_COSINE
        vectors = index["outgoing"]["row"][asked], index["incoming"]["row"][new]
        self._bounds = CodeBounds.of(index.vectors, np.concatenate(vectors))
        self._found = [NO_MATCHES]

    def best(self) -> MatchColumns:
        """The best that reached the floor of its outgoing question."""
        for start in range(0, len(self._asked), _QUESTIONS_AT_ONCE):
            part = self._asked[start : start + _QUESTIONS_AT_ONCE]
            self._compare_sharing("outgoing", part, "incoming", self._among)
        for start in range(0, len(self._new), _QUESTIONS_AT_ONCE):
            part = self._new[start : start + _QUESTIONS_AT_ONCE]
            self._compare_sharing("incoming", part, "outgoing", self._held)
        self._compare_vectors()
        return self._best()

    def _best(self) -> MatchColumns:
        out, into, value = (
            np.concatenate([getattr(one, name) for one in self._found])
            for name in ("out", "into", "similarity")
        )
        first = best_of_each(out, -value, self._index["incoming"]["id"][into])
        best = MatchColumns(out[first], into[first], value[first])
        self._found = [best]
        return best

    def _take(self, out: Integers, into: Integers) -> None:
        """Take these pairs, and let the floor rise."""
        if not len(out):
            return
        found = _similar(self._index, out, into)
        np.maximum.at(self._floor, found.out, found.similarity / HALF_COSINE)
        self._found.append(found)
        if len(self._found) > _PARTS:
            self._best()

    def _compare_sharing(
        self, side: str, columns: Integers, other_side: str, rows: Integers
    ) -> None:
        """The pairs that share a keyword, name by name."""
        names, of = _names(self._index, side, columns)
        order = np.argsort(names, kind="stable")
        column, names = columns[of[order]], names[order]
        first = np.flatnonzero(np.diff(names, prepend=-1))
        end = np.append(first[1:], len(names))
        row, name = self._index.postings[f"{other_side}_having"].of_each(names[first])
        kept = holds(marked(len(self._index[other_side]), rows), row)
        row, name = row[kept], name[kept]
        count = np.bincount(name, minlength=len(first))
        until = np.cumsum(count)
        are_few = count * (end - first) <= _FEW_PAIRS
        few = np.flatnonzero(are_few[name])
        at, pair = ranges(first[name[few]], end[name[few]])
        is_asked = side == "outgoing"

        def tiles() -> Iterator[_Tile]:
            for one in np.flatnonzero(~are_few & (count > 0)).tolist():
                own = column[first[one] : end[one]]
                other = row[until[one] - count[one] : until[one]]
                yield from self._tiles(*((own, other) if is_asked else (other, own)))

        alone = (
            (column[at[part]], row[few[pair[part]]]) for part in parts_of(len(at), EXACT_AT_ONCE)
        )
        if len(columns) > _BULK:
            found = shared(politely(self._reaching), tiles())
        else:
            found = map(self._reaching, tiles())
        one_by_one = (pairs if is_asked else pairs[::-1] for pairs in alone)
        for out, into in chain(together(one_by_one), together(found)):  # the floors rise first
            self._take(out, into)

    def _tiles(self, out: Integers, into: Integers) -> Iterator[_Tile]:
        """All pairs of questions that have one name."""
        columns = self._index["incoming"]
        left = self._bounds.missing[columns["row"][into]]
        out = np.sort(out)
        into = into[np.lexsort((columns["keywords"][into], left > UNLIKE * left.mean()))]
        for tile in parts_of(len(out), min(max(TILE, _PAIRS // len(into)), _ROWS)):
            floor = self._floor[out[tile]].astype(np.float32)
            for part in parts_of(len(into), _ROWS):
                yield _Tile(out[tile], into[part], floor)

    def _reaching(self, tile: _Tile) -> Pairs:
        """Those of its pairs that may reach the floor, which rises to what they reach."""
        asked, answered = self._index["outgoing"], self._index["incoming"]
        column = asked["row"][tile.out]
        size, entry = asked["keywords"][tile.out].astype(np.float32), asked["entry"][tile.out]
        missing, unit = self._bounds.missing, self._index.vectors.unit
        products = self._bounds.of_columns(column)
        found = list[Pairs]()
        for part in parts_of(len(tile.into), max(BLOCK, _PAIRS // len(column))):
            into = tile.into[part]
            row, sizes = answered["row"][into], answered["keywords"][into]
            every = products(row)
            every[alike(entry, answered["entry"][into])[::-1]] = -FAR
            ends = np.flatnonzero(np.diff(sizes, append=-1)) + 1
            for start, end in pairwise([0, *ends.tolist()]):
                some, other = every[start:end], np.float32(sizes[start])
                doubt = doubt_of(missing[row[start:end]].max(), missing[column])
                least = some.max(0) * unit - doubt + _ALIKE / (other + size - 1)
                floor = np.maximum(tile.floor, least - ROUNDING, out=tile.floor)
                most = np.minimum(other, size) / np.maximum(other, size) * _ALIKE + doubt
                at = np.flatnonzero(some >= in_units(floor - ROUNDING - most, unit))
                of, to = np.divmod(at, len(column))
                found.append((tile.out[to], into[start + of]))
        return joined(found)

    def _compare_vectors(self) -> None:
        """All pairs, by their vectors alone: a Jaccard only adds to a product.

        Of the vectors that were there when it began: a writer may add others.
        """
        index = self._index
        pairs = VectorPairs(
            index.vectors,
            index["entries"]["end_row"],
            self._least(self._asked),
            self._least(self._held),
            self._having("incoming", self._among),
            self._having("incoming", self._new),
            self._bounds,
        )
        asked, held = (_ByVector.of(index, "outgoing", one) for one in (self._asked, self._held))
        among, new = (_ByVector.of(index, "incoming", one) for one in (self._among, self._new))
        for column, row in pairs.reaching():
            for asks, answers, by, to in ((asked, among, column, row), (held, new, row, column)):
                out, pair = asks.at(by)
                into, of = answers.at(to[pair])
                self._take(out[of], into)

    def _least(self, questions: Integers) -> NDArray[np.float32]:
        """(r,) for each vector the least product with which a question of it could reach its floor;
        infinite where none can."""
        least = np.full(len(self._bounds.missing), np.inf)
        np.minimum.at(least, self._index["outgoing"]["row"][questions], self._floor[questions])
        least[least > _MOST] = np.inf
        return (least - ROUNDING).astype(np.float32)

    def _having(self, side: str, questions: Integers) -> NDArray[np.bool_]:
        """(r,) whether one of the questions has the vector."""
        return marked(len(self._bounds.missing), self._index[side]["row"][questions])
