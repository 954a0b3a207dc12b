"""A version of the live index, as a query reads it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from store.records import QuestionSet, SetId
from tests.fakes.dump import served_by
from tests.fakes.histories import NAMES, Step, grown, histories, states
from tests.fakes.indexed import ANSWER, advance, document, drawn, indexed, snapshot_at
from tests.fakes.triplets import answers, asks, triplets

NORTH, EAST = (1, 0), (0, 1)
A, B, C, D = 0, 1, 2, 3


@given(history=histories)
def test_a_past_version_is_unchanged_by_later_versions(history: Sequence[Step]) -> None:
    found = states(history)
    index = grown(found)
    for version in range(1, len(found) + 1):
        then = snapshot_at(grown(found[:version]), version)
        assert served_by(snapshot_at(index, version)) == served_by(then)


def test_pending_rows_are_in_no_version_until_they_are_settled() -> None:
    index = LiveIndex(2)
    a, b = triplets(1, outgoing=[("rome", NORTH)]), triplets(2, incoming=[("rome", NORTH)])
    documents = [document(1, "a.md", [1]), document(2, "b.md", [2])]
    advance(index, 1, [a], documents=documents)
    was = served_by(snapshot_at(index, 1))
    index.end_passages(index.find_vertices(np.array([1])))
    index.begin_passages(np.array([0]))
    for version in (1, 2):
        assert served_by(snapshot_at(index, version)) == was
    advance(index, 2, [b])
    assert served_by(snapshot_at(index, 1)) == was
    assert served_by(snapshot_at(index, 2))["passages"] == [1, 2]


def edged(*sets: QuestionSet, budget: int | None = None) -> list[tuple[int, int, float]]:
    """The edges by question, as many as the budget admits."""
    graph = indexed(sets, budget=budget)
    edges = graph.list_edges()
    out, into, similarity = edges.source_question, edges.target_question, edges.similarity
    ids = graph.index.outgoing.id[out], graph.index.incoming.id[into]
    return list(zip(*(id_.tolist() for id_ in ids), similarity.tolist(), strict=True))


def test_the_budget_admits_the_best_edges() -> None:
    asker = triplets(7, outgoing=[("rome", NORTH), ("gaul", EAST)])
    best = triplets(5, incoming=[("rome", NORTH)])
    other = triplets(6, incoming=[("gaul", NORTH)])
    first, second = (asks(asker), answers(best), 1.0), (asks(asker, 1), answers(other), 0.5)
    assert edged(asker, best, other) == sorted([first, second])
    assert edged(asker, best, other, budget=1) == [first]
    assert edged(asker, best, other, budget=0) == []


def test_the_budget_admits_equal_matches_by_lowest_question_id() -> None:
    graph = drawn(4, [(A, B, 0.5), (B, C, 0.5), (C, D, 0.5)])
    for budget in range(4):
        edges = snapshot_at(graph.index, 1, budget).list_edges()
        out = edges.source_question
        assert graph.index.outgoing.id[out].tolist() == list(range(budget))


def test_find_edges_gives_forward_edges_before_backward_edges() -> None:
    graph = drawn(4, [(A, B, 0.9), (C, A, 0.8), (B, D, 0.7)])
    found = graph.find_edges(np.array([A]))
    assert (found.start.tolist(), found.end.tolist()) == ([A, A], [B, C])
    assert found.is_backward.tolist() == [False, True]
    assert graph.index.outgoing.id[found.source_question].tolist() == [0, 1]
    assert graph.index.incoming.id[found.target_question].tolist() == [ANSWER, ANSWER + 1]
    assert found.similarity.tolist() == [0.9, 0.8]
    assert len(graph.find_edges(np.array([D])).source_question) == 1
    assert len(graph.find_edges(np.empty(0, dtype=np.int64)).source_question) == 0


def test_find_passages_gives_the_rows_of_that_version() -> None:
    graph = indexed([triplets(5, [("rome", NORTH)])])
    assert graph.find_passages(np.array([6, 5])).tolist() == [-1, 0]
    advance(graph.index, 2, ended=[5], documents_ended=[0])
    again = replace(triplets(5, [("gaul", NORTH)]), id=SetId(1))
    new = triplets(7, [("gaul", NORTH)])
    advance(graph.index, 3, [again, new], documents=[document(3, "c.md", [5, 7])])
    later = [snapshot_at(graph.index, version) for version in (1, 2, 3)]
    assert [now.find_passages(np.array([5, 7])).tolist() for now in later] == [
        [0, -1],
        [-1, -1],
        [1, 2],
    ]
    # A snapshot from before passage 7 was added does not know its number.
    assert graph.find_passages(np.array([5, 7])).tolist() == [0, -1]


def test_a_passage_of_several_documents_belongs_to_the_one_with_the_lowest_path_key() -> None:
    sets, documents = [triplets(1)], [document(1, "a.md", [1]), document(2, "b.md", [1])]
    index = LiveIndex(2)
    advance(index, 1, sets, documents=documents)
    home = snapshot_at(index, 1).get_document_keys(np.array([0]))
    other = indexed(sets, documents[::-1])
    assert home == other.get_document_keys(np.array([0])) == min(index.documents.path_key)
    for number, row in enumerate(index.documents.path_key.tolist()):
        inside = snapshot_at(index, 1).find_document_passages(row)
        assert inside.tolist() == ([0] if row == home else []), number


@pytest.fixture
def named() -> Snapshot:
    """Two documents; the name of the second is gaul, and a passage of the first mentions it."""
    sets = [
        triplets(1, [("rome gaul", NORTH), ("rome", EAST)]),
        triplets(2, [("rome", NORTH)]),
        triplets(3, [("gaul", NORTH)], [("oslo", EAST)]),
    ]
    documents = [document(1, "a.md", [1]), document(2, "b.md", [2, 3], called=("gaul",))]
    return indexed(sets, documents)


def test_find_mentions_gives_sentences_and_passages_whose_document_has_the_name(
    named: Snapshot,
) -> None:
    gaul = named.find_name("gaul")
    found = named.find_mentions(np.array([gaul]))
    rows = zip(
        found.passage_row.tolist(), found.vector_row.tolist(), found.weight.tolist(), strict=True
    )
    assert sorted(rows) == [(0, 1, 1), (1, 3, 6), (2, 5, 6), (2, 6, 1)]
    assert (found.name_position == 0).all()


def test_find_sentence_mentions_gives_all_mentions_but_those_by_document_names(
    named: Snapshot,
) -> None:
    names = np.array(sorted(named.find_name(one) for one in ("gaul", "rome")))
    every, mention = named.find_mentions(names), named.index.sentence_mentions
    rows, found = named.find_sentence_mentions(np.arange(len(named.index.vectors)))
    told = {*zip(mention.passage_row[rows].tolist(), found.tolist(), strict=True)}
    said = every.weight == 1
    assert {
        *zip(
            every.passage_row[said].tolist(), names[every.name_position[said]].tolist(), strict=True
        )
    } <= told
    rows, _ = named.find_sentence_mentions(np.array([2]))
    assert mention.passage_row[rows].tolist() == [0]


def test_list_names_gives_each_mentioned_name_once(named: Snapshot) -> None:
    of, name = named.list_names(named.passage_rows)
    spelled = [named.index.name_texts[one] for one in name.tolist()]
    assert sorted(zip(of.tolist(), spelled, strict=True)) == [
        (0, "gaul"),
        (0, "rome"),
        (1, "gaul"),
        (1, "rome"),
        (2, "gaul"),
    ]


def test_find_name_finds_names_that_a_visible_passage_mentions(named: Snapshot) -> None:
    assert named.select_mentioned_names(["rome", "oslo", "paris"]) == {"rome", "oslo"}
    advance(named.index, 2, ended=[2, 3], documents_ended=[2])
    after = snapshot_at(named.index, 2)
    assert after.select_mentioned_names([*NAMES, "paris"]) == {"rome", "gaul"}
    assert (after.find_name("oslo"), named.find_name("oslo") >= 0) == (-1, True)


def test_without_mentions_no_name_is_selected() -> None:
    assert indexed([triplets(1)]).select_mentioned_names(["rome", "gaul"]) == set()
