"""Algorithm 1 on small graphs made by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from hopsyncd.index.view import Adjacency
from hopsyncd.retrieve.edge_traversal import Choose, Fork, Traversed, choose_first, traverse

A, B, C, D = 0, 1, 2, 3
EDGES = [(A, B), (B, C), (B, A), (C, B)]


def run(
    edges: Sequence[tuple[int, int]],
    seeds: Mapping[int, float],
    choose: Choose = choose_first,
    n_hop: int = 4,
) -> Traversed:
    source, target = (np.array(ends, dtype=np.int64) for ends in zip(*edges, strict=True))
    ways = Adjacency(source, target, 4)

    def forwards(passage: int) -> tuple[int, ...]:
        return tuple(ways.forwards(passage).tolist())

    return traverse(seeds, forwards, ways.end, choose, n_hop)


class Recording:
    """Takes the first way, and remembers who was asked together."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []

    def __call__(self, forks: Sequence[Fork]) -> list[int | None]:
        self.rounds.append([fork.passage for fork in forks])
        return choose_first(forks)


def test_the_example_of_the_module() -> None:
    assert run(EDGES, {A: 2}).visits == {A: 2, B: 2, C: 1}
    assert run(EDGES, {A: 2}, n_hop=1).visits == {A: 2, B: 1}
    assert run(EDGES, {A: 2}, n_hop=2).visits == {A: 2, B: 1, C: 1}


def test_a_passage_is_asked_once_however_often_it_is_visited() -> None:
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


def test_where_no_way_is_chosen_the_traversal_ends() -> None:
    def none(forks: Sequence[Fork]) -> list[int | None]:
        return [None for _ in forks]

    assert run(EDGES, {A: 1}, none).visits == {A: 1}


def test_the_ways_that_led_to_a_passage_are_told_apart() -> None:
    found = run([(A, C), (B, C), (D, C)], {A: 1, B: 1})
    assert found.visits[C] == 2
    assert found.arrivals == {C: {0: 1, 1: 1}}


def test_what_is_passed_on_is_what_was_there_when_the_round_began() -> None:
    """A and B send to each other; neither passes on what it got in the same round."""
    ways = Adjacency(np.array([A, B]), np.array([B, A]), 2)
    found = traverse(
        {A: 8.0, B: 4.0},
        lambda passage: tuple(ways.forwards(passage).tolist()),
        ways.end,
        choose_first,
        1,
        lambda had: had / 2,
    )
    assert found.visits == {A: 10, B: 8}


def test_no_rounds_leave_the_seeds_as_they_are() -> None:
    assert run(EDGES, {A: 1}, n_hop=0).visits == {A: 1}
