"""The measures of an evaluation: of each question, and their means in a table."""

import re
import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.evaluation.corpus import GoldQuestion
from store.records import PassageId

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


DEPTHS = (2, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What came of one question.

    ranks: of each gold id, from 1; None for one that is not among the first 20. em and f1: of the
    answer, 0 to 1; None where no answer was made. answer is empty where none was found. Calls and
    tokens are those of the search and the answer together.
    """

    question: GoldQuestion
    found: tuple[PassageId, ...]
    gold: frozenset[PassageId]
    ranks: Mapping[str, int | None]
    ms: float
    llm_calls: int
    llm_tokens: int
    answer: str | None = None
    em: float | None = None
    f1: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over the questions, in percent; milliseconds, calls and tokens a question.

    `recall`, `precision` and `f1` are by depth. `recall_interval` is the 95 % bootstrap interval of
    recall@5. `all_at_5` is the share of questions with all their gold passages in the first five.
    `answer_em`, `answer_f1` and `not_found` are None where no answers were made.
    """

    recall: Mapping[int, float]
    precision: Mapping[int, float]
    f1: Mapping[int, float]
    recall_interval: tuple[float, float]
    all_at_5: float
    ms_p50: float
    ms_p95: float
    llm_calls: float
    llm_tokens: float
    answer_em: float | None
    answer_f1: float | None
    not_found: float | None


def scores_of(measured: Sequence[QuestionOutcome]) -> Scores:
    """The means, over at least one question."""
    at = {depth: [retrieved(one.found, one.gold, depth) for one in measured] for depth in DEPTHS}
    took_ms = [one.ms for one in measured]
    low, high = interval([one.recall for one in at[5]])
    answered = all(one.answer is not None for one in measured)
    return Scores(
        recall={depth: _percent([one.recall for one in some]) for depth, some in at.items()},
        precision={depth: _percent([one.precision for one in some]) for depth, some in at.items()},
        f1={depth: _percent([one.f1 for one in some]) for depth, some in at.items()},
        recall_interval=(100 * low, 100 * high),
        all_at_5=_percent([float(one.gold.issubset(one.found[:5])) for one in measured]),
        ms_p50=float(np.percentile(took_ms, 50)),
        ms_p95=float(np.percentile(took_ms, 95)),
        llm_calls=float(np.mean([one.llm_calls for one in measured])),
        llm_tokens=float(np.mean([one.llm_tokens for one in measured])),
        answer_em=_percent([one.em or 0.0 for one in measured]) if answered else None,
        answer_f1=_percent([one.f1 or 0.0 for one in measured]) if answered else None,
        not_found=_percent([float(not one.answer) for one in measured]) if answered else None,
    )


def _percent(shares: Sequence[float]) -> float:
    return 100 * float(np.mean(shares))
