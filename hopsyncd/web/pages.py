"""The web application: its routes, and the assets that browsers cache."""

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from hopsyncd.client import Client
from hopsyncd.web.action_views import ActionViews
from hopsyncd.web.change_views import ChangeViews
from hopsyncd.web.links import MAX_DIGITS
from hopsyncd.web.listener import Door, PageGuard
from hopsyncd.web.live import VersionHub
from hopsyncd.web.map_views import MapViews
from hopsyncd.web.pdf_views import PdfViews
from hopsyncd.web.search_views import SearchViews
from hopsyncd.web.source_views import SourceViews
from hopsyncd.web.thread_views import ThreadViews
from hopsyncd.web.views import Shared
from hopsyncd.web.watch_views import WatchViews

_ASSETS = {file.name: file.read_bytes() for file in (Path(__file__).parent / "assets").iterdir()}
_ASSET_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# In the addresses of assets, so that browsers cache them until they change.
ASSETS_DIGEST = blake2b(
    b"".join(_ASSETS[name] for name in sorted(_ASSETS)), digest_size=8
).hexdigest()
_KEEP = {"Cache-Control": "private, max-age=31536000, immutable"}


class _ShortNumber(IntegerConvertor):
    """A number in a path, short enough for the daemon."""

    regex = f"[0-9]{{1,{MAX_DIGITS}}}"


register_url_convertor("number", _ShortNumber())


def make_page(
    client: Client,
    door: Door,
    is_stopping: Callable[[], bool] = lambda: False,
    config_file: Path | None = None,
) -> ASGIApp:
    """Create the web application. Only sessions of `door` may use the application.

    `is_stopping` returns whether the program is ending. Open pages are then disconnected.
    `config_file` is the configuration file that actions change; by default, the user's file.
    """
    shared = Shared(client, door, ASSETS_DIGEST)
    hub = VersionHub(client, is_stopping)
    return PageGuard(make_page_routes(shared, hub, config_file), door)


def make_page_routes(shared: Shared, hub: VersionHub, config_file: Path | None = None) -> Starlette:
    """Return an application with the routes for one user. The application does not check who sends
    a request."""
    search, changes = SearchViews(shared), ChangeViews(shared)
    actions = ActionViews(shared, config_file)
    maps, pdfs = MapViews(shared), PdfViews(shared)
    thread = ThreadViews(shared)
    watches, sources = WatchViews(shared), SourceViews(shared, config_file)
    routes = [
        Route("/", search.search),
        Route("/results", search.show_results),
        Route("/welcome", search.show_welcome),
        Route("/examples", search.show_examples),
        Route("/preview/{id}", search.preview),
        Route("/passage/{id}", search.show_passage),
        Route("/pages/{id}", pdfs.show_pages),
        Route("/pages/{id}/{page:number}.png", pdfs.send_picture),
        Route("/map", maps.show_map),
        Route("/map/data", maps.send_data),
        Route("/map/found", maps.find),
        Route("/thread", thread.ask, methods=["POST"]),
        Route("/thread/note", thread.save, methods=["POST"]),
        Route("/changes", changes.show_changes),
        Route("/changes/{number:number}", changes.show_version),
        Route("/compare", changes.compare),
        Route("/watches", watches.show_watches),
        Route("/watches", watches.watch, methods=["POST"]),
        Route("/watches/{number:number}", watches.show_watched_question),
        Route("/watches/{number:number}/end", watches.unwatch, methods=["POST"]),
        Route("/sources", sources.show_sources),
        Route("/state", sources.show_state),
        Route("/act/{name}", actions.act, methods=["POST"]),
        Route("/restore/{number:number}", actions.preview_restore),
        Route("/events", hub.stream_events),
        Route(f"/assets/{ASSETS_DIGEST}/{{name}}", send_asset),
    ]
    return Starlette(routes=[Mount(shared.base, routes=routes)])


async def send_asset(request: Request) -> Response:
    """Return a style sheet, script or icon."""
    name: str = request.path_params["name"]
    if name not in _ASSETS:
        return Response(status_code=404)
    return Response(_ASSETS[name], headers=_KEEP, media_type=_ASSET_TYPES[Path(name).suffix])
