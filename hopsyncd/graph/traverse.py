"""The traversal: HopRAG's Algorithm 1, with the reasoner as a function.

A queue of passages; in each round every passage in it has one of its ways chosen, or none. The far
end is visited, and queued for the next round if that was its first visit. All choices of a round
are asked for together, so that a slow reasoner can make them at the same time.

Worked example. Edges: A to B, B to C, B to A, C to B. Two seeds lead to A, and the reasoner takes
the first way. Round 1: A sends to B. Round 2: B, new in round 1, sends to C. Round 3: C sends to B,
which was visited before and is not queued again. Visits: A 2, B 2, C 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


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
