"""One exchange with the endpoint: a request within the budget, its retries, the reply's text."""

import json
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog
from pydantic import BaseModel

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.errors import BudgetSpent, LlmNonsense, LlmRefused, LlmUnavailable
from hopsyncd.models.llm.budget import Usage, estimated_tokens
from hopsyncd.models.llm.call import LlmCall, TokenSink
from hopsyncd.models.llm.chat_completion import (
    Completion,
    Dialect,
    Repair,
    UnusableReply,
    refuses_form,
)
from hopsyncd.models.llm.retry import (
    MAX_ATTEMPTS,
    Breaker,
    RequestFailure,
    backoff_s,
    concerns_every_call,
    error_of,
    retry_after_s,
)
from store.exceptions import StoreError
from store.ledger import Ledger, Reservation

log = structlog.get_logger(__name__)

DAY_S = 86_400
_WHAT = "The LLM was not asked"
_FIRST_SHARE = 0.75  # of the remaining time: a stalled request leaves some for another


def endpoint_host(base_url: str) -> str:
    """The host, with its port if one is written, as the status and errors show it."""
    return urlsplit(base_url).netloc.rpartition("@")[2]


def reserve(
    ledger: Ledger, usage: Usage, call: LlmCall, tokens: int, unix_s: Callable[[], float]
) -> Reservation:
    """Reserve tokens in the budget and the ledger.

    Raises BudgetSpent, also if the ledger cannot be read.
    """
    usage.reserve(tokens)
    try:
        day = int(unix_s() // DAY_S)
        reserved = ledger.reserve(day, call.purpose, call.source, tokens)
    except StoreError as error:
        usage.cancel(tokens)
        raise BudgetSpent(_WHAT, f"{error.what}: {error.why}", error.hint) from error
    if reserved is None:
        usage.cancel(tokens)
        raise BudgetSpent(
            _WHAT,
            "today's calls or tokens (UTC) are used up",
            "Raise max_calls_per_day or max_tokens_per_day in [llm], or wait for tomorrow",
        )
    return reserved


def settle(
    ledger: Ledger, usage: Usage, reserved: Reservation, prompt_tokens: int, completion_tokens: int
) -> None:
    """Count what the request used; if the ledger fails, it keeps counting the reservation."""
    usage.settle(reserved.tokens, prompt_tokens, completion_tokens)
    try:
        ledger.settle(reserved, prompt_tokens, completion_tokens)
    except StoreError as error:
        log.warning("the ledger of LLM calls was not updated", why=error.why)


class Sender(Protocol):
    """Sends one request; `transport.HttpClient` is the real one."""

    def complete(
        self,
        body: dict[str, Any],
        timeout_s: float,
        stop: threading.Event,
        write: Callable[[str], None],
    ) -> Completion:
        """The completion; `write` gets the text of a streamed one as it comes.

        Raises RequestFailure or UnusableReply.
        """
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """Sources of time and randomness. `wait` sleeps, and returns True early if told to stop."""

    monotonic_s: Callable[[], float] = time.monotonic
    unix_s: Callable[[], float] = time.time
    random: Callable[[], float] = random.random
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A call in progress. `stop` is set when nobody waits for it any more.

    With a `sink` the reply is streamed, if the endpoint can do that.
    """

    call: LlmCall
    shape: type[BaseModel]
    usage: Usage
    stop: threading.Event
    sink: TokenSink | None = None
    deadline_s: float = math.inf


@dataclass(frozen=True, slots=True)
class CompletionText:
    """The text of a reply; `cut` if the limit of tokens ended it."""

    text: str
    cut: bool


class Abandoned(LlmUnavailable):
    """The call was abandoned: nobody waits for the reply any more."""


class Exchange:
    """Asks the configured endpoint."""

    def __init__(self, sender: Sender, config: LlmConfig, ledger: Ledger, timing: Timing) -> None:
        self._sender = sender
        self._config = config
        self._host = endpoint_host(config.base_url)
        self._ledger = ledger
        self._timing = timing
        self._dialect = Dialect(config.model)
        self._breaker = Breaker(timing.monotonic_s)

    def ask(self, request: CompletionRequest, repair: Repair | None = None) -> CompletionText:
        """The model's reply, after as many requests as it takes. Raises LlmError.

        Once a streamed request has failed, for whatever reason, the others are not streamed.
        """
        failed, record_refusal = 0, False
        streamed = request.sink is not None and self._dialect.streams
        while True:
            self._check_stop(request)
            self._breaker.check()
            body = self._dialect.body(request.call, request.shape, repair, streamed)
            left_s = request.deadline_s - self._timing.monotonic_s()
            try:
                completion = self._request(body, request, left_s * (1 if failed else _FIRST_SHARE))
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
                pause_s = self._pause_s(failure, failed, request)
            else:
                if record_refusal:
                    self._dialect.streams = False
                return self._text_of(completion)
            self._timing.wait(request.stop, pause_s)

    def _check_stop(self, request: CompletionRequest) -> None:
        if request.stop.is_set():
            why = "the client has gone, or the daemon stops"
            raise Abandoned("The call to the LLM was stopped", why, "Repeat the request")

    def _request(
        self, body: dict[str, Any], request: CompletionRequest, timeout_s: float
    ) -> Completion:
        """One request, counted. If the endpoint does not say what it used, the estimate counts."""
        prompt = estimated_tokens(json.dumps(body, ensure_ascii=False))
        limit = request.call.max_tokens
        reserved = reserve(
            self._ledger, request.usage, request.call, prompt + limit, self._timing.unix_s
        )
        used = prompt, limit
        try:
            write = request.sink.write if request.sink else lambda _: None
            completion = self._sender.complete(body, timeout_s, request.stop, write)
            used = completion.tokens() or used
        except RequestFailure as failure:
            if failure.status or not failure.sent:
                used = 0, 0
            raise
        except UnusableReply as error:
            self._breaker.record_answer()
            raise LlmNonsense(
                f"The reply of {self._host} cannot be used",
                str(error),
                "Check that `base_url` in [llm] is an OpenAI-compatible API",
            ) from error
        finally:
            settle(self._ledger, request.usage, reserved, *used)
        self._breaker.record_answer()
        return completion

    def _pause_s(self, failure: RequestFailure, failed: int, request: CompletionRequest) -> float:
        """How long to wait before the next request. Raises LlmError if none is worth trying."""
        error = error_of(failure, self._host, self._config.api_key_env)
        if not isinstance(error, LlmUnavailable):
            if concerns_every_call(failure):
                self._breaker.record_refusal(error)
            else:
                self._breaker.record_answer()
            raise error
        asked_s = retry_after_s(failure.retry_after, self._timing.unix_s())
        backoff = backoff_s(failed - 1, self._timing.random())
        pause_s = max(asked_s or 0.0, backoff)
        late = self._timing.monotonic_s() + pause_s >= request.deadline_s
        if late or failed == MAX_ATTEMPTS or not self._breaker.is_retry_worthwhile:
            self._breaker.record_no_answer(error, asked_s or 0.0)
            raise error
        return pause_s

    def _text_of(self, completion: Completion) -> CompletionText:
        choice = completion.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise LlmRefused(
                f"{self._config.model} does not answer",
                "it declines to, or a filter withheld its answer",
                "The work goes on without it; another model may answer",
            )
        return CompletionText(choice.message.content or "", cut=choice.finish_reason == "length")
