"""Compares a question with one version: its words, its names, and its likeness to each passage."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from operator import add
from sys import intern
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import Floats, Integers, expand_ranges
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.tables import QuestionTable
from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.models.questions import sentence_spans
from hopsyncd.retrieve.likeness import Likeness, NearPassages
from hopsyncd.retrieve.other_forms import NO_FORMS, FormMatches, OtherForm, match_other_forms
from hopsyncd.retrieve.term_matches import K1, NO_OTHERS, WORD, Read, compute_idf, having
from hopsyncd.text.question_language import (
    drop_foreign_function_words,
    foreign_function_words,
)
from hopsyncd.text.words import index_terms, plain, terms_of_each
from store.records import PassageId, Vectors, split_unspaced

Mentioned = Callable[[Sequence[str]], AbstractSet[str]]
"""Selects the names that the graph knows."""

Encode = Callable[[Sequence[str]], Vectors]
"""(m, d) the vectors of m texts, on the grid."""

_PASSAGES_KEPT = 1 << 10  # passages whose split sentences are cached
_NONE = frozenset[str]()
_NEAREST = 2000  # rows of vectors
COMMON = 4  # a term is common if more than one in 4 passages has it
_MIN_SHARE = 0.02  # a rarer term has a larger share of the idf of all terms
_MAX_NAME_WORDS = 8
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")


def names_in(query: str, mentioned: Mentioned) -> list[str]:
    """The names in the query that the graph has. If names overlap, the longest counts.

    A single word counts only if the query capitalises it or it has a digit.

    >>> names_in("Who played in Due South?", {"due south", "south", "played"}.intersection)
    ['due south']
    """
    words = WORD.findall(_POSSESSIVE.sub("", query.replace("\u2019", "'")))
    parts = {
        (at, length): " ".join(words[at : at + length]).lower()
        for at in range(len(words))
        for length in range(min(_MAX_NAME_WORDS, len(words) - at), 0, -1)
        if length > 1 or not words[at][0].islower()
    }
    known = mentioned([*dict.fromkeys(parts.values())]) - STOP_WORDS
    known -= foreign_function_words(query)
    found: list[str] = []
    end = 0
    for (at, length), name in parts.items():
        if at >= end and name in known:
            found.append(name)
            end = at + length
    return found


def worths(names: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
    """The share of each name in the query's idf. `weights` has the idf of each term.

    >>> worths(["due south"], {"play": 1.0, "due": 1.0, "south": 2.0})
    {'due south': 0.75}
    """
    total = sum(weights.values())
    terms = terms_of_each(word for name in names for word in name.split())
    found = {name: {term for word in name.split() for term in terms[word]} for name in names}
    return {
        name: sum(weights.get(term, 0.0) for term in sorted(of)) / total
        for name, of in found.items()
    }


class TermCoverage(Protocol):
    """Says which of the question's t terms each passage has. share: (t,) each term's idf, divided
    by the sum over all terms."""

    @property
    def share(self) -> Floats: ...

    def select(self, entries: Integers) -> NDArray[np.bool_]:
        """(t, w) which of the terms each of these passage rows has."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Says which of the query's t terms each of the n passage rows has.

    share: (t,) the idf of each term, scaled to sum to 1. has: (t, n) bool.
    """

    share: Floats
    has: NDArray[np.bool_]

    def select(self, entries: Integers) -> NDArray[np.bool_]:
        """(t, w) which of the terms each of these passage rows has."""
        return self.has.take(entries, axis=1)

    def of(self, entries: Integers) -> Floats:
        """(w,) the share of the query's terms that each of these passage rows has."""
        return sum_weighted(self.share, self.select(entries))

    def compute_gain(self, start: Integers, end: Integers) -> Floats:
        """(w,) the idf share of the terms that each end has and its start lacks."""
        return sum_weighted(self.share, self.select(end) & ~self.select(start))


