"""The last ranking: what is new first."""

import numpy as np

from hopsyncd.retrieve.query_context import Coverage
from hopsyncd.retrieve.ranking import select_most_helpful, select_most_important

IDS = np.array([1, 2, 3])
UNASKED = Coverage(np.empty(0), np.empty((0, 3), dtype=np.bool_))


def order(importance: list[float], coverage: Coverage, k: int) -> list[int]:
    found = select_most_helpful(np.array(importance), IDS, coverage, k)
    return [one.position for one in found]


def test_passages_with_new_words_of_the_query_rank_higher() -> None:
    words = Coverage(np.array([0.5, 0.5]), np.array([[True, True, False], [False, False, True]]))
    assert order([1.0, 0.9, 0.5], words, 3) == [0, 2, 1]
    assert order([1.0, 0.9, 0.5], UNASKED, 3) == [0, 1, 2]


def test_no_more_passages_than_requested_are_ranked() -> None:
    assert order([1.0, 0.9, 0.8], UNASKED, 2) == [0, 1]


def test_passages_that_were_not_reached_are_not_ranked() -> None:
    importance = np.array([-1.0, 0.0, 0.3, -1.0, 0.3, 0.9])
    ids = np.array([1, 2, 9, 3, 8, 4])
    assert select_most_important(importance, ids, 3).tolist() == [5, 4, 2]
    assert select_most_important(importance, ids, 9).tolist() == [5, 4, 2, 1]
    assert not len(select_most_important(np.full(3, -1.0), IDS, 2))
