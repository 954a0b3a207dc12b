"""The measures, with values worked out by hand and the cases of SQuAD's and HotpotQA's scripts."""

import pytest

from hopsyncd.evaluation.measures import (
    Share,
    compute_answer_f1,
    compute_bootstrap_interval,
    compute_exact_match,
    judge_retrieval,
    normalise_answer,
)


@pytest.mark.parametrize(
    ("answer", "same_as"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("an apple a day", "apple day"),
        ("  U.S.A. ", "usa"),
        ("theatre of Anne", "theatre of anne"),
        ("re-use", "reuse"),
        ("\u201cthe\u201d end", "\u201c \u201d end"),
        ("A", ""),
    ],
)
def test_answers_are_normalised_as_the_scripts_do(answer: str, same_as: str) -> None:
    assert normalise_answer(answer) == same_as


def test_an_exact_match_is_with_any_gold_answer() -> None:
    assert compute_exact_match("the Robins.", ["Dodgers", "Robins"]) == 1
    assert compute_exact_match("Brooklyn Robins", ["Dodgers", "Robins"]) == 0
    assert compute_exact_match("", ["Robins"]) == 0


@pytest.mark.parametrize(
    ("answer", "golds", "f1"),
    [
        ("in Upper Wick", ["Upper Wick"], 0.8),
        ("cat cat dog", ["cat dog dog"], 2 / 3),
        ("nothing in common", ["Upper Wick"], 0),
        ("", ["Upper Wick"], 0),
        ("Wick", ["x", "Upper Wick"], 2 / 3),
        ("yes", ["yes"], 1),
        ("yes, both are", ["yes"], 0),
        ("no", ["no one"], 0),
        ("x", [], 0),
    ],
)
def test_f1_is_that_of_the_words_with_the_best_gold_answer(
    answer: str, golds: list[str], f1: float
) -> None:
    assert compute_answer_f1(answer, golds) == pytest.approx(f1)


def test_precision_is_over_the_places_even_where_fewer_were_found() -> None:
    measured = judge_retrieval([2, None], depth=5)
    assert (measured.recall, measured.precision) == (0.5, 0.2)
    assert measured.f1 == pytest.approx(2 * 0.5 * 0.2 / 0.7)
    assert judge_retrieval([None], depth=5).f1 == 0
    assert judge_retrieval([2], depth=1).recall == 0


def test_the_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    values = [1.0] * 6 + [0.0] * 4
    low, high = compute_bootstrap_interval(values)
    assert 0.2 < low < 0.6 < high < 1
    assert compute_bootstrap_interval(values) == (low, high)
    assert compute_bootstrap_interval([1.0] * 5) == (1.0, 1.0)


def test_a_share_of_questions_has_wilsons_interval() -> None:
    """The values are those of Newcombe (1998), method 3: 81 of 263, and 0 of 20."""
    share = Share.from_values([1.0] * 81 + [0.0] * 182)
    assert (share, share.low, share.high) == pytest.approx((30.8, 25.53, 36.62), abs=0.01)
    none = Share.from_values([0.0] * 20)
    assert (none.low, none.high) == pytest.approx((0.0, 16.11), abs=0.01)


def test_a_mean_of_recalls_has_a_bootstrap_interval() -> None:
    values = [1.0, 0.5, 0.5, 0.0]
    share = Share.from_values(values)
    assert (share.low, share.high) == tuple(100 * end for end in compute_bootstrap_interval(values))
    assert share == 50.0
