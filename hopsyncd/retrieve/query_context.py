"""A question held against one version: all that a search of the graph needs to know of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.view import GraphView
from hopsyncd.retrieve.bm25 import K1, Postings, WordIndex
from hopsyncd.retrieve.seeds import names_in, seeds, worths
from hopsyncd.retrieve.walk import Coverage
from store.records import GRID, Vectors

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QueryContext:
    """cosines: (r,) of the question with every row of the view. names: those it uses that the graph
    knows, with what share of it each is; they are its keywords. by_words: (n,) BM25 as a share of
    the most that a passage could have. coverage: which passages have its words.
    """

    view: GraphView
    cosines: Floats
    names: Mapping[str, float]
    by_words: Floats
    coverage: Coverage

    @classmethod
    def of(
        cls, question: str, vector: Vectors, view: GraphView, words: WordIndex, postings: Postings
    ) -> Self:
        """Hold it against the view."""
        weights = words.weights(question, postings)
        most = (K1 + 1) * sum(weights.values())
        return cls(
            view=view,
            cosines=(view.rows @ vector.astype(np.float32)).astype(np.float64) / (GRID * GRID),
            names=worths(names_in(question, view.mentioned), weights),
            by_words=words.scores(question, postings) / (most or 1.0),
            coverage=words.coverage(question, postings),
        )

    def seeds(self) -> Floats:
        """(n,) where our walk begins: mass that sums to 1."""
        return seeds(self.view, self.cosines, self.by_words, self.names)

    def of_edges(self) -> Floats:
        """(e,) Eq. 1 with what each edge carries: the incoming question's vector, all keywords."""
        keywords = self.view.keywords.of_edges.jaccards(self.names)
        return (keywords + self.cosines[self.view.answer_row]) / 2

    def of_passages(self) -> Floats:
        """(n,) Eq. 1 with each passage: its own vector and keywords."""
        keywords = self.view.keywords.of_passages.jaccards(self.names)
        return (keywords + self.cosines[self.view.passage_row]) / 2
