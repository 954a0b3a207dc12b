"""Finds, lists and tags versions, and compares two of them."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from store.contract import Connection
from store.exceptions import NoSuchVersion, TagRefused
from store.records import ALIVE, PassageId, QuestionId, Version
from store.relative_time import is_time, parse_relative_moment
from store.sources import encode_names
from store.transactions import transaction
from store.versions import (
    CHANGES,
    list_kept_versions,
    read_head,
    read_logged_version,
    read_version,
    scan_reason,
)
from store.visibility import Mask, hides, list_partly_hidden

Edge: TypeAlias = tuple[QuestionId, QuestionId]
"""An outgoing question and the incoming question that it is matched with."""

# _NO_LONGER: rows in force at version ?1 but not at the later version ?2.
# _NOT_YET: rows in force at version ?1 but not at the earlier version ?2.
_NO_LONGER = f"born <= ?1 AND died > ?1 AND died <= ?2 AND died < {ALIVE}"
_NOT_YET = "born > ?2 AND born <= ?1 AND died > ?1"
# The number of documents that version ?1 moved to another path.
_RENAMES = """
WITH begun AS (
  SELECT d.source, d.content, count(*) AS documents FROM document AS d
  WHERE d.born = ?1 AND NOT EXISTS (
    SELECT 1 FROM document AS o WHERE o.source = d.source AND o.path = d.path AND o.died = ?1)
  GROUP BY d.source, d.content
), ended AS (
  SELECT d.source, d.content, count(*) AS documents FROM document AS d
  WHERE d.died = ?1 AND NOT EXISTS (
    SELECT 1 FROM document AS o WHERE o.source = d.source AND o.path = d.path AND o.born = ?1)
  GROUP BY d.source, d.content
)
SELECT coalesce(sum(CASE WHEN begun.documents < ended.documents THEN begun.documents
                         ELSE ended.documents END), 0)
FROM begun JOIN ended USING (source, content)
"""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A version, its tags, and the numbers of documents and passages that the version changed.

    If a document's content moved to another path of its source, the document was renamed, and does
    not count as added or removed. `collected_ms` is when the version expired (Unix time), or None
    if it can still be read.
    """

    version: Version
    tags: tuple[str, ...]
    documents_added: int
    documents_changed: int
    documents_removed: int
    passages_added: int
    passages_removed: int
    collected_ms: int | None
    documents_renamed: int = 0


@dataclass(frozen=True, slots=True)
class EdgeEnds:
    """The source and target passage of an edge, and the text of its outgoing question."""

    source: PassageId
    target: PassageId
    text: str


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """The numbers of documents of a source that differ between two versions.

    A document whose content moved from a removed path to a new path counts once, as moved.
    """

    added: int
    changed: int
    moved: int
    removed: int


@dataclass(frozen=True, slots=True)
class Renamed:
    """A document whose content moved to another path of the same source."""

    source: str
    was: str
    path: str


