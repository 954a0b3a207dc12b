"""Question sets with an asker's questions, such as an LLM's, besides the built-in ones.

The two find different things, so by default a passage gets both. As in HopRAG, the keywords of an
asked question are the names in it, and its vector is that of its text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hopsyncd.errors import LlmError, NotAsked
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.language import Language
from hopsyncd.models.llm.budget import LlmContext
from hopsyncd.models.questions import Drafts, Made, QuestionDraft, builtin_recipe, draft, embedded
from store.records import Direction, Passage, QuestionSet, Recipe

_VERSION = "asked/1"

Mode = Literal["both", "llm"]
"""The built-in questions and the asked ones, or, as in the paper, the asked ones alone."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions that a passage answers, and those that it raises."""

    incoming: tuple[str, ...]
    outgoing: tuple[str, ...]


Result = tuple[Passage, Asked | LlmError]


class QuestionAsker(Protocol):
    """Asks the questions of passages."""

    @property
    def name(self) -> str:
        """Identifies how it asks; changes whenever its questions would."""
        ...

    def ask_each(
        self, passages: Sequence[Passage], context: LlmContext
    ) -> Iterator[Sequence[Result]]:
        """Yield the questions of each passage, or why there are none, as they come.

        Each passage comes once; results that come together were paid for together.
        """
        ...


class AskedMaker:
    """Makes question sets from an asker's questions."""

    store_after = 1

    def __init__(
        self, asker: QuestionAsker, language: Language, encoder: Encoder, mode: Mode
    ) -> None:
        self._asker = asker
        self._language = language
        self._encoder = encoder
        self._mode = mode
        self.provisional_recipe = builtin_recipe(language, encoder)
        self._recipe = replace(
            self.provisional_recipe,
            name=f"{_VERSION}:{mode}+{asker.name}+{self.provisional_recipe.name}",
        )

    @property
    def recipe(self) -> Recipe:
        return self._recipe

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None
    ) -> Iterator[Sequence[Made]]:
        if context is None:
            yield [(passage, _not_asked()) for passage in passages]
            return
        for results in self._asker.ask_each([*passages], context):
            yield [
                (passage, got if isinstance(got, LlmError) else self._make(passage, got))
                for passage, got in results
            ]

    def make_provisional(self, passage: Passage) -> QuestionSet:
        (mentions,) = self._language.mentions([passage.text])
        drafts = draft(passage, mentions)
        return embedded(passage, drafts, self._recipe, self._encoder, provisional=True)

    def _make(self, passage: Passage, asked: Asked) -> QuestionSet:
        mentions, *names = self._language.mentions([passage.text, *asked.incoming, *asked.outgoing])
        own = draft(passage, mentions)
        kept = own.questions if self._mode == "both" else ()
        # The first context is the passage itself: each set begins with its vector.
        contexts = [*(own.contexts if kept else own.contexts[:1])]
        drafts = [*kept]
        questions = [
            *((Direction.INCOMING, text) for text in asked.incoming),
            *((Direction.OUTGOING, text) for text in asked.outgoing),
        ]
        for (direction, text), found in zip(questions, names, strict=True):
            keywords = frozenset(mention.keyword for mention in found)
            drafts.append(QuestionDraft(direction, text, keywords, len(contexts)))
            contexts.append(text)
        made = Drafts(tuple(drafts), tuple(contexts))
        return embedded(passage, made, self._recipe, self._encoder)


def _not_asked() -> NotAsked:
    return NotAsked("The LLM was not asked", "other work comes first", "It will be asked later")
