"""kill -9 while gc works: every kept version reads as before, and the next gc finishes the job."""

from pathlib import Path

import pytest

from store.sqlite.database import open_writer
from store.sqlite.gc import Retention, collect, plan_gc
from store.sqlite.history import set_tag
from tests.crash.sweep import sweep
from tests.fakes.kill import Step, trace
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

VERSIONS, TAGGED = 5, 2
KEPT = {TAGGED, VERSIONS}
NOW_MS = 10_000_000_000
KEEP = Retention(keep_versions=1, keep_days=0)


def gc(path: Path, step: Step) -> None:
    connection = open_writer(path)
    trace(connection, step)
    collect(connection, KEEP, NOW_MS)
    step("done")
    left = plan_gc(connection, KEEP, NOW_MS)
    assert (left.documents, left.lives, left.matches, left.passages, left.question_sets) == (0,) * 5
    assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    connection.close()


def text(words: int, number: int) -> bytes:
    """One passage, as large as one likes, of few terms."""
    return f"Nero{number} met Ada of Rome{number}: {'and again ' * words}.".encode()


@pytest.mark.parametrize(
    ("kept_words", "ends_with"),
    [(10, "VACUUM"), (40_000, "PRAGMA incremental_vacuum")],
    ids=["much is deleted", "little is deleted"],
)
def test_a_kill_while_gc_works_leaves_the_kept_versions_as_they_were(
    kept_words: int, ends_with: str, tmp_path: Path, folder: Path
) -> None:
    files = MemoryConnector({"kept.md": text(kept_words, 0)})
    stack = Stack(tmp_path / "s.db", files, passage_tokens=100_000)
    for number in range(1, VERSIONS + 1):
        files.put("edited.md", text(1000, number))
        stack.sync()
    set_tag(stack.connection, "mine", TAGGED, 0)
    stack.close()
    swept = sweep(tmp_path / "s.db", gc, tmp_path)
    assert swept.find(ends_with)
    assert swept.after.keys() == KEPT
    assert all(swept.before[number] == swept.after[number] for number in KEPT)
    lefts = swept.kills(folder, swept.places(vacuuming=30))
    assert all(left.graphs in (swept.before, swept.after) for left in lefts)
