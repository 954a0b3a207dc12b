"""Replaces an unavailable encoder: computes the vector of a question from stored vectors.

The vector of a text is the sum of the vectors of the passages that match its words best, weighted
by BM25. With this vector, a search can start the walk without the encoder.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.query_context import look_up_words
from hopsyncd.retrieve.ranking import select_largest

WITHOUT_ENCODER = "the encoder is unavailable, so the search used words and stored vectors"
_PASSAGES = 8


class StoredVectors:
    """Encodes texts with the vectors of visible passages of a version. Implements `Encoder`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.name = "stored vectors"
        self._snapshot = snapshot

    @property
    def dimensions(self) -> int:
        return self._snapshot.index.vectors.dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an (m, d) array with a vector for each text. If no passage has words of a text,
        its vector is zero.
        """
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._combine(look_up_words(self._snapshot, text).scores)
        return vectors

    def _combine(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        index = self._snapshot.index
        best = select_largest(scores, self._snapshot.passage_ids, _PASSAGES)
        best = best[scores[best] > 0]
        exact = index.vectors.take_floats(index.passages.vector_start[best])
        combined: NDArray[np.float64] = scores[best] @ exact.astype(np.float64)
        return combined
