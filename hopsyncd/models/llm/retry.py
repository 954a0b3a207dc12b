"""Decides whether and when to retry failed requests, and describes the failures to the user."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from hopsyncd.errors import LlmError, LlmNonsense, LlmRefused, LlmUnavailable

MAX_ATTEMPTS = 5
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 20.0
_TRANSIENT = frozenset({408, 409, 425, 429})
_NO_QUOTA = "insufficient_quota"  # OpenAI's code in a 429 for an account without credit
_EVERY_CALL = frozenset({401, 402, 404})
# The breaker opens after 3 failures, for 30 s. An endpoint may ask for up to an hour.
_FAILURES, _REST_S, _LONGEST_REST_S = 3, 30.0, 3600.0
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class EndpointTexts:
    """The words with which messages describe an endpoint and its settings.

    host: the host as the status shows it. section: the section of the configuration. smaller: the
    advice for a request that is too large. meanwhile: the consequence while the endpoint is
    unavailable.
    """

    host: str
    api_key_env: str
    title: str = "The LLM endpoint"
    not_asked: str = "The LLM was not asked"
    section: str = "[llm]"
    url: str = "`base_url`"
    model: str = "`model`"
    limits: str = "max_calls_per_day or max_tokens_per_day"
    smaller: str = "Lower `passages_per_call` in [llm]"
    meanwhile: str = "hopsyncd continues without the LLM, and tries the LLM again later"

    @classmethod
    def of_model(
        cls, host: str, api_key_env: str, title: str, setting: str, meanwhile: str
    ) -> "EndpointTexts":
        """Return the texts for a model whose settings in [models] begin with `setting`."""
        return cls(
            host,
            api_key_env,
            title=title,
            not_asked=f"{title} was not asked",
            section="[models]",
            url=f"`{setting}_url`",
            model=f"`{setting}`",
            limits=f"{setting}_max_tokens_per_day",
            smaller="Lower index.passage_tokens",
            meanwhile=meanwhile,
        )

    @property
    def wrong_address(self) -> str:
        return f"Check that {self.url} in {self.section} is an OpenAI-compatible API"

    @property
    def raise_limits(self) -> str:
        return f"Raise {self.limits} in {self.section}, or wait until tomorrow (UTC)"


class UnusableReply(Exception):
    """The reply does not have the requested form. The message is sent back to the model."""


@dataclass(slots=True, eq=False)
class RequestFailure(Exception):
    """A request failed. Its `message` is safe to log.

    status: the HTTP status, or 0 without a complete response. code: OpenAI's code for the error.
    sent: whether the endpoint may have processed the request. readable: False if the response was
    too large or compressed.
    """

    status: int
    message: str
    code: str = ""
    retry_after: str = ""
    sent: bool = True
    readable: bool = True


def make_printable(text: str) -> str:
    """Shorten untrusted text to one printable line.

    >>> make_printable("no such model:\\n\\x1b[31m gpt-9")
    'no such model: [31m gpt-9'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 3] + "..."


def is_transient(failure: RequestFailure) -> bool:
    """Return whether the same request may succeed later."""
    if failure.code == _NO_QUOTA or not failure.readable:
        return False
    return failure.status == 0 or failure.status in _TRANSIENT or failure.status >= 500


def concerns_every_call(failure: RequestFailure) -> bool:
    """Return whether every request would fail for the same reason, such as a wrong key or
    address."""
    return failure.code == _NO_QUOTA or failure.status in _EVERY_CALL


def compute_backoff_s(attempt: int, random: float) -> float:
    """Return how many seconds to wait after an attempt. The first attempt has the number 0.

    `random` in [0, 1) varies the result, so that clients do not retry at the same time.

    >>> [compute_backoff_s(attempt, 0.5) for attempt in range(4)]
    [0.375, 0.75, 1.5, 3.0]
    """
    return float(min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S)) * (0.5 + random / 2)


