"""Rebuilding: all that is derived made anew, in one version, without a question."""

from pathlib import Path

import pytest

from hopsyncd.ingest.upkeep import verify_matches
from store.sqlite.check import check
from store.sqlite.content import counters
from store.sqlite.database import SqliteError, open_reader
from tests.fakes.dump import graph_at
from tests.fakes.lived import lived, page
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return lived(tmp_path / "s.db")


def test_a_sound_graph_is_made_equal_and_keeps_its_rows(stack: Stack) -> None:
    rows = "SELECT * FROM match ORDER BY question, born"
    before, spent = stack.connection.execute(rows).fetchall(), counters(stack.connection)
    made = stack.writer.rebuild()
    assert made is not None and made.id == 7
    assert graph_at(stack.connection, 7) == graph_at(stack.connection, 6)
    assert stack.connection.execute(rows).fetchall() == before
    assert counters(stack.connection) == spent
    assert set(made.counters.values()) == {0}
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM match WHERE died > 100",
        "UPDATE match SET similarity = similarity / 2 WHERE died > 100",
        "UPDATE version SET cut_question = 1 WHERE id = 6",
        "UPDATE version SET words = 1, passages = 1, documents = 1 WHERE id = 6",
        "DELETE FROM passage_text",
        "INSERT INTO passage_text (rowid, body) VALUES (7, 'stale')",
        "UPDATE passage_text_data SET block = zeroblob(length(block)) WHERE id > 10",
        "DELETE FROM passage_vector_1",
        "DROP TABLE passage_vector_1",
        "UPDATE passage_vector_1 SET embedding = zeroblob(64)",
        "UPDATE passage SET words = 0",
    ],
)
def test_what_is_derived_is_repaired_at_the_head(stack: Stack, damage: str) -> None:
    sound = graph_at(stack.connection, 6)
    stack.connection.execute(damage)
    assert check(stack.connection, deep=True) + verify_matches(stack.connection)
    made = stack.writer.rebuild()
    assert made is not None
    assert graph_at(stack.connection, made.id) == sound
    found = check(stack.connection, deep=True) + verify_matches(stack.connection)
    assert not [one for one in found if "rebuild" in one.hint], found


def test_the_old_version_is_served_until_the_new_one_is_whole(stack: Stack, tmp_path: Path) -> None:
    reader = open_reader(tmp_path / "s.db")
    reader.execute("BEGIN")
    sound = graph_at(reader, 6)
    stack.writer.rebuild()
    assert graph_at(reader, 6) == sound
    reader.execute("COMMIT")
    assert graph_at(reader, 7) == sound


def test_a_rebuild_that_fails_changes_nothing(stack: Stack) -> None:
    stack.connection.execute(
        "CREATE TEMP TRIGGER no BEFORE INSERT ON version BEGIN SELECT raise(ABORT, 'no'); END"
    )
    with pytest.raises(SqliteError, match="no"):
        stack.writer.rebuild()
    stack.connection.execute("DROP TRIGGER no")
    assert stack.head.id == 6
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []


def test_syncs_go_on_from_it(stack: Stack) -> None:
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    stack.writer.rebuild()
    files.put("rome.md", page("Rome", "Sofia"))
    stack.sync()
    assert stack.head.id == 8
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []


def test_a_store_without_a_version_stays_so(tmp_path: Path) -> None:
    assert Stack(tmp_path / "s.db", MemoryConnector()).writer.rebuild() is None
