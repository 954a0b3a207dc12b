"""A completion in chunks: what is heard of it as it comes, and what it is as a whole."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.models.llm.chat_completion import StreamParser, UnusableReply, read_stream
from hopsyncd.models.llm.retry import RequestFailure
from tests.fakes.endpoint import event, say, stream
from tests.fakes.token_sink import Heard

END = b"data: [DONE]\n\n"


def delta(**parts: object) -> bytes:
    return event({"choices": [{"delta": parts}]})


def heard(*parts: bytes) -> str:
    sink = Heard()
    parser = StreamParser(sink)
    for part in parts:
        parser(part)
    return "".join(sink.all)


@given(st.lists(st.text(), max_size=5), st.data())
@settings(deadline=None, derandomize=True)
def test_however_the_bytes_come_all_text_is_heard_and_makes_the_completion(
    texts: list[str], data: st.DataObject
) -> None:
    body = b"".join(stream(texts).parts or ())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=30)))
    whole = "".join(texts)
    assert heard(*(body[a:b] for a, b in pairwise([0, *cuts, len(body)]))) == whole
    completion = read_stream(body)
    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == (whole, "stop")
    assert completion.tokens() == (100, 20)


@pytest.mark.parametrize(
    "body",
    [
        delta(role="assistant", content="") + delta(content="red") + END,
        delta(role="assistant", content=None) + delta(content="red") + END,
        b": waiting\n\n" + delta(content="re") + b": still\n\n" + delta(content="d") + END,
        delta(content="red").replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n",
        b"event: chunk\nid: 1\n"
        + delta(content="red").replace(b"data: ", b"data:")
        + b"data:[DONE]",
        event({"choices": [], "prompt_filter_results": []}) + delta(content="red") + END,
        delta(content="red") + event({"choices": [{"finish_reason": "stop"}]}),
        delta(content="red") + event({"choices": None, "usage": None}) + END,
        delta(content="red", reasoning_content="Which one?", tool_calls=None) + END,
    ],
)
def test_endpoints_stream_in_ways_of_their_own(body: bytes) -> None:
    assert heard(body) == "red"
    assert read_stream(body).choices[0].message.content == "red"


def test_a_refusal_and_a_cut_are_told_as_in_a_whole_completion() -> None:
    (refused,) = read_stream(delta(refusal="I can") + delta(refusal="not") + END).choices
    assert (refused.message.refusal, refused.message.content) == ("I cannot", "")
    (cut,) = read_stream(b"".join(stream(["re"], finish_reason="length").parts or ())).choices
    assert cut.finish_reason == "length"


def test_an_endpoint_that_does_not_stream_may_send_all_at_once() -> None:
    body = say("red").body
    assert heard(body) == ""
    assert read_stream(b" \n" + body).choices[0].message.content == "red"


@pytest.mark.parametrize(
    "body",
    [
        delta(content="red"),
        delta(content="re") + event({"error": {"message": "out of memory", "code": 500}}),
        delta(content="the last line is data: [DONE]") + b": \n\n",
    ],
)
def test_a_stream_that_breaks_off_may_be_asked_for_again(body: bytes) -> None:
    with pytest.raises(RequestFailure, match="broke"):
        read_stream(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        END,
        b"<html>\n",
        b"data: {\n\n" + END,
        b"data: \xff\n\n" + END,
        b"data: []\n\n" + END,
        b"data: " + b"[" * 9999 + b"\n\n",
        event({"choices": [{"delta": {"content": ["red"]}}]}) + END,
        event({"choices": "red"}) + END,
        json.dumps({"choices": []}).encode(),
    ],
)
def test_what_is_no_completion_is_unusable_and_nothing_of_it_is_heard(body: bytes) -> None:
    assert heard(body) == ""
    with pytest.raises(UnusableReply):
        read_stream(body)


def test_bytes_that_come_one_by_one_are_put_together_quickly() -> None:
    sink = Heard()
    parser = StreamParser(sink)
    for _ in range(1 << 20):
        parser(b"x")
    parser(b"\n" + delta(content="red"))
    assert sink.all == ["red"]
