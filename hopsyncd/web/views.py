"""The base of all views: the frame, errors, and the token of forms."""

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Protocol
from urllib.parse import parse_qs

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hopsyncd.client import Client, RequestFailed
from hopsyncd.errors import REPORTABLE, BadRequest, DaemonUnavailable, Forbidden, NotFound
from hopsyncd.web.confirmations import DONE
from hopsyncd.web.evidence import make_document_key
from hopsyncd.web.index_state import ImportClock, IndexState, describe_state
from hopsyncd.web.links import Links, read_asked
from hopsyncd.web.reading import format_citation
from hopsyncd.web.rendering import make_templates

_THREADS = 8  # how many views are rendered at the same time
_RECENT = 8  # versions in the menu of the header
_MAX_FORM_BYTES = 64 << 10

_STATUSES = {BadRequest: 400, Forbidden: 403, NotFound: 404, DaemonUnavailable: 502}

Shown = Callable[..., Awaitable[Response]]


def run_view(view: Callable[..., Response]) -> Shown:
    """Run a view on a thread, and render errors of the daemon as a page.

    Views have their own limit of threads, because they wait for the daemon, which may run in the
    same process and need threads itself.
    """

    @wraps(view)
    async def respond(views: "View", request: Request, *more: Any) -> Response:
        try:
            return await run_sync(
                partial(view, views, request, *more), limiter=views.shared.threads
            )
        except REPORTABLE as error:
            return await run_sync(
                partial(views.show_error, request, error), limiter=views.shared.threads
            )

    return respond


class Forms(Protocol):
    """The path of the web interface, and the tokens that prove that it made a form."""

    @property
    def base(self) -> str: ...

    def make_form_token(self, request: Request) -> str: ...

    def is_form_of(self, request: Request, token: str) -> bool: ...


@dataclass(frozen=True)
class PageTools:
    """The templates and threads that the pages of all sessions share."""

    templates: Environment
    pool: ThreadPoolExecutor

    @classmethod
    def make(cls, base: str, assets: str, threads: int = _THREADS) -> "PageTools":
        templates = make_templates(base=base, assets=f"{base}/assets/{assets}")
        return cls(templates, ThreadPoolExecutor(threads, "page"))


class Shared:
    """The client, the templates and the form checks (`door`), which all views use.

    user: the user who is logged in to a server; empty on the user's own machine.
    """

    def __init__(
        self,
        client: Client,
        door: Forms,
        assets: str,
        tools: PageTools | None = None,
        user: str = "",
    ) -> None:
        tools = tools or PageTools.make(door.base, assets)
        self.client = client
        self.door = door
        self.base = door.base
        self.user = user
        self.threads = CapacityLimiter(_THREADS)
        self.pool = tools.pool
        self.clock = ImportClock()
        self._rights: frozenset[str] | None = None
        self.templates = tools.templates

    def note_rights(self, status: Mapping[str, Any]) -> None:
        """Store the user's rights, as the daemon's status reports them."""
        caller = status.get("caller")
        self._rights = frozenset(caller["rights"]) if caller else None

    def has_right(self, right: str) -> bool:
        """Return whether to offer actions that need a right.

        If the user's rights are unknown, the actions are offered, and the daemon decides.
        """
        return self._rights is None or right in self._rights


class View:
    """The base of all views. `name` is the tab that is marked as current."""

    name = ""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.client = shared.client
        self.base = shared.base

    def render_page(
        self, request: Request, template: str, code: int = 200, **context: Any
    ) -> HTMLResponse:
        """Render a whole page, with the state of the index and the newest versions around it."""
        try:
            # In parallel, because both requests take equally long.
            recent_log = self.shared.pool.submit(self.client.log, _RECENT)
            state = self.client.status()
            log = recent_log.result()["versions"]
            self.shared.note_rights(state)
            described = describe_state(state, self.shared.clock)
        except REPORTABLE:
            if template != "error.html":
                raise
            state, log, described = _NO_STATUS, [], _UNKNOWN
        asked = read_asked(request)
        entry_at = next((entry for entry in log if str(entry["version"]) == asked.at), None)
        frame = {
            "frame": state,
            "status": state,
            "state": described,
            "recent_versions": log,
            "shown_version": entry_at,
        }
        return self.render_part(request, template, code, **frame, **context)

    def render_part(
        self, request: Request, template: str, code: int = 200, **context: Any
    ) -> HTMLResponse:
        """Render a template for a part of a page.

        To render a template for a whole page, `context` must have the values of the frame.
        """
        asked = read_asked(request)
        names = {
            "asked": asked,
            "at": asked.at,
            "view": self.name,
            "csrf": partial(self.shared.door.make_form_token, request),
            "citation": format_citation,
            "may": self.shared.has_right,
            "user": self.shared.user,
            "is_own_daemon": not self.client.is_remote,
            "done": _describe_action(request),
            "is_first": False,
            **Links(request, self.base, asked).make_template_values(),
        }
        page = self.shared.templates.get_template(template)
        return HTMLResponse(page.render(**(names | context)), code)

    def show_error(self, request: Request, error: Exception) -> Response:
        status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
        if isinstance(error, RequestFailed):
            status = error.status
        return self.render_page(request, "error.html", status, error=error)

    def read_modified_times(
        self, at: str, passages: Any, filters: Any = ()
    ) -> tuple[Mapping[str, Any], dict[str, str | None]]:
        """Return the facets of the filters, and when the documents of these passages were
        modified."""
        keys = list(dict.fromkeys(filter(None, map(make_document_key, passages))))[:100]
        facets = self.client.facets(at=at, filters=filters, documents=keys)
        return facets, dict(zip(keys, facets["modified"], strict=True))

    async def read_form(
        self, request: Request, max_bytes: int = _MAX_FORM_BYTES
    ) -> dict[str, str] | None:
        """Read the fields of a posted form.

        Returns None if the form is longer than `max_bytes` or lacks the session's token.
        """
        form = await read_form(request, max_bytes)
        is_ours = form and self.shared.door.is_form_of(request, form.get("csrf", ""))
        return form if is_ours else None

    def redirect(self, path: str) -> Response:
        return RedirectResponse(f"{self.base}{path}", 303)

    def refuse_form(self, request: Request) -> Response:
        """Answer a form without the token of its session."""
        error = RequestFailed(
            403,
            "forbidden",
            "The form is not valid for your session",
            "Go back, reload the page, and send the form again",
        )
        return self.render_part(
            request,
            "error.html",
            403,
            error=error,
            frame=_NO_STATUS,
            status=_NO_STATUS,
            state=_UNKNOWN,
            recent_versions=[],
            shown_version=None,
        )


async def read_form(request: Request, max_bytes: int) -> dict[str, str] | None:
    """Read the fields of a posted form. Returns None if the form is longer than `max_bytes`."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            return None
    fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}


def _describe_action(request: Request) -> str:
    """Return the sentence that confirms the action before this request, or "" without an action."""
    parameters = request.query_params
    sentence = DONE.get(parameters.get("done", ""), "")
    for name in ("source", "document", "version"):
        sentence = sentence.replace(f"{{{name}}}", parameters.get(name, "")[:200])
    return sentence


_UNKNOWN = IndexState("warn", "State unknown")
_NO_STATUS: Any = {"llm_answers": False, "notes": False}
