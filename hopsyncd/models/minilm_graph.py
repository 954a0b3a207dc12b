"""Writes all-MiniLM-L6-v2 as an ONNX graph with weights of 8 bits.

The package build runs this module, so it imports no other module of hopsyncd. Weights are quantised
when the graph is written, with one scale per output channel. Activations are quantised when the
graph runs, with one scale per text, or per token after the activation function. Attention,
normalisation and pooling stay float32.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The weights of all-MiniLM-L6-v2 as published.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# The version of the graph and its quantisation. A change that can alter vectors changes it.
GRAPH = "int8-2"
# An installed hopsyncd has the graph, its SHA-256 and the tokenizer's files in this folder.
FOLDER = Path(__file__).with_name("weights")
MODEL_FILE = f"minilm-{WEIGHTS_SHA256[:16]}-{GRAPH}.model"
VOCABULARY_FILES = ("tokenizer.json", "vocab.txt")
_DIMENSIONS = 384
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_OPSET = 17
_FLOAT = 1  # the number of the type float32 in ONNX
_LARGEST = 127
# Outlier components of the normalised states, with the factor by which each is scaled down before
# quantisation. The weights are scaled up by the same factor.
_OUTLIERS = {99: 6, 157: 3, 223: 4, 63: 3, 338: 2.5, 94: 2, 112: 2, 127: 2, 267: 2, 303: 2, 363: 2}
# The depth of GELU's dip. The scale of a token is computed as if its largest activation were at
# least this.
_LEAST_LARGEST = 0.2
_CONTRIB = "com.microsoft"  # the domain of ONNX Runtime's own operators


def build_graph(folder: Path) -> bytes:
    """Build the graph from `tokens`, the n tokens of a text as (1, n) int64, to `vector`, (d,)
    float32 of length 1.

    Raises OSError or ValueError if the weights are missing or damaged.
    """
    from safetensors.numpy import load_file

    return _Graph(load_file(folder / "model.safetensors")).serialize()


class _Graph:
    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def serialize(self) -> bytes:
        from onnx import TensorProto, helper

        hidden = self._embed()
        for layer in range(_LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}", hidden)
        # The sum has the same direction as the mean.
        summed = self._add_node(
            "ReduceSum", [hidden, self._add_constant("rows", [0, 1])], keepdims=0
        )
        self._nodes.append(helper.make_node("LpNormalization", [summed], ["vector"], axis=0, p=2))
        graph = helper.make_graph(
            self._nodes,
            "minilm",
            [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "n"])],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [_DIMENSIONS])],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        data: bytes = model.SerializeToString()
        return data

    def _embed(self) -> str:
        table = self._weights["embeddings.word_embeddings.weight"]
        scales = np.abs(table).max(axis=1, keepdims=True) / _LARGEST
        scales[scales == 0] = 1
        rows = self._add_constant("words", np.rint(table / scales).astype(np.int8))
        words = self._add_node("Cast", [self._add_node("Gather", [rows, "tokens"])], to=_FLOAT)
        scale = self._add_node("Gather", [self._add_constant("words.scale", scales), "tokens"])
        exact = self._add_node("Mul", [words, scale])
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        places = self._weights["embeddings.position_embeddings.weight"] + kind
        length = self._add_node("Shape", ["tokens"], start=1)
        zero = self._add_constant("zero", [0])
        position = self._add_node(
            "Slice", [self._add_constant("places", places), zero, length, zero]
        )
        return self._layer_norm("embeddings", self._add_node("Add", [exact, position]))

    def _layer(self, name: str, hidden: str) -> str:
        attention = f"{name}.attention"
        parts = [f"{attention}.self.{part}" for part in ("query", "key", "value")]
        joined = self._dense_after_norm(parts, hidden)
        queries, keys, values = self._add_node_outputs("Split", [joined], 3, axis=2)
        heads = self._add_node(
            "MultiHeadAttention", [queries, keys, values], domain=_CONTRIB, num_heads=_HEADS
        )
        attended = self._dense([f"{attention}.output.dense"], heads)
        hidden = self._layer_norm(f"{attention}.output", self._add_node("Add", [attended, hidden]))
        wide = self._dense_after_norm([f"{name}.intermediate.dense"], hidden)
        wide = self._add_node("Gelu", [wide], domain=_CONTRIB)
        narrow = self._dense_by_token(f"{name}.output.dense", wide)
        return self._layer_norm(f"{name}.output", self._add_node("Add", [narrow, hidden]))

    def _dense_after_norm(self, names: list[str], hidden: str) -> str:
        """Add a product like `_dense` for a normalised state, whose outlier components are scaled
        down."""
        even = self._add_node(
            "Mul", [hidden, self._share_constant("even", np.reciprocal(_compute_outlier_scales()))]
        )
        return self._dense(names, even, _compute_outlier_scales())

    def _dense_by_token(self, name: str, hidden: str) -> str:
        """Add a product like `_dense`, for activations.

        Each token has its own scale, because the largest values of different tokens differ widely.
        """
        largest = self._add_node("ReduceMax", [hidden], axes=[-1], keepdims=1)
        largest = self._add_node(
            "Max", [largest, self._share_constant("least", np.full(1, _LEAST_LARGEST, np.float32))]
        )
        product = self._dense([name], self._add_node("Div", [hidden, largest]), with_bias=False)
        bias = self._add_constant(f"{name}.bias", self._weights[f"{name}.bias"])
        return self._add_node("Add", [self._add_node("Mul", [product, largest]), bias])

    def _dense(
        self,
        names: list[str],
        hidden: str,
        outlier_scales: NDArray[np.float32] | float = 1.0,
        *,
        with_bias: bool = True,
    ) -> str:
        """Add a matrix product of `hidden` and the weights of the named layers, with their outputs
        side by side. Returns the name of the product."""
        weight = (
            np.concatenate([self._weights[f"{name}.weight"] for name in names]) * outlier_scales
        )
        scale = np.abs(weight).max(axis=1) / _LARGEST
        scale[scale == 0] = 1
        whole = np.rint(weight.T / scale).astype(np.int8)
        activation, activation_scale, zero = self._add_node_outputs(
            "DynamicQuantizeLinear", [hidden], 3
        )
        inputs = [
            activation,
            self._add_constant(f"{names[0]}.weight", whole),
            activation_scale,
            self._add_constant(f"{names[0]}.scale", scale),
            zero,
        ]
        if with_bias:
            bias = np.concatenate([self._weights[f"{name}.bias"] for name in names])
            inputs += ["", self._add_constant(f"{names[0]}.bias", bias)]
        return self._add_node("MatMulIntegerToFloat", inputs, domain=_CONTRIB)

    def _layer_norm(self, name: str, hidden: str) -> str:
        weight, bias = (
            self._add_constant(f"{name}.norm.{part}", self._weights[f"{name}.LayerNorm.{part}"])
            for part in ("weight", "bias")
        )
        return self._add_node(
            "LayerNormalization", [hidden, weight, bias], axis=-1, epsilon=_EPSILON
        )

    def _add_constant(self, name: str, value: NDArray[np.generic] | list[int]) -> str:
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _share_constant(self, name: str, value: NDArray[np.float32]) -> str:
        """Add a constant that several layers share."""
        is_present = any(constant.name == name for constant in self._constants)
        return name if is_present else self._add_constant(name, value)

    def _add_node(self, kind: str, inputs: list[str], domain: str = "", **options: Any) -> str:
        return self._add_node_outputs(kind, inputs, 1, domain, **options)[0]

    def _add_node_outputs(
        self, kind: str, inputs: list[str], outputs: int, domain: str = "", **options: Any
    ) -> list[str]:
        """Add a node. Returns the names of its outputs."""
        from onnx import helper

        names = [f"{kind}.{len(self._nodes)}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **options))
        return names


def _compute_outlier_scales() -> NDArray[np.float32]:
    """Return the factors by which the components of a normalised state are scaled down, as a (d,)
    float32 array."""
    scales = np.ones(_DIMENSIONS, dtype=np.float32)
    for component, scale in _OUTLIERS.items():
        scales[component] = scale
    return scales
