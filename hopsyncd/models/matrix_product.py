"""Computes the matrix products of spaCy's networks with ONNX Runtime.

spaCy's own library, BLIS, has fast kernels for the processors that it knows. On a newer processor
it uses its slowest kernel, and finding names takes twice as long. As with BLIS, a row of a product
does not depend on the other rows, so the names in a text do not depend on other texts. numpy's
products lack this property.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from thinc.api import Model, NumpyOps

from hopsyncd.models.encoder import create_session

Matrix = NDArray[np.float32]

_OPSET, _IR_VERSION = 17, 8
_LARGE = 10_000  # With fewer weights, calling a session takes longer than it saves.


class OnnxOps(NumpyOps):  # type: ignore[misc]  # thinc does not say what it is
    """The operations of thinc, with products of large weight matrices in ONNX Runtime.

    Which library multiplies depends only on the weights, because the two libraries differ in the
    last bits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[tuple[int, tuple[int, ...]], tuple[Any, Matrix]] = {}

    def gemm(
        self,
        x: Matrix,
        y: Matrix,
        *,
        out: Matrix | None = None,
        trans1: bool = False,
        trans2: bool = False,
    ) -> Matrix:
        is_of_weights = trans2 and not trans1 and y.size >= _LARGE
        if not is_of_weights or not len(x) or not (out is None or out.flags.c_contiguous):
            product: Matrix = super().gemm(x, y, out=out, trans1=trans1, trans2=trans2)
            return product
        rows = np.ascontiguousarray(x, dtype=np.float32)
        result = np.empty((len(x), len(y)), dtype=np.float32) if out is None else out
        session = self._get_session(y)
        binding = session.io_binding()
        for bind, name, array in (
            (binding.bind_input, "given", rows),
            (binding.bind_output, "made", result),
        ):
            bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        session.run_with_iobinding(binding)
        return result

    def _get_session(self, weights: Matrix) -> Any:
        """Create a session that multiplies by these weights. The weights are not copied."""
        key = weights.ctypes.data, weights.shape
        if key not in self._sessions:
            self._sessions[key] = create_session(_build_model(weights)), weights
        return self._sessions[key][0]


def use_onnxruntime(nlp: Any) -> None:
    """Make the networks of a spaCy model compute their products in ONNX Runtime."""
    ops = OnnxOps()
    for _, component in nlp.pipeline:
        model = getattr(component, "model", None)
        for node in model.walk() if isinstance(model, Model) else ():
            if type(node.ops) is NumpyOps:
                node.ops = ops


def _build_model(weights: Matrix) -> bytes:
    """Build the ONNX graph whose output `made` is its input `given` times the transposed
    weights.
    """
    outputs, inputs = weights.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["given", "weights"], ["made"])],
        "product",
        [helper.make_tensor_value_info("given", TensorProto.FLOAT, ["n", inputs])],
        [helper.make_tensor_value_info("made", TensorProto.FLOAT, ["n", outputs])],
        [numpy_helper.from_array(np.ascontiguousarray(weights.T), "weights")],
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    written: bytes = model.SerializeToString()
    return written
