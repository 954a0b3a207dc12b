"""The `hop` strategy: seeds, the walk, and how each passage was reached."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hopsyncd.graph.helpfulness import most_helpful
from hopsyncd.graph.view import GraphView
from hopsyncd.graph.walk import WalkSettings, walk
from hopsyncd.query.ranked import Ranked
from hopsyncd.query.seeds import names_in, seeds
from hopsyncd.query.trail import Trail
from hopsyncd.query.words import WordIndex
from store.records import GRID, PassageId, Vectors


def hop(
    view: GraphView,
    words: WordIndex,
    postings: Callable[[str], NDArray[np.int64]],
    query: str,
    vector: Vectors,
    k: int,
    settings: WalkSettings,
) -> list[Ranked]:
    """The k most helpful passages, ties going to the lower id."""
    if not len(view.passage):
        return []
    cosines = (view.rows @ vector.astype(np.float32)).astype(np.float64) / (GRID * GRID)
    by_words = words.scores(query, postings)
    start = seeds(view, cosines, by_words, names_in(query, view.mentioned))
    coverage = words.coverage(query, postings)
    walked = walk(view, start, cosines, coverage, settings)
    trail = Trail(view, walked, start)
    return [
        Ranked(PassageId(int(view.passage[position])), score, trail.to(position, settings.hops))
        for position, score in most_helpful(walked.arrived, view.passage, coverage, k)
    ]
