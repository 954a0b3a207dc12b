"""Who may see the page: the one-time address, the cookie it is exchanged for, and what is refused.

Any program of this machine, of any user, can connect to a loopback port, and any web page can make
a browser do so. So nothing is answered without the cookie, which only a one-time token brings.
Browsers send a cookie to all ports of a host: this one is bound to a path that is drawn anew with
each start, so that no other server of this machine gets it.
"""

import hmac
import secrets
import socket
import time
from dataclasses import dataclass, field

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.errors import SocketRefused

COOKIE = "hopsyncd"
_SECRET_BYTES = 32
_PATH_BYTES = 12
_TOKEN_S = 600.0
_MAX_CONNECTIONS = 64
_STOP_REQUESTS_S = 2
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # no-referrer would make browsers send our own forms with the Origin null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ENTERED = """<!doctype html><html lang="en"><title>hopsyncd</title>
<meta http-equiv="refresh" content="0; url={base}/"><p><a href="{base}/">Go on</a></p></html>"""
_REFUSED = """<!doctype html><html lang="en"><title>hopsyncd</title><h1>Not open here</h1>
<p>{why}.</p><p>Run <code>hopsyncd web</code>, and open the address that it prints.</p></html>"""


@dataclass
class Door:
    """The token that opens the page once, and the session that it opened.

    `address` is HOST:PORT as the browser sees it, `base` the path that the cookie is bound to.
    """

    address: str
    base: str = field(default_factory=lambda: "/" + secrets.token_urlsafe(_PATH_BYTES))
    _token: str = ""  # none, or used
    _until_s: float = 0.0  # by time.monotonic()
    _session: str = ""

    def new_address(self) -> str:
        """An address that opens the page once, within ten minutes."""
        self._token = secrets.token_urlsafe(_SECRET_BYTES)
        self._until_s = time.monotonic() + _TOKEN_S
        return f"http://{self.address}/?token={self._token}"

    def session_for(self, token: str) -> str | None:
        """The cookie of the session; None if the token is wrong, used or too old."""
        right = self._token and hmac.compare_digest(token.encode(), self._token.encode())
        if not right or self._until_s < time.monotonic():
            return None
        self._token, self._session = "", secrets.token_urlsafe(_SECRET_BYTES)
        return self._session

    def is_open_to(self, cookie: str) -> bool:
        """Whether a cookie is that of the session."""
        given, own = cookie.encode(), self._session.encode()
        return bool(own) and hmac.compare_digest(given, own)


class PageGuard:
    """Passes on to `app` what comes from the page itself, with the headers that keep it closed."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door
        port = door.address.rpartition(":")[2]
        # What the browser believes to be our name: anything else was rebound to our address.
        self._hosts = {door.address, f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        request = Request(scope)
        answer = self._refusal(request) or self._entrance(request)
        await (answer or self._app)(scope, receive, send_closed)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        named = headers.getlist("host")
        if len(named) != 1 or named[0] not in self._hosts:
            return _refused(403, "The address names another host")
        # Other ports of this machine are the same site to a browser, and another origin.
        origins = {f"http://{host}" for host in self._hosts}
        foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if request.method != "GET" and headers.get("origin") not in origins:
            foreign = True
        enters = request.url.path == "/" and request.method == "GET"
        if foreign and not enters:
            return _refused(403, "Another page asked for this")
        return None

    def _entrance(self, request: Request) -> Response | None:
        """The answer to whoever has no session: a new one for a token, else a refusal."""
        base = self._door.base
        if request.url.path == "/" and request.method == "GET":
            session = self._door.session_for(request.query_params.get("token", ""))
            if session is None:
                return _refused(401, "This address has been used, or is too old")
            entered = HTMLResponse(_ENTERED.format(base=base))
            entered.set_cookie(COOKIE, session, path=base, httponly=True, samesite="strict")
            return entered
        if not self._door.is_open_to(request.cookies.get(COOKIE, "")):
            return _refused(401, "This browser has no session")
        return None


def _refused(status: int, why: str) -> HTMLResponse:
    return HTMLResponse(_REFUSED.format(why=why), status)


def page_socket(port: int) -> socket.socket:
    """A socket bound to 127.0.0.1, 0 standing for a free port. Raises SocketRefused."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise SocketRefused(
            f"Cannot show the page on port {port}",
            str(error.strerror).lower(),
            "Take another port, or leave it out",
        ) from error


class PageServer(uvicorn.Server):
    """Serves the page on a bound socket."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_STOP_REQUESTS_S,
                limit_concurrency=_MAX_CONNECTIONS,
            )
        )
        self._listener = listener

    def serve_here(self) -> None:
        """Serve until it is ended."""
        self.run(sockets=[self._listener])
