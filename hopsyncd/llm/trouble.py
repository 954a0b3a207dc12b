"""Failed requests as errors for a user: what to change where."""

from hopsyncd.errors import LlmError, LlmNonsense, LlmRefused, LlmUnavailable
from hopsyncd.llm.failure import Failure
from hopsyncd.llm.retry import is_transient

_HINTS = {
    402: "The account has no credit: add some, or configure another endpoint in [llm]",
    403: "The key, the account or the content is not allowed: ask the endpoint's operator",
    404: "Check `base_url` (it usually ends in /v1) and `model` in [llm]",
    413: "Lower `passages_per_call` in [llm]",
}


def error_of(failure: Failure, host: str, api_key_env: str) -> LlmError:
    """The error that a call ends in when no further request is made."""
    what = f"The LLM endpoint {host} gave no reply"
    if not failure.readable:
        return LlmNonsense(what, failure.message, "Check that `base_url` in [llm] is right")
    why = f"{failure.status}, {failure.message}" if failure.status else failure.message
    if is_transient(failure):
        hint = "The work goes on without it; it is asked again later"
        return LlmUnavailable(what, why, hint)
    return LlmRefused(what, why, _hint(failure, api_key_env))


def _hint(failure: Failure, api_key_env: str) -> str:
    if failure.status == 401:
        return f"Set the environment variable {api_key_env} to a valid key and start again"
    if 300 <= failure.status < 400:
        return "It redirects, which is not followed: write its final address as `base_url`"
    if failure.status == 429:
        return _HINTS[402]
    return _HINTS.get(failure.status, "Check [llm] in the configuration against its documentation")
