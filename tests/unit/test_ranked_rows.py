"""Of a common key only the lowest ids are looked at, and these are found."""

import numpy as np
import pytest

from hopsyncd.index.postings import RANK_BITS, Postings, rank_keys
from store.records import compute_content_id

ABOUT = 20


@pytest.fixture(scope="module")
def ids() -> np.ndarray:
    """Ids of content, of which the first 6,000 have key 1, the next 30 key 2, the others key 3."""
    return np.array([compute_content_id(number) for number in range(10_000)], dtype=np.int64)


@pytest.fixture(scope="module")
def postings(ids: np.ndarray) -> Postings:
    """They come in several parts, so that there are several segments."""
    postings, keys = Postings(), np.repeat([1, 2, 3], [6000, 30, 3970])
    for rows in np.array_split(np.arange(len(ids)), 7):
        postings.add(rank_keys(keys[rows], ids[rows]), rows)
    return postings


def test_about_the_wanted_number_of_rows_of_a_common_key_is_returned(
    postings: Postings, ids: np.ndarray
) -> None:
    found = postings.find_lowest(np.array([1, 2, 3]), ABOUT)
    assert found.is_cut.tolist() == [True, False, True]
    for position, (first, end) in enumerate([(0, 6000), (6000, 6030), (6030, 10_000)]):
        rows = found.rows[found.positions == position]
        lowest = first + np.argsort(ids[first:end])[: len(rows)]
        assert {*rows.tolist()} == {*lowest.tolist()}
        assert len(rows) == 30 if position == 1 else ABOUT / 2 < len(rows) < 4 * ABOUT


def test_rows_below_a_rank_are_found(postings: Postings, ids: np.ndarray) -> None:
    order = np.argsort(ids[:6000])
    ends = rank_keys(np.array([1, 2]), np.array([ids[order[100]], 0]))
    rows, positions = postings.find_below(np.array([1, 2]), ends, 50, 6000)
    assert {*rows.tolist()} == {*order[:100].tolist()}
    assert not positions.any()
    fewer, _ = postings.find_below(np.array([1, 2]), ends, 50, 8)
    assert {*order[:8].tolist()} <= {*fewer.tolist()} < {*rows.tolist()}
    none, _ = postings.find_below(np.array([1, 2]), ends, 101, 6000)
    assert not len(none)


def test_ranks_of_content_ids_are_in_the_upper_half(ids: np.ndarray) -> None:
    ranks = rank_keys(np.zeros(len(ids), dtype=np.int64), ids)
    assert ranks.min() >= 1 << RANK_BITS - 1
    assert ranks.max() < 1 << RANK_BITS
