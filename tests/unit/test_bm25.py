"""BM25 over the passages of one version."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.retrieve.bm25 import WordIndex
from store.sqlite.database import Connection
from store.sqlite.reads import words_at
from store.sqlite.search import postings
from store.words import count_words, index_terms, searchable
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

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
        for at, text in enumerate(split):
            tf = text.count(term)
            scores[at] += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(text) / mean))
    return scores


def frequencies(corpus: list[str], term: str) -> np.ndarray:
    found = [(at, text.split().count(term)) for at, text in enumerate(corpus)]
    return np.array([one for one in found if one[1]], dtype=np.int64).reshape(-1, 2)


@given(query=texts, corpus=st.lists(texts, max_size=6))
def test_scores_are_those_of_the_reference(query: str, corpus: list[str]) -> None:
    lengths = np.array([count_words(text) for text in corpus], dtype=np.int64)
    index = WordIndex(np.arange(len(corpus)), lengths)
    for _ in range(2):  # the second time from what was kept
        found = index.scores(query, partial(frequencies, corpus))
        assert found == pytest.approx(reference(query, corpus))


def scores(connection: Connection, version: int, query: str) -> list[float]:
    index = WordIndex(*words_at(connection, version))
    return sorted(index.scores(query, partial(postings, connection)).tolist(), reverse=True)


def test_a_past_version_scores_as_it_did_when_it_was_the_head(tmp_path: Path) -> None:
    files = MemoryConnector({"a.md": b"Rome and Gaul", "b.md": b"Rome alone"})
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    then = scores(stack.connection, 1, "rome")
    assert then == pytest.approx(sorted(reference("rome", ["rome and gaul", "rome alone"]))[::-1])
    files.put("c.md", b"Rome, Rome and Rome again, more than all the others have")
    files.remove("a.md")
    stack.sync()
    assert scores(stack.connection, 1, "rome") == then
    assert scores(stack.connection, 2, "rome") != then
    assert scores(stack.connection, 2, "gaul") == [0, 0]


def test_words_are_found_in_other_forms_and_without_accents() -> None:
    assert index_terms("Dogs dog DOG") == ["dog"]
    assert index_terms("café cafe") == ["cafe"]
    assert index_terms("...") == []


def test_a_part_of_a_phrase_is_found_in_scripts_without_spaces(tmp_path: Path) -> None:
    assert count_words("東京 tower") == 3
    assert searchable("東京").split() == ["東", "京"]
    stack = Stack(tmp_path / "graph.db", MemoryConnector({"a.md": "東京タワー".encode()}))
    stack.sync()
    assert scores(stack.connection, 1, "東京")[0] > 0


def test_quotes_and_operators_of_the_full_text_index_are_plain_words() -> None:
    assert index_terms('rome AND "gaul* NEAR(') == ["and", "gaul", "near", "rome"]
