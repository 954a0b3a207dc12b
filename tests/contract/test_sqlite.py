"""The SQLite connector on real databases that other connections, and processes, write to."""

import multiprocessing
import os
import resource
import sqlite3 as sqlite
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors import sqlite_rows
from connectors.protocol import Item, ItemUnreadable, ItemVanished, Problem, SourceUnavailable
from connectors.sqlite_rows import Database as DatabaseFile
from connectors.sqlite_rows import SqliteConnector, SqliteSettings
from tests.fakes.stack import Stack


class Database:
    """A database in WAL mode with a table of pages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = sqlite.connect(path, isolation_level=None)
        self.writer.execute("PRAGMA journal_mode = WAL")
        self.writer.execute(
            "CREATE TABLE page (id INTEGER PRIMARY KEY, title TEXT, body TEXT, more TEXT,"
            " changed INTEGER NOT NULL DEFAULT 0)"
        )

    def put(self, id_: int, body: str | bytes | None, title: str = "", changed: int = 0) -> None:
        self.writer.execute(
            "INSERT OR REPLACE INTO page VALUES (?, ?, ?, NULL, ?)", [id_, title, body, changed]
        )

    def connector(self, **settings: Any) -> SqliteConnector:
        rows = {"table": "page"} if "query" not in settings else {}
        usual: dict[str, Any] = {"key": "id", "text": ("body",), "max_bytes": 1000}
        given = usual | rows | settings
        return SqliteConnector(SqliteSettings(self.path, **given), busy_s=0.2)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "app.db")
    yield made
    made.writer.close()


def listed(connector: SqliteConnector) -> dict[str, Item | Problem]:
    return {found.id: found for found in connector.discover(None)}


def item(connector: SqliteConnector, id_: str) -> Item:
    found = listed(connector)[id_]
    assert isinstance(found, Item)
    return found


def text_of(connector: SqliteConnector, id_: str) -> str:
    found = item(connector, id_)
    fetched = connector.fetch(found)
    assert fetched.revision == found.revision
    return fetched.data.decode()


def test_columns_stand_one_below_the_other(database: Database) -> None:
    database.writer.execute("INSERT INTO page VALUES (7, 'Rome', 'It is old.', 'It is big.', 0)")
    database.put(8, "Oslo is small.")
    connector = database.connector(text=("body", "more"), title="title")
    assert text_of(connector, "7") == "It is old.\n\nIt is big."
    assert text_of(connector, "8") == "Oslo is small."
    titles = [connector.fetch(Item(id_, "")).title for id_ in ("7", "8")]
    assert titles == ["Rome", None]


def test_a_query_selects_the_rows_to_index(database: Database) -> None:
    for number, body in enumerate(("Rome", "Oslo", "Bergen")):
        database.put(number, body, "north" if number else "south")
    connector = database.connector(query="SELECT id, body FROM page WHERE title = 'north';")
    assert list(listed(connector)) == ["1", "2"]
    assert text_of(connector, "2") == "Bergen"
    with pytest.raises(ItemVanished):
        connector.fetch(Item("0", ""))


def test_a_key_may_have_any_type(database: Database) -> None:
    database.writer.execute("CREATE TABLE odd (k, body)")
    keys = [1, 2.5, "a/b", "ü '\"`", b"raw", " 3 "]
    for key in keys:
        database.writer.execute("INSERT INTO odd VALUES (?, ?)", [key, f"key {key!r}"])
    connector = database.connector(table="odd", key="k")
    assert sorted(listed(connector)) == sorted(["1", "2.5", "a/b", "ü '\"`", "raw", " 3 "])
    for id_, key in zip(["1", "2.5", "a/b", "ü '\"`", "raw", " 3 "], keys, strict=True):
        assert text_of(connector, id_) == f"key {key!r}"


def test_rows_without_a_key_of_their_own_are_problems(database: Database) -> None:
    database.writer.execute("CREATE TABLE odd (k, body)")
    for key in (None, 1, "1", 2):
        database.writer.execute("INSERT INTO odd VALUES (?, 'x')", [key])
    found = list(database.connector(table="odd", key="k").discover(None))
    told = {one.id: one.why for one in found if isinstance(one, Problem)}
    assert told == {"(no key)": "a row has no 'k'", "1": "several rows have this key"}


def test_values_that_are_no_text_are_read_as_text(database: Database) -> None:
    database.writer.execute("INSERT INTO page (id, body) VALUES (1, CAST(x'41ff42' AS TEXT))")
    database.put(2, b"bytes \xff")
    database.put(3, None)
    connector = database.connector()
    assert [text_of(connector, id_) for id_ in "123"] == ["A\N{REPLACEMENT CHARACTER}B", *_REST]


_REST = ["bytes \N{REPLACEMENT CHARACTER}", ""]


def test_a_missing_column_is_an_error_and_not_a_string(database: Database) -> None:
    database.put(1, "Rome")
    for wrong in ({"text": ("bdy",)}, {"key": "ident"}, {"title": "titel"}, {"table": "pages"}):
        with pytest.raises(SourceUnavailable, match=r"no such.*Correct `table`"):
            list(database.connector(**wrong).discover(None))


def test_the_updated_column_alone_decides_whether_a_row_changed(database: Database) -> None:
    connector = database.connector(updated="changed")
    database.put(1, "Rome", changed=5)
    before = listed(connector)["1"]
    database.put(1, "Oslo", changed=5)
    assert isinstance(before, Item)
    assert listed(connector)["1"] == before
    database.put(1, "Oslo", changed=6)
    assert listed(connector)["1"] != before
    assert connector.fetch(before).revision == item(connector, "1").revision


@pytest.mark.parametrize("updated", ["", "changed"])
def test_other_columns_or_another_type_give_a_row_another_revision(
    database: Database, updated: str
) -> None:
    database.put(1, "Rome", "A city")
    revisions = {
        item(database.connector(updated=updated, **settings), "1").revision
        for settings in (
            {},
            {"title": "title"},
            {"text": ("body", "more")},
            {"media_type": "text/markdown"},
            {"query": "SELECT id, upper(body) AS body, changed FROM page"},
        )
    }
    assert len(revisions) == 5


def test_many_removed_rows_are_looked_for_at_once(database: Database) -> None:
    for number in range(2000):
        database.put(number, "Rome")
    removed = [str(number) for number in range(10_000, 30_000)]
    began_s = time.process_time()
    (found,) = database.connector().discover(None, ["7", *removed])
    assert found.id == "7"
    assert time.process_time() - began_s < 2


def test_a_listing_sees_one_state_while_rows_change(database: Database) -> None:
    for number in range(500):
        database.put(number, f"body {number}")
    listing = database.connector().discover(None)
    first = next(listing)
    database.writer.execute("DELETE FROM page WHERE id >= 250")
    database.put(9999, "new")
    assert [first.id, *(one.id for one in listing)] == [str(n) for n in range(500)]
    assert len(listed(database.connector())) == 251


def test_the_connector_only_reads_the_database(database: Database) -> None:
    database.put(1, "Rome")
    for query in ("DELETE FROM page", "SELECT 1; DELETE FROM page", "DROP TABLE page"):
        with pytest.raises(SourceUnavailable):
            list(database.connector(query=query).discover(None))
    with (
        pytest.raises(SourceUnavailable, match="readonly"),
        DatabaseFile(database.path, 1000).open_reading(5) as connection,
    ):
        connection.execute("DELETE FROM page")
    assert text_of(database.connector(), "1") == "Rome"


def test_a_database_that_another_holds_is_unavailable(database: Database) -> None:
    database.put(1, "Rome")
    database.writer.execute("PRAGMA journal_mode = DELETE")
    database.writer.execute("BEGIN EXCLUSIVE")
    connector = database.connector()
    with pytest.raises(SourceUnavailable, match=r"locked.*next scan tries again"):
        list(connector.discover(None))
    with pytest.raises(SourceUnavailable, match="locked"):
        connector.fetch(Item("1", ""))
    database.writer.execute("ROLLBACK")
    assert list(listed(connector)) == ["1"]


def test_a_missing_database_is_not_created(tmp_path: Path) -> None:
    for path in (tmp_path / "none.db", tmp_path / "no/none.db", tmp_path):
        connector = SqliteConnector(SqliteSettings(path, "id", ("b",), 10, table="t"))
        with pytest.raises(SourceUnavailable, match="no such file"):
            list(connector.discover(None))
    assert list(tmp_path.iterdir()) == []


def _write(path: Path, rounds: int) -> None:
    writer = sqlite.connect(path, isolation_level=None, timeout=30)
    for turn in range(rounds):
        writer.execute("BEGIN IMMEDIATE")
        for number in range(20):
            row = [number, f"Page {number} in round {turn}. It says {turn * number}."]
            writer.execute("INSERT OR REPLACE INTO page (id, body) VALUES (?, ?)", row)
        writer.execute("DELETE FROM page WHERE id = ?", [turn % 20])
        writer.execute("COMMIT")
    writer.close()


def test_a_busy_writer_in_another_process_is_followed(database: Database, tmp_path: Path) -> None:
    stack = Stack(tmp_path / "graph.db", database.connector())
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(database.path, 300))
    writer.start()
    while writer.is_alive():
        assert stack.sync().problem is None
    writer.join()
    assert writer.exitcode == 0
    stack.sync()
    live = stack.connection.execute(f"SELECT path FROM document WHERE died = {2**63 - 1}")
    assert {row[0] for row in live} == {str(n) for n in range(20) if n != 299 % 20}
    stack.close()


ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"
HOSTILE_VIEWS = {
    "no row, for ever": (f"{ENDLESS} SELECT i AS id, 'x' AS body FROM r WHERE i < 0", "1 seconds"),
    "rows for ever": (f"{ENDLESS} SELECT i AS id, 'x' || i AS body FROM r", "more than 100 rows"),
    "a huge value": ("SELECT 1 AS id, hex(zeroblob(400000000)) AS body", "longer than"),
    "a huge key": ("SELECT hex(zeroblob(400000000)) AS id, 'x' AS body", "longer than"),
    "rows of large values": (
        f"{ENDLESS} SELECT i AS id, zeroblob(900000) AS body FROM r", "more than 100 rows"
    ),
    "a sort without end": (
        f"{ENDLESS} SELECT i AS id, zeroblob(1000000) AS body FROM r ORDER BY i DESC",
        "MiB of memory|1 seconds",
    ),
    "a product without end": (
        "SELECT a.id AS id, 'x' AS body FROM page a, page b, page c, page d, page e"
        " WHERE a.id + b.id + c.id + d.id + e.id < 0",
        "1 seconds",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_VIEWS)
def test_a_hostile_view_is_refused_in_bounded_time_and_memory(
    database: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    view, why = HOSTILE_VIEWS[name]
    for number in range(60):
        database.put(number, "Rome")
    database.writer.execute(f"CREATE VIEW rows AS {view}")
    monkeypatch.setattr(sqlite_rows, "MAX_ROWS", 100)
    settings = SqliteSettings(database.path, "id", ("body",), 1000, table="rows")
    connector = SqliteConnector(settings, list_s=1.0, fetch_s=1.0)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = time.monotonic()
    with pytest.raises(SourceUnavailable, match=f"{why}.*Indexed documents stay searchable"):
        list(connector.discover(None))
    assert time.monotonic() - began_s < 5
    with pytest.raises((SourceUnavailable, ItemVanished, ItemUnreadable)):
        connector.fetch(Item("-1", ""))
    assert time.monotonic() - began_s < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 800 << 10


def test_a_refused_listing_gives_no_row_and_keeps_what_is_indexed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.put(1, "Rome has a river.")
    stack = Stack(tmp_path / "graph.db", database.connector())
    assert stack.sync().problem is None
    monkeypatch.setattr(sqlite_rows, "MAX_ROWS", 100)
    for number in range(2, 200):
        database.put(number, "More.")
    problem = stack.sync().problem
    assert problem is not None and "more than 100 rows" in str(problem)
    live = stack.connection.execute(f"SELECT path FROM document WHERE died = {2**63 - 1}")
    assert [row[0] for row in live] == ["1"]
    stack.close()


def test_a_row_that_is_too_long_keeps_no_other_from_being_listed(database: Database) -> None:
    database.put(1, "Rome")
    database.put(2, "x" * 5_000_000)
    database.put(3, b"y" * 5_000_000)
    database.put(4, "z" * 1001)
    found = listed(database.connector())
    assert isinstance(found["1"], Item)
    for id_ in ("2", "3", "4"):
        problem = found[id_]
        assert isinstance(problem, Problem) and "too large" in problem.why
    assert text_of(database.connector(), "1") == "Rome"
    with pytest.raises(ItemUnreadable):
        database.connector().fetch(Item("2", ""))


def test_a_file_at_rest_is_read_without_locks_and_leaves_nothing_beside_it(
    database: Database,
) -> None:
    database.put(1, "Rome")
    database.writer.execute("PRAGMA journal_mode = DELETE")
    database.writer.execute("BEGIN EXCLUSIVE")
    past_s = time.time() - 60
    os.utime(database.path, (past_s, past_s))
    before = sorted(database.path.parent.iterdir())
    assert list(listed(database.connector())) == ["1"]
    assert sorted(database.path.parent.iterdir()) == before
    database.writer.execute("ROLLBACK")


def test_a_file_that_is_written_while_it_is_read_as_at_rest_is_refused(
    database: Database,
) -> None:
    database.put(1, "Rome")
    database.writer.execute("PRAGMA journal_mode = DELETE")
    past_s = time.time() - 60
    os.utime(database.path, (past_s, past_s))
    with (
        pytest.raises(SourceUnavailable, match="another program changed the file during the read"),
        DatabaseFile(database.path, 1000).open_reading(5) as connection,
    ):
        assert connection.execute("SELECT body FROM page").fetchall() == [("Rome",)]
        database.put(1, "Paris")
    assert text_of(database.connector(), "1") == "Paris"


def test_hopsyncds_own_database_cannot_be_a_source(database: Database) -> None:
    settings = SqliteSettings(database.path, "id", ("body",), 1000, table="page")
    connector = SqliteConnector(settings, never=(database.path.parent,))
    with pytest.raises(SourceUnavailable, match="hopsyncd's own database"):
        list(connector.discover(None))
