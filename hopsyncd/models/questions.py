"""The built-in question generator: derives the questions of a passage without an LLM.

HopRAG asks an LLM for at least 2 questions that a passage answers (incoming) and at least 4 that it
raises (outgoing). This generator derives them from the text:

- incoming: "What is <topic>?" for each heading above the passage, and each sentence, as the answer
to a question about its names and the topic;
- outgoing: "What is said of <name>?" for each name in the passage that is not its topic. The
question's vector is the vector of the sentence that mentions the name first.

Worked example: heading "Charmed", text "Charmed is a series. It starred Drew Fuller." gives
incoming {charmed}, {charmed} (first sentence), {charmed, drew fuller} (second), and outgoing {drew
fuller}.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, count, islice
from typing import Protocol

import numpy as np

from hopsyncd.errors import LlmError
from hopsyncd.formats.units import split_into_sentences as split_sentences
from hopsyncd.models.encoder import Encoder, encode_questions
from hopsyncd.models.keywords import Mention, find_topic
from hopsyncd.models.language import Language
from hopsyncd.models.llm.budget import LlmContext
from store.records import (
    Direction,
    GenerationConfig,
    Passage,
    PassageId,
    Question,
    QuestionSet,
    SetId,
    compute_question_id,
    compute_set_id,
    to_grid,
)

GENERATOR = "builtin/2"
_MIN_LINE_CHARACTERS = 40  # A shorter line, as in code or lists, is joined to the next line.
_NICE = 10  # a low priority, because queries come first.
_FEW = 2  # An edit of up to this number of passages runs in the caller, at normal priority.
_TOGETHER = 16  # passages per call of the spaCy model. An edit may wait for one call.

MakeResult = tuple[Passage, QuestionSet | LlmError]


class QuestionMaker(Protocol):
    @property
    def generation(self) -> GenerationConfig:
        """The settings of the generator and its models. A change that can alter results changes the
        name of the settings."""
        ...

    @property
    def store_after(self) -> int:
        """The number of results that are stored in one transaction. A crash can lose up to that
        many results."""
        ...

    @property
    def store_every_s(self) -> float:
        """The seconds after which finished results are stored, even if there are fewer."""
        ...

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None
    ) -> Iterator[Sequence[MakeResult]]:
        """Yield groups of results as they are finished. A result is a passage with its question set
        or an error.

        The error says why the LLM gave no result. Without a `context`, no LLM is called.
        """
        ...

    def make_provisional(self, passage: Passage) -> QuestionSet:
        """Make a question set to use until the LLM has answered for this passage."""
        ...

    @property
    def provisional_generation(self) -> GenerationConfig:
        """The generation settings whose sets are the same as the sets of `make_provisional`, except
        for their ids.
        """
        ...


@dataclass(frozen=True, slots=True)
class QuestionDraft:
    """A question without its vector and id.

    context: the text whose vector it gets, as a position in `Drafts.contexts`. Context 0 is the
    whole passage.
    """

    direction: Direction
    text: str
    keywords: frozenset[str]
    context: int


@dataclass(frozen=True, slots=True)
class Drafts:
    """The questions of one passage, and the texts to embed for them.

    texts_as_questions: the number of texts at the end of `contexts` that are questions. Some
    encoders treat questions differently.
    """

    questions: tuple[QuestionDraft, ...]
    contexts: tuple[str, ...]
    texts_as_questions: int = 0


def draft_questions(passage: Passage, mentions: Sequence[Mention]) -> Drafts:
    """Derive the questions of a passage; `mentions` are the names in its text."""
    spans = find_sentence_spans(passage.text)
    topics = {keyword: topic for topic in passage.heading if (keyword := find_topic(topic))}
    by_sentence = _group_by_sentence(mentions, spans)
    about = " > ".join(passage.heading)
    contexts = [f"{about}\n{passage.text}" if about else passage.text]
    for start, end in spans:
        sentence = passage.text[start:end]
        contexts.append(f"{about}: {sentence}" if about else sentence)
    incoming = [
        QuestionDraft(Direction.INCOMING, f"What is {topic}?", frozenset([keyword]), 0)
        for keyword, topic in topics.items()
    ]
    for row, ((start, end), found) in enumerate(zip(spans, by_sentence, strict=True), 1):
        keywords = frozenset(mention.keyword for mention in found) | topics.keys()
        incoming.append(QuestionDraft(Direction.INCOMING, passage.text[start:end], keywords, row))
    outgoing = _draft_outgoing(passage.text, by_sentence, set(topics))
    return Drafts((*incoming, *outgoing), tuple(contexts))


def find_sentence_spans(text: str) -> list[tuple[int, int]]:
    """Find a passage's sentences. Returns their (start, end), without white space around them. A
    short line is joined with the next line.

    >>> find_sentence_spans("One. Two.")
    [(0, 4), (5, 9)]
    """
    spans: list[tuple[int, int]] = []
    start = offset = 0
    for line in text.splitlines(keepends=True):
        offset += len(line)
        short = len(text[start:offset].strip()) < _MIN_LINE_CHARACTERS and offset < len(text)
        if short and line.strip():
            continue
        for sentence in split_sentences(text[start:offset]):
            bare = sentence.strip()
            begin = start + sentence.find(bare)
            if bare:
                spans.append((begin, begin + len(bare)))
            start += len(sentence)
    return spans


def ask_about_name(name: str) -> str:
    """Make the question that a passage raises by mentioning a name.

    >>> ask_about_name("the Tiber")
    'What is said of the Tiber?'
    """
    return f"What is said of {name}?"


def _group_by_sentence(
    mentions: Sequence[Mention], spans: Sequence[tuple[int, int]]
) -> list[list[Mention]]:
    return [[m for m in mentions if start <= m.start < end] for start, end in spans]


def _draft_outgoing(
    text: str, by_sentence: Sequence[Sequence[Mention]], asked: set[str]
) -> Iterator[QuestionDraft]:
    """Draft a question for each name that is not in `asked`, and add the name to `asked`. The
    context of a question is the sentence that first mentions the name."""
    for row, found in enumerate(by_sentence, 1):
        for mention in found:
            if mention.keyword in asked:
                continue
            asked.add(mention.keyword)
            name = text[mention.start : mention.end]
            yield QuestionDraft(
                Direction.OUTGOING,
                ask_about_name(name),
                frozenset([mention.keyword]),
                row,
            )


def embed_drafts(
    passage: Passage,
    drafts: Drafts,
    generation: GenerationConfig,
    encoder: Encoder,
    *,
    provisional: bool = False,
) -> QuestionSet:
    """Make the question set of a passage: compute the ids and vectors of its drafts. The ids
    depend on `generation`. A `provisional` set is used until the LLM has answered."""
    (passage_set,) = embed_each([passage], [drafts], generation, encoder, provisional=provisional)
    return passage_set


def embed_each(
    passages: Sequence[Passage],
    drafts: Sequence[Drafts],
    generation: GenerationConfig,
    encoder: Encoder,
    *,
    provisional: bool = False,
) -> list[QuestionSet]:
    """Compute ids and vectors for the drafts of several passages. The encoder is called once for
    all texts of passages, and once for all questions if there are any."""
    passage_texts = [
        draft.contexts[: len(draft.contexts) - draft.texts_as_questions] for draft in drafts
    ]
    contexts = [
        draft.contexts[len(draft.contexts) - draft.texts_as_questions :] for draft in drafts
    ]
    vectors = iter(to_grid(encoder.encode([*chain(*passage_texts)])))
    if any(contexts):
        asked_vectors = iter(to_grid(encode_questions(encoder, [*chain(*contexts)])))
    else:
        asked_vectors = iter(())
    sets = []
    for passage, draft, texts, questions in zip(
        passages, drafts, passage_texts, contexts, strict=True
    ):
        in_set = compute_set_id(passage.id, generation.name, provisional=provisional)
        rows = [*islice(vectors, len(texts)), *islice(asked_vectors, len(questions))]
        sets.append(
            QuestionSet(in_set, passage.id, _number(in_set, draft), np.stack(rows), provisional)
        )
    return sets


def _number(in_set: SetId, drafts: Drafts) -> tuple[Question, ...]:
    """Convert the drafts to questions with ids in the set `in_set`, in order."""
    ordinals = {direction: count() for direction in Direction}
    return tuple(
        Question(
            compute_question_id(in_set, question.direction, next(ordinals[question.direction])),
            question.direction,
            question.text,
            question.keywords,
            question.context,
        )
        for question in drafts.questions
    )


def make_builtin_generation(language: Language, encoder: Encoder) -> GenerationConfig:
    """Return the settings of the built-in generator with these models."""
    return GenerationConfig(
        name=f"{GENERATOR}+{language.name}+{encoder.name}",
        encoder=encoder.name,
        dimensions=encoder.dimensions,
    )


def _lower_priority() -> None:
    """Lower the priority of this thread. Works only on Linux."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class _LazySet:
    """A question set that is made in the caller's thread when its result is first requested."""

    def __init__(self, make: Callable[[], QuestionSet]) -> None:
        self.result = cache(make)

    def cancel(self) -> None:
        """Do nothing, because no work is running."""


