"""Exact search in what is in force at a version: BM25 over words, cosine over passage vectors."""

from collections import defaultdict

import numpy as np

from store.database import Connection
from store.records import PassageId, Vectors, Version
from store.words import searchable

# The usual constants of BM25 (Robertson & Zaragoza 2009, section 3.5).
K1 = 1.2
B = 0.75

_POSTINGS = """
    SELECT t.doc, count(*), p.words FROM passage_term AS t JOIN passage AS p ON p.id = t.doc
    WHERE t.term = ?2 AND EXISTS
        (SELECT 1 FROM life AS l WHERE l.passage = t.doc AND l.born <= ?1 AND ?1 < l.died)
    GROUP BY t.doc
"""


def index_terms(connection: Connection, text: str) -> list[str]:
    """The distinct terms that FTS5's tokenizer makes of the text, sorted."""
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.query_text USING fts5("
        "body, content = '', contentless_delete = 1, "
        "tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.query_term USING fts5vocab(query_text, 'row')"
    )
    connection.execute("DELETE FROM temp.query_text")
    connection.execute(
        "INSERT INTO temp.query_text (rowid, body) VALUES (1, ?)", [searchable(text)]
    )
    return [row[0] for row in connection.execute("SELECT term FROM temp.query_term ORDER BY term")]


def bm25(connection: Connection, at: Version, query: str) -> dict[PassageId, float]:
    """BM25 scores of the passages in force that share a term with the query.

    All statistics are those of the version, so that a past version ranks as it did when it was
    the head. idf is log(1 + (n - df + 0.5) / (df + 0.5)), which is never negative.
    """
    scores: dict[PassageId, float] = defaultdict(float)
    mean_words = at.words / max(at.passages, 1)
    for term in index_terms(connection, query):
        postings = connection.execute(_POSTINGS, [at.id, term]).fetchall()
        idf = np.log1p((at.passages - len(postings) + 0.5) / (len(postings) + 0.5))
        for passage, frequency, words in postings:
            saturation = K1 * (1 - B + B * words / mean_words)
            scores[PassageId(passage)] += float(
                idf * frequency * (K1 + 1) / (frequency + saturation)
            )
    return dict(scores)


def nearest(
    connection: Connection, recipe: int, at: Version, query: Vectors, k: int
) -> list[tuple[PassageId, float]]:
    """The k passages in force whose vectors have the largest cosine with the query, best first."""
    rows = connection.execute(
        f"SELECT passage, distance FROM passage_vector_{recipe}"
        " WHERE embedding MATCH ?2 AND k = ?3 AND passage IN"
        " (SELECT passage FROM life WHERE born <= ?1 AND ?1 < died)",
        [at.id, query.astype("<f4").tobytes(), k],
    ).fetchall()
    return sorted(
        ((PassageId(row[0]), 1.0 - float(row[1])) for row in rows),
        key=lambda scored: (-scored[1], scored[0]),
    )
