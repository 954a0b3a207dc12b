"""kill -9 while gc works: every kept version reads as before, and the next gc finishes the job."""

from pathlib import Path

import pytest

from store.engines.sqlite.database import open_writer
from store.gc import Retention, collect, plan_gc
from store.history import set_tag
from tests.crash.sweep import Sweep, sweep
from tests.fakes.kill import Step, copy_database, torn_writes, trace
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
    assert (
        left.documents,
        left.passage_intervals,
        left.matches,
        left.passages,
        left.question_sets,
    ) == (0,) * 5
    assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    connection.close()


def text(words: int, number: int) -> bytes:
    """One passage, as large as one likes, of few terms."""
    return f"Nero{number} met Ada of Rome{number}: {'and again ' * words}.".encode()


def swept(folder: Path, kept_words: int) -> Sweep:
    """gc of a page that is edited, beside one of so many words that stays."""
    files = MemoryConnector({"kept.md": text(kept_words, 0)})
    stack = Stack(folder / "s.db", files, passage_tokens=100_000)
    for number in range(1, VERSIONS + 1):
        files.put("edited.md", text(1000, number))
        stack.sync()
    set_tag(stack.connection, "mine", TAGGED, 0)
    stack.close()
    return sweep(folder / "s.db", gc, folder)


@pytest.mark.parametrize(
    ("kept_words", "ends_with"),
    [(10, "VACUUM"), (40_000, "PRAGMA incremental_vacuum")],
    ids=["much is deleted", "little is deleted"],
)
def test_a_kill_while_gc_works_leaves_the_kept_versions_as_they_were(
    kept_words: int, ends_with: str, tmp_path: Path, folder: Path
) -> None:
    gc_ = swept(tmp_path, kept_words)
    assert gc_.find(ends_with)
    assert gc_.after.keys() == KEPT
    assert all(gc_.before[number] == gc_.after[number] for number in KEPT)
    lefts = gc_.kills(folder, gc_.places(vacuuming=30))
    assert all(left.graphs in (gc_.before, gc_.after) for left in lefts)


def test_a_kill_during_the_writes_of_a_vacuum_leaves_the_same_rows(
    tmp_path: Path, folder: Path
) -> None:
    gc_ = swept(tmp_path, kept_words=10)
    path = copy_database(gc_.base, folder / "torn.db")
    vacuum = gc_.find("VACUUM")
    end = gc_.find("PRAGMA busy_timeout", vacuum)
    for _ in torn_writes(gc, path, (vacuum, end), 24):
        assert gc_.judge(path).graphs == gc_.after
    checkpoint = gc_.find("PRAGMA wal_checkpoint")
    copy_database(gc_.base, path)
    for _ in torn_writes(gc, path, (checkpoint, checkpoint + 1), 12, ending=""):
        assert gc_.judge(path).graphs == gc_.after
