"""Small, deterministic stand-ins for the encoder, the language model and the question maker."""

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from hopsyncd.sync.apply import QuestionMaker
from hopsyncd.text.keywords import Mention, mentions, neutral_spans
from store.records import Passage, PassageId, QuestionSet, Recipe

_WORD = re.compile(r"\w+")


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


class FakeLanguage:
    """Names by the language-neutral rules alone."""

    name = "neutral"

    def mentions(self, text: str) -> tuple[Mention, ...]:
        return mentions(text, neutral_spans(text))


class CountingMaker:
    """A real maker that remembers for which passages it was asked, in order."""

    def __init__(self, maker: QuestionMaker) -> None:
        self._maker = maker
        self.made: list[PassageId] = []

    @property
    def recipe(self) -> Recipe:
        return self._maker.recipe

    def make(self, passage: Passage) -> QuestionSet:
        self.made.append(passage.id)
        return self._maker.make(passage)
