"""What each part of the search buys: the walk with parts left out or changed, and the way from the
paper's profile to ours, one difference at a time. No LLM.

python benchmarks/ablation.py --keep /tmp/hopsyncd-indexes
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from common import arguments, dataset, table
from numpy.typing import NDArray

from hopsyncd.config.configuration import Config
from hopsyncd.config.strategy import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.run import DATABASE_NAME, build, kept_folder, measure
from hopsyncd.index.matching import MergeIndex
from hopsyncd.index.similarity import HALF_COSINE
from hopsyncd.models.loading import load_models
from hopsyncd.retrieve.edge_traversal import choose_first, traverse
from hopsyncd.retrieve.hop import hop
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import Ranked, most_helpful, paper_helpfulness
from hopsyncd.retrieve.snapshot import Snapshot, head_of
from hopsyncd.retrieve.walk import WalkSettings, pull_of, walk
from store.records import PassageId, Vectors, to_grid
from store.sqlite.content import sets_at
from store.sqlite.database import Connection, open_reader
from store.sqlite.reads import matches_at
from store.sqlite.search import postings

Rank = Callable[[QueryContext, int], Sequence[Ranked]]
Floats = NDArray[np.float64]

TOP_K, N_HOP = 20, 4
_BLOCK = 256
DEFAULT = WalkSettings()
WALKS = {
    "default": DEFAULT,
    "1 hop": replace(DEFAULT, hops=1),
    "2 hops": replace(DEFAULT, hops=2),
    "3 hops": replace(DEFAULT, hops=3),
    "no walk (seeds only)": replace(DEFAULT, hops=0),
    "edges only": replace(DEFAULT, by_names=0.0),
    "edges only, directed": replace(DEFAULT, by_names=0.0, backwards=0.0),
    "names only": replace(DEFAULT, by_names=1.0),
    "edges directed": replace(DEFAULT, backwards=0.0),
    "nothing for what is new": replace(DEFAULT, gain=0.0),
    "blind to the query": replace(DEFAULT, sharpness=0.0, name_sharpness=0.0, gain=0.0),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A search that follows single edges by similarity; all False is the paper's profile."""

    seeds: bool = False
    ranking: bool = False
    both_ways: bool = False
    pull: bool = False

    def __call__(self, inquiry: QueryContext, k: int) -> list[Ranked]:
        view, likeness = inquiry.view, inquiry.of_edges()
        if self.seeds:
            mass = inquiry.seeds()
            begin = {at: float(mass[at]) for at in best(mass, view.passage)[:TOP_K].tolist()}
        else:
            targets = view.target[best(likeness, view.question)[:TOP_K]].tolist()
            begin = {at: float(targets.count(at)) for at in targets}
        worth = np.tile(pull_of(view, inquiry.cosines, DEFAULT) if self.pull else likeness, 2)
        leading = view.ways.both if self.both_ways else view.ways.forwards

        def ways(passage: int) -> tuple[int, ...]:
            out = leading(passage)
            return tuple(out[best(worth[out], view.question[out % len(view.source)])].tolist())

        weight = (lambda had: DEFAULT.damping * had) if self.seeds else (lambda _: 1.0)
        found = traverse(begin, ways, view.ways.end, choose_first, N_HOP, weight)
        arrived = np.zeros(len(view.passage))
        arrived[list(found.visits)] = list(found.visits.values())
        if self.ranking:
            return ranked(inquiry, most_helpful(arrived, view.passage, inquiry.coverage, k))
        return ranked(inquiry, by_paper(inquiry, arrived, min(k, TOP_K)))


STEPS = {
    "the paper's profile, similarity": Step(),
    "+ our seeds, with their mass": Step(seeds=True),
    "+ our helpfulness": Step(seeds=True, ranking=True),
    "+ edges both ways": Step(seeds=True, ranking=True, both_ways=True),
    "+ the walk's pull in place of Eq. 1": Step(True, True, True, True),
    "+ mass along all edges (edges only)": partial(hop, settings=WALKS["edges only"]),
    "+ names as ways (default)": partial(hop, settings=DEFAULT),
}


def paper_ranking(inquiry: QueryContext, k: int) -> list[Ranked]:
    """Our walk, and the paper's helpfulness."""
    walked = walk(inquiry.view, inquiry.seeds(), inquiry.cosines, inquiry.coverage, DEFAULT)
    return ranked(inquiry, by_paper(inquiry, walked.arrived, k))


