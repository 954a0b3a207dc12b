"""`hopsyncd eval`: measure searches on a corpus with questions, or on your own index."""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import WholeNumber, json_option, print_if_json
from hopsyncd.cli.terminal import echo_drawn
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.config.values import (
    ALL_STRATEGIES,
    METHODS,
    PROFILES,
    REASONERS,
    RERANKS,
    STRATEGIES,
    Search,
    Strategy,
)

if TYPE_CHECKING:
    from hopsyncd.evaluation.report import Measured
    from hopsyncd.evaluation.run import Answers, Experiment
    from hopsyncd.models.loading import Models
    from hopsyncd.models.questions import QuestionMaker

_LINE_EVERY_S = 5.0
_PLAIN_STRATEGIES: tuple[Strategy, ...] = ("hop", "statement", "topic", "bm25", "dense", "hybrid")
_file = click.Path(path_type=Path, exists=True, dir_okay=False)
_new = click.Path(path_type=Path, dir_okay=False, writable=True)
_folder = click.Path(path_type=Path, file_okay=False)
_there = click.Path(path_type=Path, file_okay=False, exists=True)


def _make_choice_option(flag: str, name: str, values: Sequence[str], text: str) -> Any:
    """Create an option that may be given several times, with one of `values` each time."""
    return click.option(flag, name, multiple=True, type=click.Choice(values), help=text)


_OPTIONS = (
    click.option("--corpus", type=_file, help="JSON lines {id, title, text}."),
    click.option("--folder", type=_there, help="A folder of documents, indexed like a source."),
    click.option(
        "--ignore", multiple=True, help="With --folder: skip files that match this pattern."
    ),
    click.option(
        "--questions",
        type=str,
        help="A file with JSON lines {id, question, answers, gold}; with --folder, {id, kind,"
        " question, answers, evidence}. With --self: the number of questions.  [default: 50]",
    ),
    click.option(
        "--self",
        "own",
        is_flag=True,
        help="Measure your own index with two-hop questions generated from its edges. Read-only.",
    ),
    click.option(
        "--seed",
        default=0,
        show_default=True,
        help="With --self: the random seed for choosing edges.",
    ),
    _make_choice_option(
        "--strategy",
        "strategies",
        ALL_STRATEGIES,
        "Default: all but rerank; with --folder or --self, all but decompose and rerank.",
    ),
    _make_choice_option("--profile", "profiles", PROFILES, "How `hop` searches."),
    _make_choice_option("--reasoner", "reasoners", REASONERS, "How `hop` chooses edges."),
    click.option("--top-k", "top_ks", multiple=True, type=WholeNumber(1, 1000)),
    click.option("--n-hop", "n_hops", multiple=True, type=WholeNumber(1, 20)),
    click.option("--beam", "beams", multiple=True, type=WholeNumber(1, 100)),
    _make_choice_option("--rerank", "reranks", RERANKS, "How results are reranked."),
    _make_choice_option("--method", "methods", METHODS, "`logic` calls the configured LLM."),
    click.option(
        "--answers",
        is_flag=True,
        help="Also compare answers with the gold answers.",
    ),
    click.option(
        "--llm",
        "by_llm",
        is_flag=True,
        help="Let the configured LLM answer. With --self it also writes the questions.",
    ),
    click.option(
        "--questions-from",
        type=_file,
        help="Index with recorded questions: JSON lines {id, incoming, outgoing}.",
    ),
    click.option(
        "--questions-mode",
        type=click.Choice(["both", "llm"]),
        default="both",
        show_default=True,
        help="Use recorded and built-in questions, or only recorded questions.",
    ),
    click.option(
        "--keep",
        type=_folder,
        envvar="HOPSYNCD_EVAL_KEEP",
        show_envvar=True,
        help="Keep the index in this folder for reuse.",
    ),
    click.option(
        "--report", type=_folder, help="Write report.md, report.json and plots to this folder."
    ),
    click.option(
        "--per-question",
        type=_new,
        help="Write the ranks of gold passages to this file, as JSON lines.",
    ),
)