class _Revision(NamedTuple):
    """A revision of a document: the hash of its file, and the digest of the data
    extracted from it."""

    content: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences between two versions, sorted. Documents are given as (source name, path)."""

    documents_added: tuple[tuple[str, str], ...]
    documents_removed: tuple[tuple[str, str], ...]
    documents_changed: tuple[tuple[str, str], ...]
    documents_renamed: tuple[Renamed, ...]
    passages_added: tuple[PassageId, ...]
    passages_removed: tuple[PassageId, ...]
    edges_added: tuple[Edge, ...]
    edges_removed: tuple[Edge, ...]


def resolve(connection: Connection, at: str) -> Version:
    """Return the version that `at` describes: "head", a number, a tag, "first" or a time, tried in
    this order.

    "first" is the oldest kept version. A time is in ISO 8601 or in words such as `yesterday`, and
    selects the version that was the head then. A time without a UTC offset is local time. Raises
    NoSuchVersion.
    """
    if at == "head":
        newest = read_head(connection)
        return newest if newest else read_version(connection, 0)
    if at.isascii() and at.isdecimal():
        return read_version(connection, int(at))
    tagged = connection.execute("SELECT version FROM tag WHERE name = ?", [at]).fetchone()
    if tagged:
        return read_version(connection, tagged[0])
    if at == "first":
        return read_version(connection, next(iter(list_kept_versions(connection)), 0))
    return _find_version_at_time(connection, at)


def _find_version_at_time(connection: Connection, at: str) -> Version:
    try:
        named = parse_relative_moment(at, datetime.now())
        moment = (named or datetime.fromisoformat(at)).astimezone(UTC)
    # The time zone can move a time in year 1 or 9999 out of range.
    except (ValueError, OverflowError) as error:
        raise NoSuchVersion(
            f"Cannot read version {at!r}",
            "the text is not a version number, a tag or a time",
            "Run `hopsyncd log` to list versions and tags. Write a time as 2026-11-01T09:00 or"
            " `2 days ago`",
        ) from error
    # The largest id, not the latest time: the clock may have been set back between two versions.
    number, first_ms = connection.execute(
        "SELECT max(CASE WHEN created_ms <= ? THEN id END), min(created_ms) FROM version",
        [round(moment.timestamp() * 1000)],
    ).fetchone()
    if number is None and first_ms is not None:
        first = datetime.fromtimestamp(first_ms / 1000).astimezone()
        raise NoSuchVersion(
            f"Cannot read the version of {at}",
            f"the oldest version was created later, at {first.isoformat(' ', 'minutes')}",
            "Choose a later time or `first`, or run `hopsyncd log` to list the versions",
        )
    return read_version(connection, number or 0)


def set_tag(connection: Connection, name: str, number: int, now_ms: int) -> None:
    """Give a version a tag. Raises NoSuchVersion, or TagRefused if the name is taken or
    misleading."""
    read_version(connection, number)
    if name == "head" or name.isdecimal() or not name.strip() or is_time(name):
        raise TagRefused(
            f"Cannot tag version {number} as {name!r}",
            "the name is empty, or could be read as a version or a time",
            "Choose another name",
        )
    if not name.isprintable():
        raise TagRefused(
            f"Cannot tag version {number} as {name!r}",
            "the name contains an invisible character",
            "Choose a name without control characters",
        )
    with transaction(connection):
        row = connection.execute("SELECT version FROM tag WHERE name = ?", [name]).fetchone()
        if row and row[0] != number:
            raise TagRefused(
                f"Cannot tag version {number} as {name!r}",
                f"that tag names version {row[0]}",
                f"Run `hopsyncd tag --delete {name}` first, or choose another name",
            )
        connection.execute(
            "INSERT INTO tag VALUES (?, ?, ?) ON CONFLICT DO NOTHING", [name, number, now_ms]
        )


def delete_tag(connection: Connection, name: str) -> None:
    """Remove a tag. Raises TagRefused if the tag does not exist."""
    with transaction(connection):
        deletion = connection.execute("DELETE FROM tag WHERE name = ?", [name])
    if not deletion.rowcount:
        raise TagRefused(
            f"Cannot delete the tag {name!r}",
            "no tag has this name",
            "Run `hopsyncd log` to see the tags",
        )


def read_log(connection: Connection, limit: int, before: int | None = None) -> list[LogEntry]:
    """Return at most `limit` versions, newest first; with `before`, only those with lower numbers.

    Collected versions are included, because their changes were counted when they were committed.
    """
    rows = connection.execute(
        f"SELECT id, {CHANGES}, collected_ms FROM version WHERE ?1 IS NULL OR id < ?1"
        " ORDER BY id DESC LIMIT ?2",
        [before, limit],
    ).fetchall()
    entries = (
        LogEntry(read_logged_version(connection, row[0]), _read_tags(connection, row[0]), *row[1:])
        for row in rows
    )
    return [_with_renames(connection, entry) for entry in entries]


def _with_renames(connection: Connection, entry: LogEntry) -> LogEntry:
    """Return the entry with renamed documents counted as renamed, not as added and removed.

    If garbage collection has deleted the version's rows, renames cannot be detected.
    """
    if not (entry.documents_added and entry.documents_removed):
        return entry
    (renamed,) = connection.execute(_RENAMES, [entry.version.id]).fetchone()
    reason, read = entry.version.reason, entry.documents_added + entry.documents_changed
    source = reason.split(": ")[0]
    # The scan counted a renamed document as new and as removed.
    if reason == scan_reason(source, read, entry.documents_removed):
        reason = scan_reason(source, read - renamed, entry.documents_removed - renamed, renamed)
    return replace(
        entry,
        version=replace(entry.version, reason=reason),
        documents_added=entry.documents_added - renamed,
        documents_removed=entry.documents_removed - renamed,
        documents_renamed=renamed,
    )


def _read_tags(connection: Connection, number: int) -> tuple[str, ...]:
    rows = connection.execute("SELECT name FROM tag WHERE version = ? ORDER BY name", [number])
    return tuple(row[0] for row in rows)


def diff(connection: Connection, old: Version, new: Version, hidden: Mask = frozenset()) -> Diff:
    """Return the documents, passages and edges that differ between `old` and `new`.

    Hidden documents are left out, but not their passages and edges. Only rows that are in force at
    exactly one of the two versions are read.
    """
    spans = (old.id, new.id), (new.id, old.id)
    lists = (_list_documents(connection, *span).items() for span in spans)
    was_stored, is_stored = (
        {key: revision for key, revision in items if not hides(hidden, *key)} for items in lists
    )
    before = {key: revision.content for key, revision in was_stored.items()}
    after = {key: revision.content for key, revision in is_stored.items()}
    old_passages, new_passages = (_list_passages(connection, *span) for span in spans)
    old_edges, new_edges = _list_edges(connection, old, new), _list_edges(connection, new, old)
    added, removed = after.keys() - before.keys(), before.keys() - after.keys()
    removed_contents = {key: before[key] for key in removed}
    renamed = pair_renames(removed_contents, {key: after[key] for key in added})
    return Diff(
        documents_added=tuple(
            sorted(added - {(document.source, document.path) for document in renamed})
        ),
        documents_removed=tuple(
            sorted(removed - {(document.source, document.was) for document in renamed})
        ),
        documents_renamed=renamed,
        documents_changed=tuple(
            sorted(key for key in after.keys() & before.keys() if is_stored[key] != was_stored[key])
        ),
        passages_added=tuple(sorted(new_passages - old_passages)),
        passages_removed=tuple(sorted(old_passages - new_passages)),
        edges_added=sort_edges(new_edges - old_edges),
        edges_removed=sort_edges(old_edges - new_edges),
    )


def sort_edges(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Sort the edges of a version by question. A question has at most one edge."""
    return tuple(sorted(edges, key=itemgetter(0)))


