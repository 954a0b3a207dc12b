"""Counts over a version are exact, from any base."""

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index.documents import NAMED_PASSAGES
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import MAX_NAMED_PASSAGES, Statistics, find_named_passages
from hopsyncd.index.tables import DocumentNameTable, to_int32
from store.records import (
    Direction,
    PassageId,
    Question,
    QuestionId,
    QuestionSet,
    SetId,
    compute_content_id,
    to_grid,
)
from tests.fakes.histories import NAMES, State, Step, grown, histories, questions_of, states
from tests.fakes.indexed import advance, document, drawn, indexed, snapshot_at
from tests.fakes.triplets import triplets

NORTH = (1, 0)


def about(passage: int, topic: str, mentioned: str = "") -> QuestionSet:
    """A set with one topic question, whose vector is the passage's own, and one of another row."""
    questions = (
        Question(QuestionId(2 * passage), Direction.INCOMING, "", frozenset(topic.split()), 0),
        Question(
            QuestionId(2 * passage + 1), Direction.INCOMING, "", frozenset(mentioned.split()), 1
        ),
    )
    return QuestionSet(SetId(passage), PassageId(passage), questions, to_grid(np.eye(2)))


def mentioned(graph: Snapshot) -> dict[str, int]:
    """How many passages mention each name."""
    counts = graph.statistics.mention_counts
    spelled = graph.index.name_texts
    return {spelled[at]: int(counts[at]) for at in np.flatnonzero(counts).tolist()}


def topics(graph: Snapshot) -> dict[str, set[int]]:
    """The passages that are about each name."""
    found = {
        name: graph.passage_ids[graph.find_by_topic(graph.find_name(name))]
        for name in mentioned(graph)
    }
    return {name: set(ids.tolist()) for name, ids in found.items() if len(ids)}


def joining(graph: Snapshot) -> set[str]:
    return {
        graph.index.name_texts[at]
        for at in np.flatnonzero(graph.statistics.joins_documents).tolist()
    }


def test_a_passage_counts_once_for_each_name_it_mentions() -> None:
    graph = indexed([triplets(1, [("rome", NORTH), ("rome italy", NORTH)], [("rome", NORTH)])])
    assert mentioned(graph) == {"rome": 1, "italy": 1}


def test_only_topics_are_counted_as_topics() -> None:
    graph = indexed([about(1, "rome", "italy"), about(2, "italy")])
    assert mentioned(graph) == {"rome": 1, "italy": 2}
    assert topics(graph) == {"rome": {1}, "italy": {2}}


def test_passages_can_share_a_topic_and_a_reader_keeps_its_counts() -> None:
    index = LiveIndex(2)
    documents = [document(1, "a.md", [1]), document(2, "b.md", [2])]
    advance(index, 1, [about(1, "rome"), about(2, "rome")], documents=documents)
    before = snapshot_at(index, 1)
    advance(index, 2, ended=[1], documents_ended=[1])
    assert (mentioned(before), topics(before), joining(before)) == (
        {"rome": 2},
        {"rome": {1, 2}},
        set(),  # topics alone are no mentions
    )
    after = snapshot_at(index, 2)
    assert (mentioned(after), topics(after), joining(after)) == ({"rome": 1}, {"rome": {2}}, set())


def test_a_document_name_counts_as_a_topic_once() -> None:
    documents = [
        document(1, "a.md", [1], called=("rome", "italy")),
        document(2, "b.md", [2], called=("ostia",)),
    ]
    graph = indexed([about(1, "rome", "italy"), about(2, "gaul")], documents)
    assert mentioned(graph) == {"rome": 1, "italy": 1, "gaul": 1, "ostia": 1}
    assert topics(graph) == {"rome": {1}, "italy": {1}, "gaul": {2}, "ostia": {2}}


def test_a_name_joins_documents_if_passages_of_two_mention_it() -> None:
    named = [(0, "rome"), (1, "rome"), (1, "gaul"), (2, "gaul")]
    assert joining(drawn(3, named=named)) == {"rome", "gaul"}
    assert joining(drawn(3, named=named, paths=["a.md", "a.md", "b.md"])) == {"gaul"}
    called = [document(1, "a.md", [1], called=("ostia", "gaul")), document(2, "b.md", [2])]
    mentioning = triplets(2, [("gaul", NORTH)])
    assert joining(indexed([about(1, "rome"), mentioning], called)) == {"gaul"}
    assert joining(indexed([about(1, "rome"), about(2, "gaul")], called)) == set()


def test_a_common_name_may_join_documents_after_the_sampled_mentions() -> None:
    index, count = LiveIndex(2), 100
    long = document(1, "long.md", range(1, count + 1))
    passages = [triplets(index, [("rome", NORTH)]) for index in range(1, count + 1)]
    advance(index, 1, passages, documents=[long])
    advance(
        index, 2, [triplets(200, [("rome", NORTH)])], documents=[document(2, "short.md", [200])]
    )
    advance(index, 3, ended=[200], documents_ended=[2])
    joins, base = [], Statistics.count(index, 1)
    for version in (1, 2, 3, 2, 1):
        base = Statistics.count(index, version, base=base)
        joins.append(bool(base.joins_documents[index.name_texts.index("rome")]))
    assert joins == [False, True, False, True, False]


