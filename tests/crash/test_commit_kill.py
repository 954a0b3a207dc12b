"""kill -9 at every step of what makes a version: rows in docs/reference/crashes.md.

Every statement of the write path is a place to die, before it runs, and so is the end of each
listing and fetch, each question set, and the publishing of the version.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import pytest

from connectors.protocol import Connector, Fetched, Found, Item
from hopsyncd.ingest.upkeep import rebuild_all
from hopsyncd.models.questions import BuiltinMaker
from tests.crash.sweep import Left, Sweep, sweep
from tests.fakes.kill import Step, Work, copy_database, torn_writes
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage, WatchedEncoder
from tests.fakes.stack import Stack

NEW_PASSAGES = 3


def before() -> MemoryConnector:
    return MemoryConnector(
        {
            "edited.md": b"# Rome\n\nNero burnt Rome.\n\nRome lies on Tiber.\n",
            "renamed.md": b"# Ada\n\nAda met Babbage in London.\n",
            "deleted.md": b"# Oslo\n\nIbsen lived in Oslo. Oslo was Kristiania.\n",
            "kept.md": b"# London\n\nBabbage lived in London. Ada knew Oslo.\n",
        }
    )


def after() -> MemoryConnector:
    files = before()
    files.put("created.md", b"# Lima\n\nPizarro founded Lima.\n\nLima knew Oslo.\n")
    files.put("edited.md", b"# Rome\n\nNero burnt Rome.\n\nRome was rebuilt by Nero.\n")
    files.move("renamed.md", "to.md")
    files.remove("deleted.md")
    return files


def grown() -> MemoryConnector:
    """72 passages: a group of 64 that is stored, and the rest."""
    lines = (f"Rome{n} met Nero{n % 5}." for n in range(72))
    return MemoryConnector({"long.md": "\n\n".join(lines).encode()})


@dataclass(frozen=True, slots=True)
class SteppingConnector:
    """A connector for which each listing and each fetch is a step."""

    connector: Connector
    step: Step

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        yield from self.connector.discover(since, under)
        self.step("listed")

    def fetch(self, item: Item) -> Fetched:
        fetched = self.connector.fetch(item)
        self.step("fetched")
        return fetched

    def close(self) -> None:
        self.connector.close()


def make_question_maker(step: Step, dimensions: int = 16) -> BuiltinMaker:
    """A maker for which the texts of each passage are a step."""
    encoder = WatchedEncoder(FakeEncoder(dimensions), after=lambda _: step("made"))
    maker = BuiltinMaker(FakeLanguage(), encoder)
    maker.store_after, maker.store_every_s = 64, inf  # the same steps in each run
    return maker


def synced(
    path: Path, step: Step, files: Connector, batch_documents: int = 100, part: int = 500
) -> None:
    """A sync in which every step can be the last; somebody is awaited all the time."""
    connector = SteppingConnector(files, step)
    stack = Stack(
        path, connector, make_question_maker(step), batch_documents=batch_documents, part=part
    )
    stack.path.is_awaited = lambda: True
    stack.file.set_trace_callback(step)
    stack.path = replace(stack.path, on_version=lambda _: step("published"))
    stack.sync()
    stack.close()


def sync(path: Path, step: Step) -> None:
    synced(path, step, after())


def sync_in_batches(path: Path, step: Step) -> None:
    synced(path, step, after(), batch_documents=1)


def sync_in_parts(path: Path, step: Step) -> None:
    synced(path, step, after(), part=1)


def sync_preempted(path: Path, step: Step) -> None:
    """A file is edited again, and its hint served, when the long sync has read it."""
    files = after()
    stack = Stack(path, SteppingConnector(files, step), make_question_maker(step))
    stack.file.set_trace_callback(step)
    stack.path = replace(stack.path, on_version=lambda _: step("published"))

    def edit() -> None:
        stack.path.yield_to_edits = lambda: None
        files.put("edited.md", b"# Rome\n\nNero burnt Rome.\n\nTrajan rebuilt Rome.\n")

    def yield_to_edits() -> None:
        if {*files.fetched} == {"created.md", "edited.md"}:
            edit()
            stack.preempt("edited.md")

    stack.path.yield_to_edits = yield_to_edits
    if stack.head.id > 1:
        edit()  # the life before came that far
    stack.sync()
    stack.close()


def sync_grown(path: Path, step: Step) -> None:
    synced(path, step, grown())


def restore(path: Path, step: Step) -> None:
    stack = Stack(path, MemoryConnector())
    stack.file.set_trace_callback(step)
    stack.restore(1)
    step("done")
    stack.close()


def rebuild(path: Path, step: Step) -> None:
    stack = Stack(path, MemoryConnector())
    stack.file.set_trace_callback(step)
    if stack.head.id == 2:
        rebuild_all(stack.path)
    step("done")
    stack.close()


def change_models(path: Path, step: Step) -> None:
    stack = Stack(path, MemoryConnector(), make_question_maker(step, dimensions=8))
    stack.file.set_trace_callback(step)
    stack.writer.renew()
    step("done")
    stack.close()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "s.db"
    stack = Stack(path, before())
    stack.sync()
    stack.close()
    return path


@pytest.fixture(scope="module")
def lived(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a second version."""
    path = copy_database(base, tmp_path_factory.mktemp("lived") / "s.db")
    stack = Stack(path, after())
    stack.sync()
    stack.close()
    return path


