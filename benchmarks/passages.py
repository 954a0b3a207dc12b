"""The effect of passages, names and links on recall, and their cost.

python benchmarks/passages.py

Real documents and both samples are indexed in several ways. The cost is measured on the real
documents: the number of texts that are embedded, and the processor time without the encoder.
Vectors are kept between runs.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from ablation import COLUMNS, Trial, real, run_trial, sample, shares
from common import arguments, processor_s, table
from numpy.typing import NDArray
from real import KEEP
from variants import DEFAULT

from hopsyncd.config.configuration import Config
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.chunking import Chunk, yield_passages
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.keywords import (
    Mention,
    find_mentions,
    find_neutral_spans,
    find_topic,
    normalise,
)
from hopsyncd.models.language import Language
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.strategies.hop import search_by_walk
from store.records import Vectors, to_grid

VectorOf = Callable[[str], Vectors]


class OtherNames:
    """A spaCy model that finds other names than usual."""

    def __init__(
        self, language: Language, names: Callable[[Language, str], Iterable[Mention]]
    ) -> None:
        self.name, self.find_entities = language.name, language.find_entities
        self._language, self._names = language, names

    def find_mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        return [tuple(self._names(self._language, text)) for text in texts]


def without_codes(language: Language, text: str) -> list[Mention]:
    """All names except options, identifiers, numbered things and versions."""
    codes = {mention.keyword for mention in find_mentions(text, [])}
    return [one for one in language.find_mentions([text])[0] if one.keyword not in codes]


def by_rule(_: Language, text: str) -> tuple[Mention, ...]:
    """The names that the rules for unknown languages find."""
    return find_mentions(text, find_neutral_spans(text))


@dataclass(frozen=True, slots=True)
class Index:
    """A way to index: how documents are split, and which names and topics passages have."""

    cut: Callable[[Sequence[Block], int], Iterable[Chunk]] = yield_passages
    language: Callable[[Language], Language] = lambda language: language
    topic_of: Callable[[str], str] = find_topic


INDEXES = {
    "default: passages of 400 tokens": Index(),
    "passages of 300 tokens": Index(lambda blocks, _: yield_passages(blocks, 300)),
    "passages of 200 tokens": Index(lambda blocks, _: yield_passages(blocks, 200)),
    "no leads": Index(
        lambda blocks, tokens: yield_passages(
            [replace(block, leads=()) for block in blocks], tokens
        )
    ),
    "no headings but the nearest": Index(
        lambda blocks, tokens: (
            replace(chunk, heading=chunk.heading[-1:]) for chunk in yield_passages(blocks, tokens)
        )
    ),
    "no headings": Index(
        lambda blocks, tokens: (
            replace(chunk, heading=()) for chunk in yield_passages(blocks, tokens)
        )
    ),
    "no links": Index(
        lambda blocks, tokens: yield_passages(
            [replace(block, links=()) for block in blocks], tokens
        )
    ),
    "no options, identifiers and versions as names": Index(
        language=partial(OtherNames, names=without_codes)
    ),
    "names by rule alone, no spaCy model": Index(language=partial(OtherNames, names=by_rule)),
    "every heading a topic, `Usage` too": Index(topic_of=normalise),
}


class TimedEncoder:
    """An encoder that counts its processor time."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name, self.dimensions = encoder.name, encoder.dimensions
        self.taken_s = 0.0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        began_s = time.process_time()
        vectors = self._encoder.encode(texts)
        self.taken_s += time.process_time() - began_s
        return vectors


def spent_s() -> float:
    """The processor seconds of this process and its children."""
    ended = os.times()
    return processor_s(os.getpid()) + ended.children_user + ended.children_system


def indexed(
    data: Path, models: Models, index: Index, timed: TimedEncoder, vectors: VectorCache
) -> Iterator[object]:
    """Yield the costs, and then the percentages of each collection. Samples have no documents to
    split."""
    models = replace(models, maker=BuiltinMaker(index.language(models.language), vectors))
    vector_of: VectorOf = cache(lambda question: to_grid(vectors.encode([question]))[0])
    for name, columns in COLUMNS.items():
        if name != "realdocs" and index.cut is not yield_passages:
            yield from ["="] * len(columns)
            continue
        read = real if name == "realdocs" else sample
        with (
            TemporaryDirectory() as place,
            patch("hopsyncd.ingest.read.chunks", index.cut),
            patch("hopsyncd.models.questions.find_topic", index.topic_of),
        ):
            before_s = spent_s() - timed.taken_s
            asked = read(data / name, Path(place), models)
            took_s = spent_s() - timed.taken_s - before_s
            if name == "realdocs":
                texts = int(asked.head.index.passages.vector_end[-1])
                yield from (
                    asked.head.version.passages,
                    texts,
                    len(asked.head.list_edges()),
                    took_s,
                )
            trial = Trial("", "", asked.head, partial(search_by_walk, settings=DEFAULT))
            yield from shares(run_trial(asked, trial, vector_of), name)
            asked.connection.close()


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "default": KEEP, "help": f"Vectors. Default: {KEEP}"}),
        ("--only", {"choices": INDEXES, "action": "append"}),
    )
    models = load_models(Config())
    models.language.find_mentions(["Ada Lovelace"])  # starts its process
    timed = TimedEncoder(models.encoder)
    vectors = VectorCache(timed, given.keep)
    rows = []
    for name in given.only or INDEXES:
        print(f"indexing: {name}", file=sys.stderr)
        rows.append([name, *indexed(given.data, models, INDEXES[name], timed, vectors)])
    heads = [column for columns in COLUMNS.values() for column in columns]
    table(["index", "passages", "texts", "edges", "other CPU s", *heads], rows)


if __name__ == "__main__":
    main()
