"""Vectors that only grow, and between which bounds the products of two of them lie.

Each is held exactly, on the grid, and as a code of eight bits a component. Codes are multiplied
several times as fast.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numkong
import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.code_products import Codes, PackedCodes, session_for
from hopsyncd.index.columns import Integers, with_places
from store.records import GRID, Vectors

_FIRST = 256  # rows that there is room for at first
UNSURE = np.float32(1e-3 * GRID * GRID)  # more than a bound, or a squared length, can be rounded by
_FEW, _MOST_BOUNDS = 1 << 6, 1 << 24  # vectors whose products with all are bounded by codes; pairs
_MANY = 1 << 12  # rows: too many to be so few vectors

Grow = Callable[[str, NDArray[np.generic], int], NDArray[np.generic]]
"""Gives a larger array, of so many rows, that begins with those of the old one."""

_AT_ONCE = 1 << 8  # rows, which fit into a processor's cache
_GATHERED = 1 << 11  # codes, which do too
_ROWS_AT_ONCE, _MANY_ROWS = 1 << 13, 1 << 15  # that a thread fills, and that two fill
_SECOND = ThreadPoolExecutor(2, "rows")
_LONGEST = 1.01 * GRID  # more than the length of any vector
_MOST_CODE = 127
FAR = 2.0**30  # more than any product of codes
_WIDEST = 6.0  # times the usual component: what is beyond has the largest code


def in_memory(_name: str, old: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
    """Grow an array in memory."""
    grown = np.zeros((rows, *old.shape[1:]), dtype=old.dtype)
    grown[: len(old)] = old
    return grown


class VectorTable:
    """r rows of d components, exact (int16) and coarse (int8), that only grow.

    The coarse ones of whole passages are held once more, side by side: whoever compares with all
    passages reads a fraction of the rows.
    """

    def __init__(self, dimensions: int, grow: Grow = in_memory) -> None:
        self.dimensions = dimensions
        self.step = _WIDEST * GRID / (np.sqrt(dimensions) * _MOST_CODE)
        self._grow = grow
        self._exact: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int16)
        self._codes: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int8)
        self._whole: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int8)
        self._missing = np.empty(0, dtype=np.float32)
        self._used = self._wholes = 0

    def __len__(self) -> int:
        return self._used

    @property
    def unit(self) -> np.float32:
        """What a product of codes counts for."""
        return np.float32(self.step**2)

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

    @property
    def whole(self) -> Codes:
        """(w, d) int8: the codes of whole passages."""
        used = self._wholes
        return self._whole[:used]  # type: ignore[return-value]

    def append(self, vectors: Vectors, whole: Sequence[int] = ()) -> int:
        """Add (m, d) vectors, of which `whole` are of whole passages; returns the first's row."""
        first, needed = self._used, self._used + len(vectors)
        if needed > len(self._exact):
            rows = max(needed, 2 * first, _FIRST)
            self._exact = self._grow("exact", self._exact, rows)
            self._codes = self._grow("codes", self._codes, rows)
        if (wholes := self._wholes + len(whole)) > len(self._whole):
            self._whole = self._grow("whole", self._whole, max(wholes, 2 * self._wholes, _FIRST))
        codes = self._coarse(vectors)
        self._exact[first:needed] = vectors
        self._codes[first:needed] = codes
        self._whole[self._wholes : wholes] = codes[list(whole)]
        self._used, self._wholes = needed, wholes
        return first

    def take(
        self,
        exact: NDArray[np.generic],
        codes: NDArray[np.generic],
        rows: int,
        whole: NDArray[np.generic],
        wholes: int,
        missing: NDArray[np.float32],
    ) -> None:
        """Replace all rows by so many of these arrays, which may have room for more.

        `missing` is what these rows gave.
        """
        room = min(len(exact), len(codes))  # a kill while they grow leaves one behind the other
        self._exact, self._codes, self._used = exact[:room], codes[:room], rows
        self._whole, self._wholes = whole, wholes
        self._missing = missing

    def cosines(self, vector: Vectors, rows: Integers) -> NDArray[np.float32]:
        """(w,) about the cosine of each of these rows with a (d,) grid vector: a function of the
        two alone.

        Both are taken as their codes, which moves a cosine by about 0.001.
        """
        found = np.empty(len(rows), dtype=np.float32)
        codes = np.asarray(self.codes)
        as_one = codes.view(f"V{self.dimensions}").ravel()  # gathered in half the time
        compare = self._comparing(vector, found)
        for part in parts_of(len(rows), _GATHERED):
            compare(as_one[rows[part]].view(np.int8).reshape(-1, self.dimensions), part)
        return found

    def cosines_soon(self, vector: Vectors, among: Codes) -> Callable[[], NDArray[np.float32]]:
        """Begin to compute the cosines with `codes` or `whole`; what is returned gives them."""
        codes = np.asarray(among)
        found = np.empty(len(codes), dtype=np.float32)
        compare = self._comparing(vector, found)
        finish = filling(len(codes), lambda part: compare(codes[part], part))

        def give() -> NDArray[np.float32]:
            finish()
            return found

        return give

    def _comparing(
        self, vector: Vectors, found: NDArray[np.float32]
    ) -> Callable[[Codes, slice], None]:
        """What puts the cosines of some codes into a part of what is found."""
        coarse, unit = self._coarse(vector[None]), np.float32((self.step / GRID) ** 2)

        def compare(some: Codes, part: slice) -> None:
            # Row by row: a product of matrices takes twice as long where one has a single row.
            dots = numkong.dot(some, np.broadcast_to(coarse, some.shape))
            np.multiply(np.asarray(dots).astype(np.float32), unit, out=found[part])

        return compare

    def products(self, rows: Integers, others: Integers) -> NDArray[np.float32]:
        """The exact product of each pair of rows."""
        exact, found = np.asarray(self.exact), np.empty(len(rows), dtype=np.float32)
        for part in parts_of(len(rows), _AT_ONCE):
            one, other = (exact[at[part]].astype(np.float32) for at in (rows, others))
            np.einsum("ij,ij->i", one, other, out=found[part])
        return found

    def missing(self) -> NDArray[np.float32]:
        """(r,) no less than the length of what the codes of each row leave out."""
        known, used = self._missing, self._used
        if len(known) < used:
            exact, codes = np.asarray(self.exact), np.asarray(self.codes)
            squared = np.empty(used - len(known), dtype=np.float32)
            for part in parts_of(len(squared), _AT_ONCE):
                at = slice(len(known) + part.start, len(known) + part.stop)
                rest = exact[at] - codes[at] * np.float32(self.step)
                np.einsum("ij,ij->i", rest, rest, out=squared[part])
            new = np.sqrt(squared, out=squared) + np.float32(1)
            self._missing = known = np.concatenate([known, new])
        return known[:used]

    def _coarse(self, vectors: Vectors) -> Codes:
        codes = np.rint(vectors / np.float32(self.step))
        return np.clip(codes, -_MOST_CODE, _MOST_CODE).astype(np.int8)


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
        unit = vectors.unit

        def fill(part: slice) -> None:
            dots = numkong.dots_packed(codes[part], packed)
            np.multiply(np.asarray(dots).T.astype(np.float32), unit, out=about[:, part])

        filling(count, fill)()
        return cls(vectors, missing, columns, about)

    def packed(self, columns: Integers) -> PackedCodes:
        """The codes of some rows, to be multiplied with others."""
        codes = np.asarray(self.vectors.codes)[columns]
        return PackedCodes(codes, session_for(len(self.columns) * len(self.missing)))

    def of_columns(self, columns: Integers) -> Callable[[Integers], NDArray[np.int32]]:
        """What gives (m, n) the products of the codes of m rows with those of n columns.

        Where it is about a few, the caller sees to it that all rows or all columns are of these.
        """
        if self.about is None:
            codes, packed = np.asarray(self.vectors.codes), self.packed(columns)
            return lambda rows: packed.products(codes[rows])
        about, unit = self.about, self.vectors.unit
        few, are_few = with_places(self.columns, columns)

        def products(rows: Integers) -> NDArray[np.int32]:
            if are_few.all():
                some = about[few, rows[:, None]]
            else:
                some = about[np.searchsorted(self.columns, rows)[:, None], columns]
            found: NDArray[np.int32] = np.rint(some / unit).astype(np.int32)
            return found

        return products


