"""The encoder behind an endpoint, over real HTTP: endpoints that lie, fail, are slow or change."""

import base64
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopsyncd.config.configuration import Config, ModelsConfig
from hopsyncd.errors import EncoderUnavailable
from hopsyncd.models.embedding.http_encoder import PROBE, HttpEncoder
from hopsyncd.models.llm.transport import HttpClient
from hopsyncd.models.loading import MAX_EMBEDDINGS_BYTES, load_encoder
from hopsyncd.models.prompts import Prompts
from store.ledger import Ledger
from store.records import to_grid
from tests.fakes.embeddings import Item, embed, expected, inputs, reply
from tests.fakes.endpoint import Endpoint, Play, Response, drop, error
from tests.fakes.models import FakeEncoder
from tests.fakes.timing import FakeTime


class Bench:
    """An encoder of an endpoint, with its own time."""

    def __init__(self, endpoint: Endpoint, folder: Path, **settings: Any) -> None:
        self.time = FakeTime()
        config = ModelsConfig(encoder="fake", encoder_url=endpoint.base_url, **settings)
        address = config.encoder_address
        assert address is not None
        ledger = Ledger(folder / "embeddings.db", 0, config.encoder_max_tokens_per_day)
        client = HttpClient(address.base_url, "", MAX_EMBEDDINGS_BYTES)
        self.encoder = HttpEncoder(config, address, Prompts(), ledger, client, self.time.timing)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(embed()) as served:
        yield served


