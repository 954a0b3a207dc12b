"""Measures how much each part of the search contributes.

It removes or changes single parts, adds the differences between the paper's profile and ours one
by one, and rephrases the questions. The data are real documents and three samples; no LLM
is called. The searches are in variants.py.

python benchmarks/ablation.py
python benchmarks/ablation.py --parts    # the parts alone
python benchmarks/ablation.py --limits   # the four limits of the walk alone
python benchmarks/ablation.py --forms    # the forms of questions alone
python benchmarks/ablation.py --asides   # the share below which a sentence is ignored
python benchmarks/ablation.py --json     # also write the tables to benchmarks/results
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import numpy as np
from common import JSON, arguments, table, write_result
from real import IGNORED, KEEP
from variants import DEFAULT, FORMS, LIMITS, MATCHES, STEPS, STORIES, VARIANTS, Rank, match_again

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import Gold, QuestionOutcome, compute_scores, rank_of
from hopsyncd.evaluation.real_folder import (
    choose_index_folder,
    find_gold_passages,
    index_folder,
    make_source,
    read_quoted,
)
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.evaluation.run import DATABASE_NAME, ask_all, build, choose_kept_folder, map_gold
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.likeness import fit
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.query_parser import drop_unrelated_sentences
from hopsyncd.retrieve.strategies.hop import search_by_walk
from store.content import read_passages
from store.contract import Connection
from store.open_database import open_reader
from store.records import PassageId, Vectors, to_grid


def _vectors(vector_of: Callable[[str], Vectors], texts: Sequence[str]) -> Vectors:
    return np.stack([vector_of(text) for text in texts])


class Ranking:
    """An engine that ranks a snapshot with a given function. If `whole` is true, it keeps the
    sentences of a question that ask nothing."""

    def __init__(
        self,
        connection: Connection,
        head: Snapshot,
        vector_of: Callable[[str], Vectors],
        rank: Rank,
        whole: bool = False,
    ) -> None:
        self._read = partial(read_passages, connection)
        self._head = head
        self._vector_of = vector_of
        self._rank = rank
        self._whole = whole

    def query(self, question: str, k: int, _: Search) -> SimpleNamespace:
        if not self._whole:
            question = drop_unrelated_sentences(
                question, lambda one: fit(self._head, self._vector_of(one))
            )
        inquiry = QueryContext.build(
            question,
            self._vector_of(question),
            self._head,
            self._read,
            partial(_vectors, self._vector_of),
        )
        return SimpleNamespace(ranked=self._rank(inquiry, k), llm=None)


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
    store = choose_kept_folder(keep, corpus, models.maker, 1.0)
    head = build(store, corpus, models.maker, 1.0)
    return Asked(open_reader(store / DATABASE_NAME), head, map_gold(corpus), questions)


def real(folder: Path, keep: Path, models: Models) -> Asked:
    source = make_source(folder, IGNORED)
    place = choose_index_folder(keep, source, models.maker)
    head = index_folder(place, source, Config(), models.maker)
    connection = open_reader(place / DATABASE_NAME)
    quoted = [question for question in read_quoted(folder / "questions.jsonl") if question.evidence]
    gold = find_gold_passages(connection, head.version.id, quoted)
    return Asked(connection, head, gold, [one.gold for one in quoted])


def shares(outcomes: Sequence[QuestionOutcome], data: str) -> list[float]:
    """Return the percentages in a row for one collection."""
    if data != "realdocs":
        scores = compute_scores(outcomes)
        return [round(share, 1) for share in (scores.recall[5], scores.whole[5])]
    single, multi = (
        compute_scores([outcome for outcome in outcomes if outcome.question.kind == kind]).whole
        for kind in ("single", "multi")
    )
    found = (single[5], single[10], multi[5], multi[10], multi[20])
    return [round(share, 1) for share in found]


COLUMNS = {
    "realdocs": ["one @5", "one @10", "several @5", "several @10", "several @20"],
    "hotpotqa": ["HotpotQA recall@5", "HotpotQA all@5"],
    "musique": ["MuSiQue recall@5", "MuSiQue all@5"],
    "2wiki": ["2Wiki recall@5", "2Wiki all@5"],
}
ONLY_LIMITS, PARTS, STEPS_TO_OURS, OTHER_FORMS = (
    "limit",
    "variant",
    "each row adds to the one above",
    "form",
)
RESULT_NAMES = {
    ONLY_LIMITS: "walk-limits",
    PARTS: "ablation",
    STEPS_TO_OURS: "from-paper",
    OTHER_FORMS: "question-forms",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A row of a table: a search of a snapshot, with the questions in one form."""

    table: str
    name: str
    head: Snapshot
    rank: Rank
    form: Callable[[str], str] = str
    whole: bool = False


def by_limits(asked: Asked) -> Iterator[Trial]:
    for name, settings in LIMITS.items():
        yield Trial(ONLY_LIMITS, name, asked.head, partial(search_by_walk, settings=settings))


def by_forms(asked: Asked) -> Iterator[Trial]:
    ours = partial(search_by_walk, settings=DEFAULT)
    for name, form in FORMS.items():
        yield Trial(OTHER_FORMS, name, asked.head, ours, form)
    for name in STORIES:
        yield Trial(OTHER_FORMS, f"{name}, nothing left out", asked.head, ours, FORMS[name], True)


