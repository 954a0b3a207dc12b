"""Who may ask, and for what: the guard that every request passes, its token, and the audit log.

The kernel says which process is at the other end of the socket, the configuration says what its
user may see and do, and the audit log records what admins do. docs/security.md has the rules.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.api.access_rules import AccessRules
from hopsyncd.api.failures import failure_body
from hopsyncd.api.roles import RIGHTS, Right, Role
from hopsyncd.api.tokens import Tokens
from hopsyncd.client.trust import UNKNOWN, Credentials
from hopsyncd.config.values import group_id, user_id
from hopsyncd.retrieve.visible_sources import EVERYTHING, NOTHING, Acl

log = structlog.get_logger(__name__)

AUDIT_NAME = "audit.log"  # in the data_dir
_MAX_BYTES = 4 << 20  # a larger audit.log becomes audit.log.1 and replaces the last one
_HOSTS = frozenset({"hopsyncd", "localhost", "127.0.0.1", "[::1]"})
# Not sec-fetch-mode, which a browser sends only beside these, and Node's fetch alone: editors.
_BROWSER_HEADERS = frozenset({b"origin", b"referer", b"sec-fetch-site", b"sec-fetch-dest"})


@dataclass(frozen=True, slots=True)
class Caller:
    """The user behind a request: what its role lets it do, and which sources it may see."""

    name: str
    role: Role
    acl: Acl
    credentials: Credentials = UNKNOWN

    def may(self, right: Right) -> bool:
        """Whether the caller's role has the right."""
        return right in RIGHTS[self.role]


class Access:
    """Says who a caller is. `rules` returns the rules in force, as one frozen object."""

    def __init__(self, rules: Callable[[], AccessRules]) -> None:
        self._rules = rules

    def caller(self, credentials: Credentials) -> Caller | None:
        """The caller that a process acts for; None if it may do nothing."""
        rules = self._rules()
        if credentials.uid == os.geteuid():
            return Caller(credentials.user, "owner", EVERYTHING, credentials)
        if _matches_any(credentials, rules.admins):
            return Caller(credentials.user, "admin", EVERYTHING, credentials)
        if rules.group and _id(group_id, rules.group) in credentials.groups:
            acl = rules.acl(partial(_matches_any, credentials))
            return Caller(credentials.user, "read", acl, credentials)
        return None

    def token_holder(self, role: Role, credentials: Credentials) -> Caller:
        """The caller that sent the token of a role. A token sees no source that is closed."""
        if role in ("owner", "admin"):
            acl = EVERYTHING
        elif role == "read":
            acl = self._rules().acl(lambda clause: False)
        else:
            acl = NOTHING
        return Caller(credentials.user, role, acl, credentials)


class AuditLog:
    """A file of JSON lines that only its owner may read. Any thread may write to it."""

    def __init__(self, file: Path, max_bytes: int = _MAX_BYTES) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def record(self, caller: Caller, action: str, request: dict[str, Any], status: int) -> None:
        """Record an action and its HTTP status. A full disk is logged and stops nobody.

        `request` holds what was asked for: names, paths and versions, and no question.
        """
        credentials = caller.credentials
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "action": action,
            "asked": request,
            "status": status,
            "user": credentials.user,
            "role": caller.role,
            "uid": credentials.uid,
            "pid": credentials.pid,
            "program": credentials.program,
        }
        try:
            with self._lock:
                self._append(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            log.error("the audit log was not written", file=str(self._file), why=error.strerror)

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self._file, flags, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:
            file.write(line)
            full = file.tell() >= self._max_bytes
        if full:
            self._file.replace(self._file.with_name(self._file.name + ".1"))


class Guard:
    """Passes a request on to `app` with its caller in the state, or refuses it.

    A web page can make its reader's browser send requests, and over TCP those come from this
    machine. So the guard refuses whatever a browser marks or addresses to another host name.
    """

    def __init__(self, app: ASGIApp, access: Access, audit: AuditLog, tokens: Tokens) -> None:
        self._app = app
        self._access = access
        self._audit = audit
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        state = scope["state"]
        credentials: Credentials = state["credentials"]
        caller = self._caller(credentials, scope["headers"])
        if isinstance(caller, JSONResponse):
            await caller(scope, receive, send)
            return
        state["caller"] = caller

        def record() -> None:
            """Record the action once, before the end of the response is sent."""
            if "action" in state and "outcome" in state:
                request = state.get("asked", {})
                self._audit.record(caller, state.pop("action"), request, state["outcome"])

        async def send_recorded(message: Message) -> None:
            record()
            if message["type"] == "http.response.start" and message["status"] == 503:
                message["headers"] = [*message["headers"], (b"retry-after", b"1")]
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        finally:
            record()

    def _caller(
        self, credentials: Credentials, headers: Iterable[tuple[bytes, bytes]]
    ) -> Caller | JSONResponse:
        given = list(headers)
        over_tcp = credentials.uid is None
        caller = (
            self._by_token(credentials, given) if over_tcp else self._access.caller(credentials)
        )
        if caller is None and over_tcp:
            return _refusal(
                401,
                "unauthorized",
                "The request was refused: it does not carry a token that is known here",
                "Send `Authorization: Bearer TOKEN`; see docs/security.md and docs/agents.md",
                {"www-authenticate": "Bearer"},
            )
        if caller is None:
            log.warning(
                "a stranger was refused",
                user=credentials.user,
                uid=credentials.uid,
                pid=credentials.pid,
            )
            return _refusal(
                403,
                "forbidden",
                f"The request was refused: the user {credentials.user} may not ask this daemon",
                "Its owner can grant it in [access]; docs/security.md says how",
            )
        return _browser_refusal(given) or caller

    def _by_token(
        self, credentials: Credentials, headers: list[tuple[bytes, bytes]]
    ) -> Caller | None:
        sent = [value for name, value in headers if name == b"authorization"]
        if len(sent) != 1:
            return None
        kind, _, token = sent[0].partition(b" ")
        role = self._tokens.role_of(token) if kind.lower() == b"bearer" else None
        return self._access.token_holder(role, credentials) if role else None


def _matches_any(credentials: Credentials, entries: Iterable[str]) -> bool:
    return any(_matches(credentials, entry) for entry in entries)


def _matches(credentials: Credentials, entry: str) -> bool:
    """Whether `user:NAME` or `group:NAME` means this process."""
    kind, _, name = entry.partition(":")
    if kind == "user":
        return credentials.uid is not None and credentials.uid == _id(user_id, name)
    return _id(group_id, name) in credentials.groups


@lru_cache
def _id(look_up: Callable[[str], int], name: str) -> int | None:
    """The number of a user or group; None if it was deleted since the start."""
    try:
        return look_up(name)
    except ValueError:
        return None


def _browser_refusal(headers: list[tuple[bytes, bytes]]) -> JSONResponse | None:
    marked = sorted({name.decode() for name, _ in headers if name in _BROWSER_HEADERS})
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if marked:
        why = f"it has a header {marked[0]}, so a browser sent it"
    elif len(hosts) != 1 or _without_port(hosts[0]) not in _HOSTS:
        why = f"its Host is {hosts[0]!r}" if hosts else "it has no Host"
    else:
        return None
    return _refusal(
        403,
        "forbidden",
        f"The request was refused: {why}",
        "Use the Host localhost, and a program that is not a browser",
    )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _refusal(
    status: int, code: str, message: str, hint: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(failure_body(code, message, hint), status, headers)
