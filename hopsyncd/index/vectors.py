"""Which pairs of vectors have a product that a question has to reach.

Codes tell between which bounds a product lies, and are multiplied three times as fast as vectors.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Self, TypeVar

import numkong
import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Integers, ranges
from hopsyncd.index.precedence import politely
from hopsyncd.index.vector_table import VectorTable, filling
from store.records import GRID

EXACT_AT_ONCE = 1 << 15  # pairs
NEVER = np.float32(-1e30)
ROUNDING = np.float32(8.0)  # of a product with a Jaccard added, as float32
BLOCK = 1 << 9  # vectors that are multiplied with some
_COLUMNS = 1 << 14  # vectors that are compared with all others
_TILE = 1 << 9  # vectors of them in one product
_MANY_PAIRS = 1 << 23  # that two threads compare
_AHEAD = 8  # blocks
_FAR = 2.0**30  # more than any product of codes
_UNLIKE = 4  # times as much as usual: what the code of such a vector misses
_BOUND = np.float32(1e-3 * GRID * GRID)  # more than a bound, or a squared length, can be rounded by
_SAMPLE = 1 << 10  # vectors
_FEW, _MOST_BOUNDS = 1 << 6, 1 << 24  # vectors whose products with all are bounded by codes; pairs
_MANY = 1 << 12  # rows: too many to be so few vectors

Pairs = tuple[Integers, Integers]
"""The column and the row of each."""

_LONGEST = 1.01 * GRID  # more than the length of any vector

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, eq=False)
class CodeBounds:
    """Between what products of vectors lie, by their codes.

    missing: (r,) the length of what each code leaves out. columns, about: the rows of a few
    vectors, rising, and (c, r) the products of theirs with all codes; None where it is not about a
    few.
    """

    vectors: VectorTable
    missing: NDArray[np.float32]
    columns: Integers
    about: NDArray[np.float32] | None

    @classmethod
    def of(cls, vectors: VectorTable, rows: Integers) -> Self:
        """Of all vectors with those of these rows, in any order."""
        missing = vectors.missing()
        count = len(missing)
        if not 0 < len(rows) <= _MANY:
            return cls(vectors, missing, rows, None)
        columns = np.unique(rows)
        if len(columns) > min(_FEW, _MOST_BOUNDS // count):
            return cls(vectors, missing, columns, None)
        codes = np.asarray(vectors.codes)
        packed = numkong.dots_pack(codes[columns])
        about = np.empty((len(columns), count), dtype=np.float32)
        unit = np.float32(vectors.step**2)

        def fill(part: slice) -> None:
            dots = numkong.dots_packed(codes[part], packed)
            np.multiply(np.asarray(dots).T.astype(np.float32), unit, out=about[:, part])

        filling(count, fill)()
        return cls(vectors, missing, columns, about)

    def between(
        self, rows: Integers, columns: Integers
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(m, n) what the products of these rows are at least, and at most; n are of `columns`."""
        if self.about is None:
            codes = np.asarray(self.vectors.codes)
            dots = numkong.dots_packed(codes[rows], numkong.dots_pack(codes[columns]))
            about = np.asarray(dots).astype(np.float32)
            about *= np.float32(self.vectors.step**2)
        else:
            about = self.about[np.searchsorted(self.columns, columns), rows[:, None]]
        doubt = _doubt(self.missing[rows][:, None], self.missing[columns])
        return about - doubt, about + doubt


