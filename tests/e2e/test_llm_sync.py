"""Questions by an LLM, end to end: the daemon, and an endpoint that comes and goes."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.endpoint import Endpoint, Response, error, say, user_text
from tests.fakes.llm import good_reply, passages_in

CITIES = ("Rome", "Oslo", "Lima", "Cairo", "Kyoto")


def answers(request: dict[str, Any]) -> Response:
    return say(good_reply(user_text(request)))


def refuses(_: dict[str, Any]) -> Response:
    return error(401, "no such key")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(refuses) as made:
        yield made


@pytest.fixture
def cities(endpoint: Endpoint) -> Iterator[Place]:
    """Five documents, and an LLM that is asked for their questions."""
    with new_place(SMALL) as made:
        made.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "fake"\nquestions = "both"\n'
            "[watch]\nenabled = false\n" + source("notes", made.notes)
        )
        for city in CITIES:
            made.write(f"{city}.md", f"# {city}\n\n{city} trades with Quito by sea.\n")
        yield made


def sent(endpoint: Endpoint) -> list[str]:
    return [
        passage["text"]
        for request in endpoint.requests
        for passage in passages_in(user_text(request))
    ]


def test_built_in_questions_are_used_until_the_llm_endpoint_responds(
    cities: Place, endpoint: Endpoint
) -> None:
    cities.start()
    assert cities.sync()["version"] == 1
    assert cities.status()["waiting"] == {"refused": 5}
    assert (
        "5 passages waiting for the LLM to write questions: refused by the LLM (5)"
        in cities.run("status").stdout
    )
    assert cities.documents("What trades with Rome by sea?")
    cities.stop()

    endpoint.play = answers
    endpoint.requests.clear()
    cities.start()
    cities.until(lambda: not cities.status()["waiting"])
    assert cities.status()["version"] == 2
    assert sorted(sent(endpoint)) == sorted(f"{city} trades with Quito by sea." for city in CITIES)
    logged = cities.run("log", "--verbose").stdout
    assert "5 passages got their LLM questions" in logged
    assert "with 2 LLM calls and 240 tokens" in logged
    assert cities.printed("check", "--deep")["findings"] == []
    spent = {(one["version"], one["calls"]) for one in cities.status()["llm"]["today"]}
    assert (2, 2) in spent

    cities.write("Delhi.md", "# Delhi\n\nDelhi trades with Quito by sea.\n")
    cities.sync()
    assert cities.status()["waiting"] == {}
    assert sent(endpoint)[5:] == ["Delhi trades with Quito by sea."]


def test_a_dry_run_says_what_would_be_asked_and_asks_nothing(
    cities: Place, endpoint: Endpoint
) -> None:
    endpoint.play = answers
    alone = cities.printed("sync", "--dry-run")
    assert not (cities.home / "data").exists(), "nothing was written"
    (before,) = alone["sources"]
    assert before["counts"] == {"new": 5, "changed": 0, "gone": 0, "unreadable": 0}
    assert (before["passages"], alone["llm_calls"]) == (5, 2)
    cities.start()
    cities.sync()
    assert cities.printed("sync", "--dry-run")["sources"][0]["passages"] == 0
    asked = len(endpoint.requests)
    cities.write("Rome.md", "# Rome\n\nRome sells wine to Lima.\n")
    cities.write("Copy.md", "# Oslo\n\nOslo trades with Quito by sea.\n")
    cities.write("none.md", "\0\1\2")
    (cities.notes / "Oslo.md").unlink()
    (found,) = cities.printed("sync", "notes", "--dry-run")["sources"]
    assert (found["new"], found["changed"], found["gone"]) == (
        ["Copy.md"],
        ["Rome.md"],
        ["Oslo.md"],
    )
    assert found["unreadable"] and found["unreadable"][0].startswith("none.md: ")
    assert (found["passages"], found["llm_calls"]) == (1, 1)
    shown = cities.run("sync", "--dry-run").stdout
    assert "1 new passage: about 1 LLM call, " in shown
    assert (len(endpoint.requests), cities.status()["version"]) == (asked, 1)
    assert cities.run("sync", "--dry-run", "nowhere").returncode == 1


def test_the_estimate_is_close_to_the_actual_cost(cities: Place, endpoint: Endpoint) -> None:
    endpoint.play = answers
    for n in range(40):
        cities.write(f"{n}.md", f"# City {n}\n\nCity{n} met Nero in the year {1000 + n}.\n")
    estimated = cities.printed("sync", "--dry-run")
    cities.start()
    cities.sync()
    versions = cities.printed("log")["versions"]
    assert sum(version["counters"]["llm_calls"] for version in versions) == estimated["llm_calls"]