def by_parts(asked: Asked) -> Iterator[Trial]:
    for name, rank in VARIANTS.items():
        yield Trial(PARTS, name, asked.head, rank)
    ours = partial(search_by_walk, settings=DEFAULT)
    for name, find in MATCHES.items():
        matched = match_again(asked.connection, asked.head.version, find)
        yield Trial(PARTS, name, matched, ours)


def trials(asked: Asked) -> Iterator[Trial]:
    """Every search that is compared on a collection."""
    yield from by_limits(asked)
    yield from by_parts(asked)
    for name, rank in STEPS.items():
        yield Trial(STEPS_TO_OURS, name, asked.head, rank)
    yield from by_forms(asked)


def run_trial(
    asked: Asked, trial: Trial, vector_of: Callable[[str], Vectors]
) -> list[QuestionOutcome]:
    engine = Ranking(asked.connection, trial.head, vector_of, trial.rank, trial.whole)
    questions = [
        replace(question, question=trial.form(question.question)) for question in asked.questions
    ]
    return ask_all(engine, Search(), asked.gold, questions)  # type: ignore[arg-type]


DEPTH = 5
ASIDES = (0.0, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1)
"""Of how well the sentences fit that ask; at 0 nothing is left out."""

Recalls = dict[str, dict[float, list[float]]]
"""recall@5 of each question as it is and with each story, by collection and share."""


def with_asides(asked: Asked, data: str, vector_of: Callable[[str], Vectors]) -> Recalls:
    """Return the recalls of a collection. Each folder of the real documents is a collection."""
    read = partial(read_passages, asked.connection)
    fits = cache(lambda part: fit(asked.head, vector_of(part)))

    @cache
    def first(question: str) -> list[PassageId]:
        encode = partial(_vectors, vector_of)
        context = QueryContext.build(question, vector_of(question), asked.head, read, encode)
        return [hit.passage for hit in search_by_walk(context, DEPTH, DEFAULT)]

    recalls: Recalls = {}
    for one in asked.questions:
        name = min(one.gold).split("/")[0] if data == "realdocs" else data
        by_share = recalls.setdefault(name, {share: [] for share in ASIDES})
        for form in ("unchanged", *STORIES):
            for share in ASIDES:
                found = first(drop_unrelated_sentences(FORMS[form](one.question), fits, share))
                ranks = [rank_of(found, asked.gold[gold]) for gold in one.gold]
                by_share[share].append(sum(rank is not None for rank in ranks) / len(ranks))
    return recalls


def by_asides(recalls: Recalls) -> None:
    """Print each share, and for each collection the share that is best on all others."""
    means = {
        share: {name: 100 * fmean(of[share]) for name, of in recalls.items()} for share in ASIDES
    }
    rows = [
        ["nothing left out" if share == 0 else f"{share:.2f}", *of.values(), fmean(of.values())]
        for share, of in means.items()
    ]
    chosen = {}
    for but in recalls:
        of_others = {
            share: fmean(value for name, value in of.items() if name != but)
            for share, of in means.items()
        }
        chosen[but] = max(ASIDES, key=of_others.__getitem__)
    left_out = [means[share][name] for name, share in chosen.items()]
    rows.append(["chosen on the others", *left_out, fmean(left_out)])
    rows.append(["which is", *(f"{share:.2f}" for share in chosen.values()), ""])
    table(["left out below", *recalls, "mean"], rows)


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--parts", {"action": "store_true", "help": "The parts alone"}),
        ("--limits", {"action": "store_true", "help": "The limits of the walk alone"}),
        ("--forms", {"action": "store_true", "help": "The forms of questions alone"}),
        (
            "--asides",
            {
                "action": "store_true",
                "help": "The sentences of a question that are left out, alone",
            },
        ),
        JSON,
    )
    models = load_models(Config())
    vectors = VectorCache(models.encoder, given.keep)
    models = replace(models, maker=BuiltinMaker(models.language, vectors))
    vector_of = cache(lambda question: to_grid(vectors.encode([question]))[0])
    compared = by_limits if given.limits else by_forms if given.forms else trials
    compared = by_parts if given.parts else compared
    tables = dict[str, dict[str, list[object]]]()
    recalls: Recalls = {}
    for data in COLUMNS:
        read = real if data == "realdocs" else sample
        asked = read(given.data / data, given.keep, models)
        print(f"asking {data}", file=sys.stderr)
        if given.asides:
            recalls |= with_asides(asked, data, vector_of)
        for trial in () if given.asides else compared(asked):
            rows = tables.setdefault(trial.table, {})
            rows.setdefault(trial.name, [trial.name]).extend(
                shares(run_trial(asked, trial, vector_of), data)
            )
        asked.connection.close()
    if recalls:
        by_asides(recalls)
    heads = [column for columns in COLUMNS.values() for column in columns]
    for name, rows in tables.items():
        table([name, *heads], list(rows.values()))
        if given.json:
            write_result(RESULT_NAMES[name], [name, *heads], list(rows.values()))


if __name__ == "__main__":
    main()
