"""What each part of the search buys: it with parts left out or changed, and the way from the
paper's profile to ours, one difference at a time, on real documents and both samples. No LLM.

python benchmarks/ablation.py
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from common import arguments, table
from numpy.typing import NDArray
from real import IGNORED, KEEP

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import QuestionOutcome, scores_of
from hopsyncd.evaluation.missing import Gold
from hopsyncd.evaluation.real_folder import (
    index_folder,
    index_place,
    marked,
    read_quoted,
    source_of,
)
from hopsyncd.evaluation.recorded import KeptVectors
from hopsyncd.evaluation.run import DATABASE_NAME, build, gold_of, kept_folder, outcomes
from hopsyncd.index.matching import MergeIndex, Spans
from hopsyncd.index.names import mentions_of
from hopsyncd.index.similarity import HALF_COSINE
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.edge_traversal import choose_first, traverse
from hopsyncd.retrieve.hop import hop
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import Ranked, helpful, most_helpful, paper_helpfulness
from hopsyncd.retrieve.snapshot import Snapshot, head_of
from hopsyncd.retrieve.walk import WalkSettings, pull_of, walk
from store.records import PassageId, Vectors, to_grid
from store.sqlite.content import known_passages, sets_at
from store.sqlite.database import Connection, open_reader
from store.sqlite.reads import matches_at
from store.sqlite.search import postings

Rank = Callable[[QueryContext, int], Sequence[Ranked]]
Floats = NDArray[np.float64]

TOP_K, N_HOP = 20, 4
_BLOCK = 256
DEFAULT = WalkSettings()
EDGES_ONLY = replace(DEFAULT, by_names=0.0, by_links=0.0)
WALKS = {
    "default": DEFAULT,
    "1 hop": replace(DEFAULT, hops=1),
    "2 hops": replace(DEFAULT, hops=2),
    "no walk (seeds only)": replace(DEFAULT, hops=0),
    "edges only": EDGES_ONLY,
    "names only": replace(DEFAULT, by_names=1.0, by_links=0.0),
    "no links": replace(DEFAULT, by_links=0.0),
    "names take half": replace(DEFAULT, by_names=0.5),
    "edges directed": replace(DEFAULT, backwards=0.0),
    "nothing for what is new": replace(DEFAULT, gain=0.0),
    "blind to the query": replace(
        DEFAULT, sharpness=0.0, name_sharpness=0.0, link_sharpness=0.0, gain=0.0
    ),
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
            return ranked(inquiry, helpful(inquiry, arrived, k))
        return ranked(inquiry, by_paper(inquiry, arrived, min(k, TOP_K)))


STEPS: dict[str, Rank] = {
    "the paper's profile, similarity": Step(),
    "+ our seeds, with their mass": Step(seeds=True),
    "+ our helpfulness": Step(seeds=True, ranking=True),
    "+ edges both ways": Step(seeds=True, ranking=True, both_ways=True),
    "+ the walk's pull in place of Eq. 1": Step(True, True, True, True),
    "+ mass along all edges (edges only)": partial(hop, settings=EDGES_ONLY),
    "+ names and links as ways (default)": partial(hop, settings=DEFAULT),
}


def within_documents(inquiry: QueryContext, k: int) -> list[Ranked]:
    """The walk as if each passage were a document of its own; the ranking knows better."""
    view = inquiry.view
    apart, said = np.arange(len(view.passage)), view.mentions.said
    columns = (view.mentions.passage, view.mentions.name, view.mentions.row)
    unsaid = len(columns[0]) - said
    loose = replace(
        view,
        document=apart,
        mentions=mentions_of(*columns, view.mentions.spelled, apart, unsaid),
    )
    walked = walk(loose, inquiry.seeds(), inquiry.cosines, inquiry.coverage, DEFAULT)
    return ranked(inquiry, helpful(inquiry, walked.arrived, k))


def any_documents(inquiry: QueryContext, k: int) -> list[Ranked]:
    """Ranked without a thought for how many passages are of one document."""
    view = inquiry.view
    walked = walk(view, inquiry.seeds(), inquiry.cosines, inquiry.coverage, DEFAULT)
    alone = replace(inquiry, view=replace(view, document=view.passage))
    return ranked(inquiry, helpful(alone, walked.arrived, k))


def any_sentences(inquiry: QueryContext, k: int) -> list[Ranked]:
    """Ranked without a thought for what stands together in one sentence."""
    view = inquiry.view
    walked = walk(view, inquiry.seeds(), inquiry.cosines, inquiry.coverage, DEFAULT)
    found = most_helpful(walked.arrived, view.passage, view.document, inquiry.coverage, k)
    return ranked(inquiry, found)


def asked_as(change: Callable[[QueryContext], QueryContext]) -> Rank:
    """Our search of a question that is held otherwise against the view."""
    return lambda inquiry, k: hop(change(inquiry), k, DEFAULT)


def of_whole_passages(inquiry: QueryContext) -> QueryContext:
    row = inquiry.view.passage_row
    return replace(inquiry, view=replace(inquiry.view, spans=Spans.of(row, row + 1)))


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


VARIANTS: dict[str, Rank] = {
    **{name: partial(hop, settings=settings) for name, settings in WALKS.items()},
    "ways within documents too": within_documents,
    "any number of passages of a document": any_documents,
    "whole passages, not their best sentences": any_sentences,
    "seeds without words": asked_as(lambda one: replace(one, by_words=0 * one.by_words)),
    "seeds by whole passages, not sentences": asked_as(of_whole_passages),
    "seeds without names": asked_as(lambda one: replace(one, names={})),
    "names whatever their share": asked_as(
        lambda one: replace(one, names=dict.fromkeys(one.names, 1.0))
    ),
    "the paper's helpfulness": paper_ranking,
}


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
        self._read = partial(known_passages, connection)
        self._head = head
        self._vector_of = vector_of
        self._rank = rank

    def query(self, question: str, k: int, _: Search) -> SimpleNamespace:
        vector, head = self._vector_of(question), self._head
        inquiry = QueryContext.of(
            question, vector, head.view, head.words, self._postings, self._read
        )
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


@dataclass(frozen=True, slots=True)
class Asked:
    """A served collection, its questions, and the passages that answer them."""

    connection: Connection
    head: Snapshot
    gold: Gold
    questions: Sequence[GoldQuestion]


def sample(folder: Path, keep: Path, models: Models) -> Asked:
    corpus = read_corpus(folder / "corpus.jsonl")
    questions = read_questions(folder / "questions.jsonl", corpus)
    store = kept_folder(keep, corpus, models.maker, 1.0)
    head = build(store, corpus, models.maker, 1.0)
    return Asked(open_reader(store / DATABASE_NAME), head, gold_of(corpus), questions)


def real(folder: Path, keep: Path, models: Models) -> Asked:
    source = source_of(folder, IGNORED)
    place = index_place(keep, source, models.maker)
    head = index_folder(place, source, Config(), models.maker)
    connection = open_reader(place / DATABASE_NAME)
    quoted = [one for one in read_quoted(folder / "questions.jsonl") if one.evidence]
    gold = marked(connection, head.version.id, quoted)
    return Asked(connection, head, gold, [one.gold for one in quoted])


def shares(found: Sequence[QuestionOutcome], data: str) -> list[str]:
    """One row's figures for a collection."""
    if data != "realdocs":
        scores = scores_of(found)
        return [f"{share:.1f}" for share in (scores.recall[5], scores.whole[5])]
    single, multi = (
        scores_of([one for one in found if one.question.kind == kind]).whole
        for kind in ("single", "multi")
    )
    return [f"{share:.1f}" for share in (single[5], multi[5], multi[10], multi[20])]


