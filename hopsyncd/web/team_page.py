"""Serves the web interface to other machines at `access.page`, with logins and sessions.

Each session has its own views and client, so no data of one user can reach another. The client
sends the key of the session to the daemon's socket, and the daemon answers with the rights of the
person (api/access_guard.py).

A user logs in at the company's provider, or with a pasted token if no provider is configured.
"""

import hmac
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Literal
from urllib.parse import urlsplit

import structlog
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from hopsyncd.client import Client, RequestFailed
from hopsyncd.client.trust import Credentials
from hopsyncd.config.configuration import Config
from hopsyncd.errors import REPORTABLE
from hopsyncd.printable import make_printable
from hopsyncd.web.ended_sessions import EndedSessions
from hopsyncd.web.listener import add_security_headers, read_cookies
from hopsyncd.web.live import SharedVersion, VersionHub
from hopsyncd.web.pages import ASSETS_DIGEST, make_page_routes, send_asset
from hopsyncd.web.pending_logins import LONGEST_S, PendingLogins
from hopsyncd.web.provider import LoginFailed, Provider
from hopsyncd.web.sessions import Person, Session, Sessions
from hopsyncd.web.views import PageTools, Shared, read_form

SameSite = Literal["lax", "strict"]

log = structlog.get_logger(__name__)

# Browsers accept a `__Host-` cookie only over TLS, from this host, and for all its paths.
SESSION_COOKIE = "__Host-hopsyncd"
LOGIN_COOKIE = "__Host-hopsyncd-login"
# Tells all tabs of a browser not to log in again by themselves.
LOGGED_OUT_COOKIE = "__Host-hopsyncd-out"
CALLBACK = "/login/callback"
_ASSETS = f"/assets/{ASSETS_DIGEST}/"
_MAX_FORM_BYTES = 16 << 10
_MAX_PATH = 2000  # longer paths are not restored after a login
_LOGINS_AT_ONCE = 16
_THREADS = 32
# An open page sends these requests by itself, so they do not extend the session.
_UNASKED = ("/state", "/events")
_GO_ON = """<!doctype html><html lang="en"><meta charset="utf-8"><title>hopsyncd</title>
<meta http-equiv="refresh" content="0; url={to}"><p><a href="{to}">Go on</a></p></html>"""


class SessionForms:
    """Checks that forms come from one session."""

    base = ""

    def __init__(self, session: Session) -> None:
        self._session = session

    def make_form_token(self, request: Request) -> str:
        return self._session.form_token

    def is_form_of(self, request: Request, token: str) -> bool:
        """Return whether a form has the token of the session that sends it."""
        return _is_equal(self._session.form_token, token)


