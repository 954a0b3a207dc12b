"""A writer can be replaced at once by the next one, on a server that is busy.

The server removes the temporary tables of a session that ended before it frees the session's
locks. Here they make sure that it takes a while.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest

from store.contract import Connection
from store.engines.postgres import session
from store.open_database import open_writer

_KILLED_WRITER = """
import os, signal, sys
from tests.contract.test_writer_lock import open_slow_writer
writer = open_slow_writer(sys.argv[1])
writer.begin_write()
os.kill(os.getpid(), signal.SIGKILL)
"""


def open_slow_writer(url: str) -> Connection:
    """A writer whose session takes the server some time to end."""
    writer = open_writer(url)
    tables = (f"CREATE TEMPORARY TABLE t{number} (id bigint PRIMARY KEY)" for number in range(100))
    writer.execute("; ".join(tables))
    return writer


@pytest.fixture
def load(on_server: str) -> Iterator[None]:
    """Four clients keep the server busy."""
    is_over = threading.Event()

    def query() -> None:
        with psycopg.connect(on_server, autocommit=True) as connection:
            while not is_over.is_set():
                connection.execute("SELECT sum(sqrt(n)) FROM generate_series(1, 100000) AS n")

    clients = [threading.Thread(target=query) for _ in range(4)]
    for client in clients:
        client.start()
    yield
    is_over.set()
    for client in clients:
        client.join()


@pytest.mark.usefixtures("load")
def test_a_closed_writer_has_released_its_lock(
    on_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_BUSY_S", 0.0)
    for _ in range(10):
        open_slow_writer(on_server).close()


@pytest.mark.usefixtures("load")
def test_a_new_writer_waits_for_the_lock_of_a_killed_one(on_server: str) -> None:
    for _ in range(3):
        killed = subprocess.run([sys.executable, "-c", _KILLED_WRITER, on_server], check=False)
        assert killed.returncode == -9
        open_writer(on_server).close()
