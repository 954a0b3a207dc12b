"""kill -9 while a source is removed: its documents are all in the newest version still, or none."""

from functools import partial
from pathlib import Path

import pytest

from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.removal import remove_source_documents
from store.sources import register_source
from tests.crash.sweep import Sweep, finish, killed_once_asked, sound, sweep
from tests.fakes.kill import Step, trace
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ROME = b"# Rome\n\nCaesar met Brutus in Rome. Nero burnt Rome.\n"
MORE = {"brutus.md": b"# Brutus\n\nBrutus told Nero of Oslo.\n", "same.md": ROME}


def remove(path: Path, step: Step, *, with_purge: bool = False) -> None:
    stack = Stack(path, MemoryConnector())
    trace(stack.connection, step)
    remove_source_documents(stack.connection, stack.writer.apply, "more", with_purge)
    step("done")
    stack.close()


@pytest.fixture(scope="module")
def removal(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("removal")
    stack = Stack(folder / "s.db", MemoryConnector({"rome.md": ROME}))
    stack.sync()
    row = register_source(stack.connection, "more", "memory", "")
    stack.path.sync(Source(row, "more", MemoryConnector(MORE)), Scope())
    stack.close()
    return sweep(folder / "s.db", remove, folder)


def test_the_next_start_erases_a_source_whose_purge_was_killed(
    removal: Sweep, folder: Path
) -> None:
    whole = sweep(removal.base, partial(remove, with_purge=True), folder)
    for path in killed_once_asked(whole, folder):
        finish(path)
        assert b"slo" not in b"".join(file.read_bytes() for file in folder.glob("killed.db*"))
        assert sound(path) == whole.after


def test_a_kill_while_a_source_is_removed_leaves_all_its_documents_or_none(
    removal: Sweep, folder: Path
) -> None:
    lefts = removal.kills(folder, range(len(removal.steps)))
    states = [removal.before, removal.after]
    assert [len(graphs[max(graphs)]["documents"]) for graphs in states] == [3, 1]
    found = [states.index(left.graphs) for left in lefts]
    assert found == sorted(found) and {*found} == {0, 1}
