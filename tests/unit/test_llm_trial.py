"""`hopsyncd llm test` against endpoints that are good, slow of understanding, or cut prompts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hopsyncd.cli.main import cli
from hopsyncd.evaluation.llm_trial import ANSWER, make_up_material
from hopsyncd.models.llm.tokens import count_tokens
from tests.fakes.endpoint import (
    Endpoint,
    Response,
    error,
    in_turn,
    say,
    say_json,
    stream,
    user_text,
)
from tests.fakes.llm import excerpts_in

Run = Callable[..., Result]


def answer_well(request: dict[str, Any]) -> str:
    """The reply of a model that reads everything that it is sent."""
    shown = excerpts_in(json.loads(user_text(request)))
    who = next((passage for passage in shown if "engineer of Tarn Mill" in passage["text"]), None)
    bridge = next(
        (passage for passage in shown if "bridge over the river Ossel" in passage["text"]), None
    )
    if not who or not bridge:
        return json.dumps({"found": False, "answer": "", "citations": []})
    cited = [{"passage": one["number"], "quote": one["text"][:30]} for one in (who, bridge)]
    return json.dumps({"found": True, "answer": f"In {ANSWER}.", "citations": cited})


def cut_after(characters: int) -> Callable[[dict[str, Any]], Response]:
    """A server that silently drops the beginning of long prompts."""

    def play(request: dict[str, Any]) -> Response:
        if len(user_text(request)) > characters:
            return say_json({"found": False, "answer": "", "citations": []})
        return say(answer_well(request), prompt_tokens=2000, completion_tokens=50)

    return play


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(lambda request: stream([answer_well(request)])) as made:
        yield made


@pytest.fixture
def run(endpoint: Endpoint, tmp_path: Path) -> Run:
    config = tmp_path / "config.toml"
    config.write_text(
        f'[daemon]\ndata_dir = "{tmp_path}"\n[llm]\nbase_url = "{endpoint.base_url}"\n'
        'model = "small"\ntimeout_s = 5\n'
    )
    return lambda *options: CliRunner().invoke(
        cli, ["--config", str(config), "llm", "test", *options]
    )


def lines_of(result: Result) -> dict[str, str]:
    return {line[:13].strip(): line[14:] for line in result.output.splitlines()}


def test_a_good_llm_is_described_and_its_cost_computed(run: Run, endpoint: Endpoint) -> None:
    result = run("--input-price", "2", "--output-price", "8")
    assert result.exit_code == 0, result.output
    told = lines_of(result)
    assert told["JSON"] == "follows the requested form"
    assert told["answer"] == "right, with citations"
    assert told["first word"].endswith(" s") and told["whole answer"].endswith(" s")
    assert told["one question"] == "100 tokens sent, 20 written"
    assert told["cost"] == "0.000360 at the given prices"
    short, long = (count_tokens(user_text(request)) for request in endpoint.requests)
    assert 1500 < short < 2500
    assert 7000 < long < 8000
    assert "is read completely" in told["context"]


def test_a_server_that_cuts_long_prompts_is_noticed(run: Run, endpoint: Endpoint) -> None:
    endpoint.play = cut_after(15_000)
    told = lines_of(run())
    assert told["answer"] == "right, with citations"
    assert "is not: do not raise tokens_per_question" in told["context"]
    assert told["first word"] == "unknown: the LLM does not stream"
    assert told["cost"] == "none: the LLM runs on this machine"
    endpoint.play = cut_after(2_000)
    result = run()
    assert result.exit_code == 1
    told = lines_of(result)
    assert told["answer"].startswith("wrong (not found)")
    assert "OLLAMA_CONTEXT_LENGTH" in told["context"]


def test_a_refused_long_prompt_is_reported(run: Run, endpoint: Endpoint) -> None:
    def play(request: dict[str, Any]) -> Response:
        if len(user_text(request)) > 15_000:
            return error(400, "maximum context length is 4096 tokens")
        return say(answer_well(request))

    endpoint.play = play
    result = run()
    assert result.exit_code == 0
    assert "maximum context length is 4096 tokens" in lines_of(result)["context"]


def test_the_ability_to_write_json_is_reported(run: Run, endpoint: Endpoint) -> None:
    good = say_json({"found": True, "answer": ANSWER, "citations": [{"passage": 1, "quote": ""}]})
    endpoint.play = in_turn(say("In 1874, I believe."), good)
    report = json.loads(run("--context", "0", "--json").output)
    assert (report["question"]["json"], report["question"]["is_right"]) == ("after a repair", True)
    assert report["question"]["has_citations"] is False
    endpoint.play = lambda _: say("In 1874, I believe.")
    result = run("--context", "0", "--json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["question"]["json"] == "no"
    assert "not valid JSON" in report["question"]["problem"]


def test_errors_explain_a_dead_or_missing_endpoint(
    run: Run, endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.play = lambda _: error(503)
    result = run()
    assert result.exit_code != 0
    assert "returned an error" in str(result.exception)
    bare = tmp_path / "bare.toml"
    bare.write_text(f'[daemon]\ndata_dir = "{tmp_path}"\n')
    result = CliRunner().invoke(cli, ["--config", str(bare), "llm", "test"])
    assert "`base_url` in [llm] is empty" in str(result.exception)


@pytest.mark.parametrize("tokens", [500, 2000, 8000])
def test_the_made_up_prompt_has_the_size_asked_for(tokens: int) -> None:
    material = make_up_material(tokens)
    used = count_tokens(json.dumps(material.documents))
    assert 0.75 * tokens < used <= tokens
    assert ANSWER in material.excerpts[-1].text
