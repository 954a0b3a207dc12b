"""The graph of one version as plain values, to be compared with that of another database."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from store.contract import Connection
from store.records import Vectors
from store.versions import list_kept_versions, read_version

ROWS = {
    "documents": """
        SELECT s.name, d.path, d.content, d.media_type, d.names, d.origin, d.properties
        FROM document AS d
        JOIN source AS s ON s.id = d.source WHERE d.born <= ?1 AND ?1 < d.died ORDER BY 1, 2""",
    "placements": """
        SELECT d.path, p.ordinal, p.passage, p.first_line, p.last_line, p.links FROM placement AS p
        JOIN document AS d ON d.id = p.document WHERE d.born <= ?1 AND ?1 < d.died ORDER BY 1, 2""",
    "passages": """
        SELECT p.id, p.heading, p.text, p.words, l.question_set, q.vectors FROM life AS l
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
}

Rows = dict[str, list[tuple[Any, ...]]]


def graph_at(connection: Connection, number: int) -> Rows:
    """All that a version has, a list of rows for each name in ROWS, and its counts.

    Row ids that say only in which order things were written are left out.
    """
    of = read_version(connection, number)
    rows = {name: connection.execute(sql, [number]).fetchall() for name, sql in ROWS.items()}
    rows["documents"] = [(*own, _undated(said)) for *own, said in rows["documents"]]
    counts = (of.documents, of.passages, of.words, of.matches, of.edge_budget, of.edge_threshold)
    return {**rows, "counts": [counts]}


def graphs(connection: Connection) -> dict[int, Rows]:
    """`graph_at` of every kept version."""
    return {number: graph_at(connection, number) for number in list_kept_versions(connection)}


def _undated(properties: str) -> str:
    """Without when it was written: a file that is only touched keeps its date."""
    return json.dumps([pair for pair in json.loads(properties) if pair[0] != "modified"])


def without(rows: Rows, path: str) -> Rows:
    """A version as a purge of the document leaves it; its counts are not corrected."""
    documents = [row for row in rows["documents"] if row[1] != path]
    occurrences = [row for row in rows["placements"] if row[0] != path]
    held = {row[2] for row in occurrences}
    questions = [row for row in rows["questions"] if row[1] in held]
    left = {row[0] for row in questions}
    between = ("matches", "edges")
    return {
        "documents": documents,
        "placements": occurrences,
        "questions": questions,
        "passages": [row for row in rows["passages"] if row[0] in held],
        **{name: [row for row in rows[name] if {row[0], row[1]} <= left] for name in between},
        "counts": rows["counts"],
    }


def exact_vectors(index: LiveIndex) -> Vectors:
    """All vectors of an index, an (r, d) array."""
    return index.vectors.take(np.arange(len(index.vectors)))


def served_by(snapshot: Snapshot) -> dict[str, object]:
    """A snapshot without what says only where things lie in memory."""
    index, entries, ids = snapshot.index, snapshot.passage_rows, snapshot.passage_ids
    names = np.flatnonzero(snapshot.statistics.mention_counts)
    vectors, spelled, counts = exact_vectors(index), index.name_texts, snapshot.statistics
    mentions, links = snapshot.find_mentions(names), snapshot.find_links(entries)
    return {
        "passages": sorted(ids[entries].tolist()),
        "counts": (counts.passages, counts.words),
        "homes": sorted(
            zip(ids[entries].tolist(), snapshot.get_document_keys(entries).tolist(), strict=True)
        ),
        "vectors": sorted(
            (int(ids[entry]), vectors[row].tolist())
            for entry, row in zip(
                entries.tolist(), index.passages.vector_start[entries].tolist(), strict=True
            )
        ),
        "edges": sorted(_edges_of(snapshot)),
        "mentioned": {
            spelled[name]: (int(counts.mention_counts[name]), bool(counts.joins_documents[name]))
            for name in names.tolist()
        },
        "about": {
            spelled[name]: sorted(ids[snapshot.find_by_topic(name)].tolist())
            for name in names.tolist()
        },
        "mentions": sorted(
            (spelled[names[of]], int(ids[entry]), times, vectors[row].tolist())
            for of, entry, times, row in zip(
                mentions.name_position.tolist(),
                mentions.passage_row.tolist(),
                mentions.weight.tolist(),
                mentions.vector_row.tolist(),
                strict=True,
            )
        ),
        "links": sorted(
            (int(ids[start]), int(ids[end]), index.link_texts[link], back)
            for start, end, link, back in zip(
                links.start.tolist(),
                links.end.tolist(),
                links.link_row.tolist(),
                links.is_backward.tolist(),
                strict=True,
            )
        ),
    }


def _edges_of(snapshot: Snapshot) -> Iterator[tuple[object, ...]]:
    """The questions, similarity, passages and vector of each edge."""
    index, ids, edges = snapshot.index, snapshot.passage_ids, snapshot.list_edges()
    asked, answered, vectors = index.outgoing, index.incoming, exact_vectors(index)
    ends = edges.source_question.tolist(), edges.target_question.tolist()
    for question, answer, similarity in zip(*ends, edges.similarity.tolist(), strict=True):
        yield (
            int(asked.id[question]),
            int(answered.id[answer]),
            similarity,
            int(ids[asked.passage_row[question]]),
            int(ids[answered.passage_row[answer]]),
            vectors[asked.vector_row[question]].tolist(),
        )
