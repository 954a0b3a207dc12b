"""A copy of the store that only its feed keeps, to be compared with reading the store itself."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from store.changes import Changes, DocumentBegun, Ended, Left, Stamp, read_changes, stamp
from store.content import read_sets_at
from store.contract import Connection
from store.reads import read_links, read_matches_at, read_names
from store.records import Link, PassageId
from store.sources import encode_names
from store.versions import read_head
from store.visibility import Mask

NOWHERE = Stamp(0, 0, "")
OPENING = 2  # passages of a document
Intervals = dict[int, list[list[float]]]


@dataclass(slots=True)
class Follower:
    """Intervals by key, each as [..., born, died]; `began_again` counts what no feed could tell."""

    stamp: Stamp = NOWHERE
    lives: Intervals = field(default_factory=dict)
    matches: Intervals = field(default_factory=dict)
    documents: dict[int, tuple[DocumentBegun, list[float]]] = field(default_factory=dict)
    began_again: int = 0

    def follow(self, connection: Connection) -> None:
        """Come to the head."""
        newest = read_head(connection)
        if newest is None:
            return
        if stamp(connection, self.stamp.version) != self.stamp and self.stamp != NOWHERE:
            self.began_again += 1
            self.__init__(began_again=self.began_again)  # type: ignore[misc]
        self.apply(read_changes(connection, self.stamp.version, newest.id))
        self.stamp = stamp(connection, newest.id)

    def apply(self, fed: Changes) -> None:
        if fed.left:
            self._end_deleted(fed.left, fed.after)
        for known, ended in ((self.lives, fed.passages_ended), (self.matches, fed.matches_ended)):
            for key, died in pairs(ended):
                (one,) = (row for row in known[key] if row[-2] <= fed.after < row[-1])
                one[-1] = died
        for key, died in pairs(fed.documents_ended):
            self.documents[key][1][-1] = died
        lives, matches = fed.passages_begun, fed.matches_begun
        for known, columns in (
            (self.lives, (lives.passage, lives.question_set, lives.born, lives.died)),
            (
                self.matches,
                (matches.question, matches.target, matches.similarity, matches.born, matches.died),
            ),
        ):
            for key, *row in zip(*(column.tolist() for column in columns), strict=True):
                known.setdefault(key, []).append(row)
        for document in fed.documents_begun:
            self.documents[document.id] = document, [document.born, document.died]

    def _end_deleted(self, left: Left, after: int) -> None:
        keyed = [(self.lives, left.passages), (self.matches, left.matches)]
        rows = [
            (key, row, {*there.tolist()})
            for known, there in keyed
            for key, rows in known.items()
            for row in rows
        ]
        there = {*left.documents.tolist()}
        rows += [(key, row, there) for key, (_, row) in self.documents.items()]
        for key, row, there in rows:
            if left.since < row[-2] <= after < row[-1] and key not in there:
                row[-1] = after + 1

    def at(self, version: int) -> dict[str, object]:
        """What it has at a version, in the form of `read_at`."""
        lives = at(self.lives, version)
        documents = sorted(
            (one for one, row in self.documents.values() if row[0] <= version < row[1]),
            key=lambda one: (one.source, one.path),
        )
        homes: dict[PassageId, int] = {}
        for one in documents:
            for passage, _ in one.occurrences:
                homes.setdefault(passage, one.id)
        return {
            "sets": sorted(row[0] for row in lives.values()),
            "matches": sorted((one, *row[:2]) for one, row in at(self.matches, version).items()),
            "homes": sorted(homes.items()),
            "named": [
                (document.id, document.source, document.path, document.names)
                for document in documents
            ],
            "links": [
                (document.id, passage, link)
                for document in documents
                for passage, links in document.occurrences
                for link in links
            ],
            "opening": sorted(
                (document.path, passage)
                for document in documents
                for passage, _ in document.occurrences[:OPENING]
            ),
        }


def pairs(ended: Ended) -> list[tuple[int, int]]:
    return list(zip(ended.key.tolist(), ended.died.tolist(), strict=True))


def at(known: Intervals, version: int) -> dict[int, list[float]]:
    """The one row of each key that is in force."""
    found = {
        key: [row for row in rows if row[-2] <= version < row[-1]] for key, rows in known.items()
    }
    assert all(len(rows) <= 1 for rows in found.values())
    return {key: rows[0] for key, rows in found.items() if rows}


def read_at(connection: Connection, version: int) -> dict[str, object]:
    """What an index in memory reads of the store at a version."""
    matches = read_matches_at(connection, version)
    columns = (matches.question, matches.target, matches.similarity)
    opening = opening_passages_at(connection, version, OPENING)
    return {
        "sets": sorted(question_set.id for question_set in read_sets_at(connection, version)),
        "matches": tuples(columns),
        "homes": tuples(homes_at(connection, version)),
        "named": [
            (document.id, document.source, document.path, document.names)
            for document in named_documents_at(connection, version)
        ],
        "links": [
            (link.document, link.passage, link.link) for link in links_at(connection, version)
        ],
        "opening": sorted((path, passage) for path, _, passage in opening),
    }


def tuples(columns: tuple[object, ...]) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.tolist() for column in columns), strict=True))  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """A document in force, by its row id, and what it may be called."""

    id: int
    source: str
    path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacedLink:
    """A link with the document and the passage that it stands in."""

    document: int
    passage: PassageId
    link: Link


def visible_documents(connection: Connection) -> str:
    """A FROM clause for the documents in force at the version ?1, without the sources in ?2."""
    return (
        "document AS d JOIN source AS s ON s.id = d.source"
        f" WHERE s.name NOT IN {connection.dialect.select_names('?2')}"
        " AND d.born <= ?1 AND ?1 < d.died"
    )


def links_at(connection: Connection, version: int, hidden: Mask = frozenset()) -> list[PlacedLink]:
    """The links of all documents at a version, by source, path and position."""
    indexed = connection.dialect.force_index("placement_with_links")
    rows = connection.execute(
        f"SELECT d.id, p.passage, p.links FROM placement AS p {indexed},"
        f" {visible_documents(connection)} AND d.id = p.document AND p.links <> '[]'"
        " ORDER BY s.name, d.path, p.ordinal",
        [version, encode_names(hidden)],
    )
    return [
        PlacedLink(document, PassageId(passage), link)
        for document, passage, links in rows
        for link in read_links(links)
    ]


def named_documents_at(
    connection: Connection, version: int, hidden: Mask = frozenset()
) -> list[NamedDocument]:
    """All documents at a version, by source and path."""
    rows = connection.execute(
        f"SELECT d.id, s.name, d.path, d.names FROM {visible_documents(connection)}"
        " ORDER BY s.name, d.path",
        [version, encode_names(hidden)],
    )
    return [
        NamedDocument(id_, source, path, read_names(names)) for id_, source, path, names in rows
    ]


def opening_passages_at(
    connection: Connection, version: int, count: int, hidden: Mask = frozenset()
) -> list[tuple[str, str, PassageId]]:
    """The first `count` passages of each document at a version: path, column `names`, passage."""
    rows = connection.execute(
        f"SELECT d.path, d.names, p.passage FROM placement AS p, {visible_documents(connection)}"
        " AND p.document = d.id AND p.ordinal < ?3",
        [version, encode_names(hidden), count],
    )
    return [(path, names, PassageId(passage)) for path, names, passage in rows]


def homes_at(
    connection: Connection, version: int, hidden: Mask = frozenset()
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The passages in force at a version, rising, and the document (row) that each is counted to:
    of those that hold it the first by source and path.

    Documents of `hidden` sources count as if they were not there.
    """
    rows = connection.execute(
        f"SELECT p.passage, d.id FROM placement AS p, {visible_documents(connection)}"
        " AND p.document = d.id"
        " ORDER BY s.name, d.path",
        [version, encode_names(hidden)],
    ).fetchall()
    both = np.array(rows, dtype=np.int64).reshape(-1, 2)
    passages, first = np.unique(both[:, 0], return_index=True)
    return passages, both[first, 1]
