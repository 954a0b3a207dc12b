"""Reads the documents, occurrences, matches and questions in force at a version."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from store.conflict_copies import is_conflict_copy
from store.contract import Connection
from store.records import (
    ALIVE,
    Direction,
    Document,
    Link,
    Match,
    Occurrence,
    PassageId,
    QuestionId,
)
from store.sources import compute_row_limit, encode_names, read_rows_under
from store.visibility import Mask, hides

_FIRST_HEADING = (
    "(SELECT p.heading FROM placement AS o JOIN passage AS p ON p.id = o.passage"
    " WHERE o.document = d.id ORDER BY o.ordinal LIMIT 1)"
)


@dataclass(frozen=True, slots=True)
class Place:
    """An occurrence of a passage, with the source name, path and media type of its document.

    `origin` is the source's description of the document's revision, and `row` is the revision's row
    id.
    """

    source: str
    document: str
    media_type: str
    first_line: int
    last_line: int
    origin: dict[str, str] = field(default_factory=dict)
    row: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A document in a list. `title` is the outermost heading of its first passage."""

    source: str
    path: str
    title: str | None
    passages: int


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches in force, as columns of equal length: ids are int64, similarity is float64."""

    question: NDArray[np.int64]
    target: NDArray[np.int64]
    similarity: NDArray[np.float64]

    def to_records(self) -> list[Match]:
        return [
            Match(QuestionId(question), QuestionId(target), similarity)
            for question, target, similarity in zip(
                self.question.tolist(),
                self.target.tolist(),
                self.similarity.tolist(),
                strict=True,
            )
        ]


def read_matches_at(connection: Connection, version: int) -> Matches:
    """Return the matches in force at a version, ordered by outgoing question."""
    rows = connection.execute(
        f"SELECT question, target, similarity FROM match {connection.dialect.unindexed}"
        " WHERE born <= ?1 AND ?1 < died ORDER BY question",
        [version],
    ).fetchall()
    return Matches(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64),
    )


def read_word_counts(
    connection: Connection, version: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids of the passages in force at a version, in ascending order, and the number of
    words in each passage."""
    rows = connection.execute(
        "SELECT p.id, p.words FROM life AS l JOIN passage AS p ON p.id = l.passage"
        " WHERE l.born <= ?1 AND ?1 < l.died ORDER BY p.id",
        [version],
    ).fetchall()
    pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def read_places(
    connection: Connection,
    version: int,
    passages: Iterable[PassageId],
    hidden: Mask = frozenset(),
) -> dict[PassageId, list[Place]]:
    """Return all occurrences of each passage at a version, ordered by source, path and line.

    Occurrences in conflict copies come last. Occurrences in hidden documents are left out.
    """
    rows = connection.execute(
        "SELECT p.passage, s.name, d.path, d.media_type, d.origin, p.first_line, p.last_line, d.id"
        " FROM placement AS p"
        " JOIN document AS d ON d.id = p.document JOIN source AS s ON s.id = d.source"
        f" WHERE p.passage IN {connection.dialect.select_ids('?2')}"
        f" AND s.name NOT IN {connection.dialect.select_names('?3')}"
        " AND d.born <= ?1 AND ?1 < d.died ORDER BY s.name, d.path, p.first_line",
        [version, json.dumps(list(passages)), encode_names(hidden)],
    )
    places: dict[PassageId, list[Place]] = {}
    for passage, source, document, media_type, origin, first, last, row in rows:
        if hides(hidden, source, document):
            continue
        place = Place(source, document, media_type, first, last, json.loads(origin), row)
        places.setdefault(PassageId(passage), []).append(place)
    for passage_places in places.values():
        passage_places.sort(key=lambda place: is_conflict_copy(place.document))
    return places


