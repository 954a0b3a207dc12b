"""A kill between a commit and the note of it, which must be written before anyone is told."""

from contextlib import closing
from pathlib import Path

from store.engines.sqlite.acknowledged import read_acknowledged, read_state
from store.engines.sqlite.database import open_writer
from store.history import set_tag
from tests.fakes.kill import Step, copy_database, kill_at, steps_of, trace
from tests.fakes.lived import lived


def tag(path: Path, step: Step) -> None:
    connection = open_writer(path)
    trace(connection, step)
    set_tag(connection, "release", 6, 0)
    step("told")


def test_a_kill_between_a_commit_and_its_note_keeps_the_commit(folder: Path) -> None:
    base, path = folder / "base.db", folder / "killed.db"
    lived(base).close()
    steps = steps_of(tag, copy_database(base, path))
    committed, told = steps.index("COMMIT"), steps.index("told")
    assert told > committed + 1
    for number in range(steps.index("BEGIN IMMEDIATE"), told + 1):
        copy_database(base, path)
        kill_at(number, tag, path)
        before = read_acknowledged(path)
        with closing(open_writer(path)) as connection:
            tags = connection.execute("SELECT count(*) FROM tag").fetchone()[0]
            assert tags == (number > committed)
            assert read_acknowledged(path) == read_state(connection), (
                "what is served is noted first"
            )
        assert (before == read_acknowledged(path)) == (number <= committed or number == told)
