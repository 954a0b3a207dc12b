"""kill -9 while documents are read again under other rules: of two sources, and with an edit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hopsyncd.ingest.plan import Scope, Source
from store.sources import register_source
from tests.crash.sweep import sound, sweep
from tests.fakes.kill import Step, trace
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ROME = {"rome.md": b"Rome lies on the Tiber in Italy.\n\nNero met Brutus in Rome one day.\n"}
OSLO = {"oslo.md": b"Oslo lies on a fjord in Norway.\n\nIbsen left Oslo for Rome one day.\n"}
EDITED = b"Rome lies on the Tiber in Latium.\n\nNero met Seneca in Rome one day.\n"
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


def judge_two_sources(folder: Path) -> None:
    synced(folder / "s.db", FINE, lambda _: None)
    synced(folder / "fresh.db", COARSE, lambda _: None)
    swept = sweep(folder / "s.db", read_afresh, folder)
    assert swept.after[4] == sound(folder / "fresh.db")[2]
    lefts = swept.kills(folder, range(len(swept.steps)))
    assert [left.head for left in lefts] == sorted(left.head for left in lefts)
    again = {left.head: left.next_steps.count("published") for left in lefts}
    assert again == {2: 2, 3: 1, 4: 0}


def read_again_preempted(path: Path, step: Step) -> None:
    """A file is edited, and its event served, when another file was read again."""
    files = MemoryConnector(OSLO | ROME)
    stack = Stack(path, files, passage_tokens=COARSE, batch_documents=1)
    trace(stack.connection, step)
    stack.path = replace(stack.path, on_version=lambda _: step("published"))

    def yield_to_edits() -> None:
        if stack.head.id == 2 and files.files["rome.md"] != EDITED:
            files.put("rome.md", EDITED)
            stack.preempt("rome.md")

    stack.path.yield_to_edits = yield_to_edits
    if stack.head.id > 2:
        files.put("rome.md", EDITED)  # the life before came that far
    stack.sync()
    step("done")
    stack.close()


def judge_an_edit(folder: Path) -> None:
    before = Stack(folder / "s.db", MemoryConnector(OSLO | ROME), passage_tokens=FINE)
    before.sync()
    before.close()
    fresh = Stack(
        folder / "fresh.db", MemoryConnector({**OSLO, "rome.md": EDITED}), passage_tokens=COARSE
    )
    fresh.sync()
    fresh.close()
    swept = sweep(folder / "s.db", read_again_preempted, folder)
    assert swept.after[3] == sound(folder / "fresh.db")[1]
    lefts = swept.kills(folder, range(len(swept.steps)))
    assert all(left.graphs.items() <= swept.after.items() for left in lefts)
    assert {left.head: left.next_steps.count("published") for left in lefts} == {1: 2, 2: 1, 3: 0}


@pytest.mark.parametrize("judge", [judge_two_sources, judge_an_edit])
def test_a_kill_while_documents_are_read_again_leaves_each_as_before_or_as_after(
    judge: Callable[[Path], None], folder: Path
) -> None:
    judge(folder)
