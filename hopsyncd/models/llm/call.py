"""What a caller says to an LLM, and what it gets: a checked object, or an error that says why.

The rest of the program knows an LLM by the `Llm` protocol alone; `openai_llm.py` has the real one.
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
    """One question to the LLM.

    prompt: name and version of the wording, such as "questions/1"; it changes whenever the wording
    does. user: the material, as data. max_tokens bounds the reply. source: whose documents the
    material is from, for the ledger; empty when it is from several.
    """

    purpose: Purpose
    prompt: str
    system: str
    user: str
    max_tokens: int
    source: str = ""


class TokenSink(Protocol):
    """Hears a reply while it is written, before anything of it is checked; on any thread.

    It may hear nothing before the reply is there: not every endpoint tells it earlier.
    """

    def write(self, text: str) -> None:
        """The reply's text goes on with this."""
        ...

    def withdraw(self, why: str) -> None:
        """What was heard is not the reply; another may begin."""
        ...


class Llm(Protocol):
    """A large language model behind some endpoint."""

    @property
    def name(self) -> str:
        """Model and parameters: a part of the name of all that is made with it."""
        ...

    def ask_each(
        self,
        calls: Sequence[LlmCall],
        shape: type[Reply],
        meter: Usage,
        yield_to_edits: Callable[[], None] = lambda: None,
        hearer: TokenSink | None = None,
    ) -> Iterator[tuple[int, Reply | LlmError]]:
        """Send the calls, several at a time; give each result as it comes, with its call's index.

        A result is a reply of that shape, or the error that a call ended in after its retries. No
        error of a call is raised. Stopping the iteration abandons what has not been sent.
        `yield_to_edits` is called all the time while it waits for them, and may raise. A `hearer`
        is for one call alone.
        """
        ...


def ask_all(
    llm: Llm, calls: Sequence[LlmCall], shape: type[Reply], meter: Usage
) -> list[Reply | LlmError]:
    """The results of all calls, in the order of the calls."""
    results = dict(llm.ask_each(calls, shape, meter))
    return [results[index] for index in range(len(calls))]


def ask(
    llm: Llm, call: LlmCall, shape: type[Reply], meter: Usage, hearer: TokenSink | None = None
) -> Reply:
    """One reply. Raises LlmError."""
    ((_, result),) = llm.ask_each([call], shape, meter, hearer=hearer)
    if isinstance(result, LlmError):
        raise result
    return result
