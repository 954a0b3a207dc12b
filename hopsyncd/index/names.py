"""Who mentions which name, who is about it, and how rare it is: exact running counts.

The edge budget keeps the best match of each question. A name that ten passages mention joins each
of them to all the others, which as edges would be quadratic; as mentions it is linear. What one
document alone mentions joins nothing: its own passages need no bridge.

What depends on the whole corpus, such as a name's rarity, is never stored with an edge: it would
change with every document. It is kept here and applied when reading.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from store.records import Direction, PassageId, QuestionSet

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """m mentions of names in the n passages of one version, in columns.

    passage: (m,) positions among the passages. name: (m,) content ids of names. row: (m,) the row
    of the sentence's vector. bridge: (b,) those mentions whose name is in at least two documents.
    bridge_name: (b,) their names, numbered from 0. bridge_document: (b,) their names as each
    document mentions them, numbered from 0. share: (b,) the part of a passage's mass that
    leaves through each mention, by the rarity log(1 + n / df) of its name; they sum to 1.
    spelled: the name of each content id. said: so many, the first, stand in the passage; the
    others are names of its document.
    """

    passage: Integers
    name: Integers
    row: Integers
    bridge: Integers
    bridge_name: Integers
    bridge_document: Integers
    share: Floats
    spelled: Mapping[int, str]
    said: int


def mentions_of(
    passage: Integers,
    name: Integers,
    row: Integers,
    spelled: Mapping[int, str],
    document: Integers,
    unsaid: int = 0,
) -> Mentions:
    """Arrange mentions for the walk.

    `document` are those of the n passages; `unsaid` is the number of the mentions at the end that
    no passage says.
    """
    n = len(document)
    _, numbered = np.unique(name, return_inverse=True)
    _, documents = np.unique(document, return_inverse=True)
    spread = _spread(numbered, passage, n)
    bridge = np.flatnonzero(_spread(numbered, documents[passage], n)[numbered] > 1)
    _, bridge_name = np.unique(name[bridge], return_inverse=True)
    of_document = bridge_name * max(n, 1) + documents[passage[bridge]]
    _, bridge_document = np.unique(of_document, return_inverse=True)
    rarity = np.log1p(n / spread[numbered[bridge]])
    share = rarity / np.bincount(passage[bridge], rarity, n)[passage[bridge]]
    said = len(name) - unsaid
    return Mentions(passage, name, row, bridge, bridge_name, bridge_document, share, spelled, said)


def _spread(number: Integers, place: Integers, places: int) -> Integers:
    """In how many different places each number is."""
    pairs = np.sort(number * max(places, 1) + place)
    return np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] // max(places, 1))


Called = tuple[PassageId, str]
"""A passage, and a name that its document has."""


class NameIndex:
    """Counts over the passages in force. Owned by the writer; `frozen` is for readers."""

    def __init__(self) -> None:
        self._mentioned: Counter[str] = Counter()
        self._about: dict[str, tuple[PassageId, ...]] = {}
        self._of: dict[PassageId, tuple[frozenset[str], frozenset[str]]] = {}

    def add(self, questions: QuestionSet) -> None:
        """Count the names of a passage. It is about those of its topic questions, whose vector is
        that of the whole passage (row 0); it mentions those of all its questions.
        """
        mentioned = frozenset(k for question in questions.questions for k in question.keywords)
        about = frozenset(
            keyword
            for question in questions.questions
            if question.direction is Direction.INCOMING and question.vector_row == 0
            for keyword in question.keywords
        )
        self._of[questions.passage] = (mentioned, about)
        self._mentioned.update(mentioned)
        for name in about:
            self._about[name] = (*self._about.get(name, ()), questions.passage)

    def remove(self, passage: PassageId) -> None:
        """Take a passage out of the counts."""
        mentioned, about = self._of.pop(passage)
        for name in mentioned:
            self._mentioned[name] -= 1
            if not self._mentioned[name]:
                del self._mentioned[name]
        for name in about:
            left = tuple(other for other in self._about[name] if other != passage)
            if left:
                self._about[name] = left
            else:
                del self._about[name]

    def __contains__(self, name: str) -> bool:
        """Whether a passage mentions it."""
        return name in self._mentioned

    def new(self, called: Iterable[Called]) -> list[Called]:
        """Those of the called whose name is no topic of their passage."""
        return [(passage, name) for passage, name in called if name not in self._of[passage][1]]

    def frozen(
        self, new: Iterable[Called] = ()
    ) -> tuple[dict[str, int], dict[str, tuple[PassageId, ...]]]:
        """Copies for a reader: how many passages mention each name, and which are about it.

        The `new` count as topics of their passages.
        """
        mentioned, about = dict(self._mentioned), dict(self._about)
        for passage, name in new:
            mentioned[name] = mentioned.get(name, 0) + (name not in self._of[passage][0])
            about[name] = (*about.get(name, ()), passage)
        return mentioned, about
