"""Versions: finding one, and committing the next.

commit() is the only place where a version comes to be. All of it is one transaction, so a version
is there whole or not at all.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from store.database import Connection, transaction
from store.digests import PLACE_COLUMNS, document_digest
from store.errors import NoSuchVersion
from store.records import ALIVE, Change, Cut, Document, Match, PassageId, QuestionId, Seen, Version

_COLUMNS = (
    "id, created_ms, reason, recipe, rules, documents, passages, words, matches, edge_budget, "
    "cut_similarity, cut_question, counters"
)


def head(connection: Connection) -> Version | None:
    """The newest version; None in a store that has none yet."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM version ORDER BY id DESC LIMIT 1").fetchone()
    return _version(row) if row else None


def version(connection: Connection, number: int) -> Version:
    """The version of that number. Raises NoSuchVersion."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM version WHERE id = ?", [number]).fetchone()
    if row:
        return _version(row)
    newest = head(connection)
    raise NoSuchVersion(
        f"Cannot read version {number}",
        f"the newest is {newest.id}" if newest else "nothing was indexed yet",
        "`hopsyncd status` names the newest version",
    )


def _version(row: Sequence[Any]) -> Version:
    *plain, cut_similarity, cut_question, counters = row
    cut = None if cut_question is None else Cut(cut_similarity, QuestionId(cut_question))
    fields = dict(zip(_COLUMNS.split(", "), plain, strict=False))
    return Version(**fields, cut=cut, counters=json.loads(counters))


def commit(connection: Connection, change: Change, created_ms: int) -> Version:
    """Write the next version: every interval the change opens or closes, and the version row."""
    with transaction(connection):
        before = head(connection)
        number = before.id + 1 if before else 1
        _put_seen(connection, change.seen, change.unseen)
        touched = [
            *change.documents_gone,
            *((new.source, new.path) for new in change.documents_new),
        ]
        closed = _close_documents(connection, number, touched)
        connection.executemany("DELETE FROM pin WHERE source = ? AND path = ?", touched)
        connection.executemany(
            "INSERT INTO pin VALUES (?, ?, ?)", [(p.source, p.path, p.disk) for p in change.pins]
        )
        for document in change.documents_new:
            _insert_document(connection, number, document)
        words = _words_of(connection, (passage for passage, _ in change.lives_begun))
        words -= _words_of(connection, change.lives_ended)
        _change_lives(connection, number, change)
        _change_matches(connection, number, change.matches_ended, change.matches_begun)
        after = Version(
            id=number,
            created_ms=created_ms,
            reason=change.reason,
            recipe=change.recipe,
            rules=change.rules,
            documents=(before.documents if before else 0) + len(change.documents_new) - closed,
            passages=(before.passages if before else 0)
            + len(change.lives_begun)
            - len(change.lives_ended),
            words=(before.words if before else 0) + words,
            matches=change.matches,
            edge_budget=change.edge_budget,
            cut=change.cut,
            counters=change.counters,
        )
        _insert_version(connection, after)
    return after


def _insert_version(connection: Connection, new: Version) -> None:
    connection.execute(
        f"INSERT INTO version ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        [
            new.id,
            new.created_ms,
            new.reason,
            new.recipe,
            new.rules,
            new.documents,
            new.passages,
            new.words,
            new.matches,
            new.edge_budget,
            new.cut.similarity if new.cut else None,
            new.cut.question if new.cut else None,
            json.dumps(new.counters, sort_keys=True),
        ],
    )


def put_seen(
    connection: Connection, seen: Iterable[Seen], unseen: Iterable[tuple[int, str]]
) -> None:
    """Record what a scan saw where no version comes of it: touches and problems."""
    with transaction(connection):
        _put_seen(connection, seen, unseen)


def _put_seen(
    connection: Connection, seen: Iterable[Seen], unseen: Iterable[tuple[int, str]]
) -> None:
    connection.executemany("DELETE FROM seen WHERE source = ? AND path = ?", list(unseen))
    connection.executemany(
        "INSERT OR REPLACE INTO seen (source, path, revision, content, why, hint)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [(s.source, s.path, s.revision, s.content, s.why, s.hint) for s in seen],
    )


def _close_documents(connection: Connection, number: int, keys: Sequence[tuple[int, str]]) -> int:
    cursor = connection.executemany(
        f"UPDATE document SET died = {number} WHERE source = ? AND path = ? AND died = {ALIVE}",
        keys,
    )
    return max(cursor.rowcount, 0)


def _insert_document(connection: Connection, number: int, document: Document) -> None:
    own = (document.source, document.path, document.content, document.media_type)
    places = [(place.passage, place.first_line, place.last_line) for place in document.placements]
    cursor = connection.execute(
        "INSERT INTO document (source, path, content, media_type, born, died, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [*own, number, ALIVE, document_digest(*own, places)],
    )
    connection.executemany(
        f"INSERT INTO placement (document, ordinal, {PLACE_COLUMNS}) VALUES (?, ?, ?, ?, ?)",
        [(cursor.lastrowid, ordinal, *place) for ordinal, place in enumerate(places)],
    )


def _words_of(connection: Connection, passages: Iterable[PassageId]) -> int:
    row = connection.execute(
        "SELECT coalesce(sum(words), 0) FROM passage WHERE id IN (SELECT value FROM json_each(?))",
        [json.dumps(list(passages))],
    ).fetchone()
    return int(row[0])


def _change_lives(connection: Connection, number: int, change: Change) -> None:
    for passage in change.lives_ended:
        life, recipe = connection.execute(
            "SELECT l.id, s.recipe FROM life AS l JOIN question_set AS s ON s.id = l.question_set"
            f" WHERE l.passage = ? AND l.died = {ALIVE}",
            [passage],
        ).fetchone()
        connection.execute("UPDATE life SET died = ? WHERE id = ?", [number, life])
        connection.execute(
            f"UPDATE passage_vector_{recipe} SET died = ? WHERE life = ?", [number, life]
        )
    for passage, question_set in change.lives_begun:
        cursor = connection.execute(
            "INSERT INTO life (passage, born, died, question_set) VALUES (?, ?, ?, ?)",
            [passage, number, ALIVE, question_set],
        )
        vectors, dimensions = connection.execute(
            "SELECT s.vectors, r.dimensions FROM question_set AS s"
            " JOIN recipe AS r ON r.id = s.recipe WHERE s.id = ?",
            [question_set],
        ).fetchone()
        vector = np.frombuffer(vectors, dtype="<i2", count=dimensions).astype("<f4")
        if not vector.any():  # its distances would be NaN, which breaks the order of a search
            continue
        connection.execute(
            f"INSERT INTO passage_vector_{change.recipe} (life, embedding, born, died, passage)"
            " VALUES (?, ?, ?, ?, ?)",
            [cursor.lastrowid, vector.tobytes(), number, ALIVE, passage],
        )


def _change_matches(
    connection: Connection, number: int, ended: Iterable[QuestionId], begun: Iterable[Match]
) -> None:
    connection.executemany(
        f"UPDATE match SET died = {number} WHERE question = ? AND died = {ALIVE}",
        [(question,) for question in ended],
    )
    connection.executemany(
        "INSERT INTO match (question, born, died, target, similarity)"
        f" VALUES (?, {number}, {ALIVE}, ?, ?)",
        [(match.question, match.target, match.similarity) for match in begun],
    )
