"""Passages held against a question by their best sentence."""

from collections.abc import Sequence

import numpy as np
import pytest

from hopsyncd.index.matching import MergeIndex
from hopsyncd.index.view import view_of
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.walk import Coverage
from store.records import Passage, PassageId
from tests.fakes.triplets import triplets

EAST = (1, 0)
TERMS = {"award": 0.5, "leav": 0.3, "expir": 0.2}


def best(text: str, cosines: Sequence[float], heading: tuple[str, ...] = ()) -> float:
    """Of a passage with so many rows: the first is its own, the others are of sentences."""
    index = MergeIndex(2)
    index.change((), [triplets(5, incoming=[("x", EAST)] * (len(cosines) - 1))])
    query = QueryContext(
        view_of(index, 0),
        np.array(cosines),
        {},
        np.zeros(1),
        Coverage(np.empty(0), np.empty((0, 1))),
        TERMS,
        lambda _: {PassageId(5): Passage(heading, text)},
    )
    return float(query.by_sentence([0])[0])


def test_words_count_where_they_stand_in_one_sentence() -> None:
    together = "Award leave expires after one year, as always. Nothing else is known about it."
    apart = (
        "Every award is announced to all of the staff. Leave is taken by the hour, then expires."
    )
    assert best(together, (0, 0, 0)) == pytest.approx(1.0)
    assert best(apart, (0, 0, 0)) == pytest.approx(0.5)


def test_the_cosine_is_that_of_the_same_sentence() -> None:
    text = "Award leave expires after one year, as always. Nothing else is known about it."
    assert best(text, (0, 0.1, 0.9)) == pytest.approx(1.1)
    assert best(text, (0, 0.1, 0.9), ("Award leave",)) == pytest.approx(0.9 + 0.8)


def test_rows_that_are_not_those_of_the_sentences_have_no_part() -> None:
    text = "Award leave expires after one year, as always. Nothing else is known about it."
    assert best(text, (0.4, 0.9)) == pytest.approx(1.4)
    assert best(text, (0.4, 0.9, 0.9, 0.9)) == pytest.approx(1.4)
