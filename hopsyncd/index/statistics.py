"""Computes the visible rows of a version, and counts over them. The results are never stored.

The rarity of a name, and whether the name connects documents, depend on the whole collection. So
the counts change with every added, removed or hidden document. They are derived from the counts of
another version, and recomputed only for names that passages or documents gained or lost.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import (
    AnyIntegers,
    Column,
    Flags,
    Int32s,
    Integers,
    expand_ranges,
    invert_positions,
    mark_rows,
    sort_distinct,
    take_flags,
)
from hopsyncd.index.live_index import LiveIndex
from store.visibility import Mask, list_hidden_folders

MAX_NAMED_PASSAGES = 32  # a name of documents with more passages is not a mention
_SAMPLE = 32  # mentions of each name that are sampled
_NO_DOCUMENT = np.iinfo(np.int64).max  # above every path key


@dataclass(frozen=True, slots=True, eq=False)
class Visible:
    """The visible rows of a version. Hidden sources and filtered-out documents do not count.

    `documents`, `passages` and `vectors` have a flag for each document row, passage row and vector
    row. A visible passage row is a vertex.

    `passage_rows` has the row of each passage number, or -1 if the passage is not visible.

    A passage can occur in several documents. It belongs to the document with the lowest `path_key`.
    `document_of_number` has this key for each passage number, and `document_of_row` for each
    passage row. The documents to which passages belong are numbered from 0 to `document_count` - 1,
    by ascending document row. `document_rows` has the row of each of these documents, and
    `document_numbers` the document number for each visible passage row. `rows_by_document` are the
    visible passage rows, sorted by document number, then by row. The rows of document n start at
    `document_starts[n]`.
    """

    documents: Flags
    passages: Flags
    vectors: Flags
    passage_rows: Integers
    document_of_number: Integers
    document_of_row: Integers
    document_count: int
    document_numbers: Integers
    document_rows: Integers
    rows_by_document: Integers
    document_starts: Integers

    @classmethod
    def compute(
        cls, index: LiveIndex, version: int, hidden: Mask, passes_filter: Flags | None = None
    ) -> Self:
        """Compute the rows that are visible at `version` without the sources and folders in
        `hidden`. `passes_filter` has a flag for each document row: whether the document passes a
        filter.

        A writer may append rows meanwhile. So a table is read before the tables to which it refers.
        """
        intervals = index.passage_intervals
        in_force = (intervals.born <= version) & (version < intervals.died)
        vertices = intervals.passage_row[in_force].astype(np.int64)
        occurrences, documents, passages = index.occurrences, index.documents, index.passages
        is_visible = (documents.born <= version) & (version < documents.died)
        if hidden:
            is_shown = np.array([name not in hidden for name in index.sources], dtype=np.bool_)
            is_visible &= is_shown[documents.source]
            for folders in list_hidden_folders(hidden):
                is_visible &= ~index.find_hidden_documents(folders, documents.source)
        if passes_filter is not None:
            is_visible[: len(passes_filter)] &= passes_filter[: len(is_visible)]
            is_visible[len(passes_filter) :] = False
        occurs = is_visible[occurrences.document_row]
        document_rows = occurrences.document_row[occurs]
        numbers = occurrences.passage_number[occurs]
        document_of_number = np.full(len(index.passage_numbers), _NO_DOCUMENT)
        np.minimum.at(document_of_number, numbers, documents.path_key[document_rows])
        document_of_row = document_of_number[passages.passage_number]
        if hidden or passes_filter is not None:
            vertices = vertices[document_of_row[vertices] != _NO_DOCUMENT]
        is_vertex = mark_rows(len(passages), vertices)
        passage_rows = np.full(len(document_of_number), -1, dtype=np.int64)
        passage_rows[passages.passage_number[vertices]] = vertices
        vertices = np.flatnonzero(is_vertex)
        document_row_of_number = np.zeros(len(document_of_number), dtype=np.int64)
        belongs = documents.path_key[document_rows] == document_of_number[numbers]
        document_row_of_number[numbers[belongs]] = document_rows[belongs]
        # Sorting combined numbers takes a quarter of the time of argsort.
        vertex_documents = document_row_of_number[passages.passage_number[vertices]]
        keys = np.sort(vertex_documents << 32 | vertices)
        rows_by_document = keys & (2**32 - 1)
        starts = np.flatnonzero(np.diff(keys >> 32, prepend=-1))
        count, starts = len(starts), np.append(starts, len(rows_by_document))
        document_numbers = np.full(len(passages), -1)
        document_numbers[rows_by_document] = np.arange(count).repeat(np.diff(starts))
        return cls(
            documents=is_visible,
            passages=is_vertex,
            vectors=is_vertex.repeat(passages.vector_end - passages.vector_start),
            passage_rows=passage_rows,
            document_of_number=document_of_number,
            document_of_row=document_of_row,
            document_count=count,
            document_numbers=document_numbers,
            document_rows=keys[starts[:-1]] >> 32,
            rows_by_document=rows_by_document,
            document_starts=starts,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Counts over the visible rows. Arrays have one element for each name, by the name's number.

    `passages` is the number of visible passages, and `words` the number of their words.
    `in_questions` is the number of passages with the name in their questions, and `as_topic` the
    number of passages with the name as a topic. `as_document_name` is the number of passages whose
    document has the name. `only_as_document_name` is the number of these passages whose questions
    lack the name. `mention_counts` is `in_questions` plus `only_as_document_name`. If a name is the
    document name of more than 32 passages, only `in_questions` counts. `joins_documents` says
    whether passages of two or more documents mention the name. `is_topic` says whether the name is
    a topic, or a document name of at most 32 passages.

    Three caches contain terms that queries have used, by key. `term_passage_counts` is the number
    of passages with a term. `common_term_scores` are scores computed for the most common terms.
    `term_rows` are, for some other terms, the rows of the `terms` table and the visible passage row
    of each.
    """

    visible: Visible
    passages: int
    words: int
    in_questions: Int32s
    as_topic: Int32s
    as_document_name: Int32s
    only_as_document_name: Int32s
    mention_counts: Int32s
    joins_documents: Flags
    is_topic: Flags
    term_passage_counts: dict[int, int] = field(default_factory=dict)
    common_term_scores: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    term_rows: dict[int, tuple[Int32s, Integers]] = field(default_factory=dict)

    @classmethod
    def count(
        cls,
        index: LiveIndex,
        version: int,
        hidden: Mask = frozenset(),
        base: "Statistics | None" = None,
        passes_filter: Flags | None = None,
    ) -> Self:
        """Count the visible rows at the version. If counts of another version are given as `base`,
        only the differences from them are counted."""
        visible = Visible.compute(index, version, hidden, passes_filter)
        name_count, base = len(index.name_numbers), base or _NOTHING
        before = base.visible
        moved = np.flatnonzero(
            find_differences(visible.document_of_number, before.document_of_number, _NO_DOCUMENT)
        )
        changed = np.flatnonzero(find_differences(visible.passages, before.passages, False))
        moved_rows = visible.passage_rows[moved]
        rows = sort_distinct(np.concatenate([changed, moved_rows[moved_rows >= 0]]))
        steps = visible.passages[rows].astype(np.int32) - take_flags(before.passages, rows)
        passages, mentions = index.passages, index.mentions
        mention_rows, positions = expand_ranges(
            passages.mention_start[rows], passages.mention_end[rows]
        )
        names, is_topic = mentions.name[mention_rows], mentions.is_topic[mention_rows]
        steps = steps[positions]
        in_questions = _add_steps(base.in_questions, name_count, names, steps)
        as_topic = _add_steps(base.as_topic, name_count, names[is_topic], steps[is_topic])

        numbers = np.concatenate([moved, passages.passage_number[rows]])
        as_document_name, only_as_document_name, renamed = _count_document_names(
            index, base, visible, numbers, name_count
        )
        is_specific = (as_document_name > 0) & (as_document_name <= MAX_NAMED_PASSAGES)
        changed_names = np.flatnonzero(mark_rows(name_count, names, *renamed))
        joins_documents = _resize(base.joins_documents, name_count)
        joins_documents[changed_names] = _find_joining_names(
            index,
            visible,
            changed_names,
            is_specific & (in_questions > 0),
            None if base.passages else rows,
        )
        shown_rows = np.flatnonzero(visible.passages)
        return cls(
            visible,
            passages=len(shown_rows),
            words=int(passages.word_count[shown_rows].sum()),
            in_questions=in_questions,
            as_topic=as_topic,
            as_document_name=as_document_name,
            only_as_document_name=only_as_document_name,
            mention_counts=in_questions + np.where(is_specific, only_as_document_name, np.int32(0)),
            joins_documents=joins_documents,
            is_topic=(as_topic > 0) | is_specific,
        )


