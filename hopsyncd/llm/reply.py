"""From the bytes of a reply to a checked object: nothing in them is trusted."""

import math
import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from hopsyncd.llm.failure import shown

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


class Unusable(Exception):
    """A reply that is not what was asked for; the message says why in words for the model."""


def read_completion(body: bytes) -> Completion:
    """Raises Unusable."""
    try:
        completion = Completion.model_validate(from_json(body, allow_inf_nan=False))
    except (ValidationError, ValueError, RecursionError) as error:
        raise Unusable("the response is no chat completion") from error
    if not completion.choices:
        raise Unusable("the response has no choices")
    return completion


def read_reply(text: str, shape: type[BaseModel]) -> str:
    """The JSON of the one object of that shape in the text. Raises Unusable.

    >>> class Colour(BaseModel):
    ...     name: str
    >>> read_reply('Sure! Here it is: {"name": "red"}', Colour)
    '{"name": "red"}'
    """
    if not text.strip():
        raise Unusable("the reply is empty")
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
    raise Unusable(why)


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
