"""Retrieval and answers on real documents, with the default models and no LLM.

python benchmarks/real.py --samples

Indexes are kept in HOPSYNCD_EVAL_KEEP, or in the user's cache folder. Each run brings the indexes
up to date and embeds only new texts.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from common import JSON, arguments, real_documents, scripted_llm, table, write_result

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search, Strategy
from hopsyncd.evaluation.corpus import read_corpus, read_questions
from hopsyncd.evaluation.measures import QuestionOutcome, Scores, compute_scores
from hopsyncd.evaluation.real_folder import (
    QuotedQuestion,
    choose_index_folder,
    index_folder,
    make_source,
    measure_folder,
    read_quoted,
)
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.evaluation.report import format_question_lines
from hopsyncd.evaluation.run import (
    DATABASE_NAME,
    Evaluation,
    Experiment,
    choose_kept_folder,
    evaluate,
)
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.loading import Models, load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.llm import excerpts_in

STRATEGIES: tuple[Strategy, ...] = ("hop", "bm25", "dense", "hybrid")
TEAM = Path(__file__).parent / "team"
SAMPLES = ("hotpotqa", "musique", "2wiki")
IGNORED = ("/README.md", "/questions.jsonl")  # of the data set itself
KEEP = Path(os.environ.get("HOPSYNCD_EVAL_KEEP") or Path.home() / ".cache/hopsyncd-evaluation")


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--team", {"action": "store_true", "help": "The notes and mail in benchmarks/team."}),
        ("--samples", {"action": "store_true", "help": "HotpotQA, MuSiQue and 2Wiki too."}),
        ("--strategy", {"choices": STRATEGIES, "action": "append"}),
        ("--answers", {"action": "store_true", "help": "Answer too."}),
        ("--reader", {"action": "store_true", "help": "Answer by an LLM that reads perfectly."}),
        ("--passage-tokens", {"type": int, "help": "Another size of passages."}),
        ("--per-question", {"type": Path, "help": "Write here what became of each question."}),
    )
    folder = TEAM if given.team else real_documents(given.data)
    searches = {name: Search(name) for name in given.strategy or STRATEGIES}
    config = Config()
    if given.passage_tokens:
        index = config.index.model_copy(update={"passage_tokens": given.passage_tokens})
        config = config.model_copy(update={"index": index})
    models = load_models(config)
    questions = read_quoted(folder / "questions.jsonl")
    if given.reader:
        asked = {question.question: question for question in questions}
        models = replace(models, llm=scripted_llm(partial(read_perfectly, asked)))
    experiment = Experiment(
        searches,
        models,
        config.index.edge_budget_factor,
        WalkSettings(hops=config.query.hops),
        answers="llm" if given.reader else "extractive" if given.answers else "none",
    )
    result = measure_folder(
        given.keep,
        make_source(folder, IGNORED),
        questions,
        config,
        experiment,
    )
    print(
        f"{result.passages} passages, {result.edges} edges, indexed in {result.index_s:.1f} s,"
        f" {len(result.unread)} quotes stand in no passage\n"
    )
    if given.per_question:
        given.per_question.write_text(format_question_lines(result), encoding="utf-8")
    overview(folder.name, result)
    if given.json:
        write_result("team" if given.team else "real-documents", *recalls_of(result))
    by_folder(result)
    if given.answers or given.reader:
        answers(result)
    if given.samples:
        for name in SAMPLES:
            on_sample(given.data / name, given.keep, experiment)


@dataclass(frozen=True, slots=True)
class RealIndex:
    """The index of the real documents: its database, the newest version and how to ask it."""

    database: Path
    head: Snapshot
    engine: Engine
    models: Models


def serve_real_documents(folder: Path, keep: Path) -> RealIndex:
    """Bring the kept index of the real documents up to date, and open it for questions."""
    config = Config()
    models, source = load_models(config), make_source(folder, IGNORED)
    maker = BuiltinMaker(models.language, VectorCache(models.encoder, keep))
    place = choose_index_folder(keep, source, maker)
    head = index_folder(place, source, config, maker)
    database = place / DATABASE_NAME
    engine = Engine(database, models.encoder, WalkSettings(hops=config.query.hops))
    engine.publish(head)
    return RealIndex(database, head, engine, models)


def read_perfectly(asked: Mapping[str, QuotedQuestion], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply of an ideal reader, who gives the answer if every passage that the answer
    needs is shown."""
    shown = {
        excerpt["number"]: _words(f"{excerpt['title']} {excerpt['heading']} {excerpt['text']}")
        for excerpt in excerpts_in(data)
    }
    question = asked[data["question"]]
    having = [
        [
            number
            for number, text in shown.items()
            if any(_words(one.text) in text for one in sentences)
        ]
        for sentences in question.evidence
    ]
    if not having or not all(having):
        return {"found": False}
    return {"found": True, "answer": question.answers[0], "citations": [one[0] for one in having]}


