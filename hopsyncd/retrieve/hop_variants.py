"""Variants of the strategy `hop` that follow single edges chosen by a reasoner: Algorithm 1 of
HopRAG.

The profile `paper` and the reasoners `similarity` and `llm` use these variants. The default search
is in `strategies/hop.py`.

The algorithm keeps a queue of passages. In each round, the reasoner chooses one edge, or none, for
every passage in the queue. The passage at the other end is visited. If this was its first visit, it
is queued for the next round. All choices of a round are requested together, so that a slow reasoner
can make them in parallel.

Worked example. Edges: A to B, B to C, B to A, C to B. Two seeds lead to A, and the reasoner takes
the first edge. Round 1: A sends to B. Round 2: B, new in round 1, sends to C. Round 3: C sends to
B, which was visited before and is not queued again. Visits: A 2, B 2, C 1.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hopsyncd.config.values import PAPER_HOPS, Search
from hopsyncd.errors import BadRequest
from hopsyncd.index.arrays import Floats, Integers
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import (
    Hop,
    Ranked,
    compute_paper_helpfulness,
    rank_by_helpfulness,
    select_largest,
)
from hopsyncd.retrieve.strategy import SearchTools
from hopsyncd.retrieve.transitions import compute_pull
from hopsyncd.retrieve.walk import compute_seeds
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import PassageId, QuestionId


@dataclass(frozen=True, slots=True)
class Fork:
    """A passage in the queue, and the numbers of the edges that can be followed from it, best
    first.
    """

    passage: int
    edges: tuple[int, ...]


# Returns the index of the chosen edge among the edges offered at each fork, or None.
Choose = Callable[[Sequence[Fork]], Sequence[int | None]]


@dataclass(frozen=True, slots=True)
class Traversal:
    """The visits that a traversal counted.

    visits: the visits of each passage, in the order of the first visits. arrivals: for each passage
    that an edge led to, the visits along each of these edges.
    """

    visits: Mapping[int, float]
    arrivals: Mapping[int, Mapping[int, float]]


def choose_first(forks: Sequence[Fork]) -> list[int | None]:
    """Choose the first edge, which is the best, at every fork."""
    return [0 for _ in forks]


def count_one_visit(visits: float) -> float:
    """Count an arrival as one visit, as the HopRAG paper does.

    `visits`, the visits of the passage where the edge starts, does not affect the result.
    """
    return 1.0


def traverse(
    seeds: Mapping[int, float],
    list_edges: Callable[[int], tuple[int, ...]],
    end: Callable[[int], int],
    choose: Choose,
    n_hop: int,
    passed_on: Callable[[float], float] = count_one_visit,
) -> Traversal:
    """Follow one edge from each queued passage, for up to `n_hop` rounds.

    `seeds` has the first visits of each start passage. `list_edges` returns the edges out of a
    passage, and `end` the passage at the end of an edge. `choose` returns the position of the
    chosen edge in each fork, or None. `passed_on` returns how many visits a passage passes on,
    given the number of its visits.
    """
    visits = dict(seeds)
    arrivals: dict[int, dict[int, float]] = {}
    queue = list(seeds)
    for _ in range(n_hop):
        forks = [Fork(passage, on) for passage in queue if (on := list_edges(passage))]
        if not forks:
            break
        sent = [passed_on(visits[fork.passage]) for fork in forks]
        queue = []
        for fork, more, choice in zip(forks, sent, choose(forks), strict=True):
            if choice is None:
                continue
            edge = fork.edges[choice]
            reached = end(edge)
            if reached not in visits:
                queue.append(reached)
            visits[reached] = visits.get(reached, 0.0) + more
            scores = arrivals.setdefault(reached, {})
            scores[edge] = scores.get(edge, 0.0) + more
    return Traversal(visits, arrivals)


_MAX_WAYS = 20  # edges offered to a reasoner at a fork

Worth = Callable[[Integers, Integers, Floats], Floats]
"""Returns the value of each edge, given its outgoing question, its incoming question and their
similarity."""


@dataclass(frozen=True, slots=True)
class EdgeStep:
    """An edge between passage rows, from an outgoing question to an incoming question.

    is_backward: True if the edge is followed against its direction.
    """

    start: int
    end: int
    source_question: int
    target_question: int
    is_backward: bool


class Offers:
    """Offers the best edges out of a passage, and numbers each edge that it offers.

    `worth` rates the edges. If `both_ways`, edges can also be followed backward. Ties go to the
    lower question id.
    """

    def __init__(self, snapshot: Snapshot, worth: Worth, both_ways: bool) -> None:
        self._snapshot = snapshot
        self._worth = worth
        self._both_ways = both_ways
        self._steps: dict[int, EdgeStep] = {}

    def list_edges(self, passage_row: int) -> tuple[int, ...]:
        """Return the numbers of the 20 best edges out of a passage, best first."""
        edges = self._snapshot.find_edges(np.array([passage_row]))
        is_offered = (
            np.ones(len(edges.source_question), dtype=np.bool_)
            if self._both_ways
            else ~edges.is_backward
        )
        sources, targets = edges.source_question[is_offered], edges.target_question[is_offered]
        worth = self._worth(sources, targets, edges.similarity[is_offered])
        offered = []
        for position in select_largest(
            worth, self._snapshot.index.outgoing.id[sources], _MAX_WAYS
        ).tolist():
            ends = int(edges.start[is_offered][position]), int(edges.end[is_offered][position])
            step = EdgeStep(
                *ends,
                int(sources[position]),
                int(targets[position]),
                bool(edges.is_backward[is_offered][position]),
            )
            number = 2 * step.source_question + step.is_backward
            self._steps[number] = step
            offered.append(number)
        return tuple(offered)

    def step(self, edge: int) -> EdgeStep:
        return self._steps[edge]

    def end(self, edge: int) -> int:
        """Return the passage row at the end of an offered edge."""
        return self._steps[edge].end


def follow_paper(
    context: QueryContext, k: int, choose: Choose, top_k: int, n_hop: int, offers: Offers
) -> list[Ranked]:
    """Search as in the HopRAG paper. Returns min(k, top_k) passages at most, by its Eq. 1 to 3.

    The first queue has the targets of the top_k edges most similar to the query. Each of these
    edges counts as a visit. Edges are followed only in their own direction, and the best edge under
    Eq. 1 is offered first.
    """
    snapshot = context.snapshot
    edges = snapshot.list_edges()
    sources, targets = edges.source_question, edges.target_question
    if not len(sources):
        return []
    best = select_largest(
        context.rate_edges(sources, targets), snapshot.index.outgoing.id[sources], top_k
    )
    ends = snapshot.index.incoming.passage_row[targets[best]]
    start_visits = {row: float(count) for row, count in Counter(ends.tolist()).items()}
    traversal = traverse(start_visits, offers.list_edges, offers.end, choose, n_hop)
    visited = np.array(sorted(traversal.visits), dtype=np.int64)
    visits = np.array([traversal.visits[passage_row] for passage_row in visited.tolist()])
    helpfulness = compute_paper_helpfulness(context.rate_passages(visited), visits)
    positions = select_largest(helpfulness, snapshot.passage_ids[visited], min(k, top_k)).tolist()
    return [
        _explain_rank(
            snapshot,
            traversal,
            start_visits,
            offers,
            int(visited[position]),
            float(helpfulness[position]),
            n_hop,
        )
        for position in positions
    ]


def follow(
    context: QueryContext,
    k: int,
    choose: Choose,
    top_k: int,
    settings: WalkSettings,
    offers: Offers,
) -> list[Ranked]:
    """Search with the default seeds and ranking, but follow single edges instead of all
    transitions.

    The top_k seeds keep their score. The whole score of a passage flows along the chosen edge,
    damped as in the walk. The importance of a passage is the total score that arrives at the
    passage. Edges are followed in both directions. Edges with the strongest pull are offered first,
    because Eq. 1 prefers edges that repeat the query. Names are not followed, because they have no
    question for the reasoner to judge.
    """
    snapshot = context.snapshot
    if not snapshot.statistics.passages:
        return []
    scores = compute_seeds(context)
    best = select_largest(scores, snapshot.passage_ids[: len(scores)], top_k)
    start_scores = {int(row): float(scores[row]) for row in best if scores[row] > 0}
    traversal = traverse(
        start_scores,
        offers.list_edges,
        offers.end,
        choose,
        settings.hops,
        lambda had: settings.damping * had,
    )
    arrived = np.full(len(scores), -1.0)
    arrived[list(traversal.visits)] = list(traversal.visits.values())
    return [
        _explain_rank(snapshot, traversal, start_scores, offers, passage_row, score, settings.hops)
        for passage_row, score, _ in rank_by_helpfulness(context, arrived, k)
    ]


def list_offers(context: QueryContext, settings: WalkSettings | None) -> Offers:
    """Return the edges that a search may follow, best first.

    With `settings`, edges are ordered by pull and followed in both directions. Otherwise they are
    ordered by Eq. 1 of HopRAG and followed forwards.
    """
    if settings is None:
        return Offers(context.snapshot, lambda out, into, _: context.rate_edges(out, into), False)
    return Offers(
        context.snapshot,
        lambda out, _, similarity: compute_pull(context, out, similarity, settings.sharpness),
        True,
    )


def _explain_rank(
    snapshot: Snapshot,
    traversal: Traversal,
    begun: Mapping[int, float],
    offers: Offers,
    passage_row: int,
    score: float,
    limit: int,
) -> Ranked:
    """Build the result for a passage.

    The hops, at most `limit`, are found backwards from the passage to a seed, along the edges that
    brought the most score. `begun` has the first visits of each start passage.
    """
    ids = snapshot.index.outgoing.id
    hops: list[Hop] = []
    passage, passed = passage_row, {passage_row}
    while passage in traversal.arrivals and len(hops) < limit:
        arrivals = traversal.arrivals[passage].items()
        edge, arrived = max(arrivals, key=lambda arrival: (arrival[1], -int(ids[arrival[0] // 2])))
        step = offers.step(edge)
        if arrived <= begun.get(passage, 0.0) or step.start in passed:
            break
        hops.append(_make_hop(snapshot, step, arrived / traversal.visits[passage]))
        passage = step.start
        passed.add(passage)
    return Ranked(PassageId(int(snapshot.passage_ids[passage_row])), score, tuple(reversed(hops)))


def _make_hop(snapshot: Snapshot, step: EdgeStep, share: float) -> Hop:
    return Hop(
        PassageId(int(snapshot.passage_ids[step.start])),
        PassageId(int(snapshot.passage_ids[step.end])),
        "to" if step.is_backward else "from",
        QuestionId(int(snapshot.index.outgoing.id[step.source_question])),
        None,
        share,
    )


def make_offers(tools: SearchTools, context: QueryContext, search: Search) -> Offers:
    """Return the edges that a search may follow, according to its profile."""
    return list_offers(context, tools.settings if search.profile == "default" else None)


def follow_edges(
    tools: SearchTools,
    context: QueryContext,
    k: int,
    search: Search,
    choose: Choose,
    offers: Offers,
) -> list[Ranked]:
    """Follow the edges that `choose` selects from the `offers`.

    Raises BadRequest if the profile `paper` is combined with the reasoner `walk`.
    """
    if search.profile == "default":
        return follow(context, k, choose, search.top_k, tools.walk_settings(search), offers)
    if search.reasoner == "walk":
        raise BadRequest(
            "The search was refused",
            "the profile `paper` does not support the reasoner `walk`",
            "Use the reasoner `similarity` or `llm`, or the default profile",
        )
    hops = search.n_hop or PAPER_HOPS
    return follow_paper(context, k, choose, search.top_k, hops, offers)
