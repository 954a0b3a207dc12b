"""The LLM client with scripted replies and its own time: retries, refusals, deadlines, ends."""

import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.errors import LlmRefused, LlmUnavailable
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import ask_all
from hopsyncd.models.llm.chat_completion import Completion
from hopsyncd.models.llm.openai_llm import OpenAiLlm
from hopsyncd.models.llm.retry import RequestFailure
from store.ledger import Ledger
from tests.fakes.desk import DOWN, RED, STALLED, Colour, Desk, Script, call


@pytest.mark.parametrize(
    "failure", [RequestFailure(status, "no") for status in (408, 409, 429, 500, 502, 503, 529)]
)
def test_a_passing_failure_is_tried_again_after_a_growing_pause(
    tmp_path: Path, failure: RequestFailure
) -> None:
    desk = Desk(tmp_path, failure, failure, failure, RED)
    assert desk.ask().name == "red"
    assert desk.time.waited == [0.375, 0.75, 1.5]
    assert desk.usage.calls == 4
    assert desk.usage.failures == {}


def test_a_lost_or_refused_connection_is_tried_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DOWN, STALLED, RED)
    assert desk.ask().name == "red"
    assert desk.sent == 3


def test_an_endpoint_that_stays_down_gets_five_requests(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DOWN)
    error = desk.failure()
    assert isinstance(error, LlmUnavailable)
    assert "llm.example" in str(error) and "Connection refused" in str(error)
    assert desk.sent == 5
    assert desk.usage.failures == {"unavailable": 1}


@pytest.mark.parametrize(
    ("failure", "hint"),
    [
        (RequestFailure(400, "context too long"), "Compare [llm]"),
        (RequestFailure(401, "bad key"), "OPENAI_API_KEY"),
        (RequestFailure(402, "pay"), "credit"),
        (RequestFailure(403, "not you"), "are allowed"),
        (RequestFailure(404, "no such model"), "`model`"),
        (RequestFailure(413, "too large"), "passages_per_call"),
        (RequestFailure(422, "no"), "Compare [llm]"),
        (RequestFailure(307, "elsewhere"), "final address"),
        (RequestFailure(429, "no money", code="insufficient_quota"), "credit"),
    ],
)
def test_a_permanent_refusal_is_not_tried_again_and_says_what_to_do(
    tmp_path: Path, failure: RequestFailure, hint: str
) -> None:
    desk = Desk(tmp_path, failure, RED)
    error = desk.failure()
    assert isinstance(error, LlmRefused)
    assert hint in error.hint
    assert failure.message in error.why
    assert desk.sent == 1
    assert desk.time.waited == []
    assert "llm.example refused the request: " in str(error)
    assert desk.usage.failures == {"refused": 1}


def test_retry_after_is_waited_for_in_seconds_and_as_a_date(tmp_path: Path) -> None:
    date = formatdate(1_000_000.0 + 7 + 20, usegmt=True)
    desk = Desk(
        tmp_path,
        RequestFailure(429, "", retry_after="7"),
        RequestFailure(503, "", retry_after=date),
        RED,
    )
    desk.ask()
    assert desk.time.waited == [7.0, 20.0]


@pytest.mark.parametrize("header", ["", "soon", "-5", "nan", "inf", "1e999", "\x00", "0"])
def test_a_senseless_retry_after_leaves_the_usual_pause(tmp_path: Path, header: str) -> None:
    desk = Desk(tmp_path, RequestFailure(429, "", retry_after=header), RED)
    desk.ask()
    assert desk.time.waited == [0.375]


def test_a_retry_after_beyond_the_deadline_ends_the_call_and_spares_the_endpoint(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, RequestFailure(429, "", retry_after="90"), RED)
    assert isinstance(desk.failure(), LlmUnavailable)
    assert desk.time.waited == []
    desk.time.now += 89
    assert "the next attempt is in 1 s" in str(desk.failure())
    assert desk.sent == 1
    desk.time.now += 2
    assert desk.ask().name == "red"


def test_an_endless_retry_after_is_cut_at_an_hour(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RequestFailure(429, "", retry_after="1e15"), RED)
    desk.failure()
    desk.time.now += 3601
    assert desk.ask().name == "red"


def test_a_stalled_request_is_tried_again_within_the_one_deadline(tmp_path: Path) -> None:
    desk = Desk(tmp_path, STALLED, stalls=True, timeout_s=60)
    began = desk.time.now
    assert isinstance(desk.failure(), LlmUnavailable)
    assert desk.time.now - began <= 60
    assert desk.sender.timeouts[0] == 45
    assert desk.sent == 2


def test_after_three_unanswered_calls_the_next_fail_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DOWN)
    for n in range(3):
        desk.failure(str(n))
    assert desk.sent == 15
    now = desk.time.now
    error = desk.failure("4")
    assert isinstance(error, LlmUnavailable)
    assert "the next attempt is in 30 s" in str(error)
    assert (desk.sent, desk.time.now) == (15, now)


def test_after_a_pause_one_request_per_call_tests_the_endpoint(tmp_path: Path) -> None:
    desk = Desk(tmp_path, *[DOWN] * 16, RED)
    for n in range(3):
        desk.failure(str(n))
    desk.time.now += 31
    desk.failure("still down")
    assert desk.sent == 16
    desk.time.now += 31
    assert desk.ask().name == "red"
    assert desk.ask("another").name == "red"


def test_a_wrong_key_is_not_sent_for_every_passage(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RequestFailure(401, "bad key"), RED)
    errors = [desk.failure(str(n)) for n in range(10)]
    assert all(isinstance(error, LlmRefused) for error in errors)
    assert "OPENAI_API_KEY" in errors[-1].hint
    assert desk.sent == 1


def test_one_refused_text_does_not_hold_up_the_others(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RequestFailure(400, "context too long"), RED)
    desk.failure("too long")
    assert desk.ask("short").name == "red"


def test_a_closed_client_sends_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    desk.llm.close()
    assert isinstance(desk.failure(), LlmUnavailable)
    assert desk.sent == 0


def test_an_abandoned_batch_sends_no_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, concurrency=1)
    desk.sender.takes = lambda _: time.sleep(0.02)
    results = desk.llm.ask_each([call(str(n)) for n in range(500)], Colour, desk.usage)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert desk.sent < 500
    assert desk.ask("afterwards").name == "red"


def test_an_unexpected_error_is_the_result_of_its_call_alone(tmp_path: Path) -> None:
    class Broken(Script):
        def complete(self, body: dict[str, Any], *given: Any) -> Completion:
            if body["messages"][1]["content"] == "1":
                raise RuntimeError("a bug")
            return super().complete(body, *given)

    config = LlmConfig(base_url="http://llm.example/v1", model="m")
    llm = OpenAiLlm(config, Ledger(tmp_path / "llm.db"), Broken(RED))
    results = ask_all(llm, [call(str(n)) for n in range(3)], Colour, Usage())
    assert [type(result) for result in results] == [Colour, LlmUnavailable, Colour]
