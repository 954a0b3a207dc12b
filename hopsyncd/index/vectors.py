"""Stores the vectors of the live index twice: exactly, as integers on a grid, and rounded to 8-bit
codes.

Dot products of codes are computed several times as fast as dot products of exact vectors.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numkong
import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import AnyIntegers
from store.records import GRID, Vectors

Codes = NDArray[np.int8]
Grow = Callable[[str, NDArray[np.generic], int], NDArray[np.generic]]
"""Returns an array of the given number of rows or more, which begins with the old array."""

_FIRST_ROOM = 256  # the initial capacity of the vectors, in rows.
_ROWS_AT_ONCE = 1 << 8  # so that the rows of a step fit into a processor's cache.
_CODES_AT_ONCE = 1 << 11  # the same for rows of 8-bit codes.
_ROWS_PER_PART, _MANY_ROWS = 1 << 13, 1 << 15  # rows per task; from 1 << 15 rows, two threads work
_SECOND_THREAD = ThreadPoolExecutor(2, "rows")
_MAX_CODE = 127
_WIDTH = 6.0  # Components larger than this multiple of a typical component are clipped.


def grow_in_memory(_name: str, old: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
    """Return a copy of an array with space for at least `rows` rows, and at least twice the old
    size."""
    room = max(rows, 2 * len(old), _FIRST_ROOM)
    grown = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
    grown[: len(old)] = old
    return grown


class VectorTable:
    """Stores r vectors of d components, exactly (int16) and as codes (int8). Rows are only
    appended.

    The first vector of each passage represents the whole passage. The codes of these first vectors
    are also stored in an array of their own. So a comparison with all passages reads only a
    fraction of the codes.
    """

    def __init__(self, dimensions: int, grow: Grow = grow_in_memory) -> None:
        self.dimensions = dimensions
        self.step = _WIDTH * GRID / (np.sqrt(dimensions) * _MAX_CODE)
        self._grow = grow
        self._use_exact(np.empty((0, dimensions), dtype=np.int16))
        self._codes: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int8)
        self._passage_codes: NDArray[np.generic] = np.empty((0, dimensions), dtype=np.int8)
        self._rows = self._passages = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def unit(self) -> np.float32:
        """The factor that converts the dot product of two codes to the approximate dot product of
        the vectors."""
        return np.float32(self.step**2)

    @property
    def exact(self) -> Vectors:
        """The exact vectors: an (r, d) int16 array on the grid, with a row for each of r
        vectors."""
        rows = self._rows
        return self._exact[:rows]  # type: ignore[return-value]

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
        if end > len(self._exact):
            self._use_exact(self._grow("exact", self._exact, end))
        if end > len(self._codes):
            self._codes = self._grow("codes", self._codes, end)
        passages = self._passages + len(passage_starts)
        if passages > len(self._passage_codes):
            self._passage_codes = self._grow("passage_codes", self._passage_codes, passages)
        codes = self._encode(vectors)
        self._exact[start:end] = vectors
        self._codes[start:end] = codes
        self._passage_codes[self._passages : passages] = codes[list(passage_starts)]
        self._rows, self._passages = end, passages
        return start

    def replace(
        self,
        exact: NDArray[np.generic],
        codes: NDArray[np.generic],
        rows: int,
        passage_codes: NDArray[np.generic],
        passages: int,
    ) -> None:
        """Use the first `rows` rows and `passages` passages of these arrays, which may have spare
        capacity."""
        self._use_exact(exact)
        self._codes, self._rows = codes, rows
        self._passage_codes, self._passages = passage_codes, passages

    def compute_cosines(self, vector: Vectors, rows: AnyIntegers) -> NDArray[np.float32]:
        """Return the approximate cosine of each of these rows with a vector on the grid.

        The cosine of two vectors is computed from their codes, which changes it by about 0.001. The
        result depends only on the two vectors.
        """
        cosines = np.empty(len(rows), dtype=np.float32)
        codes = np.asarray(self.codes)
        row_items = codes.view(f"V{self.dimensions}").ravel()  # gathers rows in half the time
        compute = self._cosine_filler(vector, cosines)
        for part in split_slices(len(rows), _CODES_AT_ONCE):
            compute(row_items[rows[part]].view(np.int8).reshape(-1, self.dimensions), part)
        return cosines

    def start_cosines(self, vector: Vectors, codes: Codes) -> Callable[[], NDArray[np.float32]]:
        """Start to compute the cosines of a vector with `codes`, which are `self.codes` or
        `self.passage_codes`. If there are many codes, another thread helps.

        The returned function waits for the result and returns it.
        """
        codes = np.asarray(codes)
        cosines = np.empty(len(codes), dtype=np.float32)
        compute = self._cosine_filler(vector, cosines)
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

    def _cosine_filler(
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
        """Return the exact dot product of each pair of rows."""
        products = np.empty(len(rows), dtype=np.float32)
        for part in split_slices(len(rows), _ROWS_AT_ONCE):
            left, right = self.take_floats(rows[part]), self.take_floats(other_rows[part])
            np.einsum("ij,ij->i", left, right, out=products[part])
        return products

    def take_floats(self, rows: AnyIntegers) -> NDArray[np.float32]:
        """Return the exact vectors of these rows as floats, one per row."""
        vectors = self._exact_items[rows].view(np.int16).reshape(-1, self.dimensions)
        return vectors.astype(np.float32)

    def _use_exact(self, exact: NDArray[np.generic]) -> None:
        self._exact = exact
        # An item for each row: rows are gathered in half the time.
        self._exact_items = np.asarray(exact).view(f"V{2 * self.dimensions}").ravel()

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
    """Call `fill` for all parts of `rows` rows. If there are many rows, another thread starts at
    once and does about half of the calls.

    The returned function makes the remaining calls and waits for the other thread. Call it once.
    """
    # an iterator over a list: two threads may take from it
    parts = iter([*split_slices(rows, _ROWS_PER_PART)])

    def fill_parts() -> None:
        for part in parts:
            fill(part)

    other = _SECOND_THREAD.submit(fill_parts) if rows >= _MANY_ROWS else None

    def finish() -> None:
        fill_parts()
        if other:
            other.result()

    return finish
