"""The commit point: `commit_version` writes a version and all its changes in one transaction.

Only write_version() inserts a version. The version exists once its transaction is committed. So a
version exists completely or not at all.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from store.content import build_full_text
from store.contract import Connection
from store.digests import PLACE_COLUMNS, compute_document_digest
from store.reads import encode_links, encode_properties
from store.records import (
    ALIVE,
    Change,
    Document,
    Match,
    Passage,
    PassageId,
    QuestionId,
    Seen,
    Version,
    count_words,
)
from store.transactions import count_history_change, read_lost_version, transaction
from store.versions import CHANGES, COLUMNS, read_head, read_version

_MATCHES_AT_ONCE = 1000  # matches ended or begun per statement


def commit_version(connection: Connection, change: Change, created_ms: int) -> Version:
    """Commit the next version: the version's row, and all intervals that the change
    begins or ends."""
    with transaction(connection):
        return write_version(connection, change, created_ms)


def commit_rebuilt_version(connection: Connection, change: Change, created_ms: int) -> Version:
    """Recount the words of all passages, and commit the change as the next version in the same
    transaction.

    The documents, passages and words of the new version are recounted too.
    """
    with transaction(connection):
        count_history_change(connection)
        _recount_words(connection)
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
        return read_version(connection, number)


def write_version(connection: Connection, change: Change, created_ms: int) -> Version:
    """Write a version like commit_version(), but inside the caller's transaction."""
    before = read_head(connection)
    number = max(before.id if before else 0, read_lost_version(connection)) + 1
    _put_seen(connection, change.seen, change.unseen)
    new_keys = [(new.source, new.path) for new in change.documents_new]
    removed_documents = sorted(set(change.documents_gone) - set(new_keys))
    removed = _close_documents(connection, number, removed_documents)
    replaced = _close_documents(connection, number, new_keys)
    connection.executemany(
        "DELETE FROM pin WHERE source = ? AND path = ?", [*removed_documents, *new_keys]
    )
    connection.executemany(
        "INSERT INTO pin VALUES (?, ?, ?)", [(p.source, p.path, p.disk) for p in change.pins]
    )
    for document in change.documents_new:
        _insert_document(connection, number, document)
    changed = replaced - (_count_unchanged_revisions(connection, number) if replaced else 0)
    words = _count_words(connection, (passage for passage, _ in change.passages_begun))
    words -= _count_words(connection, change.passages_ended)
    _change_intervals(connection, number, change)
    _change_matches(connection, number, change.matches_ended, change.matches_begun)
    after = Version(
        id=number,
        created_ms=created_ms,
        reason=change.reason,
        generation=change.generation,
        rules=change.rules,
        documents=(before.documents if before else 0) + len(new_keys) - replaced - removed,
        passages=(before.passages if before else 0)
        + len(change.passages_begun)
        - len(change.passages_ended),
        words=(before.words if before else 0) + words,
        matches=change.matches,
        edge_budget=change.edge_budget,
        edge_threshold=change.edge_threshold,
        counters=change.counters,
    )
    begun, ended = {passage for passage, _ in change.passages_begun}, set(change.passages_ended)
    passages = len(begun - ended), len(ended - begun)
    _insert_version(connection, after, (len(new_keys) - replaced, changed, removed, *passages))
    return after


def _insert_version(connection: Connection, new: Version, changes: Sequence[int]) -> None:
    """Insert the version's row. `changes` are the values of the columns named in CHANGES."""
    connection.execute(
        f"INSERT INTO version ({COLUMNS}, {CHANGES}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        [
            new.id,
            new.created_ms,
            new.reason,
            new.generation,
            new.rules,
            new.documents,
            new.passages,
            new.words,
            new.matches,
            new.edge_budget,
            new.edge_threshold.similarity if new.edge_threshold else None,
            new.edge_threshold.question if new.edge_threshold else None,
            json.dumps(new.counters, sort_keys=True),
            *changes,
        ],
    )


def put_seen(
    connection: Connection, seen: Sequence[Seen], unseen: Sequence[tuple[int, str]]
) -> None:
    """Record the items of a scan that creates no version, for example because files only have a new
    modification time or problems. `unseen` are the (source id, path) pairs of items that are
    gone."""
    with transaction(connection):
        _put_seen(connection, seen, unseen)


