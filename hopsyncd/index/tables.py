"""Defines the tables of the live index. Each table is a frozen dataclass of arrays of equal length.

A row is a position in every array of a table. The annotation of a column is its type in memory and
on disk. Tables only grow, and a row keeps its number. A number in a column named `..._row` is a row
of the table with that name. `..._start` and `..._end` are ranges of rows, without the end.

A passage, name or document is also identified by a 63-bit content id or key, as in the database.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Self, get_args, get_type_hints

import numpy as np

from hopsyncd.index.arrays import AnyIntegers, Column, Flags, Floats, Int32s, Integers
from hopsyncd.index.postings import Postings, Segment

_FIRST_ROOM = 256  # the initial capacity of a table, in rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Columns of equal length. A subclass defines the columns.

    >>> numbers = HeadingTable.make_empty().extend(HeadingTable(key=np.array([7, 9])))
    >>> len(numbers), numbers.key.tolist()
    (2, [7, 9])

    `buffers` has the array of each column with spare capacity, to which `extend` adds rows. So the
    time for adding rows depends only on the new rows. A reader's table does not get the new rows.
    """

    buffers: Mapping[str, Column] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.get_dtypes()))))

    @classmethod
    @cache
    def get_dtypes(cls) -> Mapping[str, np.dtype[Any]]:
        """Return the type of each column, from its annotation."""
        hints = get_type_hints(cls)
        names = [each.name for each in fields(cls) if each.name != "buffers"]
        return {name: np.dtype(get_args(get_args(hints[name])[1])[0]) for name in names}

    @classmethod
    def make_empty(cls) -> Self:
        """Create a table without rows."""
        return cls._make({name: np.empty(0, dtype) for name, dtype in cls.get_dtypes().items()}, {})

    @classmethod
    def from_buffers(cls, buffers: Mapping[str, Column], length: int) -> Self:
        """Create a table from the first `length` elements of these arrays. Raises ValueError if an
        array has the wrong type."""
        for name, dtype in cls.get_dtypes().items():
            if buffers[name].dtype != dtype:
                raise ValueError(f"{name} is {buffers[name].dtype}, not {dtype}")
        return cls._make({name: buffers[name][:length] for name in cls.get_dtypes()}, buffers)

    @classmethod
    def _make(cls, columns: Mapping[str, Any], buffers: Mapping[str, Column]) -> Self:
        return cls(**columns, buffers=buffers)

    def get_columns(self) -> dict[str, Column]:
        return {name: getattr(self, name) for name in self.get_dtypes()}

    def select_from(self, start: int) -> Self:
        return self._make({name: column[start:] for name, column in self.get_columns().items()}, {})

    def extend(self, new: Self) -> Self:
        """Return a table with the rows of this table and of `new`.

        Extend only the newest table, because a table shares its arrays with its predecessors.
        """
        start, end = len(self), len(self) + len(new)
        buffers: dict[str, Column] = {}
        columns: dict[str, Column] = {}
        for name, old in (self.buffers or self.get_columns()).items():
            buffer = old
            if end > len(old):
                buffer = np.zeros(max(end, 2 * len(old), _FIRST_ROOM), old.dtype)
                buffer[:start] = old[:start]
            buffer[start:end] = getattr(new, name)
            buffers[name], columns[name] = buffer, buffer[:end]
        return self._make(columns, buffers)


@dataclass(frozen=True, eq=False, kw_only=True)
class IntervalTable(Table):
    """Rows that are in force from version `born` up to, but not including, version `died`."""

    born: Int32s
    died: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class PassageTable(Table):
    """The content of passages, each with one question set. Rows are never changed.

    If the questions of a passage change, the passage gets another row with the same
    `passage_number`. The first vector of a row represents the whole passage, and each other vector
    one sentence.
    """

    passage_id: Integers
    question_set_id: Integers
    passage_number: Int32s
    word_count: Int32s
    vector_start: Int32s
    vector_end: Int32s
    incoming_start: Int32s
    incoming_end: Int32s
    outgoing_start: Int32s
    outgoing_end: Int32s
    mention_start: Int32s
    mention_end: Int32s
    sentence_mention_start: Int32s
    sentence_mention_end: Int32s
    heading_start: Int32s
    heading_end: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class PassageIntervalTable(IntervalTable):
    """The intervals in which passage rows are vertices of the graph."""

    passage_row: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionTable(Table):
    """Questions of one direction. A passage answers its `incoming` questions, and raises its
    `outgoing` questions.

    The names of a question's keywords are consecutive rows of `question_keywords`.
    """

    id: Integers
    passage_row: Int32s
    vector_row: Int32s
    keyword_start: Int32s
    keyword_count: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class OutgoingQuestionTable(QuestionTable):
    """Outgoing questions. `match_row` is the row of the question's match at the head, or -1."""

    match_row: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class QuestionKeywordTable(Table):
    name: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class MentionTable(Table):
    """The distinct names in the questions of each passage row.

    If `is_topic` is true, a question about the whole passage contains the name.
    """

    passage_row: Int32s
    name: Int32s
    is_topic: Flags