@pytest.fixture
def bench(endpoint: Endpoint, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(endpoint, tmp_path)
    yield made
    made.encoder.close()


def why(bench: Bench, text: str = "Rome is a city.") -> str:
    with pytest.raises(EncoderUnavailable) as raised:
        bench.encoder.encode([text])
    return str(raised.value)


def test_vectors_come_in_the_order_of_the_texts(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.play = embed(scale=4.0)
    texts = [f"Text {n} is about ship {n}." for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        parts = [texts[index : index + 25] for index in range(0, 200, 25)]
        made = np.concatenate([*pool.map(bench.encoder.encode, parts)])
    assert (to_grid(made) == to_grid(expected(texts))).all()
    assert sorted(inputs(endpoint)) == sorted(texts)
    assert bench.encoder.dimensions == 64
    assert max(len(request["input"]) for request in endpoint.requests) <= 65
    assert endpoint.most_at_once <= 4


def test_texts_of_many_callers_share_requests(tmp_path: Path, endpoint: Endpoint) -> None:
    bench = Bench(endpoint, tmp_path, encoder_concurrency=1)
    gate = threading.Event()

    def play(request: dict[str, Any]) -> Response:
        gate.wait(10)
        return embed()(request)

    endpoint.play = play
    with ThreadPoolExecutor(12) as pool:
        made = [pool.submit(bench.encoder.encode, ["Text 0."])]
        while not endpoint.requests:
            time.sleep(0.01)
        made += [pool.submit(bench.encoder.encode, [f"Text {n}."]) for n in range(1, 12)]
        while len(bench.encoder._waiting) < 11:
            time.sleep(0.01)
        gate.set()
        assert all(one.result().shape == (1, 64) for one in made)
    assert len(endpoint.requests) == 3, "the probe, the first text, the others"
    bench.encoder.close()


def test_a_question_does_not_wait_for_passages(tmp_path: Path, endpoint: Endpoint) -> None:
    bench = Bench(endpoint, tmp_path, encoder_concurrency=1)
    gate = threading.Event()

    def play(request: dict[str, Any]) -> Response:
        if any(text.startswith("slow") for text in request["input"]):
            gate.wait(10)
        return embed()(request)

    endpoint.play = play
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(bench.encoder.encode, ["slow one"])
        assert bench.encoder.encode_questions(["quick?"]).shape == (1, 64)
        assert not slow.done()
        gate.set()
        assert slow.result().shape == (1, 64)
    bench.encoder.close()


def reordered(items: list[Item]) -> list[Item]:
    return items[::-1]


def test_the_order_is_restored_from_the_index(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.play = embed(change=reordered)
    texts = ["Rome", "Oslo by the sea", "Lima"]
    assert (bench.encoder.encode(texts) == expected(texts)).all()


def test_vectors_may_be_base64_and_without_index(bench: Bench, endpoint: Endpoint) -> None:
    def packed(items: list[Item]) -> list[Item]:
        raw = [np.array(item["embedding"], dtype="<f4").tobytes() for item in items]
        return [{"embedding": base64.b64encode(one).decode()} for one in raw]

    endpoint.play = embed(change=packed)
    assert (bench.encoder.encode(["Rome"]) == expected(["Rome"])).all()


def renumbered(items: list[Item]) -> list[Item]:
    """In another order, with an index that says it is the right one."""
    return [{**item, "index": index} for index, item in enumerate(items[::-1])]


def with_number(number: float) -> Callable[[list[Item]], list[Item]]:
    def change(items: list[Item]) -> list[Item]:
        items[-1]["embedding"][3] = number
        return items

    return change


def with_last(**fields: Any) -> Callable[[list[Item]], list[Item]]:
    def change(items: list[Item]) -> list[Item]:
        return [*items[:-1], {**items[-1], **fields}]

    return change


def html(_: dict[str, Any]) -> Response:
    page = b"<!DOCTYPE html><title>Sign in</title>"
    return Response(page, headers={"content-type": "text/html"})


@pytest.mark.parametrize(
    ("play", "said"),
    [
        (embed(change=lambda items: items[:-1]), "1 embeddings for 2 texts"),
        (embed(change=lambda items: [*items, items[0]]), "3 embeddings for 2 texts"),
        (embed(change=with_number(float("nan"))), "not finite"),
        (embed(change=with_number(float("inf"))), "not finite"),
        (embed(change=with_number(1e300)), "not finite"),
        (embed(change=with_last(embedding=[0.0] * 64)), "only zeros"),
        (embed(change=with_last(embedding=[1.0] * 5)), "differ in length"),
        (embed(change=with_last(embedding=[])), "differ in length"),
        (embed(change=with_last(embedding=["1"] * 64)), "not a list of numbers"),
        (embed(change=with_last(embedding="%%%")), "not a list of numbers"),
        (embed(change=with_last(index=0)), "do not count from 0"),
        (embed(change=with_last(index=None)), "have no `index`"),
        (embed(change=renumbered), "another model answers under this name"),
        (embed(dimensions=8), "8 numbers, not 64 as before"),
        (lambda _: reply([{"index": 0, "embedding": [1.0] * 5000}] * 2), "do not count"),
        (html, 'begins with "<!DOCTYPE html>'),
        (lambda _: Response(b""), "the reply is empty"),
        (lambda _: Response(b"[1, 2]"), "no list `data`"),
        (lambda _: Response(b"x" * (MAX_EMBEDDINGS_BYTES + 1)), "larger than"),
    ],
)
def test_a_wrong_reply_is_refused_with_its_fault(
    bench: Bench, endpoint: Endpoint, play: Play, said: str
) -> None:
    bench.encoder.verify()
    endpoint.play = play
    message = why(bench)
    assert said in message
    assert endpoint.base_url.split("/")[2] in message
    status = bench.encoder.describe_status()
    assert status["failure"] == message
    endpoint.play = embed()
    bench.time.now += 60
    assert bench.encoder.encode(["Rome"]).shape == (1, 64)
    assert bench.encoder.describe_status()["failure"] is None


def test_too_many_dimensions_are_refused_at_once(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.play = embed(dimensions=5000)
    assert "5000 numbers, but only 1 to 4096 are allowed" in why(bench)


def test_a_rate_limit_is_waited_for_as_long_as_asked(bench: Bench, endpoint: Endpoint) -> None:
    left = [error(429, "slow down", retry_after="7"), error(503, "loading the model")]

    def play(request: dict[str, Any]) -> Response:
        return left.pop(0) if left else embed()(request)

    endpoint.play = play
    assert bench.encoder.encode(["Rome"]).shape == (1, 64)
    assert bench.time.waited[0] == 7.0
    assert 0 < bench.time.waited[1] < 2


def test_a_text_is_not_cut_because_the_endpoint_was_slow(bench: Bench, endpoint: Endpoint) -> None:
    bench.encoder.verify()
    left = [error(500, "context deadline exceeded")]
    endpoint.play = lambda request: left.pop() if left else embed()(request)
    long = "word " * 50
    assert (bench.encoder.encode([long]) == expected([long])).all()
    assert len(bench.time.waited) == 1


def test_a_down_endpoint_is_named_and_then_spared(bench: Bench, endpoint: Endpoint) -> None:
    endpoint.play = lambda _: drop()
    message = why(bench)
    assert "gave no reply" in message
    assert "Until the endpoint responds" in message
    for _ in range(3):
        why(bench)
    asked = len(endpoint.requests)
    assert "the next attempt is in" in why(bench)
    assert len(endpoint.requests) == asked


def test_a_slow_endpoint_does_not_hold_a_question(tmp_path: Path) -> None:
    with Endpoint(lambda _: Response(delay_s=30)) as endpoint:
        config = Config(models=ModelsConfig(encoder="fake", encoder_url=endpoint.base_url))
        config = config.model_copy(
            update={"daemon": config.daemon.model_copy(update={"data_dir": tmp_path})}
        )
        encoder = load_encoder(config)
        assert isinstance(encoder, HttpEncoder)
        began_s = time.monotonic()
        threading.Timer(0.5, encoder.close).start()
        with pytest.raises(EncoderUnavailable, match="the daemon is stopping"):
            encoder.encode_questions(["What?"])
        assert time.monotonic() - began_s < 5


def test_a_key_is_sent_only_to_the_endpoint_and_never_shown(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBED_KEY", "sk-very-secret-key")
    models = ModelsConfig(
        encoder="fake", encoder_url=endpoint.base_url, encoder_api_key_env="EMBED_KEY"
    )
    config = Config(models=models)
    config.daemon.__dict__["data_dir"] = tmp_path
    encoder = load_encoder(config)
    encoder.encode(["Rome"])
    assert endpoint.headers[0]["authorization"] == "Bearer sk-very-secret-key"
    endpoint.play = lambda _: error(401, "bad key sk-very-secret-key")
    with pytest.raises(EncoderUnavailable) as raised:
        encoder.encode(["Oslo"])
    assert "sk-very-secret-key" not in str(raised.value)
    assert "EMBED_KEY" in str(raised.value)


def test_an_endpoint_gets_no_key_that_was_set_for_another(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    for encoder in ("fake", "openai:fake", "ollama:fake"):
        config = Config(models=ModelsConfig(encoder=encoder, encoder_url=endpoint.base_url))
        config.daemon.__dict__["data_dir"] = tmp_path
        load_encoder(config).encode(["Rome"])
    assert {headers["authorization"] for headers in endpoint.headers} == {"Bearer none"}
    endpoint.play = lambda _: error(401, "no key")
    with pytest.raises(EncoderUnavailable, match=r"In \[models\], name the environment variable"):
        load_encoder(config).encode(["Oslo"])


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"encoder": "openai:m"}, "OPENAI_API_KEY"),
        ({"encoder": "openai:m", "encoder_api_key_env": "OTHER"}, "OTHER"),
        ({"encoder": "openai:m", "encoder_url": "https://x.example/v1"}, ""),
        ({"encoder": "ollama:m"}, ""),
        ({"encoder": "ollama:m", "encoder_api_key_env": "OTHER"}, "OTHER"),
        ({"encoder": "m", "encoder_url": "http://127.0.0.1/v1"}, ""),
    ],
)
def test_the_key_is_read_from_the_configured_variable(
    settings: dict[str, str], variable: str
) -> None:
    address = ModelsConfig.model_validate(settings).encoder_address
    assert address is not None
    assert address.key_env == variable


def test_a_batch_that_is_too_large_is_divided_and_a_long_text_is_cut(
    bench: Bench, endpoint: Endpoint
) -> None:
    def play(request: dict[str, Any]) -> Response:
        texts = request["input"]
        if len(texts) > 8:
            return error(413, "batch size 65 > maximum allowed batch size 8")
        if any(len(text) > 600 for text in texts):
            return error(400, "the input exceeds the context length")
        return embed()(request)

    endpoint.play = play
    long = "word " * 500
    texts = [*(f"ship{n}" for n in range(30)), long]
    made = bench.encoder.encode(texts)
    assert made.shape == (31, 64)
    assert (made[:30] == expected(texts[:30])).all()
    endpoint.requests.clear()
    bench.encoder.encode(texts[:8])
    assert len(endpoint.requests) <= 2, "it remembers the size of a batch"


def test_an_endpoint_without_the_format_field_is_asked_without_it(
    bench: Bench, endpoint: Endpoint
) -> None:
    def play(request: dict[str, Any]) -> Response:
        if "encoding_format" in request:
            return error(400, "unknown field: encoding_format")
        return embed()(request)

    endpoint.play = play
    bench.encoder.encode(["Rome"])
    bench.encoder.encode(["Oslo"])
    asked = ["encoding_format" in request for request in endpoint.requests]
    assert asked == [True, False, False, False]


def test_another_model_behind_the_name_is_refused_until_it_is_back(
    bench: Bench, endpoint: Endpoint
) -> None:
    before = bench.encoder.encode(["Rome"])
    endpoint.play = embed(change=lambda items: [{**items[0], "embedding": [1.0] * 64}, *items[1:]])
    message = why(bench)
    assert "another model answers under this name" in message
    assert "models.encoder_revision" in message
    bench.time.now += 400
    with pytest.raises(EncoderUnavailable, match="another model"):
        bench.encoder.encode_questions(["Rome?"])
    endpoint.play = embed()
    bench.time.now += 60
    assert (bench.encoder.encode(["Rome"]) == before).all()


def test_the_stored_probe_is_what_counts(endpoint: Endpoint, tmp_path: Path) -> None:
    bench = Bench(endpoint, tmp_path)
    bench.encoder.expect(to_grid(FakeEncoder(64).encode(["something else", "centre"])))
    assert "cosine" in why(bench)
    again = Bench(endpoint, tmp_path)
    again.encoder.expect(to_grid(FakeEncoder(64).encode([PROBE, "centre"])))
    assert again.encoder.dimensions == 64
    assert again.encoder.encode(["Rome"]).shape == (1, 64)


def test_tokens_are_counted_and_limited_per_day(endpoint: Endpoint, tmp_path: Path) -> None:
    bench = Bench(endpoint, tmp_path, encoder_max_tokens_per_day=900)
    bench.encoder.encode(["Rome is a city."])
    spent = bench.encoder.describe_status()
    assert spent["calls_today"] == 2
    sent = [text for request in endpoint.requests for text in request["input"]]
    assert spent["tokens_today"] == sum(len(text) // 4 for text in sent)
    message = why(bench, "many words " * 300)
    assert "limit of calls or tokens" in message
    assert "encoder_max_tokens_per_day in [models]" in message
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("encoder", "url", "address", "model"),
    [
        ("openai:text-embedding-3-small", "", "api.openai.com", "text-embedding-3-small"),
        ("ollama:nomic-embed-text", "", "127.0.0.1:11434", "nomic-embed-text"),
        ("ollama:qwen3-embedding:0.6b", "", "127.0.0.1:11434", "qwen3-embedding:0.6b"),
        ("ollama:bge-m3", "http://10.0.0.5:11434/v1", "10.0.0.5:11434", "bge-m3"),
        ("intfloat/e5:small", "http://127.0.0.1:8099/v1", "127.0.0.1:8099", "intfloat/e5:small"),
    ],
)
def test_the_setting_decides_at_which_endpoint_an_encoder_is(
    encoder: str, url: str, address: str, model: str
) -> None:
    made = load_encoder(Config(models=ModelsConfig(encoder=encoder, encoder_url=url)))
    assert isinstance(made, HttpEncoder)
    assert (made.host, made.model) == (address, model)
    assert made.name.startswith(f"{model}@api")


def test_the_name_tells_the_revision_not_the_address() -> None:
    settings = (
        ModelsConfig(encoder="m", encoder_url="http://a/v1"),
        ModelsConfig(encoder="m", encoder_url="http://b/v1"),
        ModelsConfig(encoder="m", encoder_url="http://b/v1", encoder_revision="2"),
    )
    names = {load_encoder(Config(models=models)).name for models in settings}
    assert names == {"m@api-c1", "m@api-c1+2"}
