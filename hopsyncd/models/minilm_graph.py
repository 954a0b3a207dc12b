"""all-MiniLM-L6-v2 as an ONNX graph with weights of 8 bits, written from the published weights.

Weights are quantised per output channel when the graph is written, activations per text when it
runs. Everything else (attention, normalisation, pooling) stays float32.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_OPSET = 17
# 7 of the 8 bits: on processors without VNNI, ONNX Runtime's sums of two products of full bytes
# would saturate.
_LARGEST_WEIGHT = 63
_LARGEST_EMBEDDING = 127
_CONTRIB = "com.microsoft"  # ONNX Runtime's own operators


def minilm_graph(folder: Path) -> bytes:
    """The graph: from `tokens`, (1, n) int64, to `vector`, (d,) float32 of length 1.

    Raises OSError or ValueError where the weights are missing or damaged.
    """
    return _Graph(load_file(folder / "model.safetensors")).written()


class _Graph:
    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def written(self) -> bytes:
        hidden = self._embedded()
        for layer in range(_LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}", hidden)
        # The sum has the direction of the mean.
        summed = self._node("ReduceSum", [hidden, self._constant("rows", [0, 1])], keepdims=0)
        self._nodes.append(helper.make_node("LpNormalization", [summed], ["vector"], axis=0, p=2))
        dimensions = len(self._weights["embeddings.LayerNorm.bias"])
        graph = helper.make_graph(
            self._nodes,
            "minilm",
            [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "n"])],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [dimensions])],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        written: bytes = model.SerializeToString()
        return written

    def _embedded(self) -> str:
        table = self._weights["embeddings.word_embeddings.weight"]
        scales = np.abs(table).max(axis=1, keepdims=True) / _LARGEST_EMBEDDING
        scales[scales == 0] = 1
        rows = self._constant("words", np.rint(table / scales).astype(np.int8))
        words = self._node("Cast", [self._node("Gather", [rows, "tokens"])], to=TensorProto.FLOAT)
        scale = self._node("Gather", [self._constant("words.scale", scales), "tokens"])
        exact = self._node("Mul", [words, scale])
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        places = self._weights["embeddings.position_embeddings.weight"] + kind
        length = self._node("Shape", ["tokens"], start=1)
        zero = self._constant("zero", [0])
        position = self._node("Slice", [self._constant("places", places), zero, length, zero])
        return self._normed("embeddings", self._node("Add", [exact, position]))

    def _layer(self, name: str, hidden: str) -> str:
        attention = f"{name}.attention"
        parts = [f"{attention}.self.{part}" for part in ("query", "key", "value")]
        joined = self._dense(parts, self._quantised(hidden))
        queries, keys, values = self._nodes_of("Split", [joined], 3, axis=2)
        heads = self._node(
            "MultiHeadAttention", [queries, keys, values], domain=_CONTRIB, num_heads=_HEADS
        )
        attended = self._dense([f"{attention}.output.dense"], self._quantised(heads))
        hidden = self._normed(f"{attention}.output", self._node("Add", [attended, hidden]))
        wide = self._dense([f"{name}.intermediate.dense"], self._quantised(hidden))
        wide = self._node("Gelu", [wide], domain=_CONTRIB)
        narrow = self._dense([f"{name}.output.dense"], self._quantised(wide))
        return self._normed(f"{name}.output", self._node("Add", [narrow, hidden]))

    def _quantised(self, hidden: str) -> list[str]:
        """The activations as bytes, their scale and their zero."""
        return self._nodes_of("DynamicQuantizeLinear", [hidden], 3)

    def _dense(self, names: list[str], quantised: list[str]) -> str:
        """One matrix product for the named layers, their outputs side by side."""
        weight = np.concatenate([self._weights[f"{name}.weight"] for name in names]).T
        bias = np.concatenate([self._weights[f"{name}.bias"] for name in names])
        scale = np.abs(weight).max(axis=0) / _LARGEST_WEIGHT
        scale[scale == 0] = 1
        whole = self._constant(f"{names[0]}.weight", np.rint(weight / scale).astype(np.int8))
        activation, activation_scale, zero = quantised
        return self._node(
            "MatMulIntegerToFloat",
            [
                activation,
                whole,
                activation_scale,
                self._constant(f"{names[0]}.scale", scale),
                zero,
                "",
                self._constant(f"{names[0]}.bias", bias),
            ],
            domain=_CONTRIB,
        )

    def _normed(self, name: str, hidden: str) -> str:
        weight, bias = (
            self._constant(f"{name}.norm.{part}", self._weights[f"{name}.LayerNorm.{part}"])
            for part in ("weight", "bias")
        )
        return self._node("LayerNormalization", [hidden, weight, bias], axis=-1, epsilon=_EPSILON)

    def _constant(self, name: str, value: NDArray[np.generic] | list[int]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _node(self, kind: str, given: list[str], domain: str = "", **options: Any) -> str:
        return self._nodes_of(kind, given, 1, domain, **options)[0]

    def _nodes_of(
        self, kind: str, given: list[str], outputs: int, domain: str = "", **options: Any
    ) -> list[str]:
        """Add a node; returns the names of its outputs."""
        names = [f"{kind}.{len(self._nodes)}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, given, names, domain=domain, **options))
        return names