@dataclass(frozen=True, eq=False, kw_only=True)
class SentenceMentionTable(Table):
    """The names of each sentence, by ascending row of the sentence's vector."""

    passage_row: Int32s
    name: Int32s
    vector_row: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorMentionTable(Table):
    """The end of each vector row's sentence mentions. The mentions of a row start at the end of the
    previous row's mentions."""

    sentence_mention_end: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class TermTable(Table):
    """The frequency of each term in a passage row."""

    passage_row: Int32s
    count: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadingTable(Table):
    """The keys that links use for the headings of each passage row."""

    key: Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class DocumentTable(IntervalTable):
    """Revisions of documents.

    `id` is the row in the store, `source` a position in `LiveIndex.sources`, and `path_key` the
    content id of source and path. `modified_ms` and `created_ms` are Unix times, or NO_DATE.
    """

    id: Integers
    source: Int32s
    path_key: Integers
    modified_ms: Integers
    created_ms: Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class DocumentPropertyTable(Table):
    """The properties of documents. `property` is a position in `LiveIndex.properties`."""

    document_row: Int32s
    property: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class DocumentKeyTable(Table):
    """The keys that links may use for documents, found by `document_keys_by_document`."""

    key: Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class OccurrenceTable(Table):
    """The occurrences of passages in documents. `ordinal` is the occurrence's position in the
    document."""

    document_row: Int32s
    passage_number: Int32s
    ordinal: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class DocumentNameTable(Table):
    """The names of documents: a row for each name of a document and each of the document's first
    passages."""

    document_row: Int32s
    passage_number: Int32s
    name: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkTable(Table):
    """Links as written. `ordinal` is the position of the passage in the document, and `position`
    the position of the link in the passage."""

    document_row: Int32s
    passage_number: Int32s
    ordinal: Int32s
    position: Int32s
    candidate_start: Int32s
    candidate_end: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkCandidateTable(Table):
    """The possible targets of links, best first (see `hopsyncd.index.links.Candidate`)."""

    key: Integers
    heading_key: Integers
    reading: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkEdgeTable(IntervalTable):
    """Resolved links between passages: the numbers of both passages, and the row of the link."""

    source_passage: Int32s
    target_passage: Int32s
    link_row: Int32s


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchTable(IntervalTable):
    """The best incoming question (`target_question`) for each outgoing question
    (`source_question`)."""

    source_question: Int32s
    target_question: Int32s
    similarity: Floats


@dataclass(frozen=True, slots=True, eq=False)
class IndexPostings:
    """The postings by which the rows of tables are found.

    A field is named after its table and its key: `mentions_by_name` finds the rows of `mentions`
    with a name. `documents_by_key` and `documents_by_property` find rows of `documents`.
    `matches_by_source` has the passage row of a match's source question as key, and
    `matches_by_target` the passage row of its target question. `incoming_by_keyword` has keys from
    `rank_keys`, which combine a name with a question id.
    """

    incoming_by_id: Postings = field(default_factory=Postings)
    outgoing_by_id: Postings = field(default_factory=Postings)
    incoming_by_keyword: Postings = field(default_factory=Postings)
    outgoing_by_keyword: Postings = field(default_factory=Postings)
    passages_by_number: Postings = field(default_factory=Postings)
    passages_by_question_set: Postings = field(default_factory=Postings)
    mentions_by_name: Postings = field(default_factory=Postings)
    sentence_mentions_by_name: Postings = field(default_factory=Postings)
    terms_by_key: Postings = field(default_factory=Postings)
    occurrences_by_document: Postings = field(default_factory=Postings)
    document_names_by_passage: Postings = field(default_factory=Postings)
    document_names_by_name: Postings = field(default_factory=Postings)
    documents_by_key: Postings = field(default_factory=Postings)
    document_keys_by_document: Postings = field(default_factory=Postings)
    documents_by_property: Postings = field(default_factory=Postings)
    links_by_key: Postings = field(default_factory=Postings)
    links_by_passage: Postings = field(default_factory=Postings)
    links_by_document: Postings = field(default_factory=Postings)
    link_edges_by_source: Postings = field(default_factory=Postings)
    link_edges_by_target: Postings = field(default_factory=Postings)
    matches_by_source: Postings = field(default_factory=Postings)
    matches_by_target: Postings = field(default_factory=Postings)


def to_int32(values: Any) -> Int32s:
    return np.asarray(values, dtype=np.int32)


def to_int64(values: Any) -> Integers:
    return np.asarray(values, dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class _KeyTable(Table):
    key: Integers


class KeyNumbers:
    """Assigns the numbers 0, 1, 2 and so on to 63-bit keys, in the order in which the keys are
    added.

    >>> numbers = KeyNumbers()
    >>> numbers.add(np.array([70, 30, 70])).tolist(), numbers.find(np.array([30, 99])).tolist()
    ([0, 1, 0], [1, -1])
    """

    def __init__(self) -> None:
        self._table = _KeyTable.make_empty()
        self._postings = Postings()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def keys(self) -> Integers:
        return self._table.key

    def add(self, keys: Integers) -> Integers:
        """Return the number of each key. New keys get the next numbers."""
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        numbers = self.find(distinct)
        new = np.flatnonzero(numbers < 0)
        new = new[np.argsort(first[new])]
        numbers[new] = np.arange(len(self), len(self) + len(new))
        self._table = self._table.extend(_KeyTable(key=distinct[new]))
        self._postings.add(distinct[new], numbers[new])
        return numbers[inverse]

    def find(self, keys: AnyIntegers) -> Integers:
        """Return the number of each key, or -1 if the key was not added."""
        numbers = np.full(len(keys), -1, dtype=np.int64)
        rows, positions = self._postings.find_all(keys)
        numbers[positions] = rows
        return numbers

    def move(self, buffer: Integers, length: int) -> None:
        """Use `buffer` instead of the present array. The first `length` elements must be the same
        keys."""
        new = self._table.key[length:]
        self._table = _KeyTable.from_buffers({"key": buffer}, length).extend(_KeyTable(key=new))

    def replace(self, buffer: Integers, length: int) -> None:
        """Replace all keys with the first `length` elements of `buffer`."""
        self._table = _KeyTable.from_buffers({"key": buffer}, length)
        order = np.argsort(self.keys, kind="stable")
        self._postings.replace(Segment(self.keys[order], to_int32(order)))
