"""Which passages mention a name, and which are about it: exact running counts.

What depends on the whole corpus, such as a name's rarity, is never stored with an edge: it would
change with every document. It is kept here and applied when reading.
"""

from collections import Counter

from store.records import Direction, PassageId, QuestionSet


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

    def frozen(self) -> tuple[dict[str, int], dict[str, tuple[PassageId, ...]]]:
        """Copies for a reader: how many passages mention each name, and which are about it."""
        return dict(self._mentioned), dict(self._about)
