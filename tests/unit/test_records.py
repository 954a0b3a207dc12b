"""The arithmetic that every database and every machine must agree on."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.records import (
    GRID,
    Direction,
    Passage,
    compact_json,
    compute_content_id,
    compute_question_id,
    compute_set_id,
    hash_content,
    to_grid,
)


def test_ids_are_the_same_in_every_release() -> None:
    """A change here makes every database on earth generate all its questions again."""
    passage = Passage(("Rome", "History"), "Rome was not built in a day. 東京 é")
    assert passage.id == 5754049424973403303
    assert compute_set_id(passage.id, "builtin/1") == 2197206900325306767
    assert (
        compute_question_id(compute_set_id(passage.id, "builtin/1"), Direction.OUTGOING, 3)
        == 1520038277607748662
    )
    assert hash_content(b"Rome").hex() == "84a75b3a14edc7a03508f2cebb3a1626"


def test_an_id_depends_on_the_heading_path_and_the_text() -> None:
    ids = {
        Passage(("Rome",), "A city.").id,
        Passage(("Rome",), "A town.").id,
        Passage(("Gaul",), "A city.").id,
        Passage(("Ro", "me"), "A city.").id,
        Passage((), "Rome A city.").id,
    }
    assert len(ids) == 5


@given(st.lists(st.text(max_size=5), max_size=3))
def test_an_id_fits_a_positive_64_bit_integer(parts: list[str]) -> None:
    assert 0 <= compute_content_id(*parts) < 2**63


@given(st.lists(st.text() | st.lists(st.text()) | st.integers() | st.none(), max_size=3))
def test_an_id_is_a_digest_of_the_json_of_the_parts(parts: list[object]) -> None:
    digest = hashlib.blake2b(compact_json(parts), digest_size=8).digest()
    assert compute_content_id(*parts) == int.from_bytes(digest, "big") >> 1


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), dimensions=st.sampled_from([1, 16, 384, 768, 1024, 4096]))
def test_float32_products_of_grid_vectors_are_exact(seed: int, dimensions: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(24, dimensions))
    vectors[1] = vectors[0]
    vectors[2] = -vectors[0]
    vectors[3] = np.abs(vectors[3]) + 1  # all of a sign: the largest sums on the way
    grid = to_grid(vectors)
    exact = grid.astype(np.int64) @ grid.astype(np.int64).T
    assert (grid.astype(np.float32) @ grid.astype(np.float32).T == exact).all()


@pytest.mark.parametrize("dimensions", [384, 4096])
def test_the_worst_rounding_stays_exact_too(dimensions: int) -> None:
    """All components are rounded up, so that the sum is as large as it can be."""
    component = (np.floor(GRID / np.sqrt(dimensions)) + 0.5) / GRID
    grid = to_grid(np.full((1, dimensions), component))
    total = int((grid.astype(np.int64) ** 2).sum())
    assert total < 2**24
    assert (grid.astype(np.float32) @ grid.astype(np.float32).T)[0, 0] == total


def test_the_length_of_a_vector_does_not_change_its_direction() -> None:
    assert (to_grid(np.array([[3.0, 4.0]])) == to_grid(np.array([[0.3, 0.4]]))).all()
    assert to_grid(np.array([[3.0, 4.0]])).tolist() == [[2400, 3200]]


@pytest.mark.parametrize("bad", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_vector_without_direction_is_similar_to_nothing(bad: list[float]) -> None:
    assert to_grid(np.array([bad, [1.0, 0.0]])).tolist() == [[0, 0], [GRID, 0]]
