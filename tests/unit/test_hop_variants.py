"""Algorithm 1 on small graphs made by hand."""

from collections.abc import Mapping, Sequence

import pytest

from hopsyncd.retrieve.hop_variants import (
    Choose,
    Fork,
    Offers,
    Traversal,
    choose_first,
    list_offers,
    traverse,
)
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.indexed import asked, drawn, whole_row

A, B, C, D = 0, 1, 2, 3
EDGES = [(A, B), (B, C), (B, A), (C, B)]


def run(
    edges: Sequence[tuple[int, int]],
    seeds: Mapping[int, float],
    choose: Choose = choose_first,
    n_hop: int = 4,
) -> Traversal:
    def ways(passage: int) -> tuple[int, ...]:
        return tuple(way for way, (start, _) in enumerate(edges) if start == passage)

    return traverse(seeds, ways, lambda way: edges[way][1], choose, n_hop)


class Recording:
    """Takes the first way, and remembers who was asked together."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []

    def __call__(self, forks: Sequence[Fork]) -> list[int | None]:
        self.rounds.append([fork.passage for fork in forks])
        return choose_first(forks)


def test_the_example_in_the_module_docstring_holds() -> None:
    assert run(EDGES, {A: 2}).visits == {A: 2, B: 2, C: 1}
    assert run(EDGES, {A: 2}, n_hop=1).visits == {A: 2, B: 1}
    assert run(EDGES, {A: 2}, n_hop=2).visits == {A: 2, B: 1, C: 1}


def test_the_reasoner_is_asked_once_for_each_passage() -> None:
    asked = Recording()
    run(EDGES, {A: 1, C: 1}, asked)
    assert asked.rounds == [[A, C], [B]]


def test_the_passages_of_a_round_are_asked_about_together() -> None:
    asked = Recording()
    run([(A, C), (B, D), (C, D), (D, A)], {A: 1, B: 1}, asked)
    assert asked.rounds == [[A, B], [C, D]]


def test_a_dead_end_is_not_asked_about() -> None:
    asked = Recording()
    assert run([(A, B)], {A: 1, D: 1}, asked).visits == {A: 1, D: 1, B: 1}
    assert asked.rounds == [[A]]


def test_the_traversal_ends_if_no_edge_is_chosen() -> None:
    def none(forks: Sequence[Fork]) -> list[int | None]:
        return [None for _ in forks]

    assert run(EDGES, {A: 1}, none).visits == {A: 1}


def test_edges_that_lead_to_a_passage_are_counted_separately() -> None:
    found = run([(A, C), (B, C), (D, C)], {A: 1, B: 1})
    assert found.visits[C] == 2
    assert found.arrivals == {C: {0: 1, 1: 1}}


def test_a_round_passes_on_only_the_visits_from_before_it() -> None:
    """A and B send to each other; neither passes on what it got in the same round."""
    found = traverse(
        {A: 8.0, B: 4.0},
        lambda passage: (passage,),
        lambda way: {A: B, B: A}[way],
        choose_first,
        1,
        lambda had: had / 2,
    )
    assert found.visits == {A: 10, B: 8}


def test_no_rounds_leave_the_seeds_as_they_are() -> None:
    assert run(EDGES, {A: 1}, n_hop=0).visits == {A: 1}


def offered(offers: Offers, passage: int) -> list[tuple[int, int, bool]]:
    """The number of each edge, where it leads, and whether back."""
    steps = [offers.step(way) for way in offers.list_edges(passage)]
    assert [offers.end(way) for way in offers.list_edges(passage)] == [step.end for step in steps]
    return [(step.source_question, step.end, step.is_backward) for step in steps]


def test_the_paper_is_offered_the_out_edges_that_are_most_like_the_query() -> None:
    graph = drawn(4, [(A, B, 0.9), (A, C, 0.1), (A, D, 0.5), (B, A, 1.0)])
    even = list_offers(asked(graph), None)
    assert offered(even, A) == [(0, B, False), (1, C, False), (2, D, False)]
    answer = whole_row(graph, C) + 1
    assert offered(list_offers(asked(graph, {answer: 0.5}), None), A)[0] == (1, C, False)
    assert offered(even, D) == []


def test_ours_is_offered_edges_both_ways_by_their_pull() -> None:
    graph = drawn(4, [(A, B, 0.9), (A, C, 0.1), (D, A, 0.5)])
    offers = list_offers(asked(graph), WalkSettings())
    assert offered(offers, A) == [(0, B, False), (2, D, True), (1, C, False)]
    assert offered(offers, B) == [(0, A, True)]
    context = whole_row(graph, A) + 2
    led = list_offers(asked(graph, {context: 0.5}), WalkSettings())
    assert offered(led, A)[0] == (1, C, False)


@pytest.mark.parametrize("settings", [None, WalkSettings()])
def test_the_reasoner_gets_a_limited_number_of_edges(
    settings: WalkSettings | None,
) -> None:
    graph = drawn(31, [(A, end, end / 31) for end in range(1, 31)])
    assert len(list_offers(asked(graph), settings).list_edges(A)) == 20
