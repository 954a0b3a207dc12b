"""Nearest vectors: exact, at every version."""

from pathlib import Path

import numpy as np
import pytest

from store.content import read_passages, read_sets_at
from store.contract import Connection
from store.records import PassageId, Vectors, to_grid
from store.search import find_nearest
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

TEXTS = [f"{a} {b}." for a in ("rome", "gaul", "ada", "oslo") for b in ("met", "left", "saw")]


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Several versions, between which passages die and come back."""
    files = MemoryConnector({f"{n}.md": text.encode() for n, text in enumerate(TEXTS)})
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    for gone in (["0.md", "3.md", "5.md"], ["1.md"]):
        for path in gone:
            files.remove(path)
        stack.sync()
    files.put("again.md", TEXTS[3].encode())
    files.put("new.md", b"paris met gaul and oslo.")
    stack.sync()
    assert len(stack.versions) == 4
    return stack


def found_at(
    connection: Connection, number: int, query: Vectors, k: int
) -> list[tuple[PassageId, float]]:
    """The nearest passages of a version. Rows of other passages lie between theirs."""
    sets = [*read_sets_at(connection, number)]
    vectors = np.concatenate([question_set.vectors for question_set in sets])
    rows = np.cumsum([0, *(len(question_set.vectors) for question_set in sets[:-1])])
    return find_nearest(
        query, [question_set.passage for question_set in sets], vectors.__getitem__, rows, k
    )


def cosines(stack: Stack, number: int, query: np.ndarray) -> dict[PassageId, float]:
    def cosine(vector: np.ndarray) -> float:
        a, b = vector.astype(np.float64), query.astype(np.float64)
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    sets = read_sets_at(stack.connection, number)
    return {
        question_set.passage: cosine(question_set.vectors[0])
        for question_set in sets
        if question_set.vectors[0].any()
    }


@pytest.mark.parametrize("k", [1, 3, 100])
@pytest.mark.parametrize("query", ["rome met gaul", "oslo", "ada saw paris"])
def test_the_nearest_are_those_of_a_full_comparison_at_every_version(
    stack: Stack, query: str, k: int
) -> None:
    vector = to_grid(FakeEncoder().encode([query]))[0]
    for number in (1, 2, 3, 4):
        all_ = cosines(stack, number, vector)
        found = found_at(stack.connection, number, vector, k)
        assert len(found) == min(k, len(all_))
        best = sorted(all_.values(), reverse=True)[:k]
        assert [score for _, score in found] == pytest.approx(best, abs=1e-6)
        assert dict(found) == pytest.approx({p: all_[p] for p, _ in found}, abs=1e-6)


def test_equal_distances_are_ordered_by_id(stack: Stack) -> None:
    vector = to_grid(FakeEncoder().encode(["rome met gaul"]))[0]
    found = found_at(stack.connection, 1, vector, 100)
    assert found == sorted(found, key=lambda one: (-one[1], one[0]))
    assert found_at(stack.connection, 1, vector, 5) == found[:5]


def test_a_vector_without_direction_is_near_to_nothing(tmp_path: Path) -> None:
    files = MemoryConnector({"a.md": b"...", "b.md": b"rome"})
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    rome = to_grid(FakeEncoder().encode(["rome"]))[0]
    found = found_at(stack.connection, 1, rome, 5)
    assert [read_passages(stack.connection, [p])[p].text for p, _ in found] == ["rome"]
    assert found_at(stack.connection, 1, np.zeros_like(rome), 5) == []


def test_a_distance_that_is_a_tie_after_rounding_is_decided_by_the_id_for_every_k() -> None:
    query = np.array([4000, 0, 0], dtype=np.int16)
    vectors = np.array([[1202, -2026, -3233], [1202, -2090, 3192]], dtype=np.int16)
    passages, rows = [1, 2], np.arange(2)
    first, second = find_nearest(query, passages, vectors.__getitem__, rows, 2)
    assert (first[0], second[0], first[1]) == (1, 2, second[1])
    assert find_nearest(query, passages, vectors.__getitem__, rows, 1) == [first]
