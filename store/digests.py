"""Digests of stored content that its id does not name.

A passage's id is a hash of its text. The id of a question set says of which passage it is and how
it was made, not what came out; a document's row has no such id at all. Their digests say whether
what is stored is still what was written. They are taken of the columns as stored.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from store.records import content_hash

if TYPE_CHECKING:
    from store.database import Connection

QUESTION_COLUMNS = "id, direction, ordinal, text, keywords, vector_row"
PLACE_COLUMNS = "passage, first_line, last_line"

Row = Sequence[object]


def set_digest(vectors: bytes, questions: Iterable[Row]) -> bytes:
    """Of a question set: its vectors, and its questions' QUESTION_COLUMNS by direction, ordinal."""
    return content_hash(_encoded([list(row) for row in questions]) + vectors)


def document_digest(
    source: int, path: str, content: bytes, media_type: str, places: Iterable[Row]
) -> bytes:
    """Of a document's revision: its own columns, and its PLACE_COLUMNS in order."""
    where = [list(row) for row in places]
    return content_hash(_encoded([source, path, content.hex(), media_type, where]))


def stored_set_digest(connection: "Connection", row_id: int, vectors: bytes) -> bytes:
    """The digest that the stored questions and these vectors give."""
    questions = connection.execute(
        f"SELECT {QUESTION_COLUMNS} FROM question WHERE question_set = ?"
        " ORDER BY direction, ordinal",
        [row_id],
    )
    return set_digest(vectors, questions)


def stored_document_digest(
    connection: "Connection", row_id: int, source: int, path: str, content: bytes, media_type: str
) -> bytes:
    """The digest that the stored places and these columns give."""
    places = connection.execute(
        f"SELECT {PLACE_COLUMNS} FROM placement WHERE document = ? ORDER BY ordinal", [row_id]
    )
    return document_digest(source, path, content, media_type, places)


def fill_digests(connection: "Connection") -> None:
    """Give a digest to every row of a schema that had none."""
    for (row_id,) in connection.execute("SELECT id FROM question_set").fetchall():
        vectors = connection.execute(
            "SELECT vectors FROM question_set WHERE id = ?", [row_id]
        ).fetchone()[0]
        connection.execute(
            "UPDATE question_set SET digest = ? WHERE id = ?",
            [stored_set_digest(connection, row_id, vectors), row_id],
        )
    documents = "SELECT id, source, path, content, media_type FROM document"
    for row in connection.execute(documents).fetchall():
        connection.execute(
            "UPDATE document SET digest = ? WHERE id = ?",
            [stored_document_digest(connection, *row), row[0]],
        )


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
