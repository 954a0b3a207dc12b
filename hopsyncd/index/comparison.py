"""Comparing outgoing with incoming questions under Eq. 1: which pairs could be best, and exactly.

Pairs that share a keyword are compared first, name by name. They are few, and what they reach is
the floor for the others, which have their vectors alone. Those are multiplied by blocks, each
distinct vector once, exactly (`store.records`); what does not reach the floor is not looked at.
"""

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Floats, Integers, holds, ranges
from hopsyncd.index.live_index import LiveIndex
from store.records import GRID

# A dot product of two grid vectors, times this, is half their cosine.
HALF_COSINE = 0.5 / (GRID * GRID)

_TILE = 1 << 10  # vectors of them in one product
_BLOCK = 1 << 9  # vectors of the others
_EXACT_AT_ONCE = 1 << 15  # pairs
_FEW_PAIRS = 256  # of a name: faster to compare one by one than as a product
_MOST = 1.02 * GRID * GRID  # more than any product of vectors
_ROUNDING = np.float32(8.0)  # of a product with a Jaccard added, as float32
_NEVER = np.float32(-1e30)


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


NO_MATCHES = MatchColumns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def _similar(index: LiveIndex, out: Integers, into: Integers) -> MatchColumns:
    """Exact Eq. 1 of pairs of questions, but for those that one entry has with itself."""
    asked, answered, vectors = index["outgoing"], index["incoming"], np.asarray(index.vectors.exact)
    others = asked["entry"][out] != answered["entry"][into]
    out, into = out[others], into[others]
    parts = [np.empty(0)]
    for start in range(0, len(out), _EXACT_AT_ONCE):
        asks, answers = out[start : start + _EXACT_AT_ONCE], into[start : start + _EXACT_AT_ONCE]
        product = np.einsum(
            "ij,ij->i",
            vectors[asked["row"][asks]].astype(np.float32),
            vectors[answered["row"][answers]].astype(np.float32),
        )
        half = _half_jaccard(index, asks, answers)
        parts.append(product.astype(np.float64) * HALF_COSINE + half)
    return MatchColumns(out, into, np.concatenate(parts))


def _half_jaccard(index: LiveIndex, out: Integers, into: Integers) -> Floats:
    own, of = _names(index, "outgoing", out)
    other, whose = _names(index, "incoming", into)
    known = len(index.names)
    both = np.isin(whose * known + other, of * known + own)
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
class _Vectors:
    """Questions of one side by their vectors, which several of an entry may have in common.

    rows: rows of vectors, each once, rising at first, and their entries. questions: by rising
    rows, those of each from `first` up to `end`.
    """

    rows: Integers
    entries: Integers
    questions: Integers
    first: Integers
    end: Integers

    @classmethod
    def of(cls, index: LiveIndex, side: str, questions: Integers) -> Self:
        """Arrange them."""
        row = index[side]["row"][questions].astype(np.int64)
        order = np.argsort(row, kind="stable")
        questions, row = questions[order], row[order]
        first = np.flatnonzero(np.diff(row, prepend=-1))
        entries = index[side]["entry"][questions[first]].astype(np.int64)
        return cls(row[first], entries, questions, first, np.append(first[1:], len(row)))

    def within_reach(self, floor: Floats) -> tuple[Self, NDArray[np.float32]]:
        """Those of which a question could reach its floor by its vector alone; and the floor."""
        if not len(self.rows):
            return self, np.empty(0, dtype=np.float32)
        least = np.minimum.reduceat(floor[self.questions], self.first)
        at = np.flatnonzero(least < _MOST)
        return self.only(at), (least[at] - _ROUNDING).astype(np.float32)

    def only(self, at: Integers) -> Self:
        """Those at these places."""
        return replace(
            self,
            rows=self.rows[at],
            entries=self.entries[at],
            first=self.first[at],
            end=self.end[at],
        )


