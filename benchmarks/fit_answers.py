"""Fit the models for short answers and "not found", and test them on other collections.

python benchmarks/fit_answers.py

Each of the five folders of realdocs and each sample is left out in turn: its questions are judged
by weights that were fitted to all other collections. Then the benchmark prints the weights fitted
to all collections, for hopsyncd/retrieve/answering/support.py, and the reliability of both models.

Questions without an answer are of three kinds: written as such, taken from another collection, or
asked with their gold passages removed from the results.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import arguments, real_documents, table
from numpy.typing import NDArray
from real import IGNORED, KEEP, SAMPLES

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import Gold, Share, is_right
from hopsyncd.evaluation.real_folder import (
    choose_index_folder,
    find_gold_passages,
    index_folder,
    make_source,
    read_quoted,
)
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.evaluation.run import ANSWER_DEPTH, DATABASE_NAME, build, choose_kept_folder, map_gold
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.extractive import find_needs
from hopsyncd.retrieve.answering.short_answer import (
    Candidate,
    Short,
    choose_likeliest,
    find_candidates,
)
from hopsyncd.retrieve.answering.support import measure_support
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.strength import compute_log_odds, compute_probability
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.open_database import open_reader

DEEP = 30  # passages found, of which the gold ones are taken out
REAL = "realdocs"
# What a question counts for, by its sort; each sort of each collection counts the same.
COUNTS = {"own": 3.0, "none": 2.0, "gone": 0.1, "foreign": 0.3}
REAL_COUNTS = 2.0
RIDGE = 3.0


@dataclass(frozen=True, slots=True)
class Case:
    """A question asked of a collection; `left_out` names the collection whose weights must not be
    used."""

    collection: str
    left_out: str
    sort: str
    question: GoldQuestion
    values: Sequence[Candidate]
    needs: dict[str, float]


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection, its questions and the passages that they need."""

    name: str
    database: Path
    served: Snapshot
    questions: Sequence[GoldQuestion]
    gold: Gold


def collections(data: Path, keep: Path, models: Models) -> Iterator[Collection]:
    """Yield the available collections, indexed."""
    config = Config()
    folder = data / REAL
    quoted = read_quoted(folder / "questions.jsonl")
    source = make_source(folder, IGNORED)
    place = choose_index_folder(keep, source, models.maker)
    served = index_folder(place, source, config, models.maker)
    connection = open_reader(place / DATABASE_NAME)
    gold = find_gold_passages(connection, served.version.id, quoted)
    connection.close()
    yield Collection(REAL, place / DATABASE_NAME, served, [one.gold for one in quoted], gold)
    for name in SAMPLES:
        corpus = read_corpus(data / name / "corpus.jsonl")
        questions = read_questions(data / name / "questions.jsonl", corpus)
        place = choose_kept_folder(keep, corpus, models.maker, 1.0)
        served = build(place, corpus, models.maker, 1.0)
        yield Collection(name, place / DATABASE_NAME, served, questions, map_gold(corpus))


def cases(every: Sequence[Collection], models: Models) -> Iterator[Case]:
    """Every question, asked of every collection."""
    for on in every:
        engine = Engine(on.database, models.encoder, WalkSettings())
        engine.publish(on.served)
        asker = Asker(engine, models.encoder, models.language)
        for of in every:
            for question in of.questions:
                if of is on or question.gold:
                    yield from _asked(engine, asker, models, on, of, question)


def _asked(
    engine: Engine,
    asker: Asker,
    models: Models,
    on: Collection,
    of: Collection,
    question: GoldQuestion,
) -> Iterator[Case]:
    found = engine.query(question.question, DEEP, Search())
    assert found is not None
    bare = engine.drop_unrelated_sentences(
        question.question, found.snapshot
    )  # as an answer is made
    found = replace(found, question=bare)
    sorts = {"foreign": found.ranked}
    if of is on:
        sorts = {"own" if question.gold else "none": found.ranked}
    if of is on and question.gold:
        gone = frozenset[int]().union(*(on.gold[name] for name in question.gold))
        sorts["gone"] = tuple(one for one in found.ranked if one.passage not in gone)
    for sort, ranked in sorts.items():
        cut = replace(found, ranked=ranked[:ANSWER_DEPTH])
        sentences, weights = asker.rate_sentences(cut)
        asked = find_needs(bare)
        values = find_candidates(bare, asked, sentences, weights, models.language) if asked else []
        passages = found.snapshot.statistics.passages
        told = measure_support(bare, asked, values, sentences, weights, passages)
        yield Case(on.name, _left_out(of, question), sort, question, values, told)


def _left_out(of: Collection, question: GoldQuestion) -> str:
    """The folder of realdocs that a question belongs to; unanswerable questions are distributed in
    turn."""
    if of.name != REAL:
        return of.name
    if question.gold:
        return min(question.gold).split("/")[0]
    folders = sorted({min(one.gold).split("/")[0] for one in of.questions if one.gold})
    return folders[int("".join(filter(str.isdigit, question.id))) % len(folders)]


def fit_values(some: Sequence[Case]) -> dict[str, float]:
    """Fit the weights that choose the right one of a question's values. Only questions with a right
    value are used."""
    rows, wanted, counts = list[Mapping[str, float]](), list[bool](), list[float]()
    for case in some:
        right = [is_right(one.text, case.question.answers) for one in case.values]
        if case.sort == "own" and any(right):
            rows += [one.features for one in case.values]
            wanted += right
            whole = 3.0 if case.collection == REAL else 1.0
            counts += [whole / len(right) ** 0.5] * len(right)
    return logistic(rows, wanted, counts, 1.0)


def short_of(case: Case, fits: Mapping[str, float], held: Mapping[str, float]) -> Short | None:
    return choose_likeliest(case.values, compute_log_odds(held, case.needs), fits)


