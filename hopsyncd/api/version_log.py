"""Answers about versions: the log, and the differences between two versions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from hopsyncd.answers.changed import (
    DiffAnswer,
    DiffDocument,
    DiffEdge,
    DiffFolder,
    DiffPassage,
    LoggedVersion,
)
from hopsyncd.api.sentence_diff import changed_texts
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.results import id_text
from store.records import PassageId, QuestionId, Version
from store.sqlite.content import known_passages
from store.sqlite.database import Connection
from store.sqlite.history import Diff, Edge, LogEntry, edge_ends

_FOLDERS = 12  # at most, unless the first level alone has more
_START_CHARACTERS = 80


def time_text(unix_ms: int | None) -> str | None:
    """Unix milliseconds in ISO 8601, UTC; None stays None."""
    return None if unix_ms is None else moment_text(unix_ms)


def moment_text(unix_ms: int) -> str:
    """Unix milliseconds in ISO 8601, UTC."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")


def logged_version(entry: LogEntry, told: str | None = None) -> LoggedVersion:
    """An entry of the log; `told` is what it was about, in words."""
    version = entry.version
    return {
        "version": version.id,
        "created": moment_text(version.created_ms),
        "collected": time_text(entry.collected_ms),
        "reason": version.reason,
        "about": told,
        "tags": list(entry.tags),
        "documents": version.documents,
        "passages": version.passages,
        "edges": min(version.edge_budget, version.matches),
        "documents_added": entry.documents_added,
        "documents_changed": entry.documents_changed,
        "documents_removed": entry.documents_removed,
        "documents_renamed": entry.documents_renamed,
        "passages_added": entry.passages_added,
        "passages_removed": entry.passages_removed,
        "counters": version.counters,
    }


def diff_answer(
    connection: Connection, old: Version, new: Version, found: Diff, limit: int | None
) -> DiffAnswer:
    """What differs: counts, folders, and lists that are each cut to `limit` lines."""
    documents = {
        "added": found.documents_added,
        "changed": found.documents_changed,
        "removed": found.documents_removed,
        "renamed": tuple((one.source, one.path) for one in found.documents_renamed),
    }
    passages = {"added": found.passages_added, "removed": found.passages_removed}
    edges = {"added": found.edges_added, "removed": found.edges_removed}
    return {
        "from": old.id,
        "to": new.id,
        "counts": {
            "documents": {kind: len(some) for kind, some in documents.items()},
            "passages": {kind: len(some) for kind, some in passages.items()},
            "edges": {kind: len(some) for kind, some in edges.items()},
        },
        "folders": by_folder(documents),
        "documents": {
            "added": _documents(found.documents_added[:limit]),
            "changed": _documents(found.documents_changed[:limit]),
            "removed": _documents(found.documents_removed[:limit]),
            "renamed": [
                {"source": one.source, "document": one.path, "was": one.was}
                for one in found.documents_renamed[:limit]
            ],
        },
        "texts": changed_texts(connection, old.id, new.id, found.documents_changed[:limit]),
        "passages": {
            "added": _passages(connection, found.passages_added[:limit]),
            "removed": _passages(connection, found.passages_removed[:limit]),
        },
        "edges": {
            "added": _edges(connection, found.edges_added[:limit]),
            "removed": _edges(connection, found.edges_removed[:limit]),
        },
    }


def by_folder(documents: Mapping[str, Sequence[tuple[str, str]]]) -> list[DiffFolder]:
    """How many documents of each kind are in each folder, the most touched folders first.

    Folders are counted as deep as keeps them few, but always to their first level.

    >>> by_folder({"added": [("notes", "a/1.md"), ("notes", "a/2.md")]})[0]["added"]
    2
    """
    places = {
        kind: Counter((source, path.rpartition("/")[0]) for source, path in some)
        for kind, some in documents.items()
    }
    deepest = max(
        (folder.count("/") + 1 for one in places.values() for _, folder in one), default=1
    )
    depth = 1
    while depth < deepest and len(_cut_at(depth + 1, places)) <= _FOLDERS:
        depth += 1
    counts = _cut_at(depth, places)
    ordered = sorted(counts, key=lambda place: (-counts[place].total(), place))
    return [_folder(source, folder, counts[source, folder]) for source, folder in ordered]


def _folder(source: str, folder: str, counts: Mapping[str, int]) -> DiffFolder:
    return {
        "source": source,
        "folder": folder,
        "added": counts["added"],
        "changed": counts["changed"],
        "removed": counts["removed"],
        "renamed": counts["renamed"],
    }


def _cut_at(
    depth: int, places: Mapping[str, Counter[tuple[str, str]]]
) -> dict[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for kind, found in places.items():
        for (source, folder), number in found.items():
            counts[source, "/".join(folder.split("/")[:depth])][kind] += number
    return counts


def _documents(found: Sequence[tuple[str, str]]) -> list[DiffDocument]:
    return [{"source": source, "document": path} for source, path in found]


def _passages(connection: Connection, ids: Sequence[PassageId]) -> list[DiffPassage]:
    known = known_passages(connection, ids)
    return [
        {
            "id": id_text(id_),
            "heading": list(known[id_].heading),
            "start": start_of(known[id_].text),
        }
        for id_ in ids
        if id_ in known  # a purge may have removed some since the graphs were read
    ]


def _edges(connection: Connection, edges: Sequence[Edge]) -> list[DiffEdge]:
    found = edge_ends(connection, edges)
    ends = {id_ for one in found for id_ in (one.source, one.target)}
    shown = {one["id"]: one for one in _passages(connection, sorted(ends))}
    return [
        {
            "from": shown[id_text(one.source)],
            "to": shown[id_text(one.target)],
            "question": one.text,
        }
        for one in found
    ]


def start_of(text: str) -> str:
    """The beginning of a text, as one line."""
    return " ".join(text[: 2 * _START_CHARACTERS].split())[:_START_CHARACTERS]


def restricted_diff(found: Diff, old: Snapshot, new: Snapshot) -> Diff:
    """What differs between two versions that both lack the same sources."""
    was, now = _edges_of(old), _edges_of(new)
    lived, live = _passages_of(old), _passages_of(new)

    def seen(documents: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple(one for one in documents if one[0] not in new.hidden)

    return Diff(
        documents_added=seen(found.documents_added),
        documents_removed=seen(found.documents_removed),
        documents_renamed=tuple(
            one for one in found.documents_renamed if one.source not in new.hidden
        ),
        documents_changed=seen(found.documents_changed),
        passages_added=tuple(sorted(live - lived)),
        passages_removed=tuple(sorted(lived - live)),
        edges_added=tuple(Edge(*edge) for edge in sorted(now - was)),
        edges_removed=tuple(Edge(*edge) for edge in sorted(was - now)),
    )


def _passages_of(snapshot: Snapshot) -> set[PassageId]:
    return {PassageId(id_) for id_ in snapshot.ids[snapshot.entries].tolist()}


def _edges_of(snapshot: Snapshot) -> set[tuple[QuestionId, QuestionId]]:
    out, into, _ = snapshot.edges()
    asked, answered = snapshot.index["outgoing"]["id"][out], snapshot.index["incoming"]["id"][into]
    pairs = zip(asked.tolist(), answered.tolist(), strict=True)
    return {(QuestionId(question), QuestionId(answer)) for question, answer in pairs}
