"""How like a question passages are: whatever is compared, and by which way, it is the same."""

from dataclasses import replace

import numpy as np
import pytest

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.likeness import NEAR, OF_LIKENESS, OF_WORDS, Likeness, NearPassages, fit
from hopsyncd.retrieve.transitions import find_mentions
from store.records import Vectors, to_grid
from tests.fakes.indexed import advance, asked, document, indexed, snapshot_at
from tests.fakes.triplets import triplets

_CHANCE = np.random.default_rng(8)
_DIMENSIONS = 12


def _drawn() -> list[float]:
    return [_CHANCE.normal() for _ in range(_DIMENSIONS)]


def _question() -> Vectors:
    vector: Vectors = to_grid(np.array([_drawn()]))[0]
    return vector


def _some(count: int, sentences: int = 3) -> Snapshot:
    """Passages that all mention one name, in the first of their sentences."""
    return indexed(
        [
            triplets(index, [("rome" if not said else "", _drawn()) for said in range(sentences)])
            for index in range(count)
        ]
    )


def test_similarities_computed_on_demand_equal_those_computed_at_once() -> None:
    served, vector = _some(50), _question()
    once, wanted = Likeness(served, vector), Likeness(served, vector, limit=0)
    rows = np.array([7, 0, 7, 199])
    assert (once.get_cosines(rows) == wanted.get_cosines(rows)).all()
    assert (once.whole == wanted.whole).all()
    assert (once.every == wanted.every).all()
    first = served.index.passages.vector_start
    assert (wanted.whole == wanted.every[first]).all()


@pytest.mark.parametrize("few", [0, 10**6])
@pytest.mark.parametrize("count", [NEAR + 200, 3 * NEAR])
@pytest.mark.parametrize("every", [1, 16])  # with words in one of 16, a sample tells little
def test_near_passages_are_those_most_like_it_by_words_and_as_a_whole(
    few: int, count: int, every: int
) -> None:
    served, vector = _some(count), _question()
    likeness = Likeness(served, vector, few)
    words = np.where(np.arange(count) % every == 0, _CHANCE.random(count), 0.0)
    near = NearPassages.select(served, likeness, words)
    like = OF_LIKENESS * likeness.whole + OF_WORDS * words
    assert near.passage_rows.tolist() == np.sort(np.argsort(-like)[:NEAR]).tolist()
    cosines = likeness.every.reshape(-1, 4)[near.passage_rows]
    assert near.cosines.tolist() == cosines.ravel().tolist()
    best = OF_LIKENESS * cosines.max(axis=1) + OF_WORDS * words[near.passage_rows]
    assert near.like == pytest.approx(best)


def test_passages_equally_like_it_are_all_near() -> None:
    served = _some(NEAR + 5)
    assert len(asked(served).near.passage_rows) == NEAR + 5


def test_passages_of_other_versions_are_not_near() -> None:
    served, vector = _some(3), _question()
    advance(served.index, 2, [triplets(9, [("", _drawn())])], [1], [document(9, "9.md", [9])], [1])
    for version, passage_rows in ((1, [0, 1, 2]), (2, [0, 2, 3])):
        then = snapshot_at(served.index, version)
        likeness = Likeness(then, vector, limit=0)
        count = len(then.statistics.visible.passages)
        near = NearPassages.select(then, likeness, np.zeros(count))
        assert near.passage_rows.tolist() == passage_rows
    old = Likeness(served, vector, limit=0)
    assert len(old.whole) == 3


@pytest.mark.parametrize("shown", [NEAR - 1, NEAR + 100])
def test_passages_that_a_filter_excludes_are_not_near(shown: int) -> None:
    whole, vector = _some(NEAR + 200), _question()
    order = np.argsort(Likeness(whole, vector).whole)
    passes_filter = np.zeros(len(whole.index.documents), dtype=np.bool_)
    passes_filter[order[:shown]] = True  # each passage is a document
    served = whole.filter_documents(passes_filter)
    near = NearPassages.select(served, Likeness(served, vector), np.zeros(NEAR + 200))
    assert near.passage_rows.tolist() == np.sort(order[:shown][-NEAR:]).tolist()


def test_without_visible_passages_nothing_is_near() -> None:
    served = indexed([])
    vector = to_grid(np.array([[1.0, 0.0]]))[0]
    near = NearPassages.select(served, Likeness(served, vector), np.zeros(0))
    assert (len(near.passage_rows), len(near.like), len(near.rows)) == (0, 0, 0)
    assert fit(served, vector) == 0.0


def test_a_text_fits_as_well_as_the_sentence_most_like_it() -> None:
    served, vector = _some(20), _question()
    assert fit(served, vector) == pytest.approx(float(Likeness(served, vector).every.max()))


@pytest.mark.parametrize("count", [NEAR, NEAR + 1])
def test_for_a_common_name_the_mentions_nearest_to_the_question_count(count: int) -> None:
    served = _some(count, sentences=2)
    context = replace(asked(served), likeness=Likeness(served, _question()))
    found = find_mentions(context, served.find_name("rome"))
    every = served.find_mentions(np.array([served.find_name("rome")]))
    if count == NEAR:
        assert found.vector_row.tolist() == every.vector_row.tolist()
        return
    cosines = context.near.cosines
    rows = context.near.rows[cosines >= np.sort(cosines)[-2000]]  # more than 2000 if the last tie
    assert sorted(found.vector_row.tolist()) == sorted(
        set(rows.tolist()) & set(every.vector_row.tolist())
    )
    assert 0 < len(found.vector_row) < len(every.vector_row)
    assert found.weight.tolist() == [1.0] * len(found.vector_row)
