"""Searches that follow single edges, as a reasoner chooses them: HopRAG's Algorithm 1.

A queue of passages; in each round every passage in it has one of its ways chosen, or none. The far
end is visited, and queued for the next round if that was its first visit. All choices of a round
are asked for together, so that a slow reasoner can make them at the same time.

Worked example. Edges: A to B, B to C, B to A, C to B. Two seeds lead to A, and the reasoner takes
the first way. Round 1: A sends to B. Round 2: B, new in round 1, sends to C. Round 3: C sends to B,
which was visited before and is not queued again. Visits: A 2, B 2, C 1.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.view import GraphView
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import Hop, Ranked, helpful, paper_helpfulness
from hopsyncd.retrieve.walk import WalkSettings, pull_of
from store.records import PassageId, QuestionId


@dataclass(frozen=True, slots=True)
class Fork:
    """A passage in the queue, and the ways that lead on from it, best first."""

    passage: int
    ways: tuple[int, ...]


# For each fork the index of the way to follow among those offered, or None.
Choose = Callable[[Sequence[Fork]], Sequence[int | None]]


@dataclass(frozen=True, slots=True)
class Traversed:
    """visits: by passage, in the order of their first visit. arrivals: the ways that led to each
    passage that was not only a seed, with the visits that came by each.
    """

    visits: Mapping[int, float]
    arrivals: Mapping[int, Mapping[int, float]]


def choose_first(forks: Sequence[Fork]) -> list[int | None]:
    """The reasoner that needs no thought: the best way offered."""
    return [0 for _ in forks]


def one_visit(visits: float) -> float:
    """Every arrival counts the same, however often its passage was visited: as in the paper."""
    return 1.0


def traverse(
    seeds: Mapping[int, float],
    ways: Callable[[int], tuple[int, ...]],
    end: Callable[[int], int],
    choose: Choose,
    n_hop: int,
    passed_on: Callable[[float], float] = one_visit,
) -> Traversed:
    """Follow one way from each passage, for at most `n_hop` rounds.

    `seeds` are the visits to begin with; `passed_on` is what an arrival counts for, given the
    visits of the passage that it comes from.
    """
    visits = dict(seeds)
    arrivals: dict[int, dict[int, float]] = {}
    queue = list(seeds)
    for _ in range(n_hop):
        forks = [Fork(passage, on) for passage in queue if (on := ways(passage))]
        if not forks:
            break
        sent = [passed_on(visits[fork.passage]) for fork in forks]
        queue = []
        for fork, more, choice in zip(forks, sent, choose(forks), strict=True):
            if choice is None:
                continue
            way = fork.ways[choice]
            reached = end(way)
            if reached not in visits:
                queue.append(reached)
            visits[reached] = visits.get(reached, 0.0) + more
            came = arrivals.setdefault(reached, {})
            came[way] = came.get(way, 0.0) + more
    return Traversed(visits, arrivals)


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MAX_WAYS = 20  # offered to a reasoner at once


def follow_paper(
    inquiry: QueryContext, k: int, choose: Choose, top_k: int, n_hop: int
) -> list[Ranked]:
    """HopRAG to the letter: at most top_k passages, by helpfulness under Eq. 1 to 3.

    The top_k edges most similar to the query give the first queue: the passages that they lead to,
    for the edge carries the question that its target answers. Each edge is one visit. Only edges
    in their own direction are followed, the best under Eq. 1 offered first.
    """
    view = inquiry.view
    if not len(view.source):
        return []
    likeness = inquiry.of_edges()
    best = _best(likeness, view.question, top_k)
    seeds = {at: float(count) for at, count in Counter(view.target[best].tolist()).items()}
    ways = _offering(view, view.ways.forwards, likeness)
    found = traverse(seeds, ways, view.ways.end, choose, n_hop)
    visited = np.array(sorted(found.visits), dtype=np.int64)
    visits = np.array([found.visits[position] for position in visited.tolist()])
    helpfulness = paper_helpfulness(inquiry.of_passages()[visited], visits)
    kept = _best(helpfulness, view.passage[visited], min(k, top_k)).tolist()
    return [
        _ranked(view, found, seeds, int(visited[at]), float(helpfulness[at]), n_hop) for at in kept
    ]


def follow(
    inquiry: QueryContext, k: int, choose: Choose, top_k: int, settings: WalkSettings
) -> list[Ranked]:
    """Our seeds, edges and ranking, with single edges in place of the walk's flow.

    The top_k seeds keep their mass; all of a passage's mass goes along the way chosen, damped as in
    the walk, and what arrived in all is a passage's importance. Edges lead both ways, and those
    with the strongest pull of the walk are offered first: Eq. 1 alone prefers edges that repeat the
    query. Names are no ways here, for there is no question to judge.
    """
    view = inquiry.view
    if not len(view.passage):
        return []
    mass = inquiry.seeds()
    seeds = {int(at): float(mass[at]) for at in _best(mass, view.passage, top_k) if mass[at] > 0}
    pull = np.tile(pull_of(view, inquiry.cosines, settings), 2)
    found = traverse(
        seeds,
        _offering(view, view.ways.both, pull),
        view.ways.end,
        choose,
        settings.hops,
        lambda had: settings.damping * had,
    )
    arrived = np.zeros(len(view.passage))
    arrived[list(found.visits)] = list(found.visits.values())
    depth = min(k, len(found.visits))
    return [
        _ranked(view, found, seeds, position, score, settings.hops)
        for position, score in helpful(inquiry, arrived, depth)
    ]


def _offering(
    view: GraphView, leading: Callable[[int], Integers], worth: Floats
) -> Callable[[int], tuple[int, ...]]:
    """The ways out of a passage, by falling worth, ties by question id."""

    def ways(passage: int) -> tuple[int, ...]:
        out = leading(passage)
        ids = view.question[out % max(len(view.question), 1)]
        return tuple(out[_best(worth[out], ids, _MAX_WAYS)].tolist())

    return ways


def _best(values: Floats, ids: Integers, k: int) -> Integers:
    """The positions of the k largest values, best first, ties going to the lower id."""
    if k < len(values):
        least = np.partition(values, len(values) - k)[len(values) - k]
        among = np.flatnonzero(values >= least)
    else:
        among = np.arange(len(values))
    return among[np.lexsort((ids[among], -values[among]))][:k]


def _ranked(
    view: GraphView,
    found: Traversed,
    seeds: Mapping[int, float],
    position: int,
    score: float,
    limit: int,
) -> Ranked:
    """With the hops back along the ways that brought most, to a passage begun with."""
    hops: list[Hop] = []
    passage, passed = position, {position}
    while passage in found.arrivals and len(hops) < limit:
        way, came = max(found.arrivals[passage].items(), key=lambda one: (one[1], -one[0]))
        before = view.ways.start(way)
        if came <= seeds.get(passage, 0.0) or before in passed:
            break
        hops.append(_hop(view, way, came / found.visits[passage]))
        passage = before
        passed.add(passage)
    return Ranked(PassageId(int(view.passage[position])), score, tuple(reversed(hops)))


def _hop(view: GraphView, way: int, share: float) -> Hop:
    edges = len(view.source)
    return Hop(
        PassageId(int(view.passage[view.ways.start(way)])),
        PassageId(int(view.passage[view.ways.end(way)])),
        "from" if way < edges else "to",
        QuestionId(int(view.question[way % edges])),
        None,
        share,
    )
