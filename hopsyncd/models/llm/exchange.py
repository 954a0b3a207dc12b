"""Requests a reply's text from the endpoint, within the budget and with retries."""

import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.errors import LlmRefused
from hopsyncd.models.llm.attempts import Abandoned, Attempts, Spending, Timing, find_endpoint_host
from hopsyncd.models.llm.budget import Usage, estimate_tokens
from hopsyncd.models.llm.call import LlmCall, TokenSink
from hopsyncd.models.llm.chat_completion import Completion, Dialect, Repair, refuses_form
from hopsyncd.models.llm.retry import MAX_ATTEMPTS, EndpointTexts, RequestFailure
from store.ledger import Ledger

_FIRST_SHARE = 0.75  # The first request gets this share of the time, so that a retry has some left.
_HASTY_ATTEMPTS = 2  # attempts for the purposes in _HASTY, because a person waits for the reply
_HASTY = frozenset({"answers", "reasoning", "decomposition"})


class Sender(Protocol):
    """Sends a request. `transport.HttpClient` is the real implementation."""

    def complete(
        self,
        body: dict[str, Any],
        timeout_s: float,
        stop: threading.Event,
        write: Callable[[str], None],
    ) -> Completion:
        """Send a request and return the completion. If the reply is streamed, `write` gets its text
        in parts.

        Raises RequestFailure or UnusableReply.
        """
        ...


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A call in progress.

    stop: set when the caller no longer waits. sink: receives the reply, if the endpoint can stream.
    """

    call: LlmCall
    shape: type[BaseModel]
    usage: Usage
    stop: threading.Event
    sink: TokenSink | None = None
    deadline_s: float = math.inf


@dataclass(frozen=True, slots=True)
class CompletionText:
    """The text of a reply.

    cut: True if the text ended at the token limit.
    """

    text: str
    cut: bool


class Exchange:
    """Sends requests for chat completions to the endpoint of the LLM."""

    def __init__(self, sender: Sender, config: LlmConfig, ledger: Ledger, timing: Timing) -> None:
        self._sender = sender
        self._config = config
        self._timing = timing
        self._dialect = Dialect(config.model)
        texts = EndpointTexts(find_endpoint_host(config.base_url), config.api_key_env)
        self._attempts = Attempts(texts, ledger, timing)

    def ask(self, request: CompletionRequest, repair: Repair | None = None) -> CompletionText:
        """Request the model's reply, with retries. Raises LlmError.

        If a streamed request fails, the retries are not streamed. If a person waits for the reply,
        there is at most one retry, and none after a timeout.
        """
        failed, record_refusal = 0, False
        hasty = request.call.purpose in _HASTY
        first_share = 1.0 if hasty else _FIRST_SHARE
        most = _HASTY_ATTEMPTS if hasty else MAX_ATTEMPTS
        streamed = request.sink is not None and self._dialect.streams
        while True:
            self._check_stop(request)
            self._attempts.breaker.check()
            body = self._dialect.build_body(request.call, request.shape, repair, streamed)
            left_s = request.deadline_s - self._timing.monotonic_s()
            try:
                completion = self._request(body, request, left_s * (1 if failed else first_share))
            except RequestFailure as failure:
                self._check_stop(request)
                if request.sink:
                    request.sink.withdraw(failure.message)
                if self._dialect.learn(failure, body, request.shape):
                    continue
                was_streamed, streamed = streamed, False
                if was_streamed and refuses_form(failure):
                    record_refusal = True
                    continue
                failed += 1
                pause_s = self._attempts.pause_s(failure, failed, request.deadline_s, most)
            else:
                if record_refusal:
                    self._dialect.streams = False
                return self._read_text(completion)
            self._timing.wait(request.stop, pause_s)

    def _check_stop(self, request: CompletionRequest) -> None:
        if request.stop.is_set():
            why = "the client disconnected, or the daemon is stopping"
            raise Abandoned("The call to the LLM was stopped", why, "Repeat the request")

    def _request(
        self, body: dict[str, Any], request: CompletionRequest, timeout_s: float
    ) -> Completion:
        """Send a request once, and count its tokens."""
        call = request.call
        prompt = estimate_tokens(json.dumps(body, ensure_ascii=False))
        spending = Spending(call.purpose, call.source, request.usage, prompt, call.max_tokens)
        write = request.sink.write if request.sink else lambda _: None
        return self._attempts.send(
            spending, lambda: self._sender.complete(body, timeout_s, request.stop, write)
        )

    def _read_text(self, completion: Completion) -> CompletionText:
        choice = completion.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise LlmRefused(
                f"{self._config.model} does not answer",
                "the model declined, or a content filter blocked the answer",
                "hopsyncd continues without the answer. Another model may answer",
            )
        return CompletionText(choice.message.content or "", cut=choice.finish_reason == "length")