_NO_COUNTS, _NO_FLAGS = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.bool_)
_NONE = np.zeros(0, dtype=np.int64)
_NOTHING = Statistics(
    Visible(_NO_FLAGS, _NO_FLAGS, _NO_FLAGS, *(_NONE,) * 3, 0, *(_NONE,) * 4),
    *(0, 0),
    *(_NO_COUNTS,) * 5,
    *(_NO_FLAGS,) * 2,
)


def _resize(column: Column, length: int) -> Column:
    resized = np.zeros(length, dtype=column.dtype)
    resized[: len(column)] = column[:length]
    return resized


def _add_steps(counts: Int32s, length: int, names: AnyIntegers, steps: Int32s | int) -> Int32s:
    """Return a copy of `counts` with this length, with `steps` added to the counts of the names."""
    sums: Int32s = _resize(counts, length)
    np.add.at(sums, names, np.int32(steps) if isinstance(steps, int) else steps)
    return sums


def _count_document_names(
    index: LiveIndex, base: Statistics, visible: Visible, numbers: Integers, name_count: int
) -> tuple[Int32s, Int32s, list[Integers]]:
    """Return `as_document_name`, `only_as_document_name`, and the names that passages gained or
    lost.

    Reads only the passages that differ from `base`, and passages of documents that became visible
    or hidden.
    """
    before = base.visible
    documents = np.flatnonzero(find_differences(visible.documents, before.documents, False))
    occurrences, _ = index.postings.occurrences_by_document.find_all(documents)
    in_changed = index.occurrences.passage_number[occurrences]
    numbers = sort_distinct(np.concatenate([numbers, in_changed]))
    rows, _ = index.postings.document_names_by_passage.find_all(numbers)
    row_names = index.document_names.name[rows]
    as_document_name, only_as_document_name = base.as_document_name, base.only_as_document_name
    changed: list[Integers] = []
    for shown, sign in ((before, -1), (visible, 1)):
        passages, names = find_named_passages(index, shown, rows, row_names)
        as_document_name = _add_steps(as_document_name, name_count, names, sign)
        has_it, _ = _find_mentions(index, shown.passage_rows[passages], names)
        without = names[~has_it]
        only_as_document_name = _add_steps(only_as_document_name, name_count, without, sign)
        changed.append(names)
    return as_document_name, only_as_document_name, changed


