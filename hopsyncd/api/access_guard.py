"""The guard in front of the application: identifies the caller, or refuses the request.

A web page can make a visitor's browser send requests, and over loopback TCP these requests come
from this machine. So the guard refuses requests that the browser marks as sent by another site, or
that name another host.

The team's web interface sends its requests over the daemon's own socket, as the daemon's own user.
Each request names a browser session, and gets only the rights of that session's user.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.api.access_rules import Access, Caller
from hopsyncd.api.audit import AuditLog
from hopsyncd.api.failed_tokens import FailedTokens
from hopsyncd.api.failures import make_failure_body
from hopsyncd.api.proxy import BehindProxy
from hopsyncd.api.revoked_streams import run_while_valid
from hopsyncd.api.tls import ServerTls
from hopsyncd.api.tokens import TOKEN_START, Role, TokenCheck, Tokens, WrongToken
from hopsyncd.client.protocol import BROWSER_HEADER
from hopsyncd.client.trust import Credentials
from hopsyncd.config.configuration import Config
from hopsyncd.config.values import LimitsConfig

log = structlog.get_logger(__name__)

LOCAL_NAMES = frozenset({"hopsyncd", "localhost", "127.0.0.1", "[::1]"})
# Without sec-fetch-mode: Node's fetch, which editors use, sends it without the other headers.
_BROWSER_HEADERS = frozenset({b"origin", b"referer", b"sec-fetch-site", b"sec-fetch-dest"})

_BROWSER_HEADER = BROWSER_HEADER.lower().encode()

_SESSION_ENDED = "the browser's session has ended"

Headers = list[tuple[bytes, bytes]]


class Person(Protocol):
    """A user who is logged in to the team's web interface."""

    @property
    def user(self) -> str: ...
    @property
    def role(self) -> Role: ...
    @property
    def groups(self) -> tuple[str, ...]: ...


class TeamPage(Protocol):
    """The web interface for browsers on other machines, as an ASGI application."""

    def find_person(self, key: bytes) -> Person | None:
        """Find the user whose session has this key. Returns None if the session does not exist any
        more."""

    def find_user(self, user: str) -> Person | None:
        """Find the user with this name, in the role and with the groups of the user's newest open
        session."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class OwnNames:
    """The host names of this daemon: local names, configured names and the certificate's names."""

    def __init__(self, hosts: Iterable[str], tls: ServerTls | None = None) -> None:
        self._names = LOCAL_NAMES.union(hosts)
        self._tls = tls

    def __call__(self, name: str) -> bool:
        return name in self._names or bool(self._tls and self._tls.certificate.is_for(name))


