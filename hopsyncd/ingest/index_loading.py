"""Loads the live index from the database, and updates it to newer versions.

An update applies the intervals that have begun or ended in the database since the index's version.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from hopsyncd.config.schedule import parse_date_ms
from hopsyncd.index.arrays import Flags, Integers
from hopsyncd.index.documents import NewDocument, change_documents
from hopsyncd.index.filters import list_type_words
from hopsyncd.index.links import compute_heading_key, find_file_title
from hopsyncd.index.live_index import IN_FORCE, NO_DATE, LiveIndex
from hopsyncd.index.passage_content import NewPassage, add_passages
from hopsyncd.index.postings import Postings
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.index.tables import IntervalTable
from hopsyncd.models.keywords import normalise_document_names
from hopsyncd.text.abbreviations import list_form_terms
from hopsyncd.text.dates import DAY_IN_NAME, count_date_terms, find_days_in_name
from hopsyncd.text.words import count_terms, list_spellings
from store.changes import Changes, DocumentBegun, Left, read_changes, read_document_changes
from store.content import (
    build_full_text,
    find_sets_of_encoder,
    get_generation,
    read_passages,
    read_sets_by_id,
)
from store.contract import Connection
from store.records import ALIVE, GenerationConfig, Passage, QuestionSet, SetId, Version, count_words

_AT_ONCE = 1000  # question sets loaded per batch


def follow(connection: Connection, index: LiveIndex, encoder: str, after: int, until: int) -> None:
    """Update the index from version `after` to version `until`. Call this function in a snapshot.

    Only question sets with vectors of `encoder` are added.
    """
    new = read_changes(connection, after, until)
    deleted = _end_deleted(index, new.left, after)
    _add_content(connection, index, encoder, new)
    ended = new.passages_ended
    rows = index.find_vertices(ended.key)
    ours = rows >= 0
    index.end_passages(rows[ours], ended.died[ours])
    begun = new.passages_begun
    entries = index.find_question_sets(begun.question_set)
    ours = entries >= 0
    index.begin_passages(entries[ours], begun.born[ours], _end_versions(begun.died[ours]))
    _follow_matches(index, new)
    ended_rows = np.append(new.documents_ended.key, deleted)
    died = np.append(new.documents_ended.died, np.full(len(deleted), after + 1))
    _follow_documents(index, ended_rows, died, new.documents_begun)
    index.settle(until)


def is_mostly_deleted(connection: Connection, index: LiveIndex) -> bool:
    """Whether the index has at least twice as many question sets, or occurrences of passages, as
    the database."""
    tables = (("question_set", len(index.passages)), ("placement", len(index.occurrences)))
    return any(
        2 * int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) <= rows
        for table, rows in tables
    )


def load_index(connection: Connection, generation: GenerationConfig, until: int) -> LiveIndex:
    """Load the index at version `until` from the database into memory. Version 0 is empty."""
    index = LiveIndex(generation.dimensions)
    if until:
        follow(connection, index, generation.encoder, 0, until)
    return index


def load_snapshot(connection: Connection, version: Version) -> Snapshot:
    """Load a version from the database. Call this function in a snapshot."""
    index = load_index(connection, get_generation(connection, version.generation), version.id)
    return Snapshot(index, version, Statistics.count(index, version.id))


def follow_documents(connection: Connection, index: LiveIndex, after: int, until: int) -> None:
    """Update only the documents of an index, from version `after` to version `until`. The passages
    and matches must already be at `until`."""
    ended, begun = read_document_changes(connection, after, until)
    _follow_documents(index, ended.key, ended.died, begun)
    index.settle(until)


def make_new_passages(connection: Connection, sets: Sequence[QuestionSet]) -> list[NewPassage]:
    """Convert stored question sets and their passages to the form in which the index adds them."""
    passages = read_passages(connection, [questions.passage for questions in sets])
    texts = [build_full_text(passages[questions.passage]) for questions in sets]
    return [
        NewPassage(
            questions,
            count_words(text),
            terms
            | count_date_terms(text)
            | dict.fromkeys(_list_form_terms(passages[questions.passage]), 1),
            [compute_heading_key(heading) for heading in passages[questions.passage].heading],
            list_spellings(text),
        )
        for questions, text, terms in zip(sets, texts, count_terms(texts), strict=True)
    ]


def _list_form_terms(passage: Passage) -> set[str]:
    return list_form_terms(passage.heading, passage.text)


def _add_content(connection: Connection, index: LiveIndex, encoder: str, new_rows: Changes) -> None:
    sets = np.unique(new_rows.passages_begun.question_set)
    new = sets[index.find_question_sets(sets) < 0]
    ours = find_sets_of_encoder(connection, [SetId(set_id) for set_id in new.tolist()], encoder)
    for start in range(0, len(ours), _AT_ONCE):
        part = list(read_sets_by_id(connection, ours[start : start + _AT_ONCE]))
        add_passages(index, make_new_passages(connection, part))


def _end_deleted(index: LiveIndex, left: Left | None, after: int) -> Integers:
    """End the index's passages and matches that garbage collection has deleted from the database.

    `left` has the rows that the database still has, or is None if nothing was deleted. `after` is
    the index's version. Returns the ids of the deleted documents.
    """
    if left is None:
        return np.empty(0, dtype=np.int64)
    intervals, matches, documents = index.passage_intervals, index.matches, index.documents
    rows = intervals.passage_row[_mark_in_force_since(intervals, left.since)].astype(np.int64)
    is_left = np.isin(index.passages.passage_id[rows], left.passages)
    index.end_passages(rows[~is_left], after + 1)
    questions = matches.source_question[_mark_in_force_since(matches, left.since)].astype(np.int64)
    index.end_matches(questions[~np.isin(index.outgoing.id[questions], left.matches)], after + 1)
    return np.setdiff1d(documents.id[_mark_in_force_since(documents, left.since)], left.documents)


def _mark_in_force_since(table: IntervalTable, since: int) -> Flags:
    """Return a flag for each row: whether it is in force at the head and began after version
    `since`."""
    rows: Flags = (table.died == IN_FORCE) & (table.born > since)
    return rows


def _follow_matches(index: LiveIndex, new: Changes) -> None:
    outgoing, incoming = index.postings.outgoing_by_id, index.postings.incoming_by_id
    sources = _find_questions(outgoing, new.matches_ended.key)
    ours = sources >= 0
    index.end_matches(sources[ours], new.matches_ended.died[ours])
    begun = new.matches_begun
    sources, targets = (
        _find_questions(outgoing, begun.question),
        _find_questions(incoming, begun.target),
    )
    ours = (sources >= 0) & (targets >= 0)
    index.begin_matches(
        sources[ours],
        targets[ours],
        begun.similarity[ours],
        begun.born[ours],
        _end_versions(begun.died[ours]),
    )


def _find_questions(questions: Postings, ids: Integers) -> Integers:
    """Return the row of each question id, or -1 if the index does not have the question."""
    question_rows = np.full(len(ids), -1, dtype=np.int64)
    rows, positions = questions.find_all(ids)
    question_rows[positions] = rows
    return question_rows


def _end_versions(died: Integers) -> Integers:
    return np.where(died == ALIVE, IN_FORCE, died)


def _follow_documents(
    index: LiveIndex, ended: Integers, died: Integers, begun: Iterable[DocumentBegun]
) -> None:
    """Apply the changes of documents version by version, because the target of a link depends on
    all documents."""
    ended_rows: dict[int, list[int]] = defaultdict(list)
    begun_by_version: dict[int, list[DocumentBegun]] = defaultdict(list)
    for id_, version in zip(ended.tolist(), died.tolist(), strict=True):
        ended_rows[version].append(id_)
    for document in begun:
        begun_by_version[document.born].append(document)
        if document.died != ALIVE:
            ended_rows[document.died].append(document.id)
    for version in sorted(ended_rows.keys() | begun_by_version.keys()):
        new = [_make_new_document(document) for document in begun_by_version[version]]
        change_documents(index, version, ended_rows[version], new)


def _make_new_document(document: DocumentBegun) -> NewDocument:
    called = normalise_document_names((find_file_title(document.path), *document.names))
    values, named_days = dict(document.properties), find_days_in_name(document.path)
    day = named_days[0] if len(named_days) == 1 else ""
    dates = values.get("modified") or document.origin.get("date", ""), values.get("created", day)
    modified_ms, created_ms = (NO_DATE if ms is None else ms for ms in map(parse_date_ms, dates))
    author = [("author", text) for name, text in document.origin.items() if name == "author"]
    properties = [pair for pair in document.properties if pair[0] not in ("modified", "created")]
    kind = ("type", list_type_words(document.path, document.media_type))
    days = [(DAY_IN_NAME, day) for day in named_days]
    return NewDocument(
        document.id,
        document.source,
        document.path,
        document.names,
        tuple(sorted(called)),
        document.occurrences,
        modified_ms,
        created_ms,
        (*dict.fromkeys([*properties, *author, kind, *days]),),
    )
