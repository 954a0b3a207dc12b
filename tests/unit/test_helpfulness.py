"""The last ranking: what is new first."""

import numpy as np

from hopsyncd.retrieve.query_context import Coverage
from hopsyncd.retrieve.ranking import select_most_helpful

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
