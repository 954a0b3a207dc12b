"""Finds the pairs of vectors whose product reaches the floor of a question.

Bounds from their codes rule out nearly all pairs; the others are multiplied exactly.
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

from hopsyncd.index.arrays import AnyIntegers, Flags, Integers, expand_ranges
from hopsyncd.index.code_bounds import CodeBounds, PackedCodes, bound_errors, to_code_products
from hopsyncd.index.throttle import ProcessEnds, throttle
from hopsyncd.index.vectors import Codes, VectorTable, split_slices

BLOCK, TILE = 1 << 9, 1 << 10  # rows and columns of a product
ROUNDING = np.float32(8.0)  # of a product with a Jaccard added, as float32
PAIRS_AT_ONCE = 1 << 15  # that are multiplied exactly
UNLIKE = 4  # times the mean error: what the code of such a vector leaves out
_NEVER = np.float32(-1e30)
_COLUMNS = 1 << 14  # vectors that are compared with all others
_MANY_PAIRS = 1 << 23  # that two threads compare
_MAX_SUBMITTED = 8  # parts
_SAMPLE = 1 << 10  # vectors

Pairs = tuple[Integers, Integers]
"""The column and the row of each."""

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class _Columns:
    """Vectors that are multiplied with several blocks of others."""

    rows: Integers
    bounds: CodeBounds

    @cached_property
    def packed(self) -> PackedCodes:
        """Their codes, read when they are first multiplied."""
        return self.bounds.pack(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class VectorPairs:
    """Finds the pairs of vectors, a column and a row, whose product reaches a question's floor.

    For each of r vectors: `unmatched_floor` and `held_floor` are the least products that matter to
    the outgoing questions that have the vector, without and with a match. They are infinite if
    there is no such question. `unmatched_floor` rises with each better match. `is_target`: whether
    an incoming question that unmatched questions are compared with has the vector. `is_new_target`:
    the same for questions that have a match.

    passage_ends: (e,) where the vectors of each passage row end.
    """

    vectors: VectorTable
    passage_ends: AnyIntegers
    unmatched_floor: NDArray[np.float32]
    held_floor: NDArray[np.float32]
    is_target: Flags
    is_new_target: Flags
    bounds: CodeBounds

    def find_reaching(self) -> Iterator[Pairs]:
        """The pairs, in parts."""
        is_unmatched, is_held = self.unmatched_floor < np.inf, self.held_floor < np.inf
        rows = np.flatnonzero(is_held | (self.is_target & is_unmatched.any()))
        if self.bounds.products is not None:
            for pairs in batch_pairs(self._find_by_bounds(self.bounds.products, rows)):
                yield self._select_exactly(*pairs)
            return
        self._raise_infinite_floors(np.flatnonzero(is_unmatched), rows)
        # A new target of which no question is unmatched matters to the held matches alone.
        columns = np.flatnonzero(is_unmatched | (self.is_new_target & is_held.any()))
        yield from self._find_by_tiles(columns, rows)

    def _find_by_tiles(self, columns: Integers, rows: Integers) -> Iterator[Pairs]:
        if not len(rows):
            return
        # Sorted so that one number is a good bound of the floors, and of the errors, of a block.
        errors = self.bounds.errors[rows]
        rows = rows[np.lexsort((self.held_floor[rows], errors > UNLIKE * errors.mean()))]
        columns = columns[np.argsort(self.unmatched_floor[columns])]  # few blocks have low floors
        pairs = len(columns) * len(rows)
        map_blocks = map if pairs < _MANY_PAIRS else map_shared
        blocks = [rows[part] for part in split_slices(len(rows), BLOCK)]
        for part in split_slices(len(columns), _COLUMNS):
            work = self._block_comparer(columns[part])
            for found in batch_pairs(chain.from_iterable(map_blocks(work, blocks))):
                yield self._select_exactly(*found)

    def _find_by_bounds(self, products: NDArray[np.float32], rows: Integers) -> Iterator[Pairs]:
        """The pairs that may reach a floor, where the columns are `bounds.columns` and `products`
        are theirs."""
        columns, errors = np.asarray(self.bounds.columns), self.bounds.errors
        row_errors, is_target = errors[rows], self.is_target[rows]
        held_floor = self.held_floor[rows]
        penalty = np.where(is_target, np.float32(0), _NEVER)
        own, own_columns = self._find_own_rows(columns, rows)
        for number, column in enumerate(columns.tolist()):
            line = products[number][rows]
            line[own[own_columns == number]] = _NEVER
            error = bound_errors(row_errors, errors[column])
            most = line + error
            if self.is_new_target[column]:
                reaches = most >= held_floor
            else:
                reaches = np.zeros(len(rows), dtype=np.bool_)
            if self.unmatched_floor[column] < np.inf:
                line += penalty
                line -= error
                least = line.max(initial=_NEVER)
                self.unmatched_floor[column] = max(self.unmatched_floor[column], least)
                reaches |= (most >= self.unmatched_floor[column]) & is_target
            found = rows[np.flatnonzero(reaches)]
            yield np.full(len(found), column), found

    def _find_own_rows(self, columns: AnyIntegers, rows: Integers) -> Pairs:
        """The positions in `rows`, which rise, of vectors of the same passage as a column; and the
        position of that column."""
        passage_rows = self._find_passages(columns)
        starts = np.concatenate([[0], self.passage_ends])[passage_rows]
        ends = self.passage_ends[passage_rows]
        return expand_ranges(np.searchsorted(rows, starts), np.searchsorted(rows, ends))

    def _block_comparer(self, columns: Integers) -> Callable[[Integers], list[Pairs]]:
        """A function that finds the pairs of a block of rows that may reach a floor."""
        tiles = [_Columns(columns[part], self.bounds) for part in split_slices(len(columns), TILE)]
        compare = throttle(self._compare_tile) if len(tiles) > 1 else self._compare_tile
        all_codes = np.asarray(self.vectors.codes)

        def compare_block(rows: Integers) -> list[Pairs]:
            codes = all_codes[rows]
            return [compare((tile, rows, codes)) for tile in tiles]

        return compare_block

    def _compare_tile(self, tile_and_rows: tuple[_Columns, Integers, Codes]) -> Pairs:
        """The pairs of a tile with rows that may reach a floor; `unmatched_floor` rises to what
        they reach."""
        tile, rows, codes = tile_and_rows
        unit, errors = self.vectors.unit, self.bounds.errors
        held_floor, row_errors = self.held_floor[rows], errors[rows]
        unmatched_floor, column_errors = self.unmatched_floor[tile.rows], errors[tile.rows]
        new_floor = np.where(self.is_new_target[tile.rows], held_floor.min(), np.inf)
        floor = np.minimum(unmatched_floor, new_floor)
        if floor.min() == np.inf:
            return tile.rows[:0], rows[:0]
        products = tile.packed.multiply(codes)
        block_error = bound_errors(row_errors.max(), column_errors)
        least = to_code_products(floor - block_error, unit)
        near = np.flatnonzero(products >= least)
        row, column = np.divmod(near, len(tile.rows))
        product = products.ravel()[near] * unit
        error = bound_errors(row_errors[row], column_errors[column])
        lower_floor = np.minimum(unmatched_floor[column], held_floor[row])
        reaching = np.flatnonzero(product + error >= lower_floor)
        pairs = tile.rows[column[reaching]], rows[row[reaching]]
        self._raise_floors(*pairs, product[reaching] - error[reaching])
        return pairs

    def _raise_floors(
        self, columns: Integers, rows: Integers, least_products: NDArray[np.float32]
    ) -> None:
        """Raise the floors of unmatched questions to the products of these pairs."""
        is_other = self._find_passages(columns) != self._find_passages(rows)
        found = self.is_target[rows] & is_other
        np.maximum.at(self.unmatched_floor, columns[found], least_products[found])

    def _select_exactly(self, columns: Integers, rows: Integers) -> Pairs:
        """The pairs that reach a floor, by exact products."""
        is_other = self._find_passages(columns) != self._find_passages(rows)
        columns, rows = columns[is_other], rows[is_other]
        products = self.vectors.multiply(columns, rows)
        self._raise_floors(columns, rows, products - ROUNDING)
        reaches = self.is_target[rows] & (products >= self.unmatched_floor[columns])
        reaches |= self.is_new_target[columns] & (products >= self.held_floor[rows])
        return columns[reaches], rows[reaches]

    def _raise_infinite_floors(self, columns: Integers, rows: Integers) -> None:
        """Raise the floors that are minus infinity to the best of a sample of the rows."""
        bare = columns[np.isneginf(self.unmatched_floor[columns])]
        sample = rows[self.is_target[rows]]
        sample = sample[:: max(1, len(sample) // _SAMPLE)]
        if not len(sample):
            return
        sample_vectors, sample_passages = self._read(sample), self._find_passages(sample)
        for part in split_slices(len(bare), TILE):
            tile = bare[part]
            products = sample_vectors @ self._read(tile).T
            products[find_equal(sample_passages, self._find_passages(tile))] = _NEVER
            self.unmatched_floor[tile] = products.max(0) - ROUNDING

    def _find_passages(self, vector_rows: AnyIntegers) -> Integers:
        """The passage row of each vector."""
        return np.searchsorted(self.passage_ends, vector_rows, "right")

    def _read(self, rows: Integers) -> NDArray[np.float32]:
        return np.asarray(self.vectors.exact)[rows].astype(np.float32)


def map_shared(work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> Iterator[_Result]:
    """The result of each part, in any order: another thread helps this one.

    The helper is given a few parts at a time, as it outlives this thread when the process ends.
    This thread does the parts that the helper has not begun at the end. Raises ProcessEnds if no
    thread can be started.
    """
    submitted = deque[tuple[Future[_Result], _Part]]()
    with ThreadPoolExecutor(1, "matching") as pool:
        for part in parts:
            if len(submitted) < _MAX_SUBMITTED:
                try:
                    submitted.append((pool.submit(work, part), part))
                except RuntimeError as error:
                    if "shutdown" in str(error):
                        raise ProcessEnds from error
                    raise
            else:
                yield work(part)
            while submitted and submitted[0][0].done():
                yield submitted.popleft()[0].result()
        while submitted:
            future, part = submitted.pop()
            yield work(part) if future.cancel() else future.result()


def batch_pairs(parts: Iterable[Pairs]) -> Iterator[Pairs]:
    """Join the pairs of several parts into batches for exact multiplication."""
    batch: list[Pairs] = []
    count = 0
    for pairs in parts:
        batch.append(pairs)
        count += len(pairs[0])
        if count > PAIRS_AT_ONCE:
            yield concatenate_pairs(batch)
            batch, count = [], 0
    if batch:
        yield concatenate_pairs(batch)


def concatenate_pairs(parts: Sequence[Pairs]) -> Pairs:
    """All pairs of several parts, of which there is at least one."""
    columns, rows = zip(*parts, strict=True)
    return np.concatenate(columns), np.concatenate(rows)


def find_equal(rows: AnyIntegers, columns: AnyIntegers) -> tuple[Integers, Integers]:
    """The pairs of positions at which two arrays are equal; the first array rises."""
    starts, ends = np.searchsorted(rows, columns), np.searchsorted(rows, columns, "right")
    return expand_ranges(starts, ends)
