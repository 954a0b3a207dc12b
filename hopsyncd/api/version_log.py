"""Answers about versions: the log, a summary of each version, and the difference between two."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from hopsyncd.display import format_mail_name
from hopsyncd.formats.units import split_into_sentences
from hopsyncd.index.edge_selection import count_matches
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Visible
from hopsyncd.responses.changes import (
    ChangedText,
    DiffAnswer,
    DiffDocument,
    DiffEdge,
    DiffFolder,
    DiffPassage,
    LoggedVersion,
)
from hopsyncd.retrieve.results import format_id
from store.content import read_passages
from store.contract import Connection
from store.history import (
    Diff,
    Edge,
    LogEntry,
    VisibleCounts,
    pair_renames,
    read_edge_ends,
    sort_edges,
)
from store.reads import list_documents_with_origin, read_document, read_touched_contents
from store.records import PassageId, Version
from store.visibility import Mask, hides

_FOLDERS = 12  # the most folders, unless the first level has more
_START_CHARACTERS = 80
_CONTEXT = 1  # unchanged sentences before and after a change
_MAX_SENTENCES = 4000  # longer documents are only counted
_MAX_CHARACTERS = 500  # the rest of a sentence is cut off
_MAX_DOCUMENTS = 1000  # a version that changed more has no summary
_NAMED = 3  # if more documents changed in one way, they are counted

Sentence = tuple[tuple[str, ...], str]
"""The headings above a sentence, and the sentence in one line."""


_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_000  # the years 1 to 9999


def format_time(unix_ms: int | None) -> str | None:
    """Format Unix milliseconds in ISO 8601, UTC. None stays None."""
    return None if unix_ms is None else format_moment(unix_ms)


def format_moment(unix_ms: int) -> str:
    """Format Unix milliseconds in ISO 8601, UTC.

    Times outside the years 1 to 9999 become the first or last possible time.
    """
    within = min(max(unix_ms, _FIRST_MS), _LAST_MS)
    return datetime.fromtimestamp(within / 1000, UTC).isoformat(timespec="milliseconds")


def format_logged_version(entry: LogEntry, summary: str | None = None) -> LoggedVersion:
    """Format a version for the log. `summary` describes what the version changed."""
    version = entry.version
    return {
        "version": version.id,
        "created": format_moment(version.created_ms),
        "collected": format_time(entry.collected_ms),
        "reason": version.reason,
        "about": summary,
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
    connection: Connection,
    old: Version,
    new: Version,
    diff: Diff,
    limit: int | None,
    graph: bool = True,
    index: LiveIndex | None = None,
) -> DiffAnswer:
    """Compare two versions: counts, folders, and lists of up to `limit` lines each.

    Without `graph`, the lists of passages and edges are empty. With the index, the questions of the
    edges are found faster.
    """
    listed = limit if graph else 0
    shown = {
        "added": diff.documents_added[:limit],
        "changed": diff.documents_changed[:limit],
        "removed": diff.documents_removed[:limit],
    }
    names = _read_mail_names(connection, new.id, [*shown["added"], *shown["changed"]])
    old_names = _read_mail_names(connection, old.id, shown["removed"])
    documents = {
        "added": diff.documents_added,
        "changed": diff.documents_changed,
        "removed": diff.documents_removed,
        "renamed": tuple((renaming.source, renaming.path) for renaming in diff.documents_renamed),
    }
    passages = {"added": diff.passages_added, "removed": diff.passages_removed}
    edges = {"added": diff.edges_added, "removed": diff.edges_removed}
    return {
        "from": old.id,
        "to": new.id,
        "counts": {
            "documents": {kind: len(changed) for kind, changed in documents.items()},
            "passages": {kind: len(changed) for kind, changed in passages.items()},
            "edges": {kind: len(changed) for kind, changed in edges.items()},
        },
        "folders": count_by_folder(documents),
        "documents": {
            "added": _format_documents(shown["added"], names),
            "changed": _format_documents(shown["changed"], names),
            "removed": _format_documents(shown["removed"], old_names),
            "renamed": [
                {"source": renaming.source, "document": renaming.path, "was": renaming.was}
                for renaming in diff.documents_renamed[:limit]
            ],
        },
        "texts": compare_texts(connection, old.id, new.id, shown["changed"], names),
        "passages": {
            "added": _format_passages(connection, diff.passages_added[:listed]),
            "removed": _format_passages(connection, diff.passages_removed[:listed]),
        },
        "edges": {
            "added": _format_edges(connection, diff.edges_added[:listed], index),
            "removed": _format_edges(connection, diff.edges_removed[:listed], index),
        },
    }


def count_by_folder(documents: Mapping[str, Sequence[tuple[str, str]]]) -> list[DiffFolder]:
    """Count the documents of each kind in each folder, the folders with most changes first.

    Folders are split into subfolders as long as their number stays small.

    >>> count_by_folder({"added": [("notes", "a/1.md"), ("notes", "a/2.md")]})[0]["added"]
    2
    """
    places = {
        kind: Counter((source, path.rpartition("/")[0]) for source, path in changed)
        for kind, changed in documents.items()
    }
    deepest = max(
        (folder.count("/") + 1 for folders in places.values() for _, folder in folders), default=1
    )
    depth = 1
    while depth < deepest and len(_cut_at(depth + 1, places)) <= _FOLDERS:
        depth += 1
    counts = _cut_at(depth, places)
    ordered = sorted(counts, key=lambda place: (-counts[place].total(), place))
    return [_format_folder(source, folder, counts[source, folder]) for source, folder in ordered]


def _format_folder(source: str, folder: str, counts: Mapping[str, int]) -> DiffFolder:
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
    for kind, folders in places.items():
        for (source, folder), number in folders.items():
            counts[source, "/".join(folder.split("/")[:depth])][kind] += number
    return counts


def _read_mail_names(
    connection: Connection, version: int, documents: Collection[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """Return the subject and sender of each mail at a version, by source name and path."""
    keys = {*documents}
    rows = (
        list_documents_with_origin(connection, version, {path for _, path in keys}) if keys else ()
    )
    return {
        (source, path): name
        for source, path, origin, heading in rows
        if (source, path) in keys and (name := format_mail_name(origin, heading))
    }


def _format_documents(
    documents: Sequence[tuple[str, str]], names: Mapping[tuple[str, str], str]
) -> list[DiffDocument]:
    return [_format_document(source, path, names) for source, path in documents]


def _format_document(source: str, path: str, names: Mapping[tuple[str, str], str]) -> DiffDocument:
    document: DiffDocument = {"source": source, "document": path}
    if name := names.get((source, path)):
        document["document_name"] = name
    return document


def _format_passages(connection: Connection, ids: Sequence[PassageId]) -> list[DiffPassage]:
    texts = read_passages(connection, ids)
    return [
        {
            "id": format_id(id_),
            "heading": list(texts[id_].heading),
            "start": start_of(texts[id_].text),
        }
        for id_ in ids
        if id_ in texts  # a purge may have removed passages meanwhile
    ]


def _format_edges(
    connection: Connection, edges: Sequence[Edge], index: LiveIndex | None
) -> list[DiffEdge]:
    found_ends = read_edge_ends(connection, edges, _find_passages(index, edges) if index else ())
    ends = {id_ for edge in found_ends for id_ in (edge.source, edge.target)}
    shown = {passage["id"]: passage for passage in _format_passages(connection, sorted(ends))}
    return [
        {
            "from": shown[format_id(edge.source)],
            "to": shown[format_id(edge.target)],
            "question": edge.text,
        }
        for edge in found_ends
    ]


def _find_passages(index: LiveIndex, edges: Sequence[Edge]) -> list[PassageId]:
    """Return the passages of the edges' questions that the index contains."""
    outgoing_ids, incoming_ids = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    rows = [
        index.outgoing.passage_row[index.postings.outgoing_by_id.find_all(outgoing_ids)[0]],
        index.incoming.passage_row[index.postings.incoming_by_id.find_all(incoming_ids)[0]],
    ]
    passages = index.passages.passage_id[np.unique(np.concatenate(rows))]
    return [PassageId(passage) for passage in passages.tolist()]


