"""Compares a question with one version: its words, its names, and its likeness to each passage."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
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
from hopsyncd.models.questions import find_sentence_spans
from hopsyncd.retrieve.likeness import FEW_VECTORS, Likeness, NearPassages
from hopsyncd.retrieve.other_forms import NO_FORMS, FormMatches, OtherForm, match_other_forms
from hopsyncd.retrieve.term_matches import (
    K1,
    NO_OTHERS,
    WORD,
    Read,
    TermMatches,
    compute_idf,
    look_up_terms,
)
from hopsyncd.text.question_language import (
    drop_foreign_function_words,
    list_foreign_function_words,
)
from hopsyncd.text.words import list_index_terms, map_texts_to_terms, normalise_text
from store.records import PassageId, Vectors, split_unspaced

Mentioned = Callable[[Sequence[str]], AbstractSet[str]]
"""Returns the names that occur in the graph."""

Encode = Callable[[Sequence[str]], Vectors]
"""Returns the (m, d) vectors of m texts, on the grid."""

_PASSAGES_KEPT = 1 << 10  # passages whose split sentences are cached
_NONE = frozenset[str]()
_NEAREST = 2000  # vector rows whose mentions count for common names
COMMON = 4  # a term is common if more than one in 4 passages has it
_MIN_SHARE = 0.02  # a rarer term has a larger share of the idf of all terms
_MAX_NAME_WORDS = 8
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")


def find_names(query: str, mentioned: Mentioned) -> list[str]:
    """List the names of the graph that the query contains. Of overlapping names, only the name that
    begins first is listed, or the longest that begins there.

    A single word counts only if its first character is not a lower-case letter.

    >>> find_names("Who played in Due South?", {"due south", "south", "played"}.intersection)
    ['due south']
    """
    words = WORD.findall(_POSSESSIVE.sub("", query.replace("\u2019", "'")))
    parts = {
        (start, length): " ".join(words[start : start + length]).lower()
        for start in range(len(words))
        for length in range(min(_MAX_NAME_WORDS, len(words) - start), 0, -1)
        if length > 1 or not words[start][0].islower()
    }
    mentioned_names = mentioned([*dict.fromkeys(parts.values())]) - STOP_WORDS
    mentioned_names -= list_foreign_function_words(query)
    names: list[str] = []
    end = 0
    for (start, length), name in parts.items():
        if start >= end and name in mentioned_names:
            names.append(name)
            end = start + length
    return names


def compute_name_shares(names: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
    """Compute the share of each name in the query's idf. `weights` has the idf of each term.

    >>> compute_name_shares(["due south"], {"play": 1.0, "due": 1.0, "south": 2.0})
    {'due south': 0.75}
    """
    total = sum(weights.values())
    terms = map_texts_to_terms(word for name in names for word in name.split())
    terms_by_name = {
        name: {term for word in name.split() for term in terms[word]} for name in names
    }
    return {
        name: sum(weights.get(term, 0.0) for term in sorted(name_terms)) / total
        for name, name_terms in terms_by_name.items()
    }


class TermCoverage(Protocol):
    """Looks up which passages have which of a question's t terms.

    share: (t,) the share of each term in the question's idf.
    """

    @property
    def share(self) -> Floats: ...

    def select(self, passage_rows: Integers) -> NDArray[np.bool_]:
        """Return (t, w) flags: whether each of the w passages has each term."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """A table of the query's t terms and the n passage rows that have them.

    share: (t,) the share of each term in the query's idf; the shares sum to 1. has: (t, n) flags.
    """

    share: Floats
    has: NDArray[np.bool_]

    def select(self, passage_rows: Integers) -> NDArray[np.bool_]:
        """Return (t, w) flags: whether each of the w passages has each term."""
        return self.has.take(passage_rows, axis=1)

    def sum_shares(self, passage_rows: Integers) -> Floats:
        """Return (w,) sums of the shares of the terms that each of these w passage rows has."""
        return sum_weighted(self.share, self.select(passage_rows))

    def compute_gain(self, start: Integers, end: Integers) -> Floats:
        """Return (w,) sums of the shares of the terms that each end has and its start lacks."""
        return sum_weighted(self.share, self.select(end) & ~self.select(start))


def sum_weighted(share: Floats, lines: NDArray[np.generic]) -> Floats:
    """Return the (w,) sum of the (t, w) rows `lines`, each row multiplied by its share.

    The rows are added one by one, because the order of additions in a matrix product differs
    between machines.
    """
    total = np.zeros(lines.shape[1])
    for part, line in zip(share.tolist(), lines, strict=True):
        total += part * line
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The query's words, looked up in one version.

    weights: the idf of each term. matches: the passages with each term. scores: (n,) the BM25 score
    of each passage row. coverage: the passages that have each term, without terms that no passage
    or too many passages have.
    """

    weights: Mapping[str, float]
    matches: Mapping[str, TermMatches]
    scores: Floats
    coverage: Coverage