class Comparison:
    """Outgoing questions compared with incoming ones: of the one side few, the columns.

    `floor` has, for each outgoing question of the index, the product that a pair must reach, its
    Jaccard added; it rises with what is found. `rising`: the outgoing ones are the columns, whose
    floor may rise from nothing.
    """

    def __init__(
        self, index: LiveIndex, out: Integers, into: Integers, floor: Floats, rising: bool
    ) -> None:
        self._index = index
        sides = ("outgoing", out), ("incoming", into)
        (self._columns, self._column), (self._rows, self._row) = sides if rising else sides[::-1]
        self._floor = floor
        self._rising = rising
        self._vectors = np.asarray(index.vectors.exact)
        self._parts = [NO_MATCHES]

    def reaching(self) -> list[MatchColumns]:
        """Pairs with the best of each outgoing question for which one reaches its floor."""
        self._compare_sharing()
        self._compare_vectors()
        return self._parts

    def _take(self, column: Integers, row: Integers) -> None:
        """Take these pairs, and let the floor rise."""
        found = _similar(self._index, *((column, row) if self._rising else (row, column)))
        np.maximum.at(self._floor, found.out, found.similarity / HALF_COSINE)
        self._parts.append(found)

    def _compare_sharing(self) -> None:
        """The pairs that share a keyword, name by name."""
        names, of = _names(self._index, self._columns, self._column)
        order = np.argsort(names, kind="stable")
        column, names = self._column[of[order]], names[order]
        first = np.flatnonzero(np.diff(names, prepend=-1))
        end = np.append(first[1:], len(names))
        row, name = self._index.postings[f"{self._rows}_having"].of_each(names[first])
        wanted = np.zeros(len(self._index[self._rows]), dtype=np.bool_)
        wanted[self._row] = True
        kept = holds(wanted, row)
        row, name = row[kept], name[kept]
        count = np.bincount(name, minlength=len(first))
        until = np.cumsum(count)
        are_few = count * (end - first) <= _FEW_PAIRS
        few = np.flatnonzero(are_few[name])
        at, pair = ranges(first[name[few]], end[name[few]])
        self._take(column[at], row[few][pair])
        for one in np.flatnonzero(~are_few).tolist():
            self._compare_name(
                column[first[one] : end[one]], row[until[one] - count[one] : until[one]]
            )

    def _compare_name(self, column: Integers, row: Integers) -> None:
        """Column and row questions that all have one name."""
        index = self._index
        near = self._read(index[self._columns]["row"][column]).T
        size = index[self._columns]["keywords"][column].astype(np.float32)
        for start in range(0, len(row), _BLOCK):
            block = row[start : start + _BLOCK]
            sizes = index[self._rows]["keywords"][block].astype(np.float32)[:, None]
            product = self._read(index[self._rows]["row"][block]) @ near
            entries = index[self._rows]["entry"][block]
            product[_alike(entries, index[self._columns]["entry"][column])] = _NEVER
            least = np.float32(GRID * GRID) / (sizes + size - 1)  # with one keyword in common
            product += least
            outgoing = column if self._rising else block
            floor = self._floor[outgoing].astype(np.float32)
            floor = floor[None] if self._rising else floor[:, None]
            self._raise(floor, product)
            if sizes.max() > 1 < size.max():
                most = np.minimum(sizes, size) / np.maximum(sizes, size)
                product += most * np.float32(GRID * GRID) - least
            at, of = np.nonzero(product >= floor - _ROUNDING)
            self._take(column[of], block[at])

    def _compare_vectors(self) -> None:
        """All pairs, by their vectors alone: a Jaccard only adds to a product."""
        few = _Vectors.of(self._index, self._columns, self._column)
        many = _Vectors.of(self._index, self._rows, self._row)
        if self._rising:
            few, floor = few.within_reach(self._floor)
            order = np.argsort(-floor)  # the floors of a tile are alike: few of its pairs reach one
            few, floor = few.only(order), floor[order]
        else:
            many, floor = many.within_reach(self._floor)
        floors = floor[None] if self._rising else floor[:, None]
        near = self._read(few.rows).T
        found: list[tuple[Integers, Integers, NDArray[np.float32]]] = []
        for start in range(0, len(many.rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            vectors = self._read(many.rows[block])
            own, of = _alike(many.entries[block], few.entries)
            for left in range(0, len(few.rows), _TILE):
                tile = slice(left, left + _TILE)
                product = vectors @ near[:, tile]
                inside = (of >= left) & (of < left + _TILE)
                product[own[inside], of[inside] - left] = _NEVER
                least = floors[:, tile] if self._rising else floors[block]
                at = np.flatnonzero(product >= least)
                if len(at) > least.size:
                    self._raise(least, product)
                    at = np.flatnonzero(product >= least)
                row, column = np.divmod(at, product.shape[1])
                found.append((column + left, row + start, product.ravel()[at]))
        if found:
            column, row, value = (np.concatenate(part) for part in zip(*found, strict=True))
            reach = value >= floor[column if self._rising else row]
            self._take_all(few, column[reach], many, row[reach])

    def _raise(self, floor: NDArray[np.float32], product: NDArray[np.float32]) -> None:
        """Let the floor of each outgoing question rise with its best product."""
        best = product.max(0 if self._rising else 1, keepdims=True)
        np.maximum(floor, best - _ROUNDING, out=floor)

    def _take_all(self, few: _Vectors, column: Integers, many: _Vectors, row: Integers) -> None:
        """Take all questions with these pairs of vectors."""
        asked, pair = ranges(few.first[column], few.end[column])
        answered, of = ranges(many.first[row[pair]], many.end[row[pair]])
        self._take(few.questions[asked[of]], many.questions[answered])

    def _read(self, rows: Integers) -> NDArray[np.float32]:
        return self._vectors[rows].astype(np.float32)


def _alike(rows: Integers, columns: Integers) -> tuple[Integers, Integers]:
    """The pairs of places at which two arrays are equal; the first is rising."""
    return ranges(np.searchsorted(rows, columns), np.searchsorted(rows, columns, "right"))
