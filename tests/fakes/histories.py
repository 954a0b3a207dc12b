"""Short histories of a live index: documents of two sources that share passages, names and links.

Everything is few, so that passages often stand in several documents and names are often shared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from hopsyncd.index.documents import NewDocument
from hopsyncd.index.live_index import LiveIndex
from store.records import Direction, PassageId, Question, QuestionId, QuestionSet, SetId, to_grid
from tests.fakes.indexed import advance, document, passage

NAMES = ("rome", "gaul", "oslo")
SOURCES = ("open", "closed")
PLACES = [(source, path) for source in SOURCES for path in ("a.md", "b.md", "x/a.md")]
PASSAGES = range(6)


@dataclass(frozen=True, slots=True)
class Held:
    """What one document holds: passages in order, its names, and the links of its first passage."""

    passages: tuple[int, ...]
    called: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What a version changes: documents (None: it goes), and passages with their other questions.

    Of a passage that is not named in `others` the questions are the first ones.
    """

    documents: Mapping[tuple[str, str], Held | None]
    others: frozenset[int] = frozenset()


@dataclass(slots=True)
class State:
    """What is there after some steps."""

    documents: dict[tuple[str, str], Held] = field(default_factory=dict)
    others: frozenset[int] = frozenset()

    def after(self, step: Step) -> "State":
        """With one more step."""
        documents = {**self.documents, **step.documents}
        return State({key: one for key, one in documents.items() if one}, step.others)

    @property
    def passages(self) -> dict[int, bool]:
        """Those that a document holds, and whether each has its other questions."""
        held = {one for each in self.documents.values() for one in each.passages}
        return {one: one in self.others for one in sorted(held)}

    def without(self, source: str) -> "State":
        """As if the source were not there."""
        left = {key: one for key, one in self.documents.items() if key[0] != source}
        return State(left, self.others)


_held = st.builds(
    Held,
    st.lists(st.sampled_from(PASSAGES), max_size=6).map(tuple),
    st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple),
    st.lists(st.sampled_from(["a", "b.md", "x/a", "rome", "a#Gaul", "#Rome"]), max_size=2).map(
        tuple
    ),
)
steps = st.builds(
    Step,
    st.dictionaries(st.sampled_from(PLACES), st.none() | _held, min_size=1, max_size=3),
    st.frozensets(st.sampled_from(PASSAGES), max_size=2),
)
histories = st.lists(steps, min_size=1, max_size=6)


def questions_of(number: int, other: bool) -> QuestionSet:
    """The first or the other questions of a passage: a topic, a sentence, and a question."""
    set_ = 10 * number + other
    topic, said, asked = (
        NAMES[(number + at + 2 * other) % 3] for at in (0, number // 3, 1 + other)
    )
    questions = (
        Question(QuestionId(10 * set_), Direction.INCOMING, "", frozenset({topic}), 0),
        Question(QuestionId(10 * set_ + 1), Direction.INCOMING, "", frozenset({said}), 1),
        Question(QuestionId(10 * set_ + 2), Direction.OUTGOING, "", frozenset({asked}), 2),
    )
    angles = np.array([set_ % 5, set_ % 3, set_ % 7])
    vectors = to_grid(np.stack([np.cos(angles), np.sin(angles)], 1))
    return QuestionSet(SetId(set_), PassageId(number), questions, vectors)


def states(history: Sequence[Step]) -> list[State]:
    """What is there at each version, from version 1 on."""
    found = [State()]
    for step in history:
        found.append(found[-1].after(step))
    return found[1:]


def grown(found: Sequence[State], *, is_backward: bool = False) -> LiveIndex:
    """The index whose version n is the n-th state. Backward: with its rows in another order."""
    index, before, ids = LiveIndex(2), State(), dict[tuple[str, str], int]()
    for version, state in enumerate(found, 1):
        was, now = before.passages.items(), state.passages.items()
        changed = [
            key
            for key in before.documents.keys() | state.documents.keys()
            if before.documents.get(key) != state.documents.get(key)
        ]
        ended = [ids.pop(key) for key in changed if key in ids]
        new = sorted(key for key in changed if key in state.documents)
        ids |= {key: 100 * version + index for index, key in enumerate(new)}
        advance(
            index,
            version,
            [
                passage(questions_of(*one), f"{NAMES[one[0] % 3]} said so", [NAMES[one[0] % 3]])
                for one in sorted(now - was, reverse=is_backward)
            ],
            [number for number, _ in sorted(was - now)],
            [_document(ids[key], key, state.documents[key]) for key in new],
            ended,
        )
        before = state
    return index


def _document(id_: int, key: tuple[str, str], held: Held) -> NewDocument:
    source, path = key
    links = {held.passages[0]: held.links} if held.passages else {}
    return document(
        id_, path, held.passages, source=source, names=held.called, called=held.called, links=links
    )