def compute_question_idf(snapshot: Snapshot, question: str) -> Mapping[str, float]:
    """Map the question's terms to their idf, including terms that no passage has."""
    terms = list_index_terms(drop_foreign_function_words(question))
    df = np.array([term_rows.df for term_rows in look_up_terms(snapshot, terms)], dtype=np.int64)
    return dict(zip(terms, compute_idf(snapshot, df).tolist(), strict=True))


def look_up_words(
    snapshot: Snapshot, question: str, others: Mapping[str, Integers] = NO_OTHERS
) -> Words:
    """Look up the question's words. `others` maps a term to the rows of the passages that have
    another form of the term."""
    terms = list_index_terms(question)
    every = look_up_terms(snapshot, terms, others)
    df = np.array([term_rows.df for term_rows in every], dtype=np.int64)
    idf = compute_idf(snapshot, df)
    is_informative = (df > 0) & (idf > _MIN_SHARE * idf[df > 0].sum())
    count = len(snapshot.statistics.visible.passages)
    scores, has = np.zeros(count), np.zeros((int(is_informative.sum()), count), dtype=np.bool_)
    lines = iter(has)
    for term_rows, worth, informative in zip(
        every, idf.tolist(), is_informative.tolist(), strict=True
    ):
        if term_rows.df > count / COMMON:
            counts = term_rows.counts_of_all
            scores += worth * counts
            if informative:
                np.greater(counts, 0, out=next(lines))
        else:
            passage_rows = term_rows.passage_rows
            scores[passage_rows] += worth * term_rows.counts
            if informative:
                next(lines)[passage_rows] = True
    share = idf[is_informative]
    coverage = Coverage(share / share.sum() if len(share) else share, has)
    weights = dict(zip(terms, idf.tolist(), strict=True))
    return Words(weights, dict(zip(terms, every, strict=True)), scores, coverage)


