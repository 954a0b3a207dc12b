"""A completion in chunks: what is heard of it as it comes, and what it is as a whole."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.models.llm.chat_completion import Completion
from hopsyncd.models.llm.retry import RequestFailure, UnusableReply
from tests.fakes.desk import read_streamed
from tests.fakes.endpoint import event, stream

END = b"data: [DONE]\n\n"


def delta(**parts: object) -> bytes:
    return event({"choices": [{"delta": parts}]})


RED = delta(content='["red"]')
STOP = event({"choices": [{"delta": {}, "finish_reason": "stop"}]})


def read(*parts: bytes) -> tuple[Completion, str]:
    """The completion in a stream, and what was written of it meanwhile."""
    texts = list[str]()
    return read_streamed(texts.append, *parts), "".join(texts)


@given(st.lists(st.text(), max_size=5), st.data())
@settings(deadline=None, derandomize=True)
def test_any_split_of_the_bytes_gives_the_whole_completion(
    texts: list[str], data: st.DataObject
) -> None:
    body = b"".join(stream(texts).parts or ())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=30)))
    whole = "".join(texts)
    completion, heard = read(*(body[a:b] for a, b in pairwise([0, *cuts, len(body)])))
    assert heard == whole
    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == (whole, "stop")
    assert completion.count_tokens() == (100, 20)


@pytest.mark.parametrize(
    "body",
    [
        delta(role="assistant", content="") + RED + STOP + END,
        delta(role="assistant", content=None) + RED + STOP + END,
        b": waiting\n\n" + delta(content='["re') + b": still\n\n" + delta(content='d"]') + STOP,
        (RED + STOP).replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n",
        b"event: chunk\nid: 1\n" + (RED + STOP).replace(b"data: ", b"data:") + b"data:[DONE]",
        event({"choices": [], "prompt_filter_results": []}) + RED + STOP + END,
        RED + event({"choices": [{"finish_reason": "stop"}]}),
        RED + event({"choices": None, "usage": None}) + STOP + END,
        delta(content='["red"]', reasoning_content="Which one?", tool_calls=None) + STOP + END,
        RED + END,
    ],
)
def test_endpoints_stream_in_ways_of_their_own(body: bytes) -> None:
    completion, heard = read(body)
    assert completion.choices[0].message.content == heard == '["red"]'


def test_a_streamed_refusal_or_truncation_is_reported_like_an_unstreamed_one() -> None:
    (refused,) = read(delta(refusal="I can") + delta(refusal="not") + END)[0].choices
    assert (refused.message.refusal, refused.message.content) == ("I cannot", "")
    (cut,) = read(b"".join(stream(["re"], finish_reason="length").parts or ()))[0].choices
    assert cut.finish_reason == "length"


@pytest.mark.parametrize(
    "body",
    [
        delta(content='["re'),
        delta(content='["re') + END,
        delta(content="re") + event({"error": {"message": "out of memory", "code": 500}}),
        delta(content="the last line is data: [DONE]") + b": \n\n",
    ],
)
def test_a_stream_that_breaks_off_may_be_asked_for_again(body: bytes) -> None:
    with pytest.raises(RequestFailure, match=r"broke|ended too early"):
        read(body)


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
        b"data: " + b"[" * 99_999 + b"]" * 99_999 + b"\n\n",
        event({"choices": [{"delta": {"content": ["red"]}}]}) + END,
        event({"choices": "red"}) + END,
    ],
)
def test_an_invalid_completion_is_unusable_and_not_streamed(body: bytes) -> None:
    texts = list[str]()
    with pytest.raises(UnusableReply):
        read_streamed(texts.append, body)
    assert not texts
