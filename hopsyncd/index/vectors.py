"""Stores the vectors of the live index in two parts: 8-bit codes, and the remainders from which the
exact vectors are computed.

Dot products of codes are computed several times as fast as dot products of exact vectors. They
differ by a known bound, so exact vectors are needed only where this difference matters.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import AnyIntegers, Int32s, Integers, expand_ranges
from store.records import GRID, Vectors

Codes = NDArray[np.int8]
Remainders = NDArray[np.uint8]
Grow = Callable[[str, NDArray[np.generic], int], NDArray[np.generic]]
"""Returns an array of the given number of rows or more, which begins with the old array."""

_FIRST_ROOM = 256  # the initial capacity of the vectors, in rows.
_ROWS_AT_ONCE = 1 << 8  # so that the rows of a step fit into a processor's cache.
_PAIRS_AT_ONCE = 1 << 11  # so that their distinct rows take little memory.
_CODES_AT_ONCE = 1 << 11  # the same for rows of 8-bit codes.
_ROWS_PER_PART, _MANY_ROWS = 1 << 13, 1 << 15  # rows per task; from 1 << 15 rows, two threads work
_HELPERS = ThreadPoolExecutor(2, "rows")
_MAX_CODE = 127
_WIDTH = 6.0  # Components larger than this multiple of a typical component are clipped.
_MAX_HALF_BYTE_STEP = 14.0  # Up to this step, a remainder fits into 4 bits, else into 8.
_HALF_BYTE, _BYTE = 8, 128  # Added to a remainder, so that it is not negative.
_ROUNDING = 1e-3  # More than the rounding error of the length of an error.
# The length of an error for each value of a byte. Without a clipped component, errors are below 95.
_ERRORS = np.concatenate(
    [np.arange(192) / 2, np.geomspace(96, 2 * GRID, 63), [1e9]], dtype=np.float32
)


def grow_in_memory(_name: str, old: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
    """Return a copy of an array with space for at least `rows` rows, and at least twice the old
    size."""
    room = max(rows, 2 * len(old), _FIRST_ROOM)
    grown = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
    grown[: len(old)] = old
    return grown


@dataclass(frozen=True, slots=True, eq=False)
class Outliers:
    """The components that codes and remainders cannot express: row of the vector (ascending),
    component, and exact value."""

    row: Int32s
    component: Int32s
    value: Int32s

    @classmethod
    def make_empty(cls) -> "Outliers":
        return cls(*(np.empty(0, dtype=np.int32) for _ in range(3)))

    def extend(self, new: "Outliers") -> "Outliers":
        return Outliers(
            np.concatenate([self.row, new.row]),
            np.concatenate([self.component, new.component]),
            np.concatenate([self.value, new.value]),
        )


class VectorTable:
    """Stores r vectors of d components as codes (int8) and remainders (4 or 8 bits). Rows are only
    appended.

    A component is the rounded product of its code and the step, plus its remainder. The few
    components that are too large are in `outliers`. A row of remainders starts with a byte for the
    length of the difference between the vector and its code.

    The first vector of each passage represents the whole passage. The codes of these first vectors
    are also stored in an array of their own. So a comparison with all passages reads only a
    fraction of the codes.
    """

    def __init__(self, dimensions: int, grow: Grow = grow_in_memory) -> None:
        self.dimensions = dimensions
        self.step = _WIDTH * GRID / (np.sqrt(dimensions) * _MAX_CODE)
        self.max_length = GRID + np.sqrt(dimensions) / 2  # of a rounded unit vector
        self._is_halved = self.step <= _MAX_HALF_BYTE_STEP
        self._half = (dimensions + 1) // 2
        self.widths = {
            "codes": dimensions,
            "remainders": 1 + (self._half if self._is_halved else dimensions),
            "passage_codes": dimensions,
        }
        self._grow = grow
        self._use_codes(np.empty((0, dimensions), dtype=np.int8))
        self._use_remainders(np.empty((0, self.widths["remainders"]), dtype=np.uint8))
        self._passage_codes: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int8)
        self._rows = self._passages = 0
        self.outliers = Outliers.make_empty()

    def __len__(self) -> int:
        return self._rows

    @property
    def remainders(self) -> Remainders:
        """The remainders: an array with a row of `widths["remainders"]` bytes for each of r
        vectors."""
        rows = self._rows
        return self._remainders[:rows]  # type: ignore[return-value]

    @property
    def codes(self) -> Codes:
        """The codes of all vectors: an (r, d) int8 array."""
        rows = self._rows
        return self._codes[:rows]  # type: ignore[return-value]

    @property
    def passage_codes(self) -> Codes:
        """The codes of whole passages: a (p, d) int8 array, with a row for each of p passage
        rows."""
        passages = self._passages
        return self._passage_codes[:passages]  # type: ignore[return-value]

    def append(self, vectors: Vectors, passage_starts: Sequence[int] = ()) -> int:
        """Append vectors, an (m, d) array. The vectors at the positions `passage_starts` represent
        whole passages. Returns the first new row."""
        start, end = self._rows, self._rows + len(vectors)
        if end > len(self._codes):
            self._use_codes(self._grow("codes", self._codes, end))
        if end > len(self._remainders):
            self._use_remainders(self._grow("remainders", self._remainders, end))
        passages = self._passages + len(passage_starts)
        if passages > len(self._passage_codes):
            self._passage_codes = self._grow("passage_codes", self._passage_codes, passages)
        codes = self._encode(vectors)
        self._codes[start:end] = codes
        self._remainders[start:end], outliers = self._split(vectors, codes, start)
        if len(outliers.row):
            self.outliers = self.outliers.extend(outliers)
        self._passage_codes[self._passages : passages] = codes[list(passage_starts)]
        self._rows, self._passages = end, passages
        return start

    def replace(
        self,
        codes: NDArray[np.generic],
        remainders: NDArray[np.generic],
        rows: int,
        passage_codes: NDArray[np.generic],
        passages: int,
        outliers: Outliers,
    ) -> None:
        """Use the first `rows` rows and `passages` passages of these arrays, which may have spare
        capacity."""
        self._use_codes(codes)
        self._use_remainders(remainders)
        self._rows, self.outliers = rows, outliers
        self._passage_codes, self._passages = passage_codes, passages

    def compute_cosines(self, vector: Vectors, rows: AnyIntegers) -> NDArray[np.float32]:
        """Return the approximate cosine of each of these rows with a vector on the grid.

        The cosine of two vectors is computed from their codes, which changes it by about 0.001. The
        result depends only on the two vectors.
        """
        cosines = np.empty(len(rows), dtype=np.float32)
        compute = self._make_cosine_filler(vector, cosines)
        for part in split_slices(len(rows), _CODES_AT_ONCE):
            compute(self.take_codes(rows[part]), part)
        return cosines

    def start_cosines(self, vector: Vectors, codes: Codes) -> Callable[[], NDArray[np.float32]]:
        """Start to compute the cosines of a vector with `codes`, which are `self.codes` or
        `self.passage_codes`. If there are many codes, another thread helps.

        The returned function waits for the result and returns it.
        """
        codes = np.asarray(codes)
        cosines = np.empty(len(codes), dtype=np.float32)
        compute = self._make_cosine_filler(vector, cosines)
        finish = start_filling(len(codes), lambda part: compute(codes[part], part))

        def get() -> NDArray[np.float32]:
            finish()
            return cosines

        return get

    def compare_with_all(self, vectors: Vectors, codes: Codes) -> NDArray[np.float32]:
        """Return an (m, n) array with the cosine of each of m vectors with each of n `codes`, as
        computed by `start_cosines`. The codes are read only once for all vectors."""
        codes = np.asarray(codes)
        cosines = np.empty((len(vectors), len(codes)), dtype=np.float32)
        packed = numkong.dots_pack(self._encode(vectors))

        def fill(part: slice) -> None:
            dots = np.asarray(numkong.dots_packed(codes[part], packed))
            np.multiply(dots.T.astype(np.float32), self._cosine_unit, out=cosines[:, part])

        start_filling(len(codes), fill)()
        return cosines

    @property
    def _cosine_unit(self) -> np.float32:
        return np.float32((self.step / GRID) ** 2)

    def _make_cosine_filler(
        self, vector: Vectors, cosines: NDArray[np.float32]
    ) -> Callable[[Codes, slice], None]:
        """Return a function that computes the cosines of `vector` with some codes, and writes them
        to a slice of `cosines`."""
        (code,), unit = self._encode(vector[None]), self._cosine_unit

        def fill(codes: Codes, part: slice) -> None:
            # Row by row: a product of matrices takes twice as long where one has a single row.
            repeated = np.ndarray(codes.shape, np.int8, code.data, strides=(0, 1))
            dots = numkong.dot(codes, repeated)
            np.multiply(np.asarray(dots).astype(np.float32), unit, out=cosines[part])

        return fill

    def multiply(self, rows: AnyIntegers, other_rows: AnyIntegers) -> NDArray[np.float32]:
        """Return the exact dot product of each pair of rows.

        Many pairs have a row in common, so the vector of each distinct row is decoded only once for
        up to `_PAIRS_AT_ONCE` pairs.
        """
        products = np.empty(len(rows), dtype=np.float32)
        for many in split_slices(len(rows), _PAIRS_AT_ONCE):
            (left, positions), (right, other_positions) = (
                self._take_distinct(rows[many]),
                self._take_distinct(other_rows[many]),
            )
            of_many = products[many]
            for part in split_slices(len(positions), _ROWS_AT_ONCE):
                pairs = left[positions[part]], right[other_positions[part]]
                np.einsum("ij,ij->i", *pairs, out=of_many[part])
        return products

    def _take_distinct(self, rows: AnyIntegers) -> tuple[NDArray[np.float32], Integers]:
        """Return the exact vectors of the distinct rows, and the position of each row in them."""
        distinct, positions = np.unique(rows, return_inverse=True)
        return self.take_floats(distinct), positions

    def multiply_codes(self, rows: AnyIntegers, other_rows: AnyIntegers) -> Int32s:
        """Return the dot product of the codes of each pair of rows."""
        products = np.empty(len(rows), dtype=np.int32)
        for part in split_slices(len(rows), _CODES_AT_ONCE):
            left, right = self.take_codes(rows[part]), self.take_codes(other_rows[part])
            products[part] = np.asarray(numkong.dot(left, right))
        return products

    def multiply_all_codes(self, rows: AnyIntegers, other_rows: AnyIntegers) -> NDArray[np.float32]:
        """Return an (m, n) array with the dot product of the codes of each of m rows with the codes
        of each of n other rows."""
        packed = numkong.dots_pack(self.take_codes(other_rows))
        dots = numkong.dots_packed(self.take_codes(rows), packed)
        return np.asarray(dots).astype(np.float32)

    def take_codes(self, rows: AnyIntegers) -> Codes:
        return self._code_items[rows].view(np.int8).reshape(-1, self.dimensions)

    def take_errors(self, rows: AnyIntegers) -> NDArray[np.float32]:
        """Return, for each of these rows, an upper bound of the length of the difference between
        the vector and the product of its code and the step."""
        errors: NDArray[np.float32] = _ERRORS[self._error_levels[rows]]
        return errors

    def take(self, rows: AnyIntegers) -> Vectors:
        """Return the exact vectors of these rows: an (m, d) int16 array on the grid."""
        return self.take_floats(rows).astype(np.int16)

    def take_floats(self, rows: AnyIntegers) -> NDArray[np.float32]:
        """Return the exact vectors of these rows as floats, one per row."""
        outliers = self.outliers  # read once, because a writer may replace it
        vectors = self._scale(self.take_codes(rows))
        width = self.widths["remainders"]
        packed = self._remainder_items[rows].view(np.uint8).reshape(-1, width)[:, 1:]
        if self._is_halved:
            half, remainders = self._half, np.empty(vectors.shape, dtype=np.uint8)
            np.bitwise_and(packed, 15, out=remainders[:, :half])
            np.right_shift(packed[:, : self.dimensions - half], 4, out=remainders[:, half:])
            packed = remainders
        vectors += packed.astype(np.float32)
        if len(outliers.row):
            starts, ends = outliers.row.searchsorted(rows), outliers.row.searchsorted(rows, "right")
            found, positions = expand_ranges(starts, ends)
            vectors[positions, outliers.component[found]] = outliers.value[found]
        return vectors

    def _use_codes(self, codes: NDArray[np.generic]) -> None:
        self._codes = codes
        # An item for each row: rows are gathered in half the time.
        self._code_items = np.asarray(codes).view(f"V{self.dimensions}").ravel()

    def _use_remainders(self, remainders: NDArray[np.generic]) -> None:
        self._remainders = remainders
        values = np.asarray(remainders)
        self._error_levels = values[:, 0]
        self._remainder_items = values.view(f"V{values.shape[1]}").ravel()

    def _scale(self, codes: Codes) -> NDArray[np.float32]:
        """Return the integers to which the remainders of these codes are added."""
        scaled: NDArray[np.float32] = np.multiply(codes, np.float32(self.step))
        scaled -= np.float32(_HALF_BYTE if self._is_halved else _BYTE)
        return np.rint(scaled, out=scaled)

    def _split(self, vectors: Vectors, codes: Codes, start: int) -> tuple[Remainders, Outliers]:
        """Return the remainders of vectors with these codes, and the outliers among their
        components. `start` is the row of the first vector."""
        remainders = vectors - self._scale(codes).astype(np.int32)
        most = 2 * (_HALF_BYTE if self._is_halved else _BYTE) - 1
        rows, components = np.nonzero((remainders < 0) | (remainders > most))
        outliers = Outliers(
            (start + rows).astype(np.int32),
            components.astype(np.int32),
            vectors[rows, components].astype(np.int32),
        )
        remainders[rows, components] = 0
        rounded = codes.astype(np.float64) * self.step
        errors = np.linalg.norm(vectors - rounded, axis=1) + _ROUNDING
        packed = np.empty((len(vectors), self.widths["remainders"]), dtype=np.uint8)
        packed[:, 0] = np.searchsorted(_ERRORS, errors)
        if self._is_halved:
            half = self._half
            packed[:, 1:] = remainders[:, :half]
            packed[:, 1 : 1 + self.dimensions - half] |= remainders[:, half:].astype(np.uint8) << 4
        else:
            packed[:, 1:] = remainders
        return packed, outliers

    def _encode(self, vectors: Vectors) -> Codes:
        codes = np.rint(vectors / np.float32(self.step))
        np.maximum(codes, -_MAX_CODE, out=codes)  # np.clip is slower for few values
        np.minimum(codes, _MAX_CODE, out=codes)
        return codes.astype(np.int8)


def split_slices(count: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` positions that cover `range(count)`.

    >>> [*split_slices(5, 3)]
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def start_filling(rows: int, fill: Callable[[slice], None]) -> Callable[[], None]:
    """Call `fill` for all parts of `rows` rows. If there are many rows, another thread, if one is
    free, does about half of the calls.

    The returned function makes the remaining calls and waits for the other thread. Call it once.
    """
    # an iterator over a list: two threads may take from it
    parts = iter([*split_slices(rows, _ROWS_PER_PART)])

    def fill_parts() -> None:
        for part in parts:
            fill(part)

    other = _HELPERS.submit(fill_parts) if rows >= _MANY_ROWS else None

    def finish() -> None:
        fill_parts()
        if other and not other.cancel():  # A part that is still queued has nothing left to do.
            other.result()

    return finish
