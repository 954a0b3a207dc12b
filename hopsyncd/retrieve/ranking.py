"""Ranks passages by helpfulness H, as in the HopRAG paper (Eq. 2 and 3) or by new words.

The paper's H is the mean of a passage's similarity to the query and its share of the walk's visits.
Similarity to the query favours passages that repeat the first result. So the default H counts only
new words: H = importance * exp(weight * new), where `new` is the idf-weighted share of the query's
words that the passage adds. A passage adds the words in its best sentence and its headings, unless
a passage ranked before it has added them.

Importance is the passage's score times exp(fit), where `fit` says how similar the passage's best
sentence is to the query and how many of the query's words that sentence has. If a question has
several clauses, a passage also gains if it answers a clause better than the passages ranked before
it (`clauses`).

Worked example: the query's words are x and y, of equal idf. A (1.0) and B (0.9) have x, C (0.5) has
y. A comes first; then C, because 0.5 * exp(4 * 0.5) = 3.7 is more than B's 0.9, since B adds no new
word.

The walk depends on names. If the graph has few of the names in a question, later results are often
unrelated. Then the passages most like the question keep places among the first five (`DirectHits`).
docs/benchmarks.md measures the effect of direct hits and of the default H.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hopsyncd.retrieve.clauses import ClauseCoverage, read_clauses
from hopsyncd.retrieve.query_context import QueryContext, TermCoverage, sum_weighted
from store.records import PassageId, QuestionId


@dataclass(frozen=True, slots=True)
class Hop:
    """A step of the walk, from the passage `source` to the passage `target`.

    `asked_by` tells the kind of step. For an edge, it says which passage raises the outgoing
    `question`. For a name that both passages or their documents have, `name` is that name, and
    `asked_by` is "both". For a link, in either direction, `name` is the text of the link. For a
    follow-up, `source` was read and the question was asked again about `topics`. `share` is the
    part of the target's score that came this way, between 0 and 1.
    """

    source: PassageId
    target: PassageId
    asked_by: Literal["from", "to", "both", "link", "backlink", "follow_up"]
    question: QuestionId | None
    name: str | None
    share: float
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PathStatement:
    """A statement of a path, identified by its question.

    name: the name that connects the statement to the previous statement.
    """

    passage: PassageId
    question: QuestionId
    name: str | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage found, and its score. Scores of different strategies cannot be compared.

    statements: the path of statements that ends in the passage. similar: near-duplicates to show
    below the passage. find_hops: a function that finds the hops. It is slow, so it is called only
    for passages that are shown.
    """

    passage: PassageId
    score: float
    hops: tuple[Hop, ...] = ()
    statements: tuple[PathStatement, ...] = ()
    similar: tuple[PassageId, ...] = ()
    find_hops: Callable[[], tuple[Hop, ...]] | None = field(default=None, compare=False, repr=False)

    def with_hops(self) -> Self:
        """Return a copy with the hops found."""
        return replace(self, hops=self.find_hops(), find_hops=None) if self.find_hops else self


_WEIGHT = 4.0
_OF_CLAUSES = 1.4  # weight if no other passage answers a clause
_NO_FITS: Mapping[int, float] = {}
REORDERED = 20  # how many of the most important passages are reordered by new words


