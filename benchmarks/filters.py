"""Measure the cost of a filter: each question is asked with and without the filter, in one process.

An engine in this process searches an invented collection (benchmarks/invented.py) with models that
take no time. Seconds are processor seconds.

python benchmarks/filters.py --passages 10000

The filters keep a tenth, a half and nine tenths of the folders. first: the first question with a
new filter. The documents and counts of a filter are cached while its version is served.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from common import arguments, table
from fast_daemon import FastEncoder
from invented import collection

sys.path.insert(0, str(Path(__file__).parents[1]))
from hopsyncd.config.values import Search, Strategy
from hopsyncd.evaluation.run import DATABASE_NAME, build
from hopsyncd.index.filters import Condition, Filter
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import Passage
from tests.fakes.models import FakeLanguage

_QUESTIONS = 60
_SHARES = (0.1, 0.5, 0.9)


def main() -> None:
    asked = arguments(
        __doc__ or "", ("--passages", {"type": int, "default": 10_000}), ("--keep", {"type": Path})
    )
    with TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        corpus: dict[str, Passage] = {}
        questions: list[str] = []
        for one in collection(asked.passages):
            title, *parts = one.text.split("\n## ")
            questions.append(one.question)
            for number, part in enumerate(parts):
                heading, _, text = part.partition("\n")
                name = f"{len(questions) % 10}/{one.path}/{number}"
                corpus[name] = Passage((title.removeprefix("# ").strip(), heading), text.strip())
        encoder = FastEncoder()
        served = build(folder, corpus, BuiltinMaker(FakeLanguage(), encoder), 1.0)
        engine = Engine(folder / DATABASE_NAME, encoder, WalkSettings())
        engine.publish(served)
        _measure(engine, questions[:: max(len(questions) // _QUESTIONS, 1)])


def _measure(engine: Engine, questions: Sequence[str]) -> None:
    rows = []
    strategies: tuple[Strategy, ...] = ("hop", "dense", "bm25")
    for strategy in strategies:
        search = Search(strategy)
        filters = {share: _leaving(share, strategy) for share in _SHARES}
        first = {share: _ms(engine, questions[0], search, one) for share, one in filters.items()}
        took: dict[float, list[float]] = {share: [] for share in (0.0, *_SHARES)}
        for question in questions:
            for share, times in took.items():
                times.append(_ms(engine, question, search, filters.get(share, ())))
        whole = statistics.median(took[0.0])
        rows.append([strategy, "all", f"{whole:.1f}", "1", ""])
        for share in _SHARES:
            p50 = statistics.median(took[share])
            rows.append([
                strategy, f"{share:.0%}", f"{p50:.1f}", f"{p50 / whole:.2f}", f"{first[share]:.1f}"
            ])  # fmt: skip
    table(["strategy", "left", "p50 ms", "to all", "first ms"], rows)


def _leaving(share: float, other: str) -> Filter:
    """A filter that keeps this share of ten folders; each value of `other` makes a new filter."""
    folders = Condition("path", f"[0-{round(share * 10) - 1}]/**")
    return (folders, Condition("path", other, is_excluded=True))


def _ms(engine: Engine, question: str, search: Search, wanted: Filter) -> float:
    began_s = time.thread_time()
    engine.query(question, 10, search, filter_=wanted)
    return (time.thread_time() - began_s) * 1000


if __name__ == "__main__":
    main()
