"""What each part of the walk buys: one index a data set, the `hop` strategy with parts left out."""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from common import arguments, dataset, table

from hopsyncd.config import Config
from hopsyncd.evaluation.data import read_corpus, read_questions
from hopsyncd.evaluation.run import DATABASE_NAME, build, measure
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.models import load_models
from hopsyncd.query.engine import Engine
from hopsyncd.strategy import Search

DEFAULT = WalkSettings()
VARIANTS = {
    "default": DEFAULT,
    "1 hop": replace(DEFAULT, hops=1),
    "2 hops": replace(DEFAULT, hops=2),
    "3 hops": replace(DEFAULT, hops=3),
    "no walk (seeds only)": replace(DEFAULT, hops=0),
    "edges only": replace(DEFAULT, by_names=0.0),
    "names only": replace(DEFAULT, by_names=1.0),
    "nothing for what is new": replace(DEFAULT, gain=0.0),
    "blind to the query": replace(DEFAULT, sharpness=0.0, name_sharpness=0.0, gain=0.0),
}


def main() -> None:
    options = arguments(__doc__ or "")
    models = load_models(Config())
    rows = {name: [name] for name in VARIANTS}
    for data in ("hotpotqa", "musique"):
        folder = dataset(options.data, data)
        corpus = read_corpus(folder / "corpus.jsonl")
        questions = read_questions(folder / "questions.jsonl", corpus)
        with tempfile.TemporaryDirectory() as store:
            print(f"indexing {data}", file=sys.stderr)
            head = build(Path(store), corpus, models.maker, budget_factor=1.0)
            for name, settings in VARIANTS.items():
                engine = Engine(Path(store) / DATABASE_NAME, models.encoder, settings)
                engine.publish(head)
                scores = measure(engine, Search(), corpus, questions)
                shares = (scores.recall[2], scores.recall[5], scores.recall[10], scores.all_at_5)
                rows[name] += [f"{share:.1f}" for share in shares]
    columns = ["recall@2", "recall@5", "recall@10", "all@5"]
    heads = [f"{data} {column}" for data in ("HotpotQA", "MuSiQue") for column in columns]
    table(["variant", *heads], list(rows.values()))


if __name__ == "__main__":
    main()
