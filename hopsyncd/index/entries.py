"""Entries: the content of passages, put into the columns of the live index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from hopsyncd.index.columns import Integers
from hopsyncd.index.live_index import LiveIndex, name_key
from store.records import Direction, Question, QuestionSet


@dataclass(frozen=True, slots=True)
class NewPassage:
    """What one entry is made of.

    words: the length of the passage's full text. terms: how often that has each of its terms.
    headings: keys of its headings, as links name them. spelled: its words as they are written.
    """

    questions: QuestionSet
    words: int
    terms: Mapping[str, int]
    headings: Sequence[int] = ()
    spelled: Sequence[str] = ()


@dataclass(slots=True)
class _Questions:
    id: list[int] = field(default_factory=list)
    entry: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    keywords: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, entry: int, first_row: int, question: Question) -> None:
        self.id.append(question.id)
        self.entry.append(entry)
        self.row.append(first_row + question.vector_row)
        self.keywords.append(len(question.keywords))
        self.names += sorted(question.keywords)


def add_entries(index: LiveIndex, contents: Sequence[NewPassage]) -> Integers:
    """Add what has no entry yet; returns the entry of each of the contents."""
    new = {one.questions.id: one for one in contents if one.questions.id not in index.entry_of}
    if new:
        _add(index, list(new.values()))
    return np.array([index.entry_of[one.questions.id] for one in contents], dtype=np.int64)


def _add(index: LiveIndex, contents: Sequence[NewPassage]) -> None:
    first = len(index["entries"])
    sides = {direction: _Questions() for direction in Direction}
    said: list[tuple[int, str, bool]] = []
    mention: list[tuple[int, str, int]] = []
    term: list[tuple[int, int, int]] = []
    heading: list[int] = []
    ends: list[tuple[int, ...]] = []
    vectors = np.concatenate([one.questions.vectors for one in contents])
    lengths = [len(one.questions.vectors) for one in contents]
    row = index.vectors.append(vectors, [*accumulate(lengths[:-1], initial=0)])
    for entry, content in enumerate(contents, first):
        questions = content.questions
        about: set[str] = set()
        names: set[str] = set()
        mentioned: list[tuple[int, str, int]] = []
        for question in questions.questions:
            sides[question.direction].add(entry, row, question)
            names |= question.keywords
            if question.direction is Direction.OUTGOING:
                continue
            if question.vector_row == 0:
                about |= question.keywords
            else:
                at = row + question.vector_row
                mentioned += [(entry, name, at) for name in question.keywords]
        mention += sorted(mentioned, key=lambda one: (one[2], one[1]))  # rows rise in all of it
        said += [(entry, name, name in about) for name in sorted(names)]
        term += [(entry, name_key(one), count) for one, count in content.terms.items()]
        heading += content.headings
        index.words.update(dict.fromkeys(content.spelled))
        row += len(questions.vectors)
        asked, answered = sides[Direction.OUTGOING], sides[Direction.INCOMING]
        counts = len(answered.id), len(asked.id), len(said), len(mention), len(heading)
        ends.append((row, *counts))
    _append_questions(index, "incoming", sides[Direction.INCOMING])
    _append_questions(index, "outgoing", sides[Direction.OUTGOING])
    starts = _append_names(index, said, mention, row)
    _append_terms(index, term)
    _append_entries(index, contents, (*starts, index["heading"].append(key=heading)), ends)


def _append_questions(index: LiveIndex, side: str, new: _Questions) -> None:
    names = index.number_names(new.names)
    keywords = np.array(new.keywords, dtype=np.int64)
    before = index["keyword"].append(name=names) + np.cumsum(keywords) - keywords
    more = {"match": np.full(len(keywords), -1)} if side == "outgoing" else {}
    first = index[side].append(
        id=new.id, entry=new.entry, row=new.row, first_keyword=before, keywords=keywords, **more
    )
    rows = np.arange(first, first + len(keywords), dtype=np.int32)
    index.postings[f"{side}_of_id"].add(np.array(new.id, dtype=np.int64), rows)
    index.postings[f"{side}_having"].add(names, np.repeat(rows, keywords))


def _append_names(
    index: LiveIndex,
    said: list[tuple[int, str, bool]],
    mention: list[tuple[int, str, int]],
    end_row: int,
) -> tuple[int, int]:
    """Of vectors up to `end_row`. Returns the first new rows of `said` and of `mention`."""
    names = index.number_names([name for _, name, _ in said])
    first_said = index["said"].append(
        entry=[entry for entry, _, _ in said], name=names, about=[about for _, _, about in said]
    )
    rows = np.arange(first_said, first_said + len(names), dtype=np.int32)
    index.postings["said_of_name"].add(names, rows)
    names = index.number_names([name for _, name, _ in mention])
    of_row = np.array([row for _, _, row in mention], dtype=np.int64)
    first = index["mention"].append(
        entry=[entry for entry, _, _ in mention], name=names, row=of_row
    )
    new = np.arange(len(index["vector"]), end_row)
    index["vector"].append(end_mention=first + np.searchsorted(of_row, new, "right"))
    rows = np.arange(first, first + len(names), dtype=np.int32)
    index.postings["mention_of_name"].add(names, rows)
    return first_said, first


def _append_terms(index: LiveIndex, term: list[tuple[int, int, int]]) -> None:
    rows = np.array(term, dtype=np.int64).reshape(-1, 3)
    first = index["term"].append(entry=rows[:, 0], count=rows[:, 2])
    index.postings["term_rows"].add(rows[:, 1], np.arange(first, first + len(rows), dtype=np.int32))


def _append_entries(
    index: LiveIndex,
    contents: Sequence[NewPassage],
    named: tuple[int, int, int],
    ends: Sequence[tuple[int, ...]],
) -> None:
    """`named` are the first new rows of said, mention and heading; `ends` the last of each part."""
    count = len(contents)
    passages = np.array([one.questions.passage for one in contents], dtype=np.int64)
    numbers = index.passages.add(passages)
    row_ends = np.array(ends, dtype=np.int64)
    first_row = row_ends[:, 0] - [len(one.questions.vectors) for one in contents]
    columns: dict[str, object] = {"first_row": first_row, "end_row": row_ends[:, 0]}
    questions = [
        len(index[side]) - row_ends[-1, at] for at, side in ((1, "incoming"), (2, "outgoing"))
    ]
    parts = ("incoming", "outgoing", "said", "mention", "heading")
    for at, (part, before) in enumerate(zip(parts, (*questions, *named), strict=True), 1):
        end = before + row_ends[:, at]
        columns[f"end_{part}"] = end
        columns[f"first_{part}"] = np.concatenate([[before], end[:-1]])
    first = index["entries"].append(
        passage=passages,
        set=[one.questions.id for one in contents],
        number=numbers,
        words=[one.words for one in contents],
        **columns,
    )
    entries = np.arange(first, first + count, dtype=np.int32)
    index.postings["entries_of_number"].add(numbers, entries)
    for entry, one in enumerate(contents, first):
        index.entry_of[one.questions.id] = entry
