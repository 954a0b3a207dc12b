"""From what the daemon sends to an answer, or to an error that says what failed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hopsyncd.errors import DaemonUnavailable, HopsyncdError

if TYPE_CHECKING:
    from hopsyncd.serve.answers import ErrorEvent, Event

NDJSON = "application/x-ndjson"
CONNECT_S = 5.0


class RequestFailed(HopsyncdError):
    """The daemon answered with an error; `status` is the HTTP status, `code` the daemon's word."""

    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__("The daemon refused", message, hint)
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return f"{self.why}. {self.hint}" if self.hint else self.why


def headers_of(token: str) -> dict[str, str]:
    """What each request has; the token is asked for over TCP alone."""
    headers = {"Content-Type": "application/json"}
    return {**headers, "Authorization": f"Bearer {token}"} if token else headers


def body_of(value: object) -> bytes:
    """The JSON of a request's body; what is no text is left to the daemon to refuse."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def answer_of(place: object, status: int, content: bytes, *, is_text: bool = False) -> Any:
    """The answer. Raises RequestFailed, or DaemonUnavailable for what is no JSON object."""
    if is_text and status == 200:
        return content.decode()
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise cut_off(place, f"status {status}, and no JSON: the daemon may be stopping") from error
    if not 200 <= status < 300:
        raise _failed(status, answer)
    return answer


def event_of(place: object, line: bytes) -> Event:
    """An event of a stream. Raises RequestFailed if the stream ends in an error."""
    try:
        event: Event | ErrorEvent = json.loads(line)
    except ValueError as error:
        raise cut_off(place, "a line was cut off: the daemon may be stopping") from error
    if event["event"] == "error":
        raise _failed(event["status"], event)
    return event


def whole(place: object, events: Iterable[Event]) -> Iterator[Event]:
    """The events up to the answer. Raises DaemonUnavailable if that does not come."""
    for event in events:
        yield event
        if event["event"] == "answer":
            return
    raise cut_off(place, "the stream ended before the answer")


def cut_off(place: object, why: str) -> DaemonUnavailable:
    """No answer, or a part of one."""
    return DaemonUnavailable(
        f"No whole answer came from {place}",
        why,
        "Ask again, or check that a hopsyncd daemon serves there",
    )


def unreachable(place: object, error: BaseException, *, connecting: bool) -> DaemonUnavailable:
    """The connection could not be made, or it broke."""
    hint = "Start one with `hopsyncd serve`"
    if isinstance(error, PermissionError):
        why = "your user may not use that socket"
        hint = "The daemon's owner can let you in; docs/access.md says how"
    elif isinstance(error, FileNotFoundError | ConnectionRefusedError):
        why = "nothing listens on that socket"
    elif isinstance(error, TimeoutError):
        why = "a daemon took the connection and was silent"
    elif connecting:
        why = (getattr(error, "strerror", None) or str(error)).lower()
    else:
        why = f"the connection broke ({type(error).__name__})"
    return DaemonUnavailable(f"No daemon answers at {place}", why, hint)


def _failed(status: int, answer: Any) -> RequestFailed:
    problem = answer.get("error", {}) if isinstance(answer, dict) else {}
    return RequestFailed(
        status,
        str(problem.get("code", "unknown")),
        str(problem.get("message", f"status {status}")),
        str(problem.get("hint", "")),
    )
