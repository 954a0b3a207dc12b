"""Compare HopRAG's profile with ours. The first tables vary n_hop and top_k like Tables 3 and 4 of
the paper. The last table compares profiles, reasoners, baselines and questions like Table 5, with
rows for StatementGraphRAG, TopicGraphRAG and LogicRAG. The figures of LogicRAG's paper follow.

python benchmarks/paper.py --keep /tmp/hopsyncd-indexes

No LLM is called without --llm, which uses the LLM of --config. If this configuration has
models.reranker, the row `rerank` is added. The questions of an LLM are recorded beside the HotpotQA
sample.
"""

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from common import arguments, dataset, table

from hopsyncd.config.configuration import Config, load_config
from hopsyncd.config.values import STRATEGIES, Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import compute_scores
from hopsyncd.evaluation.recordings import make_recorded_maker
from hopsyncd.evaluation.run import DATABASE_NAME, ask_all, build, choose_kept_folder, map_gold
from hopsyncd.models.llm_maker import Mode
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import QuestionMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import Passage

# "CPU ms" is processor time a question, which a busy machine does not change much.
COLUMNS = ["recall@2", "recall@5", "recall@10", "all@5", "ms p50", "CPU ms", "LLM calls", "tokens"]
WALK = Search()
SIMILARITY = Search(reasoner="similarity")
PAPER = Search(profile="paper")
GRAPH = {"paper, similarity": PAPER, "default, similarity": SIMILARITY, "default, walk": WALK}
BY_LLM = {
    "paper, llm": Search(profile="paper", reasoner="llm"),
    "paper, llm-relevance": Search(profile="paper", reasoner="llm-relevance"),
    "default, llm": Search(reasoner="llm"),
    "default, llm-relevance": Search(reasoner="llm-relevance"),
    "decompose by LLM": Search("decompose", reasoner="llm"),
    "hop, logic": Search(method="logic"),
    "dense, logic": Search("dense", method="logic"),
}
BASELINES: dict[str, Search] = {name: Search(name) for name in STRATEGIES if name != "hop"}

# Of answers, not of retrieval: percent, seconds and tokens a question.
PUBLISHED_LOGIC = (
    ("LogicRAG", "54.8", "64.7", "30.4", "9.8", "1,778"),
    ("HippoRAG 2", "56.7", "50.0", "27.0", "5.9", "2,809"),
)

# What is known of HopRAG's own figures, by search and who asked the questions: retrieval F1 in
# percent, on other corpora and with another encoder.
PUBLISHED_F1 = {("dense", "-"): "9.16", ("paper, similarity", "LLM"): "9.36"}


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "help": "Keep the indexes in this folder, and use those there."}),
        ("--config", {"type": Path, "help": "A configuration with [llm] or models.reranker."}),
        ("--llm", {"action": "store_true", "help": "Ask that LLM: 20 to 80 calls a question."}),
        ("--first", {"type": int, "help": "Only so many questions of each data set."}),
    )
    config = load_config(given.config) if given.config else Config()
    models = load_models(config)
    graph = GRAPH | (BY_LLM if given.llm else {})
    plain = BASELINES | ({"rerank": Search("rerank")} if models.reranker else {})
    with tempfile.TemporaryDirectory() as temporary:
        for data in ("hotpotqa", "musique"):
            bench = Bench(dataset(given.data, data), models, config, given.first)
            compared: list[list[object]] = []
            for asked_by, maker in bench.makers():
                engine = bench.engine(given.keep or Path(temporary) / data, maker)
                if asked_by == "built-in":
                    print_sweeps(data, bench, engine)
                    compared += published("-", bench.rows(engine, plain))
                compared += published(asked_by, bench.rows(engine, graph))
            print(f"{data}: profiles, reasoners, baselines, questions\n")
            table(["search", "questions", *COLUMNS, "HopRAG's F1"], compared)
    print("published by LogicRAG: string accuracy of answers; gpt-4o-mini, MiniLM, k = 3\n")
    names = ["HotpotQA", "2Wiki", "MuSiQue", "s a question (2Wiki)", "tokens (2Wiki)"]
    table(["method", *names], PUBLISHED_LOGIC)


class Bench:
    """One data set, and how it is measured."""

    def __init__(self, folder: Path, models: Models, config: Config, first: int | None) -> None:
        self._folder = folder
        self._models = models
        self._config = config
        self._corpus: Mapping[str, Passage] = read_corpus(folder / "corpus.jsonl")
        questions = read_questions(folder / "questions.jsonl", dict(self._corpus))
        self._questions: Sequence[GoldQuestion] = questions[:first]

    def makers(self) -> Iterator[tuple[str, QuestionMaker]]:
        """The question makers to compare, with their names."""
        models, recorded = self._models, self._folder / "llm_questions.jsonl"
        yield "built-in", models.maker
        if recorded.is_file():
            modes: dict[str, Mode] = {"LLM": "llm", "both": "both"}
            for name, mode in modes.items():
                yield (
                    name,
                    make_recorded_maker(
                        recorded, self._corpus, models.language, models.encoder, mode
                    ),
                )

    def engine(self, keep: Path, maker: QuestionMaker) -> Engine:
        """An engine that serves the corpus, indexed with the maker."""
        folder = choose_kept_folder(keep, self._corpus, maker, 1.0)
        served = build(folder, self._corpus, maker, 1.0)
        engine = Engine(
            folder / DATABASE_NAME,
            self._models.encoder,
            WalkSettings(),
            self._models.llm,
            self._models.reranker,
            self._config.llm.max_calls_per_query or None,
        )
        engine.publish(served)
        return engine

    def rows(self, engine: Engine, searches: Mapping[str, Search]) -> Iterator[list[object]]:
        for name, search in searches.items():
            began_s = time.process_time()
            found = ask_all(engine, search, map_gold(self._corpus), self._questions)
            scores = compute_scores(found)
            cpu_ms = 1000 * (time.process_time() - began_s) / len(self._questions)
            recalls = (scores.recall[depth] for depth in (2, 5, 10))
            yield [
                name,
                *recalls,
                scores.whole[5],
                scores.ms_p50,
                cpu_ms,
                scores.llm_calls,
                scores.llm_tokens,
            ]


def print_sweeps(data: str, bench: Bench, engine: Engine) -> None:
    """Print the paper's Tables 3 and 4."""
    by_hops = {
        f"{name}, n_hop {n}": replace(search, n_hop=n)
        for name, search in GRAPH.items()
        for n in (1, 2, 3, 4)
    }
    by_seeds = {
        f"{name}, top_k {n}": replace(search, top_k=n)
        for name, search in GRAPH.items()
        if search.chosen_reasoner != "walk"
        for n in (2, 4, 8, 12, 16, 20)
    }
    for title, searches in (("n_hop", by_hops), ("top_k", by_seeds)):
        print(f"{data}: {title}\n")
        table(["search", *COLUMNS], list(bench.rows(engine, searches)))


def published(asked_by: str, rows: Iterable[list[object]]) -> Iterator[list[object]]:
    """Yield the rows with the name of their question maker and the figures in HopRAG's paper."""
    for name, *measured in rows:
        yield [name, asked_by, *measured, PUBLISHED_F1.get((str(name), asked_by), "-")]


if __name__ == "__main__":
    main()
