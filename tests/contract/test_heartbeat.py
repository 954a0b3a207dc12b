"""A server, or the way to it, that stays up and answers nothing is noticed within seconds."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

import pytest

from store.commit import commit_version
from store.contract import Connection
from store.engines.postgres import heartbeat, session
from store.engines.postgres.session import Session, open_standing_by
from store.exceptions import ServerLost, WriterBusy
from store.open_database import open_reader, open_writer
from store.records import Change
from store.versions import list_kept_versions
from tests.fakes.edited import edited
from tests.fakes.relay import Relay

NOTHING_CHANGED = Change("test", 1, "rules", [], [], [], [], [], [], 0, 0, None, [], [], {})
LEASE_S = 2


@pytest.fixture
def relay(on_server: str) -> Iterator[Relay]:
    (folder,) = parse_qs(urlsplit(on_server).query)["host"]
    made = Relay(Path(folder) / ".s.PGSQL.5432")
    yield made
    made.close()


@pytest.fixture
def behind_relay(on_server: str, relay: Relay) -> str:
    return f"postgresql://hopsyncd@127.0.0.1:{relay.port}{urlsplit(on_server).path}"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter times, in the same proportions."""
    full_s = heartbeat.LEASE_S
    lease = [one.replace(f"'{full_s}s'", f"'{LEASE_S}s'") for one in session._LEASE]
    silent = session._END_SILENT_WRITER.replace(f"'{full_s + 1} seconds'", f"'{LEASE_S} seconds'")
    assert silent != session._END_SILENT_WRITER
    monkeypatch.setattr(session, "_LEASE", lease)
    monkeypatch.setattr(session, "_END_SILENT_WRITER", silent)
    monkeypatch.setattr(heartbeat, "_BEAT_S", 0.5)
    monkeypatch.setattr(heartbeat, "_PATIENCE_S", 1.0)


def elected(url: str, within_s: float) -> tuple[Connection, float]:
    """A session that stood for election until it won, and the seconds that took."""
    begun_s = time.monotonic()
    standing = cast(Session, open_standing_by(url))
    while not standing.elect():
        assert time.monotonic() - begun_s < within_s, "nobody could take over"
        time.sleep(0.1)
    return standing, time.monotonic() - begun_s


def test_a_writer_whose_relay_forwards_nothing_is_replaced_and_can_commit_nothing(
    on_server: str, behind_relay: str, relay: Relay
) -> None:
    edited(on_server).close()
    writer = open_writer(behind_relay)
    relay.stuck = True
    lost: list[tuple[ServerLost, float]] = []

    def write() -> None:
        begun_s = time.monotonic()
        try:
            commit_version(writer, NOTHING_CHANGED, 0)
        except ServerLost as error:
            lost.append((error, time.monotonic() - begun_s))

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    second, took_s = elected(on_server, within_s=18)
    assert 10 < took_s < 18
    made = commit_version(second, NOTHING_CHANGED, 0)
    writing.join(10)
    ((_, noticed_s),) = lost
    assert noticed_s < 15
    relay.stuck = False
    time.sleep(0.5)
    assert list_kept_versions(second)[-1] == made.id == 7
    with pytest.raises(ServerLost):
        commit_version(writer, NOTHING_CHANGED, 0)


@pytest.mark.usefixtures("quick")
def test_the_server_ends_a_writer_amid_a_transaction_too(
    on_server: str, behind_relay: str, relay: Relay
) -> None:
    edited(on_server).close()
    writer = open_writer(behind_relay)
    writer.begin_write()
    writer.execute("DELETE FROM document")
    relay.stuck = True
    second, _ = elected(on_server, within_s=10)
    assert second.execute("SELECT count(*) FROM document").fetchone()[0]
    relay.stuck = False
    with pytest.raises(ServerLost):
        writer.execute("COMMIT")


@pytest.mark.usefixtures("quick")
def test_a_server_that_waits_for_the_rest_of_a_command_is_freed_by_the_next_writer(
    on_server: str,
) -> None:
    edited(on_server).close()
    writer = cast(Session, open_writer(on_server))
    writer.line.end()  # as a process that was stopped
    time.sleep(0.7)
    wire = writer._connection.pgconn
    wire.enter_pipeline_mode()
    wire.send_query_params(b"BEGIN", [])
    wire.send_query_params(b"DELETE FROM hopsyncd.document", [])
    wire.send_flush_request()
    wire.flush()  # and no Sync, so the server does not count it as idle
    time.sleep(2 * LEASE_S)
    second = open_writer(on_server)
    assert second.execute("SELECT count(*) FROM document").fetchone()[0]


@pytest.mark.usefixtures("quick")
def test_a_writer_that_has_nothing_to_write_stays_the_writer(on_server: str) -> None:
    writer = open_writer(on_server)
    assert writer.execute("SHOW idle_session_timeout").fetchone()[0] == f"{LEASE_S}s"
    for in_transaction in (False, True):
        if in_transaction:
            writer.begin_write()
            with pytest.raises(Exception, match="no_such_table"):
                writer.execute("SELECT 1 FROM no_such_table")
        end_s = time.monotonic() + 2 * LEASE_S
        while time.monotonic() < end_s:
            assert writer.in_transaction is in_transaction
            with pytest.raises(WriterBusy):
                open_writer(on_server)
            time.sleep(0.1)
    writer.execute("ROLLBACK")
    assert writer.execute("SELECT 1").fetchone()[0] == 1


@pytest.mark.usefixtures("quick")
def test_a_long_statement_is_no_lost_server(on_server: str, behind_relay: str) -> None:
    edited(on_server).close()
    for url in (on_server, behind_relay):
        reader = open_reader(url)
        pid = reader.execute("SELECT pg_backend_pid()").fetchone()[0]
        reader.execute("SELECT pg_sleep(4)")
        assert reader.execute("SELECT pg_backend_pid()").fetchone()[0] == pid


def test_a_reader_gets_an_error_instead_of_waiting(
    on_server: str, behind_relay: str, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(on_server).close()
    reader = open_reader(behind_relay)
    relay.stuck = True
    begun_s = time.monotonic()
    with pytest.raises(ServerLost):
        reader.execute("SELECT count(*) FROM document")
    assert time.monotonic() - begun_s < 20
    relay.stuck = False
    assert reader.execute("SELECT count(*) FROM document").fetchone()[0]


def test_a_new_connection_through_such_a_relay_fails_in_time(
    on_server: str, behind_relay: str, relay: Relay
) -> None:
    edited(on_server).close()
    relay.stuck = True
    begun_s = time.monotonic()
    with pytest.raises(ServerLost):
        open_reader(behind_relay)
    assert time.monotonic() - begun_s < 10