def retry_after_s(header: str, now_s: float) -> float | None:
    """Return the seconds that a Retry-After header asks to wait, or None if the header is invalid.

    The header has seconds or a date. `now_s` is the current Unix time.

    >>> retry_after_s("7", 0.0), retry_after_s("Thu, 01 Jan 1970 00:01:00 GMT", 50.0)
    (7.0, 10.0)
    >>> retry_after_s("soon", 0.0) is None
    True
    """
    try:
        wait = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
            wait = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now_s
        except (ValueError, OverflowError):
            return None
    return max(wait, 0.0) if math.isfinite(wait) else None


class Breaker:
    """A circuit breaker: lets calls fail at once while an endpoint is failing.

    It opens for 30 s after three unanswered calls in a row, or after one failure that concerns
    every call. After an unanswered call, it also opens for the time that the endpoint asked for, if
    this is longer (at most an hour). Then calls are sent again. After three unanswered calls,
    requests are not retried until a call is answered.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until = -math.inf
        self._why: LlmError | None = None

    def check(self) -> None:
        """Raise the endpoint's last error if the breaker is open."""
        with self._lock:
            seconds_left, why = self._open_until - self._clock(), self._why
        if seconds_left > 0 and why is not None:
            raise type(why)(
                why.what, f"{why.why}; the next attempt is in {math.ceil(seconds_left)} s", why.hint
            )

    @property
    def is_retry_worthwhile(self) -> bool:
        """Return whether to retry failed requests: fewer than three calls in a row were
        unanswered."""
        with self._lock:
            return self._failures < _FAILURES

    def record_answer(self) -> None:
        with self._lock:
            self._failures = 0

    def record_no_answer(self, why: LlmUnavailable, wanted_s: float = 0.0) -> None:
        """Record a call that failed because of `why`. `wanted_s` is the pause in seconds that the
        endpoint asked for, or 0."""
        with self._lock:
            self._failures += 1
            if self._failures >= _FAILURES:
                wanted_s = max(wanted_s, _REST_S)
            if wanted_s:
                self._open(why, wanted_s)

    def record_refusal(self, why: LlmError) -> None:
        """Open the breaker for 30 s, after a failure that concerns every call."""
        with self._lock:
            self._open(why, _REST_S)

    def _open(self, why: LlmError, wanted_s: float) -> None:
        self._open_until = self._clock() + min(wanted_s, _LONGEST_REST_S)
        self._why = why


def make_error(failure: RequestFailure, texts: EndpointTexts) -> LlmError:
    outcome = "gave no reply"
    if failure.status:
        outcome = "returned an error" if is_transient(failure) else "refused the request"
    what = f"{texts.title} {texts.host} {outcome}"
    if not failure.readable:
        hint = f"Check that {texts.url} in {texts.section} is the endpoint's address"
        return LlmNonsense(what, failure.message, hint)
    why = f"{failure.status}, {failure.message}" if failure.status else failure.message
    if is_transient(failure):
        return LlmUnavailable(what, why, texts.meanwhile)
    return LlmRefused(what, why, _suggest(failure, texts))


def _suggest(failure: RequestFailure, texts: EndpointTexts) -> str:
    section = texts.section
    match failure.status:
        case 401 if not texts.api_key_env:
            hint = "name the environment variable that has the API key, and restart the daemon"
            return f"In {section}, {hint}"
        case 401:
            variable = f"the environment variable {texts.api_key_env}"
            return f"Set {variable} to a valid key, and restart the daemon"
        case 402 | 429:
            hint = "The account has no credit: add credit, or configure another endpoint in"
            return f"{hint} {section}"
        case 403:
            return "Ask the endpoint's operator whether the key, account and content are allowed"
        case 404:
            return f"Check {texts.url} (it usually ends in /v1) and {texts.model} in {section}"
        case 413:
            return texts.smaller
    if 300 <= failure.status < 400:
        return f"Redirects are not followed: set {texts.url} to the final address"
    return f"Compare {section} in the configuration with the endpoint's documentation"
