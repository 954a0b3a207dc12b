"""all-MiniLM-L6-v2 in plain torch.

This module replaces sentence-transformers for this model, because that package takes seconds and
much memory to import. The operations, their order and their shapes are the same, so the vectors are
equal bit for bit.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12


class MiniLm:
    """Encodes texts with BERT, mean pooling and normalisation. Not thread-safe."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Load the weights. Raises OSError or ValueError if they are missing or damaged."""
        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer = tokenizer

    @torch.inference_mode()
    def vector(self, text: str) -> NDArray[np.float32]:
        """Encode the text. Returns a (d,) float32 vector."""
        tokens = torch.tensor([self._tokenizer.encode(text).ids])
        hidden = self._embed(tokens)
        for layer in range(_LAYERS):
            hidden = self._layer(f"encoder.layer.{layer}", hidden)
        mean = hidden.sum(1) / tokens.shape[1]
        vector: NDArray[np.float32] = functional.normalize(mean, dim=-1)[0].numpy()
        return vector

    def _embed(self, tokens: Tensor) -> Tensor:
        words, kinds, positions = (
            self._weights[f"embeddings.{table}_embeddings.weight"]
            for table in ("word", "token_type", "position")
        )
        summed = functional.embedding(tokens, words) + kinds[0] + positions[: tokens.shape[1]]
        return self._layer_norm("embeddings", summed)

    def _layer(self, name: str, hidden: Tensor) -> Tensor:
        query, key, value = (
            self._dense(f"{name}.attention.self.{part}", hidden)
            .view(1, hidden.shape[1], _HEADS, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        heads = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)
        attended = self._dense(f"{name}.attention.output.dense", heads.reshape(hidden.shape))
        hidden = self._layer_norm(f"{name}.attention.output", attended + hidden)
        wide = functional.gelu(self._dense(f"{name}.intermediate.dense", hidden))
        return self._layer_norm(
            f"{name}.output", self._dense(f"{name}.output.dense", wide) + hidden
        )

    def _dense(self, name: str, hidden: Tensor) -> Tensor:
        return functional.linear(
            hidden, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        )

    def _layer_norm(self, name: str, hidden: Tensor) -> Tensor:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(hidden, hidden.shape[-1:], weight, bias, _EPSILON)
