"""Exact search at a version: the postings of a word, and the nearest vectors."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from store.database import Connection
from store.records import PassageId, Vectors, Version
from store.visible import VISIBLE_LIVES, names_json

# Passages at the same distance are told apart by id: a few more are fetched than asked for.
_SPARE = 16
_MAX_K = 4096  # sqlite-vec's own limit


def postings(connection: Connection, term: str) -> NDArray[np.int64]:
    """(m, 2): passage id and how often the term is in it, for every stored passage.

    The full-text index knows no versions; the caller keeps the passages that are in force.
    `term` is one of store.words.index_terms.
    """
    rows = connection.execute(
        "SELECT doc, count(*) FROM passage_term WHERE term = ? GROUP BY doc", [term]
    ).fetchall()
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def nearest(
    connection: Connection, at: Version, query: Vectors, k: int, hidden: Collection[str] = ()
) -> list[tuple[PassageId, float]]:
    """The k passages in force with the largest cosine to the query, best first, ties by id.

    Those that only sources of the `hidden` names hold are passed over. A vector without direction
    (all zero) is near to nothing: it finds none and is not found.
    """
    if not query.any():
        return []
    seen = f" AND life IN ({VISIBLE_LIVES})" if hidden else ""
    rows = connection.execute(
        f"SELECT passage, distance FROM passage_vector_{at.recipe}"
        f" WHERE embedding MATCH ?3 AND k = ?4 AND born <= ?1 AND died > ?1{seen}",
        [at.id, names_json(hidden), query.astype("<f4").tobytes(), min(k + _SPARE, _MAX_K)],
    ).fetchall()
    scored = [(PassageId(row[0]), 1.0 - float(row[1])) for row in rows]
    return sorted(scored, key=lambda found: (-found[1], found[0]))[:k]
