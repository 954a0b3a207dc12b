"""Runs a model with sentence-transformers, in batches if that does not change the vectors."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BATCH_TOKENS = 512  # A run with more tokens would delay waiting questions too long.
_LARGEST_BATCH = 16  # in texts; a power of two

Vectors = NDArray[np.float32]
_Size = tuple[tuple[str, tuple[int, ...]], ...]  # the names and shapes of a text's tensors


class TorchModel:
    """Runs any model that sentence-transformers can load.

    Only texts with equal numbers of tokens run together, because padding would change the last bits
    of a vector. Even then, some batch sizes change the last bits, because the matrix library
    chooses its algorithm by size. So the first batch of each size is computed twice, together and
    one by one. Later batches of this size run together only if the two results were equal.
    """

    def __init__(self, folder: Path, most_tokens: int) -> None:
        """Load the model. Raises OSError or ValueError."""
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # a progress bar would garble the log
        self._model = SentenceTransformer(str(folder), device="cpu")
        self._model.max_seq_length = min(self._model.max_seq_length or most_tokens, most_tokens)
        self._model.eval()
        self._torch = torch
        self._is_batchable: dict[tuple[int, _Size | None], bool] = {}
        self.dimensions: int = self._model.get_embedding_dimension() or 0

    def encode(self, texts: Sequence[str], turns: AbstractContextManager[Any]) -> Vectors:
        """Return (m, d) float32 vectors of m texts. `turns` is entered around each run of the
        model.
        """
        # The result equals the model's own encode() of one text, without milliseconds of overhead.
        with turns:  # The tokenizer keeps state during a call.
            features = [self._model.preprocess([text]) for text in texts]
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for rows, size in self._make_batches(features):
            with turns:
                vectors[rows] = self._run([features[row] for row in rows], size)
        return vectors

    def _make_batches(self, features: Sequence[Any]) -> Iterator[tuple[list[int], "_Size | None"]]:
        """Yield batches: the rows in `features` of texts of one size, and this size, or None for a
        text that must run alone."""
        by_size = defaultdict(list)
        for row, of_text in enumerate(features):
            by_size[self._find_size(of_text)].append(row)
        for size, rows in by_size.items():
            tokens = max(shape[-1] for _, shape in size if shape) if size else _BATCH_TOKENS
            start = 0
            while start < len(rows):
                most = min(_LARGEST_BATCH, len(rows) - start, max(_BATCH_TOKENS // tokens, 1))
                # Few sizes are used, because each is checked once.
                count = 1 << most.bit_length() - 1
                yield rows[start : start + count], size
                start += count

    def _find_size(self, features: Any) -> "_Size | None":
        """Return the names and shapes of a text's tensors, or None if the text must run alone.

        Only texts of equal sizes can share a batch.
        """
        size = []
        for name, value in features.items():
            if isinstance(value, self._torch.Tensor) and value.ndim and len(value) == 1:
                size.append((name, tuple(value.shape)))
            elif isinstance(value, str):  # for example, the kind of input
                size.append((f"{name}={value}", ()))
            else:
                return None
        return tuple(sorted(size)) if any(shape for _, shape in size) else None

    def _run(self, features: Sequence[Any], size: "_Size | None") -> Vectors:
        count = len(features)
        is_batchable = self._is_batchable.get((count, size))
        if count == 1 or is_batchable is False:
            return self._run_alone(features)
        batch = {
            name: value
            if isinstance(value, str)
            else self._torch.cat([of_text[name] for of_text in features])
            for name, value in features[0].items()
        }
        with self._torch.inference_mode():
            together: Vectors = self._model(batch)["sentence_embedding"].numpy()
        if is_batchable:
            return together
        alone = self._run_alone(features)
        self._is_batchable[count, size] = together.tobytes() == alone.tobytes()
        return alone

    def _run_alone(self, features: Sequence[Any]) -> Vectors:
        with self._torch.inference_mode():
            return np.concatenate(
                [self._model(of_text)["sentence_embedding"].numpy() for of_text in features]
            )
