"""Small, deterministic stand-ins for the encoder, the spaCy model and the question maker."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hopsyncd.models.keywords import Mention, find_mentions, find_neutral_spans
from hopsyncd.models.language import Entity, EntityKind
from hopsyncd.models.llm.budget import LlmContext
from hopsyncd.models.questions import BuiltinMaker, MakeResult, QuestionMaker
from store.records import GenerationConfig, Passage, PassageId, QuestionSet

_WORD = re.compile(r"\w+")
_ENTITY = re.compile(
    r"\b(?P<date>\d{4})\b|\b(?P<number>\d+)\b|\bin (?P<place>[A-Z]\w+)|\bby (?P<person>[A-Z]\w+)"
)


class FakeEncoder:
    """Bags of words: every word is a direction, plus or minus; a text is their sum.

    `encoded` counts the texts.
    """

    def __init__(self, dimensions: int = 16) -> None:
        self.name = f"bag-of-words-{dimensions}"
        self.dimensions = dimensions
        self.encoded = 0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += len(texts)
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in _WORD.findall(text.lower()):
                digest = blake2b(word.encode(), digest_size=4).digest()
                sign = 1 if digest[3] & 1 else -1
                vectors[row, int.from_bytes(digest[:3], "big") % self.dimensions] += sign
        return vectors


@dataclass(frozen=True, slots=True)
class WatchedEncoder:
    """An encoder that tells of each call: the texts before it, their number after it."""

    encoder: FakeEncoder
    before: Callable[[Sequence[str]], None] = lambda texts: None
    after: Callable[[int], None] = lambda count: None

    @property
    def name(self) -> str:
        return self.encoder.name

    @property
    def dimensions(self) -> int:
        return self.encoder.dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.before(texts)
        vectors = self.encoder.encode(texts)
        self.after(len(texts))
        return vectors


class FakeLanguage:
    """Names by the language-neutral rules alone."""

    name = "neutral"

    def find_mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        return [find_mentions(text, find_neutral_spans(text)) for text in texts]

    def find_entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """Four digits are a date, others a number; a capitalised word after `in` is a place, after
        `by` a person."""
        return [
            tuple(
                Entity(*found.span(found.lastgroup or 0), cast(EntityKind, found.lastgroup))
                for found in _ENTITY.finditer(text)
            )
            for text in texts
        ]


class CountingMaker:
    """A real maker that remembers for which passages it made sets, in order.

    A set that it gives twice was made once.
    """

    def __init__(self, maker: QuestionMaker) -> None:
        self._maker = maker
        self.made: list[PassageId] = []
        self._given: dict[int, QuestionSet] = {}

    @property
    def generation(self) -> GenerationConfig:
        return self._maker.generation

    @property
    def store_after(self) -> int:
        return self._maker.store_after

    @property
    def store_every_s(self) -> float:
        return self._maker.store_every_s

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None
    ) -> Iterator[Sequence[MakeResult]]:
        for made in self._maker.make_each(passages, context):
            for passage, got in made:
                if isinstance(got, QuestionSet) and id(got) not in self._given:
                    self._given[id(got)] = got
                    self.made.append(passage.id)
            yield made

    @property
    def provisional_generation(self) -> GenerationConfig:
        return self._maker.provisional_generation

    def make_provisional(self, passage: Passage) -> QuestionSet:
        self.made.append(passage.id)
        return self._maker.make_provisional(passage)


OTHER_MODELS = "HOPSYNCD_TEST_OTHER_MODELS"  # set where a worker has others than the daemon


def maker_on_worker(_: object) -> BuiltinMaker:
    """As a worker of a cluster loads it; slow enough to be killed meanwhile."""
    encoder = FakeEncoder(8 if OTHER_MODELS in os.environ else 16)
    return BuiltinMaker(FakeLanguage(), WatchedEncoder(encoder, lambda _: time.sleep(0.05)))
