"""Writes the report of an evaluation: a JSON object, a Markdown page with its tables, and plots."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hopsyncd.config.values import Search
from hopsyncd.errors import HopsyncdError
from hopsyncd.evaluation.measures import (
    DEPTHS,
    AnswerScores,
    QuestionOutcome,
    Scores,
    Share,
    compute_scores,
)
from hopsyncd.evaluation.run import Evaluation
from hopsyncd.retrieve.answering.reply import split_reply

_SWEPT = ("top_k", "n_hop", "beam")
_INTERVAL = (
    "In brackets: the 95 % confidence interval (Wilson score for shares, otherwise bootstrap with"
    " 2,000 resamples)."
)


@dataclass(frozen=True, slots=True)
class Measured:
    """An evaluation, with its title and notes that help to interpret the figures.

    searches: the searches, by their names in the evaluation.
    """

    title: str
    notes: Sequence[str]
    searches: Mapping[str, Search]
    evaluation: Evaluation


def format_scores(scores: Scores) -> dict[str, Any]:
    """Format the scores: percentages, milliseconds, and means per question."""
    measures = {
        "recall": scores.recall,
        "precision": scores.precision,
        "f1": scores.f1,
        "all": scores.whole,
    }
    return {
        **_format_shares(
            {
                f"{name}@{depth}": values[depth]
                for name, values in measures.items()
                for depth in DEPTHS
            }
        ),
        "reciprocal_rank": round(scores.reciprocal_rank, 4),
        "ms_p50": round(scores.ms_p50, 3),
        "ms_p95": round(scores.ms_p95, 3),
        "llm_calls": round(scores.llm_calls, 3),
        "llm_tokens": round(scores.llm_tokens, 1),
    }


def format_answers(scores: AnswerScores | None) -> dict[str, Any]:
    """Format the percentages of the answers, without measures that no question applies to."""
    if scores is None:
        return {}
    values = {field.name: getattr(scores, field.name) for field in fields(scores)}
    return _format_shares(
        {f"answer_{name}": share for name, share in values.items() if share is not None}
    )


def _format_shares(shares: Mapping[str, Share]) -> dict[str, Any]:
    """Format each share under its name, and its interval under the name followed by `_interval`."""
    percents = {name: round(share, 2) for name, share in shares.items()}
    ends = {
        f"{name}_interval": [round(share.low, 2), round(share.high, 2)]
        for name, share in shares.items()
    }
    return {**percents, **ends}


def format_evaluation(measured: Measured) -> dict[str, Any]:
    """Format the whole result as JSON. `strategies` has an entry for each search, by its name."""
    result = measured.evaluation
    every = [outcome for outcomes in result.outcomes.values() for outcome in outcomes]
    kinds = dict.fromkeys(outcome.question.kind for outcome in every if outcome.question.gold)
    return {
        "title": measured.title,
        "notes": list(measured.notes),
        "questions": len(next(iter(result.outcomes.values()), ())),
        "strategies": {
            name: format_scores(scores) | format_answers(result.answers[name])
            for name, scores in result.scores.items()
        },
        "kinds": {
            kind: {
                name: format_scores(
                    compute_scores(
                        [outcome for outcome in outcomes if outcome.question.kind == kind]
                    )
                )
                for name, outcomes in result.outcomes.items()
            }
            for kind in kinds
            if kind
        },
        "index_s": round(result.index_s, 3),
        "passages": result.passages,
        "edges": result.edges,
        "llm_calls": sum(outcome.llm_calls for outcome in every),
        "llm_tokens": sum(outcome.llm_tokens for outcome in every),
    }


def format_question_lines(evaluation: Evaluation) -> str:
    """Return a JSON line per search and question, with the rank of each gold passage.

    If missed passages were analysed, the lines of the default search say why each was missed.
    """
    lines = [
        {
            "search": name,
            "id": outcome.question.id,
            **({"kind": outcome.question.kind} if outcome.question.kind else {}),
            "question": outcome.question.question,
            "gold": dict(outcome.ranks),
            **_list_missing(evaluation, name, outcome.question.id),
            "answers": list(outcome.question.answers),
            **_format_reply(outcome),
            "ms": round(outcome.ms, 3),
            "llm_calls": outcome.llm_calls,
        }
        for name, outcomes in evaluation.outcomes.items()
        for outcome in outcomes
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _list_missing(evaluation: Evaluation, search: str, question: str) -> dict[str, Any]:
    missing = evaluation.missing.get(question) if search == "hop" else None
    return asdict(missing) if missing else {}


def _format_reply(outcome: QuestionOutcome) -> dict[str, Any]:
    reply = outcome.reply
    if reply is None:
        return {}
    return {
        "answer": reply.brief,
        "short": reply.short,
        "sentences": split_reply(reply),
        "em": outcome.em,
        "f1": outcome.f1,
    }


def write_report(folder: Path, measured: Measured) -> list[Path]:
    """Write report.json, report.md and the plots. Raises HopsyncdError if matplotlib is not
    installed."""
    require_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    plots = _draw_plots(folder, measured)
    report = json.dumps(format_evaluation(measured), ensure_ascii=False, indent=2)
    (folder / "report.json").write_text(report + "\n", encoding="utf-8")
    (folder / "report.md").write_text(_format_markdown(measured, plots), encoding="utf-8")
    return [folder / "report.md", folder / "report.json", *plots]


def require_matplotlib() -> None:
    """Raise HopsyncdError if matplotlib is missing. Call this before a long evaluation, so that the
    evaluation does not fail at its report.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise HopsyncdError(
            "Cannot draw the report's plots",
            "matplotlib is not installed",
            'Install the package: pip install "hopsyncd[report]"',
        ) from error


