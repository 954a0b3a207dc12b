"""The subjects of a question: documents whose title it writes out.

"Which film came out first, Aas Ka Panchhi or Phoolwari?" has two subjects, and a softmax over
similar passages often starts at one of them only. If a question has at least two subjects, the walk
starts mostly at them, with an equal part at each.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hopsyncd.index.arrays import Floats
from hopsyncd.retrieve.query_context import WORD, QueryContext
from hopsyncd.retrieve.ranking import largest
from hopsyncd.text.words import index_terms
from store.records import PassageId

CANDIDATES = 50  # the passages most like the question, whose titles are looked at
LEAST_TITLE_SHARE = 0.1  # of the question's idf, which a title must have
_MOST_CHARACTERS = 500  # of a title
_SUBJECT_SHARE = 0.9  # of the seeds' scores, which goes to the subjects
_PARENTHESIS = re.compile(r"\s*\([^)]*\)\s*$")


@dataclass(frozen=True, slots=True)
class _Title:
    """A title in the question: words[start:end], of a passage with this likeness."""

    start: int
    end: int
    likeness: float
    passage_row: int


def find_subjects(context: QueryContext) -> list[int]:
    """The passage rows whose titles stand in the question, word by word and not in lower case.

    Titles do not overlap: the longest counts, and of one title the passage most like the question.
    """
    near, ids = context.near, context.snapshot.passage_ids
    order = largest(near.like, ids[near.entries], CANDIDATES)
    rows = near.entries[order]
    passages = context.read([PassageId(id_) for id_ in ids[rows].tolist()])
    words = WORD.findall(context.question.replace("\u2019", "'"))
    lower = [word.lower() for word in words]
    found: list[_Title] = []
    for row, likeness in zip(rows.tolist(), near.like[order].tolist(), strict=True):
        passage = passages.get(PassageId(int(ids[row])))
        if passage is None or not passage.heading:
            continue
        whole = passage.heading[0][:_MOST_CHARACTERS]
        for title in dict.fromkeys((whole, _PARENTHESIS.sub("", whole))):
            start, end = _find_words(lower, [word.lower() for word in WORD.findall(title)])
            if all(map(str.islower, words[start:end])):  # not there, or not written as a name
                continue
            if _weigh_title(context, title) >= LEAST_TITLE_SHARE:
                found.append(_Title(start, end, likeness, row))
    return [title.passage_row for title in _drop_overlapping(found)]


def _find_words(words: Sequence[str], title: Sequence[str]) -> tuple[int, int]:
    """The first place of the title's words, as (start, end); (0, 0) if there is none."""
    length = len(title)
    for start in range(len(words) - length + 1 if length else 0):
        if words[start] == title[0] and words[start : start + length] == title:
            return start, start + length
    return 0, 0


def _weigh_title(context: QueryContext, title: str) -> float:
    return sum(context.terms.get(term, 0.0) for term in index_terms(title))


def _drop_overlapping(titles: Sequence[_Title]) -> Iterator[_Title]:
    kept: list[_Title] = []
    for title in sorted(titles, key=lambda title: (title.start - title.end, -title.likeness)):
        if all(title.end <= other.start or other.end <= title.start for other in kept):
            kept.append(title)
            yield title


def share_among_subjects(seeds: Floats, subjects: Sequence[int]) -> Floats:
    """(n,) the seeds' scores with an equal part at each subject, if there are at least two."""
    if len(subjects) < 2:
        return seeds
    scores = (1 - _SUBJECT_SHARE) * seeds
    np.add.at(scores, list(subjects), _SUBJECT_SHARE / len(subjects))
    return scores
