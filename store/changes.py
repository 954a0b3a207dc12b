"""Reads the changes between two versions, to update copies of the database.

A copy is in memory or in another file. Applying `read_changes(connection, after, until)` updates a
copy from version `after` (0: an empty copy) to version `until`, which must be a kept version. Apply
the ended rows first, because a row that began may also have ended. At every kept version, the
updated copy then has the same rows as the database. The cost grows with the number of changes, not
with the size of the database.

Content (texts, questions, vectors) is immutable. So changes contain only ids of content. Read the
content itself with `store.content`.

Garbage collection (gc) deletes rows that are in force at no kept version. Changes do not report
these deletions. A copy may keep the rows, because nobody can query those versions. If `after`
itself was collected, gc may have deleted rows that are still in force in the copy, and their ends
are never reported. `Left` then lists the rows that remain.

Changes do not report purges and rebuilds either. Both change rows of past versions, and therefore
the `stamp`. A copy with an outdated stamp must be recreated from version 0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from store.contract import Connection
from store.reads import read_links, read_names, read_properties
from store.records import ALIVE, Link, PassageId
from store.transactions import compute_version_digest, count_rewrites
from store.versions import read_version

Integers = NDArray[np.int64]

_AT_ONCE = 50_000  # rows fetched per batch


@dataclass(frozen=True, slots=True, eq=False)
class PassagesBegun:
    """The passages that became vertices of the graph, as columns of equal length, in no particular
    order.

    `question_set` is the id of the passage's question set during the interval.
    """

    passage: Integers
    question_set: Integers
    born: Integers
    died: Integers


@dataclass(frozen=True, slots=True, eq=False)
class MatchesBegun:
    """The matches that began, as columns of equal length, in no particular order.

    Matches are candidate edges. The edges of a version are the matches within its edge threshold.
    """

    question: Integers
    target: Integers
    similarity: NDArray[np.float64]
    born: Integers
    died: Integers


@dataclass(frozen=True, slots=True)
class DocumentBegun:
    """A revision of a document that began after the version of the copy. `id` is the revision's row
    id, which is never reused.

    `occurrences` are the passages in document order, each with its links. `origin` comes from the
    source, and `properties` come from the document itself.
    """

    id: int
    source: str
    path: str
    names: tuple[str, ...]
    occurrences: tuple[tuple[PassageId, tuple[Link, ...]], ...]
    born: int
    died: int
    media_type: str
    origin: Mapping[str, str]
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """The keys of rows that were in force at the version of the copy and ended later, and the
    versions that ended them.

    The key of a passage is the passage id, the key of a match is its outgoing question, and the key
    of a document is its row id. At most one row per key is in force at a version.
    """

    key: Integers
    died: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """The remaining rows that began after version `since` and are in force at the copy's version.
    Only needed if the copy's version was collected, because gc may then have deleted other rows
    that are in force at that version.

    The rows are identified by the same keys as in `Ended`. If a row of the copy began in this range
    and is not listed, gc has deleted the row because no kept version needs it. The copy must end
    that row at the version after its own.
    """

    since: int
    passages: Integers
    documents: Integers
    matches: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """The intervals that began or ended after version `after` (0: all), up to version `until`.

    If an interval that began has not ended by `until`, its `died` is ALIVE. `left` is None unless
    `after` was collected.
    """

    after: int
    until: int
    passages_ended: Ended
    documents_ended: Ended
    matches_ended: Ended
    passages_begun: PassagesBegun
    documents_begun: tuple[DocumentBegun, ...]
    matches_begun: MatchesBegun
    left: Left | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identifies the state of the database from which a copy was made.

    `digest` distinguishes versions with the same number in different databases, for example after a
    restore. While the database has the same stamp for the copy's version, the copy is valid and can
    be updated with `changes`.
    """

    version: int
    rewrites: int
    digest: str


def stamp(connection: Connection, number: int) -> Stamp:
    """Return the stamp for a copy of this version (0: an empty copy)."""
    return Stamp(number, count_rewrites(connection), compute_version_digest(connection, number))


def read_changes(connection: Connection, after: int, until: int) -> Changes:
    """Read the changes after version `after`, up to version `until`. Call this function inside a
    snapshot.

    Raises NoSuchVersion unless `until` is a kept version and `after` is 0 or a kept or collected
    version.
    """
    read_version(connection, until)
    since = find_last_kept_before(connection, after)
    span = (after, until)
    ended, begun = read_document_changes(connection, after, until)
    return Changes(
        after,
        until,
        _read_ended(connection, "life", "passage", span),
        ended,
        _read_ended(connection, "match", "question", span),
        _read_passages(connection, span),
        begun,
        _read_matches(connection, span),
        None if since is None else _read_left(connection, since, after),
    )


