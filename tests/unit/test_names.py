"""Counts of names: exact, whatever came and went."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index.names import NameIndex
from store.records import Direction, PassageId, Question, QuestionId, QuestionSet, SetId, to_grid
from tests.fakes.triplets import triplets

NORTH = (1, 0)


def about(passage: int, topic: str, mentioned: str = "") -> QuestionSet:
    """A set with one topic question, whose vector is the passage's own, and one of another row."""
    questions = (
        Question(QuestionId(0), Direction.INCOMING, "", frozenset(topic.split()), 0),
        Question(QuestionId(1), Direction.OUTGOING, "", frozenset(mentioned.split()), 1),
    )
    return QuestionSet(SetId(0), PassageId(passage), questions, to_grid(np.eye(2)))


def counted(*sets: QuestionSet) -> NameIndex:
    names = NameIndex()
    for added in sets:
        names.add(added)
    return names


def test_a_passage_counts_once_for_each_name_however_often_it_says_it() -> None:
    names = counted(triplets(1, [("rome", NORTH), ("rome italy", NORTH)], [("rome", NORTH)]))
    assert names.frozen()[0] == {"rome": 1, "italy": 1}


def test_a_passage_is_about_its_topics_only() -> None:
    mentioned, topics = counted(about(1, "rome", "italy"), about(2, "italy")).frozen()
    assert mentioned == {"rome": 1, "italy": 2}
    assert topics == {"rome": (1,), "italy": (2,)}


def test_several_passages_can_be_about_one_name() -> None:
    names = counted(about(1, "rome"), about(2, "rome"))
    assert names.frozen()[1] == {"rome": (1, 2)}
    names.remove(PassageId(1))
    assert names.frozen() == ({"rome": 1}, {"rome": (2,)})


def test_what_a_reader_has_does_not_change() -> None:
    names = counted(about(1, "rome"))
    before = names.frozen()
    names.remove(PassageId(1))
    assert before == ({"rome": 1}, {"rome": (1,)})
    assert names.frozen() == ({}, {})


few = st.sampled_from(["", "a", "b", "a b", "b c"])


@given(st.lists(st.tuples(few, few), max_size=6), st.sets(st.integers(0, 5)))
def test_taking_out_equals_never_putting_in(said: list[tuple[str, str]], gone: set[int]) -> None:
    sets = [about(n, topic, mentioned) for n, (topic, mentioned) in enumerate(said)]
    names = counted(*sets)
    for passage in gone & set(range(len(sets))):
        names.remove(PassageId(passage))
    assert names.frozen() == counted(*(s for s in sets if s.passage not in gone)).frozen()


def test_what_a_passage_is_called_counts_as_a_topic_unless_it_is_one() -> None:
    names = counted(about(1, "rome", "italy"), about(2, "gaul"))
    called = [(PassageId(1), "rome"), (PassageId(1), "italy"), (PassageId(2), "ostia")]
    new = names.new(called)
    assert new == called[1:]
    mentioned, topics = names.frozen(new)
    assert mentioned == {"rome": 1, "italy": 1, "gaul": 1, "ostia": 1}
    assert topics == {"rome": (1,), "italy": (1,), "gaul": (2,), "ostia": (2,)}
    assert "italy" in names
    assert "ostia" not in names