def test_a_document_name_of_too_many_passages_is_not_counted() -> None:
    for count, having in ((MAX_NAMED_PASSAGES, MAX_NAMED_PASSAGES), (MAX_NAMED_PASSAGES + 1, 0)):
        sets = [about(index, "") for index in range(count)]
        documents = [
            document(index, f"{index}.md", [index], called=("minutes",)) for index in range(count)
        ]
        assert mentioned(indexed(sets, documents)).get("minutes", 0) == having


def expected(state: State) -> dict[str, tuple[int, int, int, bool, bool]]:
    """Of each name how many passages say it, are called it, mention it; and whether it joins."""
    home: dict[int, int] = {}
    called: dict[str, set[int]] = {name: set() for name in NAMES}
    for (source, path), held in state.documents.items():
        for one in held.passages:
            home[one] = min(home.get(one, 2**63), compute_content_id("path", source, path))
        for name in held.called:
            called[name] |= {*held.passages[:NAMED_PASSAGES]}

    def having(name: str, counts: Callable[[Question], bool]) -> set[int]:
        return {
            number
            for number, other in state.passages.items()
            if any(
                name in question.keywords and counts(question)
                for question in questions_of(number, other).questions
            )
        }

    def topics(name: str) -> set[int]:
        return having(
            name,
            lambda question: question.direction is Direction.INCOMING and question.vector_row == 0,
        )

    def joined(name: str) -> set[int]:
        told = having(
            name,
            lambda question: question.direction is Direction.INCOMING and question.vector_row != 0,
        )
        return {home[one] for one in told | (called[name] - topics(name))}

    said = {name: having(name, lambda _: True) for name in NAMES}
    return {
        name: (
            len(said[name]),
            len(called[name]),
            len(said[name] | called[name]),
            bool(said[name]) and len(joined(name)) > 1,
            bool(topics(name) or called[name]),
        )
        for name in NAMES
    }


def told(index: LiveIndex, counts: Statistics) -> dict[str, tuple[int, int, int, bool, bool]]:
    found = dict.fromkeys(NAMES, (0, 0, 0, False, False))
    for number, name in enumerate(index.name_texts[: len(counts.in_questions)]):
        columns = counts.in_questions, counts.as_document_name, counts.mention_counts
        flags = counts.joins_documents, counts.is_topic
        numbers = tuple(int(column[number]) for column in columns)
        found[name] = (*numbers, *(bool(flag[number]) for flag in flags))  # type: ignore[assignment]
    return found


@given(history=histories, bases=st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_counts_from_any_base_equal_a_plain_count(
    history: Sequence[Step], bases: list[int]
) -> None:
    found = states(history)
    index = grown(found)
    for hidden in (frozenset[str](), frozenset({"closed"})):
        known: list[Statistics] = []
        for version, (state, base) in enumerate(zip(found, bases, strict=False), 1):
            seen = state.without("closed") if hidden else state
            afresh = Statistics.count(index, version, hidden)
            carried = Statistics.count(
                index, version, hidden, known[base % len(known)] if known else None
            )
            for counts in (afresh, carried):
                assert told(index, counts) == expected(seen)
                assert (counts.passages, counts.words) == (
                    len(seen.passages),
                    3 * len(seen.passages),
                )
            known.append(carried)
        for version, state in enumerate(found, 1):
            seen = state.without("closed") if hidden else state
            back = Statistics.count(index, version, hidden, known[-1])
            assert told(index, back) == expected(seen)


@given(history=histories)
def test_counts_without_hidden_sources_from_a_base_with_all_sources(
    history: Sequence[Step],
) -> None:
    found = states(history)
    index, version = grown(found), len(found)
    whole = Statistics.count(index, version)
    without = Statistics.count(index, version, frozenset({"closed"}), whole)
    assert told(index, without) == expected(found[-1].without("closed"))


@given(history=histories)
def test_counts_from_a_base_that_is_shorter_than_the_tables(
    history: Sequence[Step],
) -> None:
    found = states(history)
    for version in range(2, len(found) + 1):
        index = grown(found[: version - 1])
        base = Statistics.count(index, version - 1)
        grown_on = grown(found[:version])
        assert told(grown_on, Statistics.count(grown_on, version, base=base)) == expected(
            found[version - 1]
        )


def test_a_product_of_names_and_passages_may_exceed_32_bits() -> None:
    """2 ** 16 passages and a name with a number as large: their product is no int32."""
    graph = drawn(1)
    index, count = graph.index, 1 << 16
    ids = np.concatenate([index.passage_numbers.keys, np.arange(1 << 40, (1 << 40) + count)])
    index.passage_numbers.replace(ids, len(ids))
    index.document_names = index.document_names.extend(
        DocumentNameTable(
            document_row=to_int32([0]), passage_number=to_int32([0]), name=to_int32([count])
        )
    )
    visible, names = graph.statistics.visible, index.document_names.name
    passages, found = find_named_passages(index, visible, np.array([0]), names)
    assert (passages.tolist(), found.tolist()) == ([0], [count])
