"""A reranker behind an endpoint: what is sent, replies that lie, and searches that go on."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.configuration import Config, DaemonConfig, ModelsConfig
from hopsyncd.config.values import Search, Strategy
from hopsyncd.errors import BadRequest, ModelUnavailable
from hopsyncd.models.encoder import Reranker
from hopsyncd.models.loading import load_reranker
from hopsyncd.models.rerank_endpoint import HttpReranker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import Answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import PassageId
from tests.fakes.endpoint import Endpoint, Response, error
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

TEXTS = ["a gate", "a bronze gate", "a wall"]
QUESTION = "Who made the bronze gate?"
NOTES = {
    f"{name}.md": f"# Gate of {name}\n\nThe bronze gate of {name} is {size}.\n".encode()
    for name, size in (("Arles", "small"), ("Basel", "very very large"), ("Cadiz", "old"))
}


def replying(results: object, **more: object) -> Response:
    return Response(json.dumps({"results": results, **more}).encode())


def score_all(request: dict[str, Any]) -> Response:
    """The longer a text, the better; the best comes first, as in a real reply."""
    found = [
        {"index": index, "relevance_score": len(text) / 1000}
        for index, text in enumerate(request["documents"])
    ]
    found.sort(key=lambda one: -one["relevance_score"])
    return replying(found, usage={"total_tokens": 77})


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(score_all) as made:
        yield made


@pytest.fixture
def reranker(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HttpReranker]:
    monkeypatch.setenv("MY_KEY", "secret-key-1")
    models = ModelsConfig(
        reranker="m-1", reranker_url=endpoint.base_url, reranker_api_key_env="MY_KEY"
    )
    made = load_reranker(
        Config(models=models, daemon=DaemonConfig.model_validate({"data_dir": str(tmp_path)}))
    )
    assert isinstance(made, HttpReranker)
    yield made
    made.close()


def test_scores_come_back_in_the_order_of_the_texts(
    endpoint: Endpoint, reranker: HttpReranker
) -> None:
    assert reranker.score_texts(QUESTION, TEXTS) == [0.006, 0.013, 0.006]
    assert reranker.score_texts(QUESTION, []) == []
    (sent,), (headers,) = endpoint.requests, endpoint.headers
    assert sent == {"model": "m-1", "query": QUESTION, "documents": TEXTS, "top_n": 3}
    assert headers["authorization"] == "Bearer secret-key-1"
    status = reranker.describe_status()
    assert (status["calls_today"], status["tokens_today"], status["failure"]) == (1, 77, None)
    assert status["endpoint"] == reranker.host


def test_a_bare_list_of_scores_is_read_too(endpoint: Endpoint, reranker: HttpReranker) -> None:
    found = [{"index": 2, "score": 1}, {"index": 0, "score": -3.5}, {"index": 1, "score": 0}]
    endpoint.play = lambda _: Response(json.dumps(found).encode())
    assert reranker.score_texts(QUESTION, TEXTS) == [-3.5, 0.0, 1.0]


def score(index: object, value: object = 0.5) -> dict[str, object]:
    return {"index": index, "relevance_score": value}


LIES: dict[str, tuple[Callable[[], Response], str]] = {
    "short list": (lambda: replying([score(0), score(1)]), "has 2 scores"),
    "unknown index": (lambda: replying([score(0), score(1), score(7)]), "one for each of 3 texts"),
    "negative index": (lambda: replying([score(0), score(1), score(-1)]), "no list of scores"),
    "one index twice": (
        lambda: replying([score(0), score(1), score(1)]),
        "one for each of 3 texts",
    ),
    "more than asked": (lambda: replying([score(index) for index in range(4)]), "has 4 scores"),
    "not a number": (
        lambda: Response(b'{"results": [{"index": 0, "relevance_score": NaN}]}'),
        "no list of scores",
    ),
    "infinite": (
        lambda: replying([score(0), score(1), score(2, "1e999")]),
        "no list of scores",
    ),
    "text": (lambda: replying([score("0"), score("1"), score("2")]), "no list of scores"),
    "HTML": (lambda: Response(b"<html>Welcome</html>", 200, {"content-type": "text/html"}), "no"),
    "nothing": (lambda: Response(b""), "no list of scores"),
    "nested": (lambda: Response(b"[" * 100_000), "no list of scores"),
    "huge": (lambda: Response(b" " * (2 << 20)), "larger than"),
    "no access": (lambda: error(401, "bad key secret-key-1"), "401"),
    "gone": (lambda: error(404), "404"),
    "down": (lambda: error(503), "503"),
    "too many requests": (lambda: error(429, retry_after="3600"), "429"),
    "dropped": (lambda: Response(whole=b""), ""),
}


@pytest.mark.parametrize("name", LIES)
def test_a_wrong_reply_is_refused_with_its_fault(
    endpoint: Endpoint, reranker: HttpReranker, name: str
) -> None:
    make, why = LIES[name]
    endpoint.play = lambda _: make()
    with pytest.raises(ModelUnavailable) as refused:
        reranker.score_texts(QUESTION, TEXTS)
    assert why in str(refused.value)
    assert "secret-key-1" not in str(refused.value)
    assert reranker.describe_status()["failure"] == str(refused.value)
    assert len(endpoint.requests) <= 2


def test_a_silent_endpoint_is_abandoned_and_then_skipped(
    endpoint: Endpoint, reranker: HttpReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopsyncd.models.rerank_endpoint.TIMEOUT_S", 0.5)
    silence = threading.Event()
    endpoint.play = lambda _: Response(parts=iter([b" "] if silence.wait(20) else []))
    try:
        for _ in range(4):
            with pytest.raises(ModelUnavailable, match="came in time"):
                reranker.score_texts(QUESTION, TEXTS)
        assert len(endpoint.requests) == 3, "the fourth call fails at once"
    finally:
        silence.set()


class Backwards:
    """Prefers the texts that come last; fails if told to."""

    def __init__(self, error: ModelUnavailable | None = None) -> None:
        self.error = error
        self.questions: list[str] = []

    def score_texts(self, question: str, texts: Sequence[str]) -> list[float]:
        self.questions.append(question)
        if self.error:
            raise self.error
        return [float(index) for index in range(len(texts))]


DOWN = ModelUnavailable("The reranker gave no reply", "it is down", "Start it")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "s.db", MemoryConnector(NOTES))
    made.sync()
    yield made
    made.close()


def answer(
    stack: Stack,
    tmp_path: Path,
    search: Search,
    reranker: Reranker | None = None,
    *,
    rerank: bool = False,
) -> Answer:
    settings = WalkSettings(rerank=rerank)
    engine = Engine(tmp_path / "s.db", FakeEncoder(), settings, reranker=reranker)
    engine.publish(stack.writer.make_snapshot(stack.head))
    found = engine.query(QUESTION, 3, search)
    assert found is not None
    return found


def order(found: Answer) -> list[PassageId]:
    return [hit.passage for hit in found.ranked]


def test_hop_ends_with_the_reranker_only_if_it_is_asked_to(stack: Stack, tmp_path: Path) -> None:
    plain, reranker = order(answer(stack, tmp_path, Search())), Backwards()
    assert order(answer(stack, tmp_path, Search(), reranker)) == plain
    assert reranker.questions == []
    by_setting = answer(stack, tmp_path, Search(), reranker, rerank=True)
    by_question = answer(stack, tmp_path, Search(rerank="cross-encoder"), reranker)
    assert reranker.questions == [QUESTION, QUESTION]
    assert order(by_setting) == order(by_question)
    assert sorted(order(by_setting)) == sorted(plain)


def test_the_walk_keeps_its_part_in_the_order(stack: Stack, tmp_path: Path) -> None:
    class Prefers:
        def __init__(self, first: str) -> None:
            self.first = first

        def score_texts(self, question: str, texts: Sequence[str]) -> list[float]:
            return [float(self.first in text) for text in texts]

    plain = answer(stack, tmp_path, Search())
    first, second, third = order(plain)
    wanted = plain.passages[third].heading[0]
    raised = answer(stack, tmp_path, Search(), Prefers(wanted), rerank=True)
    assert order(raised) == [first, third, second]


BEFORE: dict[Strategy, Strategy] = {"hop": "hop", "rerank": "dense"}


@pytest.mark.parametrize(("strategy", "before"), BEFORE.items())
def test_a_reranker_that_fails_leaves_the_order_with_a_note(
    stack: Stack, tmp_path: Path, strategy: Strategy, before: Strategy
) -> None:
    plain = order(answer(stack, tmp_path, Search(before)))
    found = answer(stack, tmp_path, Search(strategy), Backwards(DOWN), rerank=True)
    assert order(found) == plain
    assert found.degraded == (
        "the results are not reranked: The reranker gave no reply: it is down",
    )


def test_a_reranker_that_is_not_configured_is_named(stack: Stack, tmp_path: Path) -> None:
    found = answer(stack, tmp_path, Search(), rerank=True)
    assert found.degraded == ("query.rerank is set, but no reranker is configured in [models]",)
    with pytest.raises(BadRequest, match="no reranker is configured"):
        answer(stack, tmp_path, Search(rerank="cross-encoder"))
