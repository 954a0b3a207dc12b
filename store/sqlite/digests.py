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
    from sqlite3 import Connection

QUESTION_COLUMNS = "id, direction, ordinal, text, keywords, vector_row"
PLACE_COLUMNS = "passage, first_line, last_line, links"
_FIRST_PLACE_COLUMNS = "passage, first_line, last_line"
_NONE = "[]"  # no names, no links
_NO_ORIGIN = "{}"

Row = Sequence[object]


def set_digest(vectors: bytes, questions: Iterable[Row]) -> bytes:
    """Of a question set: its vectors, and its questions' QUESTION_COLUMNS by direction, ordinal."""
    return content_hash(_encoded([list(row) for row in questions]) + vectors)


def document_digest(
    source: int,
    path: str,
    content: bytes,
    media_type: str,
    names: str,
    origin: str,
    places: Iterable[Row],
) -> bytes:
    """Of a document's revision: its own columns, and its PLACE_COLUMNS in order.

    Names, links and an origin that are not there are left out, as in digests older than them.
    """
    where = [[value for value in row if value != _NONE] for row in places]
    more = [value for value in (names, origin) if value not in (_NONE, _NO_ORIGIN)]
    return content_hash(_encoded([source, path, content.hex(), media_type, where, *more]))


def stored_set_digest(connection: "Connection", row_id: int, vectors: bytes) -> bytes:
    """The digest that the stored questions and these vectors give."""
    questions = connection.execute(
        f"SELECT {QUESTION_COLUMNS} FROM question WHERE question_set = ?"
        " ORDER BY direction, ordinal",
        [row_id],
    )
    return set_digest(vectors, questions)


def stored_document_digest(
    connection: "Connection",
    row_id: int,
    own: tuple[int, str, bytes, str, str, str],
    place_columns: str = PLACE_COLUMNS,
) -> bytes:
    """The digest that the stored places and these columns give: source to origin."""
    places = connection.execute(
        f"SELECT {place_columns} FROM placement WHERE document = ? ORDER BY ordinal", [row_id]
    )
    return document_digest(*own, places)


def fill_digests(connection: "Connection") -> None:
    """Give a digest to every row of the second schema, which had none."""
    for (row_id,) in connection.execute("SELECT id FROM question_set").fetchall():
        vectors = connection.execute(
            "SELECT vectors FROM question_set WHERE id = ?", [row_id]
        ).fetchone()[0]
        connection.execute(
            "UPDATE question_set SET digest = ? WHERE id = ?",
            [stored_set_digest(connection, row_id, vectors), row_id],
        )
    documents = "SELECT id, source, path, content, media_type FROM document"
    for row_id, *own in connection.execute(documents).fetchall():
        digest = stored_document_digest(
            connection, row_id, (*own, _NONE, _NO_ORIGIN), _FIRST_PLACE_COLUMNS
        )
        connection.execute("UPDATE document SET digest = ? WHERE id = ?", [digest, row_id])


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
