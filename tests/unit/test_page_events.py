"""The events of an open page: new versions, and those that it missed while it was hidden."""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, cast

import pytest
from starlette.requests import Request

from hopsyncd.client import Client, RequestFailed
from hopsyncd.web import live
from hopsyncd.web.live import VersionHub


class Daemon:
    """A client whose daemon serves `version`. Each version after 4 changed one document."""

    def __init__(self) -> None:
        self.version, self.asked = 7, 0

    def health(self) -> dict[str, Any]:
        self.asked += 1
        return {"status": "ok", "version": self.version}

    def diff(self, old: str, new: str, limit: int, graph: bool) -> dict[str, Any]:
        if int(old) < 3:
            raise RequestFailed(404, "no_such_version", "It was collected", "Ask for another")
        changed: list[Any] = [
            {"source": "notes", "document": f"{number}.md", "heading": [], "origin": None}
            for number in range(max(5, int(old) + 1), int(new) + 1)
        ]
        kinds: dict[str, list[Any]] = {
            "added": [],
            "changed": changed,
            "renamed": [],
            "removed": [],
        }
        return {"documents": kinds, "counts": {"documents": {"changed": len(changed)}}}


async def events_of(
    hub: VersionHub, since: str, header: str, count: int
) -> list[Mapping[str, Any]]:
    headers = [(b"last-event-id", header.encode())] if header else []
    scope = {"type": "http", "query_string": f"since={since}".encode(), "headers": headers}
    response = cast(Any, await hub.stream_events(Request(scope)))
    found: list[Mapping[str, Any]] = []
    async for line in response.body_iterator:
        if line.startswith(b"event"):
            kind, number, data = line.decode().splitlines()[:3]
            event = json.loads(data.partition(" ")[2])
            assert number == f"id: {event['version']}"
            named = [one["key"] for one in event.get("documents", ())]
            found.append({"kind": kind.partition(" ")[2], "named": named})
        if len(found) == count:
            break
    await response.body_iterator.aclose()
    return found


@pytest.mark.parametrize(
    ("since", "header", "expected"),
    [
        ("", "", None),
        ("7", "", None),
        ("4", "", ["notes/5.md", "notes/6.md", "notes/7.md"]),
        ("4", "6", ["notes/7.md"]),  # the header of a browser that connects again is newer
        ("1", "", []),  # the page loads everything again
        ("-1", "", None),
        ("9" * 30, "", None),
    ],
)
def test_a_page_that_was_hidden_hears_of_the_changes_since_then(
    since: str, header: str, expected: list[str] | None
) -> None:
    daemon = Daemon()
    hub = VersionHub(cast(Client, daemon))
    events = asyncio.run(events_of(hub, since, header, 1 if expected is None else 2))
    assert events[0] == {"kind": "begin", "named": []}
    assert events[1:] == ([] if expected is None else [{"kind": "version", "named": expected}])


def test_an_idle_page_asks_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked_in(active_s: float) -> int:
        monkeypatch.setattr(live, "_ACTIVE_S", active_s)
        daemon = Daemon()

        async def listen() -> None:
            hub = VersionHub(cast(Client, daemon))
            task = asyncio.create_task(events_of(hub, "", "", 2))
            await asyncio.sleep(1.4)
            task.cancel()

        asyncio.run(listen())
        return daemon.asked

    assert asked_in(0.0) < 5 < asked_in(math.inf)
