"""Columns that only grow, and postings over them: what the live index is made of.

A writer appends and a reader goes on with what it has: an array that a reader holds is never
shortened or moved under it. Positions are int32 and never change.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Integers = NDArray[np.int64]
Positions = NDArray[np.int32]
Floats = NDArray[np.float64]
Column = NDArray[Any]

_FIRST = 256  # rows that there is room for at first
_OPEN = 4096  # entries that postings keep in one small segment, sorted again at each addition
_APART = 4  # times as far as there are entries: keys up to there have a table of where they start


class ColumnTable:
    """Rows as columns of equal length, one typed array each.

    >>> table = ColumnTable(id=np.int64, born=np.int32)
    >>> table.append(id=[7, 9], born=[1, 1]), table.append(id=[8], born=[2]), len(table)
    (0, 2, 3)
    >>> table["id"].tolist()
    [7, 9, 8]
    """

    def __init__(self, **types: DTypeLike) -> None:
        self._room = {name: np.zeros(_FIRST, dtype=type_) for name, type_ in types.items()}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        """A view of the rows so far; whoever writes into it writes into the table."""
        length = self._length  # first: what has room for more may be put in the place of a column
        return self._room[name][:length]

    def views(self, *names: str) -> list[NDArray[np.int64]]:
        """Several columns, of the same rows even while a writer appends."""
        length = self._length
        return [self._room[name][:length] for name in names]

    def append(self, **columns: object) -> int:
        """Add rows, all columns of one length; returns the position of the first."""
        arrays = {name: np.asarray(columns[name]) for name in self._room}
        first, more = self._length, len(next(iter(arrays.values())))
        for name, values in arrays.items():
            room = self._room[name]
            if first + more > len(room):
                grown = np.zeros(max(first + more, 2 * len(room)), dtype=room.dtype)
                grown[:first] = room[:first]
                room = self._room[name] = grown
            room[first : first + more] = values
        self._length = first + more
        return first

    def columns(self) -> dict[str, Column]:
        """All columns, by name."""
        return {name: self[name] for name in self._room}

    def take(self, columns: Mapping[str, Column], length: int) -> None:
        """Replace all rows by the first so many of these columns, which may have room for more.

        Raises ValueError where one is of another type.
        """
        for name, room in self._room.items():
            if columns[name].dtype != room.dtype:
                raise ValueError(f"{name} is {columns[name].dtype}, not {room.dtype}")
            self._room[name] = columns[name]
        self._length = length


class Segment(NamedTuple):
    """Entries sorted by key. starts: where those of key -1 start, of 0, 1 ... and of one more than
    the largest; None where keys lie too far apart.
    """

    keys: Integers
    values: Positions
    starts: Positions | None = None

    @classmethod
    def of(cls, keys: Integers, values: Positions) -> "Segment":
        """Make the keys quick to find if there are many and they lie close."""
        if len(keys) < _OPEN or keys[0] < 0 or keys[-1] > _APART * len(keys):
            return cls(keys, values)
        counts = np.bincount(keys + 2, minlength=int(keys[-1]) + 4)
        return cls(keys, values, np.cumsum(counts, dtype=np.int32))

    def find(self, wanted: Integers) -> tuple[Integers, Integers]:
        """Where the entries of each key start and end."""
        if self.starts is None:
            return self.keys.searchsorted(wanted), self.keys.searchsorted(wanted, "right")
        at = wanted.clip(-1, len(self.starts) - 3) + 1
        return self.starts[at], self.starts[at + 1]


_NO_ENTRIES = Segment(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))


class Postings:
    """For each key the positions that have it, in segments sorted by key, as search engines do.

    New entries join one small segment. When it is full it becomes one of the large ones, which are
    merged so that each is at least twice the next: an entry is moved O(log n) times.

    >>> postings = Postings()
    >>> postings.add(np.array([5, 3, 5]), np.array([0, 1, 2]))
    >>> postings.of(5).tolist(), postings.of(4).tolist()
    ([0, 2], [])
    >>> [found.tolist() for found in postings.of_each(np.array([3, 5]))]
    [[1, 0, 2], [0, 1, 1]]
    """

    def __init__(self) -> None:
        # The last is the small one. One tuple, so that a reader never sees half of a merge.
        self._segments: tuple[Segment, ...] = (_NO_ENTRIES,)

    def add(self, keys: Integers, values: NDArray[np.integer]) -> None:
        """Add entries, of rising positions for each key."""
        if not len(keys):
            return
        *large, small = self._segments
        small = _merged(small, Segment(keys.astype(np.int64), values.astype(np.int32)))
        if len(small.keys) >= _OPEN:
            while large and len(large[-1].keys) < 2 * len(small.keys):
                small = _merged(large.pop(), small)
            large.append(small)
            small = _NO_ENTRIES
        self._segments = (*large, small)

    def of(self, key: int) -> Positions:
        """The positions of one key."""
        return self.of_some(np.array([key]))[0]

    def of_some(self, keys: Integers) -> list[Positions]:
        """The positions of each of a few keys."""
        found: list[list[Positions]] = [[] for _ in keys]
        for segment in self._segments:
            if len(segment.keys):
                first, end = segment.find(keys)
                for own, start, stop in zip(found, first.tolist(), end.tolist(), strict=True):
                    own.append(segment.values[start:stop])
        return [
            own[0] if len(own) == 1 else np.concatenate([_NO_ENTRIES.values, *own]) for own in found
        ]

    def of_each(self, keys: Integers, most: int | None = None) -> tuple[Integers, Integers]:
        """The positions of the k keys, and of each the number of its key, rising.

        With `most`, of a key that has so many at least so many, and no more of each segment.
        """
        found: list[NDArray[np.integer]] = []
        number: list[Integers] = []
        for segment in self._segments:
            if not len(segment.keys):
                continue
            first, end = segment.find(keys)
            at, of = ranges(first, end if most is None else np.minimum(end, first + most))
            found.append(segment.values[at])
            number.append(of)
        if not found:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if len(found) == 1:
            return found[0].astype(np.int64), number[0]
        every, of = np.concatenate(found), np.concatenate(number)
        order = np.argsort(of, kind="stable")
        return every[order].astype(np.int64), of[order]

    def segment(self) -> Segment:
        """All entries, as one segment."""
        *large, whole = self._segments
        for segment in reversed(large):
            whole = _merged(segment, whole)
        return whole

    def take(self, segment: Segment) -> None:
        """Replace all entries."""
        self._segments = (segment, _NO_ENTRIES)


def _merged(first: Segment, second: Segment) -> Segment:
    keys = np.concatenate([first.keys, second.keys])
    order = np.argsort(keys, kind="stable")
    return Segment.of(keys[order], np.concatenate([first.values, second.values])[order])


class KeyNumbers:
    """Numbers 0, 1, 2 ... for 63-bit keys, in the order in which they came.

    >>> numbers = KeyNumbers()
    >>> numbers.add(np.array([70, 30, 70])).tolist(), numbers.find(np.array([30, 99])).tolist()
    ([0, 1, 0], [1, -1])
    """

    def __init__(self) -> None:
        self.keys = ColumnTable(key=np.int64)
        self._number = Postings()

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Integers) -> Integers:
        """The number of each of the keys; those that have none get the next."""
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        numbers = self.find(distinct)
        new = np.flatnonzero(numbers < 0)
        new = new[np.argsort(first[new])]
        numbers[new] = np.arange(len(self), len(self) + len(new))
        self.keys.append(key=distinct[new])
        self._number.add(distinct[new], numbers[new].astype(np.int32))
        return numbers[inverse]

    def find(self, keys: Integers) -> Integers:
        """The number of each of the keys, -1 for those that have none."""
        found = np.full(len(keys), -1, dtype=np.int64)
        values, of = self._number.of_each(keys)
        found[of] = values
        return found

    def take(self, room: Integers, length: int) -> None:
        """Replace all keys by the first so many of these."""
        self.keys.take({"key": room}, length)
        keys = room[:length]
        order = np.argsort(keys, kind="stable")
        self._number.take(Segment(keys[order], order.astype(np.int32)))


def ranges(first: Integers, end: Integers) -> tuple[Integers, Integers]:
    """All positions from each first up to its end, and the number of the range each is in.

    >>> [part.tolist() for part in ranges(np.array([4, 9]), np.array([6, 10]))]
    [[4, 5, 9], [0, 0, 1]]
    """
    count = (end - first).astype(np.int64, copy=False)
    number = np.arange(len(count)).repeat(count)
    at = np.arange(len(number))
    begin = first - (count.cumsum() - count)
    at += begin.astype(np.int64, copy=False).repeat(count)
    return at, number


def places(values: Integers, count: int) -> Integers:
    """(count,) the place of each number below `count` among distinct values, -1 of all others.

    >>> places(np.array([3, 1]), 4).tolist()
    [-1, 1, -1, 0]
    """
    at = np.full(count, -1)
    at[values] = np.arange(len(values))
    return at


def marked(count: int, *numbers: Integers) -> NDArray[np.bool_]:
    """(count,) whether each number below `count` is among some."""
    flags = np.zeros(count, dtype=np.bool_)
    for some in numbers:
        flags[some] = True
    return flags


def distinct(values: Integers) -> Integers:
    """Each of the values once, rising: np.unique takes several times as long for a few."""
    sorted_ = np.sort(values)
    is_first = np.ones(len(sorted_), dtype=np.bool_)
    np.not_equal(sorted_[1:], sorted_[:-1], out=is_first[1:])
    each: Integers = sorted_[is_first]
    return each


def best_of_each(group: Integers, *keys: Column, count: int = 1) -> Integers:
    """The first `count` rows of each group, by the keys in turn, each rising; by rising group.

    >>> best_of_each(np.array([1, 0, 1]), np.array([5, 9, 3])).tolist()
    [1, 2]
    """
    order = np.lexsort((*reversed(keys), group))
    sorted_ = group[order]
    place = np.arange(len(order)) - np.searchsorted(sorted_, sorted_)
    return order[place < count]


LEAST = np.int32(-(2**31))
"""Below the `rising` of every number."""


def rising(values: NDArray[np.float32]) -> NDArray[np.int32]:
    """Integers in the order of the values.

    >>> rising(np.array([-2.0, -0.0, 0.0, 3.0], dtype=np.float32)).tolist()
    [-1073741825, 0, 0, 1077936128]
    """
    bits = (values + np.float32(0)).view(np.int32)  # 0.0 and -0.0 are equal
    return bits ^ ((bits >> 31) & np.int32(2**31 - 1))


def largest_of_each(group: Integers, values: NDArray[np.int32], count: int) -> Integers:
    """The rows of the `count` largest values of each group, and of all that equal the last of them.

    >>> values = np.array([1, 3, 2, 1], dtype=np.int32)
    >>> largest_of_each(np.array([0, 0, 1, 0]), values, 2).tolist()
    [0, 1, 2, 3]
    """
    if not len(group):
        return group
    keys = (group << 32) - values
    keys.sort()
    size = np.bincount(group)
    last = size.cumsum() - size + np.minimum(size, count) - 1
    least = (np.arange(len(size)) << 32) - keys[last]
    return np.flatnonzero(values >= least.astype(np.int32)[group])


def largest_between(
    values: NDArray[np.float32], first: Integers, end: Integers
) -> NDArray[np.float32]:
    """The largest value of each stretch, none of them empty: the larger of the largest of its first
    and of its last 2 ** k values, which are all of it. np.maximum.reduceat takes three times as
    long where stretches are short.

    >>> values = np.array([4.0, 1.0, 3.0, 2.0], dtype=np.float32)
    >>> largest_between(values, np.array([0, 1]), np.array([1, 4])).tolist()
    [4.0, 3.0]
    """
    size = end - first
    level = np.frexp(size.astype(np.float32))[1] - 1
    tops = np.empty((int(level.max()) + 1, len(values)), dtype=np.float32)
    tops[0] = values
    for at in range(1, len(tops)):
        half, whole = 1 << at - 1, len(values) - (1 << at) + 1
        np.maximum(tops[at - 1, :whole], tops[at - 1, half : half + whole], out=tops[at, :whole])
    begin, every = level * len(values), tops.ravel()
    return np.maximum(every.take(begin + first), every.take(begin + end - (1 << level)))


def holds(flags: NDArray[np.bool_], at: Integers) -> NDArray[np.bool_]:
    """The flag of each row; rows that came after the flags were taken have none.

    >>> holds(np.array([True, False]), np.array([0, 1, 5])).tolist()
    [True, False, False]
    """
    if not len(at) or (len(flags) and at.max() < len(flags)):
        return flags.take(at)
    known = at < len(flags)
    held: NDArray[np.bool_] = known & flags[np.where(known, at, 0)] if len(flags) else known
    return held


def exact_sums(values: Floats, group: Integers, count: int, unit: float) -> Floats:
    """(count,) sums by group that no order of the rows can change.

    Each value is first rounded to a multiple of `unit`, a power of 2, so the additions are exact
    while a sum stays below 2 ** 53 units.

    >>> exact_sums(np.array([0.5, 0.25]), np.array([1, 1]), 2, 2.0**-48).tolist()
    [0.0, 0.75]
    """
    sums = np.bincount(group, np.rint(values * (1 / unit)), count) * unit
    return sums.astype(np.float64, copy=False)


def with_places(sorted_: Integers, wanted: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Where each of the wanted stands in a sorted array, and whether it is there at all."""
    at = np.searchsorted(sorted_, wanted)
    at[at == len(sorted_)] = 0
    there = sorted_[at] == wanted if len(sorted_) else np.zeros(len(wanted), dtype=np.bool_)
    return at, there