def sum_weighted(share: Floats, lines: NDArray[np.generic]) -> Floats:
    """(w,) the sum of the (t, w) lines, each multiplied by its share. The lines are added one by
    one, because a matrix product may add in another order on another machine."""
    total = np.zeros(lines.shape[1])
    for part, line in zip(share.tolist(), lines, strict=True):
        total += part * line
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The query's words at one version. weights: the result of `idf_of`. scores: (n,) the BM25
    score of each passage row. coverage: without terms that no passage has, and without terms that
    too many passages have."""

    weights: Mapping[str, float]
    scores: Floats
    coverage: Coverage


def idf_of(snapshot: Snapshot, question: str) -> Mapping[str, float]:
    """The idf of each of the question's terms, including terms that no passage has."""
    terms = index_terms(drop_foreign_function_words(question))
    df = np.array([one.df for one in having(snapshot, terms)], dtype=np.int64)
    return dict(zip(terms, compute_idf(snapshot, df).tolist(), strict=True))


def words_of(
    snapshot: Snapshot, question: str, others: Mapping[str, Integers] = NO_OTHERS
) -> Words:
    """Look up the question's words. `others`: the passage rows with other forms of its terms."""
    terms = index_terms(question)
    every = having(snapshot, terms, others)
    df = np.array([one.df for one in every], dtype=np.int64)
    idf = compute_idf(snapshot, df)
    telling = (df > 0) & (idf > _MIN_SHARE * idf[df > 0].sum())
    count = len(snapshot.statistics.visible.passages)
    scores, has = np.zeros(count), np.zeros((int(telling.sum()), count), dtype=np.bool_)
    lines = iter(has)
    for one, worth, tells in zip(every, idf.tolist(), telling.tolist(), strict=True):
        if one.df > count / COMMON:
            counts = one.counts_of_all
            scores += worth * counts
            if tells:
                np.greater(counts, 0, out=next(lines))
        else:
            entries = one.passage_rows
            scores[entries] += worth * one.counts
            if tells:
                next(lines)[entries] = True
    share = idf[telling]
    coverage = Coverage(share / share.sum() if len(share) else share, has)
    return Words(dict(zip(terms, idf.tolist(), strict=True)), scores, coverage)


@dataclass(frozen=True, slots=True)
class SentenceFits:
    """How the sentences of one passage compare with the question.

    terms: the question's terms in the sentence or the passage's headings. fits: the cosine of each
    sentence, plus the share of the question's idf that its terms have. vector_rows: the row of each
    sentence's vector, or of the whole passage if sentences have no vectors.
    """

    fits: Sequence[float]
    terms: Sequence[frozenset[str]]
    vector_rows: Sequence[int]

    def order_by_fit(self) -> list[int]:
        """The positions of the sentences, best first. Ties go to the earlier sentence."""
        return sorted(range(len(self.fits)), key=lambda position: -self.fits[position])

    @property
    def best_terms(self) -> frozenset[str]:
        """The question's terms that the best sentence or a heading has."""
        return self.terms[self.fits.index(max(self.fits))] if self.fits else _NONE


_NO_SENTENCES = SentenceFits((), (), ())


