"""Eq. 1 of the paper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index.similarity import jaccard, similarity
from store.records import to_grid

NORTH, EAST = to_grid(np.array([[1.0, 0.0], [0.0, 1.0]]))
words = st.frozensets(st.sampled_from("abcdef"), max_size=4)
vectors = st.lists(st.integers(-5, 5), min_size=3, max_size=3)


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
    assert jaccard(set(a.split()), set(b.split())) == expected


def test_equal_triplets_are_as_similar_as_can_be() -> None:
    assert similarity({"rome"}, NORTH, {"rome"}, NORTH) == 1


def test_half_comes_from_keywords_and_half_from_meaning() -> None:
    assert similarity({"rome"}, NORTH, {"rome"}, EAST) == 0.5
    assert similarity({"rome"}, NORTH, {"gaul"}, NORTH) == 0.5
    assert similarity({"rome"}, NORTH, {"gaul"}, -NORTH) == -0.5


@given(words, vectors, words, vectors)
def test_similarity_is_symmetric_and_close_to_the_formula(
    ka: frozenset[str], va: list[int], kb: frozenset[str], vb: list[int]
) -> None:
    a, b = to_grid(np.array([va, vb], dtype=np.float64))
    found = similarity(ka, a, kb, b)
    assert found == similarity(kb, b, ka, a)
    length = np.linalg.norm(va) * np.linalg.norm(vb)
    cosine = float(np.dot(va, vb) / length) if length else 0.0
    assert found == pytest.approx((jaccard(ka, kb) + cosine) / 2, abs=5e-4)
