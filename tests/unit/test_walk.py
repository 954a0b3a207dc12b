"""The walk: how mass flows along the edges of a small graph."""

from collections.abc import Sequence

import numpy as np
import pytest

from hopsyncd.index.links import Links, links_of
from hopsyncd.index.matching import MergeIndex, Spans
from hopsyncd.index.names import Mentions, mentions_of
from hopsyncd.index.similarity import Keywords
from hopsyncd.index.view import Adjacency, GraphView, view_of
from hopsyncd.retrieve.walk import Coverage, Walked, WalkSettings, walk
from store.records import PassageId, QuestionSet
from tests.fakes.triplets import triplets

A, B, C = 0, 1, 2
NOTHING = np.empty(0, dtype=np.int64)
NORTH, EAST = (1, 0), (0, 1)
UNASKED = Coverage(np.empty(0), np.empty((0, 3)))  # a query of words that no passage has


def mentions(
    passage: Sequence[int] = (),
    name: Sequence[int] = (),
    document: Sequence[int] | None = None,
) -> Mentions:
    """Mentions of names, each in the sentence of row 3."""
    columns = [np.array(column, dtype=np.int64) for column in (passage, name, [3] * len(name))]
    return mentions_of(*columns, {}, np.arange(3) if document is None else np.array(document))


def links(*ends: tuple[int, int]) -> Links:
    """Links between passages of the star."""
    source, target = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return Links(source, target, tuple("shown" for _ in ends))


def star(**columns: object) -> GraphView:
    """A asks twice: B answers, with weight 3, and C, with weight 1. Rows: A, B, C, two contexts."""
    chosen = {
        "passage": np.array([10, 20, 30]),
        "document": np.array([10, 20, 30]),
        "spans": Spans.of(np.array([A, B, C]), np.array([A, B, C]) + 1),
        "passage_row": np.array([0, 1, 2]),
        "rows": np.zeros((5, 2), dtype=np.float32),
        "source": np.array([A, A]),
        "target": np.array([B, C]),
        "similarity": np.array([0.75, 0.25]),
        "context_row": np.array([3, 4]),
        "rarity": np.array([2.0, 2.0]),
        "question": np.array([1, 2]),
        "answer": np.array([3, 4]),
        "answer_row": np.array([1, 2]),
        "mentioned": {},
        "about": {},
        "mentions": mentions(),
        "keywords": Keywords([], [], NOTHING, NOTHING, mentions(), 3),
        "ways": Adjacency(NOTHING, NOTHING, 3),
        "links": links(),
    }
    return GraphView(**{**chosen, **columns})  # type: ignore[arg-type]


def walked(
    view: GraphView,
    start: int,
    hops: int = 1,
    toward: int | None = None,
    coverage: Coverage | None = None,
) -> Walked:
    """Walk with mass 1 from one passage; `toward` is a row of the view that the query is like."""
    seeds = np.zeros(len(view.passage))
    seeds[start] = 1.0
    cosines = np.zeros(len(view.rows))
    if toward is not None:
        cosines[toward] = 0.9
    return walk(view, seeds, cosines, coverage or UNASKED, WalkSettings(hops=hops, damping=0.5))


def test_the_example_of_the_module() -> None:
    assert walked(star(), A, hops=1).arrived.tolist() == [1, 0.375, 0.125]
    assert walked(star(), A, hops=2).arrived.tolist() == [1.25, 0.375, 0.125]


def test_no_hops_leave_the_seeds_as_they_are() -> None:
    assert walked(star(), A, hops=0).arrived.tolist() == [1, 0, 0]


def test_mass_is_only_lost_to_damping() -> None:
    assert walked(star(), A, hops=4).arrived.sum() == pytest.approx(
        1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16
    )


def test_edges_are_walked_both_ways_and_the_flow_tells_them_apart() -> None:
    found = walked(star(), B)
    assert found.arrived.tolist() == [0.5, 1, 0]
    assert found.flow.tolist() == [0, 0, 0.5, 0]  # forwards A-B, A-C, then backwards


def test_all_that_arrives_came_along_an_edge_or_by_a_name() -> None:
    view = star(mentions=mentions([A, C], [7, 7]))
    found = walked(view, A, hops=3)
    into = np.bincount(np.concatenate([view.target, view.source]), found.flow, 3)
    at = view.mentions.passage[view.mentions.bridge]
    into += np.bincount(at, found.reached, 3)
    assert 0 < found.reached.sum() < found.left.sum()
    assert found.arrived == pytest.approx(into + np.array([1, 0, 0]))


def test_a_link_takes_its_part_of_what_leaves_either_end_and_of_no_other() -> None:
    part = WalkSettings().by_links
    view = star(links=links((A, C)))
    found = walked(view, A)
    assert found.by_link.tolist() == [0.5 * part, 0]
    assert found.link_ways.back.tolist() == [False, True]
    assert found.arrived.tolist() == pytest.approx(
        [1, 0.375 * (1 - part), 0.125 * (1 - part) + 0.5 * part]
    )
    assert walked(view, C).by_link.tolist() == [0, 0.5 * part]
    assert walked(view, B).arrived.tolist() == walked(star(), B).arrived.tolist()
    assert walked(view, A, hops=4).arrived.sum() == pytest.approx(
        1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16
    )


def test_of_many_links_the_one_to_what_is_like_the_query_draws_most() -> None:
    view = star(links=links((A, B), (A, C)))
    even, led = walked(view, A).by_link, walked(view, A, toward=C).by_link
    assert even[0] == even[1]
    assert led[1] > 2 * led[0]


