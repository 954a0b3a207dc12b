"""What only a PostgreSQL server asks of a store: one writer of several, connections that end."""

import hashlib
import json

import pytest

from store.commit import commit_version, put_seen
from store.exceptions import Deposed, OlderSchema, ServerLost, StoreError, WriterBusy
from store.open_database import open_reader, open_writer
from store.reads import read_live_documents
from store.records import Change, Seen
from store.sources import (
    count_skipped_by_kind,
    list_sources,
    put_left_out,
    read_seen_items,
    read_skipped_of_item,
    read_source_names,
)
from store.transactions import snapshot, transaction
from store.versions import list_kept_versions
from tests.fakes.edited import edited
from tests.fakes.follower import read_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.postgres import Postgres
from tests.fakes.stack import Stack

NOTHING_CHANGED = Change("test", 1, "rules", [], [], [], [], [], [], 0, 0, None, [], [], {})


def test_a_second_writer_is_refused_and_writes_after_the_first_one(on_server: str) -> None:
    first = edited(on_server)
    with pytest.raises(WriterBusy, match="another hopsyncd"):
        open_writer(on_server)
    first.close()
    open_writer(on_server).close()


def test_a_writer_that_lost_its_session_cannot_write(server: Postgres, on_server: str) -> None:
    first = edited(on_server)
    server.cut_connections()
    second = open_writer(on_server)
    made = commit_version(second, NOTHING_CHANGED, 0)
    with pytest.raises(ServerLost):
        commit_version(first.connection, NOTHING_CHANGED, 0)
    assert list_kept_versions(second)[-1] == made.id == 7


def test_a_version_number_is_used_only_once(on_server: str) -> None:
    """Even to one that is told that it is the writer."""
    first = edited(on_server)
    second = open_reader(on_server)
    first.connection.begin_write()
    second.begin_write()
    row = "INSERT INTO version SELECT 7, created_ms, reason, recipe, rules, documents,"
    row += " passages, words, matches, edge_budget, cut_similarity, cut_question, counters"
    first.connection.execute(f"{row} FROM version WHERE id = 6")
    first.connection.execute("COMMIT")
    with pytest.raises(Deposed):
        second.execute(f"{row} FROM version WHERE id = 6")


def incompressible_path(size: int) -> str:
    digits = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(60))
    names = [digits[start : start + 200] for start in range(0, len(digits), 200)]
    return "/".join(names)[: size - 3] + ".md"


def test_a_path_that_is_too_long_for_an_index_is_a_problem_of_that_item(on_server: str) -> None:
    files = MemoryConnector()
    longest, longer = incompressible_path(2600), incompressible_path(2601)
    for path in ("a.md", longest, longer):
        files.put(path, f"# Rome\n\nCaesar wrote {len(path)} letters.\n".encode())
    stack = Stack(on_server, files)
    stack.sync()
    seen = read_seen_items(stack.connection, stack.source.id, None)
    (problem,) = [item for item in seen.values() if item.why]
    assert problem.why == (
        "a path in this folder has 2,601 bytes, but the database server can store at most 2,600"
    )
    assert problem.path == longer.rpartition("/")[0]
    assert {*read_live_documents(stack.connection, stack.source.id, None)} == {"a.md", longest}
    files.remove(longer)
    stack.sync()
    assert {*read_seen_items(stack.connection, stack.source.id, None)} == {"a.md", longest}


def test_a_row_that_is_too_long_for_an_index_is_not_reported_as_a_lost_server(
    on_server: str,
) -> None:
    writer = edited(on_server).connection
    seen = Seen(1, incompressible_path(3200), "r1", None)
    with pytest.raises(StoreError, match="exceeds") as caught:
        put_seen(writer, [seen], [])
    assert not isinstance(caught.value, ServerLost)


def test_tables_that_have_grown_are_planned_anew(on_server: str) -> None:
    writer = open_writer(on_server)
    rows = [(f"job {number}", number) for number in range(2000)]
    with transaction(writer):
        writer.executemany("INSERT INTO job (name, ran_ms) VALUES (?, ?)", rows)
    known = writer.execute("SELECT reltuples FROM pg_class WHERE relname = 'job'").fetchone()
    assert known[0] == len(rows)
    writer.close()


def test_a_reader_goes_on_after_its_connection_was_cut(server: Postgres, on_server: str) -> None:
    edited(on_server)
    reader = open_reader(on_server)
    before = read_at(reader, 6)
    server.cut_connections()
    with snapshot(reader):
        assert read_at(reader, 6) == before


def test_a_reader_of_an_empty_database_gets_an_error(on_server: str) -> None:
    with pytest.raises(OlderSchema, match="none of hopsyncd's tables"):
        open_reader(on_server)


def test_a_missing_server_is_reported_without_the_password() -> None:
    with pytest.raises(StoreError) as raised:
        open_reader("postgresql://me:geheim@127.0.0.1:1/db")
    assert "geheim" not in str(raised.value)


def test_text_that_readers_skip_is_counted(on_server: str) -> None:
    record = edited(on_server).connection
    ((number, name),) = read_source_names(record).items()
    left_out = ('{"scripts": 2}', '{"navigation": 1, "scripts": 10}', None)
    seen = [
        Seen(number, f"{index}.html", "1", b"1", None, None, x) for index, x in enumerate(left_out)
    ]
    put_seen(record, seen, [])
    put_seen(record, [Seen(number, "0.html", "2", b"2")], [])  # not read again
    assert read_skipped_of_item(record, name, "0.html") == {"scripts": 2}
    assert count_skipped_by_kind(record) == [("navigation", 1, 1), ("scripts", 12, 2)]
    assert count_skipped_by_kind(record, frozenset({name})) == []
    put_left_out(record, number, {".log": 3})
    assert json.loads(list_sources(record)[0].left_out) == {".log": 3}
