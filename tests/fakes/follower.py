"""A copy of the store that only its feed keeps, to be compared with reading the store itself."""

from dataclasses import dataclass, field

from store.records import PassageId
from store.sqlite.changes import Changes, DocumentBegun, Ended, Stamp, changes, stamp
from store.sqlite.content import sets_at
from store.sqlite.database import Connection
from store.sqlite.reads import homes_at, matches_at, words_at
from store.sqlite.versions import head
from store.sqlite.visible import links_at, named_documents_at, opening_passages_at

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
        newest = head(connection)
        if newest is None:
            return
        if stamp(connection, self.stamp.version) != self.stamp and self.stamp != NOWHERE:
            self.began_again += 1
            self.__init__(began_again=self.began_again)  # type: ignore[misc]
        self.apply(changes(connection, self.stamp.version, newest.id))
        self.stamp = stamp(connection, newest.id)

    def apply(self, fed: Changes) -> None:
        for known, ended in ((self.lives, fed.passages_ended), (self.matches, fed.matches_ended)):
            for key, died in pairs(ended):
                (one,) = (row for row in known[key] if row[-2] <= fed.after < row[-1])
                one[-1] = died
        for key, died in pairs(fed.documents_ended):
            self.documents[key][1][-1] = died
        lives, matches = fed.passages_begun, fed.matches_begun
        for known, columns in (
            (self.lives, (lives.passage, lives.question_set, lives.words, lives.born, lives.died)),
            (
                self.matches,
                (matches.question, matches.target, matches.similarity, matches.born, matches.died),
            ),
        ):
            for key, *row in zip(*(column.tolist() for column in columns), strict=True):
                known.setdefault(key, []).append(row)
        for one in fed.documents_begun:
            self.documents[one.id] = one, [one.born, one.died]

    def at(self, version: int) -> dict[str, object]:
        """What it has at a version, in the form of `read_at`."""
        lives = at(self.lives, version)
        documents = sorted(
            (one for one, row in self.documents.values() if row[0] <= version < row[1]),
            key=lambda one: (one.source, one.path),
        )
        homes: dict[PassageId, int] = {}
        for one in documents:
            for passage, _ in one.placements:
                homes.setdefault(passage, one.id)
        return {
            "sets": sorted(row[0] for row in lives.values()),
            "words": sorted((passage, row[1]) for passage, row in lives.items()),
            "matches": sorted((one, *row[:2]) for one, row in at(self.matches, version).items()),
            "homes": sorted(homes.items()),
            "named": [(one.id, one.source, one.path, one.names) for one in documents],
            "links": [
                (one.id, passage, link)
                for one in documents
                for passage, links in one.placements
                for link in links
            ],
            "opening": sorted(
                (one.path, passage) for one in documents for passage, _ in one.placements[:OPENING]
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
    matches = matches_at(connection, version)
    columns = (matches.question, matches.target, matches.similarity)
    opening = opening_passages_at(connection, version, OPENING)
    return {
        "sets": sorted(one.id for one in sets_at(connection, version)),
        "words": tuples(words_at(connection, version)),
        "matches": tuples(columns),
        "homes": tuples(homes_at(connection, version)),
        "named": [
            (one.id, one.source, one.path, one.names)
            for one in named_documents_at(connection, version)
        ],
        "links": [(one.document, one.passage, one.link) for one in links_at(connection, version)],
        "opening": sorted((path, passage) for path, _, passage in opening),
    }


def tuples(columns: tuple[object, ...]) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.tolist() for column in columns), strict=True))  # type: ignore[attr-defined]
