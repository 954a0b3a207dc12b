"""What a connection takes for a head, for a body, and for what follows it."""

import asyncio
import json
import socket
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from hopsyncd.api.connection import MAX_HEAD_BYTES, ClientConnection, Connections, Timeouts
from hopsyncd.api.metrics import Load

DEADLINE_S = 60.0
CHUNKED = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n"
GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"

Told = list[tuple[int, Any]]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says how long the body is, and which headers came."""
    request = Request(scope, receive)
    told = {"body": len(await request.body()), "headers": sorted(request.headers)}
    await JSONResponse(told)(scope, receive, send)


def connection() -> ClientConnection:
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)
    config.load()
    timeouts = Timeouts(DEADLINE_S, DEADLINE_S)
    return ClientConnection(
        config=config,
        server_state=ServerState(),
        app_state={},
        connections=Connections(1, Load()),
        timeouts=timeouts,
    )


async def exchanged(parts: tuple[bytes, ...], answers: int) -> Told:
    ours, theirs = socket.socketpair()
    _, made = await asyncio.get_running_loop().connect_accepted_socket(connection, theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    for part in parts:
        made.data_received(part)
    got = []
    for _ in range(answers):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].split()[0])
        got.append((int(head.split()[1]), json.loads(await reader.readexactly(length))))
    writer.close()
    return got


def told(*parts: bytes, answers: int = 1) -> Told:
    """Status and body of so many answers to what is received in these parts."""
    return asyncio.run(asyncio.wait_for(exchanged(parts, answers), DEADLINE_S))


def test_bytes_after_a_body_are_no_header() -> None:
    assert told(CHUNKED + b"origin: http://evil.example\r\n\r\n") == [
        (200, {"body": 5, "headers": ["transfer-encoding"]})
    ]


def test_headers_and_trailers_above_the_limit_are_refused() -> None:
    line = b"x: " + b"y" * (MAX_HEAD_BYTES // 4) + b"\r\n"
    one_long = (b"x: ", *[b"y" * 1000] * 20)
    for begun in (GET[:-2], CHUNKED):
        for more in ([line] * 4, [line * 4], one_long):
            ((status, answer),) = told(begun, *more)
            assert (status, answer["error"]["code"]) == (431, "bad_request")


def test_a_long_body_is_no_part_of_the_next_head() -> None:
    length = 4 * MAX_HEAD_BYTES
    post = b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % length + b"x" * length
    first, second = told(post + GET[:9], GET[9:], answers=2)
    assert first == (200, {"body": length, "headers": ["content-length"]})
    assert second == (200, {"body": 0, "headers": ["host"]})


def test_a_request_that_is_no_http_costs_those_before_it_no_answer() -> None:
    broken = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nno length\r\n"
    for count in (1, 3):
        *whole, last = told(GET * count + broken, answers=count + 1)
        assert whole == [(200, {"body": 0, "headers": ["host"]})] * count
        assert (last[0], last[1]["error"]["code"]) == (400, "bad_request")
