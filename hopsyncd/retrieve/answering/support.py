"""Support: how well what was found carries an answer, by weights fitted on known answers.

`python benchmarks/fit_answers.py` fits and prints these; docs/evaluation.md says how well they hold
on collections that were left out.

It needs its subject: sentences like it, and of its rare names at least one where they stand; its
relation: its words, of which a long question may miss more; and a value of the kind asked for. No
single sentence must have all of it: an answer may take two passages.

In a small collection sentences need be less like the question: the best of many foreign sentences
is more like it than the best of few.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hopsyncd.models.language import Language
from hopsyncd.retrieve.answering.extractive import Asked, asked_of
from hopsyncd.retrieve.answering.sentences import Sentence
from hopsyncd.retrieve.answering.short_answer import (
    MIN_RIGHT,
    Candidate,
    Short,
    candidates,
    likeliest,
)
from store.words import index_terms

# Whether a value in a sentence is what the question asks for.
FITS: Mapping[str, float] = {
    "cosine": 1.898,
    "behind": -2.781,
    "rank": -1.682,
    "around": -18.018,
    "covered": -0.426,
    "passage": -2.616,
    "other_kind": 3.114,
    "near": 2.592,
    "bias": 1.248,
}
# Whether the best of them is right.
RIGHT: Mapping[str, float] = {
    "odds": -0.069,
    "lead": 0.638,
    "alone": 2.815,
    "near": 2.600,
    "behind": 0.995,
    "bias": -2.595,
}
# Whether the documents hold an answer.
HELD: Mapping[str, float] = {
    "cosine": 7.736,
    "unnamed": -5.501,
    "covered": 4.659,
    "long": 4.087,
    "no_value": -3.164,
    "bias": -7.511,
}


def probability(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    """The logistic model's.

    >>> probability({"bias": 0.0, "x": 1.0}, {"x": 0.0})
    0.5
    """
    return 1 / (1 + math.exp(-log_odds(weights, features)))


def log_odds(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    return weights["bias"] + sum(
        weight * features[name] for name, weight in weights.items() if name != "bias"
    )


MIN_HELD = 0.45  # the probability below which the answer is "not found"
_MANY = 1000  # passages
_LESS_OF_FEW = 0.03  # with each e-fold of passages below that
_DEPTH = 5  # passages whose words count
_SHORT, _LONG = 8, 14  # terms of a question up to which it is one, and from which it is a story
_RARE = 0.45  # of the greatest idf there can be
_WORD = re.compile(r"\w[\w.+:'/-]*\w|\w")


def needs(
    question: str,
    asked: Asked | None,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    found: Sequence[Candidate],
    passages: int,
) -> dict[str, float]:
    """What speaks for an answer, in a collection of so many passages.

    `weights` are the idf of the question's terms, also of those that no passage has; `found` are
    the values of the kind asked for.
    """
    best = max((one.cosine for one in sentences), default=0.0)
    had = frozenset[str]().union(*(one.terms for one in sentences if one.rank < _DEPTH))
    rare = {
        term
        for term in _names(question) & weights.keys()
        if weights[term] > _RARE * math.log1p(passages)
    }
    named = {one.rank for one in sentences if rare & one.terms} if rare else None
    of_named = max(
        (one.cosine for one in sentences if named is None or one.rank in named), default=0.0
    )
    return {
        "cosine": best + _LESS_OF_FEW * max(math.log(_MANY / max(passages, 1)), 0.0),
        "unnamed": best - of_named,
        "covered": sum(weights[term] for term in had) / max(sum(weights.values()), 1e-9),
        "long": min(max((len(weights) - _SHORT) / (_LONG - _SHORT), 0.0), 1.0),
        "no_value": float(asked is not None and asked.kind != "name" and not found),
    }


def _names(question: str) -> set[str]:
    """The terms of words that are capitalised inside the question, or have a digit or capital."""
    words = _WORD.findall(question)
    return {
        term
        for at, word in enumerate(words)
        if (at and word[0].isupper()) or any(c.isupper() or c.isdigit() for c in word[1:])
        for term in index_terms(word)
    }


@dataclass(frozen=True, slots=True)
class Judgement:
    """`short` is None where none is likely enough."""

    is_found: bool
    short: Short | None


def judged(
    question: str,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    passages: int,
    language: Language,
) -> Judgement:
    """Judge the sentences of what was found in a collection of so many passages.

    `weights` are the idf of the question's terms. A short answer that is likely right is enough
    for the whole to be found.
    """
    asked = asked_of(question)
    values = candidates(question, asked, sentences, weights, language) if asked else []
    short = likeliest(values)
    if short and probability(RIGHT, short.features) >= MIN_RIGHT:
        return Judgement(True, short)
    held = probability(HELD, needs(question, asked, sentences, weights, values, passages))
    return Judgement(bool(sentences) and held >= MIN_HELD, None)
