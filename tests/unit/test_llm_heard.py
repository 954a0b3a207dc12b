"""A reply that is heard while it is written: what is streamed, withdrawn, and counted."""

import re
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.errors import LlmNonsense, LlmRefused, LlmUnavailable
from hopsyncd.models.llm.retry import RequestFailure
from tests.fakes.desk import DOWN, RED, Desk
from tests.fakes.endpoint import event, stream
from tests.fakes.token_sink import Heard


def streamed(*texts: str, **more: Any) -> bytes:
    return b"".join(stream(texts, **more).parts or ())


def test_a_reply_is_streamed_to_its_own_listener_only(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, streamed('{"name": "re', 'd"}'), RED), Heard()
    assert desk.ask("one", sink=heard).name == "red"
    assert heard.all == ['{"name": "re', 'd"}']
    desk.ask("two")
    first, second = desk.sender.bodies
    assert (first["stream"], first["stream_options"]) == (True, {"include_usage": True})
    assert not {"stream", "stream_options"} & second.keys()
    assert (desk.usage.calls, desk.usage.tokens) == (2, 240)
    assert desk.spent() == (2, 240)


def test_a_stream_without_a_count_takes_the_reserved_tokens(tmp_path: Path) -> None:
    desk = Desk(tmp_path, streamed('{"name": "red"}', usage=False))
    desk.ask(sink=Heard())
    assert desk.usage.completion_tokens == 50
    assert 50 < desk.usage.prompt_tokens < 500


def test_a_cached_reply_is_not_streamed_again(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, streamed('{"name": "red"}')), Heard()
    desk.ask(sink=heard)
    heard.all.clear()
    assert desk.ask(sink=heard).name == desk.ask().name == "red"
    assert (heard.all, desk.sent, desk.usage.cached) == ([], 1, 2)


def test_an_endpoint_that_refuses_to_stream_is_not_asked_to_again(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, RequestFailure(422, "the endpoint gave no reason"), RED), Heard()
    assert desk.ask("one", sink=heard).name == "red"
    assert desk.ask("two", sink=heard).name == "red"
    assert ["stream" in body for body in desk.sender.bodies] == [True, False, False]
    assert desk.time.waited == []


def test_a_refusal_that_is_not_of_the_stream_leaves_it_for_the_next_call(tmp_path: Path) -> None:
    long = RequestFailure(400, "context too long")
    desk, heard = Desk(tmp_path, long, long, streamed('{"name": "red"}')), Heard()
    with pytest.raises(LlmRefused, match="too long"):
        desk.ask("too long", sink=heard)
    heard.all.clear()
    desk.ask("short", sink=heard)
    assert heard.all == ['{"name": "red"}']


def test_other_names_of_the_token_limit_are_learned_while_streaming(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        RequestFailure(400, "'max_tokens' is not supported: use 'max_completion_tokens'"),
        streamed('{"name": "red"}'),
    )
    assert desk.ask(sink=Heard()).name == "red"
    assert all("stream" in body for body in desk.sender.bodies)


@pytest.mark.parametrize(
    "broken", [streamed('{"name": "re', finish_reason=None), event({"error": {"message": "no"}})]
)
def test_a_stream_that_breaks_off_is_withdrawn_and_asked_for_in_one_piece(
    tmp_path: Path, broken: bytes
) -> None:
    desk, heard = Desk(tmp_path, broken, RED), Heard()
    assert desk.ask(sink=heard).name == "red"
    assert re.search("broke|ended too early", heard.all[-1])
    assert ["stream" in body for body in desk.sender.bodies] == [True, False]
    assert desk.time.waited == [0.375]
    assert desk.usage.calls == 2
    assert desk.usage.tokens > 120 + 50
    assert desk.spent() == (2, desk.usage.tokens)


def test_a_repaired_reply_replaces_the_streamed_text(tmp_path: Path) -> None:
    desk, heard = Desk(tmp_path, streamed('{"nam": "red"}'), streamed('{"name": "red"}')), Heard()
    assert desk.ask(sink=heard).name == "red"
    first, why, second = heard.all
    assert (first, second) == ('{"nam": "red"}', '{"name": "red"}')
    assert "name: Field required" in why
    assert desk.sender.bodies[1]["messages"][-2]["content"] == '{"nam": "red"}'


def test_streams_that_break_off_spare_the_endpoint_as_any_failure_does(tmp_path: Path) -> None:
    desk = Desk(tmp_path, streamed("{", finish_reason=None), *[DOWN] * 4, RED)
    with pytest.raises(LlmUnavailable):
        desk.ask("1", sink=Heard())
    assert desk.sent == 5
    assert desk.usage.failures == {"unavailable": 1}


def test_a_stream_of_nonsense_is_nonsense_without_repair(tmp_path: Path) -> None:
    desk = Desk(tmp_path, b"data: {\n\n")
    with pytest.raises(LlmNonsense):
        desk.ask(sink=Heard())
    assert desk.sent == 1
