"""An encoder behind an endpoint, end to end: the endpoint comes, goes and changes its model."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.embeddings import embed, inputs
from tests.fakes.endpoint import Endpoint, Response, drop, error

CITIES = ("Rome", "Oslo", "Lima", "Cairo", "Kyoto")
MANY = 60


def down(_: dict[str, Any]) -> Response:
    return error(503, "loading the model")


def config_for(endpoint: Endpoint, place: Place, more: str = "") -> str:
    return (
        f'[models]\nencoder = "fake"\nencoder_url = "{endpoint.base_url}"\n{more}'
        "[watch]\nenabled = false\n" + source("notes", place.notes)
    )


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(embed()) as made:
        yield made


@pytest.fixture
def cities(endpoint: Endpoint) -> Iterator[Place]:
    """Five documents, and an encoder behind an endpoint."""
    with new_place(SMALL) as made:
        made.configure(config_for(endpoint, made))
        for city in CITIES:
            made.write(f"{city}.md", f"# {city}\n\n{city} trades with Quito by sea.\n")
        yield made


def test_an_endpoint_embeds_passages_and_the_status_names_it(
    cities: Place, endpoint: Endpoint
) -> None:
    cities.start()
    assert cities.sync()["version"] == 1
    assert cities.documents("What trades with Rome by sea?")[0] == "Rome.md"
    assert any("Kyoto trades" in text for text in inputs(endpoint))
    models = cities.status()["models"]
    assert "fake@api" in models["generation"]
    host = endpoint.base_url.split("/")[2]
    assert models["encoder_endpoint"]["endpoint"] == host
    assert models["encoder_endpoint"]["tokens_today"] > 0
    shown = cities.run("status").stdout
    assert f"every passage and every question is sent to the encoder fake at {host}" in shown
    assert "leaves this machine" not in shown
    found = cities.run("doctor").stdout
    assert f"fake at {host} (64 dimensions), which receives every passage and question" in found


def test_an_endpoint_killed_in_an_import_loses_nothing(cities: Place) -> None:
    for n in range(MANY):
        cities.write(f"{n}.md", f"# Town {n}\n\nTown{n} met Nero in the year {1000 + n}.\n")
    seen = threading.Event()

    def dies(request: dict[str, Any]) -> Response:
        if seen.is_set():
            return drop()
        if len(request["input"]) > 1:
            seen.set()
        return embed()(request)

    with Endpoint(dies) as first:
        port = int(first.base_url.split(":")[2].split("/")[0])
        cities.configure(config_for(first, cities, "encoder_concurrency = 1\n"))
        cities.start()
        assert seen.wait(30)
        sent = len(inputs(first))
    cities.until(lambda: cities.status()["models"]["encoder_endpoint"]["failure"])
    status = cities.status()
    assert status["documents"] < MANY + len(CITIES)
    cities.until(lambda: any("indexing waits for the encoder" in why for why in degraded(cities)))
    shown = cities.run("status")
    assert "Until the endpoint responds" in shown.stdout + shown.stderr
    refused = cities.run("sync", "--wait")
    assert refused.returncode != 0
    assert "embedding endpoint" in refused.stderr + refused.stdout
    with Endpoint(embed(), port) as second:
        cities.until(lambda: cities.status()["documents"] == MANY + len(CITIES))
        cities.until(lambda: not degraded(cities))
        assert cities.status()["error"] is None
        texts = inputs(second)
        assert sent + len(texts) < 2.5 * 3 * (MANY + len(CITIES))
        assert cities.printed("check", "--deep")["findings"] == []
    assert "indexing waits for the encoder" in cities.log.read_text()
    assert "indexing continues" in cities.log.read_text()


def degraded(place: Place) -> list[str]:
    reasons: list[str] = place.status()["degraded"]
    return reasons


def test_a_question_is_answered_from_stored_vectors_meanwhile(
    cities: Place, endpoint: Endpoint
) -> None:
    cities.start()
    cities.sync()
    before = cities.documents("What trades with Rome by sea?")
    endpoint.play = down
    asked = cities.printed("query", "Which city has Oslo trades?")
    assert asked["passages"][0]["document"] == "Oslo.md"
    assert any("used words and stored vectors" in why for why in asked["degraded"])
    answered = cities.printed("ask", "What does Lima trade with?")
    assert any("used words and stored vectors" in why for why in answered["degraded"])
    assert cities.documents("What trades with Rome by sea?") == before, "its vector is kept"
    endpoint.play = embed()
    cities.until(
        lambda: not cities.printed("query", "Which city has Cairo trades?")["degraded"], 60
    )


def test_an_endpoint_killed_while_a_question_waits_for_it_costs_no_answer(
    cities: Place, endpoint: Endpoint
) -> None:
    cities.start()
    cities.sync()
    waits, killed = threading.Event(), threading.Event()

    def dies(_: dict[str, Any]) -> Response:
        waits.set()
        killed.wait(30)
        return drop()

    endpoint.play = dies
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(cities.post, "/v1/query", {"question": "Which city has Oslo trades?"})
        assert waits.wait(30)
        killed.set()
        found = asked.result(60)
    assert found["passages"][0]["document"] == "Oslo.md"
    assert any("used words and stored vectors" in why for why in found["degraded"])
    endpoint.play = embed()
    cities.until(
        lambda: not cities.post("/v1/query", {"question": "Has Cairo trades?"})["degraded"], 60
    )


def test_a_document_deleted_while_the_endpoint_is_down_is_removed(
    cities: Place, endpoint: Endpoint
) -> None:
    cities.start()
    cities.sync()
    endpoint.play = down
    (cities.notes / "Rome.md").unlink()
    (cities.notes / "Oslo.md").rename(cities.notes / "Norway.md")
    cities.write("Delhi.md", "# Delhi\n\nDelhi trades with Quito by sea.\n")
    assert cities.run("sync", "--wait").returncode != 0
    assert cities.status()["documents"] == 4
    assert "Norway.md" in cities.documents("Oslo trades")
    assert "Rome.md" not in cities.documents("Rome trades")
    endpoint.play = embed()
    cities.until(lambda: cities.status()["documents"] == 5)
    assert "Delhi.md" in cities.documents("Delhi trades")
    assert cities.printed("check", "--deep")["findings"] == []


def test_a_daemon_starts_without_its_endpoint_and_serves_stored_content(
    cities: Place, endpoint: Endpoint
) -> None:
    cities.start()
    cities.sync()
    cities.stop()
    endpoint.play = down
    cities.start()
    assert cities.status()["documents"] == 5
    assert cities.documents("Kyoto trades")[0] == "Kyoto.md"


def test_a_daemon_starts_before_its_endpoint_has_ever_responded(
    cities: Place, endpoint: Endpoint
) -> None:
    endpoint.play = down
    cities.start()
    cities.until(lambda: cities.status()["error"])
    assert "embedding endpoint" in cities.status()["error"]
    assert cities.run("status").returncode == 0
    endpoint.play = embed()
    cities.until(lambda: cities.status()["documents"] == 5)
    assert cities.documents("Kyoto trades")[0] == "Kyoto.md"


def test_another_model_behind_the_name_is_refused_after_a_restart(
    cities: Place, endpoint: Endpoint
) -> None:
    cities.start()
    cities.sync()
    cities.stop()
    for play in (embed(dimensions=32), embed(change=lambda items: items[::-1][:1] * len(items))):
        endpoint.play = play
        cities.write("Delhi.md", "# Delhi\n\nDelhi trades with Quito by sea.\n")
        cities.start()
        cities.until(lambda: cities.status()["error"])
        cities.stop()
    endpoint.play = embed(dimensions=32)
    cities.start()
    cities.until(lambda: "another model answers" in (cities.status()["error"] or ""))
    shown = cities.run("status")
    assert "models.encoder_revision" in shown.stdout + shown.stderr
    assert "Delhi.md" not in cities.documents("Delhi trades")
    cities.stop()
    cities.configure(config_for(endpoint, cities, 'encoder_revision = "2"\n'))
    cities.start()
    cities.until(lambda: cities.status()["documents"] == 6)
    assert "Delhi.md" in cities.documents("Delhi trades")
    assert "fake@api-c1+2" in cities.status()["models"]["generation"]
    assert cities.printed("check", "--deep")["findings"] == []


def test_a_used_up_budget_makes_indexing_wait(cities: Place, endpoint: Endpoint) -> None:
    cities.configure(config_for(endpoint, cities, "encoder_max_tokens_per_day = 40\n"))
    cities.start()
    cities.until(lambda: "limit of calls or tokens" in (cities.status()["error"] or ""))
    assert json.dumps(cities.status()).count("encoder_max_tokens_per_day in [models]") >= 1