@dataclass(frozen=True, slots=True)
class SentenceFits:
    """How well each sentence of a passage fits the question.

    fits: the cosine of each sentence, plus the share of the question's idf that its terms have.
    terms: the question's terms that each sentence or a heading has. vector_rows: the row of each
    sentence's vector, or of the whole passage if its sentences have no vectors.
    """

    fits: Sequence[float]
    terms: Sequence[frozenset[str]]
    vector_rows: Sequence[int]

    def order_by_fit(self) -> list[int]:
        """Return the positions of the sentences, best first. Ties go to the earlier sentence."""
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
    coverage: the passages that have each word of the question. terms: the question's index terms,
    each with its share of `total_idf`, the sum of their idf. read: a function that reads passages
    of the version. encode: a function that encodes follow-ups; None if there are no follow-ups.
    forms: the passages with other forms of the question's words. matches: the passages with each
    term, in any form.
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
    matches: Mapping[str, TermMatches] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        question: str,
        vector: Vectors,
        snapshot: Snapshot,
        read: Read,
        encode: Encode | None = None,
        *,
        needs_all_cosines: bool = False,
    ) -> Self:
        """Compare the question with the snapshot, or with all vectors if `needs_all_cosines`."""
        limit = len(snapshot.index.vectors) if needs_all_cosines else FEW_VECTORS
        likeness = Likeness(snapshot, vector, limit)  # starts a thread that compares vectors
        content = drop_foreign_function_words(question)
        forms = match_other_forms(snapshot, content, read)
        words = look_up_words(snapshot, content, forms.rows_by_term)
        names = compute_name_shares(
            find_names(question, snapshot.select_mentioned_names), words.weights
        )
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
            matches=words.matches,
        )

    @cached_property
    def near(self) -> NearPassages:
        return NearPassages.select(self.snapshot, self.likeness, self.by_words)

    @cached_property
    def nearest_mentions(self) -> tuple[Integers, Integers]:
        """The rows of the mentions in near passages whose vectors are most like the question, and
        the mentioned names.

        The mentions are in the 2000 nearest vector rows, and in more rows if the last rows tie.
        """
        rows, cosines = self.near.rows, self.near.cosines
        if len(rows) > _NEAREST:
            rows = rows[cosines >= np.partition(cosines, len(rows) - _NEAREST)[-_NEAREST]]
        return self.snapshot.find_sentence_mentions(rows)

    def rate_best_sentences(self, passage_rows: Integers) -> Floats:
        """Return the fit of the best sentence of each of the m passages, as an (m,) array.

        The fit of a sentence is its cosine plus the share of the question's terms that the sentence
        or a heading has. If a passage does not have one vector for each sentence, all its sentences
        have the cosine of the whole passage.
        """
        compared = self.compare_sentences(passage_rows)
        best = [max(compared_passage.fits, default=0.0) for compared_passage in compared]
        return np.maximum(best, 0.0)

    @property
    def sentence_coverage(self) -> "SentenceCoverage":
        """A lookup of the question's terms that the best sentence of each passage has.

        The lookup is not cached, because it refers to this object. The cycle would keep snapshots
        of old versions in memory until Python's garbage collector finds it.
        """
        return SentenceCoverage(np.array(list(self.terms.values())), self)

    def compare_sentences(self, passage_rows: Integers) -> list[SentenceFits]:
        """Return the fits of the sentences of each passage. A purged passage has no sentences."""
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
        words = {
            id_: split_into_words(passage.heading, passage.text)
            for id_, passage in passages.items()
        }
        asked_terms = {*self.terms, *self.forms.stems}
        terms_of_word = map_words_to_terms(asked_terms, {*chain(*chain(*words.values()))})
        columns = self.snapshot.index.passages
        starts = columns.vector_start[passage_rows].astype(np.int64)
        ends = columns.vector_end[passage_rows].astype(np.int64)
        cosines = self.likeness.get_cosines(expand_ranges(starts, ends)[0])
        values, until = cosines.astype(np.float64).tolist(), (ends - starts).cumsum().tolist()
        rows = passage_rows.tolist()
        for id_, row, start, first, end in zip(
            ids, rows, starts.tolist(), [0, *until], until, strict=False
        ):
            whole, *of_sentences = values[first:end]
            if id_ not in words:
                yield _NO_SENTENCES
                continue
            terms = _find_terms(words[id_], terms_of_word)
            if self.forms.forms:
                terms = [self._read_forms(term, self.forms.list_forms(row)) for term in terms]
            vector_rows: Sequence[int] = range(start + 1, start + 1 + len(of_sentences))
            if len(of_sentences) != len(terms):
                of_sentences, vector_rows = [whole] * len(terms), [start] * len(terms)
            shares = map(self._sum_shares, terms)
            yield SentenceFits([*map(add, of_sentences, shares)], terms, vector_rows)

    def _sum_shares(self, terms: frozenset[str]) -> float:
        share = self._shares.get(terms)
        if share is None:
            share = self._shares[terms] = sum(self.terms[term] for term in sorted(terms))
        return share

    @cached_property
    def _shares(self) -> dict[frozenset[str], float]:
        return {}

    def _read_forms(self, terms: frozenset[str], forms: Sequence[OtherForm]) -> frozenset[str]:
        """Return the question's terms that a sentence has, directly or in another form."""
        stand_for = [form.typed_stems for form in forms if terms.issuperset(form.stems)]
        return terms.union(*stand_for).intersection(self.terms)

    def compute_first_cosines(self, passage_rows: Integers) -> Floats:
        """Return the cosines of the question with the whole-text vectors of these w passages, as a
        (w,) array."""
        return self.likeness.whole[passage_rows].astype(np.float64)

    def rate_edges(self, sources: Integers, targets: Integers) -> Floats:
        """Return the (e,) values of Eq. 1 of HopRAG for the e edges.

        Eq. 1 compares the question with the vector of an edge's incoming question, and with the
        keywords of both questions of the edge.
        """
        index = self.snapshot.index
        cosines = self.likeness.get_cosines(index.incoming.vector_row[targets]).astype(np.float64)
        similarity: Floats = (self._compute_jaccards(sources, targets) + cosines) / 2
        return similarity

    def _compute_jaccards(self, sources: Integers, targets: Integers) -> Floats:
        """Return (e,) Jaccard similarities of the query's names and the names in each edge's
        questions.
        """
        index = self.snapshot.index
        numbers = {self.snapshot.find_name(name) for name in self.names}
        jaccards = np.zeros(len(sources))
        for position in range(len(sources)):
            both = self._find_names(index.outgoing, int(sources[position])) | self._find_names(
                index.incoming, int(targets[position])
            )
            shared = len(both & numbers)
            if shared:
                jaccards[position] = shared / (len(both) + len(numbers) - shared)
        return jaccards

    def _find_names(self, questions: QuestionTable, question: int) -> set[int]:
        first = int(questions.keyword_start[question])
        count = int(questions.keyword_count[question])
        names: list[int] = self.snapshot.index.question_keywords.name[
            first : first + count
        ].tolist()
        return set(names)

    def rate_passages(self, passage_rows: Integers) -> Floats:
        """Return the (w,) values of HopRAG's Eq. 1 for the vectors and names of these passages."""
        index = self.snapshot.index
        numbers = {self.snapshot.find_name(name) for name in self.names}
        columns, jaccards = index.passages, np.zeros(len(passage_rows))
        for position, passage_row in enumerate(passage_rows.tolist()):
            rows = slice(
                int(columns.sentence_mention_start[passage_row]),
                int(columns.sentence_mention_end[passage_row]),
            )
            names = set(index.sentence_mentions.name[rows].tolist())
            shared = len(names & numbers)
            if shared:
                jaccards[position] = shared / (len(names) + len(numbers) - shared)
        similarity: Floats = (jaccards + self.compute_first_cosines(passage_rows)) / 2
        return similarity


