"""Who may see the page: the one-time address, the cookie it is exchanged for, and what is refused.

Any program of this machine, of any user, can connect to a loopback port, and any web page can make
a browser do so. So nothing is answered without the cookie, which only a one-time token brings.
Browsers send a cookie to all ports of a host: this one is bound to a path that is drawn anew with
each start, so that no other server of this machine gets it.
"""

import hmac
import math
import os
import secrets
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.client import Client
from hopsyncd.config.configuration import Config
from hopsyncd.config.values import host_and_port

COOKIE = "hopsyncd"
KEPT_NAME = "page.html"  # in the data_dir: leads a browser to the page that the daemon keeps up
_SECRET_BYTES = 32
_PATH_BYTES = 12
_TOKEN_S = 600.0
_MAX_COOKIE = 8192  # characters; browsers send at most 4096 a cookie
_MAX_SESSIONS = 8  # browsers at once; the oldest gives way
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
_OPENER = '<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n'
_ENTERED = """<!doctype html><html lang="en"><title>hopsyncd</title>
<meta http-equiv="refresh" content="0; url={base}/"><p><a href="{base}/">Go on</a></p></html>"""
_REFUSED = """<!doctype html><html lang="en"><title>hopsyncd</title><h1>Not open here</h1>
<p>{why}.</p><p>Run <code>hopsyncd web</code>, and open the address that it prints.</p></html>"""


@dataclass
class Door:
    """The token that opens the page once, and the sessions that were opened.

    `address` is HOST:PORT as the browser sees it, `base` the path that the cookie is bound to. With
    a `kept` file, that leads to an address that is good until it is used; then to another.
    """

    address: str
    base: str = field(default_factory=lambda: "/" + secrets.token_urlsafe(_PATH_BYTES))
    kept: Path | None = None
    _token: str = ""  # none, or used
    _until_s: float = 0.0  # by time.monotonic()
    _sessions: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_SESSIONS))

    def new_address(self) -> str:
        """An address that opens the page once; within ten minutes, unless it is kept in a file."""
        token = secrets.token_urlsafe(_SECRET_BYTES)
        address = f"http://{self.address}/?token={token}"
        if self.kept:
            _write_own(self.kept, opener(address))
        self._token = token
        self._until_s = math.inf if self.kept else time.monotonic() + _TOKEN_S
        return address

    def session_for(self, token: str) -> str | None:
        """The cookie of a session; None if the token is wrong, used or too old."""
        right = self._token and hmac.compare_digest(token.encode(), self._token.encode())
        if not right or self._until_s < time.monotonic():
            return None
        if self.kept:
            self.new_address()  # on a full disk the one that the file has stays good
        else:
            self._token = ""
        self._sessions.append(secrets.token_urlsafe(_SECRET_BYTES))
        return self._sessions[-1]

    def is_open_to(self, cookie: str) -> bool:
        """Whether a cookie is that of a session."""
        given = cookie.encode()
        return any(hmac.compare_digest(given, own.encode()) for own in self._sessions)


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
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
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
        if not any(map(self._door.is_open_to, _cookies(request))):
            return _refused(401, "This browser has no session")
        return None


def _cookies(request: Request) -> list[str]:
    """The values of our cookie in a request that may come from anyone.

    `request.cookies` unquotes values in quadratic time in some versions of Python, and ours are
    never quoted.
    """
    given = request.headers.getlist("cookie")
    pairs = [pair.partition("=") for header in given for pair in header[:_MAX_COOKIE].split(";")]
    return [value.strip() for name, _, value in pairs if name.strip() == COOKIE][:_MAX_SESSIONS]


def _refused(status: int, why: str) -> HTMLResponse:
    return HTMLResponse(_REFUSED.format(why=why), status)


def opener(address: str) -> str:
    """A file that leads a browser to an address: other users see what a browser is started with."""
    return _OPENER.format(address=address)


def kept_address(file: Path) -> str | None:
    """The address in a kept file; None where no daemon keeps the page up."""
    try:
        return file.read_text("utf-8").partition("url=")[2].partition('"')[0] or None
    except OSError:
        return None


def _write_own(file: Path, text: str) -> None:
    """Put a file in place whole, for its owner alone."""
    handle, made = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            written.write(text)
        Path(made).replace(file)
    except OSError:
        Path(made).unlink(missing_ok=True)
        raise


@contextmanager
def with_page(app: ASGIApp, config: Config) -> Iterator[ASGIApp]:
    """The daemon's application, with the page at web.listen if it is set."""
    kept = config.daemon.data_dir / KEPT_NAME
    kept.unlink(missing_ok=True)  # of a daemon that was killed
    if not config.web.listen:
        yield app
        return
    from hopsyncd.web.pages import make_page  # slow to import

    door = Door(config.web.listen, kept=kept)
    page = make_page(Client(config.daemon.socket), door)
    server = host_and_port(config.web.listen)
    door.new_address()

    async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
        await (page if scope["server"] == server else app)(scope, receive, send)

    try:
        yield chosen
    finally:
        kept.unlink(missing_ok=True)
