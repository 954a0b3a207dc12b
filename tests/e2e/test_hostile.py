"""Requests that no client of ours sends: each is answered well, or the line is cut.

`HOSTILE_REQUESTS=10000` sends more of them.
"""

import json
import os
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source

REQUESTS = int(os.environ.get("HOSTILE_REQUESTS", "1000"))
AT_ONCE = 32
HANG_S = 60.0
LAST = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
PATHS = ("/v1/query", "/v1/status", "/v1/ask", "/v1/log", "/v1/documents", "/v1/sources", "/",
         "/v1/passages/00", "/v1/diff?from=1", "/v1/paths?from=x", "/%00%ff", "/v1/../../etc", "*",
         "//", "http://localhost/v1/health", "/v1/" + "x" * 20_000)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI", "get", "\x00")
HEADERS = ("host: localhost", "host: evil.example", "origin: null", "content-length: -1",
           "content-length: 99999999999999999999", "transfer-encoding: chunked",
           "transfer-encoding: chunked, identity", "expect: 100-continue", "connection: upgrade",
           "upgrade: websocket", "content-type: text/xml", "accept: application/x-ndjson",
           "x: " + "y" * 20_000, ": empty", "x y: z", "x:\x01", "authorization: Bearer x",
           "accept-encoding: gzip, br", "range: bytes=0-", "host: localhost:99999")  # fmt: skip
BODIES = (b"", b"{}", b'{"question": "Who met Ada?"}', b'{"question": 1e999}', b"[" * 5000,
          b"\xff\xfe\x00", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n", b'{"question": "\\ud800"}',
          b'{"question": "' + b"x" * 30_000 + b'"}', b"x" * (1 << 20), b'{"k": NaN}')  # fmt: skip


@pytest.fixture
def daemon() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        limits = "[limits]\nheader_s = 1.0\nbody_s = 1.0\nquery_s = 60.0\nqueue = 8\n"
        made.configure(source("notes", made.notes) + limits)
        made.start()
        made.sync()
        yield made


def hostile(chance: random.Random) -> bytes:
    """A request that is random, put together from odd parts, or a good one that was mutated."""
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.randrange(1, 400))
    body = chance.choice(BODIES) if chance.random() < 0.6 else b""
    lines = [f"{chance.choice(METHODS[: 2 if kind < 0.5 else None])} {chance.choice(PATHS)}"
             f" HTTP/{chance.choice(('1.1', '1.1', '1.1', '1.0', '2', '0.9'))}",
             "host: localhost"]  # fmt: skip
    if kind > 0.4:
        lines += chance.choices(HEADERS, k=chance.randrange(4))
    if body:
        length = len(body) + (chance.choice((-1, 1, 1000)) if chance.random() < 0.02 else 0)
        lines.append(f"content-length: {max(length, 0)}")
    request = bytearray("\r\n".join([*lines, "", ""]).encode() + body)
    if kind > 0.7:
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(min(len(request), 400))
            request[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(request) * chance.choice((1, 1, 1, 1, 3))


def exchange(place: Place, sent: bytes) -> bytes:
    """All that comes back until the daemon closes; fails if it hangs."""
    began_s = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(HANG_S)
        while True:
            try:
                client.connect(str(place.socket))
                break
            except BlockingIOError:  # the backlog is full
                time.sleep(0.01)
        got = bytearray()
        try:
            client.sendall(sent + LAST)
            while part := client.recv(1 << 16):
                got += part
        except (BrokenPipeError, ConnectionResetError):
            got += _rest(client)
        assert time.monotonic() - began_s < HANG_S, sent[:300]
        return bytes(got)


def _rest(client: socket.socket) -> bytes:
    try:
        return client.recv(1 << 20)
    except OSError:
        return b""


def statuses(got: bytes) -> list[int]:
    """The status of each answer; fails unless all of the bytes are answers as they should be."""
    found = []
    while got:
        head, end, got = got.partition(b"\r\n\r\n")
        match = re.match(rb"HTTP/1\.1 (\d{3}) [^\r\n]*(\r\n[a-z-]+: [^\r\n]*)*$", head)
        assert end and match, head[:300]
        status = int(match[1])
        if status == 100:
            continue
        length = re.search(rb"content-length: (\d+)", head)
        if length:
            body, got = got[: int(length[1])], got[int(length[1]) :]
            assert len(body) == int(length[1])
        else:
            assert b"transfer-encoding: chunked" in head, head
            body, got = _unchunked(got)
        if b"application/json" in head:
            answer = json.loads(body)
            assert status < 400 or answer["error"].keys() == {"code", "message", "hint"}
        found.append(status)
    return found


def _unchunked(got: bytes) -> tuple[bytes, bytes]:
    whole = b""
    while True:
        size, _, got = got.partition(b"\r\n")
        if size == b"0":
            return whole, got.removeprefix(b"\r\n")
        whole, got = whole + got[: int(size, 16)], got[int(size, 16) + 2 :]


def test_hostile_requests_are_answered_well_and_nothing_hangs(daemon: Place) -> None:
    chance = random.Random(7)
    requests = [hostile(chance) for _ in range(REQUESTS)]
    with ThreadPoolExecutor(AT_ONCE) as clients:
        replies = list(clients.map(lambda one: statuses(exchange(daemon, one)), requests))
    seen = Counter(status for reply in replies for status in reply)
    assert {200, 400, 403, 404, 405, 408, 431} <= seen.keys() <= {
        200, 400, 403, 404, 405, 408, 431, 503
    }, seen  # fmt: skip
    assert daemon.documents("Who met Charles Babbage?", k=1) == ["ada.md"]
    log = daemon.log.read_text()
    assert "Traceback" not in log and "request failed" not in log, log[-3000:]
