"""A daemon with a reranker behind an endpoint: queries, status and what is said if it fails."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.endpoint import Endpoint, Response, error

QUESTION = "Where is the bronze door?"
PLACES = ("Arles", "Basel", "Cadiz")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(lambda _: error(500)) as made:
        yield made


@pytest.fixture(scope="module")
def place(endpoint: Endpoint) -> Iterator[Place]:
    with new_place(SMALL) as made:
        for name in PLACES:
            made.write(f"{name}.md", f"# Door of {name}\n\nThe bronze door of {name} is old.\n")
        made.configure(
            f'[models]\nreranker_url = "{endpoint.base_url}"\n[query]\nrerank = true\n'
            "[watch]\nenabled = false\n" + source("notes", made.notes)
        )
        made.start()
        made.sync()
        yield made


def prefer(name: str) -> Any:
    def play(request: dict[str, Any]) -> Response:
        found = [
            {"index": index, "relevance_score": float(name in text)}
            for index, text in enumerate(request["documents"])
        ]
        return Response(json.dumps({"results": found}).encode())

    return play


@pytest.mark.parametrize("name", PLACES)
def test_the_reranker_orders_passages(place: Place, endpoint: Endpoint, name: str) -> None:
    endpoint.play = prefer(name)
    answer = place.post("/v1/query", {"question": QUESTION, "strategy": "rerank"})
    assert answer["passages"][0]["document"] == f"{name}.md"
    before = len(endpoint.requests)
    by_hop = place.post("/v1/query", {"question": QUESTION})
    assert len(endpoint.requests) == before + 1
    assert f"{name}.md" in [passage["document"] for passage in by_hop["passages"][:2]]
    assert by_hop["degraded"] == []


def test_the_status_says_where_passages_go_and_a_failure_is_noted(
    place: Place, endpoint: Endpoint
) -> None:
    endpoint.play = lambda _: Response(b"<html></html>")
    answer = place.post("/v1/query", {"question": QUESTION})
    assert len(answer["passages"]) == len(PLACES)
    (note,) = answer["degraded"]
    assert note.startswith("the results are not reranked: ")
    host = endpoint.base_url.removeprefix("http://").removesuffix("/v1")
    state = place.status()["models"]["reranker_endpoint"]
    assert state["endpoint"] == host and state["tokens_today"] > 0 and state["failure"]
    shown = place.run("status").stdout
    assert f"the passages found for them, are sent to {host}" in shown
    assert "leaves this machine" not in shown
