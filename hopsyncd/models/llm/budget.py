"""Limits the LLM usage of one piece of work, such as a query or a sync."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hopsyncd.errors import BudgetSpent

_BYTES_PER_TOKEN = 3


class Usage:
    """Counts the calls and tokens of a piece of work, such as a query. Thread-safe.

    Each request is a call, including retries and repairs. A limit of None means no limit.
    `failures` has the number of failures by kind of LlmError; `cached` is the number of calls that
    were answered without a request. When the work is abandoned, its running calls are stopped and
    no further calls are sent.
    """

    def __init__(self, max_calls: int | None = None, max_tokens: int | None = None) -> None:
        self._max_calls = max_calls
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._reserved_tokens = 0
        self._stops: set[threading.Event] = set()
        self._abandoned = False
        self.calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cached = 0
        self.failures: Counter[str] = Counter()

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def reserve(self, tokens: int) -> None:
        """Reserve one request of at most `tokens`. Raises BudgetSpent."""
        with self._lock:
            total = self.tokens + self._reserved_tokens + tokens
            if self._max_calls is not None and self.calls >= self._max_calls:
                raise _make_error(f"this request has used all of its {self._max_calls} calls")
            if self._max_tokens is not None and total > self._max_tokens:
                raise _make_error(
                    f"the next call could exceed this request's limit of {self._max_tokens} tokens"
                )
            self.calls += 1
            self._reserved_tokens += tokens

    def cancel(self, reserved: int) -> None:
        """Release the reservation of a request that was not sent."""
        with self._lock:
            self.calls -= 1
            self._reserved_tokens -= reserved

    def settle(self, reserved: int, prompt_tokens: int, completion_tokens: int) -> None:
        """Replace a reservation with the actual usage of the request."""
        with self._lock:
            self._reserved_tokens -= reserved
            self.prompt_tokens += prompt_tokens
            self.completion_tokens += completion_tokens

    def abandon(self) -> None:
        """Stop the running calls, and send no further calls. Used when the caller no longer
        waits."""
        with self._lock:
            self._abandoned = True
            for stop in self._stops:
                stop.set()

    @contextmanager
    def stopping(self, stop: threading.Event) -> Iterator[None]:
        """Set the event if the work is abandoned during the `with` block."""
        with self._lock:
            self._stops.add(stop)
            if self._abandoned:
                stop.set()
        try:
            yield
        finally:
            with self._lock:
                self._stops.discard(stop)

    def count_cached(self) -> None:
        with self._lock:
            self.cached += 1

    def count_failure(self, kind: str) -> None:
        with self._lock:
            self.failures[kind] += 1


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text. The estimate is more often too high than too low.

    English has about four bytes per token, other scripts about three.

    >>> estimate_tokens("Where did the father of Ada Lovelace die?")
    14
    """
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


def _make_error(why: str) -> BudgetSpent:
    return BudgetSpent(
        "The LLM was not asked", why, "Ask a simpler question, or raise this limit in [llm]"
    )


@dataclass(frozen=True, slots=True)
class LlmContext:
    """The piece of work that LLM calls belong to.

    source: the source of its passages, for the ledger. go_on: returns False when no more calls
    should be sent. yield_to_edits: called while waiting for replies.
    """

    source: str
    usage: Usage
    go_on: Callable[[], bool] = lambda: True
    yield_to_edits: Callable[[], None] = lambda: None
