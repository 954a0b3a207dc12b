"""Finds other forms of a question's words: "Enterprise Support Team" for "EST", and the reverse.

A pair of forms is used if a visible passage defines the pair. The aliases of a note without a
heading are other forms of its file name. The text index finds the passages that define a form in
the question, and the pairs are read from these passages. So the index needs no dictionary, and only
definitions that are visible in the version, filter or ACL view are used.

If a short form has several meanings, the three that most passages define are used. A passage with
another form counts nearly as much as a passage with the words of the question.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import takewhile
from weakref import WeakKeyDictionary

import numpy as np

from hopsyncd.index.arrays import Integers
from hopsyncd.index.links import find_file_title
from hopsyncd.index.live_index import compute_name_key
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import is_usual
from hopsyncd.models.keywords import normalise
from hopsyncd.retrieve.term_matches import WORD, Read, look_up_terms
from hopsyncd.text.abbreviations import (
    ALIASES_OF_FILE,
    MOST_WORDS,
    find_pairs,
    make_form_term,
    split_stems,
)
from store.content import build_full_text
from store.records import PassageId

_MOST_FORMS = 3  # the most other forms of a form in the question.
_MOST_TYPED = 4  # the most forms in a question that are looked up.
_MOST_DEFINING = 32  # the most passages that are read for definitions of a form.
_MOST_QUESTION_WORDS = 64
_KEPT_PATTERNS = 512
_MOST_ENDING = 8  # the most letters of an ending, after the stem.
_BETWEEN = r"\W{1,4}"  # the pattern for the text between two words of a long form.
_MOST_ROWS = 256  # the most passages that are read for one form.


@dataclass(frozen=True, slots=True)
class OtherForm:
    """Words of a question, and another form of them that a document defines.

    typed: the words as typed. text: the other form. typed_stems: the terms of `typed`, in order.
    stems: the terms of `text`, in order.
    """

    typed: str
    typed_stems: tuple[str, ...]
    text: str
    stems: tuple[str, ...]


def find_other_forms(snapshot: Snapshot, question: str, read: Read) -> tuple[OtherForm, ...]:
    """Find the other forms that visible passages define for the words of a question."""
    words = WORD.findall(question)[:_MOST_QUESTION_WORDS]
    stems = [split_stems(word) for word in words]
    typed: dict[tuple[str, ...], str] = {}
    for start in range(len(words)):
        for end in range(start + 1, min(start + MOST_WORDS, len(words)) + 1):
            run = tuple(term for part in stems[start:end] for term in part)
            typed.setdefault(run, " ".join(words[start:end]))
    found: list[OtherForm] = []
    taken: set[str] = set()
    every = {term for part in stems for term in part}
    defining = _find_defining(snapshot, typed)
    for run in sorted(defining, key=lambda run: (-len(run), run)):
        is_form = len(run) > 1 or _may_be_form(typed[run])
        if (
            is_form
            and taken.isdisjoint(run)
            and (forms := _read_forms(snapshot, run, defining[run], read))
        ):
            taken.update(run)
            found += [
                OtherForm(typed[run], run, text, other)
                for other, text in forms.items()
                if not every.issuperset(other)
            ]
        if len({form.typed for form in found}) == _MOST_TYPED:
            break
    return tuple(found)


def _find_defining(
    snapshot: Snapshot, typed: Mapping[tuple[str, ...], str]
) -> dict[tuple[str, ...], Integers]:
    """Map runs of terms in the question to the rows of passages that may define a form of them."""
    runs = [*typed]
    keys = np.array([compute_name_key(make_form_term(run)) for run in runs], dtype=np.int64)
    _, positions = snapshot.index.postings.terms_by_key.find_all(keys)
    defined = [runs[position] for position in np.unique(positions).tolist()]
    every = look_up_terms(snapshot, [make_form_term(run) for run in defined])
    rows = {
        run: term_rows.passage_rows
        for run, term_rows in zip(defined, every, strict=True)
        if term_rows.df
    }
    of_files = look_up_terms(snapshot, [ALIASES_OF_FILE])[0]
    if of_files.df:
        names = {normalise(text): run for run, text in typed.items()}
        for name in sorted(snapshot.select_mentioned_names([*names])):
            run, about = names[name], snapshot.find_by_topic(snapshot.find_name(name))
            defining_rows = np.intersect1d(about, of_files.passage_rows)
            if len(defining_rows):
                rows[run] = np.union1d(rows.get(run, defining_rows), defining_rows)
    return rows


def _may_be_form(word: str) -> bool:
    """Return whether a word may be an abbreviation: it has two capitals, or is not a usual word."""
    if sum(letter.isupper() for letter in word) >= 2:
        return True
    return len(word) > 1 and not word.isdecimal() and not is_usual(word.lower())


def _read_forms(
    snapshot: Snapshot, run: tuple[str, ...], rows: Integers, read: Read
) -> dict[tuple[str, ...], str]:
    """Read the definitions of a form from the passages.

    Returns the texts of the three forms that most passages define, by their terms.
    """
    row_of = {PassageId(int(snapshot.passage_ids[row])): row for row in rows.tolist()}
    texts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for id_, passage in read(sorted(row_of)[:_MOST_DEFINING]).items():
        title = "" if passage.heading else _find_title(snapshot, row_of[id_])
        for pair in find_pairs(passage.heading, passage.text, title):
            stems = split_stems(pair.short), split_stems(pair.long)
            for stem, other, text in zip(stems, stems[::-1], pair[::-1], strict=True):
                if stem == run and other and other != run:
                    texts[other].append(text)
    best = sorted(texts, key=lambda other: (-len(texts[other]), other))[:_MOST_FORMS]
    return {other: max(sorted(texts[other]), key=texts[other].count) for other in best}


def _find_title(snapshot: Snapshot, row: int) -> str:
    """Return the title of the file that a visible passage belongs to."""
    visible, index = snapshot.statistics.visible, snapshot.index
    count = len(visible.documents)
    has_key = index.documents.path_key[:count] == visible.document_of_row[row]
    documents = np.flatnonzero(has_key & visible.documents)
    return find_file_title(index.document_paths[int(documents[0])]) if len(documents) else ""


class FormMatches:
    """Other forms of a question's words, and the visible passages that have them."""

    def __init__(self, forms: Sequence[OtherForm] = (), rows: Sequence[Integers] = ()) -> None:
        """Pair each form with the visible passage rows that have it, ascending."""
        self.forms = tuple(forms)
        self._rows = rows

    @cached_property
    def stems(self) -> frozenset[str]:
        """The terms of all other forms."""
        return frozenset(term for form in self.forms for term in form.stems)

    @cached_property
    def rows_by_term(self) -> Mapping[str, Integers]:
        """The rows of passages that have another form of a word, by each term of the word."""
        rows: dict[str, list[Integers]] = defaultdict(list)
        for form, found in zip(self.forms, self._rows, strict=True):
            for term in form.typed_stems:
                rows[term].append(found)
        return {term: reduce(np.union1d, found) for term, found in rows.items()}

    def list_forms(self, row: int) -> list[OtherForm]:
        """List the other forms that the passage in this row has."""
        return [
            form for form, members in zip(self.forms, self._members, strict=True) if row in members
        ]

    @cached_property
    def _members(self) -> list[frozenset[int]]:
        return [frozenset(rows.tolist()) for rows in self._rows]


