"""Eq. 1 of the paper, and edge merging by worked examples."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index import comparison
from hopsyncd.index.comparison import MatchColumns
from hopsyncd.index.edge_selection import (
    compute_jaccard,
    compute_similarity,
    count_matches,
    find_best_matches,
    find_edge_threshold,
    find_head_threshold,
    has_matches_without_keyword,
    list_outgoing,
    list_pending_matches,
    make_match_records,
    replace_matches,
    update_matches,
)
from hopsyncd.index.live_index import IN_FORCE, LiveIndex
from hopsyncd.index.passage_content import add_passages
from hopsyncd.index.tables import MatchTable, OutgoingQuestionTable
from store.records import EdgeThreshold, Match, QuestionId, QuestionSet, to_grid
from tests.fakes.indexed import advance, passage
from tests.fakes.triplets import answers, asks, triplets

GRID_NORTH, GRID_EAST = to_grid(np.array([[1.0, 0.0], [0.0, 1.0]]))
NORTH, EAST, NORTHEAST = (1, 0), (0, 1), (1, 1)


words = st.frozensets(st.sampled_from("abcdef"), max_size=4)
vectors = st.lists(st.integers(-5, 5), min_size=3, max_size=3)


def index_of(*sets: QuestionSet) -> LiveIndex:
    index = LiveIndex(2)
    advance(index, 1, sets)
    return index


def matched(index: LiveIndex) -> dict[int, int]:
    return {one.question: one.target for one in held(index)}


def held(index: LiveIndex) -> list[Match]:
    """The matches at the head."""
    rows = index.outgoing.match_row[index.outgoing.match_row >= 0]
    return make_match_records(index, MatchColumns.from_rows(index.matches, rows))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("", "", 0),
        ("rome", "", 0),
        ("rome", "rome", 1),
        ("rome italy", "rome", 1 / 2),
        ("rome italy", "rome gaul", 1 / 3),
    ],
)
def test_jaccard_is_shared_by_all_keywords(a: str, b: str, expected: float) -> None:
    assert compute_jaccard(set(a.split()), set(b.split())) == expected


def test_equal_questions_have_similarity_1() -> None:
    assert compute_similarity({"rome"}, GRID_NORTH, {"rome"}, GRID_NORTH) == 1


def test_similarity_is_half_keywords_and_half_cosine() -> None:
    assert compute_similarity({"rome"}, GRID_NORTH, {"rome"}, GRID_EAST) == 0.5
    assert compute_similarity({"rome"}, GRID_NORTH, {"gaul"}, GRID_NORTH) == 0.5
    assert compute_similarity({"rome"}, GRID_NORTH, {"gaul"}, -GRID_NORTH) == -0.5


@given(words, vectors, words, vectors)
def test_similarity_is_symmetric_and_close_to_the_formula(
    ka: frozenset[str], va: list[int], kb: frozenset[str], vb: list[int]
) -> None:
    a, b = to_grid(np.array([va, vb], dtype=np.float64))
    found = compute_similarity(ka, a, kb, b)
    assert found == compute_similarity(kb, b, ka, a)
    length = np.linalg.norm(va) * np.linalg.norm(vb)
    cosine = float(np.dot(va, vb) / length) if length else 0.0
    assert found == pytest.approx((compute_jaccard(ka, kb) + cosine) / 2, abs=5e-4)


def test_a_question_is_matched_with_the_most_similar_incoming_question() -> None:
    asker = triplets(1, outgoing=[("rome", NORTH)])
    good = triplets(2, incoming=[("rome", EAST), ("rome", NORTH)])
    other = triplets(3, incoming=[("gaul", NORTH)])
    assert matched(index_of(asker, good, other)) == {asks(asker): answers(good, 1)}


def test_keywords_count_as_much_as_the_cosine() -> None:
    asker = triplets(1, outgoing=[("rome", NORTH)])
    by_name = triplets(2, incoming=[("rome", EAST)])
    by_meaning = triplets(3, incoming=[("gaul", NORTHEAST)])
    assert matched(index_of(asker, by_name, by_meaning)) == {asks(asker): answers(by_name)}


def test_a_question_is_not_matched_within_its_passage() -> None:
    alone = triplets(1, incoming=[("rome", NORTH)], outgoing=[("rome", NORTH)])
    assert matched(index_of(alone)) == {}
    far = triplets(2, incoming=[("rome", (-1, 0))])
    assert matched(index_of(alone, far)) == {asks(alone): answers(far)}


def test_ties_go_to_the_lowest_id_in_any_order_of_arrival() -> None:
    asker = triplets(1, outgoing=[("rome", NORTH)])
    twins = [triplets(p, incoming=[("rome", NORTH)]) for p in (2, 3, 4)]
    lowest = min(answers(twin) for twin in twins)
    for order in (twins, twins[::-1], [*twins[1:], twins[0]]):
        index = index_of(asker)
        for version, twin in enumerate(order, 2):
            advance(index, version, [twin])
        assert matched(index) == {asks(asker): lowest}


def test_questions_that_share_no_keyword_are_not_matched() -> None:
    asker = triplets(1, outgoing=[("", NORTH), ("rome", NORTH)])
    alike = triplets(2, incoming=[("", NORTH), ("gaul", NORTH)])
    assert matched(index_of(asker, alike)) == {}


@given(
    contents=st.lists(
        st.tuples(*[st.lists(st.sampled_from(["", "a", "b", "a b"]), max_size=3)] * 2)
    ),
    most=st.sampled_from([1, 2, 128]),
)
def test_matches_are_counted_without_matching(
    contents: list[tuple[list[str], list[str]]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MAX_CANDIDATES", most)
        index = index_of(
            *(
                triplets(number, [(one, NORTH) for one in told], [(one, NORTH) for one in asked])
                for number, (told, asked) in enumerate(contents)
            )
        )
        assert count_matches(index, index.is_vertex) == len(matched(index))


def test_matches_without_a_keyword_are_noticed() -> None:
    asker = triplets(1, outgoing=[("rome", NORTH)])
    index = index_of(asker, triplets(2, incoming=[("rome", NORTH), ("gaul", NORTH)]))
    assert not has_matches_without_keyword(index)
    index.matches.target_question[0] = 1
    assert has_matches_without_keyword(index)


@pytest.mark.parametrize("most", [1, 2])
def test_of_a_common_keyword_only_the_lowest_ids_are_candidates(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MAX_CANDIDATES", most)
    asker = triplets(1, outgoing=[("rome", NORTH)])
    twins = [triplets(p, incoming=[("rome", NORTHEAST)]) for p in range(2, 7)]
    twins.sort(key=answers)
    best = triplets(9, incoming=[("rome", NORTH)])
    rank = sum(answers(twin) < answers(best) for twin in twins)
    expected = answers(best) if rank < most else answers(twins[0])
    assert matched(index_of(asker, best, *twins)) == {asks(asker): expected}
    index = index_of(asker, best, *twins)
    for version, twin in enumerate(twins, 2):  # those that leave make room
        advance(index, version, ended=[twin.passage])
    assert matched(index) == {asks(asker): answers(best)}


def test_passages_without_questions_have_no_matches() -> None:
    index = index_of(triplets(1), triplets(2))
    assert matched(index) == {}
    delta = advance(index, 2, ended=[1, 2])
    assert (len(delta.ended), len(delta.begun), index.vertex_count) == (0, 0, 0)


def test_a_match_returns_to_the_former_target_when_a_better_target_leaves() -> None:
    """A asks, B answers; C answers better, and leaves again."""
    a = triplets(1, outgoing=[("rome", NORTH)])
    b = triplets(2, incoming=[("rome", NORTHEAST)])
    c = triplets(3, incoming=[("rome", NORTH)])
    index = index_of(a, b)
    was = held(index)
    advance(index, 2, [c])
    assert held(index) == [Match(asks(a), answers(c), 1.0)]
    advance(index, 3, ended=[c.passage])
    assert held(index) == was
    assert [(one.question, one.target) for one in was] == [(asks(a), answers(b))]


def test_a_changed_match_is_listed_as_ended_and_begun() -> None:
    a = triplets(1, outgoing=[("rome", NORTH), ("gaul", EAST)])
    b = triplets(2, incoming=[("rome", NORTHEAST), ("gaul", EAST)])
    index = index_of(a, b)
    delta = advance(index, 2, [triplets(3, incoming=[("rome", NORTH)])])
    assert index.outgoing.id[delta.ended].tolist() == [asks(a)]
    assert [match.question for match in make_match_records(index, delta.begun)] == [asks(a)]


def test_a_worse_incoming_question_changes_nothing() -> None:
    a, b = triplets(1, outgoing=[("rome", NORTH)]), triplets(2, incoming=[("rome", NORTH)])
    delta = advance(index_of(a, b), 2, [triplets(3, incoming=[("gaul", EAST)])])
    assert (len(delta.ended), len(delta.begun)) == (0, 0)


def test_a_passage_that_returns_has_the_same_matches() -> None:
    a = triplets(1, [("gaul", EAST)], [("rome", NORTH)])
    b = triplets(2, [("rome", NORTH)], [("gaul", EAST)])
    index = index_of(a, b)
    before = matched(index)
    for version in (2, 4, 6):
        assert len(advance(index, version, ended=[a.passage]).ended) == 2
        assert matched(index) == {}
        advance(index, version + 1, [a])
        assert matched(index) == before
    assert (len(before), len(index.passages)) == (2, 2)


def test_replace_matches_keeps_the_rows_of_equal_matches() -> None:
    a = triplets(1, [("gaul", EAST)], [("rome", NORTH)])
    b = triplets(2, [("rome", NORTH)], [("gaul", EAST)])
    index = index_of(a, b)
    was = held(index)
    asked = list_outgoing(index, np.flatnonzero(index.is_vertex))
    best = find_best_matches(index, asked, index.is_vertex)
    replace_matches(index, asked, best)
    same = list_pending_matches(index)
    assert (len(same.ended), len(same.begun)) == (0, 0)
    index.matches.similarity[0] -= 0.5
    replace_matches(index, asked, best)
    delta = list_pending_matches(index)
    assert (len(delta.ended), len(delta.begun)) == (1, 1)
    index.settle(2)
    assert held(index) == was


def test_a_match_that_no_version_has_leaves_no_row() -> None:
    """Passages of one version are matched in parts, and a later part may have a better match."""
    a = triplets(1, [], [("rome", NORTH)])
    index = index_of(a)
    for number, vector in ((2, EAST), (3, NORTHEAST), (4, NORTH)):
        part = add_passages(index, [passage(triplets(number, [("rome", vector)], []))])
        index.begin_passages(part)
        update_matches(index, np.empty(0, dtype=np.int64), part)
    assert (index.matches.died != IN_FORCE).sum() == 2
    best = held(index)
    assert len(list_pending_matches(index).begun) == 1
    index.settle(2)
    assert held(index) == best
    assert (index.matches.born.tolist(), index.matches.died.tolist()) == ([2], [IN_FORCE])
    for number in (2, 3, 4):
        (vertex,) = index.find_vertices(np.array([number])).tolist()
        rows = index.postings.matches_by_target.find(vertex)
        assert rows.tolist() == ([0] if number == 4 else [])
    assert index.postings.matches_by_source.find(0).tolist() == [0]
    advance(index, 3, ended=[4])
    assert [one.target for one in held(index)] == [int(index.incoming.id[1])]


@given(
    similarity=st.lists(st.integers(0, 30), min_size=1, max_size=40),
    has_ended=st.lists(st.booleans(), min_size=40, max_size=40),
    budget=st.integers(0, 41),
    near=st.none() | st.integers(-1, 31),
    chance=st.randoms(),
)
def test_a_threshold_near_a_known_one_is_the_one_of_all_matches(
    similarity: list[int],
    has_ended: list[bool],
    budget: int,
    near: int | None,
    chance: Random,
) -> None:
    count, step = len(similarity), 0.0004  # several steps are near
    ids = np.array(chance.sample(range(1000), count), dtype=np.int64)
    numbers, zeros = np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
    values = np.array(similarity) * step
    died = np.where(has_ended[:count], np.int32(1), np.int32(IN_FORCE))
    index = LiveIndex(2)
    index.matches = MatchTable(
        source_question=numbers, target_question=zeros, similarity=values, born=zeros, died=died
    )
    index.outgoing = OutgoingQuestionTable(
        id=ids,
        passage_row=zeros,
        vector_row=zeros,
        keyword_start=zeros,
        keyword_count=zeros,
        match_row=numbers,
    )
    is_current = died == IN_FORCE
    known = None if near is None else EdgeThreshold(near * step, QuestionId(5))
    assert find_head_threshold(index, budget, known) == (
        int(is_current.sum()),
        find_edge_threshold(ids[is_current], values[is_current], budget),
    )
