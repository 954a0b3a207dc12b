"""kill -9 while a database is migrated from the first schema, or made: it is old or new, and whole.

Every statement that the program has SQLite execute is a place to die, before it runs.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from store.check import check
from store.contract import Connection
from store.engines.sqlite.database import (
    APPLICATION_ID,
    FileConnection,
    open_file,
    open_writer,
    read_objects,
)
from store.engines.sqlite.extension import load_extension
from store.engines.sqlite.migrations import SCHEMA_VERSION, apply_migrations
from tests.crash.sweep import sound, state_of
from tests.fakes.kill import Step, copies_at, copy_database, kill_at, steps_of, torn_writes
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

TABLES = (
    "source seen source_state recipe counter passage question_set question document placement life"
    " match version"
).split()
VERSIONS = 2
PARTS = 100  # of a log, to be torn at
Rows = dict[str, list[tuple[object, ...]]]


@contextmanager
def stepping(step: Step) -> Iterator[None]:
    """Each call of SQLite's execute is a step."""

    def profile(_: object, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "").startswith("execute"):
            step("execute")

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def migrate(path: Path, step: Step) -> None:
    with stepping(step):
        connection = open_writer(path)
    step("done")
    connection.close()


def make(path: Path, step: Step) -> None:
    with stepping(step):
        stack = Stack(path, MemoryConnector())
    step("done")
    stack.close()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the first schema: what a present one has, so far as that schema knows it."""
    path = tmp_path_factory.mktemp("first") / "s.db"
    present = path.with_name("present.db")
    files = MemoryConnector(
        {
            "edited.md": b"# Rome\n\nNero burnt Rome. Rome lies on Tiber.\n",
            "kept.md": b"# Oslo\n\nIbsen left Oslo for Rome.\n",
        }
    )
    stack = Stack(present, files)
    stack.sync()
    files.put("edited.md", b"# Rome\n\nNero burnt Rome. Ibsen saw Rome.\n")
    stack.sync()
    stack.close()
    path.touch()
    with closing(open_file(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        apply_migrations(connection, stop_before="002_history")
        connection.execute("ATTACH ? AS present", [str(present)])
        for table in TABLES:
            columns = ", ".join(columns_of(connection, table))
            connection.execute(
                f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM present.{table}"
            )
        derive(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
    return path


def columns_of(connection: Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]


def derive(connection: FileConnection) -> None:
    """The full text that this schema had, and vectors."""
    connection.execute(
        "INSERT INTO passage_text (rowid, body) SELECT id, heading || text FROM main.passage"
    )
    load_extension(connection)
    for generation, dimensions in connection.execute("SELECT id, dimensions FROM main.recipe"):
        connection.execute(
            f"CREATE VIRTUAL TABLE passage_vector_{generation} USING vec0"
            f" (life INTEGER PRIMARY KEY, embedding float[{dimensions}] distance_metric=cosine,"
            " born INTEGER, died INTEGER, +passage INTEGER)"
        )
        connection.execute(
            f"INSERT INTO passage_vector_{generation} (life, embedding, born, died, passage)"
            " SELECT id, zeroblob(?), born, died, passage FROM main.life",
            [4 * dimensions],
        )


def rows_of(connection: Connection, columns: dict[str, list[str]]) -> Rows:
    return {
        table: sorted(connection.execute(f"SELECT {', '.join(names)} FROM {table}"), key=repr)
        for table, names in columns.items()
    }


def test_the_first_schema_is_that_of_its_file(first: Path) -> None:
    with closing(open_file(first)) as connection:
        assert not {"tag", "pin", "unused", "excluded"} & read_objects(connection).keys()
        assert "digest" not in columns_of(connection, "document")
        assert connection.execute("SELECT count(*) FROM version").fetchone() == (VERSIONS,)


class Judge:
    """Knows the rows that the first schema had, and judges what kills leave of them."""

    def __init__(self, first: Path) -> None:
        with closing(open_file(first)) as connection:
            self._columns = {table: columns_of(connection, table) for table in TABLES}
            self._rows = rows_of(connection, self._columns)
            self._objects = read_objects(connection)
        self._judged: dict[bytes, int] = {}

    def schema_left(self, path: Path) -> int:
        """The number of the schema that is left, whole; the next start makes it the present one.

        A state that was judged already is opened, and not judged again.
        """
        state = state_of(path)
        if state in self._judged:
            open_writer(path).close()
            return self._judged[state]
        with closing(open_file(copy_database(path, path.with_name("copy.db")))) as connection:
            number = int(connection.execute("PRAGMA user_version").fetchone()[0])
            assert rows_of(connection, self._columns) == self._rows
            if number == SCHEMA_VERSION:
                assert check(connection, deep=True) == []
            else:
                assert read_objects(connection) == self._objects
        assert len(sound(path)) == VERSIONS
        with closing(open_file(path)) as connection:
            assert rows_of(connection, self._columns) == self._rows
        self._judged[state] = number
        return number


def test_a_kill_while_the_schema_changes_leaves_the_old_or_the_new(
    first: Path, folder: Path
) -> None:
    path, judge = folder / "s.db", Judge(first)
    steps = range(len(steps_of(migrate, copy_database(first, path))))
    copies = copies_at(steps, migrate, copy_database(first, path), folder)
    judged = {copy: judge.schema_left(copy) for copy in dict.fromkeys(copies)}
    left = [judged[copy] for copy in copies]
    kill_at(steps[-1], migrate, copy_database(first, path))
    assert judge.schema_left(path) == left[-1]
    assert left == sorted(left) and {*left} == {1, SCHEMA_VERSION}


def test_a_kill_during_the_commit_of_a_schema_leaves_the_old_or_the_new(
    first: Path, folder: Path
) -> None:
    path, judge = folder / "s.db", Judge(first)
    commit = len(steps_of(migrate, copy_database(first, path)))
    left = [SCHEMA_VERSION]
    while left == [SCHEMA_VERSION]:  # what follows the commit only reads
        commit -= 1
        kill_at(commit, migrate, copy_database(first, path))
        left = [judge.schema_left(path)]
    copy_database(first, path)
    between = commit, commit + 1
    left = [judge.schema_left(path) for _ in torn_writes(migrate, path, between, PARTS)]
    assert left == sorted(left) and {*left} == {1, SCHEMA_VERSION}


def test_a_kill_while_the_database_is_made_leaves_what_the_next_start_completes(
    folder: Path,
) -> None:
    nothing, path = folder / "nothing.db", folder / "s.db"
    steps = range(len(steps_of(make, path)))
    copies = copies_at(steps, make, copy_database(nothing, path), folder)
    for copy in dict.fromkeys(copies):
        make(copy, lambda _: None)
        assert sound(copy) == {}
