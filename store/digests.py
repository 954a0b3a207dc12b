"""Computes digests of stored content whose id is not a hash of all its data.

A passage's id is a hash of its text. A question set's id covers only its passage and settings, not
its questions, and a document's id is not a hash. So question sets and documents have a digest of
their stored columns. The digest shows whether the content has changed since it was written.
"""

from collections.abc import Iterable, Sequence

from store.contract import Connection
from store.records import compact_json, hash_content

QUESTION_COLUMNS = "id, direction, ordinal, text, keywords, vector_row"
PLACE_COLUMNS = "passage, first_line, last_line, links"
_FIRST_PLACE_COLUMNS = "passage, first_line, last_line"
_NONE = "[]"  # JSON of an empty list of names or links
_NO_ORIGIN = "{}"

Row = Sequence[object]


def compute_set_digest(vectors: bytes, questions: Iterable[Row]) -> bytes:
    """Compute the digest of a question set from its vectors and its questions. A row of `questions`
    has the QUESTION_COLUMNS; order the rows by direction and ordinal."""
    return hash_content(compact_json([list(row) for row in questions]) + vectors)


def compute_document_digest(
    source: int,
    path: str,
    content: bytes,
    media_type: str,
    names: str,
    origin: str,
    properties: str,
    places: Iterable[Row],
) -> bytes:
    """Compute the digest of a document's revision from its columns and its occurrences. A row of
    `places` has the PLACE_COLUMNS; order the rows as in the document.

    Empty names, links, origins and properties are skipped. So digests computed before these columns
    existed stay valid.
    """
    place_values = [[value for value in row if value != _NONE] for row in places]
    more = [value for value in (names, origin, properties) if value not in (_NONE, _NO_ORIGIN)]
    return hash_content(
        compact_json([source, path, content.hex(), media_type, place_values, *more])
    )


def compute_stored_set_digest(connection: Connection, row_id: int, vectors: bytes) -> bytes:
    """Compute the digest of the stored question set with this row id and these vectors."""
    questions = connection.execute(
        f"SELECT {QUESTION_COLUMNS} FROM question WHERE question_set = ?"
        " ORDER BY direction, ordinal",
        [row_id],
    )
    return compute_set_digest(vectors, questions)


def compute_stored_document_digest(
    connection: Connection,
    row_id: int,
    columns: tuple[int, str, bytes, str, str, str, str],
    place_columns: str = PLACE_COLUMNS,
) -> bytes:
    """Compute the digest of the stored document with this row id from `columns` (source to
    properties) and its stored occurrences."""
    places = connection.execute(
        f"SELECT {place_columns} FROM placement WHERE document = ? ORDER BY ordinal", [row_id]
    )
    return compute_document_digest(*columns, places)


def fill_digests(connection: Connection) -> None:
    """Add digests to all rows of a database with the second schema, which had no digests."""
    for (row_id,) in connection.execute("SELECT id FROM question_set").fetchall():
        vectors = connection.execute(
            "SELECT vectors FROM question_set WHERE id = ?", [row_id]
        ).fetchone()[0]
        connection.execute(
            "UPDATE question_set SET digest = ? WHERE id = ?",
            [compute_stored_set_digest(connection, row_id, vectors), row_id],
        )
    documents = "SELECT id, source, path, content, media_type FROM document"
    for row_id, *columns in connection.execute(documents).fetchall():
        digest = compute_stored_document_digest(
            connection, row_id, (*columns, _NONE, _NO_ORIGIN, _NONE), _FIRST_PLACE_COLUMNS
        )
        connection.execute("UPDATE document SET digest = ? WHERE id = ?", [digest, row_id])