def find_last_kept_before(connection: Connection, after: int) -> int | None:
    """Return the newest kept version before `after` if `after` was collected, or 0 if no older
    version is kept.

    Returns None if `after` is 0 or a kept version. Raises NoSuchVersion if `after` never existed.
    """
    if not after:
        return None
    row = connection.execute("SELECT collected_ms FROM version WHERE id = ?", [after]).fetchone()
    if row is None or row[0] is None:
        read_version(connection, after)
        return None
    newest_kept = "SELECT coalesce(max(id), 0) FROM version WHERE collected_ms IS NULL AND id < ?"
    return int(connection.execute(newest_kept, [after]).fetchone()[0])


def read_left(connection: Connection, table: str, key: str, since: int, after: int) -> Integers:
    """Return the keys of the rows in force at `after` that began after `since`, in any order."""
    sql = (
        f"SELECT t.{key} FROM {table} AS t {connection.dialect.force_index(f'{table}_born')}"
        " WHERE t.born > ?1 AND t.born <= ?2 AND t.died > ?2"
    )
    (keys,) = _read_columns(connection, sql, (since, after), (np.int64,))
    return keys


def _read_left(connection: Connection, since: int, after: int) -> Left:
    return Left(
        since,
        read_left(connection, "life", "passage", since, after),
        read_left(connection, "document", "id", since, after),
        read_left(connection, "match", "question", since, after),
    )


def read_document_changes(
    connection: Connection, after: int, until: int
) -> tuple[Ended, tuple[DocumentBegun, ...]]:
    """Read only the changes of documents: the revisions that ended and those that began."""
    span = (after, until)
    return _read_ended(connection, "document", "id", span), _read_documents(connection, span)


Span = tuple[int, int]

_BORN = "t.born > ?1 AND t.born <= ?2"
_DIED = f"CASE WHEN t.died <= ?2 THEN t.died ELSE {ALIVE} END"


def _select_begun_rows(connection: Connection, table: str, span: Span) -> str:
    """Return the FROM clause that reads a table's begun rows under the alias `t`. The clause uses
    the index on `born` unless all rows are read."""
    dialect = connection.dialect
    return f"{table} AS t {dialect.force_index(f'{table}_born') if span[0] else dialect.unindexed}"


def _read_ended(connection: Connection, table: str, key: str, span: Span) -> Ended:
    sql = (
        f"SELECT t.{key}, t.died FROM {table} AS t"
        f" {connection.dialect.force_index(f'{table}_died')}"
        f" WHERE t.died > ?1 AND t.died <= ?2 AND t.died < {ALIVE} AND t.born <= ?1"
    )
    return Ended(*_read_columns(connection, sql, span, (np.int64,) * 2))


def _read_passages(connection: Connection, span: Span) -> PassagesBegun:
    sql = (
        f"SELECT t.passage, t.question_set, t.born, {_DIED}"
        f" FROM {_select_begun_rows(connection, 'life', span)} WHERE {_BORN}"
    )
    return PassagesBegun(*_read_columns(connection, sql, span, (np.int64,) * 4))


def _read_matches(connection: Connection, span: Span) -> MatchesBegun:
    sql = (
        f"SELECT t.question, t.target, t.similarity, t.born, {_DIED}"
        f" FROM {_select_begun_rows(connection, 'match', span)} WHERE {_BORN}"
    )
    types = (np.int64, np.int64, np.float64, np.int64, np.int64)
    return MatchesBegun(*_read_columns(connection, sql, span, types))


def _read_documents(connection: Connection, span: Span) -> tuple[DocumentBegun, ...]:
    begun = f"{_select_begun_rows(connection, 'document', span)} {connection.dialect.first_join}"
    rows = connection.execute(
        f"SELECT t.id, p.passage, p.links FROM {begun} placement AS p ON p.document = t.id"
        f" WHERE {_BORN} ORDER BY t.id, p.ordinal",
        span,
    )
    occurrences = {
        document: tuple((PassageId(passage), read_links(links)) for _, passage, links in placed)
        for document, placed in groupby(rows, key=lambda row: row[0])
    }
    documents = connection.execute(
        f"SELECT t.id, s.name, t.path, t.names, t.born, {_DIED},"
        " t.media_type, t.origin, t.properties"
        f" FROM {begun} source AS s ON s.id = t.source WHERE {_BORN}",
        span,
    )
    return tuple(
        DocumentBegun(
            id_,
            source,
            path,
            read_names(names),
            occurrences.get(id_, ()),
            born,
            died,
            media_type,
            json.loads(origin),
            read_properties(properties),
        )
        for id_, source, path, names, born, died, media_type, origin, properties in documents
    )


def _read_columns(
    connection: Connection, sql: str, span: Span, types: Sequence[type[np.generic]]
) -> list[NDArray[Any]]:
    """Read rows into one array per column, in batches, because tuples of all rows would need ten
    times the memory."""
    parts: list[list[NDArray[Any]]] = [[np.empty(0, dtype=kind)] for kind in types]
    cursor = connection.execute(sql, span)
    while rows := cursor.fetchmany(_AT_ONCE):
        for part, kind, column in zip(parts, types, zip(*rows, strict=True), strict=True):
            part.append(np.array(column, dtype=kind))
    return [np.concatenate(part) for part in parts]
