"""The `hop` strategy: seeds, the walk, and how each passage was reached."""

import numpy as np
from numpy.typing import NDArray

from hopsyncd.graph.view import GraphView
from hopsyncd.graph.walk import Walked, WalkSettings, walk
from hopsyncd.query.ranked import Hop, Ranked
from hopsyncd.query.seeds import names_in, seeds
from store.records import GRID, PassageId, QuestionId, Vectors


def hop(
    view: GraphView,
    query: str,
    vector: Vectors,
    bm25: NDArray[np.float64],
    k: int,
    settings: WalkSettings,
) -> list[Ranked]:
    """The k passages with the most arrived mass, ties going to the lower id."""
    if not len(view.passage):
        return []
    cosines = (view.rows @ vector.astype(np.float32)).astype(np.float64) / (GRID * GRID)
    start = seeds(view, cosines, bm25, names_in(query, view.mentioned))
    walked = walk(view, start, cosines, settings)
    best = np.lexsort((view.passage, -walked.arrived))[:k]
    into = _strongest_arrivals(view, walked)
    return [
        Ranked(
            PassageId(int(view.passage[position])),
            float(walked.arrived[position]),
            _path(view, walked, into, int(position), start, settings.hops),
        )
        for position in best
    ]


def _strongest_arrivals(view: GraphView, walked: Walked) -> NDArray[np.int64]:
    """(n,) for each passage, the directed edge that brought it the most mass; -1 for none."""
    end = np.concatenate([view.target, view.source])
    order = np.lexsort((-np.arange(len(end)), walked.flow))
    into = np.full(len(view.passage), -1)
    into[end[order]] = order
    return into


def _path(
    view: GraphView,
    walked: Walked,
    into: NDArray[np.int64],
    position: int,
    start: NDArray[np.float64],
    limit: int,
) -> tuple[Hop, ...]:
    """The hops to a passage, first to last: back along the strongest arrivals to a seed.

    A passage that began with more mass than any one edge brought it is a seed.
    """
    edges = len(view.source)
    hops: list[Hop] = []
    passed = {position}
    while len(hops) < limit:
        edge = int(into[position])
        if edge < 0 or walked.flow[edge] <= start[position]:
            break
        forward = edge < edges
        before = view.source[edge] if forward else view.target[edge - edges]
        if int(before) in passed:
            break
        hops.append(
            Hop(
                source=PassageId(int(view.passage[before])),
                target=PassageId(int(view.passage[position])),
                question=QuestionId(int(view.question[edge % edges])),
                forward=forward,
                share=float(walked.flow[edge] / walked.arrived[position]),
            )
        )
        position = int(before)
        passed.add(position)
    return tuple(reversed(hops))
