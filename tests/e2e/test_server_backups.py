"""Backups of a PostgreSQL database as docs/operate.md describes them, restored and opened."""

from collections.abc import Iterator

import psycopg
import pytest

from store.engines.postgres.session import open_reading
from store.versions import read_head
from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source
from tests.fakes.dump import Rows, graph_at
from tests.fakes.postgres import Postgres, postgres

CAPTAIN = "Who is the captain of the Halcyon?"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def graph(url: str) -> Rows:
    connection = open_reading(url)
    try:
        newest = read_head(connection)
        assert newest
        return graph_at(connection, newest.id)
    finally:
        connection.close()


def serve(place: Place, url: str) -> None:
    place.configure(f'[store]\nurl = "{url}"\n{GC_LATER}{source("notes", place.notes)}')
    place.start()
    # The writer of the former life of the server may still hold its place for a moment.
    place.until(lambda: place.status()["store"]["role"] == "writer")
    place.sync()


def name(place: Place, captain: str) -> None:
    place.write("ferry.md", f"# Ferry\n\nThe ferry Halcyon sails. {captain} is its captain.\n")


def test_a_dump_is_restored_and_the_next_scan_equals_a_fresh_index(server: Postgres) -> None:
    url, dump = server.database(), server.url("postgres").partition("host=")[2] + "/notes.dump"
    with new_place(SMALL) as place:
        name(place, "Orla Brennan")
        serve(place, url)
        server.run("pg_dump", "-Fc", "-n", "hopsyncd", "-f", dump, url)
        name(place, "Piet de Groot")
        place.sync()
        place.stop()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA hopsyncd CASCADE")  # the loss
        server.run("pg_restore", "--exit-on-error", "-d", url, dump)
        # The same home: its saved index and its copy are of a version that is no more.
        serve(place, url)
        assert "Piet" in place.query(CAPTAIN, k=1)[0]["text"]
        assert place.printed("check", "--deep")["findings"] == []
        fresh = server.database()
        with new_place(SMALL) as other:
            (other.notes / "ferry.md").write_bytes((place.notes / "ferry.md").read_bytes())
            serve(other, fresh)
            assert graph(url) == graph(fresh)


def test_a_point_in_time_is_recovered_and_opened(server: Postgres) -> None:
    url = server.database()
    with new_place(SMALL) as place:
        name(place, "Orla Brennan")
        serve(place, url)
        archive = server.archive()
        place.until(lambda: place.status()["store"]["role"] == "writer")
        name(place, "Piet de Groot")
        place.until(lambda: not place.status()["store"]["lost"])
        place.sync()
        before = graph(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_create_restore_point('before_the_mistake')")
        place.write("wrong.md", "# Mistake\n\nThe Halcyon has no captain.\n")
        place.sync()
        place.stop()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_switch_wal()")
        server.recover(archive, "before_the_mistake")
        assert graph(url) == before
        (place.notes / "wrong.md").unlink()
        serve(place, url)
        assert place.status()["documents"] == 1
        assert "Piet" in place.query(CAPTAIN, k=1)[0]["text"]
        assert place.printed("check", "--deep")["findings"] == []


def test_the_status_says_which_daemon_writes_and_which_follows(server: Postgres) -> None:
    url = server.database()
    with new_place(SMALL) as first, new_place(SMALL) as second:
        name(first, "Orla Brennan")
        serve(first, url)
        second.configure(f'[store]\nurl = "{url}"\n{source("notes", first.notes)}')
        second.start()
        second.until(lambda: second.status()["version"] == 1)
        assert "this daemon is the writer of postgresql://" in first.run("status").stdout
        assert "where another daemon writes: up to date" in second.run("status").stdout
        server.stop()
        second.until(lambda: second.status()["store"]["lost"])
        assert "cannot be reached; answers come from the local copy" in second.run("status").stdout
        server.start()


def test_backup_now_says_what_to_use_instead(server: Postgres) -> None:
    with new_place(SMALL) as place:
        name(place, "Orla Brennan")
        serve(place, server.database())
        for command in (("now",), ("restore", "latest")):
            ran = place.run("backup", *command)
            assert ran.returncode == 1 and "`pg_" in ran.stderr
        assert "use `pg_dump`" in place.run("doctor").stdout
