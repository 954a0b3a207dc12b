"""`hopsyncd mcp --http`, asked by the official client: search, get, notes, two agents at once."""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult, TextContent

from hopsyncd.config.values import LimitsConfig
from tests.e2e.daemon import DEADLINE_S, SMALL, Place, new_place, source
from tests.fakes.port import free_port

READING = ["search", "ask", "get", "neighbours", "status", "history", "changes"]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("door.md", "# Bronze Door\n\nBronze Door is a film by Kaltenbrunn.\n")
        made.write("people/mira.md", "# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava.\n")
        (made.notes / "inbox").mkdir()
        made.configure(f'[mcp]\ninbox = "{made.notes}/inbox"\n' + source("notes", made.notes))
        made.start()
        made.sync()
        yield made


@contextmanager
def served(place: Place, *flags: str) -> Iterator[str]:
    program = [sys.executable, "-m", "hopsyncd", "mcp", *flags]
    program += ["--http", f"127.0.0.1:{free_port()}"]
    environment = {**os.environ, "HOPSYNCD_HOME": str(place.home)}
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        try:
            address = running.stdout.readline().strip()
            place.until(lambda: httpx2.get(address, timeout=DEADLINE_S).status_code == 401)
            yield address
        finally:
            running.terminate()
            assert running.wait(60) == 0


@pytest.fixture(scope="module")
def reading(place: Place) -> Iterator[str]:
    with served(place) as address:
        yield address


@pytest.fixture(scope="module")
def writing(place: Place) -> Iterator[str]:
    with served(place, "--allow-write") as address:
        yield address


def token(place: Place) -> str:
    return (place.home / "data/mcp_token").read_text().strip()


@asynccontextmanager
async def agent(address: str, secret: str) -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {secret}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        streamable_http_client(address, http_client=http) as streams,
        ClientSession(*streams) as client,
    ):
        await client.initialize()
        yield client


def asked(place: Place, address: str, act: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with agent(address, token(place)) as client:
            return await act(client)

    return asyncio.run(run())


def called(place: Place, address: str, name: str, /, **given: Any) -> CallToolResult:
    result: CallToolResult = asked(place, address, lambda client: client.call_tool(name, given))
    return result


def content_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent)
    return dict(json.loads(content.text))


def test_an_agent_searches_and_reads(place: Place, reading: str) -> None:
    tools = asked(place, reading, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == READING
    found = content_of(called(place, reading, "search", question="Where was Kaltenbrunn born?"))
    ids = {document["document"]: document["passages"][0]["id"] for document in found["documents"]}
    reply = content_of(called(place, reading, "get", passage=ids["people/mira.md"]))
    assert "Ostrava" in reply["quote"]


def test_a_search_can_be_narrowed(place: Place, reading: str) -> None:
    found = content_of(
        called(place, reading, "search", question="Kaltenbrunn", filters=["path:people"])
    )
    assert {document["document"] for document in found["documents"]} == {"people/mira.md"}


def test_without_the_write_right_an_agent_writes_nothing(place: Place, reading: str) -> None:
    for name, given in (
        ("note", {"title": "x", "text": "y"}),
        ("sync", {}),
        ("tag", {"name": "x"}),
    ):
        result = called(place, reading, name, **given)
        assert result.is_error
    assert list((place.notes / "inbox").iterdir()) == []


def test_a_note_goes_into_the_inbox_and_nowhere_else(place: Place, writing: str) -> None:
    title = "../../evil: Kaltenbrunn's birthday"
    for _ in range(2):
        done = content_of(
            called(place, writing, "note", title=title, text="It is in June.", tags=["people"])
        )
        assert Path(done["file"]).parent == place.notes / "inbox"
    first, second = sorted((place.notes / "inbox").iterdir())
    assert first.name.endswith("-evil-kaltenbrunn-s-birthday-2.md")
    text = second.read_text()
    assert text == f"---\ntags: [people]\n---\n\n# {title}\n\nIt is in June.\n"
    assert stat.S_IMODE(second.stat().st_mode) == 0o600
    assert not list(place.base.glob("evil*")) and not list(place.notes.glob("evil*"))
    place.sync()
    assert any(
        "inbox/" in document for document in place.documents("When is Kaltenbrunn's birthday?")
    )


def test_a_link_in_the_inbox_leads_nowhere(place: Place, writing: str) -> None:
    done = content_of(called(place, writing, "note", title="Linked", text="one"))
    file = Path(done["file"])
    target = place.base / "precious"
    file.unlink()
    file.symlink_to(target)
    again = content_of(called(place, writing, "note", title="Linked", text="two"))
    assert Path(again["file"]) != file and not target.exists()


def test_the_number_of_notes_in_a_day_is_limited(place: Place, writing: str) -> None:
    inbox = place.notes / "inbox"
    today = f"{datetime.now().astimezone():%Y-%m-%d}"
    made = [inbox / f"{today}-filled-{number}.md" for number in range(100)]
    for file in made:
        file.touch()
    result = called(place, writing, "note", title="One more", text="x")
    for file in made:
        file.unlink()
    (told,) = result.content
    assert result.is_error and isinstance(told, TextContent)
    assert "you wrote 100 notes today" in told.text and "one note" in told.text
    content_of(called(place, writing, "note", title="One more", text="x"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"title": "x", "text": "x" * 100_001}, "at most 100000 characters"),
        ({"title": " \n", "text": "x"}, "title or the text is missing"),
        ({"title": "x", "text": "x", "tags": ["a]\nevil: true"]}, "not a valid tag"),
    ],
)
def test_an_invalid_note_is_refused_with_the_reason(
    place: Place, writing: str, given: dict[str, Any], why: str
) -> None:
    result = called(place, writing, "note", **given)
    (told,) = result.content
    assert result.is_error and isinstance(told, TextContent) and why in told.text


def test_two_agents_work_at_once(place: Place, reading: str) -> None:
    async def both() -> list[dict[str, Any]]:
        async with agent(reading, token(place)) as one, agent(reading, token(place)) as other:
            questions = ("Bronze Door", "Kaltenbrunn", "Ostrava", "film") * 3
            results = await asyncio.gather(
                *(
                    client.call_tool("search", {"question": question})
                    for question in questions
                    for client in (one, other)
                )
            )
        return [content_of(result) for result in results]

    found = asyncio.run(both())
    assert len(found) == 24 and all(one["documents"] for one in found)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_strangers_browsers_and_rebound_names_are_refused(
    place: Place, reading: str, headers: dict[str, str], status: int
) -> None:
    own = {} if status == 401 else {"Authorization": f"Bearer {token(place)}"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    sent = {**own, **accept, **headers}
    answer = httpx2.post(reading, json=call, headers=sent, timeout=DEADLINE_S)
    assert answer.status_code == status and "search" not in answer.text


def test_idle_connections_lock_no_agent_out(place: Place, reading: str) -> None:
    parts = urlsplit(reading)
    with ExitStack() as held:
        for _ in range(2 * LimitsConfig().connections):
            idle = socket.create_connection((parts.hostname or "", parts.port or 0))
            held.enter_context(idle)
        assert content_of(called(place, reading, "status"))["version"]


def test_only_loopback_addresses_are_served(place: Place) -> None:
    refused = place.run("mcp", "--http", "0.0.0.0:7719")
    assert refused.returncode == 2 and "other machines" in refused.stderr