def by_paper(inquiry: QueryContext, arrived: Floats, k: int) -> list[tuple[int, float]]:
    values = np.where(arrived > 0, paper_helpfulness(inquiry.of_passages(), arrived), -np.inf)
    return [(at, float(values[at])) for at in best(values, inquiry.view.passage)[:k].tolist()]


def ranked(inquiry: QueryContext, found: Sequence[tuple[int, float]]) -> list[Ranked]:
    return [Ranked(PassageId(int(inquiry.view.passage[at])), score) for at, score in found]


def best(values: Floats, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.lexsort((ids, -values))


class Ranking:
    """Stands in for an engine, with any ranking of one head."""

    def __init__(
        self,
        connection: Connection,
        head: Snapshot,
        vector_of: Callable[[str], Vectors],
        rank: Rank,
    ) -> None:
        self._postings = partial(postings, connection)
        self._head = head
        self._vector_of = vector_of
        self._rank = rank

    def query(self, question: str, k: int, _: Search) -> SimpleNamespace:
        vector, head = self._vector_of(question), self._head
        inquiry = QueryContext.of(question, vector, head.view, head.words, self._postings)
        return SimpleNamespace(ranked=self._rank(inquiry, k), llm=None)


def topics_count_double(connection: Connection, head: Snapshot) -> Snapshot:
    """The head with the Eq. 1 of "What is <topic>?" doubled wherever edges are made."""
    index = MergeIndex(head.view.rows.shape[1])
    stored = matches_at(connection, head.version.id)
    sets = sets_at(connection, head.version.id)
    index.load(sets, stored.question, stored.target, stored.similarity)
    asked, answered, rows = index.outgoing, index.incoming, index.arena.rows
    is_topic = np.isin(answered.row, list(index.first_row.values()))
    for start in range(0, len(asked.id), _BLOCK):
        block = np.arange(start, min(start + _BLOCK, len(asked.id)))
        dots = rows[asked.row[block]] @ rows[answered.row].T
        for out, line in zip(block.tolist(), dots, strict=True):
            scores = line.astype(np.float64) * HALF_COSINE
            sharing, halves = answered.half_jaccards(asked.keywords[out])
            scores[sharing] += halves
            scores[is_topic] *= 2
            scores[answered.passage == asked.passage[out]] = -np.inf
            ties = np.flatnonzero(scores == scores.max())
            index.target[out] = ties[np.argmin(answered.id[ties])]
            index.similarity[out] = scores[index.target[out]]
    order = best(index.similarity, asked.id)
    index.ranking = replace(index.ranking, loss=-index.similarity[order], question=asked.id[order])
    return head_of(connection, head.version, index)


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "help": "Keep the indexes in this folder, and use those there."}),
    )
    models = load_models(Config())
    vector_of = cache(lambda question: to_grid(models.encoder.encode([question]))[0])
    parts: dict[str, list[str]] = {}
    steps: dict[str, list[str]] = {}
    for data in ("hotpotqa", "musique"):
        folder = dataset(given.data, data)
        corpus = read_corpus(folder / "corpus.jsonl")
        questions: Sequence[GoldQuestion] = read_questions(folder / "questions.jsonl", corpus)
        with tempfile.TemporaryDirectory() as temporary:
            store = kept_folder(given.keep or Path(temporary), corpus, models.maker, 1.0)
            head = build(store, corpus, models.maker, 1.0)
            connection = open_reader(store / DATABASE_NAME)

            print(f"asking {data}", file=sys.stderr)

            def fill(rows: dict[str, list[str]], name: str, served: Snapshot, rank: Rank) -> None:
                engine = Ranking(connection, served, vector_of, rank)  # noqa: B023
                scores = measure(engine, Search(), corpus, questions)  # type: ignore[arg-type]  # noqa: B023
                shown = (*(scores.recall[depth] for depth in (2, 5, 10)), scores.all_at_5)
                rows.setdefault(name, [name]).extend(f"{share:.1f}" for share in shown)

            for name, settings in WALKS.items():
                fill(parts, name, head, partial(hop, settings=settings))
            fill(parts, "the paper's helpfulness", head, paper_ranking)
            doubled = topics_count_double(connection, head)
            fill(parts, "topics count double in matching", doubled, partial(hop, settings=DEFAULT))
            for name, step in STEPS.items():
                fill(steps, name, head, step)
            connection.close()
    columns = ["recall@2", "recall@5", "recall@10", "all@5"]
    heads = [f"{data} {column}" for data in ("HotpotQA", "MuSiQue") for column in columns]
    table(["variant", *heads], list(parts.values()))
    table(["from the paper's profile to ours", *heads], list(steps.values()))


if __name__ == "__main__":
    main()
