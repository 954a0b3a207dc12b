"""The second ask: searches again for the rest of a question, after reading each of the first
passages.

"Where was the director of Bronze Door born?" finds the passage about the film, which names
Kaltenbrunn. The rest of the question is "Where was born? Kaltenbrunn". The walk follows names and
edges without reading passages. The second ask reads each of the first passages and asks the
question again:

- The terms in the best sentence of the passage or in its headings are removed from the question.
- The names of the passage's two best sentences are added, if they lead to other documents and are
  not in the question yet.
- The new text is encoded and compared with all passages, like the question: by words and whole
  vectors, then by the sentences of the best 300. A passage about one of the names gets a bonus.
- The best passages of other documents get additional score, by a softmax that also has
a place for "no answer": a follow-up without a good answer adds little score.

docs/benchmarks.md measures each part.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import Floats, Integers, find_sorted
from hopsyncd.retrieve.likeness import OF_LIKENESS, OF_WORDS, compare_best_vectors
from hopsyncd.retrieve.query_context import COMMON, QueryContext, SentenceFits
from hopsyncd.retrieve.ranking import (
    compute_importance,
    mark_reached,
    select_largest,
    select_most_important,
    select_nearly_largest,
)
from hopsyncd.retrieve.term_matches import K1, WORD, TermMatches, compute_idf, look_up_terms
from hopsyncd.text.words import list_index_terms
from store.records import Vectors

_STARTS = 3  # Passages to read.
_LEAST_SHARE = 0.02  # A passage with a smaller share of their importance is not read.
_BEST_SENTENCES = 2  # Follow-ups ask about the names in the two best sentences.
_NAMES = 6  # Names of each sentence, at most.
_NAME_WEIGHT = 0.7  # A term of a name counts less than a term of the question.
_CANDIDATES = 300  # Passages whose sentences are compared with a follow-up.
_ANSWERS = 20  # Passages that get score from a follow-up.
_NO_ANSWER = 13.0  # The likeness of "no answer" in the softmax.
_ABOUT_NAME = 1.0  # Added to the likeness of a passage about a name.
_MOST_ABOUT = 20  # The bonus needs a name that at most 20 passages are about.
_ROUNDING = 1e-4  # A bound of the rounding error of a likeness in 32 bits.
_SHARE = 0.4  # All follow-ups together add at most this score; the seeds' scores sum to 1.


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A follow-up that has not been asked yet.

    start: the row of the passage that was read. share: its share of the importance of all passages
    read. words: the rest of the question. terms: the terms of this rest, with their shares of the
    question's idf. seen_names: the numbers of all names in the sentences read. names: the names
    that the follow-up asks about. numbers: the numbers of these names.
    """

    start: int
    share: float
    words: str
    names: tuple[str, ...]
    terms: Mapping[str, float]
    seen_names: Integers
    numbers: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.words} {', '.join(self.names)}".strip()


@dataclass(frozen=True, slots=True, eq=False)
class FollowUp:
    """A question that was asked after reading a passage, and the passages that answer it best.

    vector: the vector of its text. weights: the weights of its terms. rows: the passage rows, best
    first. scores: the score that each row gains. fits: how well the best sentence of each row
    answers. total: the logarithm of the softmax's denominator.
    """

    plan: Plan
    vector: Vectors
    weights: Mapping[str, float]
    rows: Integers
    scores: Floats
    fits: Floats
    total: float

    @property
    def most_score(self) -> float:
        """The highest score that the follow-up can give to a passage."""
        return _SHARE * self.plan.share


@dataclass(frozen=True, slots=True, eq=False)
class SecondAsk:
    """All follow-ups of a question.

    lead: the lead in importance of the last passage read over the next passage, as a share. The
    lead is 1 if there is no next passage, or if a passage was not important enough to be read.
    """

    follow_ups: tuple[FollowUp, ...] = ()
    lead: float = 1.0

    def add_scores(self, scores: Floats) -> Floats:
        """Add the scores from the follow-ups to the (n,) scores."""
        total = scores.copy()
        for follow_up in self.follow_ups:
            total[follow_up.rows] += follow_up.scores
        return total

    @property
    def fits(self) -> dict[int, float]:
        """The fit of each passage row for the follow-up that it answers best."""
        best: dict[int, float] = {}
        for follow_up in self.follow_ups:
            for row, fit in zip(follow_up.rows.tolist(), follow_up.fits.tolist(), strict=True):
                best[row] = max(best.get(row, fit), fit)
        return best