def test_an_index_of_many_links_has_a_bounded_number_of_ways() -> None:
    ids = np.arange(1, 500, dtype=np.int64)
    written = [(PassageId(1), PassageId(id_), str(id_)) for id_ in ids.tolist()]
    assert links_of(written, ids).shown == tuple(str(id_) for id_ in range(2, 34))


def test_the_walk_prefers_the_edge_whose_context_is_like_the_query() -> None:
    plain, led = walked(star(), A), walked(star(), A, toward=4)
    assert led.arrived[C] > plain.arrived[C]
    assert led.arrived[C] > led.arrived[B]


def test_an_edge_of_negative_similarity_carries_nothing() -> None:
    found = walked(star(similarity=np.array([0.75, -0.25])), A)
    assert found.arrived.tolist() == [1, 0.5, 0]
    unlike = walked(star(similarity=np.array([-0.75, -0.25])), A)
    assert unlike.arrived.tolist() == [1, 0, 0]


def test_edges_can_be_walked_forwards_only() -> None:
    directed = WalkSettings(hops=1, backwards=0.0)
    nowhere = walk(star(), np.array([0.0, 1.0, 0.0]), np.zeros(5), UNASKED, directed)
    assert nowhere.arrived.tolist() == [0, 1, 0]
    onwards = walk(star(), np.array([1.0, 0.0, 0.0]), np.zeros(5), UNASKED, directed)
    assert onwards.arrived.tolist() == [1, 0.375, 0.125]


def test_rarer_names_pull_more() -> None:
    rare = walked(star(rarity=np.array([2.0, 9.0])), A)
    assert rare.arrived[C] > walked(star(), A).arrived[C]


def test_the_walk_prefers_passages_with_words_of_the_query_that_are_new() -> None:
    asked = Coverage(np.array([1.0]), np.array([[0.0, 0.0, 1.0]]))
    assert walked(star(), A, coverage=asked).arrived[C] > walked(star(), A).arrived[C]
    known = Coverage(np.array([1.0]), np.array([[1.0, 0.0, 1.0]]))
    assert walked(star(), A, coverage=known).arrived.tolist() == walked(star(), A).arrived.tolist()


def test_a_name_that_two_passages_mention_is_a_way_between_them() -> None:
    """No edge leads from B to C."""
    shared = star(mentions=mentions([B, C], [7, 7]))
    assert walked(star(), B).arrived[C] == 0
    assert walked(shared, B).arrived[C] > 0
    alone = star(mentions=mentions([B, C], [7, 8]))
    assert walked(alone, B).arrived[C] == 0


def test_a_graph_without_edges_keeps_its_seeds() -> None:
    none = np.empty(0, dtype=np.int64)
    columns = ("source", "target", "similarity", "context_row", "rarity")
    assert walked(star(**dict.fromkeys(columns, none)), A, hops=4).arrived.tolist() == [1, 0, 0]


def test_what_a_name_would_bring_back_to_its_own_document_is_lost() -> None:
    found = walked(star(mentions=mentions([A, B, C], [7, 7, 7])), A)
    assert found.reached.tolist() == pytest.approx([0, 2 / 15, 2 / 15])  # of 2/5 sent
    together = star(mentions=mentions([A, B, C], [7, 7, 7], [1, 1, 2]))
    assert walked(together, A).reached.tolist() == pytest.approx([0, 0, 2 / 15])


def test_a_name_of_one_document_alone_is_no_way() -> None:
    assert mentions([A, B, B, C], [7, 7, 8, 8], [1, 1, 2]).bridge.tolist() == [2, 3]


def test_no_edge_or_link_is_a_way_within_a_document() -> None:
    document = np.array([10, 10, 30])
    assert walked(star(document=document), A).arrived.tolist() == [1, 0, 0.5]
    linked = star(document=document, links=links((A, B), (A, C)))
    assert walked(linked, A).link_ways.end.tolist() == [C, A]


def test_a_link_leads_to_the_passages_of_its_document_that_answer_best() -> None:
    """A links to the first of a document's six passages, twice."""
    view = star(
        passage=np.arange(7),
        document=np.array([0, 1, 1, 1, 1, 1, 1]),
        passage_row=np.arange(7),
        rows=np.zeros((7, 2), dtype=np.float32),
        mentions=mentions(document=range(7)),
        links=links((0, 1), (0, 1)),
        **dict.fromkeys(("source", "target", "similarity", "context_row", "rarity"), NOTHING),
    )
    asked = Coverage(np.empty(0), np.empty((0, 7)))
    led = walked(view, 0, toward=5, coverage=asked)
    assert led.link_ways.end.tolist() == [5, 1, 2, 0, 0, 0]
    assert led.by_link[0] > 10 * led.by_link[1] > 0
    back = walked(view, 6, toward=6, coverage=asked)
    assert back.arrived[0] > 0


def viewed(*sets: QuestionSet, budget: int = 10) -> GraphView:
    index = MergeIndex(2)
    index.change((), sets)
    return view_of(index, budget)


def test_a_view_has_the_edges_that_the_budget_admits_best_first() -> None:
    asker = triplets(7, outgoing=[("rome", NORTH), ("gaul", EAST)])
    best = triplets(5, incoming=[("rome", NORTH)])
    other = triplets(6, incoming=[("gaul", NORTH)])
    view = viewed(asker, best, other)
    assert view.passage.tolist() == [5, 6, 7]
    assert (view.source.tolist(), view.target.tolist()) == ([2, 2], [0, 1])
    assert view.similarity.tolist() == [1.0, 0.5]
    assert viewed(asker, best, other, budget=1).target.tolist() == [0]
    assert viewed(asker, best, other, budget=0).target.tolist() == []
