"""What came of each question, and the means that a table shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hopsyncd.evaluation.data import GoldQuestion
from hopsyncd.evaluation.measures import interval, retrieved
from store.records import PassageId

DEPTHS = (2, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class Outcome:
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


def scores_of(measured: Sequence[Outcome]) -> Scores:
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
