"""Implements the LLM protocol for any OpenAI-compatible endpoint. The endpoint is not trusted.

Every call ends with a reply that fits its schema, or with an LlmError that has the reason.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b

import structlog
from pydantic import BaseModel

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.errors import BudgetSpent, LlmError, LlmNonsense, LlmUnavailable
from hopsyncd.models.llm.attempts import Abandoned, Timing, find_endpoint_host, read_spent_today
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall, Reply, TokenSink
from hopsyncd.models.llm.chat_completion import TEMPERATURE, Repair, read_reply
from hopsyncd.models.llm.exchange import CompletionRequest, Exchange, Sender
from hopsyncd.models.llm.retry import UnusableReply
from hopsyncd.responses.daemon_state import LlmFailure, LlmSpent, LlmStatus
from store.ledger import Ledger, Spent

log = structlog.get_logger(__name__)

_YIELD_EVERY_S = 0.1  # how often `yield_to_edits` is called while waiting for replies
_CACHE_BYTES = 16 << 20
_ENTRY_BYTES = 200  # a rough estimate of the memory for an entry's key and bookkeeping
_REAL_TIME = Timing()


class ReplyCache:
    """Caches texts by key, and drops the least recently used texts first. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._flights: dict[bytes, Future[str]] = {}
        self.bytes = 0

    def get_or_make(
        self, key: bytes, make: Callable[[], str], shared: Callable[[BaseException], bool]
    ) -> tuple[str, bool]:
        """Return the text for the key, and whether it was cached.

        While one thread runs `make`, other threads with the same key wait. If `make` raises an
        error for which `shared` returns True, the waiting threads raise it too; otherwise the next
        thread tries.
        """
        while True:
            with self._lock:
                if key in self._texts:
                    self._texts.move_to_end(key)
                    return self._texts[key], True
                flight = self._flights.get(key)
                if flight is None:
                    future = self._flights[key] = Future()
                    break
            error = flight.exception()
            if error is not None and shared(error):
                raise error
        return self._make(key, make, future), False

    def _make(self, key: bytes, make: Callable[[], str], future: "Future[str]") -> str:
        try:
            text = make()
        except BaseException as error:
            with self._lock:
                del self._flights[key]
            future.set_exception(error)
            raise
        with self._lock:
            self._keep(key, text)
            del self._flights[key]
        future.set_result(text)
        return text

    def _keep(self, key: bytes, text: str) -> None:
        self._texts[key] = text
        self.bytes += _count_bytes(text)
        while self.bytes > self._max_bytes:
            _, forgotten = self._texts.popitem(last=False)
            self.bytes -= _count_bytes(forgotten)


def _count_bytes(text: str) -> int:
    return len(text.encode()) + _ENTRY_BYTES


def get_model_name(config: LlmConfig) -> str:
    """Return the name of a configured LLM: its model and parameters."""
    return f"{config.model} temperature={TEMPERATURE}"


