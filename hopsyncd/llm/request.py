"""The body of a chat completion request, in the dialect that the endpoint was found to take."""

import functools
import json
from typing import Any, TypeAlias

from pydantic import BaseModel

from hopsyncd.llm.call import Call
from hopsyncd.llm.failure import Failure

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
        self, call: Call, shape: type[BaseModel], repair: Repair | None, streamed: bool
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

    def learn(self, failure: Failure, body: dict[str, Any], shape: type[BaseModel]) -> bool:
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


def refuses_form(failure: Failure) -> bool:
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