def _words(text: str) -> str:
    words = " ".join(re.findall(r"\w+", text))
    return f" {words} "


def overview(name: str, result: Evaluation) -> None:
    """Print how often all passages of a question are among the first ones, in percent."""
    columns = ["single @5", "@10", "MRR", "multi @5", "@10", "@20", "recall@5", "MRR", "ms p50"]
    rows = []
    for search, outcomes in result.outcomes.items():
        single, multi = _of_kind(outcomes, "single"), _of_kind(outcomes, "multi")
        rows.append(
            [
                search,
                *(single.whole[depth] for depth in (5, 10)),
                f"{single.reciprocal_rank:.2f}",
                *(multi.whole[depth] for depth in (5, 10, 20)),
                multi.recall[5],
                f"{multi.reciprocal_rank:.2f}",
                result.scores[search].ms_p50,
            ]
        )
    table([name, *columns], rows)


def recalls_of(result: Evaluation) -> tuple[list[str], list[list[object]]]:
    """The columns and rows that docs/benchmarks.md shows."""
    depths = [("single", "one", 5), ("single", "one", 10)]
    depths += [("multi", "several", depth) for depth in (5, 10, 20)]
    rows: list[list[object]] = [
        [search, *(_of_kind(found, kind).whole[depth] for kind, _, depth in depths)]
        for search, found in result.outcomes.items()
    ]
    return ["strategy", *(f"{shown} @{depth}" for _, shown, depth in depths)], rows


def _of_kind(outcomes: Sequence[QuestionOutcome], kind: str) -> Scores:
    return compute_scores([outcome for outcome in outcomes if outcome.question.kind == kind])


def by_folder(result: Evaluation) -> None:
    """Print the figures of `overview` for the questions of each folder, both kinds together."""
    found: dict[str, list[object]] = defaultdict(list)
    for outcomes in result.outcomes.values():
        for folder, asked in _by_folder(outcomes):
            scores = compute_scores(asked)
            found[f"{folder} ({len(asked)})"] += [scores.whole[5], scores.whole[10]]
    columns = [f"{name} @{depth}" for name in result.outcomes for depth in (5, 10)]
    table(["folder (questions)", *columns], [[folder, *row] for folder, row in found.items()])


def _by_folder(outcomes: Sequence[QuestionOutcome]) -> Iterator[tuple[str, list[QuestionOutcome]]]:
    folders = defaultdict(list)
    for outcome in outcomes:
        over = {name.split("/")[0] for name in outcome.question.gold}
        if over:
            folders[over.pop() if len(over) == 1 else "across folders"].append(outcome)
    yield from folders.items()


def answers(result: Evaluation) -> None:
    """Print the quality of answers in percent; docs/reference/evaluation.md explains the
    columns."""
    columns = ["shown", "right", "held", "refused wrongly", "refused rightly"]
    rows = []
    for name, scores in result.answers.items():
        if scores:
            shares = [scores.shown, scores.right, scores.held]
            refused = [scores.refused_wrongly, scores.refused_rightly]
            spent = [result.scores[name].llm_calls, result.scores[name].llm_tokens]
            told = ("-" if one is None else one for one in (*shares, *refused))
            rows.append([name, *told, *spent])
    table(["answers", *columns, "LLM calls", "tokens"], rows)


def on_sample(folder: Path, keep: Path, experiment: Experiment) -> None:
    """Print the table of a sample, whose passages are lines of a file."""
    corpus = read_corpus(folder / "corpus.jsonl")
    questions = read_questions(folder / "questions.jsonl", corpus)
    models = experiment.models
    maker = BuiltinMaker(models.language, VectorCache(models.encoder, keep))
    experiment = replace(experiment, models=replace(models, maker=maker), answers="none")
    place = choose_kept_folder(keep, corpus, maker, experiment.budget_factor)
    result = evaluate(place, corpus, questions, experiment)
    columns = ["recall@2", "recall@5", "recall@10", "all@5", "all@10", "MRR", "ms p50"]
    rows = [
        [
            name,
            *(one.recall[depth] for depth in (2, 5, 10)),
            *(one.whole[depth] for depth in (5, 10)),
            f"{one.reciprocal_rank:.2f}",
            one.ms_p50,
        ]
        for name, one in result.scores.items()
    ]
    table([f"{folder.name} ({len(questions)} questions)", *columns], rows)


if __name__ == "__main__":
    main()
