"""Making anew what is derived from content: the full-text index, word counts, passage vectors."""

import json

from store.records import ALIVE, Change, Passage, Version
from store.sqlite.content import full_text, index_passage
from store.sqlite.database import Connection, transaction
from store.sqlite.search import create_vectors, put_vector
from store.sqlite.versions import version, write_version
from store.words import count_words


def commit_rebuilt(connection: Connection, change: Change, created_ms: int) -> Version:
    """Commit the change as the next version, with all that is derived made anew.

    It is one transaction: readers have the old until they have all of the new. The new version's
    counts are counted, not carried over.
    """
    with transaction(connection):
        _rebuild_full_text(connection)
        _rebuild_vectors(connection)
        number = write_version(connection, change, created_ms).id
        connection.execute(
            "UPDATE version SET"
            f" documents = (SELECT count(*) FROM document WHERE died = {ALIVE}),"
            f" passages = (SELECT count(*) FROM life WHERE died = {ALIVE}),"
            " words = (SELECT coalesce(sum(p.words), 0) FROM life AS l"
            f"   JOIN passage AS p ON p.id = l.passage WHERE l.died = {ALIVE})"
            " WHERE id = ?",
            [number],
        )
        return version(connection, number)


def _rebuild_full_text(connection: Connection) -> None:
    connection.execute("INSERT INTO passage_text (passage_text) VALUES ('delete-all')")
    rows = connection.execute("SELECT id, heading, text, words FROM passage ORDER BY id")
    for row_id, heading, text, words in rows.fetchall():
        body = full_text(Passage(tuple(json.loads(heading)), text))
        index_passage(connection, row_id, body)
        if count_words(body) != words:
            connection.execute(
                "UPDATE passage SET words = ? WHERE id = ?", [count_words(body), row_id]
            )


def _rebuild_vectors(connection: Connection) -> None:
    for recipe, dimensions in connection.execute("SELECT id, dimensions FROM recipe").fetchall():
        connection.execute(f"DROP TABLE IF EXISTS passage_vector_{recipe}")
        create_vectors(connection, recipe, dimensions)
    for (life,) in connection.execute("SELECT id FROM life ORDER BY id").fetchall():
        put_vector(connection, life)
