"""Questions that use another form of a name or a date than the documents do.

python benchmarks/names_and_dates.py

The questions of names_and_dates.jsonl, on real documents, have the long form of an abbreviation
where the passage has the short one, the reverse, or a date in another spelling. On HotpotQA,
MuSiQue and 2Wiki, drawn_forms.py draws keyword queries from the passages; each is asked as a
question too. Indexes are kept as for benchmarks/real.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from common import JSON, arguments, real_documents, table, write_result
from drawn_forms import draw
from real import IGNORED, KEEP, SAMPLES, STRATEGIES

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus
from hopsyncd.evaluation.measures import QuestionOutcome, compute_scores
from hopsyncd.evaluation.real_folder import make_source, measure_folder, read_quoted
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.evaluation.run import Experiment, choose_kept_folder, evaluate
from hopsyncd.models.loading import load_models
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.walk_settings import WalkSettings

QUESTIONS = Path(__file__).parent / "names_and_dates.jsonl"
KINDS = {"l": "long form asked", "s": "short form asked", "d": "date asked"}
DEPTHS = (2, 5, 10)
Outcomes = Mapping[str, Sequence[QuestionOutcome]]


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--strategy", {"choices": STRATEGIES, "action": "append"}),
        ("--failures", {"action": "store_true", "help": "List the questions missed at 20."}),
    )
    config = Config()
    strategies = given.strategy or STRATEGIES
    experiment = Experiment(
        {name: Search(name) for name in strategies},
        load_models(config),
        config.index.edge_budget_factor,
        WalkSettings(hops=config.query.hops),
    )
    source = make_source(real_documents(given.data), IGNORED)
    result = measure_folder(given.keep, source, read_quoted(QUESTIONS), config, experiment)
    if result.unread:
        raise SystemExit(f"These quotes are in no passage: {', '.join(result.unread)}")
    every = [ask_drawn(given.data / name, given.keep, experiment) for name in SAMPLES]
    rows = [
        *_rows("real documents", [result.outcomes]),
        *_rows("drawn keyword query", [keywords for keywords, _ in every]),
        *_rows("drawn question", [questions for _, questions in every]),
    ]
    if given.failures:
        _list_failures(result.outcomes)
    names = (*(f"@{depth}" for depth in DEPTHS), "MRR")
    columns = ["asked", *(f"{strategy} {name}" for strategy in strategies for name in names)]
    table(columns, rows)
    if given.json:
        write_result("names-and-dates", columns, rows)


def ask_drawn(folder: Path, keep: Path, experiment: Experiment) -> tuple[Outcomes, Outcomes]:
    """The queries drawn from the passages of a sample: as keywords, and as questions."""
    corpus = read_corpus(folder / "corpus.jsonl")
    drawn = draw({id_: (passage.heading, passage.text) for id_, passage in corpus.items()})
    models = experiment.models
    maker = BuiltinMaker(models.language, VectorCache(models.encoder, keep))
    experiment = replace(experiment, models=replace(models, maker=maker))
    place = choose_kept_folder(keep, corpus, maker, experiment.budget_factor)

    def ask(pattern: str) -> Outcomes:
        questions = [
            GoldQuestion(
                f"{'s' if one.has_short else 'l'}{number}",
                pattern.format(one.query),
                (),
                frozenset([one.gold]),
            )
            for number, one in enumerate(drawn)
        ]
        return evaluate(place, corpus, questions, experiment).outcomes

    return ask("{}"), ask("What about {}?")


def _rows(title: str, parts: Sequence[Outcomes]) -> Iterator[list[object]]:
    """One row for each kind of question, with the recalls and MRR of each strategy."""
    for kind, label in KINDS.items():
        row: list[object] = []
        for strategy in parts[0]:
            outcomes = [one for part in parts for one in part[strategy]]
            selected = [outcome for outcome in outcomes if outcome.question.id.startswith(kind)]
            if not selected:
                break
            scores = compute_scores(selected)
            row += [*(scores.whole[depth] for depth in DEPTHS), f"{scores.reciprocal_rank:.2f}"]
        if row:
            yield [f"{title}, {label} ({len(selected)})", *row]


def _list_failures(outcomes: Outcomes) -> None:
    for strategy, found in outcomes.items():
        missed = [one.question.question for one in found if None in one.ranks.values()]
        print(strategy, "missed:", *missed, sep="\n  ")


if __name__ == "__main__":
    main()
