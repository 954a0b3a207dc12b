"""The edge budget and the edge threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index.edge_selection import compute_edge_budget, find_edge_threshold
from store.records import EdgeThreshold

matches = st.dictionaries(st.integers(0, 30), st.sampled_from([0.0, 0.25, 0.5, 1.0]))


def cut(similarities: dict[int, float], budget: int) -> EdgeThreshold | None:
    questions = np.array(list(similarities), dtype=np.int64)
    return find_edge_threshold(
        questions, np.array(list(similarities.values()), dtype=np.float64), budget
    )


def admitted(similarities: dict[int, float], cut: EdgeThreshold | None) -> set[int]:
    return {
        question
        for question, similarity in similarities.items()
        if cut is None or (-similarity, question) <= (-cut.similarity, cut.question)
    }


@pytest.mark.parametrize(("passages", "edges"), [(0, 0), (1, 0), (2, 1), (10, 23), (1000, 6907)])
def test_the_edge_budget_grows_with_n_log_n(passages: int, edges: int) -> None:
    assert compute_edge_budget(passages, 1.0) == edges


def test_a_larger_factor_allows_more_edges() -> None:
    assert compute_edge_budget(1000, 2.0) == 13815
    assert compute_edge_budget(1000, 0.0) == 0


def test_budgets_of_no_edge_one_edge_and_all_edges() -> None:
    similarities = {9: 0.5, 3: 0.5, 7: 0.9}
    assert admitted(similarities, cut(similarities, 0)) == set()
    assert admitted(similarities, cut(similarities, 1)) == {7}
    assert admitted(similarities, cut(similarities, 2)) == {7, 3}
    assert cut(similarities, 3) is None
    assert cut({}, 0) is None


@given(matches, st.integers(0, 40))
def test_the_threshold_admits_exactly_the_budget(
    similarities: dict[int, float], budget: int
) -> None:
    best = sorted(similarities, key=lambda question: (-similarities[question], question))
    assert admitted(similarities, cut(similarities, budget)) == set(best[:budget])
