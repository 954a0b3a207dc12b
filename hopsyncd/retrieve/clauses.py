"""Makes the first results cover every clause of a question.

"How large can a database be, and since which release?" asks two things, and one passage seldom
answers both. The passages most like the whole question may all answer the first part. So the
question is split at its sentences, and before "and", "but" or "or" if a question word or an
auxiliary verb follows. Each clause is encoded and compared with the first passages of the walk. A
passage gains score if it answers a clause better than the passages ranked before it.

How well a passage answers a clause is a value from 0 to 1: exp((likeness - most) / scale), where
`most` is the largest likeness among the compared passages. Only the compared passages matter, so
the value does not depend on the rest of the collection.

docs/benchmarks.md measures the effect.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hopsyncd.formats.units import split_into_sentences
from hopsyncd.index.arrays import Floats, Integers
from hopsyncd.retrieve.likeness import OF_LIKENESS, compare_best_vectors
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.text.words import list_index_terms
from store.records import Vectors

_OF_WORDS = 6.0  # the likeness of a passage that has all terms of a clause.
_SCALE = 2.5  # with a smaller scale, only the best passage would answer a clause.
_LEAST_WORDS = 3  # shorter parts of a question are not clauses.
_MOST_CLAUSES = 6  # a question with more clauses tells a story, and is not split.

_ASKS = "who whom whose what which when where why how"
_AUXILIARIES = (
    "is are was were do does did can could may must should will would has have had"  # or a verb
)
_BEFORE = "at in to from under for on by until since of with after before into about"
_JOIN = re.compile(
    rf"(?<!\s),?\s+(?:and|but|or)\s+"
    rf"(?=(?:(?:{'|'.join(_BEFORE.split())})\s+)?(?:{'|'.join(_ASKS.split())})\b"
    rf"|(?:{'|'.join(_AUXILIARIES.split())})\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")


def split_clauses(question: str) -> list[str]:
    """Split a question that asks several things into clauses. Returns [] if the question asks one
    thing.

    >>> split_clauses("How large can it be, and since which release?")
    ['How large can it be', 'since which release?']
    >>> split_clauses("Who wrote the book and the play?")
    []
    """
    parts = [part.strip(" ,;") for part in _split(question)]
    clauses = [part for part in parts if len(_WORD.findall(part)) >= _LEAST_WORDS]
    return clauses if 1 < len(clauses) <= _MOST_CLAUSES else []


def _split(question: str) -> Iterator[str]:
    for sentence in split_into_sentences(question):
        for part in sentence.split("; "):
            yield from _JOIN.split(part)


@dataclass(frozen=True, slots=True, eq=False)
class ClauseCoverage:
    """Measures how well passages answer each of the c clauses of a question.

    vectors: the (c, d) vectors of the clauses. shares: (c, t) the weight of each of the question's
    t terms in each clause; the weights of a clause sum to 1.
    """

    vectors: Vectors
    shares: Floats
    _context: QueryContext

    def select(self, passage_rows: Integers) -> Floats:
        """Return (c, m) scores from 0 to 1 for how well each passage answers each clause."""
        has = self._find_terms(passage_rows)
        coverage = np.zeros((len(self.vectors), len(passage_rows)))
        for clause, vector in enumerate(self.vectors):
            cosines = compare_best_vectors(self._context.snapshot.index, vector, passage_rows)
            likeness = OF_LIKENESS * cosines + _OF_WORDS * _sum_shares(self.shares[clause], has)
            coverage[clause] = np.exp((likeness - likeness.max(initial=0.0)) / _SCALE)
        return coverage

    def _find_terms(self, passage_rows: Integers) -> Floats:
        """Return a (t, m) matrix with 1 where a sentence or a heading of a passage has a term of
        the question, and 0 elsewhere.
        """
        compared = self._context.compare_sentences(passage_rows)
        every = [frozenset[str]().union(*sentences.terms) for sentences in compared]
        terms = self._context.terms
        has = [[float(term in sentence_terms) for sentence_terms in every] for term in terms]
        return np.array(has).reshape(len(terms), len(passage_rows))


def _sum_shares(shares: Floats, has: Floats) -> Floats:
    """Return the (m,) sum of the (t, m) rows of `has`, each multiplied by its share. Like
    `sum_weighted`, this adds the rows in a fixed order.
    """
    total = np.zeros(has.shape[1])
    for share, line in zip(shares.tolist(), has, strict=True):
        if share:
            total += share * line
    return total


def read_clauses(context: QueryContext) -> ClauseCoverage | None:
    """Encode the clauses of the question.

    Returns None if the question asks only one thing, or if the search asks no follow-ups.
    """
    clauses = split_clauses(context.question) if context.encode else []
    if not clauses or context.encode is None:
        return None
    shares = np.stack([_weigh_terms(context, clause) for clause in clauses])
    return ClauseCoverage(context.encode(clauses), shares, context)


def _weigh_terms(context: QueryContext, clause: str) -> Floats:
    clause_terms: Sequence[str] = list_index_terms(clause)
    shares = np.array(
        [share if term in clause_terms else 0.0 for term, share in context.terms.items()]
    )
    weighed: Floats = shares / max(float(shares.sum()), 1e-9)
    return weighed