def find_differences(
    now: NDArray[np.generic], before: NDArray[np.generic], absent: object
) -> Flags:
    """Return a flag for each value in `now`: whether `before` has a different value at the same
    position. If `before` is shorter, its missing values count as `absent`."""
    if len(now) < len(before):  # `now` is an older version than `before`
        before = before[: len(now)]
    padded = np.full(len(now), absent, dtype=now.dtype)
    padded[: len(before)] = before
    differs: Flags = now != padded
    return differs


def _find_joining_names(
    index: LiveIndex,
    visible: Visible,
    names: Integers,
    is_document_name: Flags,
    visible_rows: Integers | None,
) -> Flags:
    """Return a flag for each name: whether passages of two or more documents mention it.

    `is_document_name` has a flag for each name of the index: whether the name counts as mentioned
    by the passages of a document with this name. `visible_rows` are all visible passage rows, or
    None. Pass None if the names have few mentions compared with all visible passages. For a common
    name, a sample of the mentions is nearly always enough.
    """
    lowest = np.full(len(names), _NO_DOCUMENT)
    highest = np.full(len(names), -1, dtype=np.int64)

    def add(documents: Integers, name_positions: Integers) -> None:
        np.minimum.at(lowest, name_positions, documents)
        np.maximum.at(highest, name_positions, documents)

    (candidates,) = is_document_name[names].nonzero()
    rows, positions = index.postings.document_names_by_name.find_all(names[candidates])
    number, positions = find_named_passages(index, visible, rows, candidates[positions])
    # The same passages as in `Snapshot.find_mentions`.
    mentions_it = ~has_topic(index, visible.passage_rows[number], names[positions])
    add(visible.document_of_number[number[mentions_it]], positions[mentions_it])
    if visible_rows is not None:
        passages = index.passages
        rows, positions = expand_ranges(
            passages.sentence_mention_start[visible_rows],
            passages.sentence_mention_end[visible_rows],
        )
        mentioned = index.sentence_mentions.name[rows]
        name_positions = invert_positions(names, len(is_document_name))[mentioned]
        add(visible.document_of_row[visible_rows[positions]], name_positions)
        return lowest < highest
    undecided = np.arange(len(names))
    for limit in (_SAMPLE, None):
        postings = index.postings.sentence_mentions_by_name
        rows, positions = postings.find_all(names[undecided], limit)
        passage_rows = index.sentence_mentions.passage_row[rows]
        shown = take_flags(visible.passages, passage_rows)
        add(visible.document_of_row[passage_rows[shown]], undecided[positions[shown]])
        counts = np.bincount(positions, minlength=len(undecided))
        is_open = lowest[undecided] >= highest[undecided]
        undecided = undecided[is_open & (counts >= _SAMPLE)]
    return lowest < highest


