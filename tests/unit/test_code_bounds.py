"""Products of codes are exact, with ONNX Runtime and with numkong."""

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from hopsyncd.index.code_bounds import MODEL, PackedCodes, get_session
from hopsyncd.index.vectors import Codes


def exact(left: Codes, right: Codes) -> NDArray[np.int64]:
    return left.astype(np.int64) @ right.astype(np.int64).T


@pytest.mark.parametrize("rows", [1, 7, 600])
@pytest.mark.parametrize("others", [1, 33, 1024])
@pytest.mark.parametrize("dimensions", [3, 384])
def test_products_are_exact(rows: int, others: int, dimensions: int) -> None:
    chance = np.random.default_rng(rows + others)
    left, right = (
        chance.integers(-127, 128, (count, dimensions)).astype(np.int8) for count in (rows, others)
    )
    for packed in (PackedCodes(right, get_session(1 << 40)), PackedCodes(right)):
        found = packed.multiply(left)
        assert found.dtype == np.int32 and found.flags.writeable and found.flags.c_contiguous
        assert (found == exact(left, right)).all()


def test_products_of_the_largest_codes_are_exact() -> None:
    signs = np.where(np.arange(12)[:, None] & (1 << np.arange(384) % 4), 127, -127).astype(np.int8)
    for packed in (PackedCodes(signs, get_session(1 << 40)), PackedCodes(signs)):
        assert (packed.multiply(signs) == exact(signs, signs)).all()


def test_the_model_equals_what_onnx_writes() -> None:
    multiply = helper.make_node("MatMulInteger", ["a", "b", "z"], ["c"])
    given = [
        helper.make_tensor_value_info("a", TensorProto.UINT8, ["m", "k"]),
        helper.make_tensor_value_info("b", TensorProto.INT8, ["k", "n"]),
    ]
    made = helper.make_tensor_value_info("c", TensorProto.INT32, ["m", "n"])
    zero = helper.make_tensor("z", TensorProto.UINT8, [], [128])
    graph = helper.make_graph([multiply], "g", given, [made], [zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert onnx.load_from_string(MODEL) == model
