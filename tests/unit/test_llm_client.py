"""The LLM client with scripted replies and its own time: retries, budgets, repair, cache, ends."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from hopsyncd.config import LlmConfig
from hopsyncd.errors import BudgetSpent, LlmError, LlmNonsense, LlmRefused, LlmUnavailable
from hopsyncd.llm.cache import Replies
from hopsyncd.llm.call import Call, Hearer, ask, ask_all
from hopsyncd.llm.client import OpenAiLlm
from hopsyncd.llm.failure import Failure, shown
from hopsyncd.llm.meter import Meter
from hopsyncd.llm.reply import Unusable, read_completion, read_reply
from store.ledger import Ledger
from tests.fakes.endpoint import event, say, say_json, stream
from tests.fakes.hearer import Heard
from tests.fakes.timing import FakeTime


class Colour(BaseModel):
    name: Annotated[str, Field(min_length=1)]


RED = say_json({"name": "red"}).body
DOWN = Failure(0, "Connection refused", sent=False)
STALLED = Failure(0, "no whole reply came in time")
BUSY = Failure(503, "busy")

Outcome = bytes | Failure


class Script:
    """Implements exchange.Sender: plays its outcomes in turn, the last one for ever."""

    def __init__(self, *outcomes: Outcome, takes: Callable[[float], None] | None = None) -> None:
        self._outcomes = list(outcomes)
        self._takes = takes
        self._lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.timeouts: list[float] = []

    def post(
        self,
        body: dict[str, Any],
        timeout_s: float,
        stop: threading.Event,
        hear: Callable[[bytes], None] | None,
    ) -> bytes:
        with self._lock:
            self.bodies.append(body)
            self.timeouts.append(timeout_s)
            outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if self._takes:
            self._takes(timeout_s)
        if isinstance(outcome, Failure):
            raise outcome
        if hear:
            hear(outcome)
        return outcome


class Desk:
    """A client, and all that it was given."""

    def __init__(
        self, folder: Path, *outcomes: Outcome, stalls: bool = False, **limits: Any
    ) -> None:
        self.time = FakeTime()
        self.sender = Script(*outcomes, takes=self._pass if stalls else None)
        config = LlmConfig(base_url="http://llm.example/v1", model="m", **limits)
        self.ledger = Ledger(folder / "llm.db", config.max_calls_per_day, config.max_tokens_per_day)
        self.llm = OpenAiLlm(config, self.ledger, self.sender, self.time.timing)
        self.meter = Meter()

    def _pass(self, seconds: float) -> None:
        self.time.now += seconds

    def ask(
        self, user: str = "which?", meter: Meter | None = None, hearer: Hearer | None = None
    ) -> Colour:
        return ask(self.llm, call(user), Colour, meter or self.meter, hearer)

    def failure(self, user: str = "which?") -> LlmError:
        with pytest.raises(LlmError) as caught:
            self.ask(user)
        return caught.value

    @property
    def sent(self) -> int:
        return len(self.sender.bodies)

    def spent(self) -> tuple[int, int]:
        rows = self.ledger.spent(0)
        return sum(row.calls for row in rows), sum(row.tokens for row in rows)


def call(user: str) -> Call:
    return Call("questions", "colours/1", "Name a colour.", user, max_tokens=50, source="notes")


@pytest.mark.parametrize(
    "failure", [Failure(status, "no") for status in (408, 409, 429, 500, 502, 503, 529)]
)
def test_a_passing_failure_is_tried_again_after_a_growing_pause(
    tmp_path: Path, failure: Failure
) -> None:
    desk = Desk(tmp_path, failure, failure, failure, RED)
    assert desk.ask().name == "red"
    assert desk.time.waited == [0.375, 0.75, 1.5]
    assert desk.meter.calls == 4
    assert desk.meter.failures == {}


def test_a_lost_or_refused_connection_is_tried_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DOWN, STALLED, RED)
    assert desk.ask().name == "red"
    assert desk.sent == 3


def test_an_endpoint_that_stays_down_is_given_up_after_five_requests(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DOWN)
    error = desk.failure()
    assert isinstance(error, LlmUnavailable)
    assert "llm.example" in str(error) and "Connection refused" in str(error)
    assert desk.sent == 5
    assert desk.meter.failures == {"unavailable": 1}


@pytest.mark.parametrize(
    ("failure", "hint"),
    [
        (Failure(400, "context too long"), "Check [llm]"),
        (Failure(401, "bad key"), "OPENAI_API_KEY"),
        (Failure(402, "pay"), "credit"),
        (Failure(403, "not you"), "not allowed"),
        (Failure(404, "no such model"), "`model`"),
        (Failure(413, "too large"), "passages_per_call"),
        (Failure(422, "no"), "Check [llm]"),
        (Failure(307, "elsewhere"), "final address"),
        (Failure(429, "no money", code="insufficient_quota"), "credit"),
    ],
)
def test_a_permanent_refusal_is_not_tried_again_and_says_what_to_do(
    tmp_path: Path, failure: Failure, hint: str
) -> None:
    desk = Desk(tmp_path, failure, RED)
    error = desk.failure()
    assert isinstance(error, LlmRefused)
    assert hint in error.hint
    assert failure.message in error.why
    assert desk.sent == 1
    assert desk.time.waited == []
    assert desk.meter.failures == {"refused": 1}


def test_retry_after_is_waited_for_in_seconds_and_as_a_date(tmp_path: Path) -> None:
    date = formatdate(1_000_000.0 + 7 + 20, usegmt=True)
    desk = Desk(
        tmp_path, Failure(429, "", retry_after="7"), Failure(503, "", retry_after=date), RED
    )
    desk.ask()
    assert desk.time.waited == [7.0, 20.0]


@pytest.mark.parametrize("header", ["", "soon", "-5", "nan", "inf", "1e999", "\x00", "0"])
def test_a_senseless_retry_after_leaves_the_usual_pause(tmp_path: Path, header: str) -> None:
    desk = Desk(tmp_path, Failure(429, "", retry_after=header), RED)
    desk.ask()
    assert desk.time.waited == [0.375]


def test_a_retry_after_beyond_the_deadline_ends_the_call_and_spares_the_endpoint(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, Failure(429, "", retry_after="90"), RED)
    assert isinstance(desk.failure(), LlmUnavailable)
    assert desk.time.waited == []
    desk.time.now += 89
    assert "next tried in 1 s" in str(desk.failure())
    assert desk.sent == 1
    desk.time.now += 2
    assert desk.ask().name == "red"


def test_an_endless_retry_after_is_cut_at_an_hour(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Failure(429, "", retry_after="1e15"), RED)
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
    assert "next tried in 30 s" in str(error)
    assert (desk.sent, desk.time.now) == (15, now)


def test_after_the_rest_one_request_a_call_shows_whether_it_is_back(tmp_path: Path) -> None:
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
    desk = Desk(tmp_path, Failure(401, "bad key"), RED)
    errors = [desk.failure(str(n)) for n in range(10)]
    assert all(isinstance(error, LlmRefused) for error in errors)
    assert "OPENAI_API_KEY" in errors[-1].hint
    assert desk.sent == 1


def test_one_refused_text_does_not_hold_up_the_others(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Failure(400, "context too long"), RED)
    desk.failure("too long")
    assert desk.ask("short").name == "red"


def test_a_reply_of_the_wrong_form_is_repaired_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, say('{"nam": "red"}').body, RED)
    assert desk.ask().name == "red"
    shown_back = desk.sender.bodies[1]["messages"][-2:]
    assert shown_back[0] == {"role": "assistant", "content": '{"nam": "red"}'}
    assert "name: Field required" in shown_back[1]["content"]
    assert desk.meter.calls == 2


@pytest.mark.parametrize("text", ["", None, "red", "[]", '{"name": ""}', '{"name": "re'])
def test_a_second_reply_of_the_wrong_form_is_nonsense(tmp_path: Path, text: str | None) -> None:
    desk = Desk(tmp_path, say(text).body)
    assert isinstance(desk.failure(), LlmNonsense)
    assert desk.sent == 2
    assert desk.meter.failures == {"nonsense": 1}


def test_a_reply_that_was_cut_off_is_asked_for_again_but_shorter(tmp_path: Path) -> None:
    cut = say('{"name": "re', finish_reason="length").body
    desk = Desk(tmp_path, cut, RED, cut)
    assert desk.ask().name == "red"
    assert "cut off at 50 tokens" in str(desk.failure("and which else?"))
    assert "cut off at 50 tokens" in desk.sender.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "reply",
    [
        say(None, refusal="I can't help with that"),
        say("", finish_reason="content_filter"),
        say('{"name": "red"}', finish_reason="content_filter"),
    ],
)
def test_a_model_that_declines_is_not_asked_again(tmp_path: Path, reply: Any) -> None:
    desk = Desk(tmp_path, reply.body)
    assert isinstance(desk.failure(), LlmRefused)
    assert desk.sent == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"choices": []}', b"\xff\xfe", b"{" * 9**5]
)
def test_a_response_that_is_no_completion_is_nonsense_without_repair(
    tmp_path: Path, body: bytes
) -> None:
    desk = Desk(tmp_path, body)
    assert isinstance(desk.failure(), LlmNonsense)
    assert desk.sent == 1


def test_a_schema_that_is_refused_goes_into_the_prompt_from_then_on(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Failure(400, "unknown field: response_format"), RED)
    desk.ask("one")
    desk.ask("two")
    first, *later = desk.sender.bodies
    assert first["response_format"]["json_schema"]["schema"]["required"] == ["name"]
    assert len(later) == 2
    for body in later:
        assert "response_format" not in body
        assert '"required": ["name"]' in body["messages"][0]["content"]


def test_other_names_and_temperatures_are_learned(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        Failure(400, "'max_tokens' is not supported: use 'max_completion_tokens'"),
        Failure(400, "Unsupported value: 'temperature' does not support 0"),
        RED,
    )
    desk.ask()
    assert desk.sender.bodies[0]["temperature"] == 0
    assert "temperature" not in desk.sender.bodies[-1]
    assert desk.sender.bodies[-1]["max_completion_tokens"] == 50
    assert desk.time.waited == []


def test_a_refusal_that_names_the_same_field_again_ends_the_call(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Failure(400, "temperature, max_completion_tokens, schema: all wrong"))
    assert isinstance(desk.failure(), LlmRefused)
    assert desk.sent == 4


def test_the_same_call_is_made_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, say_json({"name": "blue"}).body)
    assert [desk.ask().name for _ in range(3)] == ["red"] * 3
    assert (desk.sent, desk.meter.calls, desk.meter.cached) == (1, 1, 2)
    other = Call("questions", "colours/2", "Name a colour.", "which?", 50)
    assert ask(desk.llm, other, Colour, desk.meter).name == "blue"


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Failure(400, "not now"), RED)
    desk.failure()
    assert desk.ask().name == "red"


def test_a_changed_reply_object_does_not_change_the_kept_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    desk.ask().name = "changed"
    assert desk.ask().name == "red"


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    replies = Replies(max_bytes=3 * 1200)
    made: list[bytes] = []

    def text_of(key: bytes) -> None:
        def make() -> str:
            made.append(key)
            return "x" * 1000

        replies.once(key, make, shared=lambda _: True)

    for key in (b"a", b"b", b"c", b"a", b"d", b"a", b"b"):
        text_of(key)
    assert made == [b"a", b"b", b"c", b"d", b"b"]
    assert replies.bytes <= 3 * 1200


def test_identical_calls_at_a_time_are_one_request(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    found = ask_all(desk.llm, [call("same")] * 8, Colour, desk.meter)
    assert all(isinstance(one, Colour) for one in found)
    assert (desk.sent, desk.meter.cached) == (1, 7)


def test_one_callers_own_failure_is_not_that_of_another_who_waits_for_it() -> None:
    replies, began, go = Replies(10**6), threading.Event(), threading.Event()

    def fail() -> str:
        began.set()
        go.wait(5)
        raise BudgetSpent("Not asked", "its calls are used", "Ask for less")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(replies.once, b"k", fail, lambda _: False)
        began.wait(5)
        second = pool.submit(replies.once, b"k", lambda: "made", lambda _: False)
        go.set()
        assert isinstance(first.exception(5), BudgetSpent)
        assert second.result(5) == ("made", False)


def test_a_query_that_may_not_ask_does_not_keep_another_from_asking(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    poor = Meter(max_calls=0)
    results = list(desk.llm.ask_each([call("same")], Colour, poor))
    assert isinstance(results[0][1], BudgetSpent)
    assert poor.failures == {"budget": 1}
    assert desk.ask("same").name == "red"


def test_a_request_is_paid_for_as_the_endpoint_says(tmp_path: Path) -> None:
    desk = Desk(tmp_path, say('{"name": "red"}', prompt_tokens=31, completion_tokens=7).body)
    desk.ask()
    assert (desk.meter.prompt_tokens, desk.meter.completion_tokens) == (31, 7)
    assert desk.spent() == (1, 38)
    (row,) = desk.ledger.spent(0)
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
    assert desk.meter.completion_tokens == 50
    assert 50 < desk.meter.prompt_tokens < 500


def test_requests_that_cannot_have_cost_anything_are_calls_without_tokens(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DOWN, BUSY, RED)
    desk.ask()
    assert desk.spent() == (3, 120)


def test_a_request_whose_end_nobody_saw_is_taken_as_spent(tmp_path: Path) -> None:
    desk = Desk(tmp_path, STALLED, RED)
    desk.ask()
    assert desk.meter.tokens > 120 + 50
    assert desk.spent() == (2, desk.meter.tokens)


def test_the_days_limits_stop_the_calls(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, max_calls_per_day=2)
    desk.ask("one")
    desk.ask("two")
    assert isinstance(desk.failure("three"), BudgetSpent)
    assert desk.meter.calls == 2
    assert desk.ask("one").name == "red"
    desk.time.now += 86_400
    assert desk.ask("three").name == "red"


def test_retries_are_within_the_budget_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path, BUSY)
    with pytest.raises(BudgetSpent):
        desk.ask(meter=Meter(max_calls=3))
    assert desk.sent == 3


def test_nothing_is_asked_while_the_ledger_is_damaged(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    (tmp_path / "llm.db").write_bytes(b"no database" * 999)
    error = desk.failure()
    assert isinstance(error, BudgetSpent)
    assert "llm.db" in str(error) and "Move it away" in error.hint
    assert (desk.sent, desk.meter.calls) == (0, 0)
    status = desk.llm.status()
    assert "llm.db" in status["ledger_problem"]
    (tmp_path / "llm.db").unlink()
    assert desk.ask().name == "red"


def test_the_status_says_what_is_asked_where_and_what_it_took(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, Failure(400, "no"))
    desk.ask("one")
    desk.failure("two")
    status = desk.llm.status()
    assert (status["endpoint"], status["model"]) == ("llm.example", "m")
    assert (status["calls_today"], status["tokens_today"]) == (2, 120)
    assert status["last_failure"]["kind"] == "refused"
    assert status["last_failure"]["at"] == "1970-01-12T13:46:40.000+00:00"
    assert status["ledger_problem"] is None


def test_a_closed_client_sends_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED)
    desk.llm.close()
    assert isinstance(desk.failure(), LlmUnavailable)
    assert desk.sent == 0


def test_an_abandoned_batch_sends_no_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RED, concurrency=1)
    results = desk.llm.ask_each([call(str(n)) for n in range(500)], Colour, desk.meter)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert desk.sent < 500
    assert desk.ask("afterwards").name == "red"


def test_an_unexpected_error_is_the_result_of_its_call_alone(tmp_path: Path) -> None:
    class Broken(Script):
        def post(self, body: dict[str, Any], *_: Any) -> bytes:
            if body["messages"][1]["content"] == "1":
                raise RuntimeError("a bug")
            return RED

    config = LlmConfig(base_url="http://llm.example/v1", model="m")
    llm = OpenAiLlm(config, Ledger(tmp_path / "llm.db"), Broken(RED))
    results = ask_all(llm, [call(str(n)) for n in range(3)], Colour, Meter())
    assert [type(result) for result in results] == [Colour, LlmUnavailable, Colour]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "red"}',
        ' \n{"name": "red"}\n',
        '```json\n{"name": "red"}\n```',
        'Here you are:\n```\n{"name": "red"}\n```\nAnything else?',
        'Sure! {"name": "red"} is it.',
        '<think>{"name": "blue"}?</think>\n{"name": "red"}',
    ],
)
def test_one_object_is_found_among_fences_words_and_thoughts(text: str) -> None:
    assert json.loads(read_reply(text, Colour)) == {"name": "red"}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "red"} or {"name": "blue"}',
        '{"name": NaN}',
        '{"name": "red", "x": 1e999}',
        '{"name": "\\ud800"}',
        '{"name": ' + "9" * 9999 + "}",
        '{"name": ' + "[" * 9999,
        "{" * 9999 + "}" * 9999,
        "{}",
    ],
)
def test_anything_else_is_unusable(text: str) -> None:
    with pytest.raises(Unusable):
        read_reply(text, Colour)


def test_what_a_stranger_says_is_shown_on_one_short_printable_line() -> None:
    assert shown("\x1b]0;evil\x07\n\u202eabc" + "x" * 10**6).startswith("]0;evil abc")
    assert len(shown("x" * 10**6)) == 200
    completion = {"choices": [{"message": {"content": "{}"}}]}
    assert read_completion(json.dumps(completion).encode()).tokens() is None


def test_keys_in_a_reply_do_not_reach_the_error_in_full(tmp_path: Path) -> None:
    class Closed(Colour, extra="forbid"):
        pass

    with pytest.raises(Unusable) as caught:
        read_reply(json.dumps({"name": "red", "\x1b[2J" + "k" * 9999: 1}), Closed)
    assert len(str(caught.value)) <= 200
    assert str(caught.value).isprintable()


def streamed(*texts: str, **more: Any) -> bytes:
    return b"".join(stream(texts, **more).parts or ())


def test_a_reply_is_streamed_to_who_hears_it_and_to_nobody_else(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, streamed('{"name": "re', 'd"}'), RED), Heard()
    assert desk.ask("one", hearer=heard).name == "red"
    assert heard.all == ['{"name": "re', 'd"}']
    desk.ask("two")
    first, second = desk.sender.bodies
    assert (first["stream"], first["stream_options"]) == (True, {"include_usage": True})
    assert not {"stream", "stream_options"} & second.keys()
    assert (desk.meter.calls, desk.meter.tokens) == (2, 240)
    assert desk.spent() == (2, 240)


def test_a_stream_without_a_count_takes_the_reserved_tokens(tmp_path: Path) -> None:
    desk = Desk(tmp_path, streamed('{"name": "red"}', usage=False))
    desk.ask(hearer=Heard())
    assert desk.meter.completion_tokens == 50
    assert 50 < desk.meter.prompt_tokens < 500


def test_a_kept_reply_is_not_heard_again_and_is_the_same_streamed_or_not(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, streamed('{"name": "red"}')), Heard()
    desk.ask(hearer=heard)
    heard.all.clear()
    assert desk.ask(hearer=heard).name == desk.ask().name == "red"
    assert (heard.all, desk.sent, desk.meter.cached) == ([], 1, 2)


def test_an_endpoint_that_refuses_to_stream_is_not_asked_to_again(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, Failure(422, "it gave no reason"), RED), Heard()
    assert desk.ask("one", hearer=heard).name == "red"
    assert desk.ask("two", hearer=heard).name == "red"
    assert ["stream" in body for body in desk.sender.bodies] == [True, False, False]
    assert desk.time.waited == []


def test_a_refusal_that_is_not_of_the_stream_leaves_it_for_the_next_call(tmp_path: Path) -> None:
    long = Failure(400, "context too long")
    desk, heard = Desk(tmp_path, long, long, streamed('{"name": "red"}')), Heard()
    with pytest.raises(LlmRefused, match="too long"):
        desk.ask("too long", hearer=heard)
    heard.all.clear()
    desk.ask("short", hearer=heard)
    assert heard.all == ['{"name": "red"}']


def test_other_words_for_a_limit_are_learned_while_streaming(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        Failure(400, "'max_tokens' is not supported: use 'max_completion_tokens'"),
        streamed('{"name": "red"}'),
    )
    assert desk.ask(hearer=Heard()).name == "red"
    assert all("stream" in body for body in desk.sender.bodies)


@pytest.mark.parametrize(
    "broken", [streamed('{"name": "re', finish_reason=None), event({"error": {"message": "no"}})]
)
def test_a_stream_that_breaks_off_is_withdrawn_and_asked_for_in_one_piece(
    tmp_path: Path, broken: bytes
) -> None:
    desk, heard = Desk(tmp_path, broken, RED), Heard()
    assert desk.ask(hearer=heard).name == "red"
    assert "broke" in heard.all[-1]
    assert ["stream" in body for body in desk.sender.bodies] == [True, False]
    assert desk.time.waited == [0.375]
    assert desk.meter.calls == 2
    assert desk.meter.tokens > 120 + 50
    assert desk.spent() == (2, desk.meter.tokens)


def test_a_repaired_reply_takes_the_place_of_what_was_heard(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, streamed('{"nam": "red"}'), streamed('{"name": "red"}')), Heard()
    assert desk.ask(hearer=heard).name == "red"
    first, why, second = heard.all
    assert (first, second) == ('{"nam": "red"}', '{"name": "red"}')
    assert "name: Field required" in why
    assert desk.sender.bodies[1]["messages"][-2]["content"] == '{"nam": "red"}'


def test_streams_that_break_off_spare_the_endpoint_as_any_failure_does(tmp_path: Path) -> None:
    desk = Desk(tmp_path, streamed("{", finish_reason=None), *[DOWN] * 4, RED)
    with pytest.raises(LlmUnavailable):
        desk.ask("1", hearer=Heard())
    assert desk.sent == 5
    assert desk.meter.failures == {"unavailable": 1}


def test_a_stream_of_nonsense_is_nonsense_without_repair(tmp_path: Path) -> None:
    desk = Desk(tmp_path, b"data: {\n\n")
    with pytest.raises(LlmNonsense):
        desk.ask(hearer=Heard())
    assert desk.sent == 1