def _add_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("eval")
@_add_options
@json_option
@click.pass_context
def evaluate(
    context: click.Context,
    /,
    own: bool,
    report: Path | None,
    per_question: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure search and answers on your documents or a corpus.

    A corpus or a folder of documents needs a file of questions. With --self, questions are
    generated from your index.

    --strategy, --profile, --reasoner, --top-k, --n-hop, --beam, --rerank and --method are as for
    `hopsyncd query`, and may be repeated. Every combination that gives a different search is
    measured.

    Example: hopsyncd eval --self --answers
    """
    config = load_config(context.obj)
    if report:
        from hopsyncd.evaluation.report import require_matplotlib

        require_matplotlib()
    if own:
        measured = _measure_self(config, given)
    elif given["folder"]:
        measured = _measure_folder(config, given)
    else:
        measured = _measure_corpus(config, given)
    from hopsyncd.evaluation.report import format_evaluation, format_question_lines, write_report

    if per_question:
        per_question.write_text(format_question_lines(measured.evaluation), encoding="utf-8")
    written = write_report(report, measured) if report else []
    if print_if_json(format_evaluation(measured), as_json):
        return
    print_table(measured)
    for file in written:
        click.echo(f"written: {file}")


def _measure_corpus(config: Config, options: Mapping[str, Any]) -> "Measured":
    """Measure on a file of passages and a file of questions."""
    if options["corpus"] is None or options["questions"] is None:
        raise click.UsageError("Use --corpus or --folder with --questions, or use --self.")
    from hopsyncd.evaluation.corpus import read_corpus, read_questions
    from hopsyncd.evaluation.recordings import make_recorded_maker
    from hopsyncd.evaluation.report import Measured
    from hopsyncd.evaluation.run import choose_kept_folder
    from hopsyncd.evaluation.run import evaluate as run
    from hopsyncd.models.questions import BuiltinMaker

    corpus = read_corpus(options["corpus"])
    questions = read_questions(Path(options["questions"]), corpus)
    models, notes = _load_models(config, options), []
    # Never the configured LLM: indexing a corpus with it is expensive.
    maker: QuestionMaker = BuiltinMaker(models.language, models.encoder)
    recorded, mode = options["questions_from"], options["questions_mode"]
    if recorded:
        maker = make_recorded_maker(recorded, corpus, models.language, models.encoder, mode)
        notes.append(f"Indexed with the questions of {recorded.name} (mode {mode}).")
    experiment = _experiment(config, options, replace(models, maker=maker), STRATEGIES)
    keep = options["keep"]
    folder = keep and choose_kept_folder(keep, corpus, maker, experiment.budget_factor)
    store = nullcontext(folder) if folder else tempfile.TemporaryDirectory(prefix="hopsyncd-eval-")
    with store as place, _progress(experiment, len(corpus), len(questions)) as lines:
        result = run(Path(place), corpus, questions, lines)
    title = f"Evaluation of {options['corpus'].name} with {Path(options['questions']).name}"
    return Measured(title, notes, experiment.searches, result)


def _measure_folder(config: Config, options: Mapping[str, Any]) -> "Measured":
    if options["corpus"] or options["questions_from"] or options["questions"] is None:
        raise click.UsageError("Use --folder with --questions, and without a corpus.")
    from hopsyncd.evaluation.real_folder import make_source, measure_folder, read_quoted
    from hopsyncd.evaluation.report import Measured

    file, folder = Path(options["questions"]), options["folder"]
    questions = read_quoted(file)
    ignored, path = list(options["ignore"]), file.resolve()
    if path.is_relative_to(folder.resolve()):
        ignored.append(f"/{path.relative_to(folder.resolve())}")
    source = make_source(folder, ignored)
    experiment = _experiment(config, options, _load_models(config, options), _PLAIN_STRATEGIES)
    keep = options["keep"]
    store = nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="hopsyncd-eval-")
    with store as place, _progress(experiment, 1, len(questions)) as lines:
        result = measure_folder(Path(place), source, questions, config, lines)
    title = f"Evaluation of {folder.name} with {file.name}"
    notes = [f"No passage holds: {name}" for name in result.unread]
    return Measured(title, notes, experiment.searches, result)


def _measure_self(config: Config, options: Mapping[str, Any]) -> "Measured":
    if options["corpus"] or options["folder"] or options["questions_from"]:
        raise click.UsageError("Use --self without a corpus, folder or recorded questions.")
    number = options["questions"] or "50"
    if not (number.isascii() and number.isdecimal()) or not 1 <= int(number) <= 1000:
        raise click.UsageError("With --self, --questions must be a number from 1 to 1000.")
    from hopsyncd.evaluation.index_questions import NOTES, evaluate_index
    from hopsyncd.evaluation.report import Measured

    experiment = _experiment(config, options, _load_models(config, options), _PLAIN_STRATEGIES)
    database, by_llm = config.database, options["by_llm"]
    with _progress(experiment, 0, 0) as lines:
        result = evaluate_index(database, int(number), options["seed"], lines, by_llm=by_llm)
    return Measured("Evaluation of your own index", NOTES[by_llm], experiment.searches, result)


def _load_models(config: Config, options: Mapping[str, Any]) -> "Models":
    from hopsyncd.models.loading import load_models

    models = load_models(config)
    if options["by_llm"] and models.llm is None:
        raise click.UsageError("--llm needs an LLM: set `base_url` and `model` in [llm].")
    return models


def _list_searches(options: Mapping[str, Any], default: tuple[Strategy, ...]) -> dict[str, Search]:
    from hopsyncd.evaluation.run import list_searches

    swept = (
        options[name]
        for name in ("profiles", "reasoners", "top_ks", "n_hops", "beams", "reranks", "methods")
    )
    searches = list_searches(options["strategies"] or default, *swept)
    if not searches:
        raise click.UsageError("The reasoner `walk` does not work with --profile paper.")
    return searches


def _experiment(
    config: Config, options: Mapping[str, Any], models: "Models", strategies: tuple[Strategy, ...]
) -> "Experiment":
    """Make the experiment from the options. `strategies` are the default strategies."""
    from hopsyncd.evaluation.run import Experiment
    from hopsyncd.retrieve.walk_settings import WalkSettings

    by: Answers = "llm" if options["by_llm"] else "extractive"
    return Experiment(
        _list_searches(options, strategies),
        models,
        config.index.edge_budget_factor,
        WalkSettings.from_config(config.query),
        config.llm.max_calls_per_query or None,
        by if options["answers"] else "none",
    )


class _Lines:
    """Reports progress without a terminal: a line on standard error every few seconds."""

    def __init__(self, questions: int) -> None:
        self._questions = questions
        self._done = 0
        self._due_s = time.monotonic()

    def on_passages(self, done: int, total: int) -> None:
        self._print(f"indexing: {done} of {total} passages" if total else "indexing: reading")

    def on_question(self) -> None:
        self._done += 1
        self._print(f"asking: {self._done} of {self._questions or '?'} questions")

    def _print(self, text: str) -> None:
        if time.monotonic() >= self._due_s:
            click.echo(text, err=True)
            self._due_s = time.monotonic() + _LINE_EVERY_S


@contextmanager
def _progress(experiment: "Experiment", passages: int, questions: int) -> Iterator["Experiment"]:
    """Report the progress of an experiment: two bars at a terminal, otherwise lines."""
    searches = len(experiment.searches) * questions
    if not sys.stderr.isatty():
        lines = _Lines(searches)
        yield replace(experiment, on_passages=lines.on_passages, on_question=lines.on_question)
        return
    from hopsyncd.cli.progress import make_bars

    with make_bars() as shown:
        first = shown.add_task(
            "indexing", total=passages or None, visible=bool(passages), unit="passages"
        )
        then = shown.add_task("asking", total=searches or None, unit="questions")
        yield replace(
            experiment,
            on_passages=lambda done, total: shown.update(first, completed=done, total=total),
            on_question=lambda: shown.advance(then),
        )


def print_table(measured: "Measured") -> None:
    """Print the measures of each search, and the notes."""
    from hopsyncd.evaluation.report import format_evaluation

    report = format_evaluation(measured)
    rows = report["strategies"]
    ranked = ["recall@5", "recall@10", "recall@20", "all@5", "all@10", "all@20", "reciprocal_rank"]
    for kind, scores in (report["kinds"] or {"": rows}).items():
        _print_rows(rows=scores, columns=ranked, head=kind or "search")
    first = next(iter(rows.values()))
    answers = [column for column in first if column.startswith("answer_")]
    if shares := [column for column in answers if not column.endswith("_interval")]:
        _print_rows(rows, shares)
    _print_rows(rows, ["precision@5", "f1@5", "ms_p50", "ms_p95", "llm_calls", "llm_tokens"])
    click.echo(
        f"{report['passages']} passages, {report['edges']} edges, {report['questions']} questions,"
        f" indexed in {report['index_s']:.1f} s, {report['llm_calls']} LLM calls,"
        f" {report['llm_tokens']} tokens"
    )
    for note in measured.notes:
        click.echo(note)


def _print_rows(
    rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str], head: str = "search"
) -> None:
    from rich.table import Table

    table = Table()
    table.add_column(head, no_wrap=True)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for name, row in rows.items():
        table.add_row(name, *(_format_cell(row.get(column), column) for column in columns))
    echo_drawn(table)


def _format_cell(value: float | None, column: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if column == "reciprocal_rank" else f"{value:.1f}"
