"""The graph of one version as plain values, to be compared with that of another database."""

from hopsyncd.index.view import GraphView
from store.sqlite.database import Connection
from store.sqlite.versions import version

ROWS = {
    "documents": """
        SELECT s.name, d.path, hex(d.content), d.media_type, d.names, d.origin FROM document AS d
        JOIN source AS s ON s.id = d.source WHERE d.born <= ?1 AND ?1 < d.died ORDER BY 1, 2""",
    "placements": """
        SELECT d.path, p.ordinal, p.passage, p.first_line, p.last_line, p.links FROM placement AS p
        JOIN document AS d ON d.id = p.document WHERE d.born <= ?1 AND ?1 < d.died ORDER BY 1, 2""",
    "passages": """
        SELECT p.id, p.heading, p.text, p.words, l.question_set, hex(q.vectors) FROM life AS l
        JOIN passage AS p ON p.id = l.passage JOIN question_set AS q ON q.id = l.question_set
        WHERE l.born <= ?1 AND ?1 < l.died ORDER BY 1""",
    "questions": """
        SELECT q.id, l.passage, q.direction, q.ordinal, q.text, q.keywords, q.vector_row
        FROM life AS l JOIN question AS q ON q.question_set = l.question_set
        WHERE l.born <= ?1 AND ?1 < l.died ORDER BY 1""",
    "matches": """
        SELECT m.question, m.target, m.similarity FROM match AS m
        WHERE m.born <= ?1 AND ?1 < m.died ORDER BY 1""",
    "edges": """
        SELECT m.question, m.target, m.similarity FROM match AS m JOIN version AS v ON v.id = ?1
        WHERE m.born <= ?1 AND ?1 < m.died AND (v.cut_question IS NULL
            OR m.similarity > v.cut_similarity
            OR (m.similarity = v.cut_similarity AND m.question <= v.cut_question)) ORDER BY 1""",
    "passage_vectors": """
        SELECT l.passage, hex(v.embedding) FROM life AS l
        JOIN passage_vector_{recipe} AS v ON v.life = l.id
        WHERE v.born <= ?1 AND ?1 < v.died ORDER BY 1""",
    "full_text": """
        SELECT t.doc, t.term, t.offset FROM passage_term AS t JOIN life AS l ON l.passage = t.doc
        WHERE l.born <= ?1 AND ?1 < l.died ORDER BY 1, 3, 2""",
}

Rows = dict[str, list[tuple[object, ...]]]


def graph_at(connection: Connection, number: int) -> Rows:
    """All that a version has, a list of rows for each name in ROWS, and its counts.

    Row ids that say only in which order things were written are left out.
    """
    of = version(connection, number)
    rows = {
        name: connection.execute(sql.format(recipe=of.recipe), [number]).fetchall()
        for name, sql in ROWS.items()
    }
    counts = (of.documents, of.passages, of.words, of.matches, of.edge_budget, of.cut)
    return {**rows, "counts": [counts]}


def without(rows: Rows, path: str) -> Rows:
    """A version as a purge of the document leaves it; its counts are not corrected."""
    documents = [row for row in rows["documents"] if row[1] != path]
    placements = [row for row in rows["placements"] if row[0] != path]
    held = {row[2] for row in placements}
    questions = [row for row in rows["questions"] if row[1] in held]
    left = {row[0] for row in questions}
    of_passage = ("passages", "passage_vectors", "full_text")
    between = ("matches", "edges")
    return {
        "documents": documents,
        "placements": placements,
        "questions": questions,
        **{name: [row for row in rows[name] if row[0] in held] for name in of_passage},
        **{name: [row for row in rows[name] if {row[0], row[1]} <= left] for name in between},
        "counts": rows["counts"],
    }


def served_by(view: GraphView) -> dict[str, object]:
    """A view without what says only where its vectors lie in memory."""
    return {
        "passages": view.passage.tolist(),
        "vectors": view.rows[view.passage_row].tolist(),
        "edges": list(zip(view.source.tolist(), view.target.tolist(), strict=True)),
        "questions": view.question.tolist(),
        "weights": list(zip(view.similarity.tolist(), view.rarity.tolist(), strict=True)),
        "contexts": view.rows[view.context_row].tolist(),
        "mentioned": view.mentioned,
        "mentions": [
            (view.passage[at], name, view.rows[row].tolist())
            for at, name, row in zip(
                view.mentions.passage.tolist(),
                view.mentions.name.tolist(),
                view.mentions.row.tolist(),
                strict=True,
            )
        ],
        "links": list(
            zip(
                view.links.source.tolist(),
                view.links.target.tolist(),
                view.links.shown,
                strict=True,
            )
        ),
        "about": {name: sorted(passages) for name, passages in view.about.items()},
    }
