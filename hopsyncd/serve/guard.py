"""What every request passes first: no browsers, no strangers, and a record of what admins do."""

import hmac
from collections.abc import Iterable

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.serve.access import Access
from hopsyncd.serve.audit import Audit
from hopsyncd.serve.caller import Caller
from hopsyncd.serve.failures import failed
from hopsyncd.serve.peer import Peer

log = structlog.get_logger(__name__)

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
        peer: Peer = state["peer"]
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

    def _caller(self, peer: Peer, headers: Iterable[tuple[bytes, bytes]]) -> Caller | JSONResponse:
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

    def _by_token(self, peer: Peer, headers: list[tuple[bytes, bytes]]) -> Caller | None:
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
