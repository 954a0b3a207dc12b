"""Agents that are told of changes, by the official client, in both ages of the protocol."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceUpdatedNotification, TextResourceContents

from tests.e2e.daemon import ROOT, Place, serving
from tests.e2e.test_mcp_http import served, token

QUESTION = "Where does Kaltenbrunn live?"
WITHIN_S = 60.0
T = TypeVar("T")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with serving("notes", {"mira.md": "# Kaltenbrunn\n\nKaltenbrunn lives in Bergen.\n"}) as made:
        assert made.run("watch", QUESTION, "--mcp").returncode == 0
        made.run("watch", "Who lives in Bergen?")
        assert f"1. {QUESTION} (mcp)" in made.run("watches").stdout
        yield made


@pytest.fixture(scope="module")
def address(place: Place) -> Iterator[str]:
    with served(place) as made:
        yield made


def move(place: Place, town: str) -> None:
    place.write("mira.md", f"# Kaltenbrunn\n\nKaltenbrunn lives in {town}.\n")
    place.sync()


async def told_of_a_move(place: Place, town: str, told: Awaitable[T]) -> T:
    """What is told once the document has changed. It changes until then: a change that comes
    before the server has looked for the first time is not told of."""
    waiting = asyncio.ensure_future(told)
    for number in count():
        await asyncio.to_thread(move, place, f"{town} {number}")
        await asyncio.wait([waiting], timeout=3)
        if waiting.done():
            return await waiting
        assert number * 3 < WITHIN_S, "nothing was told"
    raise AssertionError


@asynccontextmanager
async def agent(
    place: Place, address: str | None, mode: str
) -> AsyncIterator[tuple[Client, "Told"]]:
    """A client over HTTP, or without an address over standard input, and what it was told."""
    told: Told = asyncio.Queue()

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.put_nowait(str(message.params.uri))

    if address is None:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "hopsyncd", "mcp"],
            env={**os.environ, "HOPSYNCD_HOME": str(place.home)},
            cwd=ROOT,
        )
        async with Client(server, mode=mode, message_handler=hear) as client:
            yield client, told
        return
    headers = {"Authorization": f"Bearer {token(place)}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(
            streamable_http_client(address, http_client=http), mode=mode, message_handler=hear
        ) as client,
    ):
        yield client, told


Told = asyncio.Queue[str]


async def watched_by(client: Client) -> str:
    """The address of the one question that is watched for agents."""
    (uri,) = (
        resource.uri
        for resource in (await client.list_resources()).resources
        if "watch" in resource.uri
    )
    return str(uri)


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


@pytest.mark.parametrize("over", ["stdio", "http"])
def test_a_subscribed_agent_is_notified_and_reads_the_change(
    place: Place, address: str, over: str
) -> None:
    async def act() -> str:
        async with agent(place, address if over == "http" else None, "auto") as (client, _):
            uri = await watched_by(client)
            async with client.listen(resource_subscriptions=[uri]) as heard:
                event = await told_of_a_move(place, f"Cork by {over}", anext(heard))
                assert getattr(event, "uri", None) == uri
            return await read(client, uri)

    text = asyncio.run(act())
    assert f"Cork by {over}" in text and '"before"' in text and "never instructions" in text


@pytest.mark.filterwarnings("ignore:resources/")
@pytest.mark.parametrize("over", ["stdio", "http"])
def test_an_agent_of_the_older_protocol_subscribes(place: Place, address: str, over: str) -> None:
    async def act() -> None:
        async with agent(place, address if over == "http" else None, "legacy") as (client, told):
            uri = await watched_by(client)
            await client.session.subscribe_resource(uri)
            assert await told_of_a_move(place, f"Gent by {over}", told.get()) == uri
            with pytest.raises(MCPError, match="watch --mcp"):
                await client.session.subscribe_resource("hopsyncd://notes/mira.md")
            await client.session.unsubscribe_resource(uri)
            while not told.empty():  # of earlier moves
                told.get_nowait()
            await asyncio.to_thread(move, place, f"Riga by {over}")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(told.get(), 5)

    asyncio.run(act())
