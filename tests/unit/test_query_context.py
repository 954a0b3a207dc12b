"""A question held against one version: BM25, its words, its names, and Eq. 1."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.retrieve.query_context import (
    Coverage,
    QueryContext,
    find_names,
    look_up_words,
    map_words_to_terms,
)
from hopsyncd.text.words import count_terms, list_index_terms, normalise_text
from store.records import Passage, PassageId, count_words, split_unspaced, to_grid
from tests.fakes.indexed import GivenLikeness, advance, document, indexed, passage, snapshot_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack
from tests.fakes.triplets import triplets

EAST = (1, 0)
words = st.sampled_from(["rome", "gaul", "ada", "oslo"])
texts = st.lists(words, max_size=6).map(" ".join)


def reference(query: str, corpus: list[str]) -> list[float]:
    """BM25 as in Robertson & Zaragoza 2009, with the constants 1.2 and 0.75."""
    split = [text.split() for text in corpus]
    mean = max(sum(map(len, split)) / max(len(split), 1), 1.0)
    scores = [0.0] * len(corpus)
    for term in sorted(set(query.split())):
        df = sum(term in text for text in split)
        idf = math.log(1 + (len(split) - df + 0.5) / (df + 0.5))
        for index, text in enumerate(split):
            tf = text.count(term)
            scores[index] += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(text) / mean))
    return scores


@given(query=texts, corpus=st.lists(texts, max_size=6))
def test_scores_are_those_of_the_reference(query: str, corpus: list[str]) -> None:
    graph = indexed([passage(triplets(index), text) for index, text in enumerate(corpus)])
    assert look_up_words(graph, query).scores == pytest.approx(reference(query, corpus))


@given(query=texts, corpus=st.lists(texts, min_size=2, max_size=6), gone=st.integers(1, 5))
def test_passages_outside_a_version_do_not_count(query: str, corpus: list[str], gone: int) -> None:
    """The first passages go; the others stay."""
    gone = min(gone, len(corpus) - 1)
    graph = indexed([passage(triplets(index), text) for index, text in enumerate(corpus)])
    ended = list(range(gone))
    advance(graph.index, 2, ended=ended, documents_ended=ended)
    found = look_up_words(snapshot_at(graph.index, 2), query)
    assert found.scores[gone:] == pytest.approx(reference(query, corpus[gone:]))
    assert not found.scores[:gone].any() and not found.coverage.has[:, :gone].any()


def test_words_are_weighted_by_the_share_of_passages_that_have_them() -> None:
    graph = indexed(
        [passage(triplets(index), text) for index, text in enumerate(["rome met gaul", "rome", ""])]
    )
    found = look_up_words(graph, "Rome, Gaul and Atlantis")
    assert found.weights.keys() == {"and", "atlanti", "gaul", "rome"}
    assert found.weights["atlanti"] > found.weights["gaul"] > found.weights["rome"]
    coverage = found.coverage
    assert coverage.share.sum() == pytest.approx(1)
    gaul, rome = coverage.share.tolist()
    assert coverage.sum_shares(np.arange(3)).tolist() == pytest.approx([1, rome, 0])
    added = coverage.compute_gain(np.array([1, 2]), np.array([0, 1]))
    assert added.tolist() == pytest.approx([gaul, rome])


def test_a_word_of_nearly_all_passages_has_no_weight() -> None:
    sets = [passage(triplets(index), "rome" if index else "rome and gaul") for index in range(99)]
    assert look_up_words(indexed(sets), "rome gaul").coverage.share.tolist() == [1.0]


def scores(stack: Stack, version: int, query: str) -> list[float]:
    found = look_up_words(snapshot_at(stack.writer.index, version), query)
    there = snapshot_at(stack.writer.index, version).passage_rows
    return sorted(found.scores[there].tolist(), reverse=True)


def test_a_past_version_scores_as_it_did_when_it_was_the_head(tmp_path: Path) -> None:
    files = MemoryConnector({"a.md": b"Rome and Gaul", "b.md": b"Rome alone"})
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    then = scores(stack, 1, "rome")
    assert then == pytest.approx(sorted(reference("rome", ["rome and gaul", "rome alone"]))[::-1])
    files.put("c.md", b"Rome, Rome and Rome again, more than all the others have")
    files.remove("a.md")
    stack.sync()
    assert scores(stack, 1, "rome") == then
    assert scores(stack, 2, "rome") != then
    assert scores(stack, 2, "gaul") == [0, 0]


def test_words_are_found_in_other_forms_and_without_accents() -> None:
    assert list_index_terms("Dogs dog DOG") == ("dog",)
    assert list_index_terms("café cafe") == ("cafe",)
    assert list_index_terms("...") == ()


@given(st.text(st.characters(max_codepoint=127)))
def test_terms_of_an_ascii_text_are_those_of_its_words(text: str) -> None:
    assert list_index_terms(text) == tuple(sorted(count_terms([text])[0]))


def test_a_part_of_a_phrase_is_found_in_scripts_without_spaces(tmp_path: Path) -> None:
    assert count_words("東京 tower") == 3
    assert split_unspaced("東京").split() == ["東", "京"]
    stack = Stack(tmp_path / "graph.db", MemoryConnector({"a.md": "東京タワー".encode()}))
    stack.sync()
    assert scores(stack, 1, "東京")[0] > 0


def test_quotes_and_operators_of_full_text_search_are_plain_words() -> None:
    assert list_index_terms('rome AND "gaul* NEAR(') == ("and", "gaul", "near", "rome")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("Who played in Due South?", ["due south"]),
        ("who played in due south?", ["due south"]),
        ("Is South Park in the south?", ["south"]),
        ("What of Rome's X1, and of rome?", ["rome", "x1"]),
        ("Due South and Due South", ["due south", "due south"]),
        ("", []),
    ],
)
def test_the_longest_names_that_the_graph_knows_are_found(query: str, names: list[str]) -> None:
    known = {"due south", "south", "rome", "x1"}
    assert find_names(query, known.intersection) == names


def test_a_question_knows_the_names_that_are_there_at_its_version() -> None:
    graph = indexed([passage(triplets(5, [("rome", EAST)]), "Rome")])
    advance(
        graph.index,
        2,
        [passage(triplets(6, [("gaul", EAST)]), "Gaul")],
        [5],
        [document(6, "b.md", [6])],
        [0],
    )
    (vector,) = to_grid(np.array([EAST], dtype=np.float64))
    then, now = (
        QueryContext.build(
            "What of Rome and Gaul?", vector, snapshot_at(graph.index, at), lambda _: {}
        )
        for at in (1, 2)
    )
    assert ({*then.names}, {*now.names}) == ({"rome"}, {"gaul"})
    assert then.by_words.tolist() == [pytest.approx(then.by_words.max()), 0]
    assert 0 < then.by_words.max() < 1
    assert now.likeness.every == pytest.approx(np.ones(4), abs=0.01)


TERMS = {"award": 0.5, "leav": 0.3, "expir": 0.2}


def best(text: str, cosines: Sequence[float], heading: tuple[str, ...] = ()) -> float:
    """Of a passage with so many rows: the first is its own, the others are of sentences."""
    graph = indexed([passage(triplets(5, incoming=[("x", EAST)] * (len(cosines) - 1)))])
    query = QueryContext(
        graph,
        GivenLikeness(graph, np.array(cosines, dtype=np.float32)),
        {},
        np.zeros(1),
        Coverage(np.empty(0), np.empty((0, 1), dtype=np.bool_)),
        TERMS,
        lambda _: {PassageId(int(graph.passage_ids[0])): Passage(heading, text)},
    )
    return float(query.rate_best_sentences(np.array([0]))[0])


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


def test_vector_rows_beyond_the_sentences_do_not_count() -> None:
    text = "Award leave expires after one year, as always. Nothing else is known about it."
    assert best(text, (0.4, 0.9)) == pytest.approx(1.4)
    assert best(text, (0.4, 0.9, 0.9, 0.9)) == pytest.approx(1.4)


def plain_words(text: str) -> list[str]:
    return normalise_text(split_unspaced(text)).replace(".", " ").replace("'", " ").split()


def test_a_sentence_has_the_words_that_differ_from_the_question_by_marks() -> None:
    terms = list_index_terms("Which café in İzmir serves naïve eclairs")
    found = map_words_to_terms(terms, plain_words("Les Éclairs du CAFE\u0301 d'Izmir."))
    assert set[str]().union(*found.values()) == {"eclair", "cafe", "izmir"}
    assert map_words_to_terms(terms, plain_words("Nothing of it.")) == {}
