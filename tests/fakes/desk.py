"""An LLM client with scripted replies and its own time."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any

import httpx2
import openai
import pytest
from pydantic import BaseModel, Field

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.errors import LlmError
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall, TokenSink, ask
from hopsyncd.models.llm.chat_completion import Completion, read_completion, read_stream
from hopsyncd.models.llm.openai_llm import OpenAiLlm
from hopsyncd.models.llm.retry import RequestFailure
from store.ledger import Ledger
from tests.fakes.endpoint import say_json
from tests.fakes.timing import FakeTime


class Colour(BaseModel):
    name: Annotated[str, Field(min_length=1)]


RED = say_json({"name": "red"}).body
DOWN = RequestFailure(0, "Connection refused", sent=False)
STALLED = RequestFailure(0, "no whole reply came in time")
BUSY = RequestFailure(503, "busy")

Outcome = bytes | RequestFailure


class Script:
    """Implements exchange.Sender: plays its outcomes in turn, the last one for ever."""

    def __init__(self, *outcomes: Outcome, takes: Callable[[float], None] | None = None) -> None:
        self._outcomes = list(outcomes)
        self.takes = takes
        self._lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.timeouts: list[float] = []

    def complete(
        self,
        body: dict[str, Any],
        timeout_s: float,
        stop: threading.Event,
        write: Callable[[str], None] = lambda _: None,
    ) -> Completion:
        with self._lock:
            self.bodies.append(body)
            self.timeouts.append(timeout_s)
            outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if self.takes:
            self.takes(timeout_s)
        if isinstance(outcome, RequestFailure):
            raise outcome
        return read_streamed(write, outcome) if "stream" in body else read_completion(outcome)


def read_streamed(write: Callable[[str], None], *parts: bytes) -> Completion:
    """The completion in a response of such parts, read as HttpClient reads it."""

    async def come() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def read() -> Completion:
        client, response = openai.AsyncOpenAI(api_key="none"), httpx2.Response(200, content=come())
        response.request = httpx2.Request("POST", "http://llm.example/v1")
        stream = openai.AsyncStream(cast_to=object, response=response, client=client)
        return await read_stream(stream, write)

    try:
        return asyncio.run(read())
    except openai.APIError as error:
        raise RequestFailure(0, f"broke off: {error}") from None


class Desk:
    """A client, and all that it was given."""

    def __init__(
        self, folder: Path, *outcomes: Outcome, stalls: bool = False, **limits: Any
    ) -> None:
        self.time = FakeTime()
        self.sender = Script(*outcomes, takes=self._pass if stalls else None)
        config = LlmConfig(base_url="http://llm.example/v1", model="m", **limits)
        self.ledger = Ledger(folder / "llm.db", config.max_calls_per_day, config.max_tokens_per_day)
        self.llm = OpenAiLlm(config, self.ledger, self.sender, self.time.timing)
        self.usage = Usage()

    def _pass(self, seconds: float) -> None:
        self.time.now += seconds

    def ask(
        self, user: str = "which?", usage: Usage | None = None, sink: TokenSink | None = None
    ) -> Colour:
        return ask(self.llm, call(user), Colour, usage or self.usage, sink)

    def failure(self, user: str = "which?") -> LlmError:
        with pytest.raises(LlmError) as caught:
            self.ask(user)
        return caught.value

    @property
    def sent(self) -> int:
        return len(self.sender.bodies)

    def spent(self) -> tuple[int, int]:
        rows = self.ledger.sum_spending(0)
        return sum(row.calls for row in rows), sum(row.tokens for row in rows)


def call(user: str) -> LlmCall:
    return LlmCall("questions", "colours/1", "Name a colour.", user, max_tokens=50, source="notes")
