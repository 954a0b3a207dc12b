"""Fit the model of the strength of passages, and test it on other collections.

python benchmarks/fit_strength.py

Each collection is left out in turn: the strength of its passages is estimated by weights that were
fitted to all other collections. Questions of other collections and questions without an answer give
passages that are not needed. Then the benchmark prints the weights fitted to all collections, for
hopsyncd/retrieve/strength.py.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import JSON, arguments, real_documents, table, write_result
from fit_answers import Collection, collections, logistic
from real import KEEP

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.measures import Share
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.loading import load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.strength import FAIR, STRONG, compute_probability, measure_features
from hopsyncd.retrieve.walk_settings import WalkSettings

_K = 8
_RIDGE = 1.0
_FOREIGN = 40  # questions of each other collection
_BOUNDS = {"strong": (STRONG, 1.01), "fair": (FAIR, STRONG), "weak": (0.0, FAIR)}


@dataclass(frozen=True, slots=True)
class FoundCase:
    """A passage found for a question, and whether the question needs it."""

    collection: str
    features: dict[str, float]
    is_gold: bool


def find_cases(every: Sequence[Collection], encoder: Encoder) -> Iterator[FoundCase]:
    """The passages that questions find in each collection: its own questions, and some questions
    about other collections."""
    for searched in every:
        engine = Engine(searched.database, encoder, WalkSettings())
        engine.publish(searched.served)
        for asked in every:
            questions = asked.questions if asked is searched else asked.questions[:_FOREIGN]
            for question in questions:
                found = engine.query(question.question, _K, Search())
                assert found is not None
                gold = (
                    frozenset[int]().union(*(searched.gold[name] for name in question.gold))
                    if asked is searched
                    else frozenset[int]()
                )
                vector = engine.encode(found.question)
                measured = measure_features(found.snapshot, found.question, vector, found.ranked)
                for one, features in zip(found.ranked, measured, strict=True):
                    yield FoundCase(searched.name, features, one.passage in gold)


def fit(cases: Sequence[FoundCase]) -> dict[str, float]:
    """Fit the weights; each collection counts the same."""
    sizes = Counter(case.collection for case in cases)
    counts = [1000 / sizes[case.collection] for case in cases]
    wanted = [case.is_gold for case in cases]
    return logistic([case.features for case in cases], wanted, counts, _RIDGE)


def estimate_left_out(cases: Sequence[FoundCase]) -> list[tuple[FoundCase, float]]:
    """Each case with its probability by weights that were fitted to the other collections."""
    estimated = []
    for name in sorted({case.collection for case in cases}):
        weights = fit([case for case in cases if case.collection != name])
        estimated += [
            (case, compute_probability(weights, case.features))
            for case in cases
            if case.collection == name
        ]
    return estimated


def main() -> None:
    given = arguments(
        __doc__ or "", JSON, ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"})
    )
    real_documents(given.data)
    models = load_models(Config())
    kept = VectorCache(models.encoder, given.keep)
    models = replace(models, maker=BuiltinMaker(models.language, kept))
    cases = list(find_cases(list(collections(given.data, given.keep, models)), models.encoder))
    print({name: round(value, 3) for name, value in fit(cases).items()}, "\n")
    columns = ["strength", "passages", "needed, percent", "estimated, percent"]
    estimated = estimate_left_out(cases)
    rows: list[list[object]] = []
    for name, (least, most) in _BOUNDS.items():
        judged = [(case, chance) for case, chance in estimated if least <= chance < most]
        needed = Share.from_values([float(case.is_gold) for case, _ in judged]) if judged else 0.0
        chance = 100 * float(np.mean([chance for _, chance in judged])) if judged else 0.0
        rows.append([name, len(judged), needed, round(chance, 1)])
    table(columns, rows)
    if given.json:
        write_result("strength", columns, rows)


if __name__ == "__main__":
    main()