def ask_again(context: QueryContext, scores: Floats) -> SecondAsk:
    """Ask the rest of the question after reading each of the passages with the best walk scores."""
    if context.encode is None:
        return SecondAsk()
    starts, shares, lead = _choose_starts(context, scores)
    plans = [
        plan
        for start, share in zip(starts.tolist(), shares.tolist(), strict=True)
        if (plan := _plan(context, start, share)).text
    ]
    if not plans:
        return SecondAsk(lead=lead)
    vectors = context.encode([plan.text for plan in plans])
    terms = {term for plan in plans for term in _list_terms(plan)}
    new = sorted(terms - context.matches.keys())
    found = look_up_terms(context.snapshot, new, context.forms.rows_by_term)
    matches = {**context.matches, **dict(zip(new, found, strict=True))}
    table, count = context.snapshot.index.vectors, len(context.by_words)
    whole = table.compare_with_all(vectors, table.passage_codes[:count])
    follow_ups = [_ask(context, *each, matches) for each in zip(plans, vectors, whole, strict=True)]
    return SecondAsk(tuple(follow_ups), lead)


def _choose_starts(context: QueryContext, scores: Floats) -> tuple[Integers, Floats, float]:
    """Choose the passages to read.

    Returns their rows, the share of each in their total importance, and the lead of the last
    passage over the next passage (`SecondAsk.lead`).
    """
    ids = context.snapshot.passage_ids
    importance = compute_importance(context, mark_reached(context, scores))
    order = select_most_important(importance, ids, _STARTS + 1)
    order = order[importance[order] > 0]
    values = importance[order]
    lead = 1.0 - float(values[_STARTS] / values[_STARTS - 1]) if len(order) > _STARTS else 1.0
    shares = values[:_STARTS] / values[:_STARTS].sum()
    is_read = shares >= _LEAST_SHARE
    return order[:_STARTS][is_read], shares[is_read], lead if is_read.all() else 1.0


def _plan(context: QueryContext, start: int, share: float) -> Plan:
    """Plan the follow-up to the passage in this row."""
    sentences = context.compare_sentences(np.array([start]))[0]
    order = sentences.order_by_fit()[:_BEST_SENTENCES]
    if not order:
        return Plan(start, share, "", (), {}, np.empty(0, dtype=np.int64))
    covered = sentences.terms[order[0]]
    terms = {term: part for term, part in context.terms.items() if term not in covered}
    seen: list[int] = []
    names: dict[str, int] = {}
    for position in order:
        numbers = _list_names(context, sentences, position)
        seen += numbers
        names.update(_select_names(context, numbers))
    words = _select_words(context.question, terms)
    seen_names = np.array(seen, dtype=np.int64)
    return Plan(start, share, words, tuple(names), terms, seen_names, tuple(names.values()))


def _list_names(context: QueryContext, sentences: SentenceFits, position: int) -> list[int]:
    row = np.array([sentences.vector_rows[position]], dtype=np.int64)
    names: list[int] = context.snapshot.find_sentence_mentions(row)[1].tolist()
    return list(dict.fromkeys(names))


def _select_names(context: QueryContext, numbers: Sequence[int]) -> dict[str, int]:
    """Select the first names that lead to other documents and are not in the question.

    Returns the number of each name, by its text.
    """
    snapshot = context.snapshot
    joins, texts = snapshot.statistics.joins_documents, snapshot.index.name_texts
    asked = f" {' '.join(WORD.findall(context.question.lower()))} "
    new: dict[str, int] = {}
    for number in numbers:
        if joins[number] and len(new) < _NAMES:
            name = texts[number]
            if f" {' '.join(WORD.findall(name.lower()))} " not in asked:
                new[name] = number
    return new


def _select_words(question: str, wanted: Collection[str]) -> str:
    """Keep the words of the question that have a wanted term, and words without any term."""
    selected = []
    for word in question.split():
        terms = list_index_terms(word)
        if not terms or any(term in wanted for term in terms):
            selected.append(word)
    return " ".join(selected)