def find_named_passages(
    index: LiveIndex, visible: Visible, rows: Integers, names: AnyIntegers
) -> tuple[Integers, Integers]:
    """Return the visible passages whose document has one of the names.

    Returns pairs of a passage number and a name, without duplicates, by ascending name. `rows` are
    rows of the table `document_names`. `names` has a number for the name of each of these rows.
    """
    document_names = index.document_names
    shown = take_flags(visible.documents, document_names.document_row[rows])
    numbers = document_names.passage_number[rows[shown]].astype(np.int64)
    names = names[shown].astype(np.int64)  # names times passages exceed 32 bits
    shown = visible.passage_rows[numbers] >= 0
    numbers, names = numbers[shown], names[shown]
    passages = max(len(index.passage_numbers), 1)
    distinct_names, distinct_numbers = np.divmod(
        sort_distinct(names * passages + numbers), passages
    )
    return distinct_numbers, distinct_names


def has_topic(index: LiveIndex, passage_rows: Integers, names: AnyIntegers) -> Flags:
    """Return a flag for each pair of a passage row and a name (the two arrays have equal length):
    whether the name is a topic of the passage."""
    return _find_mentions(index, passage_rows, names)[1]


def _find_mentions(
    index: LiveIndex, passage_rows: Integers, names: AnyIntegers
) -> tuple[Flags, Flags]:
    """Return two flags for each pair of a passage row and a name: whether the name is in the
    passage's questions, and whether the name is a topic of the passage."""
    if not len(passage_rows):
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    passages, mentions = index.passages, index.mentions
    rows, positions = expand_ranges(
        passages.mention_start[passage_rows], passages.mention_end[passage_rows]
    )
    is_same = mentions.name[rows] == names[positions]
    has_it = np.bincount(positions[is_same], minlength=len(names)) > 0
    is_topic = is_same & mentions.is_topic[rows]
    return has_it, np.bincount(positions[is_topic], minlength=len(names)) > 0
