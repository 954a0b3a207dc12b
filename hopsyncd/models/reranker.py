"""The reranker: a cross-encoder that scores how well a passage answers a question."""

import os
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from hopsyncd.errors import ModelUnavailable

_MAX_CHARACTERS = 4000


class Reranker(Protocol):
    """Scores passages against a question."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """A score for each text, higher for a better answer. Thread-safe."""
        ...


class CrossReranker:
    """A sentence-transformers CrossEncoder: a folder, or the name of a model on this machine.

    It is loaded on first use, since few need it and it takes seconds and memory.
    """

    def __init__(self, model: str, threads: int) -> None:
        self._name = model
        self._threads = threads
        self._model: Any = None
        self._lock = threading.Lock()

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Raises ModelUnavailable."""
        pairs = [(question[:_MAX_CHARACTERS], text[:_MAX_CHARACTERS]) for text in texts]
        with self._lock:
            if self._model is None:
                self._model = self._loaded()
            # One at a time, as in the encoder: in a batch, padding changes the last bits.
            found = self._model.predict(pairs, batch_size=1, show_progress_bar=False)
        return [float(score) for score in found]

    def _loaded(self) -> Any:
        # Nothing is downloaded at run time.
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        import torch
        from sentence_transformers import CrossEncoder

        torch.set_num_threads(self._threads)
        try:
            model = CrossEncoder(self._name, device="cpu", local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelUnavailable(
                f"Cannot load the reranker {self._name}",
                str(error).splitlines()[0],
                "Set models.reranker to the folder of a sentence-transformers cross-encoder",
            ) from error
        if model.num_labels != 1:
            raise ModelUnavailable(
                f"Cannot use the reranker {self._name}",
                f"it gives {model.num_labels} scores per pair instead of one",
                "Name a cross-encoder that was trained for ranking",
            )
        return model
