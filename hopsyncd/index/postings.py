"""Postings, as in search engines: they find the rows of a table that have a key."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from hopsyncd.index.arrays import AnyIntegers, Column, Flags, Int32s, Integers, expand_ranges

RANK_BITS = 32
_FIRST_RANK = 1 << RANK_BITS - 1  # rank of the id 0

_SMALL = 4096  # rows of the last segment, which is sorted again at each addition
_MAX_KEY_FACTOR = 4  # The largest key per row up to which a segment is dense.
_MAX_GROUPED = 0.5  # The largest number of distinct keys per row up to which it is grouped.
_ALL_ROWS = 1 << 40  # more than any key has
_NO_KEYS: Integers = np.empty(0, dtype=np.int64)
_NO_OFFSETS: Int32s = np.empty(0, dtype=np.int32)


class Segment(NamedTuple):
    """A part of the postings. `rows` has the table's row numbers, sorted by key.

    There are three forms:

    - Plain: `keys` has the key of each row, and `offsets` is None.
    - Grouped: `keys` has the distinct keys, and `offsets` the start of each key's rows, and the end
    of the last key's rows.
    - Dense: `keys` is empty, and `offsets` has the start of the rows of the keys -1, 0, 1 and so
    on, up to two more than the largest key.

    `build` keeps fewer than 4,096 rows plain. Otherwise it chooses the dense form, which needs no
    binary search, if the largest key is at most 4 times the number of rows. If not, it chooses the
    grouped form if each key has two rows or more on average, and the plain form otherwise.
    """

    keys: Integers
    rows: Int32s
    offsets: Int32s | None = None

    @classmethod
    def build(cls, keys: Integers, rows: Int32s) -> "Segment":
        """Build a segment from rows sorted by key. `keys` has the key of each row."""
        if len(rows) < _SMALL:
            return cls(keys, rows)
        if keys[0] >= 0 and keys[-1] <= _MAX_KEY_FACTOR * len(keys):
            counts = np.bincount(keys + 2, minlength=int(keys[-1]) + 4)
            return cls(_NO_KEYS, rows, np.cumsum(counts, dtype=np.int32))
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        if len(starts) > _MAX_GROUPED * len(rows):
            return cls(keys, rows)
        return cls(keys[starts], rows, np.append(starts, len(rows)).astype(np.int32))

    def find(self, keys: AnyIntegers) -> tuple[AnyIntegers, AnyIntegers]:
        """Return the start and end of the positions of each key's rows."""
        if self.offsets is None or len(self.keys):
            return self.search(keys), self.search(keys, "right")
        positions = self._find_offsets(keys)
        starts: Int32s = self.offsets[positions]
        ends: Int32s = self.offsets[positions + 1]
        return starts, ends

    def search(self, keys: AnyIntegers, side: Literal["left", "right"] = "left") -> AnyIntegers:
        """Return, for each key, the position of the first row whose key is not lower, or with
        `side="right"` the position of the first row whose key is higher."""
        if self.offsets is None:
            return self.keys.searchsorted(keys, side)
        positions: AnyIntegers
        if len(self.keys):
            positions = self.keys.searchsorted(keys, side)
        else:
            positions = self._find_offsets(keys) + (side == "right")
        starts: Int32s = self.offsets[positions]
        return starts

    def _find_offsets(self, keys: AnyIntegers) -> AnyIntegers:
        """Return, for each key of a dense segment, the position in `offsets` of its rows' start."""
        assert self.offsets is not None
        # np.clip takes several times as long for few keys.
        positions: AnyIntegers = np.minimum(np.maximum(keys, -1), len(self.offsets) - 3) + 1
        return positions

    def take_keys(self, positions: Integers) -> Integers:
        """Return the key of the row at each position."""
        if self.offsets is None:
            return self.keys[positions]
        numbers = self.offsets.searchsorted(positions, "right") - 1
        return self.keys[numbers] if len(self.keys) else numbers - 1

    def list_keys(self) -> Integers:
        if self.offsets is None:
            return self.keys
        counts = np.diff(self.offsets)
        keys = self.keys if len(self.keys) else np.arange(-1, len(counts) - 1)
        return keys.repeat(counts)


