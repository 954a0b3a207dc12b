"""Searches the passage vectors of a version exactly, in sqlite-vec tables, and maintains them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from store.contract import Connection
from store.engines.sqlite.database import vector_functions
from store.reads import visible_intervals
from store.records import PassageId, Vectors, Version
from store.sources import names_json
from store.transactions import transaction
from store.visibility import Mask, hidden_folders

# Fetched besides the k requested passages: some may have the same distance as the k-th, and the
# ids decide which of them are returned.
_SPARE = 16
_DISTANCE = "SELECT vec_distance_cosine(?, ?)"
_MAX_K = 4096  # the largest k that sqlite-vec accepts
_CHUNK_ROWS = 1024  # the rows of a chunk, which sqlite-vec allocates and frees as a whole


def nearest(
    connection: Connection, at: Version, query: Vectors, k: int, hidden: Mask = frozenset()
) -> list[tuple[PassageId, float]]:
    """Return the k passages in force whose vectors have the largest cosine to the query, best
    first. Ties are ordered by id.

    Passages that occur only in hidden sources are left out. Hidden folders are not supported. A
    zero vector is never found, and as a query it finds nothing.
    """
    if hidden_folders(hidden):
        raise ValueError("hidden folders are not supported here")
    if not query.any():
        return []
    seen = f" AND life IN ({visible_intervals(connection)})" if hidden else ""
    rows = connection.execute(
        f"SELECT passage, distance FROM passage_vector_{at.generation}"
        f" WHERE embedding MATCH ?3 AND k = ?4 AND born <= ?1 AND died > ?1{seen}",
        [at.id, names_json(hidden), query.astype("<f4").tobytes(), min(k + _SPARE, _MAX_K)],
    ).fetchall()
    scored = [(PassageId(row[0]), 1.0 - float(row[1])) for row in rows]
    return sorted(scored, key=lambda found: (-found[1], found[0]))[:k]


def nearest_of(
    query: Vectors, passages: Sequence[int], vectors: Vectors, k: int
) -> list[tuple[PassageId, float]]:
    """Search only these passages with their (n, d) vectors. The cosines are bit-identical to the
    results of `nearest`."""
    if not query.any():
        return []
    wanted = query.astype(np.float32)
    lengths = np.sqrt(np.einsum("rd,rd->r", vectors, vectors, dtype=np.float64))
    dots = np.concatenate(
        [part.astype(np.float32) @ wanted for part in _blocks(vectors)], dtype=np.float64
    )
    cosines = np.divide(dots, lengths, out=np.full(len(dots), -np.inf), where=lengths > 0)
    depth = min(k + _SPARE, _MAX_K, int(np.count_nonzero(lengths)))
    close = np.argsort(-cosines, kind="stable")[:depth].tolist()
    blob = _blob(query)
    with closing(vector_functions()) as memory:
        scored = [
            (
                PassageId(int(passages[at])),
                1.0 - float(memory.execute(_DISTANCE, [_blob(vectors[at]), blob]).fetchone()[0]),
            )
            for at in close
        ]
    return sorted(scored, key=lambda found: (-found[1], found[0]))[:k]


def _blocks(vectors: Vectors) -> Iterator[Vectors]:
    for start in range(0, max(len(vectors), 1), _CHUNK_ROWS):
        yield vectors[start : start + _CHUNK_ROWS]


def _blob(vector: Vectors) -> bytes:
    return vector.astype("<f4").tobytes()


def create_vectors(connection: Connection, generation: int, dimensions: int) -> None:
    """Create the table of passage vectors for these generation settings. Does nothing
    on a server."""
    if not connection.dialect.has_vector_tables:
        return
    connection.execute(
        f"CREATE VIRTUAL TABLE passage_vector_{generation} USING vec0 (life INTEGER PRIMARY KEY,"
        f" embedding float[{int(dimensions)}] distance_metric=cosine,"
        " born INTEGER, died INTEGER, +passage INTEGER)"
    )


def is_searchable(connection: Connection, generation: int) -> bool:
    """Whether sqlite-vec can search the passage vectors of these settings. False on a server."""
    table = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return (
        connection.dialect.has_vector_tables
        and connection.execute(table, [f"passage_vector_{generation}"]).fetchone() is not None
    )


def put_vectors(connection: Connection, intervals: Sequence[int]) -> None:
    """Insert the vectors of passage intervals (row ids of the table `life`).

    Zero vectors are left out: their distances would be NaN, which would break the order of results.
    """
    if not connection.dialect.has_vector_tables:
        return
    for start in range(0, len(intervals), _CHUNK_ROWS):
        rows: dict[int, list[tuple[object, ...]]] = {}
        for generation, vector, *columns in connection.execute(
            "SELECT s.recipe, substr(s.vectors, 1, 2 * r.dimensions), l.id, l.born, l.died,"
            " l.passage FROM life AS l JOIN question_set AS s ON s.id = l.question_set"
            " JOIN recipe AS r ON r.id = s.recipe"
            f" WHERE l.id IN {connection.dialect.ids()} ORDER BY l.id",
            [json.dumps(intervals[start : start + _CHUNK_ROWS])],
        ):
            if any(vector):
                floats = np.frombuffer(vector, dtype="<i2").astype("<f4").tobytes()
                rows.setdefault(generation, []).append((floats, *columns))
        for generation, vectors in rows.items():
            connection.executemany(
                f"INSERT INTO passage_vector_{generation} (embedding, life, born, died, passage)"
                " VALUES (?, ?, ?, ?, ?)",
                vectors,
            )


def end_vectors(
    connection: Connection, generation: int, intervals: Sequence[int], version: int
) -> None:
    """Mark the vectors of these intervals as ended at a version."""
    if not connection.dialect.has_vector_tables:
        return
    connection.executemany(
        f"UPDATE passage_vector_{generation} SET died = ? WHERE life = ?",
        [(version, interval) for interval in intervals],
    )


def delete_vectors(connection: Connection, generation: int, intervals: Sequence[int]) -> None:
    """Delete the vectors of these passage intervals."""
    if not connection.dialect.has_vector_tables:
        return
    connection.executemany(
        f"DELETE FROM passage_vector_{generation} WHERE life = ?",
        [(interval,) for interval in intervals],
    )


def rebuild_vectors(connection: Connection) -> None:
    """Rebuild the vector tables with the vectors of all passage intervals."""
    if not connection.dialect.has_vector_tables:
        return
    for generation, dimensions in connection.execute(
        "SELECT id, dimensions FROM recipe"
    ).fetchall():
        connection.execute(f"DROP TABLE IF EXISTS passage_vector_{generation}")
        create_vectors(connection, generation, dimensions)
    intervals = connection.execute("SELECT id FROM life ORDER BY id").fetchall()
    put_vectors(connection, [interval for (interval,) in intervals])


def generation_rows(connection: Connection) -> list[int]:
    """Return the row ids of all generation settings. Each has a table of vectors."""
    return [row[0] for row in connection.execute("SELECT id FROM recipe ORDER BY id")]


def sparse_chunks(connection: Connection, generation: int) -> list[list[int]]:
    """Return the intervals whose vectors should be moved, grouped by chunk.

    These are the intervals in sparse chunks: chunks other than the last of which more than a
    quarter is free. sqlite-vec frees a chunk only when its last row is deleted, and never reuses a
    gap.
    """
    table = f"passage_vector_{generation}"
    sparse = connection.execute(
        f"SELECT chunk_id FROM {table}_rowids GROUP BY chunk_id HAVING count(*) < ?"
        f" AND chunk_id < (SELECT max(chunk_id) FROM {table}_chunks)",
        [_CHUNK_ROWS * 3 // 4],
    ).fetchall()
    intervals = f"SELECT rowid FROM {table}_rowids WHERE chunk_id = ?"
    return [[row[0] for row in connection.execute(intervals, chunk)] for chunk in sparse]


def move_vectors(connection: Connection, generation: int, intervals: Sequence[int]) -> None:
    """Move the vectors of these intervals to the end of the table, in one transaction."""
    with transaction(connection):
        delete_vectors(connection, generation, intervals)
        put_vectors(connection, intervals)


def renew_vectors(connection: Connection, generation: int) -> None:
    """Rewrite the table in one transaction, so that no bytes of deleted rows remain in it.

    sqlite-vec cannot rename a table, and VACUUM does not erase these bytes. Readers keep their
    snapshots.
    """
    with transaction(connection):
        dimensions = connection.execute(
            "SELECT dimensions FROM recipe WHERE id = ?", [generation]
        ).fetchone()[0]
        connection.execute(f"DROP TABLE passage_vector_{generation}")
        create_vectors(connection, generation, dimensions)
        intervals = connection.execute(
            "SELECT l.id FROM life AS l JOIN question_set AS s ON s.id = l.question_set"
            " WHERE s.recipe = ? ORDER BY l.id",
            [generation],
        ).fetchall()
        put_vectors(connection, [interval for (interval,) in intervals])
