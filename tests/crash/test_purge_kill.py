"""kill -9 while a document is purged: all its versions have it still, or none has.

Whatever was left, the purge that is run again, or that the next start goes on with, comes to its
end, and then no word of the document is in any file.
"""

from pathlib import Path

import pytest

from hopsyncd.ingest.upkeep import purge_document
from store.history import set_tag
from tests.crash.sweep import Graphs, Sweep, finish, killed_once_asked, sound, sweep
from tests.fakes.kill import Step, copy_database, torn_writes, trace
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack
from tests.fakes.unused_bytes import fill_gaps

NOW_MS = 10_000_000_000
# Words that stand nowhere else.
WORDS = HEADING, TEXT, EDIT = "Zqheading", "Xqtext", "Wqedit"
PLANTED = "Vqgap."  # where SQLite leaves copies of rows, now and then
SECRET = f"# {HEADING}\n\nCaesar told Brutus of {TEXT}.\n"
OTHER = "# Rome\n\nCaesar met Brutus in Rome. Nero burnt Rome.\n"


def purge(path: Path, step: Step) -> None:
    stack = Stack(path, MemoryConnector())
    trace(stack.connection, step)
    assert purge_document(stack.path, "secret.md", None, NOW_MS)["erased"]
    step("done")
    assert remains(path) == []
    stack.close()
    assert remains(path) == []


def remains(path: Path) -> list[str]:
    """The words of the document, or most of each, that the database's files have in any case."""
    files = [file.read_bytes().lower() for file in path.parent.glob(path.name + "*")]
    return [
        word
        for word in (*WORDS, PLANTED)
        if any(word.lower()[1:-1].encode() in file for file in files)
    ]


@pytest.fixture(scope="module")
def purge_(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The document is written, tagged and edited; then another is edited."""
    folder = tmp_path_factory.mktemp("purge")
    files = MemoryConnector({"secret.md": SECRET.encode(), "other.md": OTHER.encode()})
    stack = Stack(folder / "s.db", files)
    stack.sync()
    set_tag(stack.connection, "mine", 1, 0)
    files.put("secret.md", f"{SECRET}\nBrutus told Nero of {EDIT}.\n".encode())
    stack.sync()
    files.put("other.md", f"{OTHER}\nNero met Brutus.\n".encode())
    stack.sync()
    stack.close()
    assert remains(folder / "s.db") == [*WORDS]
    fill_gaps(folder / "s.db", PLANTED.encode())
    return sweep(folder / "s.db", purge, folder)


def has_it(graphs: Graphs) -> list[int]:
    """The versions that have the document."""
    return [
        number
        for number, rows in graphs.items()
        if any(path == "secret.md" for _, path, *_ in rows["documents"])
    ]


def test_a_kill_while_a_document_is_purged_leaves_it_in_all_its_versions_or_none(
    purge_: Sweep, folder: Path
) -> None:
    lefts = purge_.kills(folder, purge_.places(vacuuming=30))
    # Before the version without it, after that, and after the purge.
    old, taken_out = purge_.before, {**purge_.before, 4: purge_.after[4]}
    assert [has_it(graphs) for graphs in (old, taken_out, purge_.after)] == [[1, 2, 3]] * 2 + [[]]
    states = [old, taken_out, purge_.after]
    found = [states.index(left.graphs) for left in lefts]
    assert found == sorted(found) and {*found} == {0, 1, 2}


def test_the_next_start_finishes_a_killed_purge_by_itself(purge_: Sweep, folder: Path) -> None:
    for path in killed_once_asked(purge_, folder):
        finish(path)
        assert remains(path) == []
        assert sound(path) == purge_.after


def test_a_kill_during_the_writes_of_a_scrub_leaves_the_same_rows(
    purge_: Sweep, folder: Path
) -> None:
    path = copy_database(purge_.base, folder / "torn.db")
    end = purge_.find("ROLLBACK")
    for _ in torn_writes(purge, path, (end - 1, end), 24, ending=""):
        assert purge_.judge(path).graphs == purge_.after
