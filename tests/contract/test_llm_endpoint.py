"""The LLM client over real HTTP against an endpoint that does its worst, and a well-behaved one."""

import subprocess
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.errors import LlmError, LlmNonsense, LlmRefused, LlmUnavailable
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall, ask, ask_all
from hopsyncd.models.llm.openai_llm import OpenAiLlm
from hopsyncd.models.llm.transport import HttpClient
from hopsyncd.models.loading import open_endpoint
from store.ledger import Ledger
from tests.fakes.endpoint import (
    Endpoint,
    Response,
    drop,
    error,
    event,
    in_turn,
    say,
    say_json,
    stream,
    user_text,
)
from tests.fakes.hostile import GOOD, KINDS, OFFERED, TEN_MB, Rows, hostile_replies
from tests.fakes.timing import FakeTime
from tests.fakes.token_sink import Heard


def call(user: str, purpose: Literal["questions", "answers"] = "questions") -> LlmCall:
    return LlmCall(purpose, "rows/1", "Make rows.", user, max_tokens=200, source="notes")


def good(_: dict[str, Any]) -> Response:
    return say_json(GOOD)


def case_of(request: dict[str, Any]) -> int:
    """The number that the first user message of the conversation ends in."""
    first = next(m["content"] for m in request["messages"] if m["role"] == "user")
    return int(first.split()[-1])


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(good) as served:
        yield served


@pytest.fixture
def opened(endpoint: Endpoint, tmp_path: Path) -> Callable[..., OpenAiLlm]:
    def make(**keys: Any) -> OpenAiLlm:
        config = LlmConfig(base_url=endpoint.base_url, model="fake", **keys)
        return open_endpoint(config, tmp_path)

    return make


@pytest.mark.parametrize("replies", [250, pytest.param(1000, marks=pytest.mark.nightly)])
def test_hostile_replies_end_as_checked_rows_or_as_errors_counted_by_kind(
    endpoint: Endpoint, tmp_path: Path, replies: int
) -> None:
    cases = hostile_replies(replies, seed=8)
    endpoint.play = lambda request: cases[case_of(request)].response
    config = LlmConfig(
        base_url=endpoint.base_url, model="fake", max_calls_per_day=0, max_tokens_per_day=0
    )
    ledger, http, usage = Ledger(tmp_path / "llm.db"), HttpClient(config.base_url, "sk-1"), Usage()

    def end_of(number: int) -> Rows | LlmError:
        llm = OpenAiLlm(config, ledger, http, FakeTime().timing)
        return ask_all(llm, [call(f"case {number}")], Rows, usage)[0]

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(end_of, range(replies)))

    kinds = [end.kind if isinstance(end, LlmError) else "reply" for end in ends]
    table = Counter((case.name, kind) for case, kind in zip(cases, kinds, strict=True))
    assert [
        (number, case.name, kind, str(end)[:200])
        for number, (case, kind, end) in enumerate(zip(cases, kinds, ends, strict=True))
        if kind not in case.ends
    ] == []
    assert len({name for name, _ in table}) == len(KINDS)
    for end in ends:
        if isinstance(end, Rows):
            assert all(row.passage in OFFERED and 0 <= row.weight <= 1 for row in end.rows)
        else:
            assert len(str(end)) < 1000 and str(end).isprintable() and "sk-1" not in str(end)
    counted = Counter(kinds)
    assert usage.failures == Counter({k: n for k, n in counted.items() if k != "reply"})
    spent = ledger.sum_spending(0)
    assert sum(row.calls for row in spent) == usage.calls == len(endpoint.requests)
    assert sum(row.tokens for row in spent) == usage.tokens
    endpoint.play = good
    assert end_of(replies) == Rows.model_validate(GOOD)


def test_a_reply_of_ten_megabytes_is_not_read(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm]
) -> None:
    big = say(TEN_MB)
    endpoint.play = in_turn(say_json(GOOD), big)
    llm, usage = opened(), Usage()
    ask(llm, call("warm up"), Rows, usage)
    tracemalloc.start()
    try:
        with pytest.raises(LlmNonsense, match="larger than 1048576 bytes"):
            ask(llm, call("big"), Rows, usage)
        assert tracemalloc.get_traced_memory()[1] < 6 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "slow",
    [
        Response(b"x" * 1000, delay_s=120.0),
        Response(b"x" * 1000, drip_s=0.2),
        Response(b"100\r\n" + b"x" * 99, headers={"transfer-encoding": "chunked"}, drip_s=0.2),
    ],
)
def test_the_deadline_holds_however_the_time_is_wasted(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm], slow: Response
) -> None:
    endpoint.play = lambda _: slow
    began = time.monotonic()
    with pytest.raises(LlmUnavailable):
        ask(opened(timeout_s=1.0), call("slow"), Rows, Usage())
    assert time.monotonic() - began < 60


def test_a_stalled_request_gets_a_second_chance(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm]
) -> None:
    endpoint.play = in_turn(replace(say_json(GOOD), delay_s=120.0), say_json(GOOD))
    assert ask(opened(timeout_s=8.0), call("stalled"), Rows, Usage()).rows
    assert len(endpoint.requests) == 2


