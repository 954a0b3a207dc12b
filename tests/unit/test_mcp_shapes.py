"""What an agent is told of a passage and of a hop, in few words, and that a question changed."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from unittest.mock import Mock

import pytest
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent

from hopsyncd.api.mcp.document_server import WATCHES, WatchBus
from hopsyncd.api.mcp.shapes import describe_document, describe_hop, describe_passage
from hopsyncd.api.mcp.tools import Tools
from hopsyncd.client import Client
from hopsyncd.errors import DaemonUnavailable, NotFound

MAIL: dict[str, Any] = {
    "id": "00000000000000aa",
    "source": "mail",
    "document": "1.eml",
    "location": "line 3",
    "heading": ["Dinner"],
    "text": "At eight.",
    "also_in": [],
    "origin": None,
}


def test_the_author_and_date_of_a_passage_are_named_and_a_long_url_is_left_out() -> None:
    origin = {"author": "Ada <ada@example.org>", "date": "2026-11-01T09:00:00+00:00"}
    mail = {**MAIL, "origin": {**origin, "url": "https://x.org/" + "a" * 150}}
    assert describe_document(mail, {}) == {
        "source": "mail",
        "document": "1.eml",
        "title": "Dinner",
        "author": "Ada <ada@example.org>",
        "date": "2026-11-01",
    }


@pytest.mark.parametrize("origin", [None, {}])
def test_without_metadata_no_author_or_date_is_named(origin: object) -> None:
    brief = describe_document({**MAIL, "origin": origin}, {})
    assert brief == {"source": "mail", "document": "1.eml", "title": "Dinner"}


@pytest.mark.parametrize(
    ("asked_by", "verb"), [("link", "links to"), ("backlink", "is linked from")]
)
def test_a_hop_over_a_link_names_the_place_of_the_link(asked_by: str, verb: str) -> None:
    ends = {"from": {"heading": ["Ada"]}, "to": {"heading": [], "document": "b.md"}}
    line = describe_hop({**ends, "asked_by": asked_by, "question": "See the inventor."})
    assert line == f"Ada {verb} b.md: See the inventor."


class Watched:
    """A daemon with one question that is watched for agents, and that may be away."""

    def __init__(self) -> None:
        self.changes = 0
        self.is_away = False
        self.asked = 0

    def watches(self) -> Mapping[str, Any]:
        self.asked += 1
        if self.is_away:
            raise DaemonUnavailable("Cannot ask", "it is away", "Start it")
        return {"watches": [{"id": 7, "action": ["mcp"], "changes": self.changes, "changed": None}]}


def test_a_listener_that_fails_and_a_daemon_that_is_away_keep_no_change_from_the_others() -> None:
    async def act() -> None:
        daemon = Watched()
        bus = WatchBus(cast(Client, daemon), ask_s=0.001)
        heard: asyncio.Queue[ServerEvent] = asyncio.Queue()

        def fail(_: ServerEvent) -> None:
            raise RuntimeError("a client went away")

        async def until_asked_again() -> None:
            before = daemon.asked
            while daemon.asked < before + 3:
                await asyncio.sleep(0.001)

        ends = [bus.subscribe(fail), bus.subscribe(heard.put_nowait)]
        await until_asked_again()
        for is_away in (False, True):
            daemon.is_away = is_away
            daemon.changes += 1
            await until_asked_again()
            daemon.is_away = False
            assert await asyncio.wait_for(heard.get(), 30) == ResourceUpdated(f"{WATCHES}7")
        for end in ends:
            end()
        await until_quiet(daemon)
        assert heard.empty()

    async def until_quiet(daemon: Watched) -> None:
        """Nobody listens, so nobody asks."""
        before = -1
        while daemon.asked != before:
            before = daemon.asked
            await asyncio.sleep(0.2)

    asyncio.run(asyncio.wait_for(act(), 60))


def test_a_document_is_not_found_without_sources() -> None:
    client = cast(Client, Mock(is_remote=False, sources=lambda: {"sources": []}))
    with pytest.raises(NotFound, match="no source on this machine has the document"):
        Tools(client).get(document="a.md")


def test_similar_passages_are_a_short_line() -> None:
    near = {
        "source": "notes",
        "document": "a.md",
        "location": "line 3",
        "id": "00ff",
        "heading": [],
    }
    told = describe_passage({**MAIL, "similar": [near] * 5})
    assert told["similar"] == "; ".join(["a.md, line 3 (00ff)"] * 3) + "; 2 more"
    assert "similar" not in describe_passage({**MAIL, "similar": []})
