"""all-MiniLM-L6-v2 in ONNX Runtime, with weights of 8 bits.

Its graph is written here from the published weights. Weights are quantised per output channel when
the graph is written, activations when it runs: with one scale for a text, or, after the activation
function, with one for each token. Everything else (attention, normalisation, pooling) stays
float32.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from hopsyncd.models.encoder import (
    DEFAULT_DIMENSIONS,
    DEFAULT_SHA256,
    MAX_CHARACTERS,
    checked_digest,
    locate,
    not_loaded,
    session_of,
    tokenizer_in,
)

# Names how the graph is written and quantised: changes whenever its vectors would.
_GRAPH = "int8-2"
_DIGEST_BYTES = 32
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_OPSET = 17
_FLOAT = 1  # the number of float32 in ONNX
_LARGEST = 127
# The components of normalised states that are far larger than the others in these weights, and by
# how much they are scaled down before all share one scale; the weights make up for it.
_LOUD = {99: 6, 157: 3, 223: 4, 63: 3, 338: 2.5, 94: 2, 112: 2, 127: 2, 267: 2, 303: 2, 363: 2}
_LEAST_LARGEST = 0.2  # a token's largest activation is not below that of the function's dip
_CONTRIB = "com.microsoft"  # ONNX Runtime's own operators

_Vectors = Callable[[Sequence[str]], NDArray[np.float32]]

log = structlog.get_logger(__name__)


class OnnxEncoder:
    """The default model in ONNX Runtime, with weights of 8 bits. Texts are cut at 256 tokens.

    Threads encode side by side, each one text at a time: activations are quantised by what comes
    together, so a text's vector would depend on others.

    The model is made from the published weights by the first text that wants it, and kept in
    `cache`. A file there that is damaged is made again; where none can be written, each process
    makes its own.
    """

    dimensions = DEFAULT_DIMENSIONS

    def __init__(self, cache: Path) -> None:
        """Find the published weights. Raises ModelUnavailable."""
        path, _ = locate("default", "")
        self._folder = Path(path)
        self._file = cache / f"minilm-{DEFAULT_SHA256[:16]}-{_GRAPH}.model"
        self.predecessor = f"{self._folder.name}@{DEFAULT_SHA256[:16]}"  # the same model in torch
        self.name = f"{self.predecessor}/{_GRAPH}"
        self.preparing = False
        self._lock = threading.Lock()
        self._vectors: _Vectors | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As in the protocol. Raises ModelUnavailable."""
        vectors = self._vectors or self._opened()
        return vectors([text[:MAX_CHARACTERS] for text in texts])

    def _opened(self) -> _Vectors:
        with self._lock:
            if self._vectors is None:
                try:
                    self._vectors = _in_onnxruntime(self._folder, self._kept())
                except (OSError, ValueError) as error:
                    raise not_loaded(self._folder, error) from error
            return self._vectors

    def _kept(self) -> bytes:
        """The model as it is kept, or made anew."""
        try:
            kept = self._file.read_bytes()
        except OSError:
            kept = b""
        digest, graph = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
        if graph and hashlib.sha256(graph).digest() == digest:
            return graph
        if kept:
            log.warning(
                "the encoder's cached model is damaged, and made again", file=str(self._file)
            )
        self.preparing = True
        try:
            return self._made()
        finally:
            self.preparing = False

    def _made(self) -> bytes:
        checked_digest(str(self._folder), DEFAULT_SHA256)
        graph = _graph(self._folder)
        written = self._file.with_suffix(f".{os.getpid()}-{id(self)}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            written.write_bytes(hashlib.sha256(graph).digest() + graph)
            written.replace(self._file)
        except OSError as error:
            log.warning("the encoder's model cannot be kept", file=str(self._file), why=str(error))
        return graph


def _in_onnxruntime(folder: Path, graph: bytes) -> _Vectors:
    """What gives the vectors of texts."""
    # Slower, but without it sums of two products would saturate.
    precise = {} if _sums_bytes() else {"x64quantprecision": "1"}
    session = session_of(graph, **precise)
    tokenizer = tokenizer_in(folder)

    def vectors_of(texts: Sequence[str]) -> NDArray[np.float32]:
        # All tokens first: each run of the session drives the tokenizer's tables out of the cache.
        tokens = [np.array([tokenizer.encode(text).ids]) for text in texts]
        vectors = np.empty((len(texts), DEFAULT_DIMENSIONS), dtype=np.float32)
        for row, of_text in enumerate(tokens):
            vectors[row] = session.run(None, {"tokens": of_text})[0]
        return vectors

    return vectors_of


def _sums_bytes() -> bool:
    """Whether this processor is known to have instructions that sum products of bytes exactly."""
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def _graph(folder: Path) -> bytes:
    """The graph: from `tokens`, (1, n) int64, to `vector`, (d,) float32 of length 1.

    Raises OSError or ValueError where the weights are missing or damaged.
    """
    from safetensors.numpy import load_file

    return _Graph(load_file(folder / "model.safetensors")).written()


class _Graph:
    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def written(self) -> bytes:
        from onnx import TensorProto, helper

        hidden = self._embedded()
        for layer in range(_LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}", hidden)
        # The sum has the direction of the mean.
        summed = self._node("ReduceSum", [hidden, self._constant("rows", [0, 1])], keepdims=0)
        self._nodes.append(helper.make_node("LpNormalization", [summed], ["vector"], axis=0, p=2))
        graph = helper.make_graph(
            self._nodes,
            "minilm",
            [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "n"])],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [DEFAULT_DIMENSIONS])],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        written: bytes = model.SerializeToString()
        return written

    def _embedded(self) -> str:
        table = self._weights["embeddings.word_embeddings.weight"]
        scales = np.abs(table).max(axis=1, keepdims=True) / _LARGEST
        scales[scales == 0] = 1
        rows = self._constant("words", np.rint(table / scales).astype(np.int8))
        words = self._node("Cast", [self._node("Gather", [rows, "tokens"])], to=_FLOAT)
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
        joined = self._dense_of_normed(parts, hidden)
        queries, keys, values = self._nodes_of("Split", [joined], 3, axis=2)
        heads = self._node(
            "MultiHeadAttention", [queries, keys, values], domain=_CONTRIB, num_heads=_HEADS
        )
        attended = self._dense([f"{attention}.output.dense"], heads)
        hidden = self._normed(f"{attention}.output", self._node("Add", [attended, hidden]))
        wide = self._dense_of_normed([f"{name}.intermediate.dense"], hidden)
        wide = self._node("Gelu", [wide], domain=_CONTRIB)
        narrow = self._dense_by_token(f"{name}.output.dense", wide)
        return self._normed(f"{name}.output", self._node("Add", [narrow, hidden]))

    def _dense_of_normed(self, names: list[str], hidden: str) -> str:
        """As _dense, of a normalised state."""
        even = self._node("Mul", [hidden, self._once("even", np.reciprocal(_loudness()))])
        return self._dense(names, even, _loudness())

    def _dense_by_token(self, name: str, hidden: str) -> str:
        """As _dense, of activations, the largest of which differs much from token to token."""
        largest = self._node("ReduceMax", [hidden], axes=[-1], keepdims=1)
        largest = self._node(
            "Max", [largest, self._once("least", np.full(1, _LEAST_LARGEST, np.float32))]
        )
        product = self._dense([name], self._node("Div", [hidden, largest]), with_bias=False)
        bias = self._constant(f"{name}.bias", self._weights[f"{name}.bias"])
        return self._node("Add", [self._node("Mul", [product, largest]), bias])

    def _dense(
        self,
        names: list[str],
        hidden: str,
        loudness: NDArray[np.float32] | float = 1.0,
        *,
        with_bias: bool = True,
    ) -> str:
        """One matrix product for the named layers, their outputs side by side."""
        weight = np.concatenate([self._weights[f"{name}.weight"] for name in names]) * loudness
        scale = np.abs(weight).max(axis=1) / _LARGEST
        scale[scale == 0] = 1
        whole = np.rint(weight.T / scale).astype(np.int8)
        activation, activation_scale, zero = self._nodes_of("DynamicQuantizeLinear", [hidden], 3)
        given = [
            activation,
            self._constant(f"{names[0]}.weight", whole),
            activation_scale,
            self._constant(f"{names[0]}.scale", scale),
            zero,
        ]
        if with_bias:
            bias = np.concatenate([self._weights[f"{name}.bias"] for name in names])
            given += ["", self._constant(f"{names[0]}.bias", bias)]
        return self._node("MatMulIntegerToFloat", given, domain=_CONTRIB)

    def _normed(self, name: str, hidden: str) -> str:
        weight, bias = (
            self._constant(f"{name}.norm.{part}", self._weights[f"{name}.LayerNorm.{part}"])
            for part in ("weight", "bias")
        )
        return self._node("LayerNormalization", [hidden, weight, bias], axis=-1, epsilon=_EPSILON)

    def _constant(self, name: str, value: NDArray[np.generic] | list[int]) -> str:
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _once(self, name: str, value: NDArray[np.float32]) -> str:
        """A constant that several layers share."""
        known = any(one.name == name for one in self._constants)
        return name if known else self._constant(name, value)

    def _node(self, kind: str, given: list[str], domain: str = "", **options: Any) -> str:
        return self._nodes_of(kind, given, 1, domain, **options)[0]

    def _nodes_of(
        self, kind: str, given: list[str], outputs: int, domain: str = "", **options: Any
    ) -> list[str]:
        """Add a node; returns the names of its outputs."""
        from onnx import helper

        names = [f"{kind}.{len(self._nodes)}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, given, names, domain=domain, **options))
        return names


def _loudness() -> NDArray[np.float32]:
    """By what each component of a normalised state is scaled down."""
    scales = np.ones(DEFAULT_DIMENSIONS, dtype=np.float32)
    for component, scale in _LOUD.items():
        scales[component] = scale
    return scales