def find_live_holders(
    connection: Connection, passages: Iterable[PassageId]
) -> dict[PassageId, set[tuple[int, str]]]:
    """Return, for each passage, the documents that contain it at the head, as (source id, path)."""
    # Without this clause, SQLite's planner would search all live documents for each passage.
    rows = connection.execute(
        "SELECT p.passage, d.source, d.path FROM placement AS p"
        f" JOIN document AS d {connection.dialect.unindexed} ON d.id = p.document"
        f" WHERE d.died = {ALIVE} AND p.passage IN {connection.dialect.select_ids()}",
        [json.dumps(list(passages))],
    )
    holders: dict[PassageId, set[tuple[int, str]]] = {}
    for passage, source, path in rows:
        holders.setdefault(PassageId(passage), set()).add((source, path))
    return holders


def find_live_passages(
    connection: Connection, documents: Iterable[tuple[int, str]]
) -> set[PassageId]:
    """Return the passages that these documents, given as (source id, path), contain at the head."""
    passages: set[PassageId] = set()
    for source, path in documents:
        rows = connection.execute(
            "SELECT p.passage FROM document AS d JOIN placement AS p ON p.document = d.id"
            f" WHERE d.source = ? AND d.path = ? AND d.died = {ALIVE}",
            [source, path],
        )
        passages.update(PassageId(row[0]) for row in rows)
    return passages


def list_passages(connection: Connection, version: int) -> list[PassageId]:
    """Return the passages that are vertices at a version, in ascending order."""
    rows = connection.execute(
        "SELECT passage FROM life WHERE born <= ?1 AND ?1 < died ORDER BY passage", [version]
    )
    return [PassageId(row[0]) for row in rows]


def find_in_force(connection: Connection, passages: Iterable[PassageId]) -> set[PassageId]:
    """Return the passages among the given ones that are vertices at the head."""
    rows = connection.execute(
        f"SELECT passage FROM life {connection.dialect.force_index('life_alive')}"
        f" WHERE died = {ALIVE} AND passage IN {connection.dialect.select_ids()}",
        [json.dumps(list(passages))],
    )
    return {PassageId(row[0]) for row in rows}


def read_live_documents(
    connection: Connection, source: int, under: Collection[str] | None = None
) -> dict[str, bytes]:
    """Return the content hash of each document of the source at the head, by path. If `under` is
    given, only documents at or below these paths are returned."""
    select, alive = "SELECT t.path, t.content FROM document", f" AND t.died = {ALIVE}"
    return dict(read_rows_under(connection, select, source, under, alive))


def count_live_documents(connection: Connection, source: int) -> int:
    counted = f"SELECT count(*) FROM document WHERE source = ? AND died = {ALIVE}"
    return int(connection.execute(counted, [source]).fetchone()[0])


def read_live_content(connection: Connection, source: int, path: str) -> bytes | None:
    """Return the content hash of a document at the head, or None if the head does not
    contain it."""
    row = connection.execute(
        f"SELECT content FROM document WHERE source = ? AND path = ? AND died = {ALIVE}",
        [source, path],
    ).fetchone()
    return row[0] if row else None


def read_content_hash(connection: Connection, document: int) -> bytes | None:
    """Return the content hash of the document with this row id, or None if the row was deleted."""
    row = connection.execute("SELECT content FROM document WHERE id = ?", [document]).fetchone()
    return row[0] if row else None


def read_live_document(connection: Connection, source: int, path: str) -> Document | None:
    """Return a document at the head with its occurrences, or None if the head does not
    contain it."""
    documents = _read_documents(connection, f"path = ?2 AND died = {ALIVE}", [source, path])
    return documents[0] if documents else None


def list_documents(connection: Connection, version: int, source: int) -> list[Document]:
    """Return the documents of a source at a version with their occurrences, ordered by path."""
    return _read_documents(connection, "born <= ?2 AND ?2 < died", [source, version])


def _read_documents(connection: Connection, where: str, values: Sequence[object]) -> list[Document]:
    rows = connection.execute(
        "SELECT id, source, path, content, media_type, names, origin, properties FROM document"
        f" WHERE source = ?1 AND {where} ORDER BY path",
        values,
    ).fetchall()
    return [
        Document(
            source,
            path,
            content,
            media_type,
            _read_occurrences(connection, row_id),
            read_names(names),
            origin,
            read_properties(properties),
        )
        for row_id, source, path, content, media_type, names, origin, properties in rows
    ]


