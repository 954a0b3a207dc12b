"""Builds requests and parses responses for both clients, without using the network.

A response is an answer, or an error that says what failed.
"""

from __future__ import annotations

import json
import socket
import ssl
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopsyncd.client.call import Call
from hopsyncd.client.remote import Remote, parse_remote_place, tls_error
from hopsyncd.errors import DaemonUnavailable, DaemonUntrusted, HopsyncdError

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

    from hopsyncd.responses.results import Event


BROWSER_HEADER = "Hopsyncd-Browser"
"""The header in which the daemon's own page sends the browser's address. The bearer token in the
same request identifies the user."""

JSON, NDJSON, TEXT = "application/json", "application/x-ndjson", "text/plain"
CONNECT_S = 5.0
WHOLE_S = 120.0  # the time from an answer's first byte to its last. Streams have no such limit.
MAX_BYTES = 256 << 20  # the most bytes of an answer, or of a line of a stream
_SHOWN_CHARACTERS = 60


class RequestFailed(HopsyncdError):
    """The daemon answered with an error: `status` is the HTTP status, `code` the kind of error."""

    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__("The daemon refused", message, hint)
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return f"{self.why}. {self.hint}" if self.hint else self.why


def parse_place(place: Path | str | Remote, ca: Path | None = None) -> Path | Remote:
    """Parse the place of a daemon. A path is a socket; an address or HOST:PORT is TCP.

    >>> parse_place("run/s.sock")
    PosixPath('run/s.sock')
    """
    if isinstance(place, str):
        place = parse_remote_place(place, ca) or Path(place)
    return place.expanduser() if isinstance(place, Path) else place