def test_an_endpoint_that_is_down_costs_seconds_once(tmp_path: Path) -> None:
    with Endpoint(good) as gone:
        base_url = gone.base_url
    fake = FakeTime()
    config = LlmConfig(base_url=base_url, model="fake", concurrency=1)
    llm = OpenAiLlm(config, Ledger(tmp_path / "llm.db"), HttpClient(base_url, ""), fake.timing)
    ends = ask_all(llm, [call(str(n)) for n in range(200)], Rows, usage := Usage())
    assert all(isinstance(end, LlmUnavailable) for end in ends)
    assert usage.failures == {"unavailable": 200}
    assert sum(fake.waited) < 20
    assert usage.tokens == 0


def test_callers_share_one_limit_of_concurrency(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm]
) -> None:
    three = threading.Event()

    def play(_: dict[str, Any]) -> Response:
        if endpoint.most_at_once >= 3:
            three.set()
        three.wait(60)
        return replace(say_json(GOOD), delay_s=0.03)

    endpoint.play = play
    llm = opened(concurrency=3)

    def caller(name: str) -> int:
        calls = [call(f"{name} {n}") for n in range(8)]
        return sum(isinstance(end, Rows) for end in ask_all(llm, calls, Rows, Usage()))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(caller, "abcd")) == [8] * 4
    assert endpoint.most_at_once == 3


def test_each_result_is_returned_as_soon_as_it_is_ready_with_its_index(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm]
) -> None:
    quick = threading.Event()

    def play(request: dict[str, Any]) -> Response:
        if user_text(request) == "slow":
            quick.wait(60)
        return say_json(GOOD)

    endpoint.play = play
    results = opened().ask_each([call("slow"), call("quick")], Rows, Usage())
    assert next(results)[0] == 1
    quick.set()
    assert next(results)[0] == 0
    assert list(results) == []


def test_closing_the_client_ends_running_calls(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm]
) -> None:
    endpoint.play = lambda _: replace(say_json(GOOD), delay_s=120.0)
    llm = opened()
    threading.Timer(0.3, llm.close).start()
    began = time.monotonic()
    ends = ask_all(llm, [call(str(n)) for n in range(20)], Rows, Usage())
    assert time.monotonic() - began < 60
    assert all(isinstance(end, LlmUnavailable) for end in ends)


def test_the_key_goes_to_the_endpoint_and_into_no_error(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", " sk-very-secret\n")
    endpoint.play = lambda _: error(400, "you sent sk-very-secret as the key")
    llm = opened(api_key_env="SOME_KEY")
    with pytest.raises(LlmRefused, match=r"you sent \[key\] as") as caught:
        ask(llm, call("hello"), Rows, Usage())
    assert endpoint.headers[0]["authorization"] == "Bearer sk-very-secret"
    shown = "".join(
        map(
            repr,
            [caught.value, llm, llm.describe_status(), HttpClient("http://h", "sk-very-secret")],
        )
    )
    assert "secret" not in shown


def test_without_a_key_a_local_server_gets_a_dummy(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for-another-place")
    assert ask(opened(api_key_env="NOT_SET_AT_ALL"), call("hello"), Rows, Usage()).rows
    assert endpoint.headers[0]["authorization"] == "Bearer none"


def test_a_redirect_is_not_followed(endpoint: Endpoint, opened: Callable[..., OpenAiLlm]) -> None:
    with Endpoint(good) as elsewhere:
        target = f"{elsewhere.base_url}/chat/completions"
        endpoint.play = lambda _: Response(b"", 307, {"location": target})
        with pytest.raises(LlmRefused, match="final address"):
            ask(opened(), call("hello"), Rows, Usage())
        assert elsewhere.requests == []


def test_a_dropped_connection_is_tried_again(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.play = in_turn(drop(), error(503, "busy", retry_after="2"), say_json(GOOD))
    fake = FakeTime()
    config = LlmConfig(base_url=endpoint.base_url, model="fake")
    llm = OpenAiLlm(
        config, Ledger(tmp_path / "llm.db"), HttpClient(config.base_url, ""), fake.timing
    )
    assert ask(llm, call("hello"), Rows, Usage()).rows
    assert fake.waited == [0.375, 2.0]


@pytest.mark.parametrize(
    ("response", "heard"),
    [
        (say_json(GOOD), []),
        (stream(["re", "d"]), ["re", "d"]),
        (stream(["re", "d"], finish_reason=None), ["re", "d", "[the reply ended too early]"]),
        (
            replace(stream([]), parts=[event({"error": {"message": "out of memory"}})]),
            ["[the reply ended with an error]"],
        ),
    ],
)
def test_a_request_to_stream_may_be_met_in_any_way(
    endpoint: Endpoint, opened: Callable[..., OpenAiLlm], response: Response, heard: list[str]
) -> None:
    endpoint.play = in_turn(response, say_json(GOOD))
    sink = Heard()
    assert ask(opened(), call("hello"), Rows, Usage(), sink).rows
    assert sink.all[: len(heard)] == heard
    assert "stream" in endpoint.requests[0]


def test_openai_is_not_imported_if_no_endpoint_is_configured() -> None:
    script = "import sys, hopsyncd.daemon; assert not {'openai', 'httpx2'} & sys.modules.keys()"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True)
