"""Deep checks of content: stored rows match their digests, and derived rows match their content."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from store.content import full_text
from store.contract import Connection
from store.digests import stored_document_digest, stored_set_digest
from store.records import (
    GRID,
    REBUILD,
    RESTORE,
    Direction,
    Finding,
    Passage,
    PassageId,
    SetId,
    question_id,
    set_id,
)
from store.word_count import count_words


def _passages(connection: Connection) -> Iterator[Finding]:
    for row_id, heading, text, words in connection.execute(
        "SELECT id, heading, text, words FROM passage"
    ):
        passage = Passage(tuple(json.loads(heading)), text)
        where = f"passage {row_id}"
        if passage.id != row_id:
            yield Finding("a passage's id is the hash of its text", where, "it is not", RESTORE)
        counted = count_words(full_text(passage))
        if counted != words:
            yield Finding(
                "a passage's word count is right",
                where,
                f"says {words}, has {counted}",
                REBUILD,
            )


def _sets(connection: Connection) -> Iterator[Finding]:
    for row_id, passage, name, provisional, dimensions, vectors, digest in connection.execute(
        "SELECT s.id, s.passage, r.name, s.provisional, r.dimensions, s.vectors, s.digest"
        " FROM question_set AS s JOIN recipe AS r ON r.id = s.recipe"
    ):
        where = f"question_set {row_id}"
        if set_id(PassageId(passage), name, provisional=bool(provisional)) != row_id:
            yield Finding(
                "a set's id is the hash of passage and generation settings",
                where,
                "it is not",
                RESTORE,
            )
        if stored_set_digest(connection, row_id, vectors) != digest:
            yield Finding(
                "questions and vectors are as they were written",
                where,
                "their digest differs",
                RESTORE,
            )
        yield from _vectors(where, vectors, dimensions)
        yield from _questions(connection, row_id, len(vectors) // (2 * dimensions))


def _vectors(where: str, blob: bytes, dimensions: int) -> Iterator[Finding]:
    if not blob or len(blob) % (2 * dimensions):
        yield Finding(
            "vectors are complete rows",
            where,
            f"{len(blob)} bytes are not rows of {2 * dimensions}",
            RESTORE,
        )
        return
    rows = np.frombuffer(blob, dtype="<i2").reshape(-1, dimensions).astype(np.float64)
    norms = np.linalg.norm(rows, axis=1)
    # Rounding moves each component by at most one half.
    off = (norms != 0) & (np.abs(norms - GRID) > np.sqrt(dimensions) / 2)
    for row in np.flatnonzero(off).tolist():
        yield Finding(
            f"vectors have the length {GRID} or 0",
            where,
            f"row {row} has {norms[row]:.1f}",
            RESTORE,
        )


def _questions(connection: Connection, of_set: int, rows: int) -> Iterator[Finding]:
    for row_id, direction, ordinal, keywords, vector_row in connection.execute(
        "SELECT id, direction, ordinal, keywords, vector_row FROM question WHERE question_set = ?",
        [of_set],
    ):
        where = f"question {row_id}"
        if question_id(SetId(of_set), Direction(direction), ordinal) != row_id:
            yield Finding(
                "a question's id is the hash of its set and place", where, "it is not", RESTORE
            )
        if not 0 <= vector_row < rows:
            yield Finding(
                "every question has a vector", where, f"there is no row {vector_row}", RESTORE
            )
        names = json.loads(keywords)
        if names != sorted(set(names)):
            yield Finding("keywords are a sorted set", where, f"{keywords}", RESTORE)


def _documents(connection: Connection) -> Iterator[Finding]:
    for row_id, digest, *own in connection.execute(
        "SELECT id, digest, source, path, content, media_type, names, origin, properties"
        " FROM document"
    ):
        if stored_document_digest(connection, row_id, tuple(own)) != digest:
            yield Finding(
                "a document and its places are as they were written",
                f"document {row_id} ({own[1]})",
                "their digest differs",
                RESTORE,
            )


def passage_vectors(connection: Connection) -> Iterator[Finding]:
    """The vectors that a search scans belong to passage intervals. Needs an intact schema."""
    recipes = connection.execute("SELECT id, dimensions FROM recipe").fetchall()
    for generation, dimensions in recipes:
        table = f"passage_vector_{generation}"
        known = 0
        for interval, passage, born, died, blob in connection.execute(
            "SELECT l.id, l.passage, l.born, l.died, s.vectors FROM life AS l"
            " JOIN question_set AS s ON s.id = l.question_set WHERE s.recipe = ?",
            [generation],
        ):
            vector = np.frombuffer(blob, dtype="<i2", count=dimensions).astype("<f4")
            wanted = (vector.tobytes(), born, died, passage) if vector.any() else None
            row = connection.execute(
                f"SELECT embedding, born, died, passage FROM {table} WHERE life = ?", [interval]
            ).fetchone()
            known += row is not None
            if row != wanted:
                yield _vector_finding(table, interval, row, wanted)
        yield from _vector_slots(connection, table, known)


def _vector_finding(
    table: str, interval: int, row: Sequence[Any] | None, wanted: Sequence[Any] | None
) -> Finding:
    if row is None:
        detail = "has no row"
    elif wanted is None:
        detail = "has a row although its vector is zero"
    else:
        finite = (
            ""
            if np.isfinite(np.frombuffer(row[0], dtype="<f4")).all()
            else ", and holds NaN or infinity"
        )
        what = "vector" if row[0] != wanted[0] else "interval or passage"
        detail = f"its {what} differs from the interval's{finite}"
    return Finding("an interval has its passage's vector", f"{table} {interval}", detail, REBUILD)


def _vector_slots(connection: Connection, table: str, known: int) -> Iterator[Finding]:
    """A search scans the slots that the chunks mark as valid, so these must be the rows."""
    valid = 0
    slots: dict[tuple[int, int], int] = {}
    for chunk, validity, row_ids in connection.execute(
        f"SELECT chunk_id, validity, rowids FROM {table}_chunks"
    ):
        bits = np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little")
        ids = np.frombuffer(row_ids, dtype="<i8")
        valid += int(bits.sum())
        slots |= {(chunk, at): int(ids[at]) for at in np.flatnonzero(bits).tolist()}
    rows = connection.execute(
        f"SELECT rowid, chunk_id, chunk_offset FROM {table}_rowids"
    ).fetchall()
    wrong = [row for row, chunk, offset in rows if slots.get((chunk, offset)) != row]
    if wrong or not valid == len(rows) == known:
        yield Finding(
            "a search sees exactly the vectors of the intervals",
            table,
            f"{known} intervals have vectors, {len(rows)} rows are stored, {valid} slots are valid,"
            f" {len(wrong)} rows are not in their slots",
            REBUILD,
        )


CONTENT_CHECKS = (_passages, _sets, _documents)
