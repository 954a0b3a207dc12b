"""The views of the page, rendered to HTML from the daemon's answers."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from hopsyncd.client import Client, RequestFailed
from hopsyncd.config.values import MATCHES, STRATEGIES
from hopsyncd.display import document_name, full_time, plural, relative_time, title_of
from hopsyncd.errors import REPORTABLE, DaemonUnavailable
from hopsyncd.printable import printable
from hopsyncd.web.drawing import neighbourhood, unique_hops, way_found
from hopsyncd.web.listener import Door, PageGuard

_ASSETS = {file.name: file.read_bytes() for file in (Path(__file__).parent / "assets").iterdir()}
_ASSET_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# Part of the address of assets, so that browsers cache them until they change.
_DIGEST = blake2b(b"".join(_ASSETS[name] for name in sorted(_ASSETS)), digest_size=8).hexdigest()
_KEEP = {"Cache-Control": "private, max-age=31536000, immutable"}
_THREADS = 8  # views rendered at the same time
_K = 8
_SEARCH_FIELDS = ("question", "k", "at", "strategy", "match", "filters")
_FILTERS = ("source", "path", "type", "tag", "since")
_PASSAGES_SHOWN = 60  # of a document, around the marked passage
_NEIGHBOURS = 40
_VERSIONS_SHOWN = 30
_DIFF_LINES = 100  # of each list: documents, passages and edges
_CHANGES_SHOWN = 20
_MAX_DIGITS = 9
_LAID_OUT = "\n\t"
_ARROWS = {
    "from": ("→", "raises what is answered by"),
    "to": ("←", "answers what is raised by"),
    "both": ("—", "shares a name with"),
    "link": ("⇒", "links to"),
    "backlink": ("⇐", "is linked from"),
    "follow_up": ("⇝", "was read, and then led to"),
}


class _ShortNumber(IntegerConvertor):
    """A number in a path, short enough for the daemon."""

    regex = f"[0-9]{{1,{_MAX_DIGITS}}}"


register_url_convertor("number", _ShortNumber())

View = Callable[..., Response]
Shown = Callable[..., Awaitable[Response]]


def make_page(client: Client, door: Door) -> ASGIApp:
    """Make the web application of the page. Only sessions of `door` may use it."""
    pages = Pages(client, door.base)
    routes = [
        Route("/", pages.search),
        Route("/results", pages.results),
        Route("/how", pages.how),
        Route("/passage/{id}", pages.passage),
        Route("/around/{id}", pages.around),
        Route("/versions", pages.versions),
        Route("/versions/{number:number}", pages.version),
        Route("/compare", pages.compare),
        Route("/sources", pages.sources),
        Route("/watches", pages.watches),
        Route("/watches", pages.watch, methods=["POST"]),
        Route("/watches/{number:number}", pages.watched_question),
        Route("/watches/{number:number}/end", pages.unwatch, methods=["POST"]),
        Route(f"/assets/{_DIGEST}/{{name}}", asset),
    ]
    app = Starlette(routes=[Mount(door.base, routes=routes)])
    return PageGuard(app, door)


async def asset(request: Request) -> Response:
    """A style sheet, script or icon of the page."""
    name: str = request.path_params["name"]
    if name not in _ASSETS:
        return Response(status_code=404)
    return Response(_ASSETS[name], headers=_KEEP, media_type=_ASSET_TYPES[Path(name).suffix])


def _run_view(view: View) -> Shown:
    """Run a view on a thread, and render errors of the daemon as a page.

    The thread waits for the daemon. If the daemon is this process, its answers to admins need
    threads too, so the page has its own limit of threads.
    """

    @wraps(view)
    async def respond(pages: "Pages", request: Request, *more: Any) -> Response:
        try:
            return await run_sync(partial(view, pages, request, *more), limiter=pages.threads)
        except REPORTABLE as error:
            status = 502 if isinstance(error, DaemonUnavailable) else 500
            if isinstance(error, RequestFailed):
                status = error.status
            return pages.html(request, "error.html", status, error=error)

    return respond


class Pages:
    """The views, each rendered from the daemon's answers."""

    def __init__(self, client: Client, base: str) -> None:
        self._client = client
        self._base = base
        self.threads = CapacityLimiter(_THREADS)
        self._templates = Environment(
            loader=PackageLoader("hopsyncd.web"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_make_printable,
        )
        self._templates.trim_blocks = self._templates.lstrip_blocks = True
        self._templates.globals.update(
            base=base,
            assets=f"{base}/assets/{_DIGEST}",
            arrows=_ARROWS,
            plural=plural,
            title_of=title_of,
            document_name=document_name,
            strategies=STRATEGIES,
        )
        self._templates.filters.update(
            time=time_element, relative=relative_time, query=query_string, code=with_code
        )

    def html(
        self, request: Request, template: str, status: int = 200, **context: Any
    ) -> HTMLResponse:
        at = request.query_params.get("at", "").strip() or "head"
        page = self._templates.get_template(template)
        return HTMLResponse(page.render(at=at, **context), status)

    @_run_view
    def search(self, request: Request) -> Response:
        """The search form, with results if a question was entered."""
        return self.html(request, "search.html", **self._search(request, by_llm=True))

    @_run_view
    def results(self, request: Request) -> Response:
        """The results without the form, for searching while somebody types."""
        by_llm = "submitted" in request.query_params
        return self.html(request, "results.html", **self._search(request, by_llm))

    def _search(self, request: Request, by_llm: bool) -> Mapping[str, Any]:
        asked = question_of(request)
        if not asked["question"]:
            return {"asked": asked, "answer": None}
        search = {name: asked[name] for name in _SEARCH_FIELDS}
        # While somebody types, no LLM is asked for each pause.
        llm = None if by_llm else False
        if by_llm and search["k"] == _K:
            search["k"] = None  # an LLM is shown more passages than the page
        return {"asked": asked, "answer": self._client.ask(**search, llm=llm, passages=True)}

    @_run_view
    def how(self, request: Request) -> Response:
        """How each passage was found, as a picture and a list."""
        asked = question_of(request)
        search = {name: asked[name] for name in _SEARCH_FIELDS}
        found = self._client.query(**search)
        picture, hops = way_found(found["passages"]), unique_hops(found["passages"])
        return self.html(request, "how.html", asked=asked, found=found, picture=picture, hops=hops)

    @_run_view
    def passage(self, request: Request) -> Response:
        """A passage in its document, with the passages before and after it."""
        at = request.query_params.get("at") or "head"
        answer = self._client.passage(request.path_params["id"], at)
        passage, at = answer["passage"], str(answer["version"])
        source, document = passage["source"], passage["document"]
        whole = [passage]
        if source is not None and document is not None:
            whole = list(self._client.document(source, document, at)["passages"])
        place = next(n for n, one in enumerate(whole) if one["id"] == passage["id"])
        first = max(min(place - _PASSAGES_SHOWN // 2, len(whole) - _PASSAGES_SHOWN), 0)
        shown = whole[first : first + _PASSAGES_SHOWN]
        return self.html(
            request,
            "passage.html",
            passage=passage,
            questions=answer["questions"],
            version=answer["version"],
            shown=shown,
            before=whole[first - 1] if first else None,
            after=whole[first + len(shown)] if first + len(shown) < len(whole) else None,
            of=len(whole),
        )

    @_run_view
    def around(self, request: Request) -> Response:
        """The passages related to one, as a graph."""
        at = request.query_params.get("at") or "head"
        near = self._client.neighbours(request.path_params["id"], limit=_NEIGHBOURS, at=at)
        ends = {one["id"]: one for one in near["passages"]}
        picture, edges = neighbourhood(near)
        return self.html(request, "around.html", near=near, ends=ends, picture=picture, edges=edges)

    @_run_view
    def versions(self, request: Request) -> Response:
        """The newest versions on a line, with their changes."""
        before = request.query_params.get("before", "")
        log = self._client.log(_VERSIONS_SHOWN, _number(before))
        return self.html(request, "versions.html", log=log)

    @_run_view
    def version(self, request: Request) -> Response:
        """The changes of a version: documents and sentences."""
        number: int = request.path_params["number"]
        entry, previous = [*self._client.log(2, number + 1)["versions"], None, None][:2]
        if entry is None or entry["version"] != number:
            problem = RequestFailed(
                404, "not_found", f"There is no version {number}", "`hopsyncd log` lists them"
            )
            return self.html(request, "error.html", 404, error=problem)
        diff = None
        if previous and not (entry["collected"] or previous["collected"]):
            diff = self._client.diff(str(previous["version"]), str(number), _DIFF_LINES)
        return self.html(request, "version.html", entry=entry, previous=previous, diff=diff)

    @_run_view
    def compare(self, request: Request) -> Response:
        """The same question at two versions, side by side."""
        asked = question_of(request)
        given = request.query_params
        old, new = given.get("old", "").strip(), given.get("new", "").strip() or "head"
        sides, ranks = [], []
        if asked["question"] and old:
            for at in (old, new):
                search = {name: asked[name] for name in ("question", "k", "strategy", "match")}
                answer = self._client.ask(**search, at=at, llm=False, passages=True)
                sides.append(answer)
                ranks.append({one["id"]: rank for rank, one in enumerate(answer["passages"], 1)})
        return self.html(
            request, "compare.html", asked=asked, old=old, new=new, sides=sides, ranks=ranks
        )

    @_run_view
    def sources(self, request: Request) -> Response:
        """The sources with their state, the running sync, and unreadable documents."""
        part = "sources_now.html" if "part" in request.query_params else "sources.html"
        return self.html(request, part, status=200, state=self._client.status())

    @_run_view
    def watches(self, request: Request) -> Response:
        """The watched questions, and a form to watch another question."""
        asked = question_of(request)
        return self.html(request, "watches.html", asked=asked, listed=self._client.watches())

    @_run_view
    def watched_question(self, request: Request) -> Response:
        """A watched question with its changes: the answers before and after each."""
        shown = self._client.watch_changes(request.path_params["number"], _CHANGES_SHOWN)
        return self.html(request, "watched.html", shown=shown)

    async def watch(self, request: Request) -> Response:
        """Watch the question of the form."""
        form = parse_qs((await request.body()).decode(errors="replace"))
        return await self._watch(request, form.get("q", [""])[0])

    @_run_view
    def _watch(self, request: Request, question: str) -> Response:
        done = self._client.watch(question)
        return self._to(f"/watches/{done['watch']['id']}")

    @_run_view
    def unwatch(self, request: Request) -> Response:
        """Stop watching a question."""
        self._client.unwatch(request.path_params["number"])
        return self._to("/watches")

    def _to(self, path: str) -> Response:
        return RedirectResponse(f"{self._base}{path}", 303)


def question_of(request: Request) -> dict[str, Any]:
    """The fields of the search form. `question` is empty if nothing was asked."""
    given = request.query_params
    k = given.get("k", "")
    strategy, match = given.get("strategy", ""), given.get("match", "")
    narrowed = {name: given.get(name, "").strip() for name in _FILTERS}
    return {
        "narrowed": narrowed,
        "filters": [f"{name}:{value}" for name, value in narrowed.items() if value],
        "question": given.get("q", "").strip(),
        "k": min(max(_number(k) or _K, 1), 50),
        "strategy": strategy if strategy in STRATEGIES else None,
        "match": match if match in MATCHES else "auto",
        "at": given.get("at", "").strip() or "head",
    }


def _number(text: str) -> int | None:
    """A number above zero in a query string; None for anything else."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) or None if is_number else None


def _make_printable(value: object) -> object:
    """Escape control characters in a value that a template prints."""
    if isinstance(value, Markup):
        return Markup(printable(value, keep=_LAID_OUT))
    return printable(value, keep=_LAID_OUT) if isinstance(value, str) else value


def query_string(fields: Mapping[str, Any]) -> str:
    """The query string of a link, without empty fields and the default version.

    >>> query_string({"q": "a b", "at": "head", "k": None})
    'q=a+b'
    """
    return urlencode({name: one for name, one in fields.items() if one not in (None, "", "head")})


def with_code(message: str) -> Markup:
    """Render a message as HTML, with text in backticks as code.

    >>> with_code("Run `a < b`")
    Markup('Run <code>a &lt; b</code>')
    """
    parts = (Markup("<code>{}</code>" if at % 2 else "{}").format(part)
             for at, part in enumerate(message.split("`")))  # fmt: skip
    return Markup("").join(parts)


def time_element(moment: str | None) -> Markup:
    """A time of the API in relative form, with the full time shown on hover."""
    if moment is None:
        return Markup("never")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment, full_time(moment), relative_time(moment)
    )
