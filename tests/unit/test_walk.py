"""The walk: how mass flows along the ways of a small graph."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from hopsyncd.config.values import QueryConfig
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.query_context import Coverage
from hopsyncd.retrieve.walk import WalkResult, walk
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.indexed import asked, drawn, whole_row

A, B, C = 0, 1, 2
SETTINGS = WalkSettings(hops=1, damping=0.5)
EDGES = [(A, B, 0.75), (A, C, 0.25)]


def star(
    edges: Sequence[tuple[int, int, float]] = tuple(EDGES),
    named: Sequence[tuple[int, str]] = (),
    linked: Sequence[tuple[int, int]] = (),
    paths: Sequence[str] = (),
    keywords: Sequence[str] = (),
) -> Snapshot:
    """A asks twice: B answers, with weight 3, and C, with weight 1."""
    return drawn(3, edges, named, linked, paths, keywords)


def walked(
    graph: Snapshot,
    start: int,
    hops: int = 1,
    toward: int | None = None,
    has: Sequence[bool] | None = None,
    settings: WalkSettings = SETTINGS,
) -> WalkResult:
    """Walk with mass 1 from one passage.

    `toward` is a row that the query is like, `has` which passages have its one word.
    """
    seeds = np.zeros(len(graph.passage_rows))
    seeds[start] = 1.0
    cosines = {} if toward is None else {toward: 0.9}
    coverage = None if has is None else Coverage(np.array([1.0]), np.array([has]))
    return walk(asked(graph, cosines, coverage=coverage), seeds, replace(settings, hops=hops))


def by_entry(found: WalkResult) -> dict[int, float]:
    """What names brought to each passage."""
    return dict(
        zip(found.incoming_mentions.passage_row.tolist(), found.incoming_flow.tolist(), strict=True)
    )


def test_the_example_in_the_module_docstring_holds() -> None:
    assert walked(star(), A, hops=1).scores.tolist() == pytest.approx([1, 0.375, 0.125])
    assert walked(star(), A, hops=2).scores.tolist() == pytest.approx([1.25, 0.375, 0.125])


def test_no_hops_leave_the_seeds_as_they_are() -> None:
    assert walked(star(), A, hops=0).scores.tolist() == pytest.approx([1, 0, 0])


def test_the_walk_loses_score_only_to_damping() -> None:
    assert walked(star(), A, hops=4).scores.sum() == pytest.approx(
        1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16
    )


def test_edges_are_walked_both_ways_and_the_flow_distinguishes_the_directions() -> None:
    found = walked(star(), B)
    assert found.scores.tolist() == pytest.approx([0.5, 1, 0])
    assert (found.edges.start.tolist(), found.edges.end.tolist()) == ([B], [A])
    assert (found.edges.is_backward.tolist(), found.edge_flow.tolist()) == (
        [True],
        pytest.approx([0.5]),
    )


def test_all_that_arrives_came_along_an_edge_or_by_a_name() -> None:
    found = walked(star(named=[(A, "rome"), (C, "rome")]), A, hops=3)
    into = np.bincount(found.edges.end, found.edge_flow, 3)
    into += np.bincount(found.incoming_mentions.passage_row, found.incoming_flow, 3)
    assert 0 < found.incoming_flow.sum() < found.outgoing_flow.sum()
    assert found.scores == pytest.approx(into + np.array([1, 0, 0]))


def test_a_link_takes_its_share_of_the_score_that_leaves_its_ends() -> None:
    part = WalkSettings().by_links
    graph = star(linked=[(A, C)])
    found = walked(graph, A)
    assert found.link_flow.tolist() == pytest.approx([0.5 * part])
    assert found.links.is_backward.tolist() == [False]
    assert found.scores.tolist() == pytest.approx(
        [1, 0.375 * (1 - part), 0.125 * (1 - part) + 0.5 * part]
    )
    back = walked(graph, C)
    assert (back.links.is_backward.tolist(), back.link_flow.tolist()) == (
        [True],
        pytest.approx([0.5 * part]),
    )
    assert walked(graph, B).scores.tolist() == walked(star(), B).scores.tolist()
    assert walked(graph, A, hops=4).scores.sum() == pytest.approx(
        1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16
    )


def test_the_link_to_the_passage_most_like_the_query_gets_the_most_score() -> None:
    graph = star(linked=[(A, B), (A, C)])
    even = walked(graph, A).link_flow
    led = walked(graph, A, toward=whole_row(graph, C)).link_flow
    assert even[0] == even[1]
    assert led[1] > 2 * led[0]


def test_the_walk_prefers_the_edge_whose_context_is_like_the_query() -> None:
    graph = star()
    plain, led = walked(graph, A), walked(graph, A, toward=whole_row(graph, A) + 2)
    assert led.scores[C] > plain.scores[C]
    assert led.scores[C] > led.scores[B]


def test_an_edge_of_negative_similarity_carries_nothing() -> None:
    found = walked(star([(A, B, 0.75), (A, C, -0.25)]), A)
    assert found.scores.tolist() == pytest.approx([1, 0.5, 0])
    unlike = walked(star([(A, B, -0.75), (A, C, -0.25)]), A)
    assert unlike.scores.tolist() == pytest.approx([1, 0, 0])


def test_weak_edges_pass_on_as_much_score_as_strong_edges() -> None:
    found = walked(star([(A, B, 3e-7), (A, C, 1e-7)]), A)
    assert found.scores.tolist() == pytest.approx([1, 0.375, 0.125])


def test_edges_can_be_walked_forwards_only() -> None:
    directed = WalkSettings(damping=0.5, backwards=0.0)
    assert walked(star(), B, settings=directed).scores.tolist() == pytest.approx([0, 1, 0])
    assert walked(star(), A, settings=directed).scores.tolist() == pytest.approx([1, 0.375, 0.125])


def test_rarer_names_pull_more() -> None:
    common = [(B, "rome"), (C, "rome")]
    even, rare = (
        walked(star(named=common, keywords=keywords), A).scores
        for keywords in (["rome", "rome"], ["rome", "gaul"])
    )
    assert even[C] / even[B] == pytest.approx(1 / 3)
    assert rare[C] / rare[B] == pytest.approx(1 / 3 * np.log1p(3 / 1) / np.log1p(3 / 3))


def test_the_walk_prefers_passages_with_words_of_the_query_that_are_new() -> None:
    plain = walked(star(), A).scores
    assert walked(star(), A, has=[False, False, True]).scores[C] > plain[C]
    assert walked(star(), A, has=[True, False, True]).scores.tolist() == plain.tolist()


def test_a_name_that_two_passages_mention_is_a_way_between_them() -> None:
    """No edge leads from B to C."""
    assert walked(star(), B).scores[C] == 0
    assert walked(star(named=[(B, "rome"), (C, "rome")]), B).scores[C] > 0
    assert walked(star(named=[(B, "rome"), (C, "gaul")]), B).scores[C] == 0


def test_a_name_that_has_passages_of_its_own_is_worth_two_that_are_only_mentioned() -> None:
    graph = star([], named=[(A, "rome"), (A, "gaul"), (B, "rome"), (C, "gaul")])
    even = walked(graph, A).scores
    assert even[B] == pytest.approx(even[C])
    topical = np.arange(len(graph.index.name_numbers)) == graph.find_name("gaul")
    graph = replace(graph, statistics=replace(graph.statistics, is_topic=topical))
    arrived = walked(graph, A).scores
    assert arrived[C] == pytest.approx(2 * arrived[B])


def test_a_graph_without_edges_keeps_its_seeds() -> None:
    assert walked(star([]), A, hops=4).scores.tolist() == pytest.approx([1, 0, 0])


def test_score_that_a_name_returns_to_its_own_document_is_lost() -> None:
    named = [(A, "rome"), (B, "rome"), (C, "rome")]
    assert by_entry(walked(star(named=named), A)) == pytest.approx(
        {A: 0, B: 2 / 15, C: 2 / 15}  # of 2/5 sent
    )
    together = star(named=named, paths=["a.md", "a.md", "c.md"])
    assert by_entry(walked(together, A)) == pytest.approx({A: 0, B: 0, C: 2 / 15})


def test_a_name_in_only_one_document_passes_on_no_score() -> None:
    named = [(A, "rome"), (B, "rome"), (B, "gaul"), (C, "gaul")]
    graph = star(named=named, paths=["a.md", "a.md", "c.md"])
    assert walked(graph, A).outgoing_names.passage_row.tolist() == []
    assert [graph.index.name_texts[one] for one in walked(graph, B).outgoing_names.name] == ["gaul"]


def test_no_edge_or_link_is_a_way_within_a_document() -> None:
    paths = ["a.md", "a.md", "c.md"]
    assert walked(star(paths=paths), A).scores.tolist() == pytest.approx([1, 0, 0.5])
    linked = walked(star(paths=paths, linked=[(A, B), (B, A), (A, C)]), A)
    assert linked.links.end.tolist() == [C]


def test_a_link_leads_to_the_passages_of_its_document_that_answer_best() -> None:
    """A links to a document of six passages, twice."""
    graph = drawn(7, linked=[(0, 1), (0, 1)], paths=["a.md", *["b.md"] * 6])
    led = walked(graph, 0, toward=whole_row(graph, 5))
    assert led.links.end.tolist() == [5, 1, 2]
    assert led.link_flow[0] > 10 * led.link_flow[1] > 0
    assert walked(graph, 6, toward=whole_row(graph, 6)).scores[0] > 0
    assert walked(graph, 6, toward=whole_row(graph, 5)).scores[0] == 0


def test_only_the_heaviest_passages_send_their_mass_on() -> None:
    graph = drawn(4, [(0, 2, 0.5), (1, 3, 0.5)])
    seeds = np.array([0.4, 0.6, 0.0, 0.0])
    both, one = (
        walk(asked(graph), seeds, WalkSettings(hops=1, damping=0.5, heaviest=heaviest)).scores
        for heaviest in (2, 1)
    )
    assert both.tolist() == pytest.approx([0.4, 0.6, 0.2, 0.3])
    assert one.tolist() == pytest.approx([0.4, 0.6, 0.0, 0.3])


def test_the_limits_are_those_that_are_configured() -> None:
    assert WalkSettings.from_config(QueryConfig()) == WalkSettings()
    given = QueryConfig(hops=2, heaviest=7, mentions=3, least_share=0.0)
    assert WalkSettings.from_config(given) == WalkSettings(
        hops=2, heaviest=7, mentions=3, least_share=0.0
    )


def test_a_score_below_the_least_share_is_not_passed_on() -> None:
    """0.1 along each way, of which names pass on as a whole what they have."""
    edges = drawn(4, [(0, 2, 0.5), (1, 3, 0.5)])
    named = drawn(4, named=[(0, "rome"), (2, "rome"), (1, "gaul"), (3, "gaul")])
    seeds = np.array([0.9, 0.1, 0.0, 0.0])
    for graph in (edges, named):
        all_, most = (
            walk(asked(graph), seeds, WalkSettings(hops=1, least_share=share)).scores
            for share in (0.0, 0.15)
        )
        assert all_[3] > 0
        assert most[2] == all_[2] > 0
        assert most[3] == 0


@pytest.mark.parametrize("count", [20, 300])
def test_a_name_reaches_only_the_mentions_that_are_most_like_the_query(count: int) -> None:
    """Also one so common that only those of the nearest rows are looked at."""
    graph = drawn(count, named=[(index, "rome") for index in range(count)])
    toward = {whole_row(graph, at) + 1: 0.5 + at / 1000 for at in (5, 9, 12)}
    seeds = np.zeros(count)
    seeds[A] = 1.0
    found = walk(asked(graph, toward), seeds, WalkSettings(hops=1, mentions=3))
    assert sorted(found.incoming_mentions.passage_row.tolist()) == [5, 9, 12]
    assert sorted(by_entry(found), key=lambda at: -by_entry(found)[at]) == [12, 9, 5]
    assert found.scores[1] == 0


def test_the_order_of_the_entries_changes_no_bit() -> None:
    edges = [(0, 1, 0.7), (0, 2, 0.3), (1, 3, 0.9), (3, 4, 0.2), (2, 4, 0.6), (4, 5, 0.1)]
    named = [(0, "rome"), (3, "rome"), (5, "rome"), (1, "gaul"), (4, "gaul")]
    turned = drawn(
        6,
        [(5 - start, 5 - end, similarity) for start, end, similarity in edges],
        [(5 - at, name) for at, name in named],
    )
    seeds = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625, 0.0])
    found = walk(asked(drawn(6, edges, named)), seeds, WalkSettings()).scores
    other = walk(asked(turned), seeds[::-1].copy(), WalkSettings()).scores
    assert found.tolist() == other[::-1].tolist()
