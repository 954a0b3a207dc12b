"""One evaluation: index the corpus in a store of its own, ask every question by every strategy."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hopsyncd.evaluation.data import GoldQuestion
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.query.engine import Engine, Head, head_of
from hopsyncd.strategy import Search
from hopsyncd.sync.apply import Batch, QuestionMaker, Writer
from hopsyncd.sync.read import ReadDocument
from hopsyncd.text.encoder import Encoder
from store.database import open_writer
from store.records import Document, Passage, PassageId, Placement, content_hash
from store.sources import register_source

DATABASE_NAME = "evaluation.db"
DEPTHS = (2, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over the questions, in percent, and milliseconds a question.

    `recall` is by depth: the share of a question's gold passages among the first so many.
    `all_at_5` is the share of questions with all of them in the first five.
    """

    recall: Mapping[int, float]
    all_at_5: float
    ms_p50: float
    ms_p95: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one run measured."""

    scores: Mapping[str, Scores]
    index_s: float
    passages: int
    edges: int


def evaluate(
    folder: Path,
    corpus: Mapping[str, Passage],
    questions: Sequence[GoldQuestion],
    searches: Mapping[str, Search],
    encoder: Encoder,
    maker: QuestionMaker,
    *,
    budget_factor: float,
    walk: WalkSettings,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Build a store in `folder` and measure; nothing else is read or written."""
    began_s = time.perf_counter()
    head = build(folder, corpus, maker, budget_factor, on_progress)
    index_s = time.perf_counter() - began_s
    engine = Engine(folder / DATABASE_NAME, encoder, walk)
    engine.publish(head)
    return Evaluation(
        {name: measure(engine, search, corpus, questions) for name, search in searches.items()},
        index_s,
        head.version.passages,
        len(head.view.source),
    )


def build(
    folder: Path,
    corpus: Mapping[str, Passage],
    maker: QuestionMaker,
    budget_factor: float,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Head:
    """Index the corpus in a new database in `folder`; returns the head to serve."""
    connection = open_writer(folder / DATABASE_NAME)
    try:
        writer = Writer(
            connection, maker, rules="corpus", budget_factor=budget_factor, now_ms=lambda: 0
        )
        source = register_source(connection, "corpus", "corpus", str(folder))
        version = writer.apply(_whole(source, corpus), on_progress)
        if version is None:
            raise ValueError("the corpus is empty")
        return head_of(connection, version, writer.index)
    finally:
        connection.close()


def _whole(source: int, corpus: Mapping[str, Passage]) -> Batch:
    read = tuple(
        ReadDocument(
            Document(
                source,
                line,
                content_hash(passage.text.encode()),
                "text/plain",
                (Placement(passage.id, 1, 1),),
            ),
            (passage,),
        )
        for line, passage in corpus.items()
    )
    return Batch("evaluation", read)


def measure(
    engine: Engine,
    search: Search,
    corpus: Mapping[str, Passage],
    questions: Sequence[GoldQuestion],
) -> Scores:
    """Ask every question of an engine that serves the corpus, after one to warm up."""
    engine.query(questions[0].question, max(DEPTHS), search)
    recall: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    complete: list[bool] = []
    took_ms: list[float] = []
    for question in questions:
        began_s = time.perf_counter()
        answer = engine.query(question.question, max(DEPTHS), search)
        took_ms.append((time.perf_counter() - began_s) * 1000)
        assert answer is not None
        found = [ranked.passage for ranked in answer.ranked]
        gold: set[PassageId] = {corpus[line].id for line in question.gold}
        for depth in DEPTHS:
            recall[depth].append(len(gold.intersection(found[:depth])) / len(gold))
        complete.append(gold.issubset(found[:5]))
    return Scores(
        {depth: 100 * float(np.mean(values)) for depth, values in recall.items()},
        100 * float(np.mean(complete)),
        float(np.percentile(took_ms, 50)),
        float(np.percentile(took_ms, 95)),
    )
