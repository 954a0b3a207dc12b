"""Where the walk begins, in a graph of three passages."""

import numpy as np
import pytest

from hopsyncd.index.matching import MergeIndex
from hopsyncd.index.view import GraphView, view_of
from hopsyncd.retrieve.seeds import seeds, worths
from store.records import PassageId
from tests.fakes.triplets import triplets

ROME, GAUL, OSLO = 0, 1, 2
EAST = (1, 0)
NO_WORDS = np.zeros(3)


@pytest.fixture
def view() -> GraphView:
    """Rows 0 and 1 are of Rome, 2 to 4 of Gaul, 5 and 6 of Oslo. Two mention Caesar, and the
    document of the first is called that."""
    index = MergeIndex(2)
    index.change(
        (),
        [
            triplets(5, incoming=[("caesar", EAST)]),
            triplets(6, incoming=[("gaul", EAST), ("caesar", EAST)]),
            triplets(7, incoming=[("oslo", EAST)]),
        ],
    )
    return view_of(index, 0, called=[(PassageId(5), "caesar")])


def like(row: int) -> np.ndarray:
    """Cosines of a query that one row is like."""
    cosines = np.zeros(7)
    cosines[row] = 0.6
    return cosines


def test_mass_sums_to_one_and_is_even_where_nothing_tells_passages_apart(view: GraphView) -> None:
    assert seeds(view, np.zeros(7), NO_WORDS, {}).tolist() == pytest.approx([1 / 3] * 3)


def test_a_passage_is_as_like_the_query_as_its_best_sentence(view: GraphView) -> None:
    by_sentence, by_whole = (seeds(view, like(row), NO_WORDS, {}) for row in (4, 2))
    assert by_sentence.argmax() == GAUL
    assert by_sentence.tolist() == by_whole.tolist()


def test_what_both_cosines_and_words_favour_is_worth_more_than_the_sum_of_both(
    view: GraphView,
) -> None:
    words = np.array([0.1, 0.1, 0.0])
    both, cosines, by_words = (
        seeds(view, near, said, {})[GAUL]
        for near, said in ((like(4), words), (like(4), NO_WORDS), (np.zeros(7), words))
    )
    assert both > max(cosines, by_words)
    assert seeds(view, like(4), words, {}).argmax() == GAUL


def test_a_topic_draws_more_than_a_mention_and_both_by_their_worth(view: GraphView) -> None:
    rest = seeds(view, np.zeros(7), NO_WORDS, {})
    little, most = (seeds(view, np.zeros(7), NO_WORDS, {"caesar": worth}) for worth in (0.1, 0.8))
    assert most[ROME] > most[GAUL] > most[OSLO]
    assert little - rest == pytest.approx(np.zeros(3), abs=0.02)
    assert np.abs(most - rest).max() > 0.2


def test_the_worth_of_a_name_is_its_share_of_the_query() -> None:
    weights = {"when": 0.5, "did": 0.5, "caesar": 3.0, "juliu": 4.0, "die": 2.0}
    assert worths(["julius caesar"], weights) == {"julius caesar": 0.7}
    assert worths([], {}) == {}
