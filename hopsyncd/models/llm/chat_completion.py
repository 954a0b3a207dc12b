"""A chat completion: the request in the endpoint's dialect, and the checked object of its reply."""

import functools
import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias, TypeGuard

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from hopsyncd.models.llm.call import LlmCall
from hopsyncd.models.llm.retry import RequestFailure, shown

TEMPERATURE = 0
_SHAPE_WORDS = ("response_format", "schema", "grammar", "structured")
_SHOWN_REPLY_CHARS = 4000

Repair: TypeAlias = tuple[str, str]
"""A reply that could not be used, and why."""


class Dialect:
    """Says all calls to one model; learns from refusals what else to say.

    An endpoint may take no JSON schema (then the schema stands in the prompt), or none of this
    kind; it may call `max_tokens` otherwise, insist on its own temperature, or not stream.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._plain: set[str] = set()  # names of shapes
        self._own_temperature = False
        self._limit = "max_tokens"
        self.streams = True  # until it is known not to

    def body(
        self, call: LlmCall, shape: type[BaseModel], repair: Repair | None, streamed: bool
    ) -> dict[str, Any]:
        """The request; with `repair` it shows the model its reply and what is wrong with it."""
        schema = _strict_schema(shape)
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
            {"role": "system", "content": _sendable(system)},
            {"role": "user", "content": _sendable(call.user)},
            *(_repair_messages(*repair) if repair else ()),
        ]
        return {
            "model": self._model,
            "messages": messages,
            self._limit: call.max_tokens,
            **structure,
        }

    def learn(self, failure: RequestFailure, body: dict[str, Any], shape: type[BaseModel]) -> bool:
        """Whether the refusal of this body is of its dialect: then the next body is another."""
        if not refuses_form(failure):
            return False
        said = failure.message.lower()
        if "max_tokens" in body and "max_completion_tokens" in said:
            self._limit = "max_completion_tokens"
        elif "temperature" in body and "temperature" in said:
            self._own_temperature = True
        elif "response_format" in body and any(word in said for word in _SHAPE_WORDS):
            self._plain.add(shape.__name__)
        else:
            return False
        return True


def refuses_form(failure: RequestFailure) -> bool:
    """Whether another wording of the same request may be taken."""
    return failure.status in (400, 422, 501)


def _sendable(text: str) -> str:
    """Without the halves of characters that UTF-8 cannot hold."""
    return text.encode(errors="replace").decode()


@functools.lru_cache(maxsize=32)
def _strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The schema with every property required and no other allowed, as strict endpoints want."""
    import openai

    tool: dict[str, Any] = dict(openai.pydantic_function_tool(shape)["function"])
    schema: dict[str, Any] = tool["parameters"]
    return schema


def _repair_messages(reply: str, why: str) -> list[dict[str, str]]:
    return [
        {"role": "assistant", "content": reply[:_SHOWN_REPLY_CHARS] or "(nothing)"},
        {
            "role": "user",
            "content": f"This reply cannot be used: {why}. Reply anew, with one JSON object of the"
            " form asked for and nothing else.",
        },
    ]


_MAX_TOKENS = 10_000_000  # more than any model takes: a usage beyond it is made up
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_SHOWN_MISTAKES = 3


class _Lenient(BaseModel):
    """What else a completion has differs from endpoint to endpoint."""

    model_config = ConfigDict(extra="ignore")


class _Message(_Lenient):
    content: str | None = None
    refusal: str | None = None


class _Choice(_Lenient):
    message: _Message
    finish_reason: str | None = None


class Completion(_Lenient):
    """A chat completion, as far as it is used."""

    choices: list[_Choice]
    usage: Any = None

    def tokens(self) -> tuple[int, int] | None:
        """Prompt and completion tokens as the endpoint says; None where it says nothing sane."""
        usage = self.usage if isinstance(self.usage, dict) else {}
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        return (prompt, completion) if _is_count(prompt) and _is_count(completion) else None


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MAX_TOKENS


class UnusableReply(Exception):
    """A reply that is not what was asked for; the message says why in words for the model."""


def read_completion(body: bytes) -> Completion:
    """Raises Unusable."""
    try:
        completion = Completion.model_validate(from_json(body, allow_inf_nan=False))
    except (ValidationError, ValueError, RecursionError) as error:
        raise UnusableReply("the response is no chat completion") from error
    if not completion.choices:
        raise UnusableReply("the response has no choices")
    return completion


def read_reply(text: str, shape: type[BaseModel]) -> str:
    """The JSON of the one object of that shape in the text. Raises Unusable.

    >>> class Colour(BaseModel):
    ...     name: str
    >>> read_reply('Sure! Here it is: {"name": "red"}', Colour)
    '{"name": "red"}'
    """
    if not text.strip():
        raise UnusableReply("the reply is empty")
    why = ""
    for candidate in _objects(text):
        try:
            if not _is_finite(from_json(candidate, allow_inf_nan=False)):
                raise ValueError("a number is out of range")
        except (ValueError, RecursionError) as error:
            why = why or f"it is not JSON: {shown(str(error))}"
            continue
        try:
            shape.model_validate_json(candidate)
            return candidate
        except ValidationError as error:
            why = _mistakes(error)
    raise UnusableReply(why)


def _objects(text: str) -> Iterator[str]:
    """Where one JSON object may be: all of it; after its thoughts; in a fence; amid other words."""
    said = text.rpartition("</think>")[2].strip()
    yield said
    if fenced := _FENCE.search(said):
        yield fenced.group(1).strip()
    first, last = said.find("{"), said.rfind("}")
    if 0 <= first < last and (first, last) != (0, len(said) - 1):
        yield said[first : last + 1]


def _is_finite(value: object) -> bool:
    """False if a number in it was too large for a float, such as 1e999."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _mistakes(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, e['loc'])) or 'the object'}: {e['msg']}" for e in found]
    if len(told) > _SHOWN_MISTAKES:
        told[_SHOWN_MISTAKES:] = [f"and {len(told) - _SHOWN_MISTAKES} more"]
    return "; ".join(map(shown, told))
