"""All strategies side by side, and the effect of depth, beam and rerank on statements and topics.

python benchmarks/methods.py

The data are the real documents and the HotpotQA, MuSiQue and 2Wiki samples, with the default models
and no LLM. With --logic, LogicRAG is measured on MuSiQue, with an endpoint that answers from the
gold decompositions. Indexes and vectors are kept like in benchmarks/real.py.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ablation import Asked, real, sample
from common import arguments, lines, scripted_llm, table
from real import KEEP

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import STRATEGIES, Rerank, Search, Strategy
from hopsyncd.evaluation.measures import DEPTHS, compute_scores
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.evaluation.run import ask_all
from hopsyncd.models.llm.call import Llm
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings

DATA = ("realdocs", "hotpotqa", "musique", "2wiki")


def gold_parts(
    parts: Mapping[str, Sequence[Mapping[str, Any]]], data: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the LLM reply that splits a MuSiQue question as its authors did, or the reply with
    every answer.

    The reply cites nothing, so only the retrievals decide the order of the passages.
    """
    of_question = parts[data["question"]]
    if "open" not in data:
        split = [
            {"id": id_, "question": part["question"], "after": _needs(part["question"])}
            for id_, part in enumerate(of_question, 1)
        ]
        return {"subproblems": split}
    if "passages" not in data:
        texts = [_filled(subproblem["question"], of_question) for subproblem in data["open"]]
        return {"query": " ".join(texts)}
    answers = [
        {"id": subproblem["id"], "answer": of_question[subproblem["id"] - 1]["answer"]}
        for subproblem in data["open"]
    ]
    return {"answers": answers, "notes": ""}


def _needs(question: str) -> list[int]:
    return [int(number) for number in re.findall(r"#(\d+)", question)]


def _filled(question: str, parts: Sequence[Mapping[str, Any]]) -> str:
    return re.sub(r"#(\d+)", lambda found: str(parts[int(found[1]) - 1]["answer"]), question)


GRID = [(depth, beam) for depth in (1, 2, 3, 4) for beam in (1, 4, 16)]
PATHS: dict[str, Search] = {
    **{f"statement, depth {d}, beam {b}": Search("statement", n_hop=d, beam=b) for d, b in GRID},
    **{f"topic, depth {d}": Search("topic", n_hop=d) for d in (1, 2, 3, 4)},
}
ORDERS: tuple[Rerank, ...] = ("none", "mean", "cosine")
BOTH: tuple[Strategy, ...] = ("statement", "topic")


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--only", {"choices": DATA, "action": "append"}),
        ("--paths", {"action": "store_true", "help": "Depth, beam and reranking."}),
        ("--logic", {"action": "store_true", "help": "LogicRAG on MuSiQue."}),
    )
    models = load_models(Config())
    vectors = VectorCache(models.encoder, given.keep)
    models = replace(models, encoder=vectors, maker=BuiltinMaker(models.language, vectors))
    for data in ("musique",) if given.logic else given.only or DATA:
        folder = given.data / data
        asked = (real if data == "realdocs" else sample)(folder, given.keep, models)
        if given.logic:
            by_logic(asked, models, folder)
        elif given.paths:
            rows = PATHS | {
                f"{name}, reranked by {rerank}": Search(name, rerank=rerank)
                for name in BOTH
                for rerank in ORDERS
            }
            print_table(data, asked, models, rows)
        else:
            print_table(data, asked, models, {name: Search(name) for name in STRATEGIES})
        asked.connection.close()


def by_logic(asked: Asked, models: Models, folder: Path) -> None:
    """Measure each strategy with the whole question, and with its gold parts."""
    parts = {line["question"]: line["decomposition"] for line in lines(folder / "questions.jsonl")}
    searches = {
        f"{name}{', ' + method if method == 'logic' else ''}": Search(name, method=method)
        for name in ("hop", "dense", "statement", "topic", "hybrid")
        for method in ("direct", "logic")
    }
    print_table("musique", asked, models, searches, scripted_llm(partial(gold_parts, parts)))


def print_table(
    data: str, asked: Asked, models: Models, searches: Mapping[str, Search], llm: Llm | None = None
) -> None:
    database = Path(asked.connection.execute("PRAGMA database_list").fetchone()[2])
    engine = Engine(database, models.encoder, WalkSettings(), llm)
    engine.publish(asked.head)
    rows: list[list[object]] = []
    for name, search in searches.items():
        began_s = time.process_time()
        found = ask_all(engine, search, asked.gold, asked.questions)
        cpu_ms = 1000 * (time.process_time() - began_s) / len(asked.questions)
        scores = compute_scores(found)
        singles = [outcome for outcome in found if outcome.question.kind == "single"]
        several = [outcome for outcome in found if outcome.question.kind == "multi"]
        shares = [scores.recall[depth] for depth in DEPTHS] + [scores.whole[5]]
        if singles:
            shares += [compute_scores(singles).whole[5], compute_scores(several).whole[5]]
        rows.append([name, *shares, cpu_ms, scores.llm_calls, f"{scores.llm_tokens:,.0f}"])
    kinds = ["single @5", "multi @5"] if data == "realdocs" else []
    columns = [*(f"recall@{depth}" for depth in DEPTHS), "all@5", *kinds]
    table([data, *columns, "CPU ms", "calls", "tokens"], rows)


if __name__ == "__main__":
    main()
