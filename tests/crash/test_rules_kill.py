"""kill -9 while two sources are read afresh under other rules, one after the other."""

from dataclasses import replace
from pathlib import Path

import pytest

from hopsyncd.ingest.plan import Scope, Source
from store.sources import register_source
from tests.crash.sweep import Sweep, sound, sweep
from tests.fakes.kill import Step, trace
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ROME = {"rome.md": b"Rome lies on the Tiber in Italy.\n\nNero met Brutus in Rome one day.\n"}
OSLO = {"oslo.md": b"Oslo lies on a fjord in Norway.\n\nIbsen left Oslo for Rome one day.\n"}
FINE, COARSE = 12, 50  # tokens of a passage


def synced(path: Path, passage_tokens: int, step: Step) -> None:
    stack = Stack(path, MemoryConnector(ROME), passage_tokens=passage_tokens)
    trace(stack.connection, step)
    stack.path = replace(stack.path, on_version=lambda _: step("published"))
    row = register_source(stack.connection, "more", "memory", "")
    stack.sync()
    stack.path.sync(Source(row, "more", MemoryConnector(OSLO)), Scope())
    step("done")
    stack.close()


def read_afresh(path: Path, step: Step) -> None:
    synced(path, COARSE, step)


@pytest.fixture(scope="module")
def afresh(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("rules")
    synced(folder / "s.db", FINE, lambda _: None)
    return sweep(folder / "s.db", read_afresh, folder)


def test_a_kill_between_two_sources_that_are_read_afresh_leaves_the_other_to_the_next_start(
    afresh: Sweep, folder: Path
) -> None:
    synced(folder / "fresh.db", COARSE, lambda _: None)
    assert afresh.after[4] == sound(folder / "fresh.db")[2]
    lefts = afresh.kills(folder, range(len(afresh.steps)))
    assert [left.head for left in lefts] == sorted(left.head for left in lefts)
    again = {left.head: left.next_steps.count("published") for left in lefts}
    assert again == {2: 2, 3: 1, 4: 0}
