"""Matching step by step gives the argmax of Eq. 1 over the candidates, whatever came and went."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index import comparison, edge_selection
from hopsyncd.index.arrays import NO_ROWS
from hopsyncd.index.comparison import HALF_COSINE, MAX_CANDIDATES, MatchColumns
from hopsyncd.index.edge_selection import (
    compute_jaccard,
    compute_similarity,
    list_pending_matches,
    make_match_records,
    match_part,
    update_matches,
)
from hopsyncd.index.live_index import IN_FORCE, LiveIndex
from hopsyncd.index.passage_content import NewPassage, add_passages
from store.records import Direction, Match, QuestionSet
from tests.fakes.dump import exact_vectors
from tests.fakes.triplets import Triplet, triplets

# Few keywords and few directions: most comparisons are ties.
one = st.tuples(
    st.sampled_from(["", "a", "b", "a b", "b c"]),
    st.tuples(*[st.sampled_from([-1.0, 0.0, 1.0])] * 3),
)
contents = st.lists(st.tuples(st.lists(one, max_size=2), st.lists(one, max_size=2)), max_size=6)
# Each step toggles some passages: those that are in leave, the others come.
steps = st.lists(st.sets(st.integers(0, 5), min_size=1), max_size=6)


def expected(sets: Sequence[QuestionSet], most: int = MAX_CANDIDATES) -> dict[int, Match]:
    """Every outgoing question with the best of its candidates, by trying all."""
    asked = [(of, q) for of in sets for q in of.questions if q.direction is Direction.OUTGOING]
    known = [(of, q) for of in sets for q in of.questions if q.direction is Direction.INCOMING]
    words = {word for _, question in known for word in question.keywords}
    candidates = {
        word: {*sorted(question.id for _, question in known if word in question.keywords)[:most]}
        for word in words
    }
    best: dict[int, Match] = {}
    for of, question in asked:
        vector = of.vectors[question.vector_row]
        allowed = set[int]().union(*(candidates.get(word, ()) for word in question.keywords))
        rivals = [
            (
                -compute_similarity(
                    question.keywords, vector, r.keywords, by.vectors[r.vector_row]
                ),
                r.id,
            )
            for by, r in known
            if by.passage != of.passage and r.id in allowed
        ]
        if rivals:
            loss, target = min(rivals)
            best[question.id] = Match(question.id, target, -loss)
    return best


def index_of(dimensions: int, parts: Sequence[Sequence[QuestionSet]]) -> LiveIndex:
    """What these are merged to, a version for each part."""
    index = LiveIndex(dimensions)
    for version, part in enumerate(parts, 1):
        new = add_passages(index, [NewPassage(one, 1, {}) for one in part])
        index.begin_passages(new)
        update_matches(index, np.empty(0, dtype=np.int64), new)
        index.settle(version)
    return index


@pytest.mark.parametrize(("answered", "asked"), [(3, 3), (7, 2), (2, 7)])
def test_many_questions_about_few_names_give_the_argmax(answered: int, asked: int) -> None:
    chance = np.random.default_rng(1)
    told = ["a", "a b", "b c", "a b c", ""]

    def some(count: int) -> list[Triplet]:
        return [
            (told[chance.integers(5)], chance.integers(-3, 4, 3).tolist()) for _ in range(count)
        ]

    sets = [triplets(number, some(answered), some(asked)) for number in range(60)]
    index = index_of(3, (sets[:20], sets[20:50], sets[50:]))
    rows = np.flatnonzero(index.matches.died == IN_FORCE)
    held = make_match_records(index, MatchColumns.from_rows(index.matches, rows))
    assert {match.question: match for match in held} == expected(sets)


@pytest.mark.parametrize("dimensions", [24, 200])
def test_large_groups_that_are_nearly_equal_give_the_argmax(
    monkeypatch: pytest.MonkeyPatch, dimensions: int
) -> None:
    """Also where components are clipped, and where remainders have 4 bits."""
    monkeypatch.setattr(comparison, "MAX_CANDIDATES", 10_000)
    chance, passages = np.random.default_rng(4), 700
    told, common = ["a", "a b", "b c", "a b c", "c"], chance.standard_normal((4, dimensions))
    common[0, 0] = dimensions / 10

    def some() -> list[Triplet]:
        mixed = chance.random((3, 4)) @ common + 0.02 * chance.standard_normal((3, dimensions))
        return [(told[chance.integers(5)], one.tolist()) for one in mixed]

    sets = [triplets(number, own := some(), own) for number in range(passages)]
    index = index_of(dimensions, (sets[:300], sets[300:]))
    assert (len(index.vectors.outliers.row) > 20) == (dimensions == 200)
    asked, known = index.outgoing, index.incoming
    keywords = {
        question.id: question.keywords
        for question_set in sets
        for question in question_set.questions
    }
    of = [[keywords[id_] for id_ in side.id.tolist()] for side in (asked, known)]
    vectors = exact_vectors(index).astype(np.float64)
    similarities = vectors[asked.vector_row] @ vectors[known.vector_row].T * HALF_COSINE
    halves = np.array([[compute_jaccard(a, b) / 2 for b in of[1]] for a in of[0]])
    similarities += halves
    similarities[halves == 0] = -np.inf
    similarities[asked.passage_row[:, None] == known.passage_row] = -np.inf
    by_id = np.argsort(known.id)
    matches = MatchColumns.from_rows(index.matches, asked.match_row)
    assert matches.target_question.tolist() == by_id[similarities[:, by_id].argmax(1)].tolist()
    assert matches.similarity.tolist() == similarities.max(1).tolist()


def test_passages_added_one_by_one_give_the_argmax() -> None:
    chance, dimensions = np.random.default_rng(3), 100
    told, common = ["a", "a b", "b c", "a b c", ""], chance.standard_normal((4, dimensions))

    def some(count: int) -> list[Triplet]:
        mixed = chance.random((count, 4)) @ common + 0.05 * chance.standard_normal(dimensions)
        return [(told[chance.integers(5)], one.tolist()) for one in mixed]

    sets = [triplets(number, some(4), some(2)) for number in range(150)]
    index = index_of(dimensions, (sets[:130], *([question_set] for question_set in sets[130:])))
    rows = np.flatnonzero(index.matches.died == IN_FORCE)
    held = make_match_records(index, MatchColumns.from_rows(index.matches, rows))
    assert {match.question: match for match in held} == expected(sets)


@given(
    contents=contents,
    steps=steps,
    most=st.sampled_from([1, 2, 3, MAX_CANDIDATES]),
    most_deferred=st.sampled_from([0, 1, 100]),
)
def test_every_change_in_three_parts_gives_the_argmax_of_a_rebuild(
    contents: list[tuple[list[Triplet], list[Triplet]]],
    steps: list[set[int]],
    most: int,
    most_deferred: int,
) -> None:
    sets = [triplets(n, inc, out) for n, (inc, out) in enumerate(contents) if inc or out]
    index, present, held = LiveIndex(3), set[int](), dict[int, Match]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MAX_CANDIDATES", most)
        patch.setattr(edge_selection, "_MOST_DEFERRED", most_deferred)
        for version, step in enumerate(steps, 1):
            toggled = {n for n in step if n < len(sets)}
            came = [NewPassage(sets[n], 1, {}) for n in sorted(toggled - present)]
            *parts, last = (add_passages(index, came[start::3]) for start in range(3))
            deferred = NO_ROWS
            for part in parts:
                index.begin_passages(part)
                deferred = match_part(index, part, deferred)
            set_ids = [sets[n].id for n in sorted(toggled & present)]
            gone = index.find_question_sets(np.array(set_ids, dtype=np.int64))
            index.end_passages(gone)
            index.begin_passages(last)
            update_matches(index, gone, last, deferred)
            delta = list_pending_matches(index)
            index.settle(version)
            present ^= toggled
            for question in index.outgoing.id[delta.ended].tolist():
                del held[question]
            for match in make_match_records(index, delta.begun):
                assert match.question not in held
                held[match.question] = match
            assert held == expected([sets[n] for n in sorted(present)], most)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_deferred_comparisons_give_the_argmax(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Later parts, and passages that end, change the candidates of questions matched before."""
    monkeypatch.setattr(comparison, "MAX_CANDIDATES", most)
    chance, told = np.random.default_rng(most), ["a", "b", "c", "a b"]

    def some() -> list[Triplet]:
        return [(told[chance.integers(4)], chance.integers(-3, 4, 3).tolist()) for _ in range(2)]

    sets = [triplets(number, some(), some()) for number in range(24)]
    for ended in [0, 1, 2] * 10:
        index, order = LiveIndex(3), chance.permutation(24)
        first, *parts, last = (
            add_passages(index, [NewPassage(sets[n], 1, {}) for n in numbers])
            for numbers in np.split(order, [6, 12, 18])
        )
        index.begin_passages(first)
        update_matches(index, NO_ROWS, first)
        index.settle(1)
        deferred = NO_ROWS
        for part in parts:
            index.begin_passages(part)
            deferred = match_part(index, part, deferred)
        gone = first[:ended]
        index.end_passages(gone)
        index.begin_passages(last)
        update_matches(index, gone, last, deferred)
        index.settle(2)
        rows = np.flatnonzero(index.matches.died == IN_FORCE)
        held = make_match_records(index, MatchColumns.from_rows(index.matches, rows))
        assert {match.question: match for match in held} == expected(
            [sets[n] for n in order[ended:]], most
        )
