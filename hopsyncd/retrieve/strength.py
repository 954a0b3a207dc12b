"""Estimates how relevant each passage found is to the question: strong, fair or weak.

A logistic model estimates the probability from the passage's best cosine with the question, the
share of the question's words that the passage has (by idf, without function words), and the
passage's rank. benchmarks/fit_strength.py fits the weights on development sets and prints the
reliability.

If no passage has a word, code or phrase of the question, all passages are weak. Otherwise a
passage that has all words of a keyword query as typed is strong.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from hopsyncd.index.arrays import Floats, Integers, expand_ranges, mark_rows
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.vectors import split_slices
from hopsyncd.retrieve.literal_search import LiteralMatches
from hopsyncd.retrieve.other_forms import NO_FORMS, FormMatches
from hopsyncd.retrieve.query_words import FUNCTION_WORDS
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.term_matches import look_up_terms
from hopsyncd.text.question_language import list_foreign_function_words
from hopsyncd.text.words import list_index_terms
from store.records import WORD, PassageId, Vectors

Strength = Literal["strong", "fair", "weak"]

STRONG, FAIR = 0.6, 0.25  # least probability of each strength
_PASSAGES_AT_ONCE = 64  # their vectors take little memory
WEIGHTS = {"cosine": 6.377, "share": 0.953, "rank": -1.643, "words": -0.064, "bias": -3.141}


def measure_features(
    snapshot: Snapshot,
    question: str,
    vector: Vectors,
    ranked: Sequence[Ranked],
    forms: FormMatches = NO_FORMS,
) -> list[dict[str, float]]:
    """Compute the features of each passage in `ranked`, in that order. `vector` is the question's
    (d,) vector, and `forms` has other forms of the question's words."""
    if not ranked:
        return []
    rows = snapshot.find_passages(np.array([hit.passage for hit in ranked], dtype=np.int64))
    cosines = _find_best_cosines(snapshot, vector, rows)
    shares = _compute_word_shares(snapshot, question, rows, forms)
    count = math.log1p(len(_list_content_terms(question)))
    return [
        {"cosine": cosine, "share": share, "rank": math.log(rank), "words": count}
        for rank, (cosine, share) in enumerate(
            zip(cosines.tolist(), shares.tolist(), strict=True), 1
        )
    ]


def rate(
    snapshot: Snapshot,
    question: str,
    vector: Vectors,
    ranked: Sequence[Ranked],
    matches: LiteralMatches,
) -> dict[PassageId, Strength]:
    """Rate each passage found as strong, fair or weak."""
    if matches.absent:
        return {hit.passage: "weak" for hit in ranked}
    features = measure_features(snapshot, question, vector, ranked, matches.forms)
    strengths = {
        hit.passage: _name_strength(compute_probability(WEIGHTS, each))
        for hit, each in zip(ranked, features, strict=True)
    }
    if matches.query.is_keywords:
        literal = {int(snapshot.passage_ids[row]) for row in matches.complete | matches.whole}
        strengths |= {passage: "strong" for passage in strengths if passage in literal}
    return strengths


def _name_strength(probability: float) -> Strength:
    return "strong" if probability >= STRONG else "fair" if probability >= FAIR else "weak"


def _find_best_cosines(snapshot: Snapshot, vector: Vectors, rows: Integers) -> Floats:
    """Return the (m,) largest cosines of each passage's vectors with the question, at least 0.

    `rows` has the passage rows, or -1 for a passage that is not visible, which gets 0.
    """
    columns, table = snapshot.index.passages, snapshot.index.vectors
    query_vector = vector.astype(np.float64)
    query_vector /= max(float(np.linalg.norm(query_vector)), 1e-9)
    best, found = np.zeros(len(rows)), np.flatnonzero(rows >= 0)
    for part in split_slices(len(found), _PASSAGES_AT_ONCE):
        starts = columns.vector_start[rows[found[part]]].astype(np.int64)
        ends = columns.vector_end[rows[found[part]]].astype(np.int64)
        vectors = table.take_floats(expand_ranges(starts, ends)[0]).astype(np.float64)
        cosines = (vectors * query_vector).sum(axis=1)
        cosines /= np.maximum(np.linalg.norm(vectors, axis=1), 1e-9)
        best[found[part]] = np.maximum.reduceat(cosines, (ends - starts).cumsum() - (ends - starts))
    return np.maximum(best, 0.0)


def _list_content_terms(question: str) -> tuple[str, ...]:
    """Return the question's terms without function words, or all terms if only function words
    remain.
    """
    linking = list_foreign_function_words(question) or FUNCTION_WORDS
    words = [word for word in WORD.findall(question) if word.lower() not in linking]
    return list_index_terms(" ".join(words) or question)


def _compute_word_shares(
    snapshot: Snapshot, question: str, rows: Integers, forms: FormMatches
) -> Floats:
    """Return the (m,) idf shares of the question's terms that the m passages have, in any form."""
    term_matches = look_up_terms(snapshot, _list_content_terms(question), forms.rows_by_term)
    passages, total = snapshot.statistics.passages, 0.0
    shares, count = np.zeros(len(rows)), len(snapshot.statistics.visible.passages)
    for term in term_matches:
        idf = math.log1p((passages - term.df + 0.5) / (term.df + 0.5))
        total += idf
        if term.df:
            has = mark_rows(count, term.passage_rows)
            shares += idf * (has[rows] & (rows >= 0))
    return shares / (total or 1.0)


def compute_probability(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    """Compute the probability from a logistic model.

    >>> compute_probability({"bias": 0.0, "x": 1.0}, {"x": 0.0})
    0.5
    """
    return 1 / (1 + math.exp(-compute_log_odds(weights, features)))


def compute_log_odds(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    return weights["bias"] + sum(
        weight * features[name] for name, weight in weights.items() if name != "bias"
    )