def compute_paper_helpfulness(
    similarity: NDArray[np.float64], visits: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute H = (SIM + IMP) / 2, where IMP = visits / all visits: Eq. 2 and 3 of HopRAG.

    >>> compute_paper_helpfulness(np.array([0.5, 0.25]), np.array([1.0, 3.0])).tolist()
    [0.375, 0.5]
    """
    helpfulness: NDArray[np.float64] = (similarity + visits / visits.sum()) / 2
    return helpfulness


_SPARSE = 16  # a sample of one value in 16 excludes most other values


def select_largest(
    values: NDArray[np.float64], ids: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """Return the positions of the k largest values, best first. Ties go to the lower id.

    >>> select_largest(np.array([0.1, 0.5, 0.5]), np.array([7, 9, 8]), 2).tolist()
    [2, 1]
    """
    # A sample's k-th largest value is at most the k-th largest of all, so lower values are out.
    among = np.flatnonzero(values >= _find_kth_largest(values[::_SPARSE], k))
    among = among[values[among] >= _find_kth_largest(values[among], k)]
    return among[np.lexsort((ids[among], -values[among]))][:k]


def select_nearly_largest(
    values: NDArray[np.float32], k: int, rounding: float
) -> NDArray[np.int64]:
    """Return the positions of all values that may be among the k largest.

    Each value may be wrong by up to `rounding`. Minus infinity is never selected.

    >>> select_nearly_largest(np.array([1, -np.inf, 5, 5.1], dtype=np.float32), 1, 0.2).tolist()
    [0, 2, 3]
    """
    least = _find_kth_largest(values[::_SPARSE], k) - 2 * rounding
    return np.flatnonzero((values >= least) & (values > -np.inf))


def _find_kth_largest(values: NDArray[Any], k: int) -> float:
    """Return the k-th largest value, or minus infinity if there are at most k values."""
    if k >= len(values):
        return -math.inf
    return float(np.partition(values, len(values) - k)[len(values) - k])


Item = TypeVar("Item", int, PassageId)

# Reciprocal rank fusion (Cormack, Clarke & Buettcher 2009) and the depth that it fuses.
_FUSION_K = 60
FUSION_DEPTH = 100


def fuse_reciprocal_ranks(*rankings: Iterable[Item]) -> dict[Item, float]:
    """Fuse rankings: each item scores the sum of 1 / (60 + rank), where ranks count from 1."""
    scores: dict[Item, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, 1):
            scores[row] = scores.get(row, 0.0) + 1 / (_FUSION_K + rank)
    return scores


class RankedPosition(NamedTuple):
    """A ranked position with its helpfulness H.

    lead: its lead over the best remaining reordered position, as a share of H; 1 if none remains,
    and 0 for positions that were not reordered.
    """

    position: int
    value: float
    lead: float


def mark_reached(context: QueryContext, arrived: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (n,) scores of the passage rows. Rows get -1 if the walk did not reach them and
    they are not among the passages most like the question (`context.near`).
    """
    scores = np.where(arrived > 0, arrived, -1.0)
    near = context.near.passage_rows
    scores[near] = arrived[near]
    return scores


def rank_by_helpfulness(
    context: QueryContext,
    arrived: NDArray[np.float64],
    k: int,
    fits: Mapping[int, float] = _NO_FITS,
) -> list[RankedPosition]:
    """Rank the k most helpful passage rows by their (n,) scores `arrived` and their best sentences.

    Rows with a score below 0 are not ranked. `compute_importance` explains `fits`.
    """
    importance = compute_importance(context, arrived, fits)
    return rank_by_importance(context, importance, k)


def rank_by_importance(
    context: QueryContext, importance: NDArray[np.float64], k: int
) -> list[RankedPosition]:
    """Rank the k most helpful passage rows by their importance."""
    snapshot = context.snapshot
    words, clauses = context.sentence_coverage, read_clauses(context)
    return select_most_helpful(importance, snapshot.passage_ids, words, k, clauses)


def compute_importance(
    context: QueryContext, arrived: NDArray[np.float64], fits: Mapping[int, float] = _NO_FITS
) -> NDArray[np.float64]:
    """Compute the (n,) importances of the passage rows: score times exp(fit of the best sentence).

    `arrived` has the (n,) scores, below 0 for rows that are not ranked.
    Only the `REORDERED` rows with the best scores get the factor for the fit. `fits` maps rows to
    how well their best sentence answers a follow-up. The better of both fits is used.
    """
    importance = arrived.copy()
    first = select_most_important(importance, context.snapshot.passage_ids, REORDERED)
    follow_up_fits = np.array([fits.get(row, 0.0) for row in first.tolist()])
    importance[first] *= np.exp(np.maximum(context.rate_best_sentences(first), follow_up_fits))
    return importance


def select_most_important(
    importance: NDArray[np.float64], ids: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    reached = np.flatnonzero(importance >= 0)  # few of all passages
    return reached[select_largest(importance[reached], ids[reached], k)]


def select_most_helpful(
    importance: NDArray[np.float64],
    ids: NDArray[np.int64],
    coverage: TermCoverage,
    k: int,
    clauses: ClauseCoverage | None = None,
) -> list[RankedPosition]:
    """Rank the k most helpful positions of the (n,) arrays `importance` and `ids`, best first.

    Only the `REORDERED` most important positions are ranked by the words in `coverage` and by the
    clauses. The others follow by importance. Positions with an importance below 0 are not ranked.
    Ties go to the lower id.
    """
    order = select_most_important(importance, ids, max(k, REORDERED))
    first = order[:REORDERED]
    has, worth = coverage.select(first), importance[first]
    covered = np.zeros(len(coverage.share), dtype=np.bool_)
    new = sum_weighted(coverage.share, has)
    answers = clauses.select(first) if clauses else np.zeros((0, len(first)))
    more = np.zeros(len(first))  # how much better than earlier results each answers the clauses
    best_answers = np.zeros(len(answers))
    ranked: list[RankedPosition] = []
    for _ in range(min(k, len(first))):
        values = worth * np.exp(_WEIGHT * new + _OF_CLAUSES * more)
        best = int(values.argmax())
        value = float(values[best])
        values[best] = 0.0
        lead = 1.0 - float(values.max()) / max(value, 1e-12)
        ranked.append(RankedPosition(int(first[best]), value, lead))
        worth[best] = -1.0  # already ranked
        if (has[:, best] & ~covered).any():
            covered |= has[:, best]
            new = sum_weighted(coverage.share, has & ~covered[:, None])
        if len(answers):
            best_answers = np.maximum(best_answers, answers[:, best])
            more = np.maximum(answers - best_answers[:, None], 0).sum(axis=0)
    remaining = order[REORDERED:]
    both = zip(remaining.tolist(), importance[remaining].tolist(), strict=True)
    ranked += [RankedPosition(position, value, 0.0) for position, value in both]
    return ranked[:k]


FIRST_RESULTS = 5  # direct hits are among the first five results
_DIRECT_HITS = 3
_MIN_NAMED_SHARE = 0.25  # if names have this share of the question's idf, there are no direct hits
WHOLE_PASSAGE_WEIGHT = (
    9.0  # the weight of a whole passage's cosine, beside `OF_LIKENESS` of its best vector
)


@dataclass(frozen=True, slots=True)
class DirectHits:
    """The passages most like a question for which the graph has few names.

    rows: the passage rows, best first; empty if the graph has enough names. instead: the rows if
    the next passage replaced the last row. least: the likeness of the last row. lead: its lead over
    the next passage, as a share, or `lead_of_names` if that is smaller. lead_of_names: how far the
    names' share of the question is from the limit, as a share of the larger of both.
    """

    rows: tuple[int, ...] = ()
    instead: tuple[int, ...] = ()
    least: float = math.inf
    lead: float = 1.0
    lead_of_names: float = 1.0


def find_direct_hits(context: QueryContext) -> DirectHits:
    """Find the passages that keep a place among the first results.

    Passages are compared by words, by the best vector, and by the vector of the whole passage.
    """
    named = sum(context.names.values()) / _MIN_NAMED_SHARE
    if named >= 1:
        return DirectHits(lead_of_names=1 - 1 / named)
    near, ids = context.near, context.snapshot.passage_ids
    like = near.like + WHOLE_PASSAGE_WEIGHT * context.compute_first_cosines(near.passage_rows)
    order = select_largest(like, ids[near.passage_rows], _DIRECT_HITS + 1)
    rows: list[int] = near.passage_rows[order].tolist()
    direct_rows, far = tuple(rows[:_DIRECT_HITS]), 1 - named
    if len(rows) <= _DIRECT_HITS:
        return DirectHits(direct_rows, direct_rows, -math.inf, far, far)
    last, following = like[order[_DIRECT_HITS - 1 :]].tolist()
    lead = min(1 - math.exp(following - last), far)
    return DirectHits(direct_rows, (*direct_rows[:-1], rows[_DIRECT_HITS]), last, lead, far)


def promote_direct_hits(
    ranked: list[RankedPosition], direct: tuple[int, ...]
) -> list[RankedPosition]:
    """Move all direct hits into the first five results.

    The lowest results that are not direct hits make room, and follow after the first five. Each
    rank keeps its helpfulness value, although its passage may change.
    """
    first, remaining = ranked[:FIRST_RESULTS], ranked[FIRST_RESULTS:]
    first_positions = {row.position for row in first}
    missing = [RankedPosition(row, 0.0, 1.0) for row in direct if row not in first_positions]
    others = [row for row in first if row.position not in direct]
    kept_others = max(len(others) - max(len(first) + len(missing) - FIRST_RESULTS, 0), 0)
    moved = others[kept_others:]
    stay = [row for row in first if row not in moved]
    remaining = [row for row in remaining if row.position not in direct]
    values = [row.value for row in first]
    values += values[-1:] * len(missing) + [row.value for row in remaining]
    rows = [*stay, *missing, *moved, *remaining]
    return [row._replace(value=value) for row, value in zip(rows, values, strict=True)]
