"""Webhooks: bounded in time, bytes and number, and no slow listener delays other watches."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hopsyncd.api import watch_delivery
from hopsyncd.api.watch_delivery import MAX_AT_ONCE, post
from store.open_database import open_reader
from tests.fakes.watching import OWNER, Watching
from tests.unit.test_watch_actions import FILES, QUESTION, TOWNS, move_to

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Listener:
    """Gives each connection, with what it received, to `act`."""

    def __init__(self, act: Callable[[socket.socket], None]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.received: list[bytes] = []
        self._act = act
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.received.append(connection.recv(1 << 20))
            self._act(connection)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def listening() -> Iterator[Callable[[Callable[[socket.socket], None]], Listener]]:
    made: list[Listener] = []

    def listen(act: Callable[[socket.socket], None]) -> Listener:
        made.append(Listener(act))
        return made[-1]

    yield listen
    for one in made:
        one.close()


Listen = Callable[[Callable[[socket.socket], None]], Listener]


def drip_head(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"H")
        time.sleep(0.05)


def drip_interim(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def stay_silent(connection: socket.socket) -> None:
    time.sleep(60)


@pytest.mark.parametrize("act", [drip_head, drip_interim, stay_silent])
def test_the_whole_exchange_has_one_deadline(
    listening: Listen, act: Callable[[socket.socket], None]
) -> None:
    begun_s = time.monotonic()
    answer = post(listening(act).address, b"{}", timeout_s=0.4)
    assert time.monotonic() - begun_s < 2
    assert answer.may_pass and "within 0.4 s" in (answer.error or "")


def test_a_listener_that_does_not_read_has_that_deadline_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        begun_s = time.monotonic()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        assert "within" in (post(address, b"x" * (64 << 20), timeout_s=0.4).error or "")
    assert time.monotonic() - begun_s < 3


def test_the_body_of_a_webhooks_reply_is_not_read(listening: Listen) -> None:
    sent = []

    def send_without_end(connection: socket.socket) -> None:
        body = gzip.compress(b"\0" * (64 << 20))
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        while True:
            connection.sendall(b"x" * 65536)
            sent.append(65536)

    assert post(listening(send_without_end).address, b"{}", timeout_s=20).error is None
    assert sum(sent) < 64 << 20


def test_a_head_without_end_is_refused(listening: Listen) -> None:
    def send(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x" * 65536)

    assert "not HTTP" in (post(listening(send).address, b"{}", timeout_s=20).error or "")


@pytest.mark.parametrize(
    ("status", "error", "may_pass"),
    [
        *(("200 OK", None, False), ("204 No Content", None, False)),
        *(("302 Found", "302", False), ("404 Not Found", "404", False)),
        *(("429 Slow Down", "429", True), ("503 Busy", "503", True)),
    ],
)
def test_the_status_of_the_reply_decides_if_a_delivery_succeeded(
    listening: Listen, status: str, error: str | None, may_pass: bool
) -> None:
    def send(connection: socket.socket) -> None:
        place = "Location: http://127.0.0.1:1/\r\n"
        connection.sendall(f"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 {status}\r\n{place}\r\n".encode())

    listener = listening(send)
    answer = post(f"{listener.address}/a?b=c", b'{"a": 1}')
    assert (answer.error is None) is (error is None) and (error or "") in (answer.error or "")
    assert answer.may_pass is may_pass
    head, body = listener.received[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /a?b=c HTTP/1.1\r\n") and b"Content-Length: 8" in head
    assert body == b'{"a": 1}' and len(listener.received) == 1


def test_an_error_names_the_host_and_no_secret() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = post(f"http://127.0.0.1:{port}/s3cr3t?token=s3cr3t", b"{}").error
    assert error == f"http://127.0.0.1:{port} cannot be reached: Connection refused"


def test_slow_listeners_delay_no_other_watch_and_few_run_at_once(
    tmp_path: Path, listening: Listen
) -> None:
    release = threading.Event()
    open_now, most = [0], [0]
    lock = threading.Lock()

    def wait(connection: socket.socket) -> None:
        with lock:
            open_now[0] += 1
            most[0] = max(most[0], open_now[0])
        release.wait(30)
        with lock:
            open_now[0] -= 1
        connection.sendall(OK)

    slow, quick = listening(wait), listening(lambda connection: connection.sendall(OK))
    watching = Watching(tmp_path, FILES)
    watching.watched.add(QUESTION, OWNER, webhook=f"{slow.address}/slow")
    plain = watching.watched.add(QUESTION, OWNER)
    watching.watched.add(QUESTION, OWNER, webhook=f"{quick.address}/quick")
    text = f"# Kaltenbrunn\n\nKaltenbrunn was born in {TOWNS[0]}.\n".encode()
    watching.connector.put("mira.md", text)
    watching.stack.sync()
    watching.publish()
    watching.watched.compare()
    end_s = time.monotonic() + 10
    while not quick.received and time.monotonic() < end_s:
        time.sleep(0.01)
    assert len(quick.received) == 1 and watching.told(plain)
    release.set()
    watching.compare()

    release.clear()
    for index in range(2 * MAX_AT_ONCE):
        watching.watched.add(QUESTION, OWNER, webhook=f"{slow.address}/{index}")
    watching.connector.put("mira.md", text.replace(TOWNS[0].encode(), TOWNS[1].encode()))
    watching.stack.sync()
    watching.publish()
    watching.watched.compare()
    end_s = time.monotonic() + 30
    while open_now[0] < MAX_AT_ONCE and time.monotonic() < end_s:
        time.sleep(0.01)
    assert watching.watched.delivery.running == MAX_AT_ONCE
    release.set()
    watching.compare()
    assert most[0] == MAX_AT_ONCE and len(slow.received) == 2 + 2 * MAX_AT_ONCE


def test_a_webhook_that_fails_is_tried_again_and_then_named(
    tmp_path: Path, listening: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_delivery, "_RETRIES_S", (0.05, 0.05))
    answers = [b"HTTP/1.1 503 Busy\r\n\r\n"] * 2 + [OK] + [b"HTTP/1.1 500 Broken\r\n\r\n"] * 3
    listener = listening(lambda connection: connection.sendall(answers.pop(0)))
    watching = Watching(tmp_path, FILES)
    watching.watched.add(QUESTION, OWNER, webhook=f"{listener.address}/hook")
    move_to(watching, TOWNS[0])
    (listed,) = watching.watched.list_all(OWNER)
    assert "answered 503; the delivery will be retried" in (listed["error"] or "")
    for _ in range(2):
        time.sleep(0.06)
        watching.compare()
    (listed,) = watching.watched.list_all(OWNER)
    assert listed["error"] is None and len(listener.received) == 3
    ids = {json.loads(one.partition(b"\r\n\r\n")[2])["id"] for one in listener.received}
    assert ids == {1}
    move_to(watching, TOWNS[1])
    for _ in range(3):
        time.sleep(0.06)
        watching.compare()
    (listed,) = watching.watched.list_all(OWNER)
    assert len(listener.received) == 6
    assert listed["error"] == f"{listener.address} answered 500"


def test_a_delivery_that_cannot_be_noted_is_not_repeated_at_once(
    tmp_path: Path, listening: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = listening(lambda connection: connection.sendall(OK))
    watching = Watching(tmp_path, FILES)
    watching.watched.add(QUESTION, OWNER, webhook=f"{listener.address}/hook")

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(watching.watched.delivery, "_note", fail)
    move_to(watching, TOWNS[0])
    watching.compare()
    assert len(listener.received) == 1
    assert 50 < (watching.watched.delivery.compute_next_s() or 0) <= 60


def test_with_a_shared_database_webhooks_are_called_but_no_program_is_started(
    tmp_path: Path, listening: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes to it could write changes, and so start the program at will."""
    listener = listening(lambda connection: connection.sendall(OK))
    made = tmp_path / "made"
    watching = Watching(tmp_path, FILES)
    watching.watched.add(QUESTION, OWNER, ["/usr/bin/touch", str(made)])
    watching.watched.add(QUESTION, OWNER, webhook=f"{listener.address}/hook")
    file = tmp_path / "s.db"
    monkeypatch.setattr("hopsyncd.api.watched_questions.open_reader", lambda _: open_reader(file))
    watching.watched._database = "postgresql://elsewhere/notes"
    move_to(watching, TOWNS[0])
    assert [watch["changes"] for watch in watching.watched.list_all(OWNER)] == [1, 1]
    assert len(listener.received) == 1 and not made.exists()
