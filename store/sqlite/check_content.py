"""Deep checks of content: it is what was written, and what is derived from it agrees."""

import json
from collections.abc import Iterator

import numpy as np

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
from store.sqlite.content import full_text
from store.sqlite.database import Connection
from store.sqlite.digests import stored_document_digest, stored_set_digest
from store.words import count_words


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
                "a set's id is the hash of passage and recipe", where, "it is not", RESTORE
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
        "SELECT id, digest, source, path, content, media_type, names, origin FROM document"
    ):
        if stored_document_digest(connection, row_id, tuple(own)) != digest:
            yield Finding(
                "a document and its places are as they were written",
                f"document {row_id} ({own[1]})",
                "their digest differs",
                RESTORE,
            )


CONTENT_CHECKS = (_passages, _sets, _documents)
