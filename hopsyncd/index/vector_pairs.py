"""Which pairs of vectors have a product that a question has to reach.

Codes rule out nearly all of them, and the others are multiplied exactly.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.code_products import Codes, PackedCodes
from hopsyncd.index.columns import Integers, ranges
from hopsyncd.index.precedence import ProcessEnds, politely
from hopsyncd.index.vectors import CodeBounds, VectorTable, doubt_of, in_units, parts_of

BLOCK, TILE = 1 << 9, 1 << 10  # rows and columns of a product
NEVER = np.float32(-1e30)
ROUNDING = np.float32(8.0)  # of a product with a Jaccard added, as float32
_COLUMNS = 1 << 14  # vectors that are compared with all others
EXACT_AT_ONCE = 1 << 15  # pairs
_MANY_PAIRS = 1 << 23  # that two threads compare
_AHEAD = 8  # parts
UNLIKE = 4  # times as much as usual: what the code of such a vector misses
_SAMPLE = 1 << 10  # vectors

Pairs = tuple[Integers, Integers]
"""The column and the row of each."""

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False)
class _Columns:
    """Vectors that are multiplied with several blocks of others."""

    rows: Integers
    bounds: CodeBounds

    @cached_property
    def packed(self) -> PackedCodes:
        """Their codes, read when they are multiplied."""
        return self.bounds.packed(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class VectorPairs:
    """Which pairs of vectors, a column and a row, have a product that a question has to reach.

    For each of r vectors: `asks` and `holds` are the least products that matter to the questions
    asked and to those with a match, infinite where none does; `asks` rises with what is found.
    `answers` says whether those asked are compared with it, and `is_new` whether the others are.
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
            for pairs in together(self._within(self.bounds.about, rows)):
                yield self._exact(*pairs)
            return
        self._raise_bare(np.flatnonzero(asks), rows)
        # What is new and asks nothing matters to what holds a match alone.
        yield from self._compared(np.flatnonzero(asks | (self.is_new & holds_.any())), rows)

    def _compared(self, columns: Integers, rows: Integers) -> Iterator[Pairs]:
        if not len(rows):
            return
        # So one number says nearly for all of a block what they hold, and what their codes miss.
        missing = self.bounds.missing[rows]
        rows = rows[np.lexsort((self.holds[rows], missing > UNLIKE * missing.mean()))]
        columns = columns[np.argsort(self.asks[columns])]  # few blocks have those that ask little
        pairs = len(columns) * len(rows)
        each = map if pairs < _MANY_PAIRS else shared
        for start in range(0, len(columns), _COLUMNS):
            part = columns[start : start + _COLUMNS]
            blocks = [rows[first : first + BLOCK] for first in range(0, len(rows), BLOCK)]
            work = self._with_columns(part)
            for some in together(chain.from_iterable(each(work, blocks))):
                yield self._exact(*some)

    def _within(self, about: NDArray[np.float32], rows: Integers) -> Iterator[Pairs]:
        """The pairs that may reach it, of `bounds.columns`, of which `about` has the products."""
        columns, missing = self.bounds.columns, self.bounds.missing
        left, answers, holds_ = missing[rows], self.answers[rows], self.holds[rows]
        barred = np.where(answers, np.float32(0), NEVER)
        own, of = self._own(columns, rows)
        for number, column in enumerate(columns.tolist()):
            line = about[number][rows]
            line[own[of == number]] = NEVER
            doubt = doubt_of(left, missing[column])
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
        """What finds those of the pairs of a block of rows that may reach it."""
        tiles = [_Columns(columns[part], self.bounds) for part in parts_of(len(columns), TILE)]
        of_tile = politely(self._of_tile) if len(tiles) > 1 else self._of_tile
        every = np.asarray(self.vectors.codes)

        def reaching(rows: Integers) -> list[Pairs]:
            codes = every[rows]
            return [of_tile((tile, rows, codes)) for tile in tiles]

        return reaching

    def _of_tile(self, tile_and_rows: tuple[_Columns, Integers, Codes]) -> Pairs:
        """Those of the pairs of a tile with rows, of these codes, that may reach it; `asks` rises
        to what they reach."""
        tile, rows, codes = tile_and_rows
        unit, missing = self.vectors.unit, self.bounds.missing
        holds_, left = self.holds[rows], missing[rows]
        asks, right = self.asks[tile.rows], missing[tile.rows]
        floor = np.minimum(asks, np.where(self.is_new[tile.rows], holds_.min(), np.inf))
        if floor.min() == np.inf:
            return tile.rows[:0], rows[:0]
        every = tile.packed.products(codes)
        least = in_units(floor - doubt_of(left.max(), right), unit)
        at = np.flatnonzero(every >= least)
        row, column = np.divmod(at, len(tile.rows))
        product, doubt = every.ravel()[at] * unit, doubt_of(left[row], right[column])
        reach = np.flatnonzero(product + doubt >= np.minimum(asks[column], holds_[row]))
        pairs = tile.rows[column[reach]], rows[row[reach]]
        self._raise_asks(*pairs, product[reach] - doubt[reach])
        return pairs

    def _raise_asks(self, column: Integers, row: Integers, product: NDArray[np.float32]) -> None:
        """Let what is asked reach the products of these pairs, which are no less than these."""
        answer = self.answers[row] & (self._entries(column) != self._entries(row))
        np.maximum.at(self.asks, column[answer], product[answer])

    def _exact(self, column: Integers, row: Integers) -> tuple[Integers, Integers]:
        """Those of the pairs that do reach it."""
        others = self._entries(column) != self._entries(row)
        column, row = column[others], row[others]
        product = self.vectors.products(column, row)
        self._raise_asks(column, row, product - ROUNDING)
        reach = self.answers[row] & (product >= self.asks[column])
        reach |= self.is_new[column] & (product >= self.holds[row])
        return column[reach], row[reach]

    def _raise_bare(self, columns: Integers, rows: Integers) -> None:
        """Let what has to reach nothing reach the best of a sample."""
        bare, sample = columns[np.isneginf(self.asks[columns])], rows[self.answers[rows]]
        sample = sample[:: max(1, len(sample) // _SAMPLE)]
        if not len(sample):
            return
        far, entries = self._read(sample), self._entries(sample)
        for start in range(0, len(bare), TILE):
            tile = bare[start : start + TILE]
            product = far @ self._read(tile).T
            product[alike(entries, self._entries(tile))] = NEVER
            self.asks[tile] = product.max(0) - ROUNDING

    def _entries(self, rows: Integers) -> Integers:
        return np.searchsorted(self.entry_end, rows, "right")

    def _read(self, rows: Integers) -> NDArray[np.float32]:
        return np.asarray(self.vectors.exact)[rows].astype(np.float32)


def shared(work: Callable[[_Part], _Found], parts: Iterable[_Part]) -> Iterator[_Found]:
    """What comes of each part, in any order: another thread helps this one.

    It is given a few parts at a time, as it outlives this thread when the process ends, and what
    it has not begun at the end this thread does. Raises ProcessEnds when no thread can begin.
    """
    helping = deque[tuple[Future[_Found], _Part]]()
    with ThreadPoolExecutor(1, "matching") as pool:
        for part in parts:
            if len(helping) < _AHEAD:
                try:
                    helping.append((pool.submit(work, part), part))
                except RuntimeError as error:
                    if "shutdown" in str(error):
                        raise ProcessEnds from error
                    raise
            else:
                yield work(part)
            while helping and helping[0][0].done():
                yield helping.popleft()[0].result()
        while helping:
            future, part = helping.pop()
            yield work(part) if future.cancel() else future.result()


def together(parts: Iterable[Pairs]) -> Iterator[Pairs]:
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
