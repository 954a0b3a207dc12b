"""Tables and postings only grow, and a reader's arrays never change; arithmetic on arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hopsyncd.index.arrays import (
    expand_ranges,
    find_range_maxima,
    find_sorted,
    select_first_of_groups,
    select_largest_of_groups,
    sum_exactly,
    take_flags,
    to_sortable,
)
from hopsyncd.index.postings import Postings, Segment, list_columns, merge_segments, read_segment
from hopsyncd.index.tables import KeyNumbers, Table
from tests.fakes.indexed import drawn

_keys = st.lists(st.integers(0, 12), max_size=20)
_far = st.lists(st.sampled_from([0, 1, 9, 12, 1 << 62]), max_size=20)
_asked = st.lists(st.integers(-1, 20) | st.sampled_from([1 << 62]), max_size=20)


def ints(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs(Table):
    large: NDArray[np.int64]
    small: NDArray[np.int32]


def pairs(*values: int) -> Pairs:
    return Pairs(large=ints(values), small=np.array(values, dtype=np.int32))


class TestTable:
    @given(batches=st.lists(st.lists(st.integers(-9, 9), max_size=300), max_size=8))
    def test_rows_are_kept_in_the_order_in_which_they_were_added(
        self, batches: list[list[int]]
    ) -> None:
        table, expected = Pairs.make_empty(), list[int]()
        for batch in batches:
            new = Pairs(large=ints(batch), small=np.array(batch, dtype=np.int32) * -1)
            table = table.extend(new)
            expected += batch
            assert len(table) == len(expected)
        assert (table.large.tolist(), (-table.small).tolist()) == (expected, expected)
        assert [table.large.dtype, table.small.dtype] == [np.dtype(np.int64), np.dtype(np.int32)]

    def test_adding_rows_leaves_the_arrays_of_a_reader_unchanged(self) -> None:
        before = Pairs.make_empty().extend(pairs(1, 2))
        after = before.extend(pairs(*range(1000)))
        assert (before.large.tolist(), len(before)) == ([1, 2], 2)
        assert (len(after), after.large[:4].tolist()) == (1002, [1, 2, 0, 1])

    def test_rows_that_fit_into_the_spare_room_are_added_in_place(self) -> None:
        before = Pairs.make_empty().extend(pairs(1))
        after = before.extend(pairs(2))
        assert np.shares_memory(before.large, after.large)
        after.small[0] = 7
        assert before.small.tolist() == [7]

    def test_a_table_can_be_made_from_arrays_with_spare_room(self) -> None:
        given = {"large": ints([3, 4, 0, 0]), "small": np.zeros(4, dtype=np.int32)}
        table = Pairs.from_buffers(given, 2)
        assert (len(table), table.large.tolist()) == (2, [3, 4])
        assert table.extend(pairs(5)).large.tolist() == [3, 4, 5]
        assert given["large"].tolist() == [3, 4, 5, 0]
        more = table.extend(pairs(6, 7, 8))
        assert (more.large.tolist(), given["large"].tolist()) == ([3, 4, 6, 7, 8], [3, 4, 5, 0])

    def test_arrays_of_another_type_are_refused(self) -> None:
        with pytest.raises(ValueError, match="small is int64, not int32"):
            Pairs.from_buffers({"large": ints([1]), "small": ints([1])}, 1)

    def test_every_table_declares_the_types_of_its_columns(self) -> None:
        index = drawn(3, [(0, 1, 0.9)], linked=[(1, 2)]).index
        tables = [table for table in vars(index).values() if isinstance(table, Table)]
        assert len(tables) == 19
        for table in tables:
            columns = table.get_columns()
            assert columns
            assert {name: column.dtype for name, column in columns.items()} == table.get_dtypes()


class TestPostings:
    @given(
        batches=st.lists(_keys | _far, max_size=6),
        asked=_asked,
        at_once=st.sampled_from([1, 3, 7, 4096]),
    )
    def test_postings_return_the_rows_of_each_key_in_the_order_in_which_they_were_added(
        self, batches: list[list[int]], asked: list[int], at_once: int
    ) -> None:
        """Also where segments are so small that there are many, and where keys lie far apart."""
        postings, expected, position = Postings(), dict[int, list[int]](), 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hopsyncd.index.postings._SMALL", at_once)
            for batch in batches:
                positions = np.arange(position, position + len(batch))
                postings.add(ints(batch), positions)
                for key, one in zip(batch, positions.tolist(), strict=True):
                    expected.setdefault(key, []).append(one)
                position += len(batch)
        found, of = postings.find_all(ints(asked))
        assert of.tolist() == [
            index for index, key in enumerate(asked) for _ in expected.get(key, ())
        ]
        assert found.tolist() == [one for key in asked for one in expected.get(key, ())]
        some, of = postings.find_all(ints(asked), limit=2)
        for index, key in enumerate(asked):
            few, every = some[of == index].tolist(), expected.get(key, [])
            assert len(few) >= min(2, len(every))
            assert {*few} <= {*every}
        for key in range(13):
            assert postings.find(key).tolist() == expected.get(key, [])
        segment = merge_segments(postings.freeze())
        taken = Postings()
        taken.replace(segment)
        ascending = sorted(key for key, rows in expected.items() for _ in rows)
        assert segment.list_keys().tolist() == ascending
        positions_of_rows = np.arange(len(ascending))
        assert segment.take_keys(positions_of_rows).tolist() == ascending
        assert taken.find_all(ints(asked))[0].tolist() == found.tolist()
        columns = dict(list_columns("found", segment))
        lengths = {name: len(column) for name, column in columns.items()}
        taken.replace(read_segment("found", columns, lengths))
        assert taken.find_all(ints(asked))[0].tolist() == found.tolist()

    def test_a_segment_is_dense_if_it_can_be_or_else_takes_the_smaller_form(self) -> None:
        rows = np.arange(8192, dtype=np.int32)
        numbers = np.arange(8192, dtype=np.int64)
        dense = Segment.build(numbers // 4, rows)
        grouped = Segment.build(numbers // 4 << 40, rows)
        plain = Segment.build(numbers << 40, rows)
        assert [len(each.keys) for each in (dense, grouped, plain)] == [0, 2048, 8192]
        assert plain.offsets is None
        for each, width in ((dense, 1), (grouped, 1 << 40)):
            starts, ends = each.find(ints([-2, -1, 0, 5, 2047, 2048, 4000]) * width)
            assert starts.tolist() == [0, 0, 0, 20, 8188, 8192, 8192]
            assert ends.tolist() == [0, 0, 4, 24, 8192, 8192, 8192]

    def test_segments_are_merged(self) -> None:
        postings, rng = Postings(), np.random.default_rng(1)
        keys = rng.integers(0, 999, 100_000)
        for start in range(0, len(keys), 500):
            postings.add(keys[start : start + 500], np.arange(start, start + 500))
        assert len(postings._segments) <= 6
        sizes = [len(segment.rows) for segment in postings._segments]
        assert all(one >= 2 * next_ for one, next_ in pairwise(sizes))
        for key in (0, 500, 998):
            assert postings.find(key).tolist() == np.flatnonzero(keys == key).tolist()


class TestKeyNumbers:
    @given(batches=st.lists(_keys, max_size=6), asked=_keys)
    def test_a_key_keeps_its_number(self, batches: list[list[int]], asked: list[int]) -> None:
        numbers, expected = KeyNumbers(), dict[int, int]()
        for batch in batches:
            for key in batch:
                expected.setdefault(key, len(expected))
            assert numbers.add(ints(batch)).tolist() == [expected[key] for key in batch]
        assert numbers.find(ints(asked)).tolist() == [expected.get(key, -1) for key in asked]
        assert (len(numbers), numbers.keys.tolist()) == (len(expected), list(expected))
        taken = KeyNumbers()
        taken.replace(numbers.keys, len(numbers))
        assert taken.find(ints(asked)).tolist() == numbers.find(ints(asked)).tolist()


@given(spans=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=6))
def test_expand_ranges_gives_all_positions(spans: list[tuple[int, int]]) -> None:
    first = ints([start for start, _ in spans])
    at, number = expand_ranges(first, first + ints([length for _, length in spans]))
    assert list(zip(at.tolist(), number.tolist(), strict=True)) == [
        (start + step, which)
        for which, (start, length) in enumerate(spans)
        for step in range(length)
    ]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=12),
    count=st.integers(1, 3),
)
def test_select_first_of_groups_sorts_by_the_keys_in_turn(
    rows: list[tuple[int, int, int]], count: int
) -> None:
    group, first, second = (ints([row[index] for row in rows]) for index in range(3))
    found = select_first_of_groups(group, first, second, count=count).tolist()
    assert found == [
        at
        for which in sorted({row[0] for row in rows})
        for at in sorted(
            (index for index, row in enumerate(rows) if row[0] == which), key=lambda at: rows[at]
        )[:count]
    ]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-1.5, -0.0, 0.0, 0.25, 3.0]))),
    count=st.integers(1, 3),
)
def test_select_largest_of_groups_includes_ties(rows: list[tuple[int, float]], count: int) -> None:
    group = ints([one for one, _ in rows])
    values = to_sortable(np.array([value for _, value in rows], dtype=np.float32))
    least = {one: sorted((v for g, v in rows if g == one), reverse=True) for one, _ in rows}
    assert select_largest_of_groups(group, values, count).tolist() == [
        index for index, (one, value) in enumerate(rows) if value >= least[one][:count][-1]
    ]


@given(
    values=st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), max_size=30), seed=st.integers(0)
)
def test_sum_exactly_does_not_depend_on_the_order(
    values: list[tuple[int, float]], seed: int
) -> None:
    group = ints([one for one, _ in values])
    parts = np.array([value for _, value in values], dtype=np.float64)
    order = np.random.default_rng(seed).permutation(len(values))
    sums = sum_exactly(parts, group, 5, 2.0**-46)
    assert sums.tolist() == sum_exactly(parts[order], group[order], 5, 2.0**-46).tolist()
    assert sums == pytest.approx(np.bincount(group, parts, 5), abs=1e-12)


def test_take_flags_and_find_sorted_for_absent_rows() -> None:
    none = np.empty(0, dtype=np.int64)
    assert take_flags(np.empty(0, dtype=np.bool_), ints([0, 3])).tolist() == [False, False]
    assert [one.tolist() for one in find_sorted(none, ints([3]))] == [[0], [False]]
    assert [one.tolist() for one in find_sorted(ints([2, 5]), ints([5, 4, 9]))] == [
        [1, 1, 0],
        [True, False, False],
    ]


@pytest.mark.parametrize("least", [0, -5, -(10**17)])
def test_many_numbers_are_found_like_few(least: int) -> None:
    rng = np.random.default_rng(7)
    values = np.flatnonzero(rng.random(20_000) < 0.3) + least
    wanted = rng.integers(-9, 30_000, 9000) + least
    positions, is_there = find_sorted(values, wanted)
    assert is_there.tolist() == np.isin(wanted, values).tolist()
    assert (values[positions[is_there]] == wanted[is_there]).all()
    assert not find_sorted(values[:0], wanted)[1].any()


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12), data=st.data())
def test_find_range_maxima_gives_the_maximum_of_each_range(
    sizes: list[int], data: st.DataObject
) -> None:
    near = st.floats(-1, 1, width=32)
    values = data.draw(st.lists(near, min_size=sum(sizes), max_size=sum(sizes)))
    end = np.cumsum(ints(sizes))
    first = end - ints(sizes)
    found = find_range_maxima(np.array(values, dtype=np.float32), first, end)
    assert found.tolist() == [max(values[a:b]) for a, b in zip(first, end, strict=True)]
