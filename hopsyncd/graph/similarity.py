"""Similarity of triplets: Eq. 1 of HopRAG (Liu et al. 2025, section 3.2)."""

from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from store.records import GRID

# A dot product of two grid vectors, times this, is half their cosine.
HALF_COSINE = 0.5 / (GRID * GRID)


def jaccard(a: Set[str], b: Set[str]) -> float:
    """Shared keywords by all keywords; 0 when both sets are empty.

    >>> jaccard({"rome", "italy"}, {"rome"})
    0.5
    >>> jaccard(set(), set())
    0.0
    """
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def similarity(
    keywords_a: Set[str],
    vector_a: NDArray[np.integer],
    keywords_b: Set[str],
    vector_b: NDArray[np.integer],
) -> float:
    """Eq. 1: SIM(a, b) = (|ka & kb| / |ka | kb| + cos(va, vb)) / 2.

    The vectors are (d,) on the grid of store.records. The cosine is their exact integer dot
    product by GRID squared, within about 1e-4 of that of the unrounded vectors, so that equal
    inputs give equal bits everywhere.

    >>> v = np.array([4000, 0])
    >>> similarity({"rome", "italy"}, v, {"rome"}, v)
    0.75
    """
    dot = int(np.dot(vector_a.astype(np.int64), vector_b.astype(np.int64)))
    return jaccard(keywords_a, keywords_b) / 2 + dot * HALF_COSINE
