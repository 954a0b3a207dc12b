"""Bounds of products of vectors, by the products of their codes.

Exact products of many codes with many others are computed in ONNX Runtime. It takes half the time
of numkong, which multiplies where ONNX Runtime is absent or rounds: without instructions for it,
some processors add two products of bytes in 16 bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numkong
import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import AnyIntegers, find_sorted
from hopsyncd.index.vectors import MAX_LENGTH, Codes, VectorTable, start_filling
from store.records import GRID

MAX_FLOAT_ERROR = np.float32(1e-3 * GRID * GRID)  # of a bound or a squared length
FAR = 2.0**30  # more than any product of codes
_MANY_PAIRS = 1 << 32  # the pairs of a large batch among ten thousand passages
_FEW_VECTORS, _MAX_BOUNDS = 1 << 6, 1 << 24  # vectors that are multiplied with all others; pairs
_MANY_ROWS = 1 << 12  # too many to be of so few vectors

# A model with opset 17, as onnx.helper writes it: c = MatMulInteger(a, b, 128), where a is uint8
# (m, k), b int8 (k, n), and c int32 (m, n).
MODEL = (
    b"\x08\x08:p\n\x1b\n\x01a\n\x01b\n\x01z\x12\x01c"
    b'"\rMatMulInteger\x12\x01g*\t\x10\x02*\x02\x80\x01B\x01z'
    b"Z\x15\n\x01a\x12\x10\n\x0e\x08\x02\x12\n\n\x03\x12\x01m\n\x03\x12\x01k"
    b"Z\x15\n\x01b\x12\x10\n\x0e\x08\x03\x12\n\n\x03\x12\x01k\n\x03\x12\x01n"
    b"b\x15\n\x01c\x12\x10\n\x0e\x08\x06\x12\n\n\x03\x12\x01m\n\x03\x12\x01nB\x04\n\x00\x10\x11"
)


class PackedCodes:
    """(n, d) codes to be multiplied with many others: in a session, or by numkong without one."""

    def __init__(self, codes: Codes, session: Any = None) -> None:
        self._session = session
        self._packed: Any = codes.T.copy() if session is not None else numkong.dots_pack(codes)

    def multiply(self, codes: Codes) -> NDArray[np.int32]:
        """(m, n) the products of (m, d) codes with these."""
        if self._session is not None:
            return _multiply(self._session, codes, self._packed)
        return np.asarray(numkong.dots_packed(codes, self._packed))


def _multiply(session: Any, codes: Codes, transposed: Codes) -> NDArray[np.int32]:
    shifted = (codes ^ np.int8(-128)).view(np.uint8)  # each component plus 128
    products: NDArray[np.int32] = session.run(None, {"a": shifted, "b": transposed})[0]
    return products


def get_session(pairs: int) -> Any:
    """The session for a number of pairs. None means that numkong multiplies them, because the pairs
    are few or ONNX Runtime is missing."""
    return _make_session() if pairs >= _MANY_PAIRS else None


@cache
def _make_session() -> Any:
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the caller's
    session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
    largest = np.full((8, 256), 127, dtype=np.int8)
    is_exact = _multiply(session, largest, largest.T.copy()) == 256 * 127 * 127
    return session if is_exact.all() else None


@dataclass(frozen=True, slots=True, eq=False)
class CodeBounds:
    """Bounds of products of vectors, by their codes.

    errors: (r,) no less than the length of what each code leaves out. columns: the rows of a few
    vectors, rising; products: (c, r) the products of their codes with all codes, or None if there
    are too many.
    """

    vectors: VectorTable
    errors: NDArray[np.float32]
    columns: AnyIntegers
    products: NDArray[np.float32] | None

    @classmethod
    def compute(cls, vectors: VectorTable, rows: AnyIntegers) -> Self:
        """Compute bounds for products of all vectors with the vectors of these rows."""
        errors = vectors.code_errors()
        count = len(errors)
        if not 0 < len(rows) <= _MANY_ROWS:
            return cls(vectors, errors, rows, None)
        columns = np.unique(rows)
        if len(columns) > min(_FEW_VECTORS, _MAX_BOUNDS // count):
            return cls(vectors, errors, columns, None)
        codes = np.asarray(vectors.codes)
        packed = numkong.dots_pack(codes[columns])
        products = np.empty((len(columns), count), dtype=np.float32)
        unit = vectors.unit

        def fill(part: slice) -> None:
            dots = numkong.dots_packed(codes[part], packed)
            np.multiply(np.asarray(dots).T.astype(np.float32), unit, out=products[:, part])

        start_filling(count, fill)()
        return cls(vectors, errors, columns, products)

    def pack(self, columns: AnyIntegers) -> PackedCodes:
        """The codes of some rows, to be multiplied with others."""
        codes = np.asarray(self.vectors.codes)[columns]
        return PackedCodes(codes, get_session(len(self.columns) * len(self.errors)))

    def multiply_with(self, columns: AnyIntegers) -> Callable[[AnyIntegers], NDArray[np.int32]]:
        """Return a function from m rows to the (m, n) dot products of their codes with `columns`.

        If `self.products` is set, all rows or all columns must be in `self.columns`.
        """
        if self.products is None:
            codes, packed = np.asarray(self.vectors.codes), self.pack(columns)
            return lambda rows: packed.multiply(codes[rows])
        known, unit = self.products, self.vectors.unit
        positions, are_known = find_sorted(self.columns, columns)

        def multiply(rows: AnyIntegers) -> NDArray[np.int32]:
            if are_known.all():
                products = known[positions, rows[:, None]]
            else:
                products = known[np.searchsorted(self.columns, rows)[:, None], columns]
            codes: NDArray[np.int32] = np.rint(products / unit).astype(np.int32)
            return codes

        return multiply


def to_code_products(products: NDArray[np.float32], unit: np.float32) -> NDArray[np.int32]:
    """Lower bounds of these products in units of code products, clipped to their range."""
    rounded: NDArray[np.int32] = np.floor(np.clip(products / unit, -FAR, FAR)).astype(np.int32)
    return rounded


def bound_errors(
    left: NDArray[np.float32] | np.float32, right: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The largest difference between a product and its code product, from both code errors."""
    longest = np.float32(MAX_LENGTH)
    errors: NDArray[np.float32] = left * (longest + right) + (longest * right + MAX_FLOAT_ERROR)
    return errors
