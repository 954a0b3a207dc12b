"""Writes requests for chat completions, and checks the object in the reply.

A reply comes whole or as a stream of server-sent events. The endpoint is not trusted.
"""

import functools
import json
import math
import re
from collections.abc import AsyncIterable, Callable, Iterator
from typing import Any, TypeAlias, TypeGuard

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from hopsyncd.models.llm.call import LlmCall
from hopsyncd.models.llm.retry import RequestFailure, UnusableReply, make_printable

TEMPERATURE = 0
_SHAPE_WORDS = ("response_format", "schema", "grammar", "structured")
_SHOWN_REPLY_CHARS = 4000
_SHOWN_MISTAKES = 3
_MAX_TOKENS = 10_000_000  # No model accepts more tokens, so a larger usage is wrong and ignored.
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_NO_COMPLETION = "the response is not a chat completion"

Repair: TypeAlias = tuple[str, str]
"""A reply that could not be used, and why."""


class Dialect:
    """Writes requests to one model in a form that its endpoint accepts.

    If the endpoint rejects JSON schemas, or the schema of a reply, the schema is put into the
    prompt. An endpoint may also name `max_tokens` differently, require another temperature, or be
    unable to stream.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._plain: set[str] = set()  # the names of the shapes whose schema goes into the prompt
        self._own_temperature = False
        self._limit = "max_tokens"
        self.streams = True  # becomes False once the endpoint refuses to stream

    def build_body(
        self, call: LlmCall, shape: type[BaseModel], repair: Repair | None, streamed: bool
    ) -> dict[str, Any]:
        """Build the request. `repair` adds the model's last reply and the mistake in it."""
        schema = _make_strict_schema(shape)
        structure: dict[str, Any] = {}
        system = call.system
        if shape.__name__ in self._plain:
            system += f"\n\nReply with one JSON object of this schema alone:\n{json.dumps(schema)}"
        else:
            form = {"name": shape.__name__, "schema": schema, "strict": True}
            structure = {"response_format": {"type": "json_schema", "json_schema": form}}
        if not self._own_temperature:
            structure["temperature"] = TEMPERATURE
        if streamed:
            structure |= {"stream": True, "stream_options": {"include_usage": True}}
        messages = [
            {"role": "system", "content": _make_sendable(system)},
            {"role": "user", "content": _make_sendable(call.user)},
            *(_repair_messages(*repair) if repair else ()),
        ]
        return {
            "model": self._model,
            "messages": messages,
            self._limit: call.max_tokens,
            **structure,
        }

    def learn(self, failure: RequestFailure, body: dict[str, Any], shape: type[BaseModel]) -> bool:
        """Change the form after the endpoint refused this body.

        Returns True if the next body will differ.
        """
        if not refuses_form(failure):
            return False
        message = failure.message.lower()
        if "max_tokens" in body and "max_completion_tokens" in message:
            self._limit = "max_completion_tokens"
        elif "temperature" in body and "temperature" in message:
            self._own_temperature = True
        elif "response_format" in body and any(word in message for word in _SHAPE_WORDS):
            self._plain.add(shape.__name__)
        else:
            return False
        return True


def refuses_form(failure: RequestFailure) -> bool:
    """Return whether the endpoint may accept the same request in another form."""
    return failure.status in (400, 422, 501)


def _make_sendable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


@functools.lru_cache(maxsize=32)
def _make_strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """Return a schema that requires all properties and allows no other properties.

    Strict endpoints accept only such schemas.
    """
    import openai

    tool: dict[str, Any] = dict(openai.pydantic_function_tool(shape)["function"])
    schema: dict[str, Any] = tool["parameters"]
    return schema


def _repair_messages(reply: str, why: str) -> list[dict[str, str]]:
    return [
        {"role": "assistant", "content": reply[:_SHOWN_REPLY_CHARS] or "(nothing)"},
        {
            "role": "user",
            "content": f"This reply cannot be used: {why}. Reply again, with one JSON object of the"
            " form asked for and nothing else.",
        },
    ]


class _Lenient(BaseModel):
    """A model that ignores unknown fields, because these differ between endpoints."""

    model_config = ConfigDict(extra="ignore")


class _Message(_Lenient):
    content: str | None = None
    refusal: str | None = None


class _Choice(_Lenient):
    message: _Message
    finish_reason: str | None = None


class Completion(_Lenient):
    choices: list[_Choice]
    usage: Any = None

    def count_tokens(self) -> tuple[int, int] | None:
        """The endpoint's counts of prompt and completion tokens, or None if they are missing or
        implausible."""
        return read_usage(self.usage)