@dataclass(frozen=True, eq=False)
class QueryContext:
    """A question compared with the passage rows of one version.

    names: the names in the question that the graph has, each with its share of the question's idf;
    they are the question's keywords. by_words: (n,) BM25 as a share of the highest possible score.
    coverage: which passages have its words. terms: its index terms, each with its share of
    `total_idf`, the sum of their idf. read: returns passages of the version. encode: returns the
    vectors of follow-ups; None if there are no follow-ups. forms: the passages with other forms of
    its words.
    """

    snapshot: Snapshot
    likeness: Likeness
    names: Mapping[str, float]
    by_words: Floats
    coverage: Coverage
    terms: Mapping[str, float]
    read: Read
    question: str = ""
    total_idf: float = 1.0
    encode: Encode | None = None
    forms: FormMatches = NO_FORMS

    @classmethod
    def of(
        cls,
        question: str,
        vector: Vectors,
        snapshot: Snapshot,
        read: Read,
        encode: Encode | None = None,
    ) -> Self:
        """Compare the question with the snapshot."""
        likeness = Likeness(snapshot, vector)  # begins while words are looked up
        content = drop_foreign_function_words(question)
        forms = match_other_forms(snapshot, content, read)
        words = words_of(snapshot, content, forms.rows_by_term)
        names = worths(names_in(question, snapshot.select_mentioned_names), words.weights)
        total = sum(words.weights.values())
        return cls(
            snapshot=snapshot,
            likeness=likeness,
            names=names,
            by_words=words.scores / ((K1 + 1) * total or 1.0),
            coverage=words.coverage,
            terms={term: idf / (total or 1.0) for term, idf in words.weights.items()},
            read=read,
            question=question,
            total_idf=total or 1.0,
            encode=encode,
            forms=forms,
        )

    @cached_property
    def near(self) -> NearPassages:
        """The passages most like the question."""
        return NearPassages.of(self.snapshot, self.likeness, self.by_words)

    @cached_property
    def nearest_mentions(self) -> tuple[Integers, Integers]:
        """The mentions in the 2000 vector rows of near passages that are most like the question,
        and more rows if the last rows tie. Returns the rows of the mentions, and their names."""
        rows, cosines = self.near.rows, self.near.cosines
        if len(rows) > _NEAREST:
            rows = rows[cosines >= np.partition(cosines, len(rows) - _NEAREST)[-_NEAREST]]
        return self.snapshot.find_sentence_mentions(rows)

    def by_sentence(self, entries: Integers) -> Floats:
        """(m,) the fit of the best sentence of each passage.

        The fit of a sentence is its cosine plus the share of the question's terms that the sentence
        or a heading has. If the vectors of a passage do not match its sentences, all sentences have
        the cosine of the whole passage.
        """
        compared = self.compare_sentences(entries)
        best = [max(one.fits, default=0.0) for one in compared]
        return np.maximum(best, 0.0)

    @cached_property
    def sentence_coverage(self) -> "SentenceCoverage":
        """Which of the question's terms the best sentence of each passage has."""
        return SentenceCoverage(np.array(list(self.terms.values())), self)

    def compare_sentences(self, passage_rows: Integers) -> list[SentenceFits]:
        """Compare the sentences of each passage. A purged passage has none."""
        rows: list[int] = passage_rows.tolist()
        new = np.array([row for row in rows if row not in self._compared], dtype=np.int64)
        if len(new):
            self._compared.update(zip(new.tolist(), self._compare_sentences(new), strict=True))
        return [self._compared[row] for row in rows]

    @cached_property
    def _compared(self) -> dict[int, SentenceFits]:
        return {}

    def _compare_sentences(self, passage_rows: Integers) -> Iterator[SentenceFits]:
        ids = [PassageId(id_) for id_ in self.snapshot.passage_ids[passage_rows].tolist()]
        passages = self.read(ids)
        words = {id_: split_into_words(one.heading, one.text) for id_, one in passages.items()}
        wanted = {*self.terms, *self.forms.stems}
        found = terms_by_word(wanted, {*chain(*chain(*words.values()))})
        columns = self.snapshot.index.passages
        starts = columns.vector_start[passage_rows].astype(np.int64)
        ends = columns.vector_end[passage_rows].astype(np.int64)
        cosines = self.likeness.of_rows(expand_ranges(starts, ends)[0])
        values, until = cosines.astype(np.float64).tolist(), (ends - starts).cumsum().tolist()
        rows = passage_rows.tolist()
        for id_, row, start, first, end in zip(
            ids, rows, starts.tolist(), [0, *until], until, strict=False
        ):
            whole, *own = values[first:end]
            if id_ not in words:
                yield _NO_SENTENCES
                continue
            terms = _find_terms(words[id_], found)
            if self.forms.forms:
                terms = [self._read_forms(one, self.forms.of_row(row)) for one in terms]
            vector_rows: Sequence[int] = range(start + 1, start + 1 + len(own))
            if len(own) != len(terms):
                own, vector_rows = [whole] * len(terms), [start] * len(terms)
            shares = map(self._share_of, terms)
            yield SentenceFits([*map(add, own, shares)], terms, vector_rows)

    def _share_of(self, terms: frozenset[str]) -> float:
        """The sum of the shares of these terms of the question."""
        known = self._shares.get(terms)
        if known is None:
            known = self._shares[terms] = sum(self.terms[term] for term in sorted(terms))
        return known

    @cached_property
    def _shares(self) -> dict[frozenset[str], float]:
        return {}

    def _read_forms(self, terms: frozenset[str], forms: Sequence[OtherForm]) -> frozenset[str]:
        """The question's terms that a sentence has, also in other forms that its passage has."""
        stand_for = [form.typed_stems for form in forms if terms.issuperset(form.stems)]
        return terms.union(*stand_for).intersection(self.terms)

    def first_cosines(self, entries: Integers) -> Floats:
        """(w,) the cosine of the question with the vector of each whole passage."""
        return self.likeness.whole[entries].astype(np.float64)

    def of_edges(self, out: Integers, into: Integers) -> Floats:
        """(e,) Eq. 1 for each edge, with the vector of its incoming question and the keywords of
        both."""
        index = self.snapshot.index
        cosines = self.likeness.of_rows(index.incoming.vector_row[into]).astype(np.float64)
        similarity: Floats = (self._jaccards(out, into) + cosines) / 2
        return similarity

    def _jaccards(self, out: Integers, into: Integers) -> Floats:
        """(e,) the Jaccard similarity of the query's names and the names in both questions of each
        edge."""
        index = self.snapshot.index
        numbers = {self.snapshot.find_name(name) for name in self.names}
        jaccards = np.zeros(len(out))
        for at in range(len(out)):
            both = self._names(index.outgoing, int(out[at])) | self._names(
                index.incoming, int(into[at])
            )
            shared = len(both & numbers)
            if shared:
                jaccards[at] = shared / (len(both) + len(numbers) - shared)
        return jaccards

    def _names(self, questions: QuestionTable, question: int) -> set[int]:
        first = int(questions.keyword_start[question])
        count = int(questions.keyword_count[question])
        names: list[int] = self.snapshot.index.question_keywords.name[
            first : first + count
        ].tolist()
        return set(names)

    def of_passages(self, entries: Integers) -> Floats:
        """(n,) Eq. 1 for each passage, with its own vector and the names in its sentences."""
        index = self.snapshot.index
        numbers = {self.snapshot.find_name(name) for name in self.names}
        columns, jaccards = index.passages, np.zeros(len(entries))
        for at, entry in enumerate(entries.tolist()):
            rows = slice(
                int(columns.sentence_mention_start[entry]), int(columns.sentence_mention_end[entry])
            )
            names = set(index.sentence_mentions.name[rows].tolist())
            shared = len(names & numbers)
            if shared:
                jaccards[at] = shared / (len(names) + len(numbers) - shared)
        similarity: Floats = (jaccards + self.first_cosines(entries)) / 2
        return similarity


