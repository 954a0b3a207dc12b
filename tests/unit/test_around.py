"""What lies around a passage, and the ways between two, in graphs drawn by hand."""

from collections.abc import Sequence

import pytest

from hopsyncd.retrieve.around import Joint, find_paths, find_surroundings
from store.records import QuestionId
from tests.fakes.indexed import drawn

ROME, NERO = "rome", "nero"


def edge(start: int, end: int, number: int, similarity: float) -> Joint:
    """Along an edge, from who asks to who answers."""
    return Joint(start, end, "from", QuestionId(number), similarity)


def name(start: int, end: int, spelled: str) -> Joint:
    return Joint(start, end, "both", name=spelled)


def ends(found: Sequence[Sequence[Joint]]) -> list[list[int]]:
    """The positions that each path passes."""
    return [[path[0].start, *(joint.end for joint in path)] for path in found]


CHAIN_EDGES = [(0, 1, 0.9), (2, 1, 0.8), (2, 3, 0.7)]
CHAIN = drawn(4, CHAIN_EDGES)


def test_edges_lead_both_ways_and_the_distance_counts_them() -> None:
    assert find_surroundings(CHAIN, 0, hops=1, limit=9).distance == {0: 0, 1: 1}
    found = find_surroundings(CHAIN, 0, hops=3, limit=9)
    assert found.distance == {0: 0, 1: 1, 2: 2, 3: 3}
    assert [(joint.start, joint.end) for joint in found.joints] == [(0, 1), (2, 1), (2, 3)]


def test_the_limit_keeps_the_nearest_and_of_these_the_most_similar() -> None:
    star = drawn(5, [(0, 1, 0.2), (0, 2, 0.9), (3, 0, 0.5), (2, 4, 1.0)])
    found = find_surroundings(star, 0, hops=2, limit=2)
    assert found.distance == {0: 0, 2: 1, 3: 1}
    assert [(joint.start, joint.end) for joint in found.joints] == [(0, 2), (3, 0)]


def test_a_name_joins_passages_after_the_edges_and_the_rarer_name_is_told() -> None:
    graph = drawn(
        4,
        [(0, 3, 0.1)],
        [(0, ROME), (1, ROME), (2, ROME), (0, NERO), (2, NERO)],
    )
    found = find_surroundings(graph, 0, hops=1, limit=9)
    assert list(found.distance) == [0, 3, 2, 1]
    assert found.joints == [edge(0, 3, 0, 0.1), name(0, 1, "rome"), name(0, 2, "nero")]


def test_links_lead_both_ways_after_the_edges_and_before_the_names() -> None:
    graph = drawn(
        5,
        [(0, 4, 0.0)],
        [(0, ROME), (1, ROME), (2, ROME)],
        linked=[(0, 2), (2, 4), (3, 0)],
    )
    found = find_surroundings(graph, 0, hops=1, limit=9)
    assert list(found.distance) == [0, 4, 2, 3, 1]
    assert found.joints == [
        edge(0, 4, 0, 0.0),
        Joint(0, 2, "link", name="to 2"),
        Joint(2, 4, "link", name="to 4"),
        Joint(3, 0, "link", name="to 0"),
        name(0, 1, "rome"),
    ]


def test_a_passage_that_nothing_leads_to_is_alone() -> None:
    found = find_surroundings(drawn(2), 1, hops=4, limit=9)
    assert (found.distance, found.joints) == ({1: 0}, [])


def test_a_path_is_walked_either_way_and_says_by_which_way() -> None:
    (path,) = find_paths(CHAIN, 0, 3, max_hops=4, limit=5)
    assert path == [
        edge(0, 1, 0, 0.9),
        Joint(1, 2, "to", QuestionId(1), 0.8),
        edge(2, 3, 2, 0.7),
    ]
    assert ends(find_paths(CHAIN, 3, 0, max_hops=4, limit=5)) == [[3, 2, 1, 0]]


def test_the_shortest_path_comes_first_and_none_passes_a_passage_twice() -> None:
    square = drawn(4, [(0, 1, 0.9), (1, 3, 0.9), (0, 2, 0.5), (2, 3, 0.5), (1, 2, 0.5)])
    found = ends(find_paths(square, 0, 3, max_hops=3, limit=9))
    assert found == [[0, 1, 3], [0, 2, 3], [0, 1, 2, 3], [0, 2, 1, 3]]
    assert ends(find_paths(square, 0, 3, max_hops=2, limit=9)) == found[:2]
    assert ends(find_paths(square, 0, 3, max_hops=3, limit=1)) == found[:1]


def test_a_path_by_a_name_tells_the_name() -> None:
    graph = drawn(3, [(0, 1, 0.5)], [(1, NERO), (2, NERO)])
    assert find_paths(graph, 0, 2, max_hops=2, limit=5) == [
        [edge(0, 1, 0, 0.5), name(1, 2, "nero")]
    ]


def test_a_path_without_an_edge_follows_links_in_both_directions() -> None:
    graph = drawn(4, [(0, 1, 0.5)], [(1, NERO), (2, NERO)], linked=[(0, 1), (1, 2), (3, 2)])
    (path,) = find_paths(graph, 0, 3, max_hops=4, limit=5)
    assert path == [
        edge(0, 1, 0, 0.5),
        Joint(1, 2, "link", name="to 2"),
        Joint(2, 3, "backlink", name="to 2"),
    ]


@pytest.mark.parametrize(("start", "end", "max_hops"), [(0, 3, 2), (0, 0, 4), (0, 4, 6)])
def test_without_a_short_path_no_path_is_returned(start: int, end: int, max_hops: int) -> None:
    graph = drawn(5, CHAIN_EDGES)
    assert find_paths(graph, start, end, max_hops, limit=5) == []


def test_a_document_of_several_passages_is_joined_by_its_names_to_others_alone() -> None:
    graph = drawn(3, named=[(0, ROME), (1, ROME)], paths=["a.md", "a.md", "b.md"])
    assert find_surroundings(graph, 0, hops=2, limit=9).distance == {0: 0}


def test_a_dense_graph_does_not_make_the_path_search_long() -> None:
    n = 60
    everything = drawn(n, [(a, b, 0.5) for a in range(n - 1) for b in range(n - 1) if a != b])
    reachable = drawn(
        n,
        [*((a, b, 0.5) for a in range(n - 2) for b in range(n - 2) if a != b), (n - 2, n - 1, 0.5)],
    )
    assert len(find_paths(everything, 0, 1, max_hops=6, limit=50)) == 50
    assert find_paths(reachable, 0, n - 1, max_hops=6, limit=50) == []
