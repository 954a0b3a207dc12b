"""Profiles and reasoners over the socket, with an LLM at an endpoint that comes and goes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hopsyncd.client import RequestFailed
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.endpoint import Endpoint, Response, error, say_json, user_text

QUESTION = "What is found where the director of The Bronze Door grew up?"
NOTES = {
    "door.md": "# The Bronze Door\n\nThe Bronze Door is a film that Mira Kaltenbrunn directed.\n",
    "mira.md": "# Mira Kaltenbrunn\n\nMira Kaltenbrunn grew up in the village of Ostrava Vale.\n",
    "vale.md": "# Ostrava Vale\n\nOstrava Vale has a glass furnace.\n",
    "bergen.md": "# Bergen\n\nBergen has a harbour, and Tove Lindqvist repairs clocks there.\n",
    "lindqvist.md": "# Tove Lindqvist\n\nTove Lindqvist met the director of The Bronze Door.\n",
}


def first_offered(request: dict[str, Any]) -> Response:
    assert json.loads(user_text(request))["question"] == QUESTION
    return say_json({"follow": 1})


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(first_offered) as made:
        yield made


@pytest.fixture
def notes(endpoint: Endpoint) -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "fake"\nquestions = "off"\n'
            "max_calls_per_query = 3\n[index]\nedge_budget_factor = 5.0\n[watch]\nenabled = false\n"
            + source("notes", made.notes)
        )
        for path, text in NOTES.items():
            made.write(path, text)
        made.start()
        made.sync()
        yield made


def asked(place: Place, **more: Any) -> dict[str, Any]:
    return place.post("/v1/query", {"question": QUESTION, **more})


def test_an_answer_says_how_it_was_searched_and_only_llm_reasoners_cost(
    notes: Place, endpoint: Endpoint
) -> None:
    plain = asked(notes)
    assert (plain["profile"], plain["reasoner"], plain["llm"]) == ("default", "walk", None)
    paper = asked(notes, profile="paper", top_k=3, n_hop=2)
    assert (paper["profile"], paper["reasoner"], paper["llm"]) == ("paper", "similarity", None)
    assert 0 < len(paper["passages"]) <= 3
    words = asked(notes, strategy="bm25")
    assert (words["profile"], words["reasoner"], words["llm"]) == (None, None, None)
    assert endpoint.requests == []
    by_llm = asked(notes, reasoner="llm", top_k=1, n_hop=2)
    assert by_llm["reasoner"] == "llm"
    assert by_llm["llm"] == {"calls": 2, "tokens": 240}
    assert by_llm["degraded"] == []
    similar = asked(notes, reasoner="similarity", top_k=1, n_hop=2)
    assert by_llm["passages"] == similar["passages"]
    assert any(passage["hops"] for passage in by_llm["passages"])


def test_the_command_reports_the_calls_and_the_cap(notes: Place) -> None:
    done = notes.run("query", QUESTION, "--reasoner", "llm", "--top-k", "4", "--n-hop", "2")
    assert done.returncode == 0, done.stderr
    assert "3 LLM calls, 360 tokens" in done.stderr
    assert (
        "note: the LLM did not choose every edge, so the most similar edges were followed: this"
        " request has used all of its 3 calls" in done.stderr
    )
    assert "The Bronze Door" in done.stdout


def test_an_endpoint_that_refuses_degrades_the_answer_and_says_so(
    notes: Place, endpoint: Endpoint
) -> None:
    endpoint.play = lambda _: error(401, "no such key")
    answer = asked(notes, reasoner="llm", top_k=1)
    assert answer["passages"] == asked(notes, reasoner="similarity", top_k=1)["passages"]
    assert "the LLM did not choose every edge" in answer["degraded"][0]


def test_an_old_version_is_asked_by_every_reasoner_as_it_was(notes: Place) -> None:
    version = notes.get("/v1/health")["version"]
    searches: list[dict[str, Any]] = [
        {"profile": "paper"},
        {"reasoner": "similarity"},
        {"reasoner": "llm", "top_k": 1, "n_hop": 1},
        {"strategy": "decompose"},
    ]
    before = [asked(notes, **search)["passages"] for search in searches]
    notes.write("vale.md", "# Ostrava Vale\n\nOstrava Vale has a tannery now.\n")
    assert notes.sync()["version"] > version
    for search, then in zip(searches, before, strict=True):
        assert asked(notes, at=str(version), **search)["passages"] == then


def test_an_impossible_search_is_refused_with_a_hint(notes: Place) -> None:
    with pytest.raises(RequestFailed, match="no reranker is configured") as refused:
        asked(notes, strategy="rerank")
    assert refused.value.status == 400
    assert "models.reranker" in refused.value.hint
    with pytest.raises(RequestFailed, match="does not support the reasoner `walk`"):
        asked(notes, profile="paper", reasoner="walk")