def fit_right(
    some: Sequence[Case], fits: Mapping[str, float], held: Mapping[str, float]
) -> dict[str, float]:
    """Fit the weights that estimate whether the most likely value is right."""
    shorts = [
        (case, short)
        for case in some
        if case.sort in ("own", "none") and (short := short_of(case, fits, held))
    ]
    return logistic(
        [short.features for _, short in shorts],
        [is_right(short.text, case.question.answers) for case, short in shorts],
        [REAL_COUNTS if case.collection == REAL else 1.0 for case, _ in shorts],
        RIDGE,
    )


def fit_held(some: Sequence[Case]) -> dict[str, float]:
    """Fit the weights that estimate whether the collection has an answer."""
    numbers = Counter((case.collection, case.sort) for case in some)
    counts = [
        COUNTS[case.sort]
        * (REAL_COUNTS if case.collection == REAL else 1.0)
        * 50
        / numbers[case.collection, case.sort]
        for case in some
    ]
    wanted = [case.sort == "own" for case in some]
    return logistic([case.needs for case in some], wanted, counts, RIDGE)


def logistic(
    rows: Sequence[Mapping[str, float]],
    wanted: Sequence[bool],
    counts: Sequence[float],
    ridge: float,
) -> dict[str, float]:
    """Fit a logistic model by Newton's method. Features are scaled; the ridge does not affect the
    bias."""
    names = list(rows[0])
    values = np.array([[row[name] for name in names] for row in rows])
    mean, spread = values.mean(axis=0), values.std(axis=0) + 1e-9
    design = np.column_stack([(values - mean) / spread, np.ones(len(rows))])
    target, count = np.array(wanted, dtype=float), np.array(counts)
    pull = np.diag([ridge] * len(names) + [1e-6])
    weights: NDArray[np.float64] = np.zeros(len(names) + 1)
    for _ in range(50):
        likely = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (count * (likely - target)) + pull @ weights
        curve = (design * (count * likely * (1 - likely))[:, None]).T @ design + pull
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    plain = weights[:-1] / spread
    fitted = {name: float(one) for name, one in zip(names, plain, strict=True)}
    return fitted | {"bias": float(weights[-1] - plain @ mean)}


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of a case by weights that were fitted without its collection."""

    case: Case
    right: float
    is_right: bool
    held: float


def left_out(every: Sequence[Case]) -> Iterator[Judged]:
    """Judge each case by weights that were fitted without its collection."""
    for name in dict.fromkeys(case.left_out for case in every):
        others = [case for case in every if name not in (case.left_out, case.collection)]
        fits = fit_values(others)
        held = fit_held(others)
        right = fit_right(others, fits, held)
        for case in every:
            if case.left_out == name and case.sort in ("own", "none", "gone"):
                short = short_of(case, fits, held)
                yield Judged(
                    case,
                    compute_probability(right, short.features) if short else 0.0,
                    short is not None and is_right(short.text, case.question.answers),
                    compute_probability(held, case.needs),
                )


def by_threshold(judged: Sequence[Judged]) -> None:
    """Print how many answers each pair of thresholds would show and refuse, by collection."""
    rows = []
    for name in dict.fromkeys(one.case.collection for one in judged):
        some = [one for one in judged if one.case.collection == name]
        own, none, gone = (
            [one for one in some if one.case.sort == sort] for sort in ("own", "none", "gone")
        )
        for show in (0.4, 0.45, 0.5, 0.6):
            for hold in (0.35, 0.4, 0.45, 0.5):
                shown, beside = (
                    [one for one in part if one.right >= show and one.held >= hold]
                    for part in (own, none)
                )
                right = sum(one.is_right for one in shown)
                refused = [
                    Share.from_values([float(one.held < hold) for one in part]) if part else "-"
                    for part in (own, none, gone)
                ]
                share = 100 * len(shown) / len(own)
                rows.append(
                    [
                        name,
                        f"{show:.2f}",
                        f"{hold:.2f}",
                        share,
                        f"{right} of {len(shown) + len(beside)}",
                        *refused,
                    ]
                )
    columns = ["collection", "show from", "hold from", "shown", "right"]
    table([*columns, "refused: own", "none", "gold taken out"], rows)


def reliability(judged: Sequence[Judged]) -> None:
    """Print how often each predicted probability was right."""
    known = [one for one in judged if one.case.sort != "gone"]
    shown = [(one.right, one.is_right) for one in known if one.right]
    answered = [(one.held, one.case.sort == "own") for one in known]
    for title, pairs in (("right", shown), ("held", answered)):
        rows = []
        for low in (0.0, 0.2, 0.4, 0.6, 0.8):
            inside = [was for likely, was in pairs if low <= likely < low + 0.2 + (low == 0.8)]
            share = Share.from_values([float(was) for was in inside]) if inside else "-"
            rows.append([f"{low:.1f} - {low + 0.2:.1f}", len(inside), share])
        table([f"probability: {title}", "questions", "were so, percent"], rows)


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
    )
    real_documents(given.data)
    models = load_models(Config())
    maker = BuiltinMaker(models.language, VectorCache(models.encoder, given.keep))
    models = replace(models, maker=maker)
    every = list(cases(list(collections(given.data, given.keep, models)), models))
    told = list(left_out(every))
    by_threshold(told)
    reliability(told)
    fits, holds = fit_values(every), fit_held(every)
    for name, weights in (
        ("FITS", fits),
        ("RIGHT", fit_right(every, fits, holds)),
        ("HELD", holds),
    ):
        print(f"{name}: Mapping[str, float] = {{")
        for feature, weight in weights.items():
            print(f'    "{feature}": {weight:.3f},')
        print("}")


if __name__ == "__main__":
    main()