class RankedRows(NamedTuple):
    """The rows of several keys, in any order.

    `ranks` are the results of `rank_keys` for the rows. `positions` has the position of each row's
    key in the request. `is_cut` has a flag for each key: whether only a part of the key's rows was
    returned.
    """

    rows: Integers
    ranks: Integers
    positions: Integers
    is_cut: Flags

    def take(self, selection: Flags) -> "RankedRows":
        """Return only the rows whose flag in `selection` is set. `is_cut` stays the same."""
        return RankedRows(
            self.rows[selection], self.ranks[selection], self.positions[selection], self.is_cut
        )

    def join(self, more: "RankedRows", positions: Integers) -> "RankedRows":
        """Append the rows of `more`, but with `positions` as the positions of their keys."""
        return RankedRows(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.ranks, more.ranks]),
            np.concatenate([self.positions, positions]),
            self.is_cut,
        )


_EMPTY = Segment(_NO_KEYS, np.empty(0, dtype=np.int32))


class Postings:
    """Finds the rows of each key, in segments sorted by key.

    New rows are added to a small segment. Once it is full, it becomes a large segment. Large
    segments are merged so that each is at least twice the size of the next. So each of n rows is
    moved only O(log n) times.

    >>> postings = Postings()
    >>> postings.add(np.array([5, 3, 5]), np.array([0, 1, 2]))
    >>> postings.find(5).tolist(), postings.find(4).tolist()
    ([0, 2], [])
    >>> [found.tolist() for found in postings.find_all(np.array([3, 5]))]
    [[1, 0, 2], [0, 1, 1]]
    """

    def __init__(self) -> None:
        # The last segment is the small one. One tuple, so that a reader never sees half of a merge.
        self._segments: tuple[Segment, ...] = (_EMPTY,)
        self._frozen = 0  # the number of leading segments that are not merged with others

    def add(self, keys: AnyIntegers, rows: AnyIntegers) -> None:
        """Add rows under these keys. The rows of a key must be ascending, and higher than its
        earlier rows."""
        if not len(keys):
            return
        *large, small = self._segments
        small = _merge(small, Segment(keys.astype(np.int64), rows.astype(np.int32)))
        if len(small.rows) >= _SMALL:
            while len(large) > self._frozen and len(large[-1].rows) < 2 * len(small.rows):
                small = _merge(large.pop(), small)
            large.append(small)
            small = _EMPTY
        self._segments = (*large, small)

    def find(self, key: int) -> Int32s:
        return self.find_each(np.array([key]))[0]

    def find_each(self, keys: AnyIntegers) -> list[Int32s]:
        """Return the rows of each key in a separate array. Use `find_all` for many keys."""
        if not len(keys):
            return []
        parts: list[list[Int32s]] = [[] for _ in keys]
        for segment in self._segments:
            if len(segment.rows):
                starts, ends = segment.find(keys)
                for part, start, end in zip(parts, starts.tolist(), ends.tolist(), strict=True):
                    part.append(segment.rows[start:end])
        return [
            part[0] if len(part) == 1 else np.concatenate([_EMPTY.rows, *part]) for part in parts
        ]

    def find_all(self, keys: AnyIntegers, limit: int | None = None) -> tuple[Integers, Integers]:
        """Return the rows of all keys, in the order of `keys`, and the position in `keys` of each
        row's key.

        With `limit`, a key with more than `limit` rows may get fewer rows, but at least `limit`.
        """
        row_parts: list[Int32s] = []
        key_parts: list[Integers] = []
        for segment in self._segments:
            if not len(segment.rows):
                continue
            starts, ends = segment.find(keys)
            if not (ends > starts).any():
                continue
            if limit is not None:
                ends = np.minimum(ends, starts + limit)
            positions, key_positions = expand_ranges(starts, ends)
            row_parts.append(segment.rows[positions])
            key_parts.append(key_positions)
        if not row_parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if len(row_parts) == 1:
            return row_parts[0].astype(np.int64), key_parts[0]
        rows, key_positions = np.concatenate(row_parts), np.concatenate(key_parts)
        order = np.argsort(key_positions, kind="stable")
        return rows[order].astype(np.int64), key_positions[order]

    def find_lowest(self, keys: Integers, about: int = _ALL_ROWS) -> "RankedRows":
        """Return the rows of each key. The postings must have been filled with keys from
        `rank_keys`.

        If a key has at least twice `about` rows, only about `about` rows with the lowest ranks are
        returned. By default, all rows are returned.
        """
        segments = self._segments  # read once, because a writer may replace them
        lows = keys << RANK_BITS
        highs = lows + (1 << RANK_BITS)
        starts = [segment.search(lows) for segment in segments]
        ends = [segment.search(highs) for segment in segments]
        counts = np.sum(ends, axis=0) - np.sum(starts, axis=0)
        # Ids are evenly distributed, so half of the rank range contains half of the rows.
        (cut,) = np.nonzero(counts >= 2 * about)
        highs[cut] = lows[cut] + _FIRST_RANK + _FIRST_RANK // (counts[cut] // about)
        rows, ranks, positions = [], [], []
        for segment, start, end in zip(segments, starts, ends, strict=True):
            end[cut] = segment.search(highs[cut])
            found, of_key = expand_ranges(start, end)
            rows.append(segment.rows[found])
            ranks.append(segment.take_keys(found))
            positions.append(of_key)
        is_cut = np.zeros(len(keys), dtype=np.bool_)
        is_cut[cut] = True
        joined = np.concatenate(rows).astype(np.int64)
        return RankedRows(joined, np.concatenate(ranks), np.concatenate(positions), is_cut)

    def find_below(
        self, keys: Integers, ends: Integers, least: int, most: int
    ) -> tuple[Integers, Integers]:
        """Return the rows of each key whose result of `rank_keys` is below the key's value in
        `ends`, and the position in `keys` of each row's key.

        Keys with fewer than `least` such rows are left out. Each segment returns at most `most`
        rows of a key, with the lowest ranks.
        """
        segments, lows = self._segments, keys << RANK_BITS
        starts = [segment.search(lows) for segment in segments]
        stops = [segment.search(ends) for segment in segments]
        are_many = np.sum(stops, axis=0) - np.sum(starts, axis=0) >= least
        rows, positions = [], []
        for segment, start, stop in zip(segments, starts, stops, strict=True):
            end = np.where(are_many, np.minimum(stop, start + most), start)
            found, of_key = expand_ranges(start, end)
            rows.append(segment.rows[found])
            positions.append(of_key)
        return np.concatenate(rows).astype(np.int64), np.concatenate(positions)

    def freeze(self) -> tuple[Segment, ...]:
        """Freeze the current segments. No rows are merged into frozen segments. Call
        `replace_frozen` afterwards."""
        self._segments = (*self._segments, _EMPTY)
        self._frozen = len(self._segments) - 1
        return self._segments[:-1]

    def replace_frozen(self, segment: Segment | None) -> None:
        """Replace the frozen segments with this segment. If `segment` is None, the frozen segments
        stay and may be merged again."""
        first = self._segments[: self._frozen] if segment is None else (segment,)
        self._segments = (*first, *self._segments[self._frozen :])
        self._frozen = 0

    def replace(self, segment: Segment) -> None:
        self._segments, self._frozen = (segment, _EMPTY), 0