def _read_occurrences(connection: Connection, document: int) -> tuple[Occurrence, ...]:
    rows = connection.execute(
        "SELECT passage, first_line, last_line, links FROM placement WHERE document = ?"
        " ORDER BY ordinal",
        [document],
    )
    return tuple(Occurrence(PassageId(row[0]), row[1], row[2], read_links(row[3])) for row in rows)


def list_documents_after(
    connection: Connection,
    version: int,
    after: tuple[str, str],
    limit: int,
    *,
    source: str | None = None,
    under: str | None = None,
    hidden: Mask = frozenset(),
) -> list[DocumentEntry]:
    """Return the next `limit` documents of a version, ordered by source name and path. `after` is
    the (source name, path) of the last document before them.

    If given, only documents of `source` and in the folder `under` are listed. Hidden documents are
    left out.
    """
    entries = list[DocumentEntry]()
    while len(entries) < limit:
        page = _read_documents_page(connection, version, after, limit, source, under, hidden)
        entries += [entry for entry in page if not hides(hidden, entry.source, entry.path)]
        if len(page) < limit:
            break
        after = page[-1].source, page[-1].path
    return entries[:limit]


def _read_documents_page(
    connection: Connection,
    version: int,
    after: tuple[str, str],
    limit: int,
    source: str | None,
    under: str | None,
    hidden: Mask,
) -> list[DocumentEntry]:
    rows = connection.execute(
        "SELECT s.name, d.path,"
        " (SELECT count(DISTINCT passage) FROM placement WHERE document = d.id),"
        f" {_FIRST_HEADING}"
        f" FROM source AS s {connection.dialect.first_join} document AS d ON d.source = s.id"
        " WHERE d.born <= ?1 AND ?1 < d.died AND (s.name, d.path) > (?2, ?3)"
        f" AND s.name NOT IN {connection.dialect.select_names('?4')}"
        " AND (?5 IS NULL OR s.name = ?5)"
        " AND (?6 IS NULL OR d.path = ?6 OR substr(d.path, 1, length(?6) + 1) = ?6 || '/')"
        " ORDER BY s.name, d.path LIMIT ?7",
        [version, *after, encode_names(hidden), source, under, limit],
    ).fetchall()
    return [
        DocumentEntry(name, path, next(iter(json.loads(heading or "[]")), None), passages)
        for name, path, passages, heading in rows
    ]


def read_titles(connection: Connection, documents: Collection[int]) -> dict[int, str | None]:
    """Return the first heading of each document by its row id. Purged documents are left out."""
    rows = connection.execute(
        f"SELECT d.id, {_FIRST_HEADING} FROM document AS d"
        f" WHERE d.id IN {connection.dialect.select_ids('?1')}",
        [json.dumps(list(documents))],
    )
    return {row: next(iter(json.loads(heading or "[]")), None) for row, heading in rows}


Contents = dict[tuple[str, str], bytes]
"""Documents by source name and path, with their content hashes."""


def read_touched_contents(
    connection: Connection, number: int, hidden: Mask, limit: int
) -> tuple[Contents, Contents] | None:
    """Return the content hashes of the revisions that a version ended, and of those it began.

    Both map (source name, path) to the hash. If a document was reloaded without a difference, its
    revisions are left out. Returns None if the version ended and began more than `limit` revisions
    or none, for example because gc has deleted its rows.
    """
    cursor = connection.execute(
        "SELECT s.name, d.path, d.content, d.born, d.digest FROM document AS d"
        " JOIN source AS s ON s.id = d.source WHERE (d.born = ?1 OR d.died = ?1)"
        f" AND s.name NOT IN {connection.dialect.select_names('?2')} LIMIT ?3",
        [number, encode_names(hidden), compute_row_limit(hidden, limit + 1)],
    )
    rows = [*islice((row for row in cursor if not hides(hidden, row[0], row[1])), limit + 1)]
    if not 0 < len(rows) <= limit:
        return None
    ended = {(row[0], row[1]): row for row in rows if row[3] != number}
    begun = {(row[0], row[1]): row for row in rows if row[3] == number}
    equal = {key for key in ended.keys() & begun.keys() if ended[key][4] == begun[key][4]}
    return (
        {key: row[2] for key, row in ended.items() if key not in equal},
        {key: row[2] for key, row in begun.items() if key not in equal},
    )