@dataclass(frozen=True, slots=True, eq=False)
class SentenceCoverage:
    """Says which of the question's terms the best sentence or a heading of each passage has.

    share: (t,) the share of each term's idf, in the order of the question's terms.
    """

    share: Floats
    _context: QueryContext

    def select(self, entries: Integers) -> NDArray[np.bool_]:
        """(t, w) which of the terms each of these passage rows has."""
        terms = self._context.terms
        best = [one.best_terms for one in self._context.compare_sentences(entries)]
        has = [[term in found for found in best] for term in terms]
        return np.array(has, dtype=np.bool_).reshape(len(terms), len(entries))


def _find_terms(
    words: Sequence[Sequence[str]], terms: Mapping[str, frozenset[str]]
) -> list[frozenset[str]]:
    """The question's terms that each sentence has.

    `words` has the words of the headings, then the words of each sentence. The words of the
    headings count for every sentence.
    """
    heading, *sentences = ([terms[word] for word in part if word in terms] for part in words)
    return [_NONE.union(*heading, *own) for own in sentences]


def terms_by_word(terms: Iterable[str], words: Iterable[str]) -> dict[str, frozenset[str]]:
    """The terms that each word has, for the words that have any.

    Only words that begin like one of the terms are examined.
    """
    wanted = frozenset(terms)
    begins = tuple({term[: max(min(len(term) - 1, 3), 1)] for term in wanted})
    known = terms_of_each(word for word in words if word.startswith(begins))
    return {
        word: wanted.intersection(terms)
        for word, terms in known.items()
        if not wanted.isdisjoint(terms)
    }


@lru_cache(_PASSAGES_KEPT)
def split_into_words(heading: tuple[str, ...], text: str) -> tuple[tuple[str, ...], ...]:
    """The words of a passage's headings, and of each of its sentences, as full-text search compares
    them.

    >>> split_into_words(("Rome",), "It fell. It rose.")
    (('rome',), ('it', 'fell'), ('it', 'rose'))
    """
    parts = " ".join(heading), *(text[start:end] for start, end in sentence_spans(text))
    return tuple(tuple(map(intern, WORD.findall(plain(split_unspaced(part))))) for part in parts)
