"""The LLM client with scripted replies: what is believed of them, repaired or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.errors import LlmNonsense, LlmRefused
from hopsyncd.models.llm.chat_completion import read_completion, read_reply
from hopsyncd.models.llm.retry import RequestFailure, UnusableReply, make_printable
from tests.fakes.desk import RED, Colour, Desk
from tests.fakes.endpoint import say


def test_a_reply_of_the_wrong_form_is_repaired_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, say('{"nam": "red"}').body, RED)
    assert desk.ask().name == "red"
    shown_back = desk.sender.bodies[1]["messages"][-2:]
    assert shown_back[0] == {"role": "assistant", "content": '{"nam": "red"}'}
    assert "name: Field required" in shown_back[1]["content"]
    assert desk.usage.calls == 2


@pytest.mark.parametrize("text", ["", None, "red", "[]", '{"name": ""}', '{"name": "re'])
def test_a_second_reply_of_the_wrong_form_is_nonsense(tmp_path: Path, text: str | None) -> None:
    desk = Desk(tmp_path, say(text).body)
    assert isinstance(desk.failure(), LlmNonsense)
    assert desk.sent == 2
    assert desk.usage.failures == {"nonsense": 1}


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
    desk = Desk(tmp_path, RequestFailure(400, "unknown field: response_format"), RED)
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
        RequestFailure(400, "'max_tokens' is not supported: use 'max_completion_tokens'"),
        RequestFailure(400, "Unsupported value: 'temperature' does not support 0"),
        RED,
    )
    desk.ask()
    assert desk.sender.bodies[0]["temperature"] == 0
    assert "temperature" not in desk.sender.bodies[-1]
    assert desk.sender.bodies[-1]["max_completion_tokens"] == 50
    assert desk.time.waited == []


def test_a_refusal_that_names_the_same_field_again_ends_the_call(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path, RequestFailure(400, "temperature, max_completion_tokens, schema: all wrong")
    )
    assert isinstance(desk.failure(), LlmRefused)
    assert desk.sent == 4


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
def test_any_other_reply_is_refused(text: str) -> None:
    with pytest.raises(UnusableReply):
        read_reply(text, Colour)


def test_text_of_an_endpoint_is_shown_as_one_short_printable_line() -> None:
    assert make_printable("\x1b]0;evil\x07\n\u202eabc" + "x" * 10**6).startswith("]0;evil abc")
    assert len(make_printable("x" * 10**6)) == 200
    completion = {"choices": [{"message": {"content": "{}"}}]}
    assert read_completion(json.dumps(completion).encode()).count_tokens() is None


def test_keys_in_a_reply_do_not_reach_the_error_in_full(tmp_path: Path) -> None:
    class Closed(Colour, extra="forbid"):
        pass

    with pytest.raises(UnusableReply) as caught:
        read_reply(json.dumps({"name": "red", "\x1b[2J" + "k" * 9999: 1}), Closed)
    assert len(str(caught.value)) <= 200
    assert str(caught.value).isprintable()