def in_units(products: NDArray[np.float32], unit: np.float32) -> NDArray[np.int32]:
    """No more than these, as products of codes, as far as these reach."""
    some: NDArray[np.int32] = np.floor(np.clip(products / unit, -FAR, FAR)).astype(np.int32)
    return some


def doubt_of(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """How far at most a product is from that of the codes, by what these leave out."""
    longest = np.float32(_LONGEST)
    doubt: NDArray[np.float32] = left * (longest + right) + (longest * right + UNSURE)
    return doubt


def parts_of(count: int, at_once: int) -> Iterator[slice]:
    """So many rows at once, in order.

    >>> [*parts_of(5, 3)]
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, count, at_once):
        yield slice(start, min(start + at_once, count))


def filling(rows: int, fill: Callable[[slice], None]) -> Callable[[], None]:
    """Begin to fill so many rows by parts, many of them in another thread, as it has memory's other
    half; what is returned fills those that are left."""
    parts = iter([*parts_of(rows, _ROWS_AT_ONCE)])  # of a list: two threads may take from it

    def go_on() -> None:
        for part in parts:
            fill(part)

    other = _SECOND.submit(go_on) if rows >= _MANY_ROWS else None

    def finish() -> None:
        go_on()
        if other:
            other.result()

    return finish