class OpenAiLlm:
    """Calls the LLM at an endpoint. All calls share a concurrency limit, a cache and the ledger.

    A call waits up to `timeout_s` for its turn, and may then take up to `timeout_s`.
    """

    def __init__(
        self, config: LlmConfig, ledger: Ledger, sender: Sender, timing: Timing = _REAL_TIME
    ) -> None:
        self.ledger = ledger
        self.last_failure: tuple[float, LlmError] | None = None
        self._config = config
        self._timing = timing
        self._exchange = Exchange(sender, config, ledger, timing)
        self._slots = threading.BoundedSemaphore(config.concurrency)
        self._replies = ReplyCache(_CACHE_BYTES)
        self._lock = threading.Lock()
        self._stops: set[threading.Event] = set()
        self._closed = False

    @property
    def name(self) -> str:
        return get_model_name(self._config)

    def ask_each(
        self,
        calls: Sequence[LlmCall],
        shape: type[Reply],
        usage: Usage,
        yield_to_edits: Callable[[], None] = lambda: None,
        sink: TokenSink | None = None,
    ) -> Iterator[tuple[int, Reply | LlmError]]:
        """Send the calls as `Llm.ask_each` describes. Abandoned calls end within a quarter of a
        second."""
        stop = self._make_stop()
        threads = max(1, min(self._config.concurrency, len(calls)))
        pool = ThreadPoolExecutor(threads, thread_name_prefix="llm")
        try:
            with usage.stopping(stop):
                requests = [CompletionRequest(call, shape, usage, stop, sink) for call in calls]
                futures = {
                    pool.submit(self._ask_one, request, shape): index
                    for index, request in enumerate(requests)
                }
                waiting = {*futures}
                while waiting:
                    finished, waiting = wait(waiting, _YIELD_EVERY_S, FIRST_COMPLETED)
                    for future in finished:
                        yield futures[future], future.result()
                    yield_to_edits()
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            with self._lock:
                self._stops.discard(stop)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for stop in self._stops:
                stop.set()
        self.ledger.close()

    def describe_status(self) -> LlmStatus:
        """Return the part of /v1/status about the LLM, as docs/reference/http-api.md documents it.

        Reads the ledger once.
        """
        config = self._config
        spent, problem = read_spent_today(self.ledger, self._timing)
        return {
            "endpoint": find_endpoint_host(config.base_url),
            "model": config.model,
            "questions": config.questions,
            "calls_today": sum(row.calls for row in spent),
            "tokens_today": sum(row.tokens for row in spent),
            "max_calls_per_day": config.max_calls_per_day,
            "max_tokens_per_day": config.max_tokens_per_day,
            "today": [_format_spent(row) for row in spent],
            "ledger_problem": problem,
            "last_failure": self._find_last_failure(),
        }

    def _find_last_failure(self) -> LlmFailure | None:
        if self.last_failure is None:
            return None
        at_s, error = self.last_failure
        time_text = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
        return {"kind": error.kind, "message": str(error), "at": time_text}

    def _make_stop(self) -> threading.Event:
        stop = threading.Event()
        with self._lock:
            self._stops.add(stop)
            if self._closed:
                stop.set()
        return stop

    def _ask_one(self, request: CompletionRequest, shape: type[Reply]) -> Reply | LlmError:
        try:
            return self._request_reply(request, shape)
        except LlmError as error:
            failed = error
        except Exception as error:
            log.exception("a call to the LLM failed unexpectedly", purpose=request.call.purpose)
            failed = LlmUnavailable(
                "The call to the LLM failed",
                type(error).__name__,
                "See the daemon's log for details",
            )
        request.usage.count_failure(failed.kind)
        if not isinstance(failed, BudgetSpent | Abandoned):
            self.last_failure = self._timing.unix_s(), failed
        return failed

    def _request_reply(self, request: CompletionRequest, shape: type[Reply]) -> Reply:
        text, is_cached = self._replies.get_or_make(
            _compute_key(self.name, request.call, shape),
            lambda: self._request_json(request),
            shared=lambda error: not isinstance(error, BudgetSpent | Abandoned),
        )
        if is_cached:
            request.usage.count_cached()
        return shape.model_validate_json(text)

    def _request_json(self, request: CompletionRequest) -> str:
        """Request a valid reply, with a repair if needed. Returns its JSON. Raises LlmError."""
        limit_s = self._config.timeout_s
        if not self._slots.acquire(timeout=limit_s):
            raise LlmUnavailable(
                "The LLM was not asked",
                f"{self._config.concurrency} other calls were in progress for {limit_s:.0f} s",
                "Raise `concurrency` in [llm] if the endpoint can handle it",
            )
        try:
            deadline_s = self._timing.monotonic_s() + limit_s
            return self._ask_with_repair(replace(request, deadline_s=deadline_s))
        except UnusableReply as error:
            raise LlmNonsense(
                f"The reply from {self._config.model} cannot be used",
                str(error),
                "hopsyncd continues without the reply. A larger model follows the format better",
            ) from error
        finally:
            self._slots.release()

    def _ask_with_repair(self, request: CompletionRequest) -> str:
        """Return the JSON of the reply or, if it is invalid, of a second reply.

        Raises UnusableReply if both are invalid.
        """
        text, why = self._ask_once(request, None)
        if why:
            if request.sink:
                request.sink.withdraw(f"the reply cannot be used: {why}")
            text, why = self._ask_once(request, (text, why))
        if why:
            raise UnusableReply(why)
        return text

    def _ask_once(self, request: CompletionRequest, repair: Repair | None) -> tuple[str, str]:
        """Return the JSON of a reply and "". If the reply cannot be used, return its text and the
        reason."""
        reply = self._exchange.ask(request, repair)
        try:
            return read_reply(reply.text, request.shape), ""
        except UnusableReply as error:
            limit = f"it was cut off at {request.call.max_tokens} tokens, be shorter; "
            return reply.text, (limit if reply.cut else "") + str(error)


def _format_spent(row: Spent) -> LlmSpent:
    return {
        "purpose": row.purpose,
        "source": row.source,
        "version": row.version,
        "calls": row.calls,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "unsettled_tokens": row.unsettled_tokens,
    }


def _compute_key(name: str, call: LlmCall, shape: type[BaseModel]) -> bytes:
    schema = shape.model_json_schema()
    parts = [name, call.prompt, call.system, call.user, schema, call.max_tokens]
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()
