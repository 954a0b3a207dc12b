"""The edge budget and its movable cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index.edge_budget import Ranking, edge_budget, move, rank
from store.records import Cut, Match, QuestionId

matches = st.dictionaries(st.integers(0, 30), st.sampled_from([0.0, 0.25, 0.5, 1.0]))


def ranking_of(similarities: dict[int, float]) -> Ranking:
    questions = list(similarities)
    return rank(
        np.array(questions, dtype=np.int64),
        np.array([similarities[question] for question in questions], dtype=np.float64),
    )


def as_matches(similarities: dict[int, float]) -> list[Match]:
    return [Match(QuestionId(q), QuestionId(0), s) for q, s in similarities.items()]


def admitted(similarities: dict[int, float], cut: Cut | None) -> set[int]:
    return {
        question
        for question, similarity in similarities.items()
        if cut is None or (-similarity, question) <= (-cut.similarity, cut.question)
    }


@pytest.mark.parametrize(("passages", "edges"), [(0, 0), (1, 0), (2, 1), (10, 23), (1000, 6907)])
def test_the_budget_is_n_log_n(passages: int, edges: int) -> None:
    assert edge_budget(passages, 1.0) == edges


def test_the_factor_widens_the_budget() -> None:
    assert edge_budget(1000, 2.0) == 13815
    assert edge_budget(1000, 0.0) == 0


def test_the_best_come_first_and_ties_go_to_the_lower_id() -> None:
    assert ranking_of({9: 0.5, 3: 0.5, 7: 0.9}).question.tolist() == [7, 3, 9]


def test_a_budget_of_none_one_and_all() -> None:
    similarities = {9: 0.5, 3: 0.5, 7: 0.9}
    ranking = ranking_of(similarities)
    assert admitted(similarities, ranking.cut(0)) == set()
    assert admitted(similarities, ranking.cut(1)) == {7}
    assert admitted(similarities, ranking.cut(2)) == {7, 3}
    assert ranking.cut(3) is None
    assert ranking_of({}).cut(0) is None


@given(matches, st.integers(0, 40))
def test_the_cut_admits_exactly_the_budget(similarities: dict[int, float], budget: int) -> None:
    cut = ranking_of(similarities).cut(budget)
    assert len(admitted(similarities, cut)) == min(budget, len(similarities))


@given(before=matches, after=matches)
def test_moving_the_cut_equals_ranking_afresh(
    before: dict[int, float], after: dict[int, float]
) -> None:
    ended = {q: s for q, s in before.items() if after.get(q) != s}
    begun = {q: s for q, s in after.items() if before.get(q) != s}
    moved = move(ranking_of(before), as_matches(ended), as_matches(begun))
    fresh = ranking_of(after)
    assert moved.question.tolist() == fresh.question.tolist()
    assert moved.loss.tolist() == fresh.loss.tolist()