class Guard:
    """Passes a request on to `app` with its caller in the state, or refuses it.

    `is_own_name` returns whether a host name belongs to this daemon. `per_user` is the most
    requests that a token's user may run at a time.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        audit: AuditLog,
        tokens: TokenCheck,
        is_own_name: Callable[[str], bool] = LOCAL_NAMES.__contains__,
        per_user: int = LimitsConfig().per_user,
        page: TeamPage | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._audit = audit
        self._tokens = tokens
        self._is_own_name = is_own_name
        self._per_user = per_user
        self._page = page
        self._failed = FailedTokens()
        self._in_hand: Counter[object] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        caller = self._identify_caller(scope)
        if isinstance(caller, JSONResponse):
            await caller(scope, receive, send)
            return
        account = caller.credentials.account
        if caller.credentials.holder and self._in_hand[account] >= self._per_user:
            await self._refuse_too_many(caller)(scope, receive, send)
            return
        self._in_hand[account] += 1
        try:
            if caller.credentials.holder:
                await self._pass_on_while_valid(caller, scope, receive, send)
            else:
                await self._pass_on(caller, scope, receive, send)
        finally:
            self._in_hand[account] -= 1
            if not self._in_hand[account]:
                del self._in_hand[account]

    async def _pass_on_while_valid(
        self, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass the request on. If the token is revoked or the session ends, end the response within
        a second."""
        token = _read_bearer_token(list(scope["headers"])) or b""
        problem: str | None = None
        has_begun = False

        def is_valid() -> bool:
            nonlocal problem
            problem = self._explain_invalid(token)
            return problem is None

        async def send_if_valid(message: Message) -> None:
            nonlocal has_begun
            if problem is None:
                has_begun = True
                await send(message)

        answer = self._pass_on(caller, scope, receive, send_if_valid)
        if await run_while_valid(answer, is_valid) or problem is None:
            return
        log.warning("a response was ended", why=problem, token=caller.credentials.token)
        if not has_begun:
            await _refuse_token(problem)(scope, receive, send)
        # The response has no end, so the server closes the connection.

    def _explain_invalid(self, token: bytes) -> str | None:
        """Return why a token or session key is no longer valid, or None if it is valid."""
        if self._page and not token.startswith(TOKEN_START):
            return None if self._page.find_person(token) else _SESSION_ENDED
        try:
            self._tokens.find(token)
        except WrongToken as error:
            return error.why
        return None

    async def _pass_on(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        state["caller"], state["audit"] = caller, self._audit.settings()
        self._audit.purge_due()

        def record() -> None:
            """Record the action in the audit log, once, before the end of the response is sent."""
            if "action" in state and "outcome" in state:
                parameters, summary = state.get("asked", {}), state.get("found")
                action = state.pop("action")
                self._audit.record(caller, action, parameters, state["outcome"], summary)

        async def send_recorded(message: Message) -> None:
            record()
            if message["type"] == "http.response.start" and message["status"] == 503:
                message["headers"] = [*message["headers"], (b"retry-after", b"1")]
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        finally:
            record()

    def _identify_caller(self, scope: Scope) -> Caller | JSONResponse:
        """Return the caller of a request, or the refusal to send."""
        credentials: Credentials = scope["state"]["credentials"]
        headers: Headers = list(scope["headers"])
        browsers = [value.decode("latin-1") for name, value in headers if name == _BROWSER_HEADER]
        if browsers and credentials.uid == os.geteuid():
            caller = self._identify_page_caller(Credentials(address=browsers[0]), headers)
        elif credentials.uid is None:
            address = (scope.get("client") or ("", 0))[0]
            caller = self._identify_remote_caller(replace(credentials, address=address), headers)
            if isinstance(caller, Caller) and (identify := scope["state"].get("identify")):
                identify(caller.credentials)
        else:
            caller = self._access.identify_caller(credentials) or _refuse_stranger(credentials)
        if isinstance(caller, JSONResponse):
            return caller
        return self._refuse_browser(headers) or caller

    def _identify_page_caller(
        self, credentials: Credentials, headers: Headers
    ) -> Caller | JSONResponse:
        """Return the web interface's user, identified by a session or by a pasted token."""
        token = _read_bearer_token(headers)
        if token is None or token.startswith(TOKEN_START):
            return self._identify_remote_caller(credentials, headers)
        person = self._page.find_person(token) if self._page else None
        if person is None:
            return _refuse_token(_SESSION_ENDED)
        groups = frozenset(person.groups)
        person_credentials = replace(credentials, holder=person.user, group_names=groups)
        return self._access.identify_remote_caller(person.role, person_credentials)

    def _identify_remote_caller(
        self, credentials: Credentials, headers: Headers
    ) -> Caller | JSONResponse:
        """Return the caller whose token is in a request over TCP, or the refusal to send."""
        sent_token = _read_bearer_token(headers)
        if sent_token is None:
            return _refuse_token("the request has no token")
        address = credentials.address
        try:
            token = self._tokens.find(sent_token)
        except WrongToken as error:
            if wait_s := self._failed.wait_s(address):
                return _refuse_guesses(wait_s)
            failures, wait_s = self._failed.note_failure(address)
            log.warning(
                "a token was refused",
                address=address,
                why=error.why,
                token=error.token_id,
                failures=failures,
                refused_for_s=wait_s,
            )
            return _refuse_token(error.why)
        token_credentials = replace(
            credentials, holder=token.user, group_names=frozenset(token.groups), token=token.id
        )
        return self._access.identify_remote_caller(token.role, token_credentials, token.sources)

    def _refuse_browser(self, headers: Headers) -> JSONResponse | None:
        marked = sorted({name.decode() for name, _ in headers if name in _BROWSER_HEADERS})
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if marked:
            why = f"the header {marked[0]} shows that a browser sent the request"
            hint = "Use a program that is not a browser, or run `hopsyncd web --server`"
        elif len(hosts) != 1 or not self._is_own_name(_strip_port(hosts[0])):
            why = f"the Host is {hosts[0]!r}" if hosts else "the request has no Host header"
            hint = "Use the host localhost, or a name from access.hosts or the certificate"
        else:
            return None
        return _make_refusal(403, "forbidden", why, hint)

    def _refuse_too_many(self, caller: Caller) -> JSONResponse:
        why = f"{caller.name} already has {self._per_user} running requests"
        hint = "Try again in a second, or raise limits.per_user"
        return _make_refusal(503, "busy", why, hint, {"retry-after": "1"})


def guard_daemon(
    app: ASGIApp,
    access: Access,
    audit: AuditLog,
    config: Config,
    tls: ServerTls | None,
    page: TeamPage | None = None,
) -> ASGIApp:
    """Wrap the daemon's application in its guard and, if configured, in its proxy check.

    page: the team's web interface, which gets requests over TCP that are not for the API.
    """
    names = OwnNames(config.access.hosts, tls)
    guard = Guard(
        app, access, audit, Tokens.from_config(config), names, config.limits.per_user, page
    )
    guarded_app: ASGIApp = guard
    if page:

        async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
            await (page if _is_for_page(scope) else guard)(scope, receive, send)

        guarded_app = dispatch
    proxies = config.access.behind_proxy
    return BehindProxy(guarded_app, proxies) if proxies else guarded_app


def _is_for_page(scope: Scope) -> bool:
    if scope["type"] != "http" or not scope.get("client"):  # over the Unix socket
        return False
    is_program = any(name == b"authorization" for name, _ in scope["headers"])
    return not (is_program or scope["path"].startswith("/v1/"))


def _read_bearer_token(headers: Headers) -> bytes | None:
    values = [value for name, value in headers if name == b"authorization"]
    kind, _, token = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
    return token if kind.lower() == b"bearer" else None


def _refuse_token(why: str) -> JSONResponse:
    hint = (
        "The daemon's administrator makes tokens with `hopsyncd token create`; the token of"
        " `hopsyncd mcp --http` is in the file mcp_token of its data folder. Programs send"
        " `Authorization: Bearer TOKEN`; for a browser, run `hopsyncd web --server` on your machine"
    )
    return _make_refusal(401, "unauthorized", why, hint, {"www-authenticate": "Bearer"})


def _refuse_guesses(wait_s: float) -> JSONResponse:
    seconds = str(math.ceil(wait_s))
    why = "too many wrong tokens came from your address"
    hint = f"Wait {seconds} s, and check your token"
    return _make_refusal(429, "too_many_failures", why, hint, {"retry-after": seconds})


def _refuse_stranger(credentials: Credentials) -> JSONResponse:
    log.warning(
        "a stranger was refused",
        user=credentials.user,
        uid=credentials.uid,
        pid=credentials.pid,
    )
    why = f"the user {credentials.user} may not use this daemon"
    hint = "The daemon's owner can give access in [access], as docs/security.md explains"
    return _make_refusal(403, "forbidden", why, hint)


def _strip_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _make_refusal(
    status: int, code: str, why: str, hint: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    body = make_failure_body(code, f"The request was refused: {why}", hint)
    return JSONResponse(body, status, headers)
