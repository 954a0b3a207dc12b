"""What a switch to other models takes is said before anything is sent."""

from pathlib import Path

import pytest

import hopsyncd.ingest.rebuild_estimate as module
from hopsyncd.config.configuration import Config
from hopsyncd.ingest.rebuild_estimate import estimate_rebuild
from hopsyncd.models.llm.budget import estimate_tokens
from hopsyncd.models.loading import Models
from hopsyncd.models.questions import BuiltinMaker
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

NOTES = {f"{n}.md": f"# Note {n}\n\nPerson{n} met Rome. It rained.\n".encode() for n in range(40)}
LLM = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "questions": "llm"}
API = {"encoder": "a", "encoder_url": "http://127.0.0.1:9/v1"}


def load(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the configured models be small ones; returns the name of their generation."""
    encoder, language = FakeEncoder(dimensions), FakeLanguage()
    maker = BuiltinMaker(language, encoder)
    name = maker.generation.name
    models = Models(encoder, language, maker)
    monkeypatch.setattr(module, "load_for_estimate", lambda _: (models, name))
    return name


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    stack = Stack(tmp_path / "s.db", MemoryConnector(dict(NOTES)))
    stack.sync()
    return stack


def test_nothing_is_left_for_the_models_in_use(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = load(16, monkeypatch)
    found = estimate_rebuild(stack.connection, Config())
    assert (found.generation, found.passages, found.lacking) == (name, 40, 0)
    assert (found.texts, found.seconds, found.llm_calls, found.encoder_tokens) == (0, 0.0, 0, 0)


def test_other_models_on_this_machine_take_time_and_no_tokens(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = load(8, monkeypatch)
    before = [*stack.connection.execute("SELECT count(*) FROM question_set")]
    found = estimate_rebuild(stack.connection, Config())
    assert (found.generation, found.passages, found.lacking) == (name, 40, 40)
    # A note is embedded as a whole and as two sentences.
    assert found.texts == 40 * 3
    assert found.seconds is not None and 0 <= found.seconds < 60
    assert (found.encoder_tokens, found.llm_calls, found.llm_tokens) == (0, 0, 0)
    assert [*stack.connection.execute("SELECT count(*) FROM question_set")] == before


def test_an_estimate_for_an_endpoint_counts_tokens_and_sends_nothing(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(8, monkeypatch)
    monkeypatch.setattr(FakeEncoder, "encode", lambda *_: pytest.fail("nothing is sent"))
    found = estimate_rebuild(stack.connection, Config.model_validate({"models": API}))
    assert found.seconds is None
    each = estimate_tokens("Note 1\nPerson1 met Rome. It rained.")
    assert found.encoder_tokens > 40 * each


def test_the_questions_of_an_llm_are_counted_until_the_record_has_them(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(16, monkeypatch)
    config = Config.model_validate({"llm": {**LLM, "passages_per_call": 4}})
    found = estimate_rebuild(stack.connection, config)
    # The fake generation is in the record, so as if the LLM had written its questions.
    assert (found.lacking, found.llm_calls, found.llm_tokens) == (0, 0, 0)
    load(8, monkeypatch)
    found = estimate_rebuild(stack.connection, config)
    assert (found.lacking, found.llm_calls) == (40, 10)
    assert found.llm_tokens > 40 * 20