def count_source_changes(connection: Connection, source: str, old: int, new: int) -> SourceChanges:
    """Count the documents of the source named `source` that differ between versions `old` and
    `new`. Version 0 is empty."""
    before, after = (
        {path: revision for (name, path), revision in revisions.items() if name == source}
        for revisions in (
            _list_documents(connection, old, new),
            _list_documents(connection, new, old),
        )
    )
    removed = Counter(before[path].content for path in before.keys() - after.keys())
    added = Counter(after[path].content for path in after.keys() - before.keys())
    moved = (removed & added).total()
    changed = sum(before[path] != after[path] for path in before.keys() & after.keys())
    return SourceChanges(added.total() - moved, changed, moved, removed.total() - moved)


def pair_renames(
    removed: Mapping[tuple[str, str], bytes], added: Mapping[tuple[str, str], bytes]
) -> tuple[Renamed, ...]:
    """Pair removed and added documents with equal content in the same source. Documents with the
    same file name are paired first.
    """
    removed_paths = defaultdict[tuple[str, bytes], list[str]](list)
    for (source, path), content in sorted(removed.items(), reverse=True):
        removed_paths[source, content].append(path)
    renames = list[Renamed]()
    for kept_name in (True, False):
        paired = {(document.source, document.path) for document in renames}
        for (source, path), content in sorted(added.items()):
            olds = removed_paths[source, content]
            name = path.rpartition("/")[2]
            fitting = [old for old in olds if not kept_name or old.rpartition("/")[2] == name]
            if fitting and (source, path) not in paired:
                olds.remove(fitting[-1])
                renames.append(Renamed(source, fitting[-1], path))
    return tuple(sorted(renames, key=lambda document: (document.source, document.path)))


def read_edge_ends(
    connection: Connection, edges: Iterable[Edge], passages: Iterable[PassageId]
) -> list[EdgeEnds]:
    """Return the ends of each edge, in order. Edges that a purge has erased are left out.

    The questions of the edges are first looked for in `passages`, which is fast, and then among all
    questions.
    """
    edge_list = list(edges)
    missing = {end for edge in edge_list for end in edge}
    questions = dict[int, tuple[PassageId, str]]()
    for column, values in (("s.passage", passages), ("q.id", missing)):
        if not missing:
            break
        rows = connection.execute(
            f"SELECT q.id, s.passage, q.text FROM question_set AS s {connection.dialect.first_join}"
            " question AS q ON q.question_set = s.id"
            f" WHERE {column} IN {connection.dialect.select_ids()}",
            [json.dumps([*values])],
        )
        questions |= {row[0]: (PassageId(row[1]), row[2]) for row in rows if row[0] in missing}
        missing -= questions.keys()
    ends = ((questions.get(question), questions.get(target)) for question, target in edge_list)
    return [
        EdgeEnds(source[0], target[0], source[1]) for source, target in ends if source and target
    ]


def _list_documents(
    connection: Connection, version: int, other: int
) -> dict[tuple[str, str], _Revision]:
    """Return the revisions in force at `version` but not at `other`, by source name and path."""
    rows = connection.execute(
        "SELECT s.name, d.path, d.content, d.digest"
        f" FROM {_select_rows_only_at(connection, 'document', version, other)} AS d"
        " JOIN source AS s ON s.id = d.source",
        [version, other],
    )
    return {(row[0], row[1]): _Revision(row[2], row[3]) for row in rows}


