"""The largest of many values: found among values in 32 bits, then decided in 64 bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.retrieve.ranking import select_largest, select_nearly_largest

ROUNDING = 0.01


@given(
    values=st.lists(st.integers(0, 40), min_size=1, max_size=300),
    left_out=st.sets(st.integers(0, 299)),
    count=st.integers(1, 30),
)
def test_the_largest_values_are_among_the_nearly_largest(
    values: list[int], left_out: set[int], count: int
) -> None:
    exact = np.array(values) / 100
    exact[[at for at in left_out if at < len(exact)]] = -np.inf
    noise = np.random.default_rng(len(values)).uniform(-ROUNDING, ROUNDING, len(exact))
    rows = select_nearly_largest((exact + noise).astype(np.float32), count, 1.01 * ROUNDING)
    ids = np.random.default_rng(count).permutation(len(exact))
    expected = select_largest(exact, ids, count)
    found = rows[select_largest(exact[rows], ids[rows], count)]
    assert found.tolist() == expected[exact[expected] > -np.inf].tolist()