def read_usage(usage: Any, *, has_completion: bool = True) -> tuple[int, int] | None:
    """Return the prompt and completion tokens in an endpoint's `usage`, or None if they are missing
    or implausible.

    has_completion: False for replies without generated text, such as embeddings.
    """
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if not has_completion:
        completion = 0
    return (prompt, completion) if is_count(prompt) and is_count(completion) else None


def is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MAX_TOKENS


def read_completion(body: bytes) -> Completion:
    """Read the completion from a whole response. Raises UnusableReply."""
    try:
        completion = Completion.model_validate(from_json(body, allow_inf_nan=False))
    except (ValidationError, ValueError, RecursionError) as error:
        raise UnusableReply(_NO_COMPLETION) from error
    if not completion.choices:
        raise UnusableReply("the response has no choices")
    return completion


class _Delta(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _ChunkChoice(BaseModel):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(BaseModel):
    """A piece of a completion. The last piece may have usage and no choice."""

    choices: list[_ChunkChoice] | None = None
    usage: Any = None

    @property
    def choice(self) -> _ChunkChoice:
        return self.choices[0] if self.choices else _ChunkChoice()

    @property
    def delta(self) -> _Delta:
        return self.choice.delta or _Delta()


async def read_stream(chunks: AsyncIterable[object], write: Callable[[str], None]) -> Completion:
    """Read the completion from a stream of chunks. `write` gets the text as it arrives.

    Raises UnusableReply, or RequestFailure if the stream broke off.
    """
    content, refusal, reason, usage, begun = "", "", None, None, False
    try:
        async for data in chunks:
            chunk = _Chunk.model_validate(data)
            begun = True
            if text := chunk.delta.content:
                content += text
                write(text)
            refusal += chunk.delta.refusal or ""
            reason = chunk.choice.finish_reason or reason
            usage = chunk.usage or usage
    except (ValueError, RecursionError) as error:
        raise UnusableReply(_NO_COMPLETION) from error
    if not begun:
        raise UnusableReply(_NO_COMPLETION)
    if not reason and not _is_json(content) and not refusal:
        raise RequestFailure(0, "the reply ended too early")
    message = {"content": content, "refusal": refusal}
    return Completion.model_validate(
        {"choices": [{"message": message, "finish_reason": reason}], "usage": usage}
    )


def _is_json(text: str) -> bool:
    """Return whether the text is valid JSON.

    If it is, the reply is complete although the endpoint did not say why it ended.
    """
    try:
        from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def read_reply(text: str, shape: type[BaseModel]) -> str:
    """Find a JSON object of the given shape in the text. Raises UnusableReply.

    >>> class Colour(BaseModel):
    ...     name: str
    >>> read_reply('Sure! Here it is: {"name": "red"}', Colour)
    '{"name": "red"}'
    """
    if not text.strip():
        raise UnusableReply("the reply is empty")
    why = ""
    for candidate in _find_objects(text):
        try:
            if not _is_finite(from_json(candidate, allow_inf_nan=False)):
                raise ValueError("a number is out of range")
        except (ValueError, RecursionError) as error:
            why = why or f"the reply is not valid JSON: {make_printable(str(error))}"
            continue
        try:
            shape.model_validate_json(candidate)
            return candidate
        except ValidationError as error:
            why = _format_mistakes(error)
    raise UnusableReply(why)


def _find_objects(text: str) -> Iterator[str]:
    """Yield texts that may be the JSON object.

    They are the text after the model's thoughts, a fenced block, and the text in braces.
    """
    answer = text.rpartition("</think>")[2].strip()
    yield answer
    if fenced := _FENCE.search(answer):
        yield fenced.group(1).strip()
    first, last = answer.find("{"), answer.rfind("}")
    if 0 <= first < last and (first, last) != (0, len(answer) - 1):
        yield answer[first : last + 1]


def _is_finite(value: object) -> bool:
    """Return whether all numbers in a parsed JSON value are finite. Python parses 1e999 as
    infinity."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _format_mistakes(error: ValidationError) -> str:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, e['loc'])) or 'the object'}: {e['msg']}" for e in errors]
    if len(lines) > _SHOWN_MISTAKES:
        lines[_SHOWN_MISTAKES:] = [f"and {len(lines) - _SHOWN_MISTAKES} more"]
    return "; ".join(map(make_printable, lines))
