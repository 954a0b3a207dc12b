"""Retrieval at two commits compared question by question: wins and losses of the newer one.

python benchmarks/paired.py OLD [NEW]    # NEW: the working tree, unless named

Each commit is unpacked into a temporary folder, and its own code indexes the collections and asks
their questions with the default search, the default models and no LLM. A question is won if all of
its passages are among the first 5 (or 10) at the new commit and were not at the old one. Intervals
are 95 % bootstrap intervals of the mean difference; p comes from McNemar's exact test.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from math import comb
from pathlib import Path
from statistics import fmean, median
from typing import Any

from common import ROOT, arguments, table
from real import IGNORED, KEEP

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import read_corpus, read_questions
from hopsyncd.evaluation.measures import QuestionOutcome, compute_bootstrap_interval
from hopsyncd.evaluation.real_folder import make_source, measure_folder, read_quoted
from hopsyncd.evaluation.run import Evaluation, Experiment, choose_kept_folder, evaluate
from hopsyncd.models.loading import load_models

COLLECTIONS = ("realdocs", "hotpotqa", "musique", "2wiki")
DEPTHS = (5, 10)

Row = Mapping[str, Any]
"""A question's `id`, `kind`, `ms`, and the `ranks` of its passages; 0: not found."""


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("old", {"help": "A commit."}),
        ("new", {"nargs": "?", "help": "A commit. Default: the working tree."}),
        ("--only", {"choices": COLLECTIONS, "action": "append"}),
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--measure", {"type": Path, "help": "Measure this tree alone, and write here."}),
    )
    names = given.only or COLLECTIONS
    if given.measure:
        found = {name: [*measure(given.data / name, given.keep)] for name in names}
        given.measure.write_text(json.dumps(found), encoding="utf-8")
        return
    options = ["--data", str(given.data), "--keep", str(given.keep)]
    options += [part for name in names for part in ("--only", name)]
    old, new = (run_at(commit, options) for commit in (given.old, given.new))
    rows = [row for name in names for row in compare(name, old[name], new[name])]
    columns = [f"{text} @{depth}" for depth in DEPTHS for text in ("all", "won - lost", "p")]
    table(["questions", *columns, "recall @5", "difference", "p50 ms"], rows)


def run_at(commit: str | None, options: Sequence[str]) -> dict[str, list[Row]]:
    """Measure a commit in a separate process."""
    with tempfile.TemporaryDirectory() as temporary:
        place = ROOT if commit is None else Path(temporary) / "tree"
        if commit is not None:
            packed = subprocess.run(
                ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
            ).stdout
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(place, filter="data")
            # The same questions in the same way, by the code of that commit.
            (place / "benchmarks/paired.py").write_bytes(Path(__file__).read_bytes())
        written = Path(temporary) / "measured.json"
        subprocess.run(
            [sys.executable, "benchmarks/paired.py", "-", "--measure", written, *options],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(place)},
            check=True,
        )
        found: dict[str, list[Row]] = json.loads(written.read_text(encoding="utf-8"))
        return found


def measure(folder: Path, keep: Path) -> Iterator[Row]:
    """Ask the questions of one collection."""
    config = Config()
    models = load_models(config)
    experiment = Experiment({"hop": Search()}, models, config.index.edge_budget_factor)
    kinds: dict[str, str] = {}
    if folder.name == "realdocs":
        questions = read_quoted(folder / "questions.jsonl")
        source = make_source(folder, IGNORED)
        result: Evaluation = measure_folder(keep, source, questions, config, experiment)
    else:
        corpus = read_corpus(folder / "corpus.jsonl")
        place = choose_kept_folder(keep, corpus, models.maker, experiment.budget_factor)
        asked = read_questions(folder / "questions.jsonl", corpus)
        result = evaluate(place, corpus, asked, experiment)
        lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        kinds = {one["id"]: one.get("type", "") for one in map(json.loads, lines)}
    for outcome in result.outcomes["hop"]:
        if outcome.question.gold:
            yield _row(outcome, kinds.get(outcome.question.id, ""))


def _row(outcome: QuestionOutcome, kind: str) -> Row:
    return {
        "id": outcome.question.id,
        "kind": outcome.question.kind or kind,
        "ranks": [rank or 0 for rank in outcome.ranks.values()],
        "ms": outcome.ms,
    }


def compare(name: str, old: Sequence[Row], new: Sequence[Row]) -> Iterator[list[object]]:
    """Yield a row for all questions of a collection. If there are several kinds of questions, also
    yield a row for each kind."""
    before = {row["id"]: row for row in old}
    pairs = [(before[row["id"]], row) for row in new if row["id"] in before]
    kinds = sorted({row["kind"] for row in new})
    if len(kinds) != 1:
        yield compare_pairs(f"{name} ({len(pairs)})", pairs)
    for kind in kinds:
        own = [pair for pair in pairs if pair[1]["kind"] == kind]
        yield compare_pairs(f"{name} {kind} ({len(own)})".replace("  ", " "), own)


def compare_pairs(label: str, pairs: Sequence[tuple[Row, Row]]) -> list[object]:
    """Return the shares of both commits, the wins and losses, and the significance of the
    difference.
    """
    cells: list[object] = [label]
    for depth in DEPTHS:
        found = [(_has_all(old, depth), _has_all(new, depth)) for old, new in pairs]
        won = sum(new and not old for old, new in found)
        lost = sum(old and not new for old, new in found)
        shares = [100 * fmean(side) for side in zip(*found, strict=True)]
        cells += [f"{shares[0]:.1f} -> {shares[1]:.1f}", f"{won} - {lost}"]
        cells.append(f"{mcnemar(won, lost):.2g}")
    recalls = [(_recall(old, 5), _recall(new, 5)) for old, new in pairs]
    means = [100 * fmean(side) for side in zip(*recalls, strict=True)]
    low, high = (
        100 * end for end in compute_bootstrap_interval([new - old for old, new in recalls])
    )
    cells += [f"{means[0]:.1f} -> {means[1]:.1f}", f"{means[1] - means[0]:+.1f}"]
    cells[-1] = f"{cells[-1]} ({low:+.1f} to {high:+.1f})"
    times = [median(row["ms"] for row in side) for side in zip(*pairs, strict=True)]
    return [*cells, f"{times[0]:.1f} -> {times[1]:.1f}"]


def _has_all(row: Row, depth: int) -> bool:
    return all(0 < rank <= depth for rank in row["ranks"])


def _recall(row: Row, depth: int) -> float:
    return fmean(0 < rank <= depth for rank in row["ranks"])


def mcnemar(won: int, lost: int) -> float:
    """The probability of a split at least this uneven if neither commit were better (McNemar's
    test).

    >>> mcnemar(5, 0), mcnemar(0, 0)
    (0.0625, 1.0)
    """
    count, fewer = won + lost, min(won, lost)
    tail: float = sum(comb(count, number) for number in range(fewer + 1)) / 2**count
    return min(2 * tail, 1.0)


if __name__ == "__main__":
    main()
