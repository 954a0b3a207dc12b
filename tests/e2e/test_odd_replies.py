"""Whatever answers in place of a daemon: an error says so and what to do, and nothing hangs."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from typing_extensions import is_typeddict

from hopsyncd.api.app import ENDPOINTS
from hopsyncd.client import AsyncClient, Client, RequestFailed, calls
from hopsyncd.client.protocol import describe_misfit
from hopsyncd.errors import DaemonUnavailable
from tests.e2e.daemon import Place, new_place
from tests.fakes.odd_server import http, odd_server

PASSAGE = {"id": "00e1f7fe7a4d9d0c", "text": "x", "heading": [], "also_in": [], "score": 1.0,
           "strength": "strong", "similar": []}  # fmt: skip
NOWHERE = dict.fromkeys(("source", "document", "lines", "unit", "span", "location", "origin"), None)
QUERY: dict[str, Any] = {
    "version": 1,
    "strategy": "hop",
    "profile": None,
    "reasoner": None,
    "llm": None,
    "degraded": [],
    "passages": [{**PASSAGE, **NOWHERE, "hops": [], "statements": []}],
    "logic": None,
    "understood": None,
}


def with_query(**other: Any) -> bytes:
    return http(json.dumps({**QUERY, **other}).encode())


HEAD = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
NDJSON = b"Content-Type: application/x-ndjson\r\n"
ODD = {
    "nothing": b"",
    "not HTTP": b"\x00\x01\x02 SSH-2.0-OpenSSH\r\n\r\n",
    "only a status": b"HTTP/1.1 200 OK\r\n",
    "a bad status": b"HTTP/1.1 abc OK\r\n\r\n",
    "a bad length": HEAD + JSON + b"Content-Length: many\r\n\r\n",
    "a bad chunk": HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "endless headers": HEAD + b"X-A: b\r\n" * 5000,
    "a long header": b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 200_000 + b"\r\n\r\n",
    "a page": http(b"<html>It works!</html>", "text/html"),
    "no type": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "another type": http(json.dumps(QUERY).encode(), "text/plain"),
    "no JSON": http(b"hello"),
    "no UTF-8": http(b'{"version": "\xff"}'),
    "deep JSON": http(b"[" * 200_000),
    "cut off": http(json.dumps(QUERY).encode())[:-10],
    "a list": http(b"[]"),
    "a text": http(b'"version"'),
    "null": http(b"null"),
    "another object": http(b'{"status": "ok"}'),
    "no passages": with_query(passages=None),
    "a number of passages": with_query(passages=3),
    "passages of another kind": with_query(passages=["x"]),
    "a passage without text": with_query(passages=[{"id": "x"}]),
    "a score that is none": with_query(passages=[{**QUERY["passages"][0], "score": "x"}]),
    "an error without a reason": http(b"{}", status="500 Internal Server Error"),
    "an error of another shape": http(b'{"error": "x"}', status="400 Bad Request"),
    "an error that is a list": http(b"[1]", status="503 Service Unavailable"),
    "a page for an error": http(b"<h1>502</h1>", "text/html", "502 Bad Gateway"),
    "a redirect": b"HTTP/1.1 307 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
    "a switch": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
}  # fmt: skip
ODD_EVENTS = {
    "no object": b"[]\n",
    "no event": b"{}\n",
    "an event that is a number": b'{"event": 3}\n',
    "an answer without one": b'{"event": "answer"}\n',
    "an answer of another shape": b'{"event": "answer", "answer": {"version": 1}}\n',
    "an error without a reason": b'{"event": "error"}\n',
    "an error of another shape": b'{"event": "error", "status": "x", "error": []}\n',
    "an end before the answer": b'{"event": "progress"}\n',
    "half a line": b'{"event": "prog',
    "no UTF-8": b'{"event": "\xff"}\n',
}


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as made:
        made.socket.parent.mkdir(parents=True, mode=0o700)
        yield made


async def ask(path: Path, timeout_s: float | None = None) -> None:
    async with AsyncClient(path, timeout_s=timeout_s) as client:
        await client.query("x")


async def listen(path: Path) -> None:
    async with AsyncClient(path) as client:
        [event async for event in client.ask_events("x")]


def is_helpful(error: Exception, path: Path) -> bool:
    assert isinstance(error, DaemonUnavailable | RequestFailed)
    return bool(error.why) and (isinstance(error, RequestFailed) or str(path) in str(error))


@pytest.mark.parametrize("name", ODD)
def test_an_invalid_reply_raises_an_error_of_the_client(place: Place, name: str) -> None:
    with odd_server(place.socket, ODD[name]):
        for act in (
            lambda: Client(place.socket).query("x"),
            lambda: asyncio.run(ask(place.socket)),
            lambda: list(Client(place.socket).ask_events("x")),
            lambda: asyncio.run(listen(place.socket)),
        ):
            with pytest.raises((DaemonUnavailable, RequestFailed)) as failed:
                act()
            assert is_helpful(failed.value, place.socket)


@pytest.mark.parametrize("name", ODD_EVENTS)
def test_an_invalid_event_raises_an_error_of_the_client(place: Place, name: str) -> None:
    with odd_server(place.socket, HEAD + NDJSON + b"\r\n" + ODD_EVENTS[name]):
        for act in (
            lambda: list(Client(place.socket).ask_events("x")),
            lambda: asyncio.run(listen(place.socket)),
        ):
            with pytest.raises((DaemonUnavailable, RequestFailed)) as failed:
                act()
            assert is_helpful(failed.value, place.socket)


@pytest.mark.parametrize("name", ["not HTTP", "a page", "another object", "a list", "deep JSON"])
def test_a_command_says_what_to_do(place: Place, name: str) -> None:
    with odd_server(place.socket, ODD[name]):
        for command in (("query", "x"), ("status",), ("sync", "--wait"), ("log",), ("doctor",)):
            ran = place.run(*command)
            assert ran.returncode == 1, ran
            assert "Traceback" not in ran.stderr
            assert "restart" in (ran.stdout + ran.stderr).lower()


def test_control_sequences_in_a_reply_do_not_reach_the_terminal(place: Place) -> None:
    told = {"error": {"code": "x", "message": "\x1b[2J\ud800 gone", "hint": "\x07"}}
    with odd_server(place.socket, http(json.dumps(told).encode(), status="400 Bad Request")):
        ran = place.run("status")
    assert ran.returncode == 1 and "gone" in ran.stderr
    assert "\x1b" not in ran.stderr and "\x07" not in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_answer_that_arrives_before_the_request_is_sent_is_read(place: Place) -> None:
    with odd_server(place.socket, http(json.dumps(QUERY).encode())):
        assert Client(place.socket).query("x" * (4 << 20)) == QUERY


def test_a_slowly_sent_reply_ends_at_the_deadline(place: Place) -> None:
    with odd_server(place.socket, HEAD + b"X-A: b\r\n" * 90, pause_s=0.05):
        began_s = time.monotonic()
        with pytest.raises(DaemonUnavailable, match="in time"):
            Client(place.socket, timeout_s=1).query("x")
        with pytest.raises(DaemonUnavailable, match="in time"):
            asyncio.run(ask(place.socket, timeout_s=1))
        assert time.monotonic() - began_s < 15


def test_an_endless_reply_is_abandoned(place: Place) -> None:
    """Of 4 GiB no more is taken than an answer may have."""
    with odd_server(place.socket, HEAD + JSON + b"\r\n", filler=b" " * (1 << 20)):
        with pytest.raises(DaemonUnavailable, match="longer than 256 MiB"):
            Client(place.socket).query("x")
        with pytest.raises(DaemonUnavailable, match="longer than 256 MiB"):
            asyncio.run(ask(place.socket))


def test_an_endless_line_is_abandoned(place: Place) -> None:
    with odd_server(place.socket, HEAD + NDJSON + b"\r\n", filler=b" " * (1 << 20)):
        with pytest.raises(DaemonUnavailable, match="longer than 256 MiB"):
            list(Client(place.socket).ask_events("x"))
        with pytest.raises(DaemonUnavailable, match="longer than 256 MiB"):
            asyncio.run(listen(place.socket))


def test_unknown_fields_of_a_reply_are_accepted() -> None:
    end: dict[str, Any] = {"id": "x", "heading": [], "document": None}
    hop = {"from": end, "to": end, "question": "x", "asked_by": "a new kind", "share": 1}
    (passage,) = QUERY["passages"]
    newer = {**QUERY, "new": 1, "passages": [{**passage, "hops": [hop], "statements": []}]}
    assert describe_misfit("QueryAnswer", newer) is None
    assert describe_misfit("QueriesAnswer", {"answers": [newer]}) is None


def test_the_error_names_the_defect_of_a_reply() -> None:
    told = describe_misfit("QueryAnswer", {**QUERY, "passages": [{}]})
    assert told == "the answer.passages[0].source: field required"
    told = describe_misfit("QueryAnswer", {**QUERY, "version": True})
    assert told == "the answer.version: input should be a valid integer"


def test_every_call_names_the_type_of_its_answer() -> None:
    samples = {
        **dict.fromkeys(("query", "ask", "pause", "resume", "tag", "untag", "purge"), ("x",)),
        **dict.fromkeys(("watch", "watch_changes", "unwatch", "allow_watch"), ("x",)),
        **{"queries": ([],), "restore": ("1",), "backup": ("/x",), "diff": ("1",)},
        **{
            "passage": ("x",),
            "page_image": ("x",),
            "neighbours": ("x",),
            "paths": ("x", "y"),
            "remove": ("x",),
        },
        **dict.fromkeys(("document", "file", "history", "note"), ("s", "d")),
    }
    for endpoint in ENDPOINTS:
        call = getattr(calls, endpoint.operation)(*samples.get(endpoint.operation, ()))
        types = get_args(endpoint.answer) or (endpoint.answer,)
        names = [type_.__name__ for type_ in types if is_typeddict(type_)]
        assert call.answer == (names[0] if names else ""), endpoint.operation


@pytest.mark.parametrize("place_text", ["{}", "{}/../run/hopsyncd.sock"])
def test_a_path_may_be_written_as_text(place: Place, place_text: str) -> None:
    written = place_text.format(place.socket if place_text == "{}" else place.socket.parent)
    with odd_server(place.socket, http(json.dumps(QUERY).encode())):
        assert Client(written).query("x") == QUERY

        async def told() -> Any:
            async with AsyncClient(written) as client:
                return await client.query("x")

        assert asyncio.run(told()) == QUERY


@pytest.mark.parametrize("written", ["none.sock", "x:y", "host:99999999", "~/none", ".:1/2"])
def test_a_text_that_is_no_address_is_reported_as_a_path(written: str) -> None:
    with pytest.raises(DaemonUnavailable, match="nothing listens on this socket"):
        Client(written).health()
