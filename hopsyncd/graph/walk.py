"""The walk: HopRAG's traversal (Algorithm 1) with a deterministic reasoner in place of the LLM.

The paper asks an LLM at each visit which one out-edge to follow, and counts arrivals. Here the mass
at a passage flows along all its edges, both ways, in proportion to

    similarity * rarity * exp(sharpness * cos(query, context of the edge's question)),

times a damping; what arrives at a passage in all rounds is the expected value of the paper's visit
counter for a reasoner that picks edges with those odds. Differences to the paper, with what each
buys on the shared samples, are in docs/retrieval.md.

Worked example: mass 1 at A, edges A-B (weight 3) and A-C (weight 1), damping 0.5: after one hop B
has 0.375 and C 0.125; after two, half of each has come back to A.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.graph.view import GraphView

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """How the mass flows; `hops` is the number of rounds."""

    hops: int = 4
    damping: float = 0.5
    sharpness: float = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """What the walk left: `arrived` (n,) mass by passage, seeds included.

    `flow` is (2e,): what went along each edge forwards, then along each edge backwards.
    """

    arrived: Floats
    flow: Floats


def walk(view: GraphView, seeds: Floats, cosines: Floats, settings: WalkSettings) -> Walked:
    """Let the (n,) seed mass flow; `cosines` are (r,), of the query with every row of the view."""
    count, edges = len(view.passage), len(view.source)
    pull = np.exp(settings.sharpness * cosines[view.context_row])
    weight = np.tile(view.similarity * view.rarity * pull, 2)
    start = np.concatenate([view.source, view.target])
    end = np.concatenate([view.target, view.source])
    leaving = np.bincount(start, weight, count)
    share = settings.damping * weight / np.maximum(leaving[start], np.finfo(np.float64).tiny)
    mass: Floats = seeds
    arrived, flow = seeds.copy(), np.zeros(2 * edges)
    for _ in range(settings.hops):
        moved = mass[start] * share
        mass = np.bincount(end, moved, count).astype(np.float64, copy=False)
        arrived += mass
        flow += moved
    return Walked(arrived, flow)