def _list_terms(plan: Plan) -> set[str]:
    return {*plan.terms, *(term for name in plan.names for term in list_index_terms(name))}


def _weigh_terms(
    context: QueryContext, plan: Plan, matches: Mapping[str, TermMatches]
) -> dict[str, float]:
    """Weigh the terms of a follow-up by their share of the question's idf.

    The terms of the follow-up's names are weighed too, although they are not terms of the question.
    """
    weights = dict(plan.terms)
    for name in plan.names:
        terms = list_index_terms(name)
        df = np.array([matches[term].df for term in terms], dtype=np.int64)
        shares = _NAME_WEIGHT * compute_idf(context.snapshot, df) / context.total_idf
        for term, share in zip(terms, shares.tolist(), strict=True):
            weights[term] = max(weights.get(term, 0.0), share)
    return weights


def _score_words(
    context: QueryContext, weights: Mapping[str, float], matches: Mapping[str, TermMatches]
) -> NDArray[np.float32]:
    """Return the (n,) BM25 scores of the passages with these weights, as shares of the maximum."""
    count = len(context.by_words)
    scores = np.zeros(count, dtype=np.float32)
    for term, weight in weights.items():
        match, part = matches[term], np.float32(weight / (K1 + 1))
        if match.df > count / COMMON:
            scores += part * match.counts_of_all
        elif match.df:
            scores[match.passage_rows] += part * match.counts
    return scores


def _ask(
    context: QueryContext,
    plan: Plan,
    vector: Vectors,
    whole: NDArray[np.float32],
    matches: Mapping[str, TermMatches],
) -> FollowUp:
    """Compare a follow-up, encoded as `vector`, with all passages of other documents.

    `whole` has its (n,) cosines with whole passages, and `matches` the passages with each term.
    """
    snapshot, ids = context.snapshot, context.snapshot.passage_ids
    weights = _weigh_terms(context, plan, matches)
    words = _score_words(context, weights, matches)
    rows = _find_candidates(context, plan.start, whole, words)
    fits = compare_best_vectors(snapshot.index, vector, rows)
    likeness = OF_LIKENESS * fits + OF_WORDS * words[rows]
    counts = snapshot.statistics
    for number in plan.numbers:
        topics, documents = int(counts.as_topic[number]), int(counts.as_document_name[number])
        if topics > _MOST_ABOUT or not (topics or documents):
            continue
        about = snapshot.find_by_topic(number)
        if len(about) <= _MOST_ABOUT:
            likeness[find_sorted(about, rows)[1]] += _ABOUT_NAME
    best = select_largest(likeness, ids[rows], _ANSWERS)
    total = compute_log_sum(likeness[best], _NO_ANSWER)
    scores = _SHARE * plan.share * np.exp(likeness[best] - total)
    rows, fits = rows[best], fits[best] + words[rows[best]]
    return FollowUp(plan, vector, weights, rows, scores, fits, total)


def compute_log_sum(likeness: Floats, no_answer: float) -> float:
    """Return the logarithm of the sum of exp(no_answer) and of exp(x) for each likeness x."""
    most = max(float(likeness.max(initial=no_answer)), no_answer)
    return most + math.log(float(np.exp(likeness - most).sum()) + math.exp(no_answer - most))


def _find_candidates(
    context: QueryContext, start: int, whole: NDArray[np.float32], words: NDArray[np.float32]
) -> Integers:
    """Find the passages most like a follow-up, outside the document of the passage row `start`.

    `whole` has the (n,) cosines with whole passages, and `words` the (n,) scores by words.
    """
    visible, ids = context.snapshot.statistics.visible, context.snapshot.passage_ids
    nearly = np.float32(OF_LIKENESS) * whole
    nearly += np.float32(OF_WORDS) * words
    nearly[~visible.passages] = -np.inf
    passages_of_document, _ = context.snapshot.list_document_passages(
        visible.document_numbers[start : start + 1]
    )
    nearly[passages_of_document] = -np.inf
    rows = select_nearly_largest(nearly, _CANDIDATES, _ROUNDING)
    likeness = OF_LIKENESS * whole[rows].astype(np.float64) + OF_WORDS * words[rows]
    return rows[select_largest(likeness, ids[rows], _CANDIDATES)]
