"""One request to the endpoint through the `openai` package: the bytes of its reply, or a failure.

Nothing is tried again here, and nothing of the reply is believed. `openai` is imported with the
first request, which takes half a second.
"""

import functools
import threading
from typing import TYPE_CHECKING, Any

from hopsyncd.llm.failure import Failure, shown
from hopsyncd.llm.transport import BoundedTransport, Hear, ReplyUnreadable, Stop, attended

if TYPE_CHECKING:
    import openai

_SECRET_CHARS = 8  # a shorter key is a dummy, and may be an ordinary word
_NO_KEY = "none"  # what local servers get, which want a key but do not look at it


class Wire:
    """The endpoint at `base_url`. The key goes into its requests and nowhere else."""

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url
        self._key = key
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Wire({self._base_url!r})"

    @functools.cached_property
    def _client(self) -> "openai.OpenAI":
        import httpx2
        import openai

        return openai.OpenAI(
            base_url=self._base_url,
            api_key=self._key or _NO_KEY,
            max_retries=0,
            http_client=httpx2.Client(
                transport=BoundedTransport(self._base_url), trust_env=False, follow_redirects=False
            ),
        )

    def post(self, body: dict[str, Any], timeout_s: float, stop: Stop, hear: Hear | None) -> bytes:
        """Send one chat completion and read the whole reply. Raises Failure."""
        import openai

        with self._lock:
            client = self._client
        try:
            with attended(stop, hear):
                raw = client.chat.completions.with_raw_response.create(**body, timeout=timeout_s)
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except openai.APITimeoutError:
            raise Failure(0, "no whole reply came in time") from None
        except openai.APIConnectionError as error:
            raise self._cut(error) from None
        return bytes(raw.content)

    def _refused(self, error: "openai.APIStatusError") -> Failure:
        headers = error.response.headers
        code = error.code if isinstance(error.code, str) else ""
        said = error.body.get("message") if isinstance(error.body, dict) else error.body
        message = self._shown(said) if isinstance(said, str) and said else "it gave no reason"
        return Failure(error.status_code, message, code, headers.get("retry-after", ""))

    def _cut(self, error: "openai.APIConnectionError") -> Failure:
        import httpx2

        cause = error.__cause__
        if isinstance(cause, ReplyUnreadable):
            return Failure(0, f"its reply was not read: {cause}", readable=False)
        message = self._shown(str(cause)) or "the connection failed"
        return Failure(0, message, sent=not isinstance(cause, httpx2.ConnectError))

    def _shown(self, text: str) -> str:
        """What a stranger said, fit for a log: no key, no control characters, not long."""
        if len(self._key) >= _SECRET_CHARS:
            text = text.replace(self._key, "[key]")
        return shown(text)
