"""The real LLM: any OpenAI-compatible endpoint, and none of them trusted.

Every call ends: with a reply that was checked against its shape, or with an LlmError that says why.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from hashlib import blake2b
from urllib.parse import urlsplit

import structlog
from pydantic import BaseModel

from hopsyncd.answers.daemon_state import LlmFailure, LlmSpent, LlmStatus
from hopsyncd.config.configuration import LlmConfig
from hopsyncd.errors import BudgetSpent, LlmError, LlmNonsense, LlmUnavailable
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall, Reply, TokenSink
from hopsyncd.models.llm.chat_completion import TEMPERATURE, Repair, UnusableReply, read_reply
from hopsyncd.models.llm.exchange import (
    DAY_S,
    Abandoned,
    CompletionRequest,
    Exchange,
    Sender,
    Timing,
)
from store.exceptions import StoreError
from store.sqlite.ledger import Ledger, Spent

_ENTRY_BYTES = 200  # of the key and the bookkeeping, about


class Replies:
    """Texts by key, the least recently used forgotten first; safe from any thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._flights: dict[bytes, Future[str]] = {}
        self.bytes = 0

    def once(
        self, key: bytes, make: Callable[[], str], shared: Callable[[BaseException], bool]
    ) -> tuple[str, bool]:
        """The text of the key, and whether it was there without a call of `make`.

        While one thread makes it, others with the same key wait for it. An error of the maker is
        theirs too if it is `shared`, else the next of them makes it.
        """
        while True:
            with self._lock:
                if key in self._texts:
                    self._texts.move_to_end(key)
                    return self._texts[key], True
                flight = self._flights.get(key)
                if flight is None:
                    own = self._flights[key] = Future()
                    break
            error = flight.exception()
            if error is not None and shared(error):
                raise error
        return self._made(key, make, own), False

    def _made(self, key: bytes, make: Callable[[], str], own: "Future[str]") -> str:
        try:
            text = make()
        except BaseException as error:
            with self._lock:
                del self._flights[key]
            own.set_exception(error)
            raise
        with self._lock:
            self._keep(key, text)
            del self._flights[key]
        own.set_result(text)
        return text

    def _keep(self, key: bytes, text: str) -> None:
        self._texts[key] = text
        self.bytes += _bytes(text)
        while self.bytes > self._max_bytes:
            _, forgotten = self._texts.popitem(last=False)
            self.bytes -= _bytes(forgotten)


def _bytes(text: str) -> int:
    return len(text.encode()) + _ENTRY_BYTES


log = structlog.get_logger(__name__)

_LOOK_S = 0.1  # how often who waits for replies gives way

_CACHE_BYTES = 16 << 20
_REAL_TIME = Timing()