class TeamPage:
    """The web interface at `address`, such as "https://notes.example.org", for ASGI.

    client_of: creates a client for a token and a browser's address. has_ended: as in Sessions.
    """

    def __init__(
        self,
        address: str,
        client_of: Callable[[str, str], Client],
        provider: Provider | None,
        shared_version: Callable[[], int],
        has_ended: Callable[[str, float], bool],
    ) -> None:
        self._address = address
        self._host = urlsplit(address).netloc
        self._client_of = client_of
        self._provider = provider
        self._version = shared_version
        self._sessions = Sessions(has_ended=has_ended)
        self._pending = PendingLogins()
        self._views: dict[Session, Starlette] = {}
        self._tools = PageTools.make("", ASSETS_DIGEST, _THREADS)
        self._logins = CapacityLimiter(_LOGINS_AT_ONCE)

    def find_person(self, key: bytes) -> Person | None:
        """Return the user whose session has this key, or None if the session has ended."""
        return self._sessions.find_person(key.decode("latin-1"))

    def find_user(self, user: str) -> Person | None:
        """Return the user with this name, in the role and with the groups of the newest open
        session."""
        return self._sessions.find_user(user)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = add_security_headers(send)
        request = Request(scope, receive)
        session = self._sessions.find(read_cookies(request, SESSION_COOKIE))
        answer = self._refuse(request)
        if answer and request.method == "POST":
            await read_form(
                request, _MAX_FORM_BYTES
            )  # read the body, so that the connection can be reused
        answer = answer or await self._admit(request, session)
        if answer is None and session:
            answer = await self._show(session, request, send)
        if answer:
            await answer(scope, receive, send)

    def _refuse(self, request: Request) -> Response | None:
        """Return the refusal of a request from another site, or None if the request is allowed."""
        headers = request.headers
        if request.url.scheme != "https":
            return self._render_message(
                403, "This server works only over https", f"Use {self._address}"
            )
        if headers.getlist("host") != [self._host]:
            return self._render_message(
                403, "This server has another address", f"Use {self._address}"
            )
        site = headers.get("sec-fetch-site", "none")
        is_read = request.method in ("GET", "HEAD")
        if not is_read and headers.getlist("origin") != [self._address]:
            return self._render_message(
                403, "Another website sent this request", f"Use {self._address}"
            )
        if site in ("same-origin", "none") or request.url.path == CALLBACK:
            return None
        if is_read and _is_navigation(request):
            # A link on another site led here, so the cookie is missing. Our own redirect gets it.
            return HTMLResponse(_GO_ON.format(to=escape(_get_asked_path(request))))
        return self._render_message(
            403, "Another website sent this request", f"Use {self._address}"
        )

    async def _admit(self, request: Request, session: Session | None) -> Response | None:
        """Answer logins, logouts, and requests without a session."""
        path, method = request.url.path, request.method
        if path.startswith(_ASSETS) and method == "GET":
            request.scope["path_params"] = {"name": path.removeprefix(_ASSETS)}
            return await send_asset(request)
        if path == CALLBACK and method == "GET" and self._provider:
            return await self._complete_login(request, self._provider)
        if path == "/login" and method == "POST" and not self._provider:
            return await self._log_in_by_token(request)
        if session is None:
            has_left = method == "GET" and "1" in read_cookies(request, LOGGED_OUT_COOKIE)
            if has_left and path != "/login" and _is_navigation(request):
                return await self._show_logged_out()
            return await self._ask_to_log_in(request, _get_asked_path(request))
        if path == "/login" and method == "GET":
            return RedirectResponse("/", 303)
        if path == "/logout" and method == "POST":
            return await self._log_out(request, session)
        return None

    async def _ask_to_log_in(self, request: Request, to: str) -> Response:
        """Answer with the login page if a browser requests a page, otherwise with an error."""
        if request.method != "GET" or not _is_navigation(request):
            return self._render_message(401, "You are not logged in", choose_login_hint(request))
        if self._provider is None:
            return self._render_token_form(to)
        address = _get_address(request)
        pending = self._pending.begin(to, address, read_cookies(request, LOGIN_COOKIE))
        make = partial(
            self._provider.make_login_address, pending.state, pending.nonce, pending.verifier
        )
        try:
            place = await run_sync(make, limiter=self._logins)
        except LoginFailed as error:
            return self._report_failure(error, request)
        response = RedirectResponse(place, 303)
        # Lax, because the provider's page redirects the browser back.
        _set_cookie(response, LOGIN_COOKIE, pending.browser, "lax", int(LONGEST_S))
        return response

    async def _complete_login(self, request: Request, provider: Provider) -> Response:
        """Complete a login. The provider has redirected the browser to this address with a code."""
        query = request.query_params
        try:
            if any(len(query.getlist(name)) > 1 for name in query):
                raise _expired_login_error("a field occurs twice")
            pending = self._pending.take(
                query.get("state", ""), read_cookies(request, LOGIN_COOKIE)
            )
            if pending is None:
                raise _expired_login_error("this browser did not begin the login")
            log_in = partial(provider.log_in, query, pending.verifier, pending.nonce)
            person = await run_sync(log_in, limiter=self._logins)
        except LoginFailed as error:
            return self._report_failure(error, request)
        log.info(
            "a user logged in to the web interface",
            user=person.user,
            role=person.role,
            groups=len(person.groups),
            address=pending.address,
        )
        return self._enter(request, person.user, person, "", pending.to)

    async def _log_in_by_token(self, request: Request) -> Response:
        """Open a session for a pasted token that the daemon accepts."""
        form = await read_form(request, _MAX_FORM_BYTES) or {}
        token, to = form.get("token", "").strip(), _replace_foreign_path(form.get("to", ""))
        address = _get_address(request)
        try:
            if not token.isascii() or not token.isprintable() or not token:
                raise RequestFailed(401, "unauthorized", "The text is not a token", "")
            status = await run_sync(self._client_of(token, address).status, limiter=self._logins)
            caller = status["caller"]
            if "read" not in caller["rights"]:
                raise RequestFailed(403, "forbidden", "This token may not read documents", "")
        except RequestFailed as error:
            why = {
                401: "This token is not valid on this server",
                429: "Too many wrong tokens came from your address. Wait a minute",
            }.get(error.status, error.why)
            return self._render_token_form(to, why, error.status)
        except REPORTABLE as error:
            return self._render_message(503, "The daemon does not answer", str(error))
        log.info(
            "a user logged in to the web interface with a token",
            user=caller["user"],
            address=address,
        )
        return self._enter(request, caller["user"], None, token, to)

    def _enter(
        self, request: Request, user: str, person: Person | None, token: str, to: str
    ) -> Response:
        """Replace the browser's session with a new session, and redirect to the path `to`."""
        if before := self._sessions.find(read_cookies(request, SESSION_COOKIE)):
            self._end(before)
        session, cookie = self._sessions.open(user, person, token)
        address = _get_address(request)
        self._views = {
            session: views for session, views in self._views.items() if not session.is_over
        }
        self._views[session] = self._make_views(session, address)
        entered = HTMLResponse(_GO_ON.format(to=escape(_replace_foreign_path(to))))
        _set_cookie(entered, SESSION_COOKIE, cookie, "strict")
        _set_cookie(entered, LOGGED_OUT_COOKIE, "", "strict", 0)
        return entered

    def _make_views(self, session: Session, address: str) -> Starlette:
        client = self._client_of(session.key, address)
        forms = SessionForms(session)
        shared = Shared(client, forms, ASSETS_DIGEST, self._tools, session.user)
        hub = VersionHub(client, lambda: not self._sessions.is_open(session), self._version)
        return make_page_routes(shared, hub)

    async def _show(self, session: Session, request: Request, send: Send) -> Response | None:
        """Let the views of the session answer.

        If the daemon refuses the session, because its token was revoked, the session ends.
        """
        if identify := request.scope.get("state", {}).get("identify"):
            # Connections are counted by user, not by the address of a proxy.
            identify(Credentials(address=_get_address(request), holder=session.user))
        if request.url.path not in _UNASKED and "part" not in request.query_params:
            self._sessions.note_use(session)
        is_refused = False

        async def send_known(message: Message) -> None:
            nonlocal is_refused
            if message["type"] == "http.response.start" and message["status"] == 401:
                is_refused = True
            if not is_refused:
                await send(message)

        await self._views[session](request.scope, request.receive, send_known)
        if not is_refused:
            return None
        self._end(session)
        return await self._ask_to_log_in(request, _get_asked_path(request))

    async def _log_out(self, request: Request, session: Session) -> Response:
        form = await read_form(request, _MAX_FORM_BYTES) or {}
        if not _is_equal(session.form_token, form.get("csrf", "")):
            return self._render_message(
                403, "The form is not valid for your session", "Reload the page"
            )
        self._end(session)
        log.info("a user logged out of the web interface", user=session.user)
        response = RedirectResponse("/", 303)
        _set_cookie(response, SESSION_COOKIE, "", "strict", 0)
        _set_cookie(response, LOGGED_OUT_COOKIE, "1", "strict")
        return response

    async def _show_logged_out(self) -> Response:
        provider, place = self._provider, ""
        if provider:
            place = await run_sync(provider.make_logout_address, limiter=self._logins)
        name = provider.name if provider else ""
        return self._render("logged_out.html", provider=name, logout_address=place)

    def _end(self, session: Session) -> None:
        self._sessions.end(session)
        self._views.pop(session, None)

    def _report_failure(self, error: LoginFailed, request: Request) -> Response:
        address = _get_address(request)
        detail = make_printable(error.detail)[:500]
        log.warning(
            "a login to the web interface failed", address=address, why=error.why, detail=detail
        )
        return self._render_message(error.status, error.why, error.hint)

    def _render_message(self, status: int, why: str, hint: str) -> Response:
        return self._render("login_message.html", status, why=why, hint=hint)

    def _render_token_form(self, to: str, problem: str = "", status: int = 401) -> Response:
        return self._render("login.html", status, to=to, problem=problem)

    def _render(self, template: str, status: int = 200, **context: object) -> Response:
        page = self._tools.templates.get_template(template)
        return HTMLResponse(page.render(**context), status)


