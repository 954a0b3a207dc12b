"""The measures of an evaluation: of a ranking against its gold passages, of an answer's words."""

import re
import string
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# HotpotQA: beside one of these, words in common count for nothing.
_WHOLE = frozenset({"yes", "no", "noanswer"})
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Retrieved:
    """How much of the gold is among the first so many passages: shares between 0 and 1."""

    recall: float
    precision: float
    f1: float


def retrieved(found: Sequence[int], gold: Collection[int], depth: int) -> Retrieved:
    """Compare the first `depth` passages with the gold ones.

    Precision is over `depth` places, also where fewer passages were found, so that a strategy does
    not gain by finding little.

    >>> retrieved([7, 8, 9, 4], gold={7, 4}, depth=2)
    Retrieved(recall=0.5, precision=0.5, f1=0.5)
    """
    hits = len(set(found[:depth]) & set(gold))
    recall, precision = hits / len(gold), hits / depth
    return Retrieved(recall, precision, _harmonic(precision, recall))


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def normalised(answer: str) -> str:
    """An answer as SQuAD's and HotpotQA's scripts compare it: no case, punctuation or articles.

    >>> normalised("The  Beatles'  (U.K.) ")
    'beatles uk'
    """
    return " ".join(_ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 if the normalised answer is one of the gold ones, otherwise 0."""
    return float(any(normalised(answer) == normalised(gold) for gold in golds))


def answer_f1(answer: str, golds: Sequence[str]) -> float:
    """The best F1 of the answer's words with those of a gold answer.

    >>> answer_f1("in Upper Wick", ["Upper Wick", "Wick"])
    0.8
    """
    return max((_words_f1(normalised(answer), normalised(gold)) for gold in golds), default=0.0)


def _words_f1(answer: str, gold: str) -> float:
    if answer != gold and (answer in _WHOLE or gold in _WHOLE):
        return 0.0
    words, wanted = answer.split(), gold.split()
    common = sum((Counter(words) & Counter(wanted)).values())
    if not common:
        return float(answer == gold)
    return _harmonic(common / len(words), common / len(wanted))


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean; the same for the same seed."""
    drawn: NDArray[np.float64] = np.random.default_rng(seed).choice(
        np.asarray(values, dtype=np.float64), (_RESAMPLES, len(values))
    )
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