COLUMNS = {
    "realdocs": ["single @5", "multi @5", "@10", "@20"],
    "hotpotqa": ["HotpotQA r@5", "all@5"],
    "musique": ["MuSiQue r@5", "all@5"],
}


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
    )
    models = load_models(Config())
    vectors = KeptVectors(models.encoder, given.keep)
    models = replace(models, maker=BuiltinMaker(models.language, vectors))
    vector_of = cache(lambda question: to_grid(vectors.encode([question]))[0])
    parts: dict[str, list[str]] = {}
    steps: dict[str, list[str]] = {}
    for data in COLUMNS:
        folder = given.data / data
        asked = (
            real(folder, given.keep, models)
            if data == "realdocs"
            else sample(folder, given.keep, models)
        )
        print(f"asking {data}", file=sys.stderr)

        def fill(rows: dict[str, list[str]], name: str, served: Snapshot, rank: Rank) -> None:
            engine = Ranking(asked.connection, served, vector_of, rank)  # noqa: B023
            found = outcomes(engine, Search(), asked.gold, asked.questions)  # type: ignore[arg-type]  # noqa: B023
            rows.setdefault(name, [name]).extend(shares(found, data))  # noqa: B023

        for name, rank in VARIANTS.items():
            fill(parts, name, asked.head, rank)
        doubled = topics_count_double(asked.connection, asked.head)
        fill(parts, "topics count double in matching", doubled, partial(hop, settings=DEFAULT))
        for name, step in STEPS.items():
            fill(steps, name, asked.head, step)
        asked.connection.close()
    heads = [column for columns in COLUMNS.values() for column in columns]
    table(["variant", *heads], list(parts.values()))
    table(["from the paper's profile to ours", *heads], list(steps.values()))


if __name__ == "__main__":
    main()
