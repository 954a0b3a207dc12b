"""Protects the web interface by one-time addresses, session cookies and checks of each request.

Any program on this machine can connect to a loopback port, and any web page can make a browser
connect. So every request needs the session cookie, which a browser gets in exchange for a one-time
token. Browsers send cookies to all ports of a host. The path of the session cookie is random and
changes with each start, so no other server on this machine receives the cookie.
"""

import hmac
import math
import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.config.secret_file import replace_private

COOKIE = "hopsyncd"
KEPT_NAME = "page.html"  # the file in the data_dir that opens the daemon's web interface
_SECRET_BYTES = 32
_PATH_BYTES = 12
_TOKEN_S = 600.0
_MAX_COOKIE = 8192  # characters of the cookie header; one cookie has at most 4096
_MAX_SESSIONS = 8  # a new browser ends the oldest session
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers would send our own forms with the Origin null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OPENER = '<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n'
_ENTERED = """<!doctype html><html lang="en"><title>hopsyncd</title>
<meta http-equiv="refresh" content="0; url={base}/"><p><a href="{base}/">Go on</a></p></html>"""
_REFUSED = """<!doctype html><html lang="en"><title>hopsyncd</title><h1>Access refused</h1>
<p>{why}.</p><p>Run <code>hopsyncd web</code>, and open the address that it prints.</p></html>"""


@dataclass
class Door:
    """Opens sessions for browsers that bring the one-time token. A ninth session ends the oldest.

    `address` is HOST:PORT as the browser sees it, and `base` is the path of the cookie.
    `address_file` always contains a valid one-time address without an expiry; None for no file.
    """

    address: str
    base: str = field(default_factory=lambda: "/" + secrets.token_urlsafe(_PATH_BYTES))
    address_file: Path | None = None
    _token: str = ""  # empty before the first token, and after its use
    _until_s: float = 0.0  # when the token expires, by time.monotonic()
    _sessions: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_SESSIONS))
    _form_key: bytes = field(default_factory=lambda: secrets.token_bytes(_SECRET_BYTES))

    def create_address(self) -> str:
        """Create an address that opens the web interface once. Earlier addresses stop working.

        If there is no `address_file`, the address expires in 10 min.
        """
        token = secrets.token_urlsafe(_SECRET_BYTES)
        address = f"http://{self.address}/?token={token}"
        if self.address_file:
            replace_private(self.address_file, make_opener(address))
        self._token = token
        self._until_s = math.inf if self.address_file else time.monotonic() + _TOKEN_S
        return address

    def open_session(self, token: str) -> str | None:
        """Open a session and return its cookie. Returns None if the token is not valid, or no
        longer valid."""
        right = self._token and hmac.compare_digest(token.encode(), self._token.encode())
        if not right or self._until_s < time.monotonic():
            return None
        if self.address_file:
            self.create_address()  # if the disk is full, this raises, and the old address stays
        else:
            self._token = ""
        self._sessions.append(secrets.token_urlsafe(_SECRET_BYTES))
        return self._sessions[-1]

    def make_form_token(self, request: Request) -> str:
        """Return the token in the forms of a request's session. Other sites do not know this
        token."""
        session = next(filter(self.is_open_to, read_cookies(request)), "")
        return hmac.new(self._form_key, session.encode(), "sha256").hexdigest()

    def is_form_of(self, request: Request, token: str) -> bool:
        """Return whether a form has the token of the session that sends it."""
        return hmac.compare_digest(self.make_form_token(request).encode(), token.encode())

    def is_open_to(self, cookie: str) -> bool:
        """Return whether a cookie belongs to a session."""
        raw = cookie.encode()
        return any(hmac.compare_digest(raw, session.encode()) for session in self._sessions)


def add_security_headers(send: Send) -> Send:
    """Wrap a `send` function so that it adds missing security headers to a response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


class PageGuard:
    """Passes requests with a session on to `app`, refuses other requests, and adds security
    headers."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door
        port = door.address.rpartition(":")[2]
        # A browser may use only these names. Another name indicates DNS rebinding.
        self._hosts = {door.address, f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        answer = self._refuse(request) or self._admit(request)
        await (answer or self._app)(scope, receive, add_security_headers(send))

    def _refuse(self, request: Request) -> Response | None:
        headers = request.headers
        named = headers.getlist("host")
        if len(named) != 1 or named[0] not in self._hosts:
            return _make_refusal(403, "The address has the name of another host")
        # To a browser, other ports of this machine are the same site but another origin.
        origins = {f"http://{host}" for host in self._hosts}
        foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if request.method != "GET" and headers.get("origin") not in origins:
            foreign = True
        enters = request.url.path == "/" and request.method == "GET"
        if foreign and not enters:
            return _make_refusal(403, "Another website sent this request")
        return None

    def _admit(self, request: Request) -> Response | None:
        """Answer a request without a session: open a session for a valid token, or else refuse the
        request."""
        base = self._door.base
        if request.url.path == "/" and request.method == "GET":
            session = self._door.open_session(request.query_params.get("token", ""))
            if session is None:
                return _make_refusal(401, "This address has already been used, or has expired")
            entered = HTMLResponse(_ENTERED.format(base=base))
            entered.set_cookie(COOKIE, session, path=base, httponly=True, samesite="strict")
            return entered
        if not any(map(self._door.is_open_to, read_cookies(request))):
            return _make_refusal(401, "This browser has no session")
        return None


def read_cookies(request: Request, cookie_name: str = COOKIE) -> list[str]:
    """Return the values of the cookie with that name in a request.

    `request.cookies` is not used, because unquoting values takes quadratic time in some versions of
    Python. The values of hopsyncd's cookies are never quoted.
    """
    headers = request.headers.getlist("cookie")
    pairs = [pair.partition("=") for header in headers for pair in header[:_MAX_COOKIE].split(";")]
    return [value.strip() for name, _, value in pairs if name.strip() == cookie_name][
        :_MAX_SESSIONS
    ]


def _make_refusal(status: int, why: str) -> HTMLResponse:
    return HTMLResponse(_REFUSED.format(why=why), status)


def make_opener(address: str) -> str:
    """Return an HTML page that redirects to the one-time address.

    The browser gets this page as a file, because other users can see addresses in command lines.
    """
    return _OPENER.format(address=address)


def read_kept_address(file: Path) -> str | None:
    """Read the one-time address in a `kept` file. Returns None if the file is missing or empty."""
    try:
        return file.read_text("utf-8").partition("url=")[2].partition('"')[0] or None
    except OSError:
        return None