def rank_keys(keys: AnyIntegers, ids: Integers) -> Integers:
    """Compute int64 keys that sort by `keys` (below 2 ** 31), and then by the first 32 bits of
    `ids`.

    These keys make it possible to find the rows with the lowest ids without reading the other rows.
    """
    return (keys.astype(np.int64) << RANK_BITS) + (ids >> RANK_BITS) + _FIRST_RANK


def merge_segments(segments: Sequence[Segment]) -> Segment:
    *large, segment = segments
    for earlier in reversed(large):
        segment = _merge(earlier, segment)
    return segment


def list_columns(name: str, segment: Segment) -> Iterator[tuple[str, Column]]:
    """Yield the arrays of a segment for `read_segment`, each with a name that starts with
    `name`."""
    yield f"{name}:keys", segment.keys
    yield f"{name}:rows", segment.rows
    yield f"{name}:offsets", _NO_OFFSETS if segment.offsets is None else segment.offsets


def read_segment(name: str, buffers: Mapping[str, Column], lengths: Mapping[str, int]) -> Segment:
    """Return the segment whose arrays `list_columns` gave. The arrays in `buffers` may be longer
    than their `lengths`."""
    keys, rows, offsets = (
        buffers[column][: lengths[column]]
        for column in (f"{name}:keys", f"{name}:rows", f"{name}:offsets")
    )
    return Segment(keys, rows, offsets if len(offsets) else None)


def _merge(first: Segment, second: Segment) -> Segment:
    keys = np.concatenate([first.list_keys(), second.list_keys()])
    order = np.argsort(keys, kind="stable")
    return Segment.build(keys[order], np.concatenate([first.rows, second.rows])[order])
