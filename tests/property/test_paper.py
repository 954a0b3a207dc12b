"""The paper's profile is the paper: equal to a plain reading of Eq. 1 to 3 and Algorithm 1."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hopsyncd.index.matching import MergeIndex
from hopsyncd.index.view import GraphView, view_of
from hopsyncd.retrieve.edge_traversal import Fork, follow_paper
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.walk import Coverage
from store.records import GRID, Direction, Question, QuestionSet, to_grid
from tests.fakes.triplets import triplets

NAMES = ("rome", "gaul", "rhine", "caesar")

_keywords = st.sets(st.sampled_from(NAMES), max_size=3).map(lambda names: " ".join(sorted(names)))
_vector = st.tuples(st.integers(-3, 3), st.integers(-3, 3))
_triplets = st.lists(st.tuples(_keywords, _vector), min_size=1, max_size=3)
_graph = st.lists(st.tuples(_triplets, _triplets), min_size=2, max_size=6).map(
    lambda passages: [triplets(n, *asked) for n, asked in enumerate(passages, 1)]
)


class Paper:
    """Written as the paper says it, with loops and sets."""

    def __init__(self, sets: Sequence[QuestionSet], view: GraphView, names: set[str]) -> None:
        self._sets = {int(one.passage): one for one in sets}
        self._question: dict[int, tuple[Question, NDArray[np.int16]]] = {
            int(question.id): (question, one.vectors[question.vector_row])
            for one in sets
            for question in one.questions
        }
        self._view = view
        self._names = names

    def sim(self, keywords: set[str], vector: NDArray[np.int16], query: NDArray[np.int16]) -> float:
        both, either = self._names & keywords, self._names | keywords
        cosine = int(np.dot(vector.astype(int), query.astype(int))) / (GRID * GRID)
        return ((len(both) / len(either) if either else 0.0) + cosine) / 2

    def edge(self, edge: int, query: NDArray[np.int16]) -> float:
        asked, _ = self._question[int(self._view.question[edge])]
        answered, vector = self._question[int(self._view.answer[edge])]
        return self.sim({*asked.keywords, *answered.keywords}, vector, query)

    def passage(self, passage: int, query: NDArray[np.int16]) -> float:
        one = self._sets[passage]
        keywords = {
            keyword
            for question in one.questions
            if question.direction is Direction.INCOMING
            for keyword in question.keywords
        }
        return self.sim(keywords, one.vectors[0], query)

    def search(self, query: NDArray[np.int16], top_k: int, n_hop: int) -> list[tuple[int, float]]:
        view = self._view
        ids = view.passage.tolist()
        order = sorted(
            range(len(view.source)), key=lambda e: (-self.edge(e, query), view.question[e])
        )
        count = Counter(ids[view.target[edge]] for edge in order[:top_k])
        queue = list(count)
        for _ in range(n_hop):
            following: list[int] = []
            for passage in queue:
                out = [edge for edge in order if ids[view.source[edge]] == passage]
                if out:
                    end = ids[view.target[out[0]]]
                    if end not in count:
                        following.append(end)
                    count[end] += 1
            queue = following
        visits = sum(count.values())
        helpful = {p: (self.passage(p, query) + count[p] / visits) / 2 for p in count}
        return sorted(helpful.items(), key=lambda one: (-one[1], one[0]))[:top_k]


def held_against(view: GraphView, query: NDArray[np.int16], names: set[str]) -> QueryContext:
    cosines = (view.rows @ query.astype(np.float32)).astype(np.float64) / (GRID * GRID)
    unasked = Coverage(np.empty(0), np.empty((0, len(view.passage))))
    worth = dict.fromkeys(sorted(names), 0.5)
    return QueryContext(
        view, cosines, worth, np.zeros(len(view.passage)), unasked, {}, lambda _: {}
    )


def first(forks: Sequence[Fork]) -> list[int | None]:
    return [0 for _ in forks]


@given(
    sets=_graph,
    vector=_vector,
    names=st.sets(st.sampled_from(NAMES), max_size=2),
    budget=st.integers(0, 20),
    top_k=st.integers(1, 6),
    n_hop=st.integers(1, 4),
)
def test_the_paper_profile_equals_a_plain_reading_of_the_paper(
    sets: list[QuestionSet],
    vector: tuple[int, int],
    names: set[str],
    budget: int,
    top_k: int,
    n_hop: int,
) -> None:
    index = MergeIndex(2)
    index.change((), sets)
    view = view_of(index, budget)
    (query,) = to_grid(np.array([vector], dtype=np.float64))
    inquiry = held_against(view, query, names)
    paper = Paper(sets, view, names)
    assert inquiry.of_edges().tolist() == [paper.edge(e, query) for e in range(len(view.source))]
    assert inquiry.of_passages().tolist() == [paper.passage(p, query) for p in view.passage]
    found = follow_paper(inquiry, 100, first, top_k, n_hop)
    assert [(one.passage, one.score) for one in found] == paper.search(query, top_k, n_hop)


@given(sets=_graph, vector=_vector, names=st.sets(st.sampled_from(NAMES), max_size=2))
def test_the_hops_of_a_passage_are_edges_that_lead_to_it(
    sets: list[QuestionSet], vector: tuple[int, int], names: set[str]
) -> None:
    index = MergeIndex(2)
    index.change((), sets)
    view = view_of(index, 20)
    edges = {
        (view.passage[s], view.passage[t]): q
        for s, t, q in zip(view.source, view.target, view.question, strict=True)
    }
    (query,) = to_grid(np.array([vector], dtype=np.float64))
    for one in follow_paper(held_against(view, query, names), 5, first, 2, 4):
        for before, after in zip(one.hops, one.hops[1:], strict=False):
            assert before.target == after.source
        for hop in one.hops:
            assert (hop.source, hop.target) in edges
            assert 0 < hop.share <= 1
        assert not one.hops or one.hops[-1].target == one.passage
