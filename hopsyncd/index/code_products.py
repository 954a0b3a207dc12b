"""Exact products of many codes with many others, in ONNX Runtime.

It takes half the time of numkong, which multiplies where ONNX Runtime is absent or rounds: without
instructions for it, some processors add two products of bytes in 16 bits.
"""

from functools import cache
from typing import Any

import numkong
import numpy as np
from numpy.typing import NDArray

_MANY = 1 << 32  # pairs: those of a large batch among ten thousand passages

Codes = NDArray[np.int8]

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
    """(n, d) codes, to be multiplied with many others in a session; without one, by numkong."""

    def __init__(self, codes: Codes, session: Any = None) -> None:
        self._session = session
        self._packed: Any = codes.T.copy() if session is not None else numkong.dots_pack(codes)

    def products(self, codes: Codes) -> NDArray[np.int32]:
        """(m, n) those of (m, d) codes with these."""
        if self._session is not None:
            return _multiplied(self._session, codes, self._packed)
        return np.asarray(numkong.dots_packed(codes, self._packed))


def _multiplied(session: Any, codes: Codes, transposed: Codes) -> NDArray[np.int32]:
    above = (codes ^ np.int8(-128)).view(np.uint8)  # each component and 128
    products: NDArray[np.int32] = session.run(None, {"a": above, "b": transposed})[0]
    return products


def session_for(pairs: int) -> Any:
    """What multiplies so many; None where numkong does, as they are not worth the memory or ONNX
    Runtime cannot."""
    return _session() if pairs >= _MANY else None


@cache
def _session() -> Any:
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the caller's
    session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
    largest = np.full((8, 256), 127, dtype=np.int8)
    exact = _multiplied(session, largest, largest.T.copy()) == 256 * 127 * 127
    return session if exact.all() else None
