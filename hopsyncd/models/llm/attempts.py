"""Sends counted requests to one endpoint, with budget, ledger, retries and circuit breaker.

Chat completions and embeddings share this module; each provides its own requests and error texts.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import structlog

from hopsyncd.errors import BudgetSpent, LlmNonsense, LlmUnavailable
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.retry import (
    Breaker,
    EndpointTexts,
    RequestFailure,
    UnusableReply,
    compute_backoff_s,
    concerns_every_call,
    make_error,
    retry_after_s,
)
from store.exceptions import StoreError
from store.ledger import Ledger, Reservation, Spent

log = structlog.get_logger(__name__)

DAY_S = 86_400


def find_endpoint_host(base_url: str) -> str:
    """Return the host of an endpoint's address, with the port if there is one, to show in the
    status and in errors."""
    return urlsplit(base_url).netloc.rpartition("@")[2]


class Abandoned(LlmUnavailable):
    """The call was stopped because the caller no longer waits for the reply."""


class Poster(Protocol):
    """Sends a request. `transport.HttpClient` is the real implementation."""

    def post(
        self, path: str, body: dict[str, Any], timeout_s: float, stop: threading.Event
    ) -> bytes:
        """Send a request, and return the whole reply. Raises RequestFailure."""
        ...


class Counted(Protocol):
    """A reply with the endpoint's token counts, if it reports them."""

    def count_tokens(self) -> tuple[int, int] | None:
        """The endpoint's counts of prompt and completion tokens, or None if they are missing or
        implausible."""
        ...


Got = TypeVar("Got", bound=Counted)


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock, the random numbers and the sleep that retries use. Tests replace them.

    `wait` sleeps for a number of seconds, and returns True early if the event is set.
    """

    monotonic_s: Callable[[], float] = time.monotonic
    unix_s: Callable[[], float] = time.time
    random: Callable[[], float] = random.random
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait


@dataclass(frozen=True, slots=True)
class Spending:
    """The maximum tokens of a request, and the purpose and source under which the ledger counts the
    request.

    source: the source of the material; empty if it comes from several sources.
    """

    purpose: str
    source: str
    usage: Usage
    prompt_tokens: int
    reply_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to retry a request.

    Attempts end at `deadline_s`, after `max_attempts`, or when `stop` is set.
    """

    deadline_s: float
    max_attempts: int
    stop: threading.Event


def read_spent_today(ledger: Ledger, timing: Timing) -> tuple[list[Spent], str | None]:
    """Read the ledger's rows of today (UTC). If this fails, returns no rows and the reason."""
    try:
        return ledger.sum_spending(int(timing.unix_s() // DAY_S)), None
    except StoreError as error:
        return [], str(error)


class Attempts:
    """Sends the requests to an endpoint, and decides when to retry them."""

    def __init__(self, texts: EndpointTexts, ledger: Ledger, timing: Timing) -> None:
        self._texts = texts
        self._ledger = ledger
        self._timing = timing
        self.breaker = Breaker(timing.monotonic_s)

    def send_with_retries(
        self,
        spending: Spending,
        request: Callable[[], Got],
        patience: Patience,
        adapt: Callable[[RequestFailure], bool] = lambda _: False,
    ) -> Got:
        """Send a request with retries. Raises LlmError.

        `adapt` may change the next request because of the failure. If it does, it returns True, and
        the failed request does not count as an attempt. `adapt` may also raise an error to end the
        attempts.
        """
        failed = 0
        while True:
            self._check_stop(patience.stop)
            self.breaker.check()
            try:
                return self.send(spending, request)
            except RequestFailure as failure:
                self._check_stop(patience.stop)
                if adapt(failure):
                    continue
                failed += 1
                pause_s = self.pause_s(failure, failed, patience.deadline_s, patience.max_attempts)
            self._timing.wait(patience.stop, pause_s)

    def _check_stop(self, stop: threading.Event) -> None:
        if stop.is_set():
            raise Abandoned(
                self._texts.not_asked, "the daemon is stopping", "Start the daemon again"
            )

    def send(self, spending: Spending, request: Callable[[], Got]) -> Got:
        """Send a request once, and count its tokens. If the endpoint reports no token counts, the
        estimate counts.

        Raises BudgetSpent, RequestFailure, or LlmNonsense if the request raises UnusableReply.
        """
        estimate = used = spending.prompt_tokens, spending.reply_tokens
        reserved = self._reserve(spending)
        try:
            reply = request()
            used = reply.count_tokens() or estimate
        except RequestFailure as failure:
            if failure.status or not failure.sent:
                used = 0, 0
            raise
        except UnusableReply as error:
            self.breaker.record_answer()
            texts = self._texts
            raise LlmNonsense(
                f"The reply from {texts.host} cannot be used", str(error), texts.wrong_address
            ) from error
        finally:
            self._settle(spending.usage, reserved, *used)
        self.breaker.record_answer()
        return reply

    def pause_s(
        self, failure: RequestFailure, failed: int, deadline_s: float, max_attempts: int
    ) -> float:
        """Return how many seconds to wait before the next request. Raises LlmError to give up.

        `failed` is the number of failed attempts. The caller waits only until `deadline_s`.
        """
        error = make_error(failure, self._texts)
        if not isinstance(error, LlmUnavailable):
            if concerns_every_call(failure):
                self.breaker.record_refusal(error)
            else:
                self.breaker.record_answer()
            raise error
        asked_s = retry_after_s(failure.retry_after, self._timing.unix_s())
        backoff = compute_backoff_s(failed - 1, self._timing.random())
        pause_s = max(asked_s or 0.0, backoff)
        late = self._timing.monotonic_s() + pause_s >= deadline_s
        if late or failed >= max_attempts or not self.breaker.is_retry_worthwhile:
            self.breaker.record_no_answer(error, asked_s or 0.0)
            raise error
        return pause_s

    def _reserve(self, spending: Spending) -> Reservation:
        """Reserve tokens in the budget and the ledger.

        Raises BudgetSpent if the budget is exhausted or the ledger cannot be read.
        """
        tokens = spending.prompt_tokens + spending.reply_tokens
        spending.usage.reserve(tokens)
        try:
            day = int(self._timing.unix_s() // DAY_S)
            reserved = self._ledger.reserve(day, spending.purpose, spending.source, tokens)
        except StoreError as error:
            spending.usage.cancel(tokens)
            why = f"{error.what}: {error.why}"
            raise BudgetSpent(self._texts.not_asked, why, error.hint) from error
        if reserved is None:
            spending.usage.cancel(tokens)
            raise BudgetSpent(
                self._texts.not_asked,
                "today's limit of calls or tokens (UTC) is reached",
                self._texts.raise_limits,
            )
        return reserved

    def _settle(
        self, usage: Usage, reserved: Reservation, prompt_tokens: int, completion_tokens: int
    ) -> None:
        """Count the tokens that the request used. If the ledger fails, the reserved tokens stay
        counted."""
        usage.settle(reserved.tokens, prompt_tokens, completion_tokens)
        try:
            self._ledger.settle(reserved, prompt_tokens, completion_tokens)
        except StoreError as error:
            log.warning("the ledger of calls was not updated", why=error.why)