def _put_seen(
    connection: Connection, seen: Sequence[Seen], unseen: Sequence[tuple[int, str]]
) -> None:
    """Record the items of a scan. Drop the pin of a document whose file was changed or deleted."""
    connection.executemany("DELETE FROM seen WHERE source = ? AND path = ?", unseen)
    connection.executemany("DELETE FROM pin WHERE source = ? AND path = ?", unseen)
    connection.executemany(
        "DELETE FROM pin WHERE source = ? AND path = ? AND disk IS DISTINCT FROM ?",
        [(s.source, s.path, s.content) for s in seen if s.content is not None],
    )
    connection.executemany(
        "INSERT INTO seen (source, path, revision, content, why, hint, skipped)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (source, path) DO UPDATE SET revision = excluded.revision,"
        " content = excluded.content, why = excluded.why, hint = excluded.hint,"
        " skipped = coalesce(excluded.skipped, seen.skipped)",
        [(s.source, s.path, s.revision, s.content, s.why, s.hint, s.skipped) for s in seen],
    )


def _close_documents(connection: Connection, number: int, keys: Sequence[tuple[int, str]]) -> int:
    cursor = connection.executemany(
        f"UPDATE document SET died = {number} WHERE source = ? AND path = ? AND died = {ALIVE}",
        keys,
    )
    return max(cursor.rowcount, 0)


def _count_unchanged_revisions(connection: Connection, number: int) -> int:
    """Count the documents that the version replaced with a revision that has the same digest."""
    (count,) = connection.execute(
        "SELECT count(*) FROM document AS d JOIN document AS o"
        " ON o.source = d.source AND o.path = d.path AND o.died = d.born"
        " WHERE d.born = ? AND o.digest = d.digest",
        [number],
    ).fetchone()
    return int(count)


def _insert_document(connection: Connection, number: int, document: Document) -> None:
    names = json.dumps(document.names, ensure_ascii=False)
    columns = (
        document.source,
        document.path,
        document.content,
        document.media_type,
        names,
        document.origin,
        encode_properties(document.properties),
    )
    places = [
        (place.passage, place.first_line, place.last_line, encode_links(place.links))
        for place in document.occurrences
    ]
    (row_id,) = connection.execute(
        "INSERT INTO document"
        " (source, path, content, media_type, names, origin, properties, born, died, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        [*columns, number, ALIVE, compute_document_digest(*columns, places)],
    ).fetchone()
    connection.executemany(
        f"INSERT INTO placement (document, ordinal, {PLACE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        [(row_id, ordinal, *place) for ordinal, place in enumerate(places)],
    )


def _count_words(connection: Connection, passages: Iterable[PassageId]) -> int:
    row = connection.execute(
        "SELECT coalesce(sum(words), 0) FROM passage"
        f" WHERE id IN {connection.dialect.select_ids()}",
        [json.dumps(list(passages))],
    ).fetchone()
    return int(row[0])


def _change_intervals(connection: Connection, number: int, change: Change) -> None:
    ended = connection.executemany(
        f"UPDATE life SET died = {number} WHERE passage = ? AND died = {ALIVE}",
        [(passage,) for passage in change.passages_ended],
    )
    assert max(ended.rowcount, 0) == len(change.passages_ended), "each is in force"
    connection.executemany(
        f"INSERT INTO life (passage, born, died, question_set) VALUES (?, {number}, {ALIVE}, ?)",
        change.passages_begun,
    )


def _change_matches(
    connection: Connection, number: int, ended: Iterable[QuestionId], begun: Iterable[Match]
) -> None:
    """End and begin matches in batches, ordered by question, so that each page is written once."""
    ending = sorted(ended)
    beginning = sorted((match.question, match.target, match.similarity) for match in begun)
    done = 0
    for start in range(0, max(len(beginning), 1), _MATCHES_AT_ONCE):
        part = beginning[start : start + _MATCHES_AT_ONCE]
        is_last = start + _MATCHES_AT_ONCE >= len(beginning)
        end = len(ending) if is_last else bisect_right(ending, part[-1][0])
        connection.executemany(
            f"UPDATE match SET died = {number} WHERE question = ? AND died = {ALIVE}",
            [(question,) for question in ending[done:end]],
        )
        connection.executemany(
            "INSERT INTO match (question, born, died, target, similarity)"
            f" VALUES (?, {number}, {ALIVE}, ?, ?)",
            part,
        )
        done = end


def _recount_words(connection: Connection) -> None:
    rows = connection.execute("SELECT id, heading, text, words FROM passage ORDER BY id")
    for row_id, heading, text, words in rows.fetchall():
        counted = count_words(build_full_text(Passage(tuple(json.loads(heading)), text)))
        if counted != words:
            connection.execute("UPDATE passage SET words = ? WHERE id = ?", [counted, row_id])