def make_team_page(config: Config) -> TeamPage:
    """Create the web interface at `access.page`.

    Raises SocketRefused if the secret or the CA file of the login provider cannot be used.
    """
    access, socket = config.access, config.daemon.socket
    provider = Provider(access.oidc, access.page + CALLBACK) if access.oidc else None

    def client_of(token: str, browser: str) -> Client:
        return Client(socket, token, browser=browser)

    ended = EndedSessions.from_config(config)
    version = SharedVersion(Client(socket))
    return TeamPage(access.page, client_of, provider, version, ended.has_ended)


def _get_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def choose_login_hint(request: Request) -> str:
    """Return the hint for a request without a session that is not for a whole page."""
    if request.method != "GET" or "sec-fetch-mode" in request.headers:
        return "Reload the page"
    return (
        "The request does not ask for a web page: it has neither `Sec-Fetch-Mode` nor"
        " `Accept: text/html`. Use a browser; programs use `/v1` with a token"
    )


def _is_navigation(request: Request) -> bool:
    """Return whether a browser requests a whole page."""
    headers = request.headers
    mode, target = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest", "document")
    if mode is None:  # an old browser that does not send the header
        return "text/html" in headers.get("accept", "")
    return mode == "navigate" and target == "document"


def _get_asked_path(request: Request) -> str:
    """Return the unchanged path and query of a request, for the redirect after the login."""
    path = request.scope.get("raw_path") or request.scope["path"].encode()
    query = request.scope["query_string"]
    return _replace_foreign_path((path + (b"?" + query if query else b"")).decode("latin-1"))


def _replace_foreign_path(to: str) -> str:
    """Return the path if it is on this server and is not a login path, otherwise "/"."""
    is_plain = to.isascii() and to.isprintable() and " " not in to and "\\" not in to
    if not is_plain or len(to) > _MAX_PATH or not to.startswith("/") or to.startswith("//"):
        return "/"
    return "/" if to.startswith(("/login", "/logout")) else to


def _is_equal(expected: str, received: str) -> bool:
    return hmac.compare_digest(expected.encode(), received.encode())


def _expired_login_error(detail: str) -> LoginFailed:
    why = "This login has expired, or began in another browser"
    return LoginFailed(why, "Log in again", 403, detail)


def _set_cookie(
    response: Response, name: str, value: str, same_site: SameSite, max_age_s: int | None = None
) -> None:
    response.set_cookie(
        name, value, max_age=max_age_s, path="/", secure=True, httponly=True, samesite=same_site
    )
