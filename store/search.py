"""Finds the vectors nearest to a query by comparing the query with every vector."""

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from store.contract import Connection
from store.engines.sqlite.database import open_vector_functions
from store.records import PassageId, Vectors

_MARGIN = 1e-5  # of a cosine. sqlite-vec's rounding errors are smaller, so ties are compared too.
_BLOCK_ROWS = 1024  # compared at once, to limit the memory


def find_nearest(
    query: Vectors,
    passages: Sequence[int],
    take: Callable[[NDArray[np.integer]], Vectors],
    rows: NDArray[np.integer],
    k: int,
) -> list[tuple[PassageId, float]]:
    """Return the k passages whose vectors have the largest cosine to the (d,) query, best first.

    `take` returns the vectors of some rows, and `rows` has the row of each of the `passages`. Ties
    are ordered by id. A zero vector is never found, and a zero `query` finds nothing.
    """
    if not query.any():
        return []
    query_vector, cosines = query.astype(np.float32), np.full(len(rows), -np.inf)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = take(rows[start : start + _BLOCK_ROWS])
        lengths = np.sqrt(np.einsum("rd,rd->r", block, block, dtype=np.float64))
        dots = (block.astype(np.float32) @ query_vector).astype(np.float64)
        np.divide(dots, lengths, out=cosines[start : start + _BLOCK_ROWS], where=lengths > 0)
    cosines /= np.sqrt(np.square(query_vector, dtype=np.float64).sum())
    least_cosine = np.sort(cosines)[-k] if k < len(cosines) else -np.inf
    close = np.flatnonzero((cosines >= least_cosine - _MARGIN) & (cosines > -np.inf)).tolist()
    with closing(open_vector_functions()) as memory:
        scored = [
            (
                PassageId(int(passages[position])),
                1.0 - _compute_distance(memory, vector, query),
            )
            for position, vector in zip(close, take(rows[close]), strict=True)
        ]
    return sorted(scored, key=lambda found: (-found[1], found[0]))[:k]


def _compute_distance(memory: Connection, a: Vectors, b: Vectors) -> float:
    blobs = [vector.astype("<f4").tobytes() for vector in (a, b)]
    return float(memory.execute("SELECT vec_distance_cosine(?, ?)", blobs).fetchone()[0])
