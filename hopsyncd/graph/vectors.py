"""The vectors of the graph in memory: rows that never move."""

import numpy as np
from numpy.typing import NDArray


class VectorArena:
    """Grid vectors as float32 rows. It only grows, so a reader may go on using `rows` as it was."""

    def __init__(self, dimensions: int) -> None:
        self._rows = np.empty((256, dimensions), dtype=np.float32)
        self._used = 0

    @property
    def rows(self) -> NDArray[np.float32]:
        """The (used, d) rows so far; a view that later growth leaves as it is."""
        return self._rows[: self._used]

    def append(self, vectors: NDArray[np.int16]) -> int:
        """Add (m, d) vectors; returns the row of the first."""
        first, needed = self._used, self._used + len(vectors)
        if needed > len(self._rows):
            grown = np.empty((max(needed, 2 * first), self._rows.shape[1]), dtype=np.float32)
            grown[:first] = self.rows
            self._rows = grown
        self._rows[first:needed] = vectors
        self._used = needed
        return first
