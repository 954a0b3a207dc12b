"""The live index: tables in memory with all data that queries read, for every kept version.

The content of a passage (its vectors, questions, names, words) is a row of `passages`, which never
changes. Other tables contain the intervals in which rows are in force: from version `born` until
before version `died`, as in the database. A commit appends rows and sets `died` in other rows, so
its time depends only on its changes. A reader at an older version does not see these changes.

A batch first marks the rows that it begins and ends as PENDING, so no version contains these
changes. `settle` then replaces PENDING with the version.

Example: version 1 has passages 7 and 8. Version 2 replaces passage 8 with passage 9. So the
interval of 8 gets died = 2, and 9 gets a passage row and an interval from 2 on. At version 1, the
intervals of 7 and 8 are in force. At version 2, the intervals of 7 and 9 are in force.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import (
    AnyIntegers,
    Column,
    Flags,
    Floats,
    Int32s,
    Integers,
    find_sorted,
    invert_positions,
    sort_distinct,
)
from hopsyncd.index.postings import read_segment
from hopsyncd.index.tables import (
    DocumentKeyTable,
    DocumentNameTable,
    DocumentPropertyTable,
    DocumentTable,
    HeadingTable,
    IndexPostings,
    IntervalTable,
    KeyNumbers,
    LinkCandidateTable,
    LinkEdgeTable,
    LinkTable,
    MatchTable,
    MentionTable,
    OccurrenceTable,
    OutgoingQuestionTable,
    PassageIntervalTable,
    PassageTable,
    QuestionKeywordTable,
    QuestionTable,
    SentenceMentionTable,
    Table,
    TermTable,
    VectorMentionTable,
    to_int32,
)
from hopsyncd.index.vectors import Grow, VectorTable, grow_in_memory
from store.records import compute_content_id
from store.visibility import HiddenFolders, find_patterns

IN_FORCE = 2**31 - 1  # `died` of a row that is in force at the head
PENDING = IN_FORCE - 1
_KEPT_PATTERNS = 32  # cached lists of patterns; each takes two bytes per document
NO_DATE = -(2**62)  # date of a document that has none


@lru_cache(1 << 14)
def compute_name_key(name: str) -> int:
    """Return the content id by which the index finds a name or a term."""
    return compute_content_id(name)


@dataclass(slots=True)
class _PendingRows:
    """The rows of a table that began or ended since the index was last settled."""

    begun: list[tuple[int, int]] = field(default_factory=list)
    ended: list[Integers] = field(default_factory=list)

    def end(self, table: IntervalTable, rows: Integers, died: AnyIntegers | int) -> None:
        table.died[rows] = died
        self.ended.append(rows)

    def settle(self, table: IntervalTable, version: int) -> None:
        for start, end in self.begun:
            for column in (table.born[start:end], table.died[start:end]):
                column[column == PENDING] = version
        for rows in self.ended:
            table.died[rows[table.died[rows] == PENDING]] = version
        self.begun.clear()
        self.ended.clear()


class LiveIndex:
    """Holds all tables of the index. A single writer changes them, and readers use a `Snapshot`.

    `hopsyncd.index.tables` describes each table. When rows are added, a longer table replaces the
    old table. So a reader that needs columns of equal length must read the table's attribute only
    once. If the reader gets row numbers from postings or from another table, it must read these
    first.
    """

    def __init__(self, dimensions: int, grow: Grow = grow_in_memory) -> None:
        self.vectors = VectorTable(dimensions, grow)
        self.passages = PassageTable.make_empty()
        self.passage_intervals = PassageIntervalTable.make_empty()
        self.incoming = QuestionTable.make_empty()
        self.outgoing = OutgoingQuestionTable.make_empty()
        self.question_keywords = QuestionKeywordTable.make_empty()
        self.mentions = MentionTable.make_empty()
        self.sentence_mentions = SentenceMentionTable.make_empty()
        self.vector_mentions = VectorMentionTable.make_empty()
        self.terms = TermTable.make_empty()
        self.headings = HeadingTable.make_empty()
        self.documents = DocumentTable.make_empty()
        self.document_properties = DocumentPropertyTable.make_empty()
        self.document_keys = DocumentKeyTable.make_empty()
        self.occurrences = OccurrenceTable.make_empty()
        self.document_names = DocumentNameTable.make_empty()
        self.links = LinkTable.make_empty()
        self.link_candidates = LinkCandidateTable.make_empty()
        self.link_edges = LinkEdgeTable.make_empty()
        self.matches = MatchTable.make_empty()
        self.postings = IndexPostings()
        self.name_numbers = KeyNumbers()
        self.name_texts: list[str] = []  # the text of each name number
        self.passage_numbers = KeyNumbers()
        self.vocabulary: dict[str, None] = {}  # the words of all passages, visible or not
        self.sources: list[str] = []
        self.document_paths: list[str] = []  # the path of each document row
        self.link_texts: list[str] = []  # the visible text of each row of `links`
        self.properties: list[tuple[str, str]] = []  # names and values that any document has
        self._property_numbers: dict[tuple[str, str], int] = {}
        self.document_row_of_id: dict[int, int] = {}  # at the head, by row in the store
        self.version = 0  # the version of the tables
        # By source and patterns: for each document row, a position in the list of pattern sets.
        # A reader replaces the mapping; no thread changes it.
        self._deciding_patterns: dict[
            tuple[str, tuple[str, ...]], tuple[NDArray[np.int16], list[tuple[int, ...]]]
        ] = {}
        self._pending_intervals = _PendingRows()
        self._pending_documents = _PendingRows()
        self._pending_link_edges = _PendingRows()
        self._pending_matches = _PendingRows()

    @property
    def is_vertex(self) -> Flags:
        """A flag for each passage row: whether the passage is a vertex at the head, including
        pending changes."""
        intervals = self.passage_intervals
        flags = np.zeros(len(self.passages), dtype=np.bool_)
        flags[intervals.passage_row[intervals.died == IN_FORCE]] = True
        return flags

    @property
    def vertex_count(self) -> int:
        """The number of passages that are vertices at the head, including pending changes."""
        return int(np.count_nonzero(self.passage_intervals.died == IN_FORCE))

    @property
    def is_worn(self) -> bool:
        """Whether most vectors or occurrences are not in force at the head, for example after a
        garbage collection."""
        passages = self.passages
        vector_counts = passages.vector_end - passages.vector_start
        used = int(vector_counts[self.is_vertex].sum())
        unused = len(self.vectors) - used
        occurring = int(
            np.count_nonzero(self.documents.died[self.occurrences.document_row] == IN_FORCE)
        )
        ended = len(self.occurrences) - occurring
        return unused > max(1000, used) or ended > max(1000, occurring)

    def number_names(self, names: Sequence[str]) -> Integers:
        """Return the number of each name. New names get the next numbers."""
        keys = np.array([compute_name_key(name) for name in names], dtype=np.int64)
        numbers = self.name_numbers.add(keys)
        for name, number in zip(names, numbers.tolist(), strict=True):
            if number == len(self.name_texts):
                self.name_texts.append(name)
        return numbers

    def number_properties(self, properties: Sequence[tuple[str, str]]) -> list[int]:
        """Return the number of each property. New properties get the next numbers."""
        numbers = self._property_numbers
        for pair in properties:
            if numbers.setdefault(pair, len(self.properties)) == len(self.properties):
                self.properties.append(pair)
        return [numbers[pair] for pair in properties]

    def find_property(self, pair: tuple[str, str]) -> int | None:
        """Return the number of a property, or None if no document has it."""
        return self._property_numbers.get(pair)

    def find_deciding_patterns(
        self, source: str, patterns: tuple[str, ...], sources: Int32s
    ) -> tuple[NDArray[np.int16], list[tuple[int, ...]]]:
        """Find the patterns that apply to the path of each document row, as in `find_patterns`.

        Returns a number for each row, and the positions of the patterns for each number. `sources`
        has the source number of each row. Rows of sources other than `source` get the number 0.
        Each path is compared only once. Rows that a writer is adding at the moment may be missing
        at the end.
        """
        number = self.sources.index(source) if source in self.sources else -1
        key, count = (source, patterns), len(sources)
        known, sets = self._deciding_patterns.get(key, (np.empty(0, dtype=np.int16), [(-1,)]))
        paths = self.document_paths[len(known) : count]
        if paths:
            added = np.zeros(len(paths), dtype=np.int16)
            rows = np.flatnonzero(sources[len(known) : len(known) + len(paths)] == number)
            found = [find_patterns(patterns, paths[row]) for row in rows.tolist()]
            sets = list(dict.fromkeys([*sets, *found]))
            numbers = {deciding: number for number, deciding in enumerate(sets)}
            added[rows] = [numbers[deciding] for deciding in found]
            known = np.concatenate([known, added])
            entries = [entry for entry in self._deciding_patterns.items() if entry[0] != key]
            self._deciding_patterns = dict([*entries[1 - _KEPT_PATTERNS :], (key, (known, sets))])
        return known[:count], sets

    def find_hidden_documents(self, folders: HiddenFolders, sources: Int32s) -> Flags:
        """Return a flag for each document row: whether `folders` hides the document. `sources` has
        the source number of each row.

        A row that a writer is adding at the moment counts as hidden, because no version contains it
        yet.
        """
        numbers, sets = self.find_deciding_patterns(folders.source, folders.patterns, sources)
        number = self.sources.index(folders.source) if folders.source in self.sources else -1
        hidden = np.ones(len(sources), dtype=np.bool_)
        hides = np.array(
            [any(folders.decisions[pattern] for pattern in deciding) for deciding in sets]
        )
        hidden[: len(numbers)] = hides[numbers]
        hidden &= sources == number
        return hidden

    # Rows with intervals

    def find_vertices(self, passage_ids: Integers) -> Integers:
        """Return the row of each passage, or -1 if the passage is not a vertex at the head."""
        numbers = self.passage_numbers.find(passage_ids)
        rows, positions = self.postings.passages_by_number.find_all(numbers)
        is_vertex = self.is_vertex[rows]
        passage_rows = np.full(len(passage_ids), -1, dtype=np.int64)
        passage_rows[positions[is_vertex]] = rows[is_vertex]
        return passage_rows

    def find_question_sets(self, set_ids: Integers) -> Integers:
        """Return the passage row of each question set, or -1 if the question set was not added."""
        set_rows = np.full(len(set_ids), -1, dtype=np.int64)
        rows, positions = self.postings.passages_by_question_set.find_all(set_ids)
        set_rows[positions] = rows
        return set_rows

    def begin_passages(
        self,
        passage_rows: Integers,
        born: Integers | int = PENDING,
        died: Integers | int = IN_FORCE,
    ) -> None:
        """Make the passage rows vertices from `born` until `died`."""
        count, start = len(passage_rows), len(self.passage_intervals)
        self.passage_intervals = self.passage_intervals.extend(
            PassageIntervalTable(
                passage_row=to_int32(passage_rows),
                born=to_int32(np.broadcast_to(born, count)),
                died=to_int32(np.broadcast_to(died, count)),
            )
        )
        self._pending_intervals.begun.append((start, start + count))

    def end_passages(self, passage_rows: Integers, died: Integers | int = PENDING) -> None:
        """End the intervals of these passage rows. Raises IndexError if a row is not a vertex at
        the head."""
        intervals = self.passage_intervals
        current = np.flatnonzero(intervals.died == IN_FORCE)
        interval_rows = np.full(len(self.passages), len(intervals))
        interval_rows[intervals.passage_row[current]] = current
        self._pending_intervals.end(intervals, interval_rows[passage_rows], died)

    def begin_documents(self, new: DocumentTable) -> int:
        """Add revisions of documents. Returns the row of the first revision."""
        start = len(self.documents)
        self.documents = self.documents.extend(new)
        self._pending_documents.begun.append((start, start + len(new)))
        return start

    def end_documents(self, rows: Integers, version: int) -> None:
        self._pending_documents.end(self.documents, rows, version)

    def begin_link_edges(self, new: LinkEdgeTable) -> None:
        start = len(self.link_edges)
        self.link_edges = self.link_edges.extend(new)
        rows = np.arange(start, start + len(new), dtype=np.int32)
        self._pending_link_edges.begun.append((start, start + len(new)))
        self.postings.link_edges_by_source.add(new.source_passage, rows)
        self.postings.link_edges_by_target.add(new.target_passage, rows)

    def end_link_edges(self, rows: Integers, version: int) -> None:
        self._pending_link_edges.end(self.link_edges, rows, version)

    def begin_matches(
        self,
        source_questions: Integers,
        target_questions: Integers,
        similarity: Floats,
        born: Integers | int = PENDING,
        died: Integers | int = IN_FORCE,
    ) -> None:
        """Set the matches of outgoing questions. None of the questions may have a match in force.

        The postings contain the matches only after `settle`.
        """
        count, start = len(source_questions), len(self.matches)
        ends = to_int32(np.broadcast_to(died, count))
        self.matches = self.matches.extend(
            MatchTable(
                source_question=to_int32(source_questions),
                target_question=to_int32(target_questions),
                similarity=similarity,
                born=to_int32(np.broadcast_to(born, count)),
                died=ends,
            )
        )
        rows = np.arange(start, start + count, dtype=np.int32)
        self._pending_matches.begun.append((start, start + count))
        is_current = ends == IN_FORCE
        self.outgoing.match_row[source_questions[is_current]] = rows[is_current]

    def end_matches(self, source_questions: Integers, died: Integers | int = PENDING) -> None:
        """End the matches of these outgoing questions. Each question must have a match."""
        rows = self.outgoing.match_row[source_questions].astype(np.int64)
        self.outgoing.match_row[source_questions] = -1
        self._pending_matches.end(self.matches, rows, died)

    def find_matches(self, questions: Integers, version: int) -> Integers:
        """Return candidate rows of `matches` for these outgoing questions, which must be ascending.

        The rows include every match in force at `version`. They may include other rows, which the
        caller must leave out.
        """
        rows = self.outgoing.match_row[questions]
        matches = self.matches
        is_found = (rows >= 0) & (rows < len(matches))
        head = rows[is_found]
        is_found[is_found] = (matches.born[head] <= version) & (version < matches.died[head])
        others = questions[~is_found]  # their matches changed after the version
        passage_rows = sort_distinct(self.outgoing.passage_row[others].astype(np.int64))
        match_rows, _ = self.postings.matches_by_source.find_all(passage_rows)
        match_rows = match_rows[find_sorted(others, self.matches.source_question[match_rows])[1]]
        return np.concatenate([rows[is_found].astype(np.int64), match_rows])

    def find_pending_matches(self, targets: Integers) -> Integers:
        """Return the rows of the matches that begin with the next version and lead to the passage
        rows `targets`, which must be ascending."""
        begun = self._pending_matches.begun
        rows = np.arange(begun[0][0] if begun else len(self.matches), len(self.matches))
        passage_rows = self.incoming.passage_row[self.matches.target_question[rows]]
        return rows[find_sorted(targets, passage_rows)[1]]

    def collect_pending_matches(self) -> tuple[Integers, Integers]:
        """Return the rows of `matches` that begin with the next version, and the rows that end with
        the next version."""
        none, pending = np.empty(0, dtype=np.int64), self._pending_matches
        begun = np.concatenate([none, *(np.arange(start, end) for start, end in pending.begun)])
        ended = np.concatenate([none, *pending.ended])
        matches = self.matches
        return begun[matches.died[begun] == IN_FORCE], ended[matches.born[ended] != PENDING]

    def settle(self, version: int) -> None:
        """Make the pending changes part of this version and later versions."""
        self._pending_intervals.settle(self.passage_intervals, version)
        self._pending_documents.settle(self.documents, version)
        self._pending_link_edges.settle(self.link_edges, version)
        self._drop_unseen_matches()
        begun = self._pending_matches.begun
        rows = np.arange(begun[0][0] if begun else len(self.matches), len(self.matches))
        self._pending_matches.settle(self.matches, version)
        sources = self.outgoing.passage_row[self.matches.source_question[rows]]
        targets = self.incoming.passage_row[self.matches.target_question[rows]]
        self.postings.matches_by_source.add(sources, rows)
        self.postings.matches_by_target.add(targets, rows)
        self.version = version

    def _drop_unseen_matches(self) -> None:
        """Drop the matches that began and ended since the index was last settled, because no
        version contains them. No reader has seen their rows, and no postings contain them."""
        pending, matches = self._pending_matches, self.matches
        if not pending.begun:
            return
        start = pending.begun[0][0]
        is_seen = (matches.born[start:] != PENDING) | (matches.died[start:] != PENDING)
        if is_seen.all():
            return
        seen_rows = start + np.flatnonzero(is_seen)
        end = start + len(seen_rows)
        new_rows = invert_positions(seen_rows - start, len(is_seen))
        for column in matches.get_columns().values():
            column[start:end] = column[seen_rows]
        self.matches = MatchTable.from_buffers(matches.buffers, end)
        current = start + np.flatnonzero(self.matches.died[start:] == IN_FORCE)
        self.outgoing.match_row[self.matches.source_question[current]] = current
        ended = np.concatenate(pending.ended) if pending.ended else np.empty(0, dtype=np.int64)
        moved = new_rows[ended[ended >= start] - start]
        pending.begun = [(start, end)]
        pending.ended = [ended[ended < start], start + moved[moved >= 0]]

    def replace_columns(self, buffers: Mapping[str, Column], lengths: Mapping[str, int]) -> None:
        """Replace everything except vectors and texts with the columns of a FrozenIndex, given by
        name.

        `lengths` has the length of each column. The arrays may be longer.
        """
        self.name_numbers.replace(buffers["names"], lengths["names"])
        self.passage_numbers.replace(buffers["passages"], lengths["passages"])
        for table_name, table in self.get_tables().items():
            columns = {name: buffers[f"{table_name}.{name}"] for name in table.get_dtypes()}
            length = lengths[f"{table_name}.{next(iter(columns))}"]
            setattr(self, table_name, table.from_buffers(columns, length))
        for each in fields(self.postings):
            segment = read_segment(each.name, buffers, lengths)
            getattr(self.postings, each.name).replace(segment)
        documents = self.documents
        current = np.flatnonzero(documents.died == IN_FORCE)
        self.document_row_of_id = dict(
            zip(documents.id[current].tolist(), current.tolist(), strict=True)
        )
        self._property_numbers = {pair: number for number, pair in enumerate(self.properties)}

    def get_tables(self) -> dict[str, Table]:
        """Return all tables by their field names."""
        return {name: table for name, table in vars(self).items() if isinstance(table, Table)}
