"""Adds the content of passages to the tables of the live index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from hopsyncd.index.arrays import Integers
from hopsyncd.index.live_index import LiveIndex, compute_name_key
from hopsyncd.index.postings import Postings, rank_keys
from hopsyncd.index.tables import (
    HeadingTable,
    MentionTable,
    OutgoingQuestionTable,
    PassageTable,
    QuestionKeywordTable,
    QuestionTable,
    SentenceMentionTable,
    TermTable,
    VectorMentionTable,
    to_int32,
    to_int64,
)
from store.records import Direction, Question, QuestionSet


@dataclass(frozen=True, slots=True)
class NewPassage:
    """The content of a new passage row in the index.

    `word_count` is the number of words in the passage's full text. `term_counts` has the frequency
    of each term in the text. `heading_keys` are the keys by which links find the passage's
    headings. `spellings` are the words of the text as written.
    """

    questions: QuestionSet
    word_count: int
    term_counts: Mapping[str, int]
    heading_keys: Sequence[int] = ()
    spellings: Sequence[str] = ()


@dataclass(slots=True)
class _QuestionColumns:
    ids: list[int] = field(default_factory=list)
    passage_rows: list[int] = field(default_factory=list)
    vector_rows: list[int] = field(default_factory=list)
    keyword_counts: list[int] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)

    def add(self, passage_row: int, first_vector: int, question: Question) -> None:
        self.ids.append(question.id)
        self.passage_rows.append(passage_row)
        self.vector_rows.append(first_vector + question.vector_row)
        self.keyword_counts.append(len(question.keywords))
        self.keywords += sorted(question.keywords)


@dataclass(slots=True)
class _Content:
    """The content of new passages as columns. `counts` has, after each passage, the total number of
    rows of each kind."""

    incoming: _QuestionColumns = field(default_factory=_QuestionColumns)
    outgoing: _QuestionColumns = field(default_factory=_QuestionColumns)
    mentions: list[tuple[int, str, bool]] = field(default_factory=list)
    sentence_mentions: list[tuple[int, str, int]] = field(default_factory=list)
    terms: list[tuple[int, int, int]] = field(default_factory=list)
    heading_keys: list[int] = field(default_factory=list)
    counts: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, passage_row: int, first_vector: int, new: NewPassage) -> None:
        topics: set[str] = set()
        names: set[str] = set()
        in_sentences: list[tuple[int, str, int]] = []
        for question in new.questions.questions:
            is_outgoing = question.direction is Direction.OUTGOING
            columns = self.outgoing if is_outgoing else self.incoming
            columns.add(passage_row, first_vector, question)
            names |= question.keywords
            if is_outgoing:
                continue
            if question.vector_row == 0:
                topics |= question.keywords
            else:
                vector_row = first_vector + question.vector_row
                in_sentences += [(passage_row, name, vector_row) for name in question.keywords]
        # `sentence_mentions` is sorted by vector row, then by name.
        self.sentence_mentions += sorted(in_sentences, key=lambda mention: (mention[2], mention[1]))
        self.mentions += [(passage_row, name, name in topics) for name in sorted(names)]
        self.terms += [
            (passage_row, compute_name_key(term), count) for term, count in new.term_counts.items()
        ]
        self.heading_keys += new.heading_keys
        self.counts.append(
            (
                len(self.incoming.ids),
                len(self.outgoing.ids),
                len(self.mentions),
                len(self.sentence_mentions),
                len(self.heading_keys),
            )
        )


def add_passages(index: LiveIndex, contents: Sequence[NewPassage]) -> Integers:
    """Add the passages that have no row yet. Returns the passage row of each element of
    `contents`."""
    set_ids = to_int64([each.questions.id for each in contents])
    rows = index.find_question_sets(set_ids)
    if (rows >= 0).all():
        return rows
    pairs = zip(contents, rows.tolist(), strict=True)
    _add(index, [*{each.questions.id: each for each, row in pairs if row < 0}.values()])
    return index.find_question_sets(set_ids)


def _add(index: LiveIndex, new: Sequence[NewPassage]) -> None:
    first_row, content = len(index.passages), _Content()
    vectors = np.concatenate([each.questions.vectors for each in new])
    vector_counts = [len(each.questions.vectors) for each in new]
    starts = [*accumulate(vector_counts, initial=0)]
    first_vector = index.vectors.append(vectors, starts[:-1])
    for number, (start, each) in enumerate(zip(starts, new, strict=False)):
        content.add(first_row + number, first_vector + start, each)
        index.vocabulary.update(dict.fromkeys(each.spellings))
    before = (
        len(index.incoming),
        len(index.outgoing),
        len(index.mentions),
        len(index.sentence_mentions),
        len(index.headings),
    )
    _add_incoming(index, content.incoming)
    _add_outgoing(index, content.outgoing)
    _add_mentions(index, content)
    _add_sentence_mentions(index, content)
    terms = np.array(content.terms, dtype=np.int64).reshape(-1, 3)
    start = len(index.terms)
    index.terms = index.terms.extend(
        TermTable(passage_row=to_int32(terms[:, 0]), count=to_int32(terms[:, 2]))
    )
    _add_to_postings(index.postings.terms_by_key, terms[:, 1], start)
    index.headings = index.headings.extend(HeadingTable(key=to_int64(content.heading_keys)))
    vector_ends = first_vector + np.array(starts[1:], dtype=np.int64)
    _add_passage_rows(index, new, vector_ends, np.array(content.counts, np.int64) + before, before)


def _add_passage_rows(
    index: LiveIndex,
    new: Sequence[NewPassage],
    vector_ends: Integers,
    ends: Integers,
    before: tuple[int, ...],
) -> None:
    """Add the rows of m new passages.

    `ends` (m, 5) contains the end of each passage's rows in five tables: incoming questions,
    outgoing questions, mentions, sentence mentions and headings. `before` has the start of the
    first passage's rows in each of these tables.
    """
    starts = np.concatenate([[before], ends[:-1]])
    vector_counts = [len(each.questions.vectors) for each in new]
    numbers = index.passage_numbers.add(to_int64([each.questions.passage for each in new]))
    first_row = len(index.passages)
    set_ids = to_int64([each.questions.id for each in new])
    index.passages = index.passages.extend(
        PassageTable(
            passage_id=to_int64([each.questions.passage for each in new]),
            question_set_id=set_ids,
            passage_number=to_int32(numbers),
            word_count=to_int32([each.word_count for each in new]),
            vector_start=to_int32(vector_ends - vector_counts),
            vector_end=to_int32(vector_ends),
            incoming_start=to_int32(starts[:, 0]),
            incoming_end=to_int32(ends[:, 0]),
            outgoing_start=to_int32(starts[:, 1]),
            outgoing_end=to_int32(ends[:, 1]),
            mention_start=to_int32(starts[:, 2]),
            mention_end=to_int32(ends[:, 2]),
            sentence_mention_start=to_int32(starts[:, 3]),
            sentence_mention_end=to_int32(ends[:, 3]),
            heading_start=to_int32(starts[:, 4]),
            heading_end=to_int32(ends[:, 4]),
        )
    )
    _add_to_postings(index.postings.passages_by_number, numbers, first_row)
    _add_to_postings(index.postings.passages_by_question_set, set_ids, first_row)


def _add_to_postings(postings: Postings, keys: Integers, first_row: int) -> None:
    """Add consecutive rows to the postings, one for each key, starting with `first_row`."""
    postings.add(keys, np.arange(first_row, first_row + len(keys), dtype=np.int32))


def _add_incoming(index: LiveIndex, columns: _QuestionColumns) -> None:
    rows, names = _add_keywords(index, columns)
    start = len(index.incoming)
    index.incoming = index.incoming.extend(rows)
    _add_to_postings(index.postings.incoming_by_id, rows.id, start)
    row_of_keyword = np.repeat(np.arange(start, start + len(rows)), rows.keyword_count)
    keys = rank_keys(names, np.repeat(rows.id, rows.keyword_count))
    index.postings.incoming_by_keyword.add(keys, row_of_keyword)


def _add_outgoing(index: LiveIndex, columns: _QuestionColumns) -> None:
    rows, names = _add_keywords(index, columns)
    start = len(index.outgoing)
    index.outgoing = index.outgoing.extend(
        OutgoingQuestionTable(
            id=rows.id,
            passage_row=rows.passage_row,
            vector_row=rows.vector_row,
            keyword_start=rows.keyword_start,
            keyword_count=rows.keyword_count,
            match_row=np.full(len(rows), -1, dtype=np.int32),
        )
    )
    _add_to_postings(index.postings.outgoing_by_id, rows.id, start)
    row_of_keyword = np.repeat(np.arange(start, start + len(rows)), rows.keyword_count)
    index.postings.outgoing_by_keyword.add(names, row_of_keyword)


def _add_keywords(index: LiveIndex, columns: _QuestionColumns) -> tuple[QuestionTable, Integers]:
    """Add the keywords of new questions to the index. Returns the rows of the questions, and the
    name number of each keyword."""
    names = index.number_names(columns.keywords)
    counts = np.array(columns.keyword_counts, dtype=np.int64)
    starts = len(index.question_keywords) + np.cumsum(counts) - counts
    index.question_keywords = index.question_keywords.extend(
        QuestionKeywordTable(name=to_int32(names))
    )
    rows = QuestionTable(
        id=to_int64(columns.ids),
        passage_row=to_int32(columns.passage_rows),
        vector_row=to_int32(columns.vector_rows),
        keyword_start=to_int32(starts),
        keyword_count=to_int32(counts),
    )
    return rows, names


def _add_mentions(index: LiveIndex, content: _Content) -> None:
    names = index.number_names([name for _, name, _ in content.mentions])
    start = len(index.mentions)
    index.mentions = index.mentions.extend(
        MentionTable(
            passage_row=to_int32([row for row, _, _ in content.mentions]),
            name=to_int32(names),
            is_topic=np.array([is_topic for _, _, is_topic in content.mentions], dtype=np.bool_),
        )
    )
    _add_to_postings(index.postings.mentions_by_name, names, start)


def _add_sentence_mentions(index: LiveIndex, content: _Content) -> None:
    names = index.number_names([name for _, name, _ in content.sentence_mentions])
    vector_rows = to_int64([row for _, _, row in content.sentence_mentions])
    start = len(index.sentence_mentions)
    index.sentence_mentions = index.sentence_mentions.extend(
        SentenceMentionTable(
            passage_row=to_int32([row for row, _, _ in content.sentence_mentions]),
            name=to_int32(names),
            vector_row=to_int32(vector_rows),
        )
    )
    _add_to_postings(index.postings.sentence_mentions_by_name, names, start)
    new_vectors = np.arange(len(index.vector_mentions), len(index.vectors))
    ends = start + np.searchsorted(vector_rows, new_vectors, "right")
    index.vector_mentions = index.vector_mentions.extend(
        VectorMentionTable(sentence_mention_end=to_int32(ends))
    )
