"""Where the walk begins, in a graph of three passages."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.query_context import compute_name_shares
from hopsyncd.retrieve.walk import compute_seeds
from tests.fakes.indexed import advance, asked, document, indexed, snapshot_at
from tests.fakes.triplets import triplets

ROME, GAUL, OSLO = 0, 1, 2
EAST = (1, 0)


@pytest.fixture
def graph() -> Snapshot:
    """Rows 0 and 1 are of Rome, 2 to 4 of Gaul, 5 and 6 of Oslo. Two mention Caesar, and the
    document of the first is called that."""
    sets = [
        triplets(5, incoming=[("caesar", EAST)]),
        triplets(6, incoming=[("gaul", EAST), ("caesar", EAST)]),
        triplets(7, incoming=[("oslo", EAST)]),
    ]
    documents = [
        document(5, "a.md", [5], called=("caesar",)),
        document(6, "b.md", [6]),
        document(7, "c.md", [7]),
    ]
    return indexed(sets, documents)


def begun(
    graph: Snapshot,
    like: int | None = None,
    words: Sequence[float] = (0.0, 0.0, 0.0),
    names: Mapping[str, float] | None = None,
) -> NDArray[np.float64]:
    """The seeds of a query that one row is like."""
    return compute_seeds(asked(graph, {} if like is None else {like: 0.6}, names, words))


def test_seed_scores_sum_to_one_and_are_equal_for_equal_passages(graph: Snapshot) -> None:
    assert begun(graph).tolist() == pytest.approx([1 / 3] * 3)


def test_a_passage_is_as_like_the_query_as_its_best_sentence(graph: Snapshot) -> None:
    by_sentence, by_whole = (begun(graph, row) for row in (4, 2))
    assert by_sentence.argmax() == GAUL
    assert by_sentence.tolist() == by_whole.tolist()


def test_a_passage_favoured_by_cosine_and_words_gets_more_than_the_sum(
    graph: Snapshot,
) -> None:
    words = (0.1, 0.1, 0.0)
    both, cosines, by_words = (
        begun(graph, 4, words)[GAUL],
        begun(graph, 4)[GAUL],
        begun(graph, words=words)[GAUL],
    )
    assert both > max(cosines, by_words)
    assert begun(graph, 4, words).argmax() == GAUL


def test_a_topic_draws_more_than_a_mention_and_both_by_their_worth(graph: Snapshot) -> None:
    rest = begun(graph)
    little, most = (begun(graph, names={"caesar": worth}) for worth in (0.1, 0.8))
    assert most[ROME] > most[GAUL] > most[OSLO]
    assert little - rest == pytest.approx(np.zeros(3), abs=0.02)
    assert np.abs(most - rest).max() > 0.2


def test_a_removed_passage_has_no_score() -> None:
    index = indexed([triplets(5, [("rome", EAST)]), triplets(6, [("rome", EAST)])]).index
    advance(index, 2, [triplets(7, [("rome", EAST)])], [6], [document(7, "c.md", [7])], [1])
    names = {"rome": 0.5}
    now, then = (compute_seeds(asked(snapshot_at(index, at), {3: 0.9}, names)) for at in (2, 1))
    assert now.tolist() == pytest.approx([0.5, 0, 0.5])
    assert then.argmax() == 1
    assert then.sum() == pytest.approx(1)


def test_the_worth_of_a_name_is_its_share_of_the_query() -> None:
    weights = {"when": 0.5, "did": 0.5, "caesar": 3.0, "juliu": 4.0, "die": 2.0}
    assert compute_name_shares(["julius caesar"], weights) == {"julius caesar": 0.7}
    assert compute_name_shares([], {}) == {}