@dataclass(frozen=True, slots=True)
class _PartOfGroup:
    """The question set of one passage, from a future that makes several sets."""

    future: Future[list[QuestionSet]]
    position: int

    def result(self) -> QuestionSet:
        return self.future.result()[self.position]

    def cancel(self) -> None:
        """Cancel the future, and with it all sets of the group. They belong to the same import."""
        self.future.cancel()


class BuiltinMaker:
    """Makes question sets, with a spaCy model for names and an encoder for vectors."""

    store_after, store_every_s = 1024, 2.0

    def __init__(
        self, language: Language, encoder: Encoder, workers: int = 1, together: int = 1
    ) -> None:
        """With more than one worker, low-priority threads make the sets of three or more passages
        in parallel.

        Meanwhile another thread finds the names in the next passages. Each worker passes the texts
        of `together` passages to the encoder in one call. Otherwise, sets are made on the caller's
        thread when they are requested.
        """
        self._together = together
        self._pool = (
            ThreadPoolExecutor(workers, "questions", _lower_priority) if workers > 1 else None
        )
        self._names = ThreadPoolExecutor(1, "names", _lower_priority)
        self._making: dict[PassageId, _PartOfGroup | _LazySet] = {}
        self._language = language
        self._encoder = encoder

    @property
    def generation(self) -> GenerationConfig:
        # This may send a request to an endpoint, for the length of its vectors.
        return make_builtin_generation(self._language, self._encoder)

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None = None
    ) -> Iterator[Sequence[MakeResult]]:
        coming = iter(passages)
        first = [*islice(coming, _FEW + 1)]
        pool, coming = self._pool if len(first) > _FEW else None, chain(first, coming)
        pending: deque[Passage] = deque()
        try:
            while group := [*islice(coming, _TOGETHER)]:
                # An outer make_each() has already begun these passages, so do not begin them again.
                begun = [passage for passage in group if passage.id in self._making]
                for passage in begun:
                    yield [(passage, self._making[passage.id].result())]
                self._begin(pool, [passage for passage in group if passage not in begun], pending)
                while len(pending) > (_TOGETHER if pool else 0):
                    yield [self._finish_next(pending)]
            while pending:
                yield [self._finish_next(pending)]
        finally:
            for passage in pending:
                self._making.pop(passage.id).cancel()

    def _begin(
        self, pool: ThreadPoolExecutor | None, group: Sequence[Passage], pending: deque[Passage]
    ) -> None:
        """Start to make the sets of a group in the pool. Without a pool, they are made when
        requested."""
        texts = [passage.text for passage in group]
        if pool is None:
            named = self._language.find_mentions(texts) if texts else []
            for passage, mentions in zip(group, named, strict=True):
                self._making[passage.id] = _LazySet(partial(self._make_set, passage, mentions))
                pending.append(passage)
            return
        naming = self._names.submit(self._language.find_mentions, texts)
        for start in range(0, len(group), self._together):
            part = group[start : start + self._together]
            making = pool.submit(self._make_sets_of, part, naming, start)
            for index, passage in enumerate(part):
                self._making[passage.id] = _PartOfGroup(making, index)
                pending.append(passage)

    def _finish_next(self, pending: deque[Passage]) -> MakeResult:
        question_set = self._making[pending[0].id].result()
        passage = pending.popleft()
        del self._making[passage.id]
        return passage, question_set

    @property
    def provisional_generation(self) -> GenerationConfig:
        return self.generation

    def make_provisional(self, passage: Passage) -> QuestionSet:
        return self.make(passage)

    def make(self, passage: Passage) -> QuestionSet:
        """Make the question set of one passage. Equal passages get equal question sets."""
        (mentions,) = self._language.find_mentions([passage.text])
        return self._make_set(passage, mentions)

    def _make_sets_of(
        self, passages: Sequence[Passage], naming: Future[list[tuple[Mention, ...]]], start: int
    ) -> list[QuestionSet]:
        named = naming.result()[start : start + len(passages)]
        drafts = [*map(draft_questions, passages, named)]
        return embed_each(passages, drafts, self.generation, self._encoder)

    def _make_set(self, passage: Passage, mentions: Sequence[Mention]) -> QuestionSet:
        return embed_drafts(
            passage, draft_questions(passage, mentions), self.generation, self._encoder
        )