def start_of(text: str) -> str:
    """Return up to 80 characters from the beginning of `text`, in one line."""
    return " ".join(text[: 2 * _START_CHARACTERS].split())[:_START_CHARACTERS]


def restrict_diff(diff: Diff, old: Snapshot, new: Snapshot) -> Diff:
    """Compare two versions for a caller who does not see everything.

    `diff` is the difference between the visible documents of both versions. The same sources are
    hidden in both.
    """
    old_edges, new_edges = _list_edges(old), _list_edges(new)
    old_passages, new_passages = _list_passages(old), _list_passages(new)

    def visible(documents: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple(document for document in documents if not hides(new.hidden, *document))

    return Diff(
        documents_added=visible(diff.documents_added),
        documents_removed=visible(diff.documents_removed),
        documents_renamed=tuple(
            renaming
            for renaming in diff.documents_renamed
            if not any(
                hides(new.hidden, renaming.source, path) for path in (renaming.was, renaming.path)
            )
        ),
        documents_changed=visible(diff.documents_changed),
        passages_added=tuple(sorted(new_passages - old_passages)),
        passages_removed=tuple(sorted(old_passages - new_passages)),
        edges_added=sort_edges(new_edges - old_edges),
        edges_removed=sort_edges(old_edges - new_edges),
    )


def count_visible(index: LiveIndex, number: int, hidden: Mask) -> VisibleCounts:
    """Count the documents, passages and matches of a version, and the passages that the version
    added and removed, without hidden content."""
    before, after = (Visible.compute(index, version, hidden) for version in (number - 1, number))
    # A writer may have added passages that neither version has.
    old_count = len(before.passage_rows)
    visible_before, visible_after = before.passage_rows >= 0, after.passage_rows[:old_count] >= 0
    return VisibleCounts(
        documents=int(np.count_nonzero(after.documents)),
        passages=int(np.count_nonzero(after.passages)),
        matches=count_matches(index, after.passages),
        passages_added=int(np.count_nonzero(visible_after & ~visible_before)),
        passages_removed=int(np.count_nonzero(visible_before & ~visible_after)),
    )


def _list_passages(snapshot: Snapshot) -> set[PassageId]:
    return {PassageId(id_) for id_ in snapshot.passage_ids[snapshot.passage_rows].tolist()}


def _list_edges(snapshot: Snapshot) -> set[Edge]:
    edges = snapshot.list_edges()
    sources, targets = edges.source_question, edges.target_question
    outgoing_ids, incoming_ids = (
        snapshot.index.outgoing.id[sources],
        snapshot.index.incoming.id[targets],
    )
    return set(zip(outgoing_ids.tolist(), incoming_ids.tolist(), strict=True))


def compare_texts(
    connection: Connection,
    old: int,
    new: int,
    documents: Sequence[tuple[str, str]],
    names: Mapping[tuple[str, str], str],
) -> list[ChangedText]:
    """Compare the text of each document (source name and path), which is in both versions."""
    return [
        {
            **_format_document(source, path, names),
            "lines": diff_lines(
                *(read_sentences(connection, version, source, path) for version in (old, new))
            ),
        }
        for source, path in documents
    ]


def read_sentences(connection: Connection, version: int, source: str, path: str) -> list[Sentence]:
    """Return the sentences of a document at a version, with their headings.

    If there is no such document, the result is empty.
    """
    document = read_document(connection, version, source, path)
    occurrences = document[1] if document else ()
    passages = read_passages(connection, {occurrence.passage for occurrence in occurrences})
    return [
        (passages[occurrence.passage].heading, text)
        for occurrence in occurrences
        if occurrence.passage in passages
        for line in passages[occurrence.passage].text.splitlines()
        for sentence in split_into_sentences(line)
        if (text := " ".join(sentence.split())[:_MAX_CHARACTERS])
    ]


def diff_lines(old: Sequence[Sentence], new: Sequence[Sentence]) -> list[str]:
    """Return the lines of a diff. A sentence has ` `, `-` or `+` before it; `@@` begins a heading.

    >>> was = [(("Ada",), "She wrote."), (("Ada",), "She died in 1852.")]
    >>> now = [(("Ada",), "She wrote."), (("Ada",), "She died young.")]
    >>> diff_lines(was, now)
    ['@@ Ada', ' She wrote.', '-She died in 1852.', '+She died young.']
    """
    if max(len(old), len(new)) > _MAX_SENTENCES:
        return [f"@@ {len(old):,} sentences before, {len(new):,} now: too many to compare"]
    matcher = SequenceMatcher(None, [text for _, text in old], [text for _, text in new], False)
    lines = [
        line
        for group in matcher.get_grouped_opcodes(_CONTEXT)
        for line in _format_hunk(group, old, new)
    ]
    if lines or not (old or new):
        return lines
    for (was, _), (now, _) in zip(old, new, strict=True):
        if was != now:
            return [f"@@ {_format_heading(was)} is now {_format_heading(now)}, with the same text"]
    return ["@@ the same sentences; layout, links or properties differ"]


def _format_hunk(
    group: Sequence[tuple[str, int, int, int, int]],
    old: Sequence[Sentence],
    new: Sequence[Sentence],
) -> Iterator[str]:
    lines: list[tuple[str, Sentence]] = []
    for kind, old_from, old_to, new_from, new_to in group:
        if kind == "equal":
            lines += [(" ", line) for line in new[new_from:new_to]]
            continue
        lines += [("-", line) for line in old[old_from:old_to]]
        lines += [("+", line) for line in new[new_from:new_to]]
    changed = {heading for sign, (heading, _) in lines if sign != " "}
    above = None
    for sign, (heading, text) in lines:
        if heading not in changed:
            continue
        if heading != above:
            yield f"@@ {_format_heading(heading)}"
        above = heading
        yield f"{sign}{text}"


def _format_heading(heading: Sequence[str]) -> str:
    return " > ".join(heading) or "(no heading)"


def summarise_version(connection: Connection, number: int, hidden: Mask) -> str | None:
    """Summarise the documents that a version changed.

    Returns None if the version ended and began more than 1,000 revisions of documents, or if
    garbage collection removed the version's rows.
    """
    touched = read_touched_contents(connection, number, hidden, _MAX_DOCUMENTS)
    if touched is None:
        return None
    ended, begun = touched
    ended_only = {key: content for key, content in ended.items() if key not in begun}
    begun_only = {key: content for key, content in begun.items() if key not in ended}
    renamed = pair_renames(ended_only, begun_only)
    moved = {
        (renaming.source, path) for renaming in renamed for path in (renaming.was, renaming.path)
    }
    changed = sorted(key for key in begun if key in ended)
    added = sorted(key for key in begun_only if key not in moved)
    removed = sorted(key for key in ended_only if key not in moved)
    names = {
        **_read_mail_names(connection, number - 1, removed if len(removed) <= _NAMED else ()),
        **_read_mail_names(
            connection,
            number,
            [key for keys in (changed, added) if len(keys) <= _NAMED for key in keys],
        ),
    }
    return format_summary(
        {
            "changed": [names.get(key, key[1]) for key in changed],
            "renamed": [f"{renaming.was} -> {renaming.path}" for renaming in renamed],
            "added": [names.get(key, key[1]) for key in added],
            "removed": [names.get(key, key[1]) for key in removed],
        }
    )


def format_summary(documents: Mapping[str, Sequence[str]]) -> str:
    """Summarise a version by the names of its documents, by kind of change.

    >>> format_summary({"changed": ["ada.md"], "added": ["a/1.md", "a/2.md", "a/3.md", "a/4.md"]})
    'changed ada.md; added 4 documents in a'
    >>> format_summary({"renamed": ["rome.md -> roma.md"]}), format_summary({})
    ('renamed rome.md -> roma.md', 'no document')
    """
    parts = [f"{kind} {_format_names(paths)}" for kind, paths in documents.items() if paths]
    return "; ".join(parts) or "no document"


def _format_names(paths: Sequence[str]) -> str:
    if len(paths) <= _NAMED:
        return ", ".join(paths)
    folders = [path.rpartition(" -> ")[2].split("/")[:-1] for path in paths]
    shared = 0
    while all(len(folder) > shared for folder in folders) and all(
        folder[shared] == next_folder[shared] for folder, next_folder in pairwise(folders)
    ):
        shared += 1
    shared_folder = "/".join(folders[0][:shared])
    return f"{len(paths):,} documents{f' in {shared_folder}' if shared_folder else ''}"
