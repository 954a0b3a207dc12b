"""`hopsyncd eval`: recall of several strategies side by side, on a corpus with questions."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hopsyncd.cli.shared import json_option, print_json
from hopsyncd.config import load_config
from hopsyncd.strategy import STRATEGIES, Search, Strategy

if TYPE_CHECKING:
    from hopsyncd.evaluation.run import Evaluation

_file = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("eval")
@click.option("--corpus", required=True, type=_file, help="JSON lines {id, title, text}.")
@click.option(
    "--questions", required=True, type=_file, help="JSON lines {id, question, answers, gold}."
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(STRATEGIES),
    help="Can be given several times. Default: all.",
)
@json_option
@click.pass_context
def evaluate(
    context: click.Context,
    corpus: Path,
    questions: Path,
    strategies: tuple[Strategy, ...],
    as_json: bool,
) -> None:
    """Measure retrieval on your own corpus and questions, in a temporary store."""
    config = load_config(context.obj)
    from hopsyncd.evaluation.data import read_corpus, read_questions
    from hopsyncd.evaluation.run import evaluate as run
    from hopsyncd.graph.walk import WalkSettings
    from hopsyncd.models import load_models

    passages = read_corpus(corpus)
    asked = read_questions(questions, passages)
    models = load_models(config)
    with (
        tempfile.TemporaryDirectory(prefix="hopsyncd-eval-") as folder,
        Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars,
    ):
        bar = bars.add_task("passages", total=len(passages))
        result = run(
            Path(folder),
            passages,
            asked,
            {name: Search(name) for name in strategies or STRATEGIES},
            models.encoder,
            models.maker,
            budget_factor=config.index.edge_budget_factor,
            walk=WalkSettings(hops=config.query.hops),
            on_progress=lambda done, total: bars.update(bar, completed=done, total=total),
        )
    if as_json:
        print_json(_json(result))
    else:
        _print_table(result)


def _json(result: "Evaluation") -> dict[str, Any]:
    return {
        "strategies": {
            name: {
                **{f"recall@{depth}": round(value, 2) for depth, value in scores.recall.items()},
                "all@5": round(scores.all_at_5, 2),
                "ms_p50": round(scores.ms_p50, 3),
                "ms_p95": round(scores.ms_p95, 3),
            }
            for name, scores in result.scores.items()
        },
        "index_s": round(result.index_s, 3),
        "passages": result.passages,
        "edges": result.edges,
        "llm_calls": 0,
        "llm_tokens": 0,
    }


def _print_table(result: "Evaluation") -> None:
    columns = ["recall@2", "recall@5", "recall@10", "recall@20", "all@5"]
    table = Table("strategy", *columns, "ms p50", "ms p95")
    for name, scores in result.scores.items():
        shares = [*scores.recall.values(), scores.all_at_5]
        times = (scores.ms_p50, scores.ms_p95)
        table.add_row(name, *(f"{share:.1f}" for share in shares), *(f"{ms:.1f}" for ms in times))
    Console(width=100).print(table)
    click.echo(
        f"{result.passages} passages, {result.edges} edges, indexed in {result.index_s:.1f} s,"
        " 0 LLM calls, 0 tokens"
    )
