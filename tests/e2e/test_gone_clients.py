"""A client that goes away: what only it waited for is not worked on, all else goes on."""

import json
import socket
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from hopsyncd.api.endpoints import NDJSON
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.endpoint import Endpoint, Response, say, user_text

NOTES = {
    "door.md": "# The Bronze Door\n\nThe Bronze Door is a film that Mira Kaltenbrunn directed.\n",
    "mira.md": "# Mira Kaltenbrunn\n\nMira Kaltenbrunn grew up in the village of Ostrava Vale.\n",
    "vale.md": "# Ostrava Vale\n\nOstrava Vale has a glass furnace.\n",
    "bergen.md": "# Bergen\n\nBergen has a harbour, and Tove Lindqvist repairs clocks there.\n",
    "lindqvist.md": "# Tove Lindqvist\n\nTove Lindqvist met the director of The Bronze Door.\n",
}
ASKED = {"question": "What is found where the director of The Bronze Door grew up?"}
BY_LLM = {**ASKED, "reasoner": "llm"}


RUNNING = 4  # that may wait for an LLM at a time, where `parallel` is 1


@pytest.fixture(scope="module")
def answering() -> Event:
    """Set while the LLM answers."""
    made = Event()
    made.set()
    return made


@pytest.fixture(scope="module")
def endpoint(answering: Event) -> Iterator[Endpoint]:
    def play(_: dict[str, Any]) -> Response:
        """A choice of an edge; as an answer it is nonsense, and asked for again."""
        answering.wait(120)
        return say('{"follow": 1}')

    with Endpoint(play) as made:
        yield made


@pytest.fixture(scope="module")
def place(endpoint: Endpoint) -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "fake"\nquestions = "off"\n'
            "concurrency = 1\n[limits]\nparallel = 1\n"
            "[index]\nedge_budget_factor = 5.0\n[watch]\nenabled = false\n"
            + source("notes", made.notes)
        )
        for path, text in NOTES.items():
            made.write(path, text)
        made.start()
        made.sync()
        yield made


def begin(place: Place, path: str, body: dict[str, Any], accept: str = "*/*") -> socket.socket:
    """Send a request and do not wait for its answer."""
    content = json.dumps(body).encode()
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(place.socket))
    head = f"POST {path} HTTP/1.1\r\nHost: hopsyncd\r\nAccept: {accept}\r\n"
    client.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return client


def is_alone(place: Place) -> bool:
    """Whether nobody else is connected."""
    return bool(place.get("/v1/stats")["connections"] == 1)


def errors(place: Place, operation: str) -> int:
    return int(place.get("/v1/stats")["requests"].get(operation, {}).get("errors", 0))


ASKED_OF_THE_LLM = [
    ("/v1/query", {**BY_LLM, "n_hop": 5}),
    ("/v1/queries", {"queries": [{**BY_LLM, "question": f"Who made film {n}?"} for n in (2, 3)]}),
    ("/v1/ask", {**ASKED, "llm": True}),
]


@pytest.mark.parametrize(("path", "body"), ASKED_OF_THE_LLM)
def test_an_llm_is_asked_nothing_more_for_a_client_that_went_away(
    place: Place, endpoint: Endpoint, answering: Event, path: str, body: dict[str, Any]
) -> None:
    for accept in ("*/*", NDJSON):
        answering.clear()
        before = len(endpoint.requests)
        client = begin(place, path, body, accept)
        place.until(lambda before=before: len(endpoint.requests) > before)  # type: ignore[misc]
        client.close()
        place.until(lambda: is_alone(place))
        answering.set()
        time.sleep(0.5)
        assert len(endpoint.requests) == before + 1
    assert place.status()["llm"]["last_failure"] is None


@pytest.mark.parametrize(("path", "body"), ASKED_OF_THE_LLM)
def test_a_client_that_waits_has_its_llm_asked_to_the_end(
    place: Place, endpoint: Endpoint, path: str, body: dict[str, Any]
) -> None:
    before = len(endpoint.requests)
    place.post(path, body)
    assert len(endpoint.requests) >= before + 2


def test_a_query_that_waits_for_its_turn_leaves_the_queue_with_its_client(
    place: Place, endpoint: Endpoint, answering: Event
) -> None:
    def queued() -> int:
        return int(place.get("/v1/stats")["queue"])

    answering.clear()
    working = [
        begin(place, "/v1/query", {**BY_LLM, "question": f"Who made film {number}?"})
        for number in range(10, 11 + RUNNING)
    ]
    place.until(lambda: queued() == 1)
    last = begin(place, "/v1/query", {**BY_LLM, "question": "Who came last?"})
    place.until(lambda: queued() == 2)
    last.close()
    place.until(lambda: queued() == 1)
    for client in working:
        client.close()
    place.until(lambda: not queued())
    answering.set()
    time.sleep(0.5)
    assert not any("Who came last?" in user_text(request) for request in endpoint.requests)


def test_a_sync_goes_on_without_the_client_that_asked_for_it(place: Place) -> None:
    for number in range(200):
        place.write(f"many/{number}.md", f"# Furnace {number}\n\nIt burns beechwood {number}.\n")
    client = begin(place, "/v1/sync", {})
    place.until(lambda: place.status()["syncing"] or place.status()["documents"] > len(NOTES))
    client.close()
    place.until(lambda: place.status()["documents"] == len(NOTES) + 200)


def test_a_client_that_went_away_is_no_error(place: Place) -> None:
    before = errors(place, "query")
    begin(place, "/v1/query", BY_LLM).close()
    time.sleep(0.5)
    assert errors(place, "query") == before