class OpenAiLlm:
    """Implements call.Llm. All its calls share a limit of concurrency, a cache and the ledger.

    A call waits at most `timeout_s` for its turn, and has as long again from there.
    """

    def __init__(
        self, config: LlmConfig, ledger: Ledger, sender: Sender, timing: Timing = _REAL_TIME
    ) -> None:
        self.ledger = ledger
        self.last_failure: tuple[float, LlmError] | None = None
        self._config = config
        self._timing = timing
        self._exchange = Exchange(
            sender,
            config.model,
            ledger,
            timing,
            host=endpoint_host(config.base_url),
            api_key_env=config.api_key_env,
        )
        self._slots = threading.BoundedSemaphore(config.concurrency)
        self._replies = Replies(_CACHE_BYTES)
        self._lock = threading.Lock()
        self._stops: set[threading.Event] = set()
        self._closed = False

    @property
    def name(self) -> str:
        return f"{self._config.model} temperature={TEMPERATURE}"

    def ask_each(
        self,
        calls: Sequence[LlmCall],
        shape: type[Reply],
        meter: Usage,
        give_way: Callable[[], None] = lambda: None,
        hearer: TokenSink | None = None,
    ) -> Iterator[tuple[int, Reply | LlmError]]:
        """As call.Llm says. Abandoned calls that were sent end within a quarter of a second."""
        stop = self._new_stop()
        threads = max(1, min(self._config.concurrency, len(calls)))
        pool = ThreadPoolExecutor(threads, thread_name_prefix="llm")
        try:
            with meter.stopping(stop):
                futures = {
                    pool.submit(self._result, call, shape, meter, stop, hearer): index
                    for index, call in enumerate(calls)
                }
                waiting = {*futures}
                while waiting:
                    done, waiting = wait(waiting, _LOOK_S, FIRST_COMPLETED)
                    for future in done:
                        yield futures[future], future.result()
                    give_way()
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            with self._lock:
                self._stops.discard(stop)

    def close(self) -> None:
        """Abandon all calls, and answer no more."""
        with self._lock:
            self._closed = True
            for stop in self._stops:
                stop.set()
        self.ledger.close()

    def status(self) -> LlmStatus:
        """For /v1/status; docs/api.md documents it. Costs one read of the ledger."""
        config, problem = self._config, None
        spent: list[Spent] = []
        try:
            spent = self.ledger.spent(int(self._timing.unix_s() // DAY_S))
        except StoreError as error:
            problem = str(error)
        return {
            "endpoint": endpoint_host(config.base_url),
            "model": config.model,
            "questions": config.questions,
            "calls_today": sum(row.calls for row in spent),
            "tokens_today": sum(row.tokens for row in spent),
            "max_calls_per_day": config.max_calls_per_day,
            "max_tokens_per_day": config.max_tokens_per_day,
            "today": [_spent_json(row) for row in spent],
            "ledger_problem": problem,
            "last_failure": self._last_failure(),
        }

    def _last_failure(self) -> LlmFailure | None:
        if self.last_failure is None:
            return None
        at_s, error = self.last_failure
        at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
        return {"kind": error.kind, "message": str(error), "at": at}

    def _new_stop(self) -> threading.Event:
        stop = threading.Event()
        with self._lock:
            self._stops.add(stop)
            if self._closed:
                stop.set()
        return stop

    def _result(
        self,
        call: LlmCall,
        shape: type[Reply],
        meter: Usage,
        stop: threading.Event,
        hearer: TokenSink | None,
    ) -> Reply | LlmError:
        try:
            return self._reply(call, shape, meter, stop, hearer)
        except LlmError as error:
            failed = error
        except Exception as error:
            log.exception("a call to the LLM failed in an unexpected way", purpose=call.purpose)
            failed = LlmUnavailable(
                "The call to the LLM failed", type(error).__name__, "The log says more"
            )
        meter.count_failure(failed.kind)
        if not isinstance(failed, BudgetSpent | Abandoned):
            self.last_failure = self._timing.unix_s(), failed
        return failed

    def _reply(
        self,
        call: LlmCall,
        shape: type[Reply],
        meter: Usage,
        stop: threading.Event,
        hearer: TokenSink | None,
    ) -> Reply:
        text, kept = self._replies.once(
            _key(self.name, call, shape),
            lambda: self._checked(call, shape, meter, stop, hearer),
            shared=lambda error: not isinstance(error, BudgetSpent | Abandoned),
        )
        if kept:
            meter.count_cached()
        return shape.model_validate_json(text)

    def _checked(
        self,
        call: LlmCall,
        shape: type[BaseModel],
        meter: Usage,
        stop: threading.Event,
        hearer: TokenSink | None,
    ) -> str:
        """The JSON of a valid reply, after one repair if need be. Raises LlmError."""
        limit_s = self._config.timeout_s
        if not self._slots.acquire(timeout=limit_s):
            raise LlmUnavailable(
                "The LLM was not asked",
                f"all of its {self._config.concurrency} places were taken for {limit_s:.0f} s",
                "Raise `concurrency` in [llm] if the endpoint can bear it",
            )
        try:
            deadline_s = self._timing.monotonic_s() + limit_s
            return self._repaired(CompletionRequest(call, shape, meter, stop, deadline_s, hearer))
        except UnusableReply as error:
            raise LlmNonsense(
                f"The reply of {self._config.model} cannot be used",
                str(error),
                "The work goes on without it; a larger model keeps to the form better",
            ) from error
        finally:
            self._slots.release()

    def _repaired(self, errand: CompletionRequest) -> str:
        """Raises Unusable where the second reply is no better than the first."""
        text, why = self._answered(errand, None)
        if why:
            if errand.hearer:
                errand.hearer.withdraw(f"the reply cannot be used: {why}")
            text, why = self._answered(errand, (text, why))
        if why:
            raise UnusableReply(why)
        return text

    def _answered(self, errand: CompletionRequest, repair: Repair | None) -> tuple[str, str]:
        """The JSON of a reply; or its text, and why that cannot be used."""
        said = self._exchange.ask(errand, repair)
        try:
            return read_reply(said.text, errand.shape), ""
        except UnusableReply as error:
            limit = f"it was cut off at {errand.call.max_tokens} tokens, be shorter; "
            return said.text, (limit if said.cut else "") + str(error)


def endpoint_host(base_url: str) -> str:
    """Host, and port where one is written: what the status and errors name."""
    return urlsplit(base_url).netloc.rpartition("@")[2]


def _spent_json(row: Spent) -> LlmSpent:
    return {
        "purpose": row.purpose,
        "source": row.source,
        "version": row.version,
        "calls": row.calls,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "unsettled_tokens": row.unsettled_tokens,
    }


def _key(name: str, call: LlmCall, shape: type[BaseModel]) -> bytes:
    schema = shape.model_json_schema()
    parts = [name, call.prompt, call.system, call.user, schema, call.max_tokens]
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()
