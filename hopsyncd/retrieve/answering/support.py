"""Support: how well what was found carries an answer, by weights fitted on known answers.

It needs its subject: sentences like it, and of its rare names at least one where they stand; its
relation: its words, of which a long question may miss more. No single sentence must have all of it:
an answer may take two passages.

In a small collection sentences need be less like the question: the best of many foreign sentences
is more like it than the best of few.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hopsyncd.models.language import Language
from hopsyncd.retrieve.answering.comparison_answer import compared
from hopsyncd.retrieve.answering.extractive import Sentence, asked_of
from hopsyncd.retrieve.answering.short_answer import (
    HELD,
    MIN_RIGHT,
    RIGHT,
    candidates,
    likeliest,
    log_odds,
    probability,
)
from store.words import index_terms

MIN_HELD = 0.5  # the probability below which the answer is "not found"
_MANY = 1000  # passages
_LESS_OF_FEW = 0.05  # with each e-fold of passages below that
_DEPTH = 5  # passages whose words count
_SHORT, _LONG = 8, 14  # terms of a question up to which it is one, and from which it is a story
_RARE = 0.45  # of the greatest idf there can be
_WORD = re.compile(r"\w[\w.+:'/-]*\w|\w")


def needs(
    question: str, sentences: Sequence[Sentence], weights: Mapping[str, float], passages: int
) -> dict[str, float]:
    """What speaks for an answer, in a collection of so many passages.

    `weights` are the idf of the question's terms, also of those that no passage has.
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
    """`short` is None where none is likely enough; `sentences` are those that it is taken from."""

    is_found: bool
    short: str | None = None
    sentences: tuple[Sentence, ...] = ()


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
    both = compared(question, sentences)
    if both:
        return Judgement(True, both.text, both.sentences)
    asked = asked_of(question)
    values = candidates(question, asked, sentences, weights, language) if asked else []
    told = needs(question, sentences, weights, passages)
    short = likeliest(values, log_odds(HELD, told))
    if short and probability(RIGHT, short.features) >= MIN_RIGHT:
        return Judgement(True, short.text, (short.sentence,))
    return Judgement(bool(sentences) and probability(HELD, told) >= MIN_HELD)