def make_headers(token: str, browser: str | None = None) -> dict[str, str]:
    """Return the headers of every request.

    `token` is empty for a request over the daemon's own socket. `browser` is the address of the
    browser for which the web interface sends the request.
    """
    headers = {"Content-Type": JSON, "Accept-Encoding": "identity"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return {**headers, BROWSER_HEADER: browser} if browser is not None else headers


def encode_body(value: object) -> bytes:
    """Encode the body of a request as JSON. The daemon refuses text that is not valid Unicode."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def parse_answer(
    place: object, call: Call[Any], status: int, media_type: str, content: bytes
) -> Any:
    """Parse an answer.

    Raises RequestFailed, or DaemonUnavailable if the response cannot come from a daemon.
    """
    is_good = 200 <= status < 300
    expected_type = TEXT if call.is_text and is_good else JSON
    check_type(place, status, media_type, expected_type)
    if expected_type == TEXT:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise unusable_error(place, "the text is not UTF-8") from error
    answer = _parse(place, content, f"the response has status {status} and is not JSON")
    if not is_good:
        raise _request_failed_error(status, answer)
    return _check(place, call, answer)


def parse_event(place: object, call: Call[Any], line: bytes) -> Event:
    """Parse an event of a stream. Raises RequestFailed if the stream ends in an error."""
    event = _parse(place, line, "a line of the stream is not JSON, or was cut off")
    kind = event.get("event")
    if kind == "error":
        status = event.get("status")
        raise _request_failed_error(status if isinstance(status, int) else 500, event)
    if kind == "answer":
        _check(place, call, event.get("answer"))
    elif not isinstance(kind, str):
        raise unusable_error(place, "the stream contains a line that is not a valid event")
    typed_event: Event = event  # type: ignore[assignment]  # a newer daemon may have other kinds
    return typed_event


def check_type(place: object, status: int, media_type: str, expected: str) -> None:
    """Raise DaemonUnavailable if the media type of a response is not `expected`."""
    received = media_type.partition(";")[0].strip().lower()
    if received != expected:
        shown = repr(received[:_SHOWN_CHARACTERS]) if received else "missing"
        raise unusable_error(
            place, f"the media type is {shown} instead of {expected} (status {status})"
        )


def unusable_error(place: object, why: str) -> DaemonUnavailable:
    """Create the error for a response that is invalid or incomplete."""
    return DaemonUnavailable(
        f"The response from {place} cannot be used",
        why,
        "Try again. If it fails again, restart the daemon, which may be another version, or check"
        " whether another program listens at this address",
    )


def too_long_error(place: object) -> DaemonUnavailable:
    return unusable_error(place, f"the response is longer than {MAX_BYTES >> 20} MiB")


def unreachable_error(
    place: Path | Remote, error: BaseException, *, connecting: bool
) -> DaemonUnavailable | DaemonUntrusted:
    """Create the error for a connection that failed or broke."""
    hint = "Start the daemon with `hopsyncd serve`"
    if isinstance(place, Remote):
        hint = "Check the address, and whether access.listen of the daemon is this address"
        if isinstance(error, ssl.SSLError) and place.tls:
            return tls_error(place, error)
        if not (connecting or place.tls or isinstance(error, TimeoutError)):
            hint = f"Try again. If the server uses TLS, set its address to https://{place}"
            why = f"the connection broke before an HTTP response ({type(error).__name__})"
            return DaemonUnavailable(f"No daemon answers at {place}", why, hint)
    if isinstance(error, socket.gaierror):
        why = "no machine with this name is known"
    elif isinstance(error, PermissionError):
        why = "you have no permission to use this socket"
        hint = (
            "Ask the owner of the daemon for access; docs/security.md explains how to give access"
        )
    elif isinstance(error, FileNotFoundError | ConnectionRefusedError):
        why = f"nothing listens on this {'port' if isinstance(place, Remote) else 'socket'}"
    elif isinstance(error, TimeoutError) and connecting and isinstance(place, Remote):
        why = "the connection timed out"
    elif isinstance(error, TimeoutError):
        why = "a daemon accepted the connection but did not answer in time"
        hint = "Try again. If it fails again, restart the daemon"
    elif connecting:
        why = (getattr(error, "strerror", None) or str(error)).lower()
    elif isinstance(error, OSError):
        return unusable_error(place, f"the connection broke ({type(error).__name__})")
    else:
        return unusable_error(place, f"the response is not valid HTTP ({type(error).__name__})")
    return DaemonUnavailable(f"No daemon answers at {place}", why, hint)


def _parse(place: object, content: bytes, problem: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise unusable_error(place, problem) from error
    if not isinstance(value, dict):
        raise unusable_error(place, "the response is JSON, but not an object")
    return value


def _check(place: object, call: Call[Any], answer: Any) -> Any:
    """Return the answer if it has the call's type. Otherwise raises DaemonUnavailable."""
    if call.answer:
        if why := describe_misfit(call.answer, answer):
            raise unusable_error(place, why)
    elif not isinstance(answer, dict):
        raise unusable_error(place, "the answer is not an object")
    return answer


def _request_failed_error(status: int, answer: dict[str, Any]) -> RequestFailed:
    problem = answer.get("error")
    error = problem if isinstance(problem, dict) else {}
    return RequestFailed(
        status,
        str(error.get("code", "unknown")),
        str(error.get("message", f"status {status} without a reason")),
        str(error.get("hint", "")),
    )


def describe_misfit(name: str, answer: object) -> str | None:
    """Describe how an answer differs from a type in hopsyncd.responses. Returns None if the answer
    matches.

    Unknown fields are allowed, because the daemon may be newer than the client.
    """
    from pydantic_core import ValidationError

    try:
        _make_validator(name).validate_python(answer, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        return f"the answer{''.join(steps)}: {first['msg'].lower()}"
    return None


@cache
def _make_validator(name: str) -> SchemaValidator:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    from hopsyncd.responses import changes, daemon_state, images, results

    modules = (results, images, changes, daemon_state)
    (model,) = {getattr(module, name) for module in modules if hasattr(module, name)}
    return SchemaValidator(_replace_literals(TypeAdapter(model).core_schema))


def _replace_literals(schema: Any) -> Any:
    """Replace literals with their types, because a newer daemon may have more values."""
    if isinstance(schema, list):
        return [_replace_literals(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "literal":
        return {"type": type(schema["expected"][0]).__name__}
    return {key: _replace_literals(value) for key, value in schema.items()}
