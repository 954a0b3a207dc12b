"""The paper's profile is the paper: equal to a plain reading of Eq. 1 to 3 and Algorithm 1."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.hop_variants import choose_first, follow_paper, list_offers
from hopsyncd.retrieve.query_context import QueryContext
from store.records import GRID, Direction, Question, QuestionSet, to_grid
from tests.fakes.dump import exact_vectors
from tests.fakes.indexed import GivenLikeness, asked, indexed
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

    def __init__(self, sets: Sequence[QuestionSet], graph: Snapshot, names: set[str]) -> None:
        self._sets = {int(question_set.passage): question_set for question_set in sets}
        self._question: dict[int, tuple[Question, NDArray[np.int16]]] = {
            int(question.id): (question, question_set.vectors[question.vector_row])
            for question_set in sets
            for question in question_set.questions
        }
        edges = graph.list_edges()
        out, into = edges.source_question, edges.target_question
        index, ids = graph.index, graph.passage_ids
        columns = (
            index.outgoing.id[out],
            index.incoming.id[into],
            ids[index.outgoing.passage_row[out]],
            ids[index.incoming.passage_row[into]],
        )
        self._edges = list(zip(*(column.tolist() for column in columns), strict=True))
        self._names = names

    def sim(self, keywords: set[str], vector: NDArray[np.int16], query: NDArray[np.int16]) -> float:
        both, either = self._names & keywords, self._names | keywords
        cosine = int(np.dot(vector.astype(int), query.astype(int))) / (GRID * GRID)
        return ((len(both) / len(either) if either else 0.0) + cosine) / 2

    def edge(self, edge: int, query: NDArray[np.int16]) -> float:
        asks, answers, _, _ = self._edges[edge]
        question, _ = self._question[asks]
        answered, vector = self._question[answers]
        return self.sim({*question.keywords, *answered.keywords}, vector, query)

    def edges(self, query: NDArray[np.int16]) -> list[float]:
        return [self.edge(edge, query) for edge in range(len(self._edges))]

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
        likeness = self.edges(query)
        order = sorted(range(len(likeness)), key=lambda e: (-likeness[e], self._edges[e][0]))
        count = Counter(self._edges[edge][3] for edge in order[:top_k])
        queue = list(count)
        for _ in range(n_hop):
            following: list[int] = []
            for passage in queue:
                out = [edge for edge in order if self._edges[edge][2] == passage]
                if out:
                    end = self._edges[out[0]][3]
                    if end not in count:
                        following.append(end)
                    count[end] += 1
            queue = following
        visits = sum(count.values())
        helpful = {p: (self.passage(p, query) + count[p] / visits) / 2 for p in count}
        return sorted(helpful.items(), key=lambda one: (-one[1], one[0]))[:top_k]


def held_against(graph: Snapshot, query: NDArray[np.int16], names: set[str]) -> QueryContext:
    """With exact cosines."""
    rows = exact_vectors(graph.index)
    cosines = (rows.astype(np.int64) @ query.astype(np.int64)) / (GRID * GRID)
    known = dict.fromkeys(sorted(graph.select_mentioned_names(sorted(names))), 0.5)
    like = GivenLikeness(graph, cosines)  # type: ignore[arg-type]
    return replace(asked(graph, names=known), likeness=like)


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
    graph = indexed(sets, budget=budget)
    (query,) = to_grid(np.array([vector], dtype=np.float64))
    inquiry = held_against(graph, query, names)
    paper = Paper(sets, graph, {*inquiry.names})
    edges = graph.list_edges()
    out, into = edges.source_question, edges.target_question
    assert inquiry.rate_edges(out, into).tolist() == paper.edges(query)
    passages = [paper.passage(question_set.passage, query) for question_set in sets]
    assert inquiry.rate_passages(graph.passage_rows).tolist() == passages
    found = follow_paper(inquiry, 100, choose_first, top_k, n_hop, list_offers(inquiry, None))
    assert [(hit.passage, hit.score) for hit in found] == paper.search(query, top_k, n_hop)


@given(sets=_graph, vector=_vector, names=st.sets(st.sampled_from(NAMES), max_size=2))
def test_the_hops_of_a_passage_are_edges_that_lead_to_it(
    sets: list[QuestionSet], vector: tuple[int, int], names: set[str]
) -> None:
    graph = indexed(sets, budget=20)
    matches = graph.list_edges()
    sources = graph.index.outgoing.passage_row[matches.source_question]
    targets = graph.index.incoming.passage_row[matches.target_question]
    edges = {
        (int(graph.passage_ids[start]), int(graph.passage_ids[end]))
        for start, end in zip(sources, targets, strict=True)
    }
    (query,) = to_grid(np.array([vector], dtype=np.float64))
    inquiry = held_against(graph, query, names)
    for hit in follow_paper(inquiry, 5, choose_first, 2, 4, list_offers(inquiry, None)):
        for before, after in zip(hit.hops, hit.hops[1:], strict=False):
            assert before.target == after.source
        for hop in hit.hops:
            assert (hop.source, hop.target) in edges
            assert 0 < hop.share <= 1
        assert not hit.hops or hit.hops[-1].target == hit.passage
