"""Slow clients and floods keep nobody else from being answered."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Any

import httpx2
import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.endpoint import Endpoint, Response, say

HEALTH = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n"
LIMITS = """
[limits]
connections = 8
parallel = 1
queue = 2
header_s = 1.0
body_s = 1.0
"""
SOON_S = 60.0


@pytest.fixture(scope="module")
def shared() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        made.configure(source("notes", made.notes) + LIMITS)
        made.start()
        made.sync()
        yield made


@pytest.fixture
def daemon(shared: Place) -> Place:
    """Nobody else is connected any more."""
    shared.until(lambda: shared.get("/v1/stats")["connections"] == 1)
    return shared


def connected(place: Place) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(SOON_S)
    client.connect(str(place.socket))
    return client


def rest(client: socket.socket) -> bytes:
    """All that comes until the daemon closes, within SOON_S."""
    began_s, got = time.monotonic(), b""
    try:
        while part := client.recv(1 << 16):
            got += part
            assert time.monotonic() - began_s < SOON_S
    except ConnectionResetError:
        pass
    return got


def error_in(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n\r\n",
        b"GET /v1/he",
        b"GET /v1/health HTTP/1.1\r\nhost: local",
        b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 30\r\n\r\n{",
        b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{",
    ],
)
def test_a_request_that_does_not_arrive_in_time_is_given_up(daemon: Place, sent: bytes) -> None:
    with connected(daemon) as client:
        client.sendall(sent)
        assert error_in(rest(client)) == (408, "timeout")


def test_sending_bytes_slowly_does_not_extend_the_deadline(daemon: Place) -> None:
    with connected(daemon) as client:
        began_s = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while time.monotonic() - began_s < SOON_S:
                client.sendall(b"G" if time.monotonic() - began_s < 0.1 else b"\r\n")
                time.sleep(0.1)


def test_a_half_closed_client_counts_as_disconnected(daemon: Place) -> None:
    with connected(daemon) as client:
        client.sendall(HEALTH[:20])
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b""


def test_pipelined_requests_are_answered_in_order(daemon: Place) -> None:
    with connected(daemon) as client:
        client.sendall(HEALTH + HEALTH.replace(b"health", b"nothing") + HEALTH)
        client.sendall(b"not HTTP\r\n\r\n")
        statuses = [part[:3] for part in rest(client).split(b"HTTP/1.1 ")[1:]]
    assert statuses[:3] == [b"200", b"404", b"200"]
    assert len(statuses) <= 4


def test_a_head_and_a_body_may_be_only_so_long(daemon: Place) -> None:
    with connected(daemon) as client:
        client.sendall(HEALTH[:-2] + b"x: " + b"y" * 20_000)
        assert error_in(rest(client)) == (431, "bad_request")
    with connected(daemon) as client:
        client.sendall(
            b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\n"
        )
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            began_s = time.monotonic()
            while time.monotonic() - began_s < SOON_S:
                client.sendall(b"x" * 10_000)
        assert error_in(rest(client))[0] == 400


def test_a_client_that_does_not_take_its_answers_is_cut_off(daemon: Place) -> None:
    with connected(daemon) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        openapi = HEALTH.replace(b"health", b"openapi.json")
        client.sendall(openapi * 20)
        daemon.until(lambda: daemon.get("/v1/stats")["connections"] == 1, SOON_S)


def test_requests_beyond_the_limit_are_told_to_retry(daemon: Place) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            busy = stack.enter_context(connected(daemon))
            busy.sendall(HEALTH)
            assert busy.recv(4096).startswith(b"HTTP/1.1 200")
        refused = stack.enter_context(connected(daemon))
        answer = rest(refused)
        assert error_in(answer) == (503, "busy")
        assert b"\r\nretry-after: 1\r\n" in answer


def test_a_process_with_all_connections_loses_one_to_another_process(daemon: Place) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connected(daemon))
        ran = daemon.run("status", "--json")
    assert ran.returncode == 0, ran.stderr


def test_the_newest_of_too_many_busy_connections_makes_room_for_another_process() -> None:
    answered = threading.Event()

    def play(_: dict[str, Any]) -> Response:
        answered.wait(60)
        return say("no JSON")

    with Endpoint(play) as endpoint, new_place(SMALL) as made, ExitStack() as stack:
        made.write("ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        llm = f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "m"\nquestions = "off"\n'
        limits = "[limits]\nconnections = 3\n"
        made.configure(source("notes", made.notes) + llm + limits)
        made.start()
        made.sync()
        clients = []
        for number in range(3):
            asked = {"question": f"Whom did Ada Byron meet, {number}?", "llm": True}
            body = json.dumps(asked).encode()
            client = stack.enter_context(connected(made))
            clients.append(client)
            client.settimeout(60)
            head = b"POST /v1/ask HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
            client.sendall(head % len(body) + body)
            made.until(lambda number=number: len(endpoint.requests) > number, 60)  # type: ignore[misc]
        ran = made.run("status", "--json")
        answered.set()
        assert ran.returncode == 0, ran.stderr
        assert [client.recv(12) for client in clients] == [
            b"HTTP/1.1 200",
            b"HTTP/1.1 200",
            b"HTTP/1.1 503",
        ]
        assert "Traceback" not in made.log.read_text()


def test_a_full_queue_refuses_new_requests_and_answers_the_queued_ones(daemon: Place) -> None:
    many = json.dumps({"queries": [{"question": "Who met Ada?"}] * 100}).encode()
    told: list[httpx2.Response] = []

    def is_too_much() -> bool:
        with ThreadPoolExecutor(7) as clients:
            told.extend(
                clients.map(lambda _: daemon.request("POST", "/v1/queries", many), range(7))
            )
        return any(reply.status_code == 503 for reply in told)

    daemon.until(is_too_much)
    refused = [reply for reply in told if reply.status_code == 503]
    assert {reply.status_code for reply in told} == {200, 503}
    assert all(one.headers["retry-after"] == "1" for one in refused)
    assert {one.json()["error"]["code"] for one in refused} == {"busy"}
    daemon.until(lambda: daemon.get("/v1/stats")["queue"] == 0)


def test_a_change_is_indexed_during_a_flood_of_queries(daemon: Place) -> None:
    many = json.dumps({"queries": [{"question": "Who met Ada?"}] * 100}).encode()
    before = daemon.status()["version"]
    over = Event()

    def flood() -> None:
        while not over.is_set():
            daemon.request("POST", "/v1/queries", many)

    with ThreadPoolExecutor(4) as clients:
        flooding = [clients.submit(flood) for _ in range(4)]
        try:
            daemon.write("rome.md", "# Rome\n\nCharles Babbage left London for Rome.\n")
            daemon.until(lambda: daemon.get("/v1/health")["version"] > before)
        finally:
            over.set()
        for one in flooding:
            one.result()