NO_FORMS = FormMatches()

# Caches the last question of each snapshot, because a search needs its matches twice: for the words
# as typed, and for the ranking by meaning.
_LAST: WeakKeyDictionary[Snapshot, tuple[str, FormMatches]] = WeakKeyDictionary()


def match_other_forms(snapshot: Snapshot, question: str, read: Read) -> FormMatches:
    """Find the other forms of a question's words, and the visible passages that have them."""
    text, matches = _LAST.get(snapshot, ("", NO_FORMS))
    if text != question:
        forms = find_other_forms(snapshot, question, read)
        matches = FormMatches(forms, [_find_rows(snapshot, form, read) for form in forms])
        _LAST[snapshot] = question, matches
    return matches


def _find_rows(snapshot: Snapshot, form: OtherForm, read: Read) -> Integers:
    """Find the visible passages with a form. Returns their rows, ascending.

    If many passages have the terms of the form, only the 256 best by BM25 are read.
    """
    every = look_up_terms(snapshot, sorted({*form.stems}))
    rows = reduce(np.intersect1d, (term_rows.passage_rows for term_rows in every))
    if len(rows) > _MOST_ROWS:
        scores = np.zeros(len(snapshot.statistics.visible.passages))
        for term_rows in every:
            scores[term_rows.passage_rows] += term_rows.counts
        rows = rows[np.lexsort((snapshot.passage_ids[rows], -scores[rows]))[:_MOST_ROWS]]
    row_of = {PassageId(int(snapshot.passage_ids[row])): row for row in rows.tolist()}
    pattern = _compile_pattern(form)
    matches = [
        row_of[id_]
        for id_, passage in read(row_of).items()
        if pattern.search(unicodedata.normalize("NFC", build_full_text(passage)))
    ]
    return np.array(sorted(matches), dtype=np.int64)


@lru_cache(_KEPT_PATTERNS)
def _compile_pattern(form: OtherForm) -> re.Pattern[str]:
    """Compile a pattern that matches a form: a single word as written or with a plural s, several
    words with any endings.
    """
    if re.fullmatch(r"[^\s-]+", form.text):
        is_in_capitals = sum(letter.isupper() for letter in form.text) >= 2
        pattern = rf"(?<!\w){re.escape(form.text)}s?(?!\w)"
        return re.compile(pattern, 0 if is_in_capitals else re.IGNORECASE)
    parts = []
    for word in WORD.findall(form.text):
        stem = "".join(split_stems(word)) or word
        pairs = zip(stem, word.lower(), strict=False)
        same = "".join(letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        parts.append(f"{re.escape(same)}\\w{{0,{_MOST_ENDING}}}")
    return re.compile(rf"(?<!\w){_BETWEEN.join(parts)}(?!\w)", re.IGNORECASE)
