"""Measure the recall that is lost when a collection is indexed in two or four parts.

Each passage is put into a random part, so the passages of a question are mostly in different parts:
the worst case. Each part is searched separately, and the results are merged by rank or by score.
Scores of two indexes are not strictly comparable.

python benchmarks/partition.py
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from common import arguments, dataset, table

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import Share
from hopsyncd.evaluation.run import DATABASE_NAME, build
from hopsyncd.models.llm.budget import LlmContext
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import BuiltinMaker, MakeResult
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import Passage, PassageId

_NAMES = ("hotpotqa", "musique")
_PARTS = (1, 2, 4)
_DEPTHS = (5, 10, 20)


class OnceMaker(BuiltinMaker):
    """Makes the question set of each passage only once."""

    def __init__(self, models: Models, workers: int) -> None:
        super().__init__(models.language, models.encoder, workers)
        self._known: dict[PassageId, MakeResult] = {}

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None = None
    ) -> Iterator[Sequence[MakeResult]]:
        wanted = list(passages)
        yield [self._known[passage.id] for passage in wanted if passage.id in self._known]
        for made in super().make_each(
            [passage for passage in wanted if passage.id not in self._known]
        ):
            self._known |= {passage.id: (passage, got) for passage, got in made}
            yield made


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("--only", {"choices": _NAMES, "action": "append"}),
    )
    config = Config()
    models = load_models(config)
    for name in given.only or _NAMES:
        folder = dataset(given.data, name)
        corpus = read_corpus(folder / "corpus.jsonl")
        questions = read_questions(folder / "questions.jsonl", corpus)
        maker = OnceMaker(models, config.models.workers)
        print(f"{name}: {len(corpus)} passages, {len(questions)} questions, `hop`, percent\n")
        table(
            ["parts", "merged by", *(f"recall@{depth}" for depth in _DEPTHS), "all@5"],
            [row for parts in _PARTS for row in _rows(parts, corpus, questions, models, maker)],
        )


def _rows(
    parts: int,
    corpus: Mapping[str, Passage],
    questions: Sequence[GoldQuestion],
    models: Models,
    maker: OnceMaker,
) -> list[list[object]]:
    with TemporaryDirectory() as kept:
        engines = [
            _engine(Path(kept) / str(index), part, models, maker)
            for index, part in enumerate(_divided(corpus, parts))
        ]
        found = [
            [_asked(engine, question.question) for engine in engines] for question in questions
        ]
    gold = [{corpus[id_].id for id_ in question.gold} for question in questions]
    by_rank = [
        [hit.passage for hit in chain(*zip_longest(*each)) if hit is not None] for each in found
    ]
    by_score = [
        [hit.passage for hit in sorted(chain(*each), key=lambda hit: -hit.score)] for each in found
    ]
    if parts == 1:
        return [[parts, "-", *_figures(by_rank, gold)]]
    return [
        [parts, "rank", *_figures(by_rank, gold)],
        [parts, "score", *_figures(by_score, gold)],
    ]


def _divided(corpus: Mapping[str, Passage], parts: int) -> list[dict[str, Passage]]:
    lines = list(corpus.items())
    random.Random(1).shuffle(lines)
    return [dict(lines[index::parts]) for index in range(parts)]


def _engine(folder: Path, part: dict[str, Passage], models: Models, maker: OnceMaker) -> Engine:
    served = build(folder, part, maker, 1.0)
    engine = Engine(folder / DATABASE_NAME, models.encoder, WalkSettings())
    engine.publish(served)
    return engine


def _asked(engine: Engine, question: str) -> Sequence[Ranked]:
    answer = engine.query(question, max(_DEPTHS), Search())
    assert answer is not None
    return answer.ranked


def _figures(found: Sequence[list[PassageId]], gold: Sequence[set[PassageId]]) -> list[Share]:
    """The percentage of gold passages at each depth, and of questions with all in the first 5."""

    def shares(depth: int) -> list[float]:
        return [
            len(wanted & {*ranked[:depth]}) / len(wanted)
            for ranked, wanted in zip(found, gold, strict=True)
        ]

    recalls = [Share.from_values(shares(depth)) for depth in _DEPTHS]
    return [*recalls, Share.from_values([float(share == 1) for share in shares(5)])]


if __name__ == "__main__":
    main()
