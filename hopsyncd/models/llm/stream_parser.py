"""A completion that is sent while it is written: server-sent events, a chunk of it on each line."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from hopsyncd.models.llm.call import TokenSink
from hopsyncd.models.llm.chat_completion import Completion, UnusableReply, read_completion
from hopsyncd.models.llm.retry import RequestFailure

_END = b"[DONE]"


class _Delta(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(BaseModel):
    """A piece of a completion; the last one may have the usage and no choice."""

    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None

    @property
    def choice(self) -> _Choice:
        return self.choices[0] if self.choices else _Choice()

    @property
    def delta(self) -> _Delta:
        return self.choice.delta or _Delta()


class StreamParser:
    """Passes the text of a stream on to a hearer while the bytes come, and ignores all else."""

    def __init__(self, hearer: TokenSink) -> None:
        self._hearer = hearer
        self._begun = bytearray()  # a line whose end has not come

    def __call__(self, part: bytes) -> None:
        self._begun += part
        if b"\n" not in part:
            return
        whole, _, rest = self._begun.rpartition(b"\n")
        self._begun = rest
        try:
            for chunk in _chunks(whole):
                if text := chunk.delta.content:
                    self._hearer.write(text)
        except UnusableReply:
            pass  # who reads the whole of it says so


def read_stream(body: bytes) -> Completion:
    """The completion that the chunks make; an endpoint may also have sent it as one.

    Raises Unusable, and Failure where the stream broke off.
    """
    if body.lstrip().startswith(b"{"):
        return read_completion(body)
    content, refusal, reason, usage, begun = list[str](), "", None, None, False
    for chunk in _chunks(body):
        if chunk.error:
            raise RequestFailure(0, "it broke its reply off with an error")
        begun = True
        content.append(chunk.delta.content or "")
        refusal += chunk.delta.refusal or ""
        reason = chunk.choice.finish_reason or reason
        usage = chunk.usage or usage
    if not begun:
        raise UnusableReply("the response is no chat completion")
    if not reason and not body.rstrip().endswith(_END):
        raise RequestFailure(0, "its reply broke off")
    message = {"content": "".join(content), "refusal": refusal}
    return Completion.model_validate(
        {"choices": [{"message": message, "finish_reason": reason}], "usage": usage}
    )


def _chunks(lines: bytes | bytearray) -> Iterator[_Chunk]:
    for line in BytesIO(lines):
        field, _, value = line.partition(b":")
        data = value.strip()
        if field == b"data" and data != _END:
            try:
                yield _Chunk.model_validate(from_json(data, allow_inf_nan=False))
            except (ValueError, RecursionError) as error:
                raise UnusableReply("the response is no chat completion") from error
