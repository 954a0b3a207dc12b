"""Writes the weights of an ONNX graph in 8 bits, and the graph that pools token vectors.

Each block of a column of a weight matrix has its own scale, and so has each row of an embedding
table. ONNX Runtime then quantises activations by block and row instead of by call, so the vector of
a text does not depend on other texts in the same call.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

BLOCK = 128  # the weights that share a scale. It must divide the rows of a matrix.
_ACTIVATIONS_IN_8_BITS = 4  # the value of the operator's `accuracy_level`
_CONTRIB = "com.microsoft"  # the domain of ONNX Runtime's own operators
_OPSET, _IR_VERSION = 17, 8
_LARGEST = 127
_FEWEST_ROWS = 1024  # A smaller embedding table saves too little to be quantised.
_MAX_INLINE_BYTES = 1 << 30  # A larger graph keeps its weights in a second file beside it.


def quantise(model: ModelProto) -> None:
    """Quantise the weights of matrix products and embedding tables to 8 bits, in place."""
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    added: dict[str, TensorProto] = {}
    for node in graph.node:
        matrix = _find_weights(node, weights)
        if node.op_type == "MatMul" and matrix is not None and matrix.shape[0] % BLOCK == 0:
            nodes.append(_quantise_in_blocks(node, matrix, added))
        elif (
            node.op_type == "Gather"
            and matrix is not None
            and not any(part.name == "axis" and part.i for part in node.attribute)
            and len(matrix) >= _FEWEST_ROWS
        ):
            nodes.extend(_quantise_by_row(node, matrix, added))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in graph.node for name in node.input}
    used_tensors = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend([*used_tensors, *added.values()])
    if all(opset.domain != _CONTRIB for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid(_CONTRIB, 1))


def _find_weights(
    node: NodeProto, weights: Mapping[str, TensorProto]
) -> NDArray[np.float32] | None:
    """Return the constant float matrix that the node uses, or None if the node uses no such
    matrix."""
    name = {"MatMul": 1, "Gather": 0}.get(node.op_type)
    tensor = weights.get(node.input[name]) if name is not None else None
    if tensor is None or len(tensor.dims) != 2 or tensor.data_type != TensorProto.FLOAT:
        return None
    return numpy_helper.to_array(tensor)


def _quantise_in_blocks(
    node: NodeProto, matrix: NDArray[np.float32], added: dict[str, TensorProto]
) -> NodeProto:
    name = node.input[1]
    rows, columns = matrix.shape
    blocks = matrix.T.reshape(columns, rows // BLOCK, BLOCK)
    scales = _compute_scales(blocks, axis=2)
    whole = np.rint(blocks / scales) + (_LARGEST + 1)  # The operator represents zero by 128.
    _add(added, f"{name}.int8", whole.astype(np.uint8))
    _add(added, f"{name}.scale", scales.reshape(-1))
    return helper.make_node(
        "MatMulNBits",
        [node.input[0], f"{name}.int8", f"{name}.scale"],
        list(node.output),
        node.name,
        domain=_CONTRIB,
        K=rows,
        N=columns,
        bits=8,
        block_size=BLOCK,
        accuracy_level=_ACTIVATIONS_IN_8_BITS,
    )


def _quantise_by_row(
    node: NodeProto, table: NDArray[np.float32], added: dict[str, TensorProto]
) -> list[NodeProto]:
    name, rows = node.input
    output = node.output[0]
    scales = _compute_scales(table, axis=1)
    _add(added, f"{name}.int8", np.rint(table / scales).astype(np.int8))
    _add(added, f"{name}.scale", scales)
    parts = [f"{output}.{part}" for part in ("int8", "float", "scale")]
    return [
        helper.make_node("Gather", [f"{name}.int8", rows], parts[:1], axis=0),
        helper.make_node("Cast", parts[:1], parts[1:2], to=TensorProto.FLOAT),
        helper.make_node("Gather", [f"{name}.scale", rows], parts[2:], axis=0),
        helper.make_node("Mul", parts[1:], [output]),
    ]


def _compute_scales(values: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    scales: NDArray[np.float32] = np.abs(values).max(axis=axis, keepdims=True) / _LARGEST
    scales[scales == 0] = 1
    return scales.astype(np.float32)


def _add(added: dict[str, TensorProto], name: str, values: NDArray[Any]) -> None:
    added[name] = numpy_helper.from_array(values, name)


def write_model(model: ModelProto, file: Path) -> None:
    """Write a graph. A large graph's weights go into a second file beside it."""
    import onnx

    large = model.ByteSize() > _MAX_INLINE_BYTES
    onnx.save(model, file, save_as_external_data=large, location=f"{file.name}.data")


def build_pooling_graph(mode: str, dimensions: int, *, normalise: bool) -> ModelProto:
    """Build the graph that pools `states`, the (1, n, d) vectors of n tokens, to `vector`, (1, d).

    `mode` is "mean" or "cls", and `dimensions` is d. If `normalise`, the result has length 1.
    """
    if mode == "mean":
        nodes = [helper.make_node("ReduceMean", ["states"], ["pooled"], axes=[1], keepdims=0)]
        constants = []
    else:
        nodes = [helper.make_node("Gather", ["states", "first"], ["pooled"], axis=1)]
        constants = [numpy_helper.from_array(np.array(0, np.int64), "first")]
    last = "LpNormalization" if normalise else "Identity"
    settings: dict[str, Any] = {"axis": 1, "p": 2} if normalise else {}
    nodes.append(helper.make_node(last, ["pooled"], ["vector"], **settings))
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "pooling",
        [tensor("states", TensorProto.FLOAT, [1, "n", dimensions])],
        [tensor("vector", TensorProto.FLOAT, [1, dimensions])],
        constants,
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
