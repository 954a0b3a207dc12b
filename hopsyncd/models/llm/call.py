"""Defines the `Llm` protocol: an LLM takes a call, and returns a checked object or an error.

The rest of the program uses an LLM only through this protocol; `openai_llm.py` implements it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel

from hopsyncd.errors import LlmError
from hopsyncd.models.llm.budget import Usage

Purpose = Literal["questions", "reasoning", "answers", "decomposition", "evaluation"]
Reply = TypeVar("Reply", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LlmCall:
    """A prompt for the LLM.

    prompt: the name and version of the wording, such as "questions/1". The version changes with the
    wording. system: the instructions. user: the material, as data. max_tokens: the limit of the
    reply. source: the source of the material, for the ledger; empty if it comes from several
    sources.
    """

    purpose: Purpose
    prompt: str
    system: str
    user: str
    max_tokens: int
    source: str = ""


class TokenSink(Protocol):
    """Receives the text of a reply while the LLM writes it. The reply has not been checked yet. The
    methods may be called on any thread.

    If the endpoint does not stream, nothing is received until the reply is complete.
    """

    def write(self, text: str) -> None:
        """Receive the next part of the reply's text."""
        ...

    def withdraw(self, why: str) -> None:
        """Discard the text received so far, because it is not the reply. A new text may follow."""
        ...


class Llm(Protocol):
    """A large language model (LLM) behind an endpoint."""

    @property
    def name(self) -> str:
        """The model and its parameters, which are part of the name of generation settings."""
        ...

    def ask_each(
        self,
        calls: Sequence[LlmCall],
        shape: type[Reply],
        usage: Usage,
        yield_to_edits: Callable[[], None] = lambda: None,
        sink: TokenSink | None = None,
    ) -> Iterator[tuple[int, Reply | LlmError]]:
        """Send the calls, several at a time. Yields each call's index and result when it arrives.

        A result is a reply of the given shape, or the error that remains after the retries; errors
        of calls are never raised. If the iteration is stopped, the remaining calls are not sent.
        `yield_to_edits` is called repeatedly while waiting, and may raise. A `sink` can be used
        only with a single call.
        """
        ...


def ask_all(
    llm: Llm, calls: Sequence[LlmCall], shape: type[Reply], usage: Usage
) -> list[Reply | LlmError]:
    results = dict(llm.ask_each(calls, shape, usage))
    return [results[index] for index in range(len(calls))]


def ask(
    llm: Llm, call: LlmCall, shape: type[Reply], usage: Usage, sink: TokenSink | None = None
) -> Reply:
    """Send one call and return the reply. Raises LlmError."""
    ((_, result),) = llm.ask_each([call], shape, usage, sink=sink)
    if isinstance(result, LlmError):
        raise result
    return result
