"""The daemon under a supervisor: what it says, when it falls silent, and the socket it is given."""

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

import httpx2
import pytest

from hopsyncd.api.supervisor import get_inherited_socket
from hopsyncd.client import Client
from hopsyncd.errors import SocketRefused
from tests.e2e.daemon import ROOT, SMALL, Place, new_place, source
from tests.fakes.blocking_server import BLOCKS_S
from tests.fakes.supervisor import FakeSupervisor, listening_at


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure(source("notes", made.notes))
        yield made


@pytest.fixture
def supervisor(place: Place) -> Iterator[FakeSupervisor]:
    with listening_at(place.base / "notify") as heard:
        place.variables["NOTIFY_SOCKET"] = str(place.base / "notify")
        yield heard


def test_a_daemon_is_ready_once_it_answers_and_says_how_it_is_and_that_it_stops(
    place: Place, supervisor: FakeSupervisor
) -> None:
    place.write("a.md", "Ansgar Nyborg keeps the lighthouse.\n")
    place.launch()
    place.until(lambda: supervisor.has("READY=1"))
    assert place.get("/v1/health")["status"] == "ok"

    place.until(lambda: "1 passages, up to date" in supervisor.last("STATUS="))
    place.stop()

    place.until(lambda: supervisor.has("STOPPING=1"))
    assert not supervisor.has("WATCHDOG"), "nobody asked for that"


def test_a_hanging_event_loop_falls_silent_and_one_that_goes_on_speaks_again(
    place: Place, supervisor: FakeSupervisor
) -> None:
    path = place.base / "socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.blocking_server", str(path)],
        cwd=ROOT,
        env={**os.environ, **place.variables, "WATCHDOG_USEC": "1000000"},
    )
    try:
        place.until(lambda: supervisor.count("WATCHDOG=1") > 2)
        asked_s = time.monotonic()
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), timeout=60) as http:
            assert http.get("http://hopsyncd/").status_code == 204
        place.until(lambda: supervisor.heard[-1][0] > asked_s + BLOCKS_S)
    finally:
        server.terminate()
        server.wait(60)
    beats_s = [at_s for at_s, line in supervisor.heard if line == "WATCHDOG=1"]
    gaps_s = [after - before for before, after in pairwise(beats_s)]
    assert max(gaps_s) > BLOCKS_S - 1
    assert sorted(gaps_s)[len(gaps_s) // 2] < BLOCKS_S - 1


@pytest.mark.parametrize("when", ["stop", "drop"])
def test_a_stop_signal_ends_the_daemon_while_it_is_about_to_listen(place: Place, when: str) -> None:
    server = [sys.executable, "-m", "tests.fakes.blocking_server", str(place.base / "socket")]
    assert subprocess.run([*server, when], cwd=ROOT, timeout=60, check=False).returncode == 0


def test_a_daemon_serves_on_the_socket_that_it_is_given_and_leaves_it_there(place: Place) -> None:
    place.socket.parent.mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(place.socket))
        place.socket.chmod(0o600)
        listener.listen()
        for _ in range(2):
            place.launch(listener)
            # It is asked before it serves, as by a client whose connection starts it.
            assert Client(place.socket, timeout_s=60).health()["status"] == "ok"
            place.stop()
            assert place.socket.is_socket(), "it belongs to the supervisor"


def test_a_socket_for_another_process_or_at_another_place_is_not_served(place: Place) -> None:
    assert get_inherited_socket(place.socket, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}) is None
    assert get_inherited_socket(place.socket, {}) is None
    for_us = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
    with pytest.raises(SocketRefused, match="2 sockets were passed"):
        get_inherited_socket(place.socket, for_us)
    assert for_us == {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(place.base / "other"))
        listener.listen()
        place.launch(listener)
        assert place.process is not None
        assert place.process.wait(60) == 1
    assert "the configuration names" in place.log.read_text()


def test_a_daemon_whose_terminal_is_closed_ends(place: Place) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.environ["HOPSYNCD_HOME"] = str(place.home)
        os.execv(sys.executable, [sys.executable, "-m", *SMALL])
    shown = bytearray()

    def is_serving() -> bool:
        shown.extend(os.read(terminal, 4096))
        return b"serving" in shown

    try:
        place.until(is_serving)
        os.close(terminal)
        place.until(lambda: os.waitpid(pid, os.WNOHANG) == (pid, 0), 60)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    assert not place.socket.exists()
