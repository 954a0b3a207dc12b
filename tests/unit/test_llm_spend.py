"""The LLM client with scripted replies: what is kept, what is paid for, and where spending ends."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.errors import BudgetSpent
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall, ask, ask_all
from hopsyncd.models.llm.openai_llm import ReplyCache
from hopsyncd.models.llm.retry import RequestFailure
from tests.fakes.desk import BUSY, DOWN, RED, STALLED, Colour, Desk, call
from tests.fakes.endpoint import say, say_json


def test_the_same_call_is_made_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, say_json({"name": "blue"}).body)
    assert [desk.ask().name for _ in range(3)] == ["red"] * 3
    assert (desk.sent, desk.usage.calls, desk.usage.cached) == (1, 1, 2)
    other = LlmCall("questions", "colours/2", "Name a colour.", "which?", 50)
    assert ask(desk.llm, other, Colour, desk.usage).name == "blue"


def test_a_failed_call_is_not_cached(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RequestFailure(400, "not now"), RED)
    desk.failure()
    assert desk.ask().name == "red"


def test_a_changed_reply_object_does_not_change_the_kept_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    desk.ask().name = "changed"
    assert desk.ask().name == "red"


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    replies = ReplyCache(max_bytes=3 * 1200)
    made: list[bytes] = []

    def text_of(key: bytes) -> None:
        def make() -> str:
            made.append(key)
            return "x" * 1000

        replies.get_or_make(key, make, shared=lambda _: True)

    for key in (b"a", b"b", b"c", b"a", b"d", b"a", b"b"):
        text_of(key)
    assert made == [b"a", b"b", b"c", b"d", b"b"]
    assert replies.bytes <= 3 * 1200


def test_identical_calls_at_a_time_are_one_request(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    found = ask_all(desk.llm, [call("same")] * 8, Colour, desk.usage)
    assert all(isinstance(one, Colour) for one in found)
    assert (desk.sent, desk.usage.cached) == (1, 7)


def test_a_failure_of_one_caller_does_not_fail_another_waiting_caller() -> None:
    replies, began, go = ReplyCache(10**6), threading.Event(), threading.Event()

    def fail() -> str:
        began.set()
        go.wait(60)
        raise BudgetSpent("Not asked", "its calls are used", "Ask for less")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(replies.get_or_make, b"k", fail, lambda _: False)
        began.wait(60)
        second = pool.submit(replies.get_or_make, b"k", lambda: "made", lambda _: False)
        go.set()
        assert isinstance(first.exception(60), BudgetSpent)
        assert second.result(60) == ("made", False)


def test_a_query_that_may_not_ask_does_not_keep_another_from_asking(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    poor = Usage(max_calls=0)
    results = list(desk.llm.ask_each([call("same")], Colour, poor))
    assert isinstance(results[0][1], BudgetSpent)
    assert poor.failures == {"budget": 1}
    assert desk.ask("same").name == "red"


def test_a_request_is_paid_for_as_the_endpoint_says(tmp_path: Path) -> None:
    desk = Desk(tmp_path, say('{"name": "red"}', prompt_tokens=31, completion_tokens=7).body)
    desk.ask()
    assert (desk.usage.prompt_tokens, desk.usage.completion_tokens) == (31, 7)
    assert desk.spent() == (1, 38)
    (row,) = desk.ledger.sum_spending(0)
    assert (row.purpose, row.source) == ("questions", "notes")


@pytest.mark.parametrize(
    "usage", [None, [], {}, {"prompt_tokens": -5, "completion_tokens": 1}, {"prompt_tokens": "9"},
              {"prompt_tokens": 10**30, "completion_tokens": 1}, {"prompt_tokens": True}]
)  # fmt: skip
def test_without_a_sane_count_the_reserved_tokens_are_taken_as_spent(
    tmp_path: Path, usage: Any
) -> None:
    completion = json.loads(RED)
    completion["usage"] = usage
    desk = Desk(tmp_path, json.dumps(completion).encode())
    desk.ask()
    assert desk.usage.completion_tokens == 50
    assert 50 < desk.usage.prompt_tokens < 500


def test_requests_that_cannot_have_cost_anything_are_calls_without_tokens(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DOWN, BUSY, RED)
    desk.ask()
    assert desk.spent() == (3, 120)


def test_a_request_whose_end_nobody_saw_is_taken_as_spent(tmp_path: Path) -> None:
    desk = Desk(tmp_path, STALLED, RED)
    desk.ask()
    assert desk.usage.tokens > 120 + 50
    assert desk.spent() == (2, desk.usage.tokens)


def test_the_days_limits_stop_the_calls(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, max_calls_per_day=2)
    desk.ask("one")
    desk.ask("two")
    assert isinstance(desk.failure("three"), BudgetSpent)
    assert desk.usage.calls == 2
    assert desk.ask("one").name == "red"
    desk.time.now += 86_400
    assert desk.ask("three").name == "red"


def test_retries_are_within_the_budget_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path, BUSY)
    with pytest.raises(BudgetSpent):
        desk.ask(usage=Usage(max_calls=3))
    assert desk.sent == 3


def test_nothing_is_asked_while_the_ledger_is_damaged(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    (tmp_path / "llm.db").write_bytes(b"no database" * 999)
    error = desk.failure()
    assert isinstance(error, BudgetSpent)
    assert "llm.db" in str(error) and "Move the file away" in error.hint
    assert (desk.sent, desk.usage.calls) == (0, 0)
    status = desk.llm.describe_status()
    assert "llm.db" in (status["ledger_problem"] or "")
    (tmp_path / "llm.db").unlink()
    assert desk.ask().name == "red"


def test_the_status_shows_purposes_endpoint_and_cost(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, RequestFailure(400, "no"))
    desk.ask("one")
    desk.failure("two")
    status = desk.llm.describe_status()
    assert (status["endpoint"], status["model"]) == ("llm.example", "m")
    assert (status["calls_today"], status["tokens_today"]) == (2, 120)
    failure = status["last_failure"]
    assert failure and failure["kind"] == "refused"
    assert failure["at"] == "1970-01-12T13:46:40.000+00:00"
    assert status["ledger_problem"] is None