def _list_passages(connection: Connection, number: int, other: int) -> set[PassageId]:
    rows = connection.execute(
        f"SELECT passage FROM {_select_rows_only_at(connection, 'life', number, other)} AS l",
        [number, other],
    )
    return {PassageId(row[0]) for row in rows}


def _list_edges(connection: Connection, version: Version, other: Version) -> set[Edge]:
    """Return the edges of version `version` that are not edges of version `other`.

    The match of each returned edge is not in force in `other`, or is beyond its edge threshold.
    """
    admitted = "(?4 IS NULL OR similarity > ?3 OR (similarity = ?3 AND question <= ?4))"
    values = [version.id, other.id, *_encode_threshold(version)]
    rows = connection.execute(
        f"SELECT question, target"
        f" FROM {_select_rows_only_at(connection, 'match', version.id, other.id)} AS m"
        f" WHERE {admitted}",
        values,
    ).fetchall()
    if other.edge_threshold is not None and version.edge_threshold != other.edge_threshold:
        rows += connection.execute(
            f"SELECT question, target FROM match {connection.dialect.unindexed}"
            " WHERE born <= ?1 AND born <= ?2 AND died > ?1 AND died > ?2"
            f" AND {admitted} AND NOT (similarity > ?5 OR (similarity = ?5 AND question <= ?6))",
            [*values, *_encode_threshold(other)],
        )
    return set(rows)


def _select_rows_only_at(connection: Connection, table: str, number: int, other: int) -> str:
    """Return SQL that selects the rows in force at version `number` but not at `other`.

    The statement uses the indexes on the versions at which rows began or ended.
    """
    index, condition = ("died", _NO_LONGER) if number < other else ("born", _NOT_YET)
    index_hint = connection.dialect.force_index(f"{table}_{index}")
    return f"(SELECT * FROM {table} {index_hint} WHERE {condition})"


def _encode_threshold(version: Version) -> tuple[float | None, int | None]:
    return (
        (version.edge_threshold.similarity, version.edge_threshold.question)
        if version.edge_threshold
        else (None, None)
    )


@dataclass(frozen=True, slots=True)
class VisibleCounts:
    """Counts of a version that leave out hidden documents. They are computed from the index in
    memory.

    `passages_added` and `passages_removed` are relative to the previous version.
    """

    documents: int
    passages: int
    matches: int
    passages_added: int
    passages_removed: int


def restrict_entry(
    connection: Connection,
    entry: LogEntry,
    hidden: Mask,
    budget: Callable[[int], int],
    count: Callable[[int], VisibleCounts],
) -> LogEntry:
    """Return the log entry for a reader with hidden documents.

    `budget` returns the edge budget for a number of passages, and `count` the visible counts of a
    version.
    """
    number, counts = entry.version.id, count(entry.version.id)
    rows = connection.execute(
        "SELECT s.name, d.path, d.content, d.digest, d.born FROM document AS d"
        " JOIN source AS s ON s.id = d.source WHERE (d.born = ?1 OR d.died = ?1)"
        f" AND s.name NOT IN {connection.dialect.select_names('?2')}",
        [number, encode_names(hidden)],
    )
    begun, ended = dict[tuple[str, str], _Revision](), dict[tuple[str, str], _Revision]()
    for source, path, content, digest, born in rows:
        if not hides(hidden, source, path):
            revisions = begun if born == number else ended
            revisions[source, path] = _Revision(content, digest)
    added, removed = begun.keys() - ended.keys(), ended.keys() - begun.keys()
    added_contents = Counter((key[0], begun[key].content) for key in added)
    removed_contents = Counter((key[0], ended[key].content) for key in removed)
    moves = added_contents & removed_contents
    reason = entry.version.reason
    source = reason.split(": ")[0]
    row = connection.execute("SELECT 1 FROM source WHERE name = ?", [source]).fetchone()
    if row is None or source in hidden:
        reason = ""
    elif source in list_partly_hidden(hidden):
        read, left = (sum(source == name for name, _ in keys) for keys in (begun, removed))
        moved = sum(count for (name, _), count in moves.items() if name == source)
        reason = scan_reason(source, read - moved, left - moved, moved) if read or left else ""
    return replace(
        entry,
        version=replace(
            entry.version,
            reason=reason,
            documents=counts.documents,
            passages=counts.passages,
            matches=counts.matches,
            edge_budget=budget(counts.passages),
            counters={},
        ),
        documents_renamed=moves.total(),
        documents_added=len(added) - moves.total(),
        documents_changed=sum(
            begun[key].digest != ended[key].digest for key in begun.keys() & ended.keys()
        ),
        documents_removed=len(removed) - moves.total(),
        passages_added=counts.passages_added,
        passages_removed=counts.passages_removed,
    )
