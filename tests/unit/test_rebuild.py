"""Rebuilding: all that is derived made anew, in one version, without a question."""

from pathlib import Path

import pytest

from hopsyncd.ingest.upkeep import switch_encoder, verify_matches
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.questions import BuiltinMaker
from store.check import check
from store.content import get_generation, read_counters
from store.engines.sqlite.database import SqliteError, open_reader
from store.records import Version
from tests.fakes.dump import graph_at
from tests.fakes.lived import lived, page
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return lived(tmp_path / "s.db")


def test_a_sound_graph_is_made_equal_and_keeps_its_rows(stack: Stack) -> None:
    rows = "SELECT * FROM match ORDER BY question, born"
    before, spent = stack.connection.execute(rows).fetchall(), read_counters(stack.connection)
    made = stack.writer.rebuild()
    assert made is not None and made.id == 7
    assert graph_at(stack.connection, 7) == graph_at(stack.connection, 6)
    assert stack.connection.execute(rows).fetchall() == before
    assert read_counters(stack.connection) == spent
    assert set(made.counters.values()) == {0}
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM match WHERE died > 100",
        "UPDATE match SET similarity = similarity / 2 WHERE died > 100",
        "UPDATE version SET cut_question = 1 WHERE id = 6",
        "UPDATE version SET words = 1, passages = 1, documents = 1 WHERE id = 6",
        "UPDATE passage SET words = 0",
    ],
)
def test_a_rebuild_repairs_derived_rows_at_the_head(stack: Stack, damage: str) -> None:
    sound = graph_at(stack.connection, 6)
    stack.connection.execute(damage)
    assert check(stack.connection, deep=True) + verify_matches(stack.connection)
    made = stack.writer.rebuild()
    assert made is not None
    assert graph_at(stack.connection, made.id) == sound
    found = check(stack.connection, deep=True) + verify_matches(stack.connection)
    assert not [finding for finding in found if "rebuild" in finding.hint], found


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


def test_syncs_continue_after_a_rebuild(stack: Stack) -> None:
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    stack.writer.rebuild()
    files.put("rome.md", page("Rome", "Sofia"))
    stack.sync()
    assert stack.head.id == 8
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []


def test_a_rebuild_of_an_empty_store_makes_no_version(tmp_path: Path) -> None:
    assert Stack(tmp_path / "s.db", MemoryConnector()).writer.rebuild() is None


def wider_writer(stack: Stack) -> VersionWriter:
    maker = BuiltinMaker(FakeLanguage(), FakeEncoder(24))
    rules = stack.writer.rules
    return VersionWriter(
        stack.connection, maker, rules=rules, budget_factor=1.0, now_ms=lambda: 2_000_000
    )


def test_a_switch_of_encoder_makes_new_vectors_beside_the_old_ones_and_one_version(
    stack: Stack, tmp_path: Path
) -> None:
    before, writer = graph_at(stack.connection, 6), wider_writer(stack)
    assert (version_and_answer := switch_encoder(stack.path, writer, True))[0] is None
    assert version_and_answer[1]["passages"] == stack.head.passages
    assert version_and_answer[1]["version"] == stack.head.id == 6
    seen: list[int] = []
    stack.path.yield_to_edits = lambda: seen.append(stack.head.id)
    made, answer = switch_encoder(stack.path, writer, False)
    assert made is not None and answer["version"] == made.id == stack.head.id == 7
    assert set(seen) == {6} and len(seen) >= answer["passages"]
    assert get_generation(stack.connection, made.generation).encoder == FakeEncoder(24).name
    assert graph_at(stack.connection, 6) == before
    assert check(stack.connection, deep=True) + verify_matches(stack.connection) == []

    versions: list[Version] = []
    stack.path.use_writer(writer, versions.append)
    assert isinstance(stack.connector, MemoryConnector)
    stack.connector.put("new.md", page("Later", "Anna Holm met Peter Ravn in Oslo."))
    stack.sync()
    assert [version.generation for version in versions] == [made.generation]
    incremental = graph_at(stack.connection, stack.head.id)
    rebuilt = writer.rebuild()
    assert rebuilt is not None
    assert graph_at(stack.connection, rebuilt.id) == incremental


def test_an_abandoned_switch_of_encoder_leaves_the_version_and_can_be_made_later(
    stack: Stack,
) -> None:
    def abandon() -> None:
        raise InterruptedError

    stack.path.yield_to_edits = abandon
    with pytest.raises(InterruptedError):
        switch_encoder(stack.path, wider_writer(stack), False)
    assert stack.head.id == 6
    stack.path.yield_to_edits = lambda: None
    made, _ = switch_encoder(stack.path, wider_writer(stack), False)
    assert made is not None and made.id == 7
