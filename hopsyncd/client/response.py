"""From what the daemon sends to an answer, or to an error that says what failed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopsyncd.errors import DaemonUnavailable, HopsyncdError

if TYPE_CHECKING:
    from hopsyncd.answers.found import Event
    from hopsyncd.client.daemon_call import Call


JSON, NDJSON, TEXT = "application/json", "application/x-ndjson", "text/plain"
CONNECT_S = 5.0
WHOLE_S = 120.0  # for what follows the first byte of an answer in one piece
MAX_BYTES = 256 << 20  # of an answer, or of a line of a stream
_SHOWN_CHARACTERS = 60
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^/:\s]+):[0-9]{1,5}")


class RequestFailed(HopsyncdError):
    """The daemon answered with an error; `status` is the HTTP status, `code` the daemon's word."""

    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__("The daemon refused", message, hint)
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return f"{self.why}. {self.hint}" if self.hint else self.why


def place_of(place: Path | str) -> Path | str:
    """Where a daemon is: a path is a socket, and HOST:PORT is TCP.

    >>> place_of("127.0.0.1:7717"), place_of("run/s.sock")
    ('127.0.0.1:7717', PosixPath('run/s.sock'))
    """
    over_tcp = isinstance(place, str) and _HOST_AND_PORT.fullmatch(place)
    return place if over_tcp else Path(place).expanduser()


def headers_of(token: str) -> dict[str, str]:
    """What each request has; the token is asked for over TCP alone."""
    headers = {"Content-Type": JSON, "Accept-Encoding": "identity"}
    return {**headers, "Authorization": f"Bearer {token}"} if token else headers


def body_of(value: object) -> bytes:
    """The JSON of a request's body; what is no text is left to the daemon to refuse."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def answer_of(place: object, call: Call[Any], status: int, media_type: str, content: bytes) -> Any:
    """The answer. Raises RequestFailed, or DaemonUnavailable for what cannot be one."""
    is_good = 200 <= status < 300
    wanted = TEXT if call.is_text and is_good else JSON
    check_type(place, status, media_type, wanted)
    if wanted == TEXT:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise unusable(place, "its text is not UTF-8") from error
    answer = _parsed(place, content, f"status {status}, and no JSON")
    if not is_good:
        raise _failed(status, answer)
    return _of_its_shape(place, call, answer)


def event_of(place: object, call: Call[Any], line: bytes) -> Event:
    """An event of a stream. Raises RequestFailed if the stream ends in an error."""
    event = _parsed(place, line, "a line of the stream is no JSON, or was cut off")
    kind = event.get("event")
    if kind == "error":
        status = event.get("status")
        raise _failed(status if isinstance(status, int) else 500, event)
    if kind == "answer":
        _of_its_shape(place, call, event.get("answer"))
    elif not isinstance(kind, str):
        raise unusable(place, "a line of the stream is no event")
    found: Event = event  # type: ignore[assignment]  # a newer daemon may have other kinds
    return found


def check_type(place: object, status: int, media_type: str, wanted: str) -> None:
    """Raise DaemonUnavailable where an answer is of another media type."""
    got = media_type.partition(";")[0].strip().lower()
    if got != wanted:
        shown = repr(got[:_SHOWN_CHARACTERS]) if got else "no type"
        raise unusable(place, f"it has status {status} and {shown} in place of {wanted}")


def unusable(place: object, why: str) -> DaemonUnavailable:
    """What came is no answer, or a part of one."""
    return DaemonUnavailable(
        f"No whole answer came from {place}",
        why,
        "Ask again; if it stays so, restart the daemon, which may be of another version, or find"
        " out what else listens there",
    )


def too_long(place: object) -> DaemonUnavailable:
    """An answer beyond all measure."""
    return unusable(place, f"it is longer than {MAX_BYTES >> 20} MiB")


def unreachable(place: object, error: BaseException, *, connecting: bool) -> DaemonUnavailable:
    """The connection could not be made, or it broke."""
    hint = "Start one with `hopsyncd serve`"
    if isinstance(error, PermissionError):
        why = "your user may not use that socket"
        hint = "The daemon's owner can let you in; docs/access.md says how"
    elif isinstance(error, FileNotFoundError | ConnectionRefusedError):
        why = "nothing listens on that socket"
    elif isinstance(error, TimeoutError):
        why = "a daemon took the connection and gave no whole answer in time"
        hint = "Ask again, and restart the daemon if it stays so"
    elif connecting:
        why = (getattr(error, "strerror", None) or str(error)).lower()
    elif isinstance(error, OSError):
        return unusable(place, f"the connection broke ({type(error).__name__})")
    else:
        return unusable(place, f"it is not HTTP as a daemon speaks it ({type(error).__name__})")
    return DaemonUnavailable(f"No daemon answers at {place}", why, hint)


def _parsed(place: object, content: bytes, otherwise: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise unusable(place, otherwise) from error
    if not isinstance(value, dict):
        raise unusable(place, "it is JSON, but no object")
    return value


def _of_its_shape(place: object, call: Call[Any], answer: Any) -> Any:
    if call.answer:
        from hopsyncd.client.shape import misfit  # the types take a moment to load

        if why := misfit(call.answer, answer):
            raise unusable(place, why)
    elif not isinstance(answer, dict):
        raise unusable(place, "the answer is no object")
    return answer


def _failed(status: int, answer: dict[str, Any]) -> RequestFailed:
    problem = answer.get("error")
    told = problem if isinstance(problem, dict) else {}
    return RequestFailed(
        status,
        str(told.get("code", "unknown")),
        str(told.get("message", f"status {status}, without a reason")),
        str(told.get("hint", "")),
    )


# Which end of an edge raises its question, or has the link; "both": they share a name.
ARROWS = {"from": "->", "to": "<-", "both": "--", "link": "=>", "backlink": "<="}

# Documents and their names are not ours: no terminal shall obey what is in them.
_CONTROLS = {
    code: chr(code).encode("unicode_escape").decode() for code in (*range(32), *range(127, 160))
}


def title_of(passage: Mapping[str, Any]) -> str:
    """What to call a passage: the headings above it, or else its document.

    >>> title_of({"heading": ["Ada", "Youth"], "document": "ada.md"})
    'Ada > Youth'
    """
    return " > ".join(passage["heading"]) or str(passage["document"])


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "passage"), counted(2000, "passage")
    ('1 passage', '2,000 passages')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(text: str) -> str:
    """The text with its control characters as escapes.

    >>> printable("a\\x1b[2J\\n")
    'a\\\\x1b[2J\\\\n'
    """
    return text.translate(_CONTROLS)
