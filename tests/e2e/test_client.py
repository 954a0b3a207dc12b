"""The Python client, blocking and asynchronous, against a running daemon."""

import asyncio
import os
import pwd
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.api.app import ENDPOINTS
from hopsyncd.client import AsyncClient, Client, RequestFailed, calls
from hopsyncd.errors import DaemonUnavailable
from hopsyncd.responses.results import Event
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.films import FILMS
from tests.fakes.other_user import as_user
from tests.fakes.port import free_port

ASKED = "Where did Mira Kaltenbrunn grow up?"
# What stands still between two calls; a scan that ends in the middle moves the times of others.
SAME = ("query", "ask", "documents", "log", "openapi")
WITH = {"query": (ASKED,), "ask": (ASKED,)}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        made.configure(
            f'[access]\ntcp = "127.0.0.1:{free_port()}"\n[watch]\nenabled = false\n'
            + source("notes", made.notes)
        )
        made.start()
        made.sync()
        yield made


@pytest.fixture(scope="module")
def client(place: Place) -> Client:
    return Client(place.socket)


def told(client: AsyncClient, method: str) -> Any:
    return getattr(client, method)(*WITH.get(method, ()))


def test_both_clients_have_a_method_for_every_endpoint() -> None:
    for endpoint in ENDPOINTS:
        assert callable(getattr(Client, endpoint.operation))
        assert callable(getattr(AsyncClient, endpoint.operation))


def test_the_methods_send_what_the_endpoints_take() -> None:
    endpoints = {endpoint.operation: endpoint for endpoint in ENDPOINTS}
    id_ = "00e1f7fe7a4d9d0c"
    given: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("query", "ask", "watch", "purge"), ("x",)),
        **dict.fromkeys(("pause", "resume", "remove", "tag", "untag"), ("x",)),
        **dict.fromkeys(
            ("passage", "page_image", "neighbours", "watch_changes", "unwatch"), (id_,)
        ),
        **{"queries": ([{"question": "x"}],), "restore": ("1",), "backup": ("/x",), "diff": ("1",)},
        **{"paths": (id_, id_), "document": ("s", "d"), "allow_watch": (1,)},
        **dict.fromkeys(("history", "file", "note"), ("s", "d")),
    }
    for name, endpoint in endpoints.items():
        call = getattr(calls, name)(*given.get(name, ()))
        assert call.method == endpoint.method
        assert call.path.split("?")[0] == endpoint.path.replace("{id}", id_).replace("{name}", "x")
        assert call.is_text == (endpoint.answer is str)
        if call.body is not None:
            endpoint.request.model_validate(call.body)


def test_the_asynchronous_client_gets_the_same_answers(place: Place, client: Client) -> None:
    async def ask() -> dict[str, Any]:
        async with AsyncClient(place.socket) as other:
            answers = await asyncio.gather(*(told(other, method) for method in SAME))
            return dict(zip(SAME, answers, strict=True))

    assert asyncio.run(ask()) == {
        method: getattr(client, method)(*WITH.get(method, ())) for method in SAME
    }


def test_the_client_returns_metrics_as_text(place: Place, client: Client) -> None:
    async def ask() -> str:
        async with AsyncClient(place.socket) as other:
            return await other.metrics()

    for metrics in (client.metrics(), asyncio.run(ask())):
        assert f"\nhopsyncd_documents {client.status()['documents']}.0\n" in metrics


def test_threads_may_share_a_client(client: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.query(ASKED, k=1), range(40)))
    assert all(answer == answers[0] for answer in answers)


def test_the_last_event_of_a_stream_is_the_answer(place: Place, client: Client) -> None:
    events = list(client.ask_events(ASKED))
    assert [event["event"] for event in events[:3]] == ["progress", "progress", "text"]
    answer = client.ask(ASKED)
    assert events[-1] == {"event": "answer", "answer": answer}
    assert (
        "".join(event["text"] for event in events if event["event"] == "text") == answer["answer"]
    )

    async def listen() -> list[Event]:
        async with AsyncClient(place.socket) as other:
            return [event async for event in other.ask_events(ASKED)]

    assert asyncio.run(listen()) == events
    last = list(client.sync_events())[-1]
    assert last["event"] == "answer" and last["answer"]["sources"][0]["name"] == "notes"


def test_a_line_end_in_a_name_ends_no_event(place: Place, client: Client) -> None:
    name = "odd\u0085\u2028.md"
    place.write(name, "# Glass Harp\n\nThe Glass Harp is played by Ansgar Nyborg.\n")
    place.sync()

    async def listen() -> Event:
        async with AsyncClient(place.socket) as other:
            return [event async for event in other.ask_events("Who plays the Glass Harp?")][-1]

    for last in (asyncio.run(listen()), list(client.ask_events("Who plays the Glass Harp?"))[-1]):
        assert last["event"] == "answer"
        assert name in [citation["document"] for citation in last["answer"]["citations"]]


