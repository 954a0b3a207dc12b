"""Converts errors for clients: {"error": {"code", "message", "hint"}} and an HTTP status."""

import difflib
import re

import structlog
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hopsyncd.api.requests import ABSOLUTE, DOCUMENT_KEY, LOOPBACK_URL, NOT_BLANK, PASSAGE_ID
from hopsyncd.errors import BadRequest, Busy, ConfigError, Forbidden, NotFound, TimedOut
from hopsyncd.responses.results import Failed
from store.exceptions import BackupFailed, NoSuchVersion, PurgeRefused, TagRefused

log = structlog.get_logger(__name__)

_REFUSALS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], int, str], ...] = (
    (BadRequest, 400, "bad_request"),
    (Forbidden, 403, "forbidden"),
    (NotFound, 404, "not_found"),
    (NoSuchVersion, 404, "no_such_version"),
    ((TagRefused, PurgeRefused, BackupFailed, ConfigError), 409, "refused"),
    (Busy, 503, "busy"),
    (TimedOut, 503, "timeout"),
)

_PATTERN_FAILURES = {  # messages, by the pattern that a text does not match
    NOT_BLANK: "the field is blank",
    PASSAGE_ID: "not the id of a passage (16 hexadecimal digits, or at least the first 4)",
    DOCUMENT_KEY: "not the `next` of an earlier answer",
    ABSOLUTE: "not an absolute path",
    LOOPBACK_URL: "not an http address of this machine, such as http://127.0.0.1:8000/change",
}


def make_failure_body(code: str, message: str, hint: str) -> Failed:
    return {"error": {"code": code, "message": message, "hint": hint}}


INTERNAL = make_failure_body(
    "internal", "The daemon failed with an internal error", "See the daemon's log"
)


def make_failure(error: Exception) -> tuple[int, Failed]:
    """Return the status and body for an exception of REPORTABLE.

    The status is 4xx for the caller's mistakes, and 503 for problems of the daemon.
    """
    what, why, hint = error.what, error.why, error.hint  # type: ignore[attr-defined]
    for kinds, status, code in _REFUSALS:
        if isinstance(error, kinds):
            return status, make_failure_body(code, f"{what}: {why}", hint)
    log.error("request failed", what=what, why=why)
    return 503, make_failure_body("unavailable", f"{what}: {why}", hint)


def describe_bad_request(error: ValidationError, model: type[BaseModel]) -> BadRequest:
    """Describe an unknown field of the request or, if all fields are known, the first wrong
    field."""
    errors = error.errors(include_url=False)
    first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    # Messages count the items of a list from 1.
    parts = [f"number {part + 1}" if isinstance(part, int) else part for part in first["loc"]]
    field = ", ".join(parts) if len(parts) > 1 else "".join(parts)
    why, hint = _describe_problem(first), "docs/reference/http-api.md describes each request"
    if first["type"] == "extra_forbidden":
        why = "there is no such field"
        names = [field.alias or name for name, field in model.model_fields.items()]
        near_names = difflib.get_close_matches(str(first["loc"][-1]), names, n=1)
        if near_names and len(first["loc"]) == 1:
            hint = f'Did you mean "{near_names[0]}"? {hint}'
    return BadRequest("The request was refused", f"{field}: {why}" if field else why, hint)


def _describe_problem(details: ErrorDetails) -> str:
    if details["type"] == "missing":
        return "the field is missing"
    if details["type"] == "string_too_short" and details["ctx"]["min_length"] == 1:
        return "the field is empty"
    if details["type"] == "json_invalid":
        return f"the body is not valid JSON: {details['ctx']['error']}"
    if form := _PATTERN_FAILURES.get(str(details.get("ctx", {}).get("pattern"))):
        return form
    return re.sub(
        "^(Input|String) should", "the value should", details["msg"].removeprefix("Value error, ")
    )
