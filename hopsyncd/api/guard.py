"""What every request passes first: no browsers, no strangers, and a record of what admins do."""

import hmac
import json
import os
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.api.access import Access, Caller
from hopsyncd.api.failures import failed
from hopsyncd.client.trust import Credentials

log = structlog.get_logger(__name__)

AUDIT_NAME = "audit.log"  # in the data_dir
_MAX_BYTES = 4 << 20  # then the file becomes audit.log.1, in place of an older one


class Audit:
    """Appends to a file that its owner alone may read; from any thread."""

    def __init__(self, file: Path, max_bytes: int = _MAX_BYTES) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def note(self, peer: Credentials, action: str, asked: dict[str, Any], status: int) -> None:
        """Record one action and how it was answered. A full disk is logged, and keeps nobody back.

        `asked` are names, paths and versions: no endpoint for admins takes or gives text.
        """
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "action": action,
            "asked": asked,
            "status": status,
            "user": peer.user,
            "uid": peer.uid,
            "pid": peer.pid,
            "program": peer.program,
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


_HOSTS = frozenset({"hopsyncd", "localhost", "127.0.0.1", "[::1]"})
_OF_BROWSERS = (b"origin", b"referer", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")


class Guard:
    """Lets a request through to `app` with its caller in the state.

    A web page can have its reader's browser send requests, and what it sends over TCP comes from
    this machine: so whatever a browser marks, or was sent to another name, is refused.
    """

    def __init__(self, app: ASGIApp, access: Access, audit: Audit, token: str | None) -> None:
        self._app = app
        self._access = access
        self._audit = audit
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        peer: Credentials = state["peer"]
        caller = self._caller(peer, scope["headers"])
        if isinstance(caller, JSONResponse):
            await caller(scope, receive, send)
            return
        state["caller"] = caller

        def record() -> None:
            """Once, and before anyone learns that it has ended."""
            if "action" in state and "outcome" in state:
                asked = state.get("asked", {})
                self._audit.note(peer, state.pop("action"), asked, state["outcome"])

        async def sent(message: Message) -> None:
            record()
            if message["type"] == "http.response.start" and message["status"] == 503:
                message["headers"] = [*message["headers"], (b"retry-after", b"1")]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            record()

    def _caller(
        self, peer: Credentials, headers: Iterable[tuple[bytes, bytes]]
    ) -> Caller | JSONResponse:
        """Who asks, or why they may not."""
        given = list(headers)
        caller = self._by_token(peer, given) if peer.uid is None else self._access.caller(peer)
        if caller is None and peer.uid is None:
            return _refusal(
                401,
                "unauthorized",
                "The request was refused: it does not bear the token",
                "Send `Authorization: Bearer TOKEN`; access.token_file holds the token",
                {"www-authenticate": "Bearer"},
            )
        if caller is None:
            log.warning("a stranger was refused", user=peer.user, uid=peer.uid, pid=peer.pid)
            return _refusal(
                403,
                "forbidden",
                f"The request was refused: the user {peer.user} may not ask this daemon",
                "Its owner can grant it in [access]; docs/access.md says how",
            )
        return _not_of_a_browser(given) or caller

    def _by_token(self, peer: Credentials, headers: list[tuple[bytes, bytes]]) -> Caller | None:
        sent = [value for name, value in headers if name == b"authorization"]
        if self._token is None or len(sent) != 1:
            return None
        kind, _, token = sent[0].partition(b" ")
        right = kind.lower() == b"bearer" and hmac.compare_digest(token, self._token.encode())
        return self._access.holder_of_the_token(peer) if right else None


def _not_of_a_browser(headers: list[tuple[bytes, bytes]]) -> JSONResponse | None:
    marked = sorted({name.decode() for name, _ in headers if name in _OF_BROWSERS})
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
        "Ask with the Host localhost, and from a program that is no browser",
    )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _refusal(
    status: int, code: str, message: str, hint: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(failed(code, message, hint), status, headers)
