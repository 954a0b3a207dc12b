"""Vectors and their codes: how near codes are to the exact vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from hopsyncd.index.vectors import VectorTable
from store.records import GRID, Vectors, to_grid

# Few components, as codes are made for; many, of which most are nothing, as they are not.
_some = st.sampled_from([3, 24, 400]).flatmap(
    lambda width: arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.just(width)),
        elements=st.floats(-1, 1),
        fill=st.just(0.0) if width > 24 else None,
    )
)


def table_of(vectors: Vectors) -> VectorTable:
    table = VectorTable(vectors.shape[1])
    table.append(vectors)
    return table


def exact(table: VectorTable) -> Vectors:
    return table.take(np.arange(len(table)))


def cosines(table: VectorTable, vector: NDArray[np.int16]) -> NDArray[np.float32]:
    return table.start_cosines(vector, table.codes)()


@given(rows=_some)
def test_codes_fit_in_eight_bits_and_are_within_half_a_step(rows: NDArray[np.float64]) -> None:
    table = table_of(to_grid(rows))
    codes = table.codes.astype(np.int64)
    assert (np.abs(codes) <= 127).all()
    inside = np.abs(codes) < 127  # what is larger has the largest code
    off = np.abs(exact(table) - codes * table.step)
    assert (off[inside] <= table.step / 2 + 1e-3).all()


def test_a_zero_vector_has_a_zero_code_and_cosine_0() -> None:
    zero = np.zeros((1, 3), dtype=np.int16)
    table = VectorTable(3)
    table.append(np.vstack([zero, to_grid(np.eye(3))]))
    assert table.codes[0].tolist() == [0, 0, 0]
    assert cosines(table, zero[0]).tolist() == [0, 0, 0, 0]
    assert cosines(table, to_grid(np.eye(3))[0]).tolist() == pytest.approx([0, 1, 0, 0], abs=0.02)


def test_cosines_are_near_the_exact_ones_and_depend_on_the_two_vectors_only() -> None:
    vectors = to_grid(np.random.default_rng(2).normal(size=(1000, 384)))
    table, turned = VectorTable(384), VectorTable(384)
    assert len(cosines(table, vectors[0])) == 0
    for start in range(0, 1000, 300):
        assert table.append(vectors[start : start + 300]) == start
    turned.append(vectors[::-1])
    for asked in vectors[:5]:
        found = cosines(table, asked)
        exact = (vectors.astype(np.float64) @ asked.astype(np.float64)) / GRID**2
        assert np.abs(found - exact).mean() < 1e-3
        assert np.abs(found - exact).max() < 6e-3
        assert found.tolist() == cosines(turned, asked)[::-1].tolist()


def test_a_table_grows_under_a_reader_and_can_be_replaced() -> None:
    vectors = to_grid(np.random.default_rng(3).normal(size=(2000, 8)))
    table, other = VectorTable(8), VectorTable(8)
    table.append(vectors[:100], [0])
    before = table.codes
    table.append(vectors[100:], [50])
    assert (len(before), len(table)) == (100, 2000)
    assert (before == table.codes[:100]).all() and (exact(table) == vectors).all()
    assert (table.codes == table_of(vectors).codes).all()
    other.replace(table.codes, table.remainders, len(table), table.passage_codes, 2, table.outliers)
    assert other.append(vectors[:1], [0]) == 2000
    assert (other.passage_codes == table.codes[[0, 150, 0]]).all()
    assert (exact(other) == np.vstack([vectors, vectors[:1]])).all()
    assert cosines(other, vectors[7])[:2000].tolist() == cosines(table, vectors[7]).tolist()


@pytest.mark.parametrize("longer", ["codes", "remainders"])
def test_a_table_grows_from_arrays_of_which_one_has_more_room(longer: str) -> None:
    vectors = to_grid(np.random.default_rng(4).normal(size=(900, 8)))
    whole, table = table_of(vectors), VectorTable(8)
    room = {name: getattr(whole, name)[:100].copy() for name in ("codes", "remainders")}
    room[longer] = np.resize(room[longer], (800, room[longer].shape[1]))
    none = np.empty((0, 8), dtype=np.int8)
    outliers = table_of(vectors[:100]).outliers
    table.replace(room["codes"], room["remainders"], 100, none, 0, outliers)
    table.append(vectors[100:200])
    table.append(vectors[200:])
    assert (exact(table) == vectors).all() and (table.codes == whole.codes).all()


@given(rows=_some)
def test_exact_vectors_and_bounds_of_errors_come_back(rows: NDArray[np.float64]) -> None:
    """Also where components are much larger than codes can express."""
    vectors = to_grid(rows)
    table = table_of(vectors)
    assert (exact(table) == vectors).all()
    assert (table.take(np.array([len(vectors) - 1, 0, 0])) == vectors[[-1, 0, 0]]).all()
    errors = np.linalg.norm(vectors - table.codes * table.step, axis=1)
    bounds = table.take_errors(np.arange(len(table)))
    assert (errors <= bounds).all()
    assert (bounds <= 1.08 * errors + 0.51).all()


def test_products_of_codes_are_the_same_for_pairs_and_for_all() -> None:
    table = table_of(to_grid(np.random.default_rng(5).normal(size=(70, 384))))
    rows, others = np.arange(50), np.arange(20, 70)
    products = table.multiply_all_codes(rows, others)
    codes = table.codes.astype(np.int64)
    assert (products == codes[rows] @ codes[others].T).all()
    assert table.multiply_codes(rows, others).tolist() == products.diagonal().tolist()


def test_two_threads_compute_the_same_cosines_as_one() -> None:
    vectors = to_grid(np.random.default_rng(3).normal(size=(40_000, 24)))
    table, asked = table_of(vectors), vectors[7]
    found = cosines(table, asked)
    for part in (slice(0, 1000), slice(19_500, 20_500), slice(39_000, 40_000)):
        assert (found[part] == cosines(table_of(vectors[part]), asked)).all()


def test_cosines_of_selected_rows_equal_those_of_all_rows() -> None:
    vectors = to_grid(np.random.default_rng(5).normal(size=(5_000, 24)))
    table = table_of(vectors)
    rows = np.random.default_rng(6).integers(0, 5_000, 4_500)
    assert (table.compute_cosines(vectors[7], rows) == cosines(table, vectors[7])[rows]).all()


def test_several_vectors_compared_at_once_have_the_cosines_of_each_alone() -> None:
    vectors = to_grid(np.random.default_rng(8).normal(size=(40_000, 24)))
    table = table_of(vectors)
    asked = vectors[[7, 39_000, 11]]
    found = table.compare_with_all(asked, table.codes)
    assert found.dtype == np.float32
    assert (found == [cosines(table, one) for one in asked]).all()
    assert table.compare_with_all(asked[:1], table.codes[:0]).shape == (1, 0)
