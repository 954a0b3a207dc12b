"""Computes the measures of an evaluation for each question, their means, and the missed
passages."""

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import Encoder
from hopsyncd.retrieve.answering.reply import AskReply, split_reply
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import Answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.open_database import Database
from store.records import PassageId

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# As in HotpotQA, these answers get no credit for shared words.
_WHOLE = frozenset({"yes", "no", "noanswer"})
_WORD = re.compile(r"\w+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
        " fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
}
_RESAMPLES = 2000
_Z = 1.959964  # standard deviations around the mean that have 95 % of a normal distribution.


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Measures of how well the first passages cover the gold passages, from 0 to 1."""

    recall: float
    precision: float
    f1: float


def judge_retrieval(ranks: Collection[int | None], depth: int) -> Retrieved:
    """Measure the first `depth` passages, given the rank of each gold passage.

    Ranks count from 1, and None means that the passage was not found. Precision divides by `depth`
    even if fewer passages were found, so that finding few passages is not rewarded.

    >>> judge_retrieval([1, 4], depth=2)
    Retrieved(recall=0.5, precision=0.5, f1=0.5)
    """
    hits = sum(rank is not None and rank <= depth for rank in ranks)
    recall, precision = hits / len(ranks), hits / depth
    return Retrieved(recall, precision, _compute_harmonic_mean(precision, recall))


def _compute_harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def normalise_answer(answer: str) -> str:
    """Normalise an answer as SQuAD and HotpotQA do: drop case, punctuation and articles.

    >>> normalise_answer("The  Beatles'  (U.K.) ")
    'beatles uk'
    """
    return " ".join(_ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def compute_exact_match(answer: str, golds: Sequence[str]) -> float:
    """Return 1 if the normalised answer is one of the gold answers, otherwise 0."""
    return float(any(normalise_answer(answer) == normalise_answer(gold) for gold in golds))


def compute_answer_f1(answer: str, golds: Sequence[str]) -> float:
    """Return the best F1 between the words of the answer and the words of a gold answer.

    >>> compute_answer_f1("in Upper Wick", ["Upper Wick", "Wick"])
    0.8
    """
    return max(
        (_compute_words_f1(normalise_answer(answer), normalise_answer(gold)) for gold in golds),
        default=0.0,
    )


def _compute_words_f1(answer: str, gold: str) -> float:
    if answer != gold and (answer in _WHOLE or gold in _WHOLE):
        return 0.0
    words, gold_words = answer.split(), gold.split()
    common = sum((Counter(words) & Counter(gold_words)).values())
    if not common:
        return float(answer == gold)
    return _compute_harmonic_mean(common / len(words), common / len(gold_words))


def is_right(short: str, golds: Sequence[str]) -> bool:
    """Return whether a short answer contains a gold answer. Number words are equal to digits.

    The short answer may say more (`on 3 May` for `3 May`), but not less.

    >>> is_right("after two years", ["2 years"]), is_right("600", ["1 and 600"])
    (True, False)
    """
    words = split_answer(short)
    return any(
        words == split_answer(gold)
        if normalise_answer(gold) in _WHOLE
        else _holds(words, split_answer(gold))
        for gold in golds
    )


def is_held(texts: Sequence[str], golds: Sequence[str]) -> bool:
    """Return whether one of the texts contains a gold answer. The answers yes and no do not
    count.
    """
    gold_answers = [split_answer(gold) for gold in golds if normalise_answer(gold) not in _WHOLE]
    return any(_holds(split_answer(text), gold) for text in texts for gold in gold_answers)


def _holds(words: Sequence[str], phrase: Sequence[str]) -> bool:
    return bool(phrase) and any(
        words[start : start + len(phrase)] == phrase
        for start in range(len(words) - len(phrase) + 1)
    )


def split_answer(text: str) -> list[str]:
    """Split an answer into words to compare: in lower case, without articles, numbers as digits."""
    words = _WORD.findall(_THOUSANDS.sub("", text.lower()))
    return [_NUMBERS.get(word, word) for word in words if not _ARTICLE.fullmatch(word)]


def compute_bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the mean.

    Equal values always give the same interval.
    """
    drawn: NDArray[np.float64] = np.random.default_rng(0).choice(
        np.asarray(values, dtype=np.float64), (_RESAMPLES, len(values))
    )
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def compute_wilson_interval(count: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of a share.

    Unlike a bootstrap interval, it is not empty at 0 and at 1.

    >>> [round(end, 3) for end in compute_wilson_interval(9, 9)]
    [0.701, 1.0]
    """
    share, spread = count / total, _Z * _Z / total
    middle = share + spread / 2
    half = _Z * sqrt((share * (1 - share) + spread / 4) / total)
    low, high = ((middle + sign * half) / (1 + spread) for sign in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


class Share(float):
    """A share in percent, with the ends of its 95 % confidence interval."""

    low: float
    high: float

    def __new__(cls, percent: float, low: float, high: float) -> Self:
        share = super().__new__(cls, percent)
        share.low, share.high = low, high
        return share

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Self:
        """Compute the mean of one or more values between 0 and 1.

        If all values are 0 or 1, the interval is Wilson's. Otherwise it is a bootstrap interval.

        >>> Share.from_values([1.0, 0.0, 1.0, 1.0])
        75.0 (30.1 to 95.4)
        """
        if all(value in (0.0, 1.0) for value in values):
            low, high = compute_wilson_interval(int(sum(values)), len(values))
        else:
            low, high = compute_bootstrap_interval(values)
        return cls(100 * float(np.mean(values)), 100 * low, 100 * high)

    def __repr__(self) -> str:
        return f"{float(self):.1f} ({self.low:.1f} to {self.high:.1f})"


DEPTHS = (2, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """The result of one question.

    ranks: the rank (from 1) of each gold passage, by name; None if the passage is not among the
    first 20. reply: the answer; None if no answer was requested. Calls and tokens include the
    search and the answer.
    """

    question: GoldQuestion
    found: tuple[PassageId, ...]
    ranks: Mapping[str, int | None]
    ms: float
    llm_calls: int
    llm_tokens: int
    reply: AskReply | None = None

    @property
    def em(self) -> float:
        return compute_exact_match(self.reply.brief, self.question.answers) if self.reply else 0.0

    @property
    def f1(self) -> float:
        return compute_answer_f1(self.reply.brief, self.question.answers) if self.reply else 0.0


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """The quality of the answers, in percent. A score is None if no question applies.

    Questions with an answer have `em` and `f1` (of the short answer or first sentence), `shown` (a
    short answer was given), `held` (the sentences contain an answer) and `refused_wrongly` (the
    answer was "not found"). Questions without an answer have `refused_rightly`. Short answers have
    `right`.
    """

    em: Share | None
    f1: Share | None
    shown: Share | None
    right: Share | None
    held: Share | None
    refused_wrongly: Share | None
    refused_rightly: Share | None


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over the questions: shares in percent, and milliseconds, calls and tokens per question.

    `recall`, `precision`, `f1` and `whole` have a value for each depth. `whole` is the share of
    questions whose gold passages are all found. `reciprocal_rank` is 1 / rank of the first gold
    passage.
    """

    recall: Mapping[int, Share]
    precision: Mapping[int, Share]
    f1: Mapping[int, Share]
    whole: Mapping[int, Share]
    reciprocal_rank: float
    ms_p50: float
    ms_p95: float
    llm_calls: float
    llm_tokens: float


def compute_scores(measured: Sequence[QuestionOutcome]) -> Scores:
    """Compute the means over the questions. There must be at least one question, and each question
    must have gold passages.
    """
    by_depth = {
        depth: [judge_retrieval(outcome.ranks.values(), depth) for outcome in measured]
        for depth in DEPTHS
    }
    took_ms = [outcome.ms for outcome in measured]

    def means(measure: Callable[[Retrieved], float]) -> dict[int, Share]:
        return {
            depth: Share.from_values([*map(measure, judged)]) for depth, judged in by_depth.items()
        }

    return Scores(
        recall=means(lambda outcome: outcome.recall),
        precision=means(lambda outcome: outcome.precision),
        f1=means(lambda outcome: outcome.f1),
        whole=means(lambda outcome: float(outcome.recall == 1)),
        reciprocal_rank=float(
            np.mean(
                [
                    max((1 / r for r in outcome.ranks.values() if r), default=0.0)
                    for outcome in measured
                ]
            )
        ),
        ms_p50=float(np.percentile(took_ms, 50)),
        ms_p95=float(np.percentile(took_ms, 95)),
        llm_calls=float(np.mean([outcome.llm_calls for outcome in measured])),
        llm_tokens=float(np.mean([outcome.llm_tokens for outcome in measured])),
    )


def compute_answer_scores(measured: Sequence[QuestionOutcome]) -> AnswerScores | None:
    """Compute the means over the questions' answers. Returns None if no answers were requested."""
    if any(outcome.reply is None for outcome in measured):
        return None
    answerable = [outcome for outcome in measured if outcome.question.kind != "none"]
    unanswerable = [outcome for outcome in measured if outcome.question.kind == "none"]
    shown = [outcome for outcome in measured if _describe_outcome(outcome)]
    return AnswerScores(
        em=_compute_share(answerable, lambda outcome: outcome.em),
        f1=_compute_share(answerable, lambda outcome: outcome.f1),
        shown=_compute_share(answerable, _describe_outcome),
        right=_compute_share(
            shown, lambda outcome: is_right(_describe_outcome(outcome), outcome.question.answers)
        ),
        held=_compute_share(answerable, _is_held),
        refused_wrongly=_compute_share(answerable, _is_refused),
        refused_rightly=_compute_share(unanswerable, _is_refused),
    )


def _compute_share(
    outcomes: Sequence[QuestionOutcome], measure: Callable[[QuestionOutcome], object]
) -> Share | None:
    values = [measure(outcome) for outcome in outcomes]
    shares = [value if isinstance(value, float) else float(bool(value)) for value in values]
    return Share.from_values(shares) if shares else None


def _describe_outcome(outcome: QuestionOutcome) -> str:
    return outcome.reply.short or "" if outcome.reply else ""


def _is_held(outcome: QuestionOutcome) -> bool:
    reply = outcome.reply
    return reply is not None and is_held(split_reply(reply), outcome.question.answers)


def _is_refused(outcome: QuestionOutcome) -> bool:
    return outcome.reply is not None and not outcome.reply.found


Gold = Mapping[str, frozenset[PassageId]]
"""The acceptable passages for each gold passage, by its name. Empty if its text was not read."""

Cause = Literal["not read", "not seeded", "not walked to", "ranked out"]

_NEAR = 20  # a passage among the first 20 counts as seeded, or as reached by the walk
_DEEP = 200
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Miss:
    """A gold passage that is not among the first five, with its ranks in the seeds and the walk.

    A rank is None if it is not among the first 200. The causes:

    - not read: no passage contains its quote;
    - not seeded: no gold passage of the question is among the first 20 seeds;
    - not walked to: a gold passage is among them, but this passage is not in the walk's first 20;
    - ranked out: this passage is among the first 20 of the seeds or of the walk, but not among the
      first five.
    """

    gold: str
    cause: Cause
    seed_rank: int | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class Missing:
    """The missed gold passages of a question, and descriptions of the first five passages found."""

    missing: tuple[Miss, ...]
    behind: tuple[str, ...]


def rank_of(ranking: Sequence[PassageId], passages: frozenset[PassageId]) -> int | None:
    """Return the rank (from 1) of the first passage of `ranking` that is in `passages`, or None if
    there is none.
    """
    return next((rank for rank, passage in enumerate(ranking, 1) if passage in passages), None)


def find_missing(
    database: Database,
    served: Snapshot,
    gold: Gold,
    questions: Sequence[GoldQuestion],
    encoder: Encoder,
    settings: WalkSettings,
) -> Mapping[str, Missing]:
    """Find the gold passages that are not among the first five of the default search.

    The result has the questions with at least one such passage, by id.
    """
    seeds, walk = (
        Engine(database, encoder, walking) for walking in (replace(settings, hops=0), settings)
    )
    missing = {}
    for engine in (seeds, walk):
        engine.publish(served)
    for question in questions:
        first = seeds.query(question.question, _DEEP, Search())
        last = walk.query(question.question, _DEEP, Search())
        assert first is not None and last is not None
        misses = tuple(_find_misses(question, gold, _list_passages(first), _list_passages(last)))
        if misses:
            missing[question.id] = Missing(misses, _describe_passages(last))
    return missing


def _list_passages(answer: Answer) -> list[PassageId]:
    return [hit.passage for hit in answer.ranked]


def _find_misses(
    question: GoldQuestion, gold: Gold, seeds: Sequence[PassageId], walk: Sequence[PassageId]
) -> list[Miss]:
    seeded = {name: rank_of(seeds, gold[name]) for name in sorted(question.gold)}
    ranked = {name: rank_of(walk, gold[name]) for name in sorted(question.gold)}
    begun = any(_is_near(rank) for rank in seeded.values())
    misses = []
    for name, rank in ranked.items():
        if rank is not None and rank <= _SHOWN:
            continue
        cause: Cause = "not walked to" if begun else "not seeded"
        if not gold[name]:
            cause = "not read"
        elif _is_near(seeded[name]) or _is_near(rank):
            cause = "ranked out"
        misses.append(Miss(name, cause, seeded[name], rank))
    return misses


def _is_near(rank: int | None) -> bool:
    return rank is not None and rank <= _NEAR


def _describe_passages(answer: Answer) -> tuple[str, ...]:
    shown = []
    for hit in answer.ranked[:_SHOWN]:
        places, heading = answer.places.get(hit.passage), answer.passages[hit.passage].heading
        shown.append(" > ".join((places[0].document if places else "", *heading)))
    return tuple(shown)