def _format_markdown(measured: Measured, plots: Sequence[Path]) -> str:
    result = measured.evaluation
    rows = {
        name: format_scores(scores) | format_answers(result.answers[name])
        for name, scores in result.scores.items()
    }
    count = len(next(iter(result.outcomes.values()), ()))
    parts = [
        f"# {measured.title}",
        f"{result.passages} passages, {result.edges} edges, {count} questions."
        " Shares in percent; times, calls and tokens per question.",
        *measured.notes,
        "## Retrieval",
        _format_table(rows, [*(f"recall@{depth}" for depth in DEPTHS), "all@5"]),
        _INTERVAL,
        _format_table(
            rows, [f"{name}@{depth}" for name in ("precision", "f1") for depth in DEPTHS]
        ),
        "## Cost",
        _format_table(rows, ["ms_p50", "ms_p95", "llm_calls", "llm_tokens"]),
    ]
    if any("answer_em" in row for row in rows.values()):
        columns = [f"answer_{field.name}" for field in fields(AnswerScores)]
        first_scores = next(iter(rows.values()))
        parts += [
            "## Answers",
            _format_table(rows, [column for column in columns if column in first_scores]),
        ]
    parts += [f"![{plot.stem.replace('_', ' ')}]({plot.name})" for plot in plots]
    return "\n\n".join(parts) + "\n"


def _format_table(rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> str:
    lines = [
        "| search | " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | " + " | ".join(_format_cell(row, column) for column in columns) + " |"
        )
    return "\n".join(lines)


def _format_cell(row: Mapping[str, Any], column: str) -> str:
    ends = row.get(f"{column}_interval")
    brackets = f" ({ends[0]:.1f} to {ends[1]:.1f})" if ends else ""
    return f"{row[column]:,.1f}{brackets}"


def _draw_plots(folder: Path, measured: Measured) -> list[Path]:
    from matplotlib.figure import Figure

    scores = measured.evaluation.scores
    by_depth = Figure(figsize=(7, 4.5), layout="constrained")
    axes = by_depth.subplots()
    for name, value in scores.items():
        axes.plot(DEPTHS, [value.recall[depth] for depth in DEPTHS], marker="o", label=name)
    axes.set(xlabel="passages", ylabel="recall, percent", xticks=DEPTHS, ylim=(0, 101))
    axes.legend(fontsize="small")
    at_5 = Figure(figsize=(7, 1.5 + 0.4 * len(scores)), layout="constrained")
    axes = at_5.subplots()
    means = [score.recall[5] for score in scores.values()]
    below = [mean - mean.low for mean in means]
    above = [mean.high - mean for mean in means]
    axes.barh(list(scores), means, xerr=[below, above], capsize=3)
    axes.set(xlabel="recall@5 in percent, with 95 % confidence interval", xlim=(0, 101))
    axes.invert_yaxis()
    figures = {"recall_by_depth": by_depth, "recall_at_5": at_5}
    for parameter in _SWEPT:
        lines = _group_by_parameter(measured, parameter)
        if lines:
            figures[f"recall_by_{parameter}"] = _sweep_figure(lines, parameter)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=120)
    return [folder / f"{name}.png" for name in figures]


def _group_by_parameter(measured: Measured, parameter: str) -> dict[str, list[tuple[int, float]]]:
    """Group recall@5 by the searches' names without the parameter.

    Each value lists pairs of the parameter's value and recall@5 in percent, ascending. Only
    searches with hop, statement or topic that ran with at least two values are included.
    """
    lines: dict[str, list[tuple[int, float]]] = {}
    for name, search in measured.searches.items():
        value = getattr(search, parameter)
        if value is not None and search.strategy in ("hop", "statement", "topic"):
            line_name = re.sub(rf" {parameter}=\d+", "", name)
            recall = measured.evaluation.scores[name].recall[5]
            lines.setdefault(line_name, []).append((value, recall))
    return {name: sorted(points) for name, points in lines.items() if len(points) > 1}


def _sweep_figure(lines: Mapping[str, Sequence[tuple[int, float]]], parameter: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xlabel=parameter, ylabel="recall@5, percent", ylim=(0, 101))
    axes.legend(fontsize="small")
    return figure