def test_closing_an_iterator_does_not_disturb_the_daemon(client: Client) -> None:
    with closing(client.ask_events(ASKED)) as events:
        assert next(events)["event"] == "progress"
    assert client.health()["status"] == "ok"


def test_an_error_of_the_daemon_is_raised_with_its_code(place: Place, client: Client) -> None:
    with pytest.raises(RequestFailed) as failed:
        client.query(ASKED, at="nowhere")
    assert (failed.value.status, failed.value.code) == (404, "no_such_version")
    with pytest.raises(RequestFailed) as failed:
        list(client.ask_events(ASKED, at="nowhere"))
    assert (failed.value.status, failed.value.code) == (404, "no_such_version")
    with pytest.raises(RequestFailed) as failed:
        list(client.ask_events(""))
    assert (failed.value.status, failed.value.code) == (400, "bad_request")

    async def ask() -> None:
        async with AsyncClient(place.socket) as other:
            with pytest.raises(RequestFailed, match="nowhere"):
                await other.query(ASKED, at="nowhere")
            with pytest.raises(RequestFailed, match="nowhere"):
                [event async for event in other.ask_events(ASKED, at="nowhere")]

    asyncio.run(ask())


def test_over_tcp_the_token_is_asked_for(place: Place, client: Client) -> None:
    config = (place.home / "config.toml").read_text()
    address = config.partition('tcp = "')[2].partition('"')[0]
    token = place.run("token", "create", "--user", "ann", "--role", "admin").stdout.strip()
    assert Client(address, token).query(ASKED) == client.query(ASKED)
    with pytest.raises(RequestFailed) as failed:
        Client(address).health()
    assert failed.value.status == 401

    async def ask() -> Any:
        async with AsyncClient(address, token) as other:
            return await other.query(ASKED)

    assert asyncio.run(ask()) == client.query(ASKED)


def test_if_no_daemon_listens_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnavailable, match="hopsyncd serve"):
        Client(tmp_path / "none.sock").health()

    async def ask() -> None:
        async with AsyncClient(tmp_path / "none.sock") as other:
            with pytest.raises(DaemonUnavailable, match="hopsyncd serve"):
                await other.health()
            with pytest.raises(DaemonUnavailable, match="hopsyncd serve"):
                [event async for event in other.ask_events(ASKED)]

    asyncio.run(ask())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take on another user's rights")
def test_the_error_for_a_forbidden_socket_does_not_say_to_start_a_daemon(place: Place) -> None:
    async def ask() -> None:
        async with AsyncClient(place.socket) as other:
            await other.health()

    def told() -> list[str]:
        errors = []
        for act in (Client(place.socket).health, lambda: asyncio.run(ask())):
            try:
                act()
            except DaemonUnavailable as error:
                errors.append(str(error))
        return errors

    assert told() == []
    refused = as_user(pwd.getpwnam("nobody").pw_uid, [], told)
    assert len(refused) == 2, refused
    for message in refused:
        assert "you have no permission to use this socket" in message
        assert "docs/security.md" in message and "hopsyncd serve" not in message


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b'HTTP/1.1 200 OK\r\n\r\n{"event":"progress"}\n',
        b'HTTP/1.1 200 OK\r\n\r\n{"event":"prog',
    ],
)
def test_an_answer_that_is_cut_off_is_never_taken_for_one(sent: bytes) -> None:
    with new_place(SMALL) as made, socket.socket(socket.AF_UNIX) as listener:
        address = made.base / "s"
        listener.bind(str(address))
        listener.listen()

        def answer() -> None:
            for _ in range(2 if b"event" in sent else 3):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(sent)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(DaemonUnavailable):
            list(Client(address).ask_events(ASKED))

        async def ask() -> None:
            async with AsyncClient(address) as other:
                with pytest.raises(DaemonUnavailable):
                    [event async for event in other.ask_events(ASKED)]

        asyncio.run(ask())
        if b"event" not in sent:
            with pytest.raises(DaemonUnavailable):
                Client(address).query(ASKED)
        thread.join()


def test_the_blocking_client_starts_without_the_heavy_parts() -> None:
    listed = "import sys, hopsyncd.client; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "hopsyncd.client" in loaded
    assert not loaded & {"numpy", "torch", "httpx", "pydantic", "starlette", "typing_extensions"}