def list_documents_with_origin(
    connection: Connection, version: int, paths: Collection[str]
) -> list[tuple[str, str, dict[str, str], tuple[str, ...]]]:
    """Return the documents of a version at these paths that have an origin, such as emails.

    Each is a tuple of source name, path, origin and the heading path of its first passage.
    """
    rows = connection.execute(
        "SELECT s.name, d.path, d.origin,"
        f" {_FIRST_HEADING}"
        f" FROM source AS s {connection.dialect.first_join} document AS d ON d.source = s.id"
        f" WHERE d.path IN {connection.dialect.select_names('?2')} AND d.born <= ?1 AND ?1 < d.died"
        " AND d.origin <> '{}'",
        [version, json.dumps(sorted(paths))],
    )
    return [
        (name, path, json.loads(origin), tuple(json.loads(heading or "[]")))
        for name, path, origin, heading in rows
    ]


def read_document(
    connection: Connection, version: int, source: str, path: str
) -> tuple[str, tuple[Occurrence, ...]] | None:
    """Return a document's media type and occurrences at a version, or None if the
    version lacks it."""
    row = connection.execute(
        "SELECT d.id, d.media_type FROM document AS d JOIN source AS s ON s.id = d.source"
        " WHERE s.name = ?2 AND d.path = ?3 AND d.born <= ?1 AND ?1 < d.died",
        [version, source, path],
    ).fetchone()
    return (row[1], _read_occurrences(connection, row[0])) if row else None


def list_revisions(
    connection: Connection, source: str, path: str, limit: int
) -> list[tuple[int, int]]:
    """Return the versions in which each revision of a document began and ended, newest first.

    If a revision is still in force, its end is ALIVE.
    """
    rows = connection.execute(
        "SELECT d.born, d.died FROM document AS d JOIN source AS s ON s.id = d.source"
        " WHERE s.name = ?1 AND d.path = ?2 ORDER BY d.born DESC LIMIT ?3",
        [source, path, limit],
    )
    return [(born, died) for born, died in rows]


def read_questions(
    connection: Connection, version: int, passage: PassageId
) -> list[tuple[Direction, str]]:
    """Return the questions of a passage at a version: first the incoming, then the outgoing
    questions, each in order of creation."""
    rows = connection.execute(
        "SELECT q.direction, q.text FROM life AS l JOIN question AS q"
        " ON q.question_set = l.question_set"
        " WHERE l.passage = ?2 AND l.born <= ?1 AND ?1 < l.died ORDER BY q.direction, q.ordinal",
        [version, passage],
    )
    return [(Direction(row[0]), row[1]) for row in rows]


def encode_links(links: Sequence[Link]) -> str:
    """Encode links for the column `placement.links`."""
    return json.dumps([(link.target, link.text) for link in links], ensure_ascii=False)


def read_links(column: str) -> tuple[Link, ...]:
    """Decode the column `placement.links`."""
    return tuple(Link(target, shown) for target, shown in json.loads(column))


def encode_properties(properties: Sequence[tuple[str, str]]) -> str:
    """Encode properties for the column `document.properties`."""
    return json.dumps(properties, ensure_ascii=False)


def read_properties(column: str) -> tuple[tuple[str, str], ...]:
    """Decode the column `document.properties`."""
    return tuple((name, value) for name, value in json.loads(column))


def read_names(column: str) -> tuple[str, ...]:
    """Decode the column `document.names`."""
    return tuple(json.loads(column))
