"""Which passages mention a name, and which are about it: exact running counts.

What depends on the whole corpus, such as a name's rarity, is never stored with an edge: it would
change with every document. It is kept here and applied when reading.
"""

from collections import Counter
from collections.abc import Iterable

from store.records import Direction, PassageId, QuestionSet

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