@dataclass(frozen=True, slots=True, eq=False)
class SentenceCoverage:
    """Looks up which of the question's terms the best sentence or a heading of a passage has.

    share: (t,) the share of each term in the question's idf, in the order of the question's terms.
    """

    share: Floats
    _context: QueryContext

    def select(self, passage_rows: Integers) -> NDArray[np.bool_]:
        """Return (t, w) flags: whether each of the w passages has each term."""
        terms = self._context.terms
        best = [sentence.best_terms for sentence in self._context.compare_sentences(passage_rows)]
        has = [[term in sentence_terms for sentence_terms in best] for term in terms]
        return np.array(has, dtype=np.bool_).reshape(len(terms), len(passage_rows))


def _find_terms(
    words: Sequence[Sequence[str]], terms: Mapping[str, frozenset[str]]
) -> list[frozenset[str]]:
    """List the question's terms that each sentence has.

    `words` has the words of the headings, then the words of each sentence. The words of the
    headings count for every sentence.
    """
    heading, *sentences = ([terms[word] for word in part if word in terms] for part in words)
    return [_NONE.union(*heading, *sentence_terms) for sentence_terms in sentences]


def map_words_to_terms(terms: Iterable[str], words: Iterable[str]) -> dict[str, frozenset[str]]:
    """Map each word to its index terms that are in `terms`. Words without a wanted term are
    omitted.

    Only words that begin like a wanted term are analysed.
    """
    term_set = frozenset(terms)
    begins = tuple({term[: max(min(len(term) - 1, 3), 1)] for term in term_set})
    terms_of_words = map_texts_to_terms(word for word in words if word.startswith(begins))
    return {
        word: term_set.intersection(terms)
        for word, terms in terms_of_words.items()
        if not term_set.isdisjoint(terms)
    }


@lru_cache(_PASSAGES_KEPT)
def split_into_words(heading: tuple[str, ...], text: str) -> tuple[tuple[str, ...], ...]:
    """Split a passage into the words of its headings, then the words of each sentence.

    The words are normalised as in full-text search.

    >>> split_into_words(("Rome",), "It fell. It rose.")
    (('rome',), ('it', 'fell'), ('it', 'rose'))
    """
    parts = " ".join(heading), *(text[start:end] for start, end in find_sentence_spans(text))
    return tuple(
        tuple(map(intern, WORD.findall(normalise_text(split_unspaced(part))))) for part in parts
    )
