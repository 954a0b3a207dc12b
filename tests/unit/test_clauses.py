"""A question that asks several things finds passages for each of its clauses."""

import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from hopsyncd.index.arrays import Integers
from hopsyncd.retrieve import ranking
from hopsyncd.retrieve.clauses import read_clauses, split_clauses
from hopsyncd.retrieve.query_context import Coverage, QueryContext
from hopsyncd.retrieve.ranking import rank_by_importance, select_most_helpful
from tests.unit.test_second_ask import FAR, Asking

QUESTION = "How is the rusty gauge cleaned, and who paints the tall mast?"
PAGES = {
    "overview.md": b"# Overview\n\nHow the rusty gauge is cleaned and who paints the tall mast.\n",
    "care.md": b"# Care\n\nOnce the gauge was new.\n",
    "mast.md": b"# Rigging\n\nSailor who paints the tall mast.\n",
}


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path, PAGES | FAR)


@pytest.mark.parametrize(
    ("question", "clauses"),
    [
        ("The gauge is rusty. What helps against rust?", 2),
        ("What helps against rust, and at what time is it open?", 2),
        ("Where is it kept, or does nobody know it?", 2),
        ("I store it in a file; which mode should it have?", 2),
        ("Who wrote the book and the play?", 0),
        ("rusty gauge and tall mast", 0),
        ("Who is Dr. J. Smith of Riga?", 0),
        ("What is kept there and when?", 0),  # one word is too short to be compared
        (" and what does it say".join(["What is in the file"] * 8), 0),  # a story
    ],
)
def test_a_question_is_split_where_it_asks_something_else(question: str, clauses: int) -> None:
    assert len(split_clauses(question)) == clauses


@pytest.mark.parametrize("space", [" ", "\n", ", ", " and "])
def test_a_question_is_split_in_time_linear_in_its_length(space: str) -> None:
    began_s = time.process_time()
    assert split_clauses(f"What is it{space * 30_000}x") == []
    assert time.process_time() - began_s < 3


def find_rows(asking: Asking, context: QueryContext, *titles: str) -> Integers:
    """The passage rows with these titles."""
    rows = context.snapshot.passage_rows.astype(np.int64)
    every = asking.titles(context, rows.tolist())
    found: Integers = rows[[every.index(title) for title in titles]]
    return found


def test_each_passage_is_compared_with_each_clause(asking: Asking) -> None:
    context = asking.context(QUESTION)
    clauses = read_clauses(context)
    assert clauses is not None
    rows = find_rows(asking, context, "Overview", "Rigging", "Topic7")
    gauge, mast = clauses.select(rows)
    assert gauge.argmax() == 0 and mast.argmax() == 1
    assert gauge.max() == 1 and mast.max() == 1
    assert gauge[1] < 0.1 and mast[0] < 0.9 and mast[2] < 0.1


def test_a_question_that_asks_one_thing_is_not_split(asking: Asking) -> None:
    assert read_clauses(asking.context("How is the rusty gauge cleaned with oil?")) is None


def test_a_passage_that_answers_another_clause_ranks_before_a_repetition() -> None:
    class Answers:
        def select(self, rows: np.ndarray) -> np.ndarray:
            return np.array([[1.0, 0.9, 0.1], [0.1, 0.1, 1.0]])[:, rows]

    none = Coverage(np.empty(0), np.empty((0, 3), dtype=np.bool_))
    given = np.array([1.0, 0.9, 0.4]), np.arange(3), none
    for k in (2, 3):
        plain = [row.position for row in select_most_helpful(*given, k)]
        found = [row.position for row in select_most_helpful(*given, k, Answers())]  # type: ignore[arg-type]
        assert plain == [0, 1, 2][:k] and found == [0, 2, 1][:k]


def test_a_passage_gains_where_another_clause_is_answered_better(asking: Asking) -> None:
    context = asking.context(QUESTION)
    overview, care, rigging = rows = find_rows(asking, context, "Overview", "Care", "Rigging")
    importance = np.full(len(context.snapshot.passage_ids), -1.0)
    importance[rows] = [1.0, 0.5, 0.4]
    with patch.object(ranking, "read_clauses", return_value=None):
        plain = [row.position for row in rank_by_importance(context, importance, 3)]
    found = [row.position for row in rank_by_importance(context, importance, 3)]
    assert plain == [overview, care, rigging]
    assert found == [overview, rigging, care]


def test_without_the_encoder_no_clause_is_compared(asking: Asking) -> None:
    context = replace(asking.context(QUESTION), encode=None)
    assert read_clauses(context) is None