@dataclass(frozen=True, slots=True)
class Phases:
    """The steps of a sync, cut where the rows of the table are."""

    sweep: Sweep
    begin: int  # the statement that begins the version's transaction
    commit: int  # and the one that ends it
    prepared: int  # the first step after all content is stored

    @property
    def made(self) -> int:
        return self.sweep.find("made")


@pytest.fixture(scope="module")
def sync_(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Phases:
    swept = sweep(base, sync, tmp_path_factory.mktemp("sync"))
    version = swept.find("INSERT INTO version")
    begin = swept.find_last("BEGIN", version)
    stored = swept.find("COMMIT", swept.find("made"))
    # Statements of SQLite itself, inside others, begin with a dash.
    prepared = next(n for n in range(stored + 1, begin) if swept.steps[n][0] != "-")
    return Phases(swept, begin, swept.find("COMMIT", version), prepared)


def ends(lefts: list[Left]) -> set[tuple[int, int]]:
    """The version that is served after the kill, and for how many passages questions are asked."""
    return {(left.head, left.asked) for left in lefts}


def test_a_kill_before_questions_are_made_leaves_nothing(sync_: Phases, folder: Path) -> None:
    lefts = sync_.sweep.kills(folder, range(sync_.made))
    assert {"listed", "fetched"} < {*sync_.sweep.steps[: sync_.made]}
    assert ends(lefts) == {(1, NEW_PASSAGES)}


def test_a_kill_while_content_is_stored_leaves_none_of_its_group(
    sync_: Phases, folder: Path
) -> None:
    lefts = sync_.sweep.kills(folder, range(sync_.made, sync_.prepared))
    assert ends(lefts) == {(1, NEW_PASSAGES)}


def test_a_kill_while_questions_are_made_costs_one_group_at_most(base: Path, folder: Path) -> None:
    swept = sweep(base, sync_grown, folder)
    made = [number for number, name in enumerate(swept.steps) if name == "made"]
    assert len(made) == 72
    lefts = swept.kills(folder, [made[0], made[63], made[64], made[71]])
    assert [left.asked for left in lefts] == [72, 72, 8, 8]


def test_a_kill_before_the_transaction_leaves_the_old_version_and_all_content(
    sync_: Phases, folder: Path
) -> None:
    lefts = sync_.sweep.kills(folder, range(sync_.prepared, sync_.begin + 1))
    assert ends(lefts) == {(1, 0)}


def test_a_kill_in_the_transaction_leaves_the_old_version_and_all_content(
    sync_: Phases, folder: Path
) -> None:
    lefts = sync_.sweep.kills(folder, range(sync_.begin + 1, sync_.commit + 1))
    assert ends(lefts) == {(1, 0)}


def test_a_kill_during_the_commit_leaves_the_old_version_or_the_new(
    sync_: Phases, folder: Path
) -> None:
    path = copy_database(sync_.sweep.base, folder / "torn.db")
    heads = []
    for _ in torn_writes(sync, path, (sync_.commit, sync_.commit + 1), 100):
        left = sync_.sweep.judge(path)
        assert left.asked == 0
        heads.append(left.head)
    assert heads == sorted(heads) and {*heads} == {1, 2}


def test_a_kill_after_the_commit_leaves_the_new_version(sync_: Phases, folder: Path) -> None:
    lefts = sync_.sweep.kills(folder, range(sync_.commit + 1, len(sync_.sweep.steps)))
    assert "published" in sync_.sweep.steps[sync_.commit :]
    assert ends(lefts) == {(2, 0)}


@pytest.mark.parametrize("work", [sync_in_batches, sync_in_parts])
def test_a_kill_between_two_batches_or_parts_leaves_the_committed_ones(
    work: Work, base: Path, folder: Path
) -> None:
    swept = sweep(base, work, folder)
    published = [number for number, name in enumerate(swept.steps) if name == "published"]
    lefts = swept.kills(folder, published)
    assert [left.head for left in lefts] == [2, 3, 4]
    assert all(left.graphs.items() <= swept.after.items() for left in lefts)
    assert [left.next_steps.count("published") for left in lefts] == [2, 1, 0]


def test_a_kill_while_an_edit_preempts_a_batch_leaves_it_whole_or_not_at_all(
    base: Path, folder: Path
) -> None:
    swept = sweep(base, sync_preempted, folder)
    assert swept.steps.count("published") == 2
    lefts = swept.kills(folder, range(len(swept.steps)))
    assert all(left.graphs.items() <= swept.after.items() for left in lefts)
    assert {left.head for left in lefts} == {1, 2, 3}


@pytest.mark.parametrize("work", [restore, rebuild])
def test_a_kill_while_restoring_or_rebuilding_leaves_the_old_version_or_the_new(
    work: Work, lived: Path, folder: Path
) -> None:
    swept = sweep(lived, work, folder)
    lefts = swept.kills(folder, range(len(swept.steps)))
    assert all(left.graphs in (swept.before, swept.after) for left in lefts)
    assert ends(lefts) == {(2, 0), (3, 0)}


def test_a_kill_while_models_change_leaves_the_old_version_or_the_new(
    lived: Path, folder: Path
) -> None:
    swept = sweep(lived, change_models, folder)
    passages = swept.steps.count("made")
    lefts = swept.kills(folder, range(len(swept.steps)))
    assert all(left.graphs in (swept.before, swept.after) for left in lefts)
    assert ends(lefts) == {(2, passages), (2, 0), (3, 0)}
