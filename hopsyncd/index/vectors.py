"""The vectors of the live index: exact ones to decide by, and coarse ones to scan."""

from collections.abc import Callable, Iterator

import numkong
import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Floats, Integers
from store.records import GRID, Vectors

Codes = NDArray[np.int8]
Grow = Callable[[str, NDArray[np.generic], int], NDArray[np.generic]]
"""Gives a larger array, of so many rows, that begins with those of the old one."""

_FIRST = 256  # rows that there is room for at first
_AT_ONCE = 1 << 8  # rows, which fit into a processor's cache
_LONGEST = 1.01 * GRID  # more than the length of any vector
_MOST_CODE = 127
_WIDEST = 6.0  # times the usual component: what is beyond has the largest code


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, _AT_ONCE):
        yield slice(start, min(start + _AT_ONCE, count))


def in_memory(_name: str, old: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
    """Grow an array in memory."""
    grown = np.zeros((rows, *old.shape[1:]), dtype=old.dtype)
    grown[: len(old)] = old
    return grown


class VectorTable:
    """r rows of d components, exact (int16) and coarse (int8), that only grow."""

    def __init__(self, dimensions: int, grow: Grow = in_memory) -> None:
        self.dimensions = dimensions
        self.step = _WIDEST * GRID / (np.sqrt(dimensions) * _MOST_CODE)
        self._grow = grow
        self._exact: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int16)
        self._codes: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int8)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def exact(self) -> Vectors:
        """(r, d) int16 on the grid."""
        used = self._used
        return self._exact[:used]  # type: ignore[return-value]

    @property
    def codes(self) -> Codes:
        """(r, d) int8."""
        used = self._used
        return self._codes[:used]  # type: ignore[return-value]

    def append(self, vectors: Vectors) -> int:
        """Add (m, d) vectors; returns the row of the first."""
        first, needed = self._used, self._used + len(vectors)
        if needed > len(self._exact):
            rows = max(needed, 2 * first, _FIRST)
            self._exact = self._grow("exact", self._exact, rows)
            self._codes = self._grow("codes", self._codes, rows)
        self._exact[first:needed] = vectors
        self._codes[first:needed] = self._coarse(vectors)
        self._used = needed
        return first

    def take(self, exact: NDArray[np.generic], codes: NDArray[np.generic], rows: int) -> None:
        """Replace all rows by so many of these arrays, which may have room for more."""
        room = min(len(exact), len(codes))  # a kill while they grow leaves one behind the other
        self._exact, self._codes, self._used = exact[:room], codes[:room], rows

    def cosines(self, vector: Vectors) -> NDArray[np.float32]:
        """(r,) about the cosine of each row with a (d,) grid vector: a function of the two alone.

        Both are taken as their codes, which moves a cosine by about 0.001.
        """
        if not self._used:
            return np.empty(0, dtype=np.float32)
        codes = np.asarray(self.codes)
        # Row by row: a product of matrices takes twice as long where one has a single row.
        dots = numkong.dot(codes, np.broadcast_to(self._coarse(vector[None]), codes.shape))
        return np.asarray(dots).astype(np.float32) * np.float32((self.step / GRID) ** 2)

    def products(self, rows: Integers, others: Integers) -> NDArray[np.float32]:
        """The exact product of each pair of rows."""
        exact, found = np.asarray(self.exact), np.empty(len(rows), dtype=np.float32)
        for part in _parts(len(rows)):
            one, other = (exact[at[part]].astype(np.float32) for at in (rows, others))
            np.einsum("ij,ij->i", one, other, out=found[part])
        return found

    def most(self, rows: Integers, others: Integers, missing: NDArray[np.float32]) -> Floats:
        """What the product of each pair of rows is at most, by their codes; these are `missing`."""
        codes, found = np.asarray(self.codes), np.empty(len(rows))
        for part in _parts(len(rows)):
            found[part] = numkong.dot(codes[rows[part]], codes[others[part]])
        left, right = missing[rows].astype(np.float64), missing[others]
        most: Floats = found * self.step**2 + _LONGEST * (left + right) + left * right
        return most

    def missing(self) -> NDArray[np.float32]:
        """(r,) no less than the length of what the codes of each row leave out."""
        exact, codes = np.asarray(self.exact), np.asarray(self.codes)
        squared = np.empty(len(exact), dtype=np.float32)
        for part in _parts(len(exact)):
            rest = exact[part] - codes[part] * np.float32(self.step)
            np.einsum("ij,ij->i", rest, rest, out=squared[part])
        return np.sqrt(squared, out=squared) + np.float32(1)

    def _coarse(self, vectors: Vectors) -> Codes:
        codes = np.rint(vectors / np.float32(self.step))
        return np.clip(codes, -_MOST_CODE, _MOST_CODE).astype(np.int8)
