"""Makes question sets from an LLM's output.

The output consists of questions (HopRAG) or statements (Hierarchical Lexical Graph). The keywords
of a question are the names in it, and its vector is the vector of its text. LLM questions and
built-in questions find different passages, so with `both` a passage gets both.

Statements replace the sentences of the passage. Each statement becomes an incoming question whose
keywords are the statement's entities and its topic. Each entity that is not a topic gets an
outgoing question where it is first mentioned.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hopsyncd.errors import LlmError, NotAsked
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.language import Language
from hopsyncd.models.llm.budget import LlmContext
from hopsyncd.models.questions import (
    Drafts,
    MakeResult,
    QuestionDraft,
    draft_questions,
    embed_drafts,
    make_builtin_generation,
)
from store.records import Direction, GenerationConfig, Passage, QuestionSet

_VERSION = "asked/1"

Mode = Literal["both", "llm", "statements"]
"""The questions to make: built-in and from an LLM, only from an LLM (as in the HopRAG paper), or
statements from an LLM."""

MIN_INCOMING, MIN_OUTGOING = 2, 4


@dataclass(frozen=True, slots=True)
class LlmQuestions:
    """The questions that a passage answers (incoming) and the questions that it raises
    (outgoing)."""

    incoming: tuple[str, ...]
    outgoing: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.incoming) + len(self.outgoing)

    @property
    def is_full(self) -> bool:
        """Whether there are at least HopRAG's minimum numbers of incoming and outgoing
        questions."""
        return len(self.incoming) >= MIN_INCOMING and len(self.outgoing) >= MIN_OUTGOING


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause that can be understood alone.

    topic: the keyword of its topic, or "". entities: the names in the clause's facts, as written,
    by keyword.
    """

    text: str
    topic: str
    entities: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LlmStatements:
    """The statements in a passage.

    topics: the names of the topics, as written, by keyword.
    """

    topics: Mapping[str, str]
    statements: tuple[Statement, ...]

    @property
    def size(self) -> int:
        return len(self.statements)

    @property
    def is_full(self) -> bool:
        return any(statement.entities for statement in self.statements)


LlmOutput = LlmQuestions | LlmStatements
Result = tuple[Passage, LlmOutput | LlmError]


class Extractor(Protocol):
    """Gets questions or statements about passages from an LLM or from recorded replies."""

    @property
    def name(self) -> str:
        """The name of the prompt and the model. A change that can alter results changes this
        name."""
        ...

    def ask_each(
        self, passages: Sequence[Passage], context: LlmContext
    ) -> Iterator[Sequence[Result]]:
        """Yield each passage with its output or an error, as replies arrive.

        The results of one call are yielded together.
        """
        ...


class LlmQuestionMaker:
    store_after, store_every_s = 1, 0.0

    def __init__(self, asker: Extractor, language: Language, encoder: Encoder, mode: Mode) -> None:
        self._asker = asker
        self._language = language
        self._encoder = encoder
        self._mode = mode

    @property
    def provisional_generation(self) -> GenerationConfig:
        return make_builtin_generation(self._language, self._encoder)

    @property
    def generation(self) -> GenerationConfig:
        plain = self.provisional_generation
        name = f"{_VERSION}:{self._mode}+{self._asker.name}+{plain.name}"
        return replace(plain, name=name)

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None
    ) -> Iterator[Sequence[MakeResult]]:
        if context is None:
            yield [(passage, _not_asked_error()) for passage in passages]
            return
        for results in self._asker.ask_each([*passages], context):
            yield [
                (passage, result if isinstance(result, LlmError) else self._make(passage, result))
                for passage, result in results
            ]

    def make_provisional(self, passage: Passage) -> QuestionSet:
        (mentions,) = self._language.find_mentions([passage.text])
        drafts = draft_questions(passage, mentions)
        return embed_drafts(passage, drafts, self.generation, self._encoder, provisional=True)

    def _make(self, passage: Passage, output: LlmOutput) -> QuestionSet:
        if isinstance(output, LlmStatements):
            (mentions,) = self._language.find_mentions([passage.text])
            drafts = draft_statements(draft_questions(passage, mentions), output)
        else:
            drafts = self._ask_for_drafts(passage, output)
        return embed_drafts(passage, drafts, self.generation, self._encoder)

    def _ask_for_drafts(self, passage: Passage, asked: LlmQuestions) -> Drafts:
        mentions, *names = self._language.find_mentions(
            [passage.text, *asked.incoming, *asked.outgoing]
        )
        builtin = draft_questions(passage, mentions)
        builtin_drafts = builtin.questions if self._mode == "both" else ()
        # The first context is the passage itself, because each set begins with its vector.
        contexts = [*(builtin.contexts if builtin_drafts else builtin.contexts[:1])]
        drafts = [*builtin_drafts]
        questions = [
            *((Direction.INCOMING, text) for text in asked.incoming),
            *((Direction.OUTGOING, text) for text in asked.outgoing),
        ]
        for (direction, text), found in zip(questions, names, strict=True):
            keywords = frozenset(mention.keyword for mention in found)
            drafts.append(QuestionDraft(direction, text, keywords, len(contexts)))
            contexts.append(text)
        return Drafts(tuple(drafts), tuple(contexts), len(questions))


def draft_statements(drafts_of_text: Drafts, output: LlmStatements) -> Drafts:
    """Replace the sentences in a passage's drafts with its statements.

    The headings of the passage remain topics, in addition to the topics of the statements.
    """
    drafts = [question for question in drafts_of_text.questions if question.context == 0]
    asked = {keyword for draft in drafts for keyword in draft.keywords}
    for topic, name in output.topics.items():
        if topic not in asked:
            asked.add(topic)
            drafts.append(
                QuestionDraft(Direction.INCOMING, f"What is {name}?", frozenset([topic]), 0)
            )
    for row, statement in enumerate(output.statements, 1):
        keywords = frozenset([*statement.entities, *([statement.topic] if statement.topic else [])])
        drafts.append(QuestionDraft(Direction.INCOMING, statement.text, keywords, row))
    for row, statement in enumerate(output.statements, 1):
        for keyword, name in statement.entities.items():
            if keyword in asked:
                continue
            asked.add(keyword)
            raised = f"What is said of {name}?"
            drafts.append(QuestionDraft(Direction.OUTGOING, raised, frozenset([keyword]), row))
    texts = tuple(statement.text for statement in output.statements)
    return Drafts(tuple(drafts), (drafts_of_text.contexts[0], *texts))


def _not_asked_error() -> NotAsked:
    return NotAsked(
        "The LLM was not asked", "other work comes first", "The LLM will be asked later"
    )
