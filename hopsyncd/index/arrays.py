"""Functions on arrays of rows: ranges, groups, flags and exact sums."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Int32s = NDArray[np.int32]
AnyIntegers = NDArray[np.integer]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Column = NDArray[Any]

# `find_sorted` uses a table for more than _MANY wanted numbers, if no value is negative and all are
# below _SPARSEST times the count of these numbers.
_MANY, _SPARSEST = 4096, 16

NO_ROWS: Integers = np.empty(0, dtype=np.int64)
LEAST_SORTABLE = np.int32(-(2**31))
"""A value that is lower than every result of `to_sortable`."""


def expand_ranges(starts: AnyIntegers, ends: AnyIntegers) -> tuple[Integers, Integers]:
    """Return the positions in all ranges from `starts` to `ends`, and the index of each position's
    range.

    >>> [part.tolist() for part in expand_ranges(np.array([4, 9]), np.array([6, 10]))]
    [[4, 5, 9], [0, 0, 1]]
    """
    counts: Integers = (ends - starts).astype(np.int64, copy=False)
    numbers = np.arange(len(counts)).repeat(counts)
    positions = np.arange(len(numbers))
    shifts = starts - (counts.cumsum() - counts)
    positions += shifts.astype(np.int64, copy=False).repeat(counts)
    return positions, numbers


def invert_positions(values: AnyIntegers, count: int) -> Integers:
    """Return, for each number below `count`, its position in the distinct `values`, or -1 if
    `values` does not contain the number.

    >>> invert_positions(np.array([3, 1]), 4).tolist()
    [-1, 1, -1, 0]
    """
    positions = np.full(count, -1)
    positions[values] = np.arange(len(values))
    return positions


def mark_rows(count: int, *rows: AnyIntegers) -> Flags:
    """Return a flag for each number below `count`: whether one of the arrays contains it."""
    flags = np.zeros(count, dtype=np.bool_)
    for marked in rows:
        flags[marked] = True
    return flags


def take_flags(flags: Flags, rows: AnyIntegers) -> Flags:
    """Return the flag of each row. Rows that were added after the flags were computed get False.

    >>> take_flags(np.array([True, False]), np.array([0, 1, 5])).tolist()
    [True, False, False]
    """
    if not len(rows) or (len(flags) and rows.max() < len(flags)):
        return flags.take(rows)
    is_known = rows < len(flags)
    values: Flags = is_known & flags[np.where(is_known, rows, 0)] if len(flags) else is_known
    return values


def find_sorted(values: AnyIntegers, keys: AnyIntegers) -> tuple[Integers, Flags]:
    """Return, for each wanted number, its position in `values`, and whether `values` contains the
    number. If it does not, the position is meaningless. `values` must be distinct and ascending."""
    most = _SPARSEST * len(keys)
    if len(keys) > _MANY and len(values) and values[0] >= 0 and values[-1] < most:
        # For many numbers, a table takes less time than binary searches.
        end = int(values[-1]) + 1
        table = np.full(end + 1, -1)
        table[values] = np.arange(len(values))
        positions = table[np.where((keys >= 0) & (keys < end), keys, end)]
        return positions, positions >= 0
    positions = np.searchsorted(values, keys)
    positions[positions == len(values)] = 0
    is_there = values[positions] == keys if len(values) else np.zeros(len(keys), dtype=np.bool_)
    return positions, is_there


def sort_distinct(values: Integers) -> Integers:
    """Return the distinct values in ascending order. For few values, this is several times as fast
    as np.unique."""
    ascending = np.sort(values)
    is_first = np.ones(len(ascending), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    distinct: Integers = ascending[is_first]
    return distinct


def unite(*arrays: Integers) -> Integers:
    """Return the distinct values of all arrays in ascending order.

    >>> unite(np.array([5, 2]), np.array([2, 3])).tolist()
    [2, 3, 5]
    """
    return sort_distinct(np.concatenate(arrays))


def select_first_of_groups(groups: Integers, *keys: Column, count: int = 1) -> Integers:
    """Return the first `count` rows of each group, by ascending group. The rows of a group are
    ordered by the first key, then by the second key, and so on.

    >>> select_first_of_groups(np.array([1, 0, 1]), np.array([5, 9, 3])).tolist()
    [1, 2]
    """
    order = np.lexsort((*reversed(keys), groups))
    ascending = groups[order]
    ranks = np.arange(len(order)) - np.searchsorted(ascending, ascending)
    return order[ranks < count]


def to_sortable(values: NDArray[np.float32]) -> Int32s:
    """Convert floats to integers that have the same order.

    >>> to_sortable(np.array([-2.0, -0.0, 0.0, 3.0], dtype=np.float32)).tolist()
    [-1073741825, 0, 0, 1077936128]
    """
    bits = (values + np.float32(0)).view(np.int32)  # 0.0 and -0.0 are equal
    return bits ^ ((bits >> 31) & np.int32(2**31 - 1))


def select_largest_of_groups(groups: Integers, values: Int32s, count: int) -> Integers:
    """Return the rows with the `count` largest values of each group. If several rows share the
    smallest of these values, all of these rows are returned.

    >>> values = np.array([1, 3, 2, 1], dtype=np.int32)
    >>> select_largest_of_groups(np.array([0, 0, 1, 0]), values, 2).tolist()
    [0, 1, 2, 3]
    """
    if not len(groups):
        return groups
    keys = (groups << 32) - values
    keys.sort()
    sizes = np.bincount(groups)
    last = sizes.cumsum() - sizes + np.minimum(sizes, count) - 1
    least = (np.arange(len(sizes)) << 32) - keys[last]
    return np.flatnonzero(values >= least.astype(np.int32)[groups])


def find_range_maxima(
    values: NDArray[np.float32], starts: Integers, ends: Integers
) -> NDArray[np.float32]:
    """Return the largest value in each range from `starts` to `ends` (exclusive). No range may be
    empty.

    The result is the maximum of two overlapping windows of 2 ** k values, at the start and the end
    of the range. For short ranges, np.maximum.reduceat takes three times as long.

    >>> values = np.array([4.0, 1.0, 3.0, 2.0], dtype=np.float32)
    >>> find_range_maxima(values, np.array([0, 1]), np.array([1, 4])).tolist()
    [4.0, 3.0]
    """
    sizes = ends - starts
    levels = np.frexp(sizes.astype(np.float32))[1] - 1
    maxima = np.empty((int(levels.max()) + 1, len(values)), dtype=np.float32)
    maxima[0] = values
    for level in range(1, len(maxima)):
        half, count = 1 << level - 1, len(values) - (1 << level) + 1
        below = maxima[level - 1]
        np.maximum(below[:count], below[half : half + count], out=maxima[level, :count])
    first, flat = levels * len(values), maxima.ravel()
    return np.maximum(flat.take(first + starts), flat.take(first + ends - (1 << levels)))


def sum_exactly(values: Floats, groups: Integers, count: int, unit: float) -> Floats:
    """Return the sum of the values of each group, for the groups from 0 to `count` - 1. The result
    does not depend on the order of the rows.

    Each value is first rounded to a multiple of `unit`, a power of 2. So the additions are exact as
    long as a sum is below 2 ** 53 units.

    >>> sum_exactly(np.array([0.5, 0.25]), np.array([1, 1]), 2, 2.0**-48).tolist()
    [0.0, 0.75]
    """
    sums = np.bincount(groups, np.rint(values * (1 / unit)), count) * unit
    return sums.astype(np.float64, copy=False)
