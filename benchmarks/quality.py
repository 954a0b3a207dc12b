"""Measure the recall of every strategy on the HotpotQA, MuSiQue and 2Wiki samples, with the default
models and no LLM.

python benchmarks/quality.py
"""

import tempfile
from pathlib import Path

from common import JSON, arguments, dataset, table, write_result

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import STRATEGIES, Search
from hopsyncd.evaluation.corpus import read_corpus, read_questions
from hopsyncd.evaluation.measures import DEPTHS, Scores
from hopsyncd.evaluation.run import Experiment, choose_kept_folder, evaluate
from hopsyncd.models.loading import load_models
from hopsyncd.retrieve.walk_settings import WalkSettings

NAMES = ("hotpotqa", "musique", "2wiki")
RESULTS_OF = {"2wiki": "2wiki-development"}  # file names in benchmarks/results


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--only", {"choices": NAMES, "action": "append"}),
        ("--keep", {"type": Path, "help": "Keep the indexes in this folder, and use those there."}),
    )
    folders = {name: dataset(given.data, name) for name in given.only or NAMES}
    config = Config()
    models = load_models(config)
    for name, folder in folders.items():
        corpus = read_corpus(folder / "corpus.jsonl")
        questions = read_questions(folder / "questions.jsonl", corpus)
        with tempfile.TemporaryDirectory() as temporary:
            keep = given.keep or Path(temporary)
            result = evaluate(
                choose_kept_folder(keep, corpus, models.maker, config.index.edge_budget_factor),
                corpus,
                questions,
                Experiment(
                    {name: Search(name) for name in STRATEGIES},
                    models,
                    config.index.edge_budget_factor,
                    WalkSettings(hops=config.query.hops),
                ),
            )
        print(
            f"{name}: {len(corpus)} passages, {len(questions)} questions, {result.edges} edges,"
            f" indexed in {result.index_s:.1f} s, 0 LLM calls\n"
        )
        columns = [*(f"recall@{depth}" for depth in DEPTHS), "all@5", "f1@5", "ms p50", "ms p95"]
        shown = {key: _row(scores) for key, scores in result.scores.items()}
        gain = [a - b for a, b in zip(shown["hop"], shown["dense"], strict=True)]
        table(
            ["strategy", *columns],
            [*([key, *row] for key, row in shown.items()), ["hop minus dense", *gain]],
        )
        if given.json:
            recalls = len(DEPTHS) + 1
            rows = [[key, *row[:recalls]] for key, row in shown.items()]
            write_result(RESULTS_OF.get(name, name), ["strategy", *columns[:recalls]], rows)


def _row(scores: Scores) -> list[float]:
    shares = [*scores.recall.values(), scores.whole[5], scores.f1[5]]
    return [*shares, scores.ms_p50, scores.ms_p95]


if __name__ == "__main__":
    main()