def _doubt(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """How far at most a product is from that of the codes, by what these leave out."""
    longest = np.float32(_LONGEST)
    doubt: NDArray[np.float32] = left * (longest + right) + (longest * right + _BOUND)
    return doubt


@dataclass(frozen=True, slots=True, eq=False)
class VectorPairs:
    """Which pairs of vectors, a column and a row, have a product that a question has to reach.

    For each of r vectors: `asks` and `holds` are the least products that matter to the questions
    asked and to those with a match, infinite where none does; `asks` rises with what is found.
    `answers` says whether those asked are compared with it, and `is_new` whether the others are.

    Codes rule out nearly all pairs; the others are multiplied exactly.
    """

    vectors: VectorTable
    entry_end: Integers
    asks: NDArray[np.float32]
    holds: NDArray[np.float32]
    answers: NDArray[np.bool_]
    is_new: NDArray[np.bool_]
    bounds: CodeBounds

    def reaching(self) -> Iterator[Pairs]:
        """The pairs, by parts."""
        asks, holds_ = self.asks < np.inf, self.holds < np.inf
        rows = np.flatnonzero(holds_ | (self.answers & asks.any()))
        if self.bounds.about is not None:
            for pairs in _together(self._within(self.bounds.about, rows)):
                yield self._exact(*pairs)
            return
        asking, holding = np.flatnonzero(asks), np.flatnonzero(holds_)
        self._raise_bare(asking, rows)
        yield from self._compared(asking, rows)
        # What is new and asks nothing matters to what holds a match alone.
        yield from self._compared(np.flatnonzero(self.is_new & ~asks), holding)

    def _compared(self, columns: Integers, rows: Integers) -> Iterator[Pairs]:
        if not len(rows):
            return
        # So one number says nearly for all of a block what they hold, and what their codes miss.
        missing = self.bounds.missing[rows]
        rows = rows[np.lexsort((self.holds[rows], missing > _UNLIKE * missing.mean()))]
        each = map if len(columns) * len(rows) < _MANY_PAIRS else _shared
        for start in range(0, len(columns), _COLUMNS):
            part = columns[start : start + _COLUMNS]
            blocks = [rows[first : first + BLOCK] for first in range(0, len(rows), BLOCK)]
            work = self._with_columns(part)
            found = each(politely(work) if len(part) > _TILE else work, blocks)
            for pairs in _together(chain.from_iterable(found)):
                yield self._exact(*pairs)

    def _within(self, about: NDArray[np.float32], rows: Integers) -> Iterator[Pairs]:
        """The pairs that may reach it, of `bounds.columns`, of which `about` has the products."""
        columns, missing = self.bounds.columns, self.bounds.missing
        left, answers, holds_ = missing[rows], self.answers[rows], self.holds[rows]
        barred = np.where(answers, np.float32(0), NEVER)
        own, of = self._own(columns, rows)
        for number, column in enumerate(columns.tolist()):
            line = about[number][rows]
            line[own[of == number]] = NEVER
            doubt = _doubt(left, missing[column])
            most = line + doubt
            reach = most >= holds_ if self.is_new[column] else np.zeros(len(rows), dtype=np.bool_)
            if self.asks[column] < np.inf:
                line += barred
                line -= doubt
                self.asks[column] = max(self.asks[column], line.max(initial=NEVER))
                reach |= (most >= self.asks[column]) & answers
            row = rows[np.flatnonzero(reach)]
            yield np.full(len(row), column), row

    def _own(self, columns: Integers, rows: Integers) -> Pairs:
        """The places of rows, rising, that are of one entry with a column, and of which."""
        entry = self._entries(columns)
        first = np.concatenate([[0], self.entry_end])[entry]
        return ranges(*(np.searchsorted(rows, end) for end in (first, self.entry_end[entry])))

    def _with_columns(self, columns: Integers) -> Callable[[Integers], list[Pairs]]:
        """What finds those of the pairs of a block of rows that may reach it, by their codes."""
        codes, missing = np.asarray(self.vectors.codes), self.bounds.missing
        step = np.float32(self.vectors.step**2)
        tiles = [columns[start : start + _TILE] for start in range(0, len(columns), _TILE)]
        packed = [(tile, numkong.dots_pack(codes[tile])) for tile in tiles]

        def reaching(block: Integers) -> list[Pairs]:
            found = list[Pairs]()
            far, holds_, left = codes[block], self.holds[block], missing[block]
            for tile, near in packed:
                about = np.asarray(numkong.dots_packed(far, near))
                asks, right = self.asks[tile], missing[tile]
                least = np.minimum(asks, holds_.min()) - _doubt(left.max(), right)
                at = np.flatnonzero(about >= np.clip(least / step, -_FAR, _FAR).astype(np.int32))
                row, column = np.divmod(at, len(tile))
                most = about.ravel()[at] * step + _doubt(left[row], right[column])
                reach = most >= np.minimum(asks[column], holds_[row])
                found.append((tile[column[reach]], block[row[reach]]))
            return found

        return reaching

    def _exact(self, column: Integers, row: Integers) -> tuple[Integers, Integers]:
        """Those of the pairs that do reach it."""
        others = self._entries(column) != self._entries(row)
        column, row = column[others], row[others]
        product = self.vectors.products(column, row)
        answers = self.answers[row]
        np.maximum.at(self.asks, column[answers], product[answers] - ROUNDING)
        reach = answers & (product >= self.asks[column])
        reach |= self.is_new[column] & (product >= self.holds[row])
        return column[reach], row[reach]

    def _raise_bare(self, columns: Integers, rows: Integers) -> None:
        """Let what has to reach nothing reach the best of a sample."""
        bare, sample = columns[np.isneginf(self.asks[columns])], rows[self.answers[rows]]
        sample = sample[:: max(1, len(sample) // _SAMPLE)]
        if not len(sample):
            return
        far, entries = self._read(sample), self._entries(sample)
        for start in range(0, len(bare), _TILE):
            tile = bare[start : start + _TILE]
            product = far @ self._read(tile).T
            product[alike(entries, self._entries(tile))] = NEVER
            self.asks[tile] = product.max(0) - ROUNDING

    def _entries(self, rows: Integers) -> Integers:
        return np.searchsorted(self.entry_end, rows, "right")

    def _read(self, rows: Integers) -> NDArray[np.float32]:
        return np.asarray(self.vectors.exact)[rows].astype(np.float32)


def _shared(work: Callable[[_Part], _Found], parts: Iterable[_Part]) -> Iterator[_Found]:
    """What comes of each part, in any order: another thread helps this one.

    It is given a few parts at a time, as it outlives this thread when the process ends.
    """
    waiting, helping = deque(parts), deque[Future[_Found]]()
    with ThreadPoolExecutor(1, "matching") as pool:
        while waiting:
            while waiting and len(helping) < _AHEAD:
                helping.append(pool.submit(work, waiting.popleft()))
            if waiting:
                yield work(waiting.popleft())
            while helping and helping[0].done():
                yield helping.popleft().result()
        for one in helping:
            yield one.result()


def _together(parts: Iterable[Pairs]) -> Iterator[Pairs]:
    """The pairs of several parts, as many at once as are looked at exactly."""
    found, count = list[Pairs](), 0
    for pairs in parts:
        found.append(pairs)
        count += len(pairs[0])
        if count > EXACT_AT_ONCE:
            yield joined(found)
            found, count = [], 0
    if found:
        yield joined(found)


def joined(pairs: Sequence[Pairs]) -> tuple[Integers, Integers]:
    """All pairs of several parts, of which there is one at least."""
    column, row = zip(*pairs, strict=True)
    return np.concatenate(column), np.concatenate(row)


def alike(rows: Integers, columns: Integers) -> tuple[Integers, Integers]:
    """The pairs of places at which two arrays are equal; the first is rising."""
    return ranges(np.searchsorted(rows, columns), np.searchsorted(rows, columns, "right"))
