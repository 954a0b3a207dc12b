"""The graph of some files, built afresh in a database of its own, and what it answers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hopsyncd.config.values import Search
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.models.questions import BuiltinMaker, QuestionMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import Version
from tests.fakes.dump import ROWS, Rows, graph_at, served_by
from tests.fakes.llm import FakeLlm, asked_maker, stating
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

# Between them all of the read path; half of the time goes into asking.
ASKED = [
    ("Who met Rome and Italy?", Search("hop")),
    ("Where did X1 run?", Search("hybrid")),
    ("Who met Rome and Italy?", Search("topic", unit="statement")),
]
# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

NO_VERSION = Version(0, 0, "", 0, "", 0, 0, 0, 0, 0, None, {})

Files = tuple[tuple[str, bytes], ...]
MakerOf = Callable[[int], QuestionMaker]


@dataclass(frozen=True, slots=True)
class Fresh:
    """A graph built in a new database: its rows, its view, and what it answers."""

    rows: Rows
    served: dict[str, object]
    answers: list[tuple[Ranked, ...]]


def builtin_maker(dimensions: int) -> QuestionMaker:
    return BuiltinMaker(FakeLanguage(), FakeEncoder(dimensions), 2)


def statement_maker(dimensions: int) -> QuestionMaker:
    return asked_maker(FakeLlm(stating), "statements", dimensions=dimensions)


@lru_cache(maxsize=500)
def built_afresh(
    files: Files, factor: float, dimensions: int, make_question_maker: MakerOf = builtin_maker
) -> Fresh:
    """The graph of these files alone."""
    if not files:
        nothing: Rows = {**{name: [] for name in ROWS}, "counts": [(0, 0, 0, 0, 0, None)]}
        index = LiveIndex(dimensions)
        served = served_by(Snapshot(index, NO_VERSION, Statistics.count(index, 0)))
        return Fresh(nothing, served, [()] * len(ASKED))
    with TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "fresh.db"
        stack = Stack(
            path,
            MemoryConnector(dict(files)),
            make_question_maker(dimensions),
            budget_factor=factor,
        )
        stack.sync()
        engine = Engine(path, FakeEncoder(dimensions), WalkSettings())
        engine.publish(snapshot := stack.writer.make_snapshot(stack.head))
        fresh = Fresh(
            graph_at(stack.connection, stack.head.id), served_by(snapshot), answers_of(engine)
        )
        stack.close()
    return fresh


def answers_of(engine: Engine) -> list[tuple[Ranked, ...]]:
    """What the engine answers to each of ASKED."""
    answers = [engine.query(question, 4, search) for question, search in ASKED]
    return [answer.ranked for answer in answers if answer]
