"""The HTTP API under /v1/: what each request is, and how errors look."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import structlog
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hopsyncd.errors import REPORTABLE, BadRequest
from hopsyncd.serve.requests import (
    MAX_QUESTION_CHARACTERS,
    AskRequest,
    BackupRequest,
    CheckRequest,
    GcRequest,
    PauseRequest,
    PreviewRequest,
    PurgeRequest,
    QueryRequest,
    RebuildRequest,
    ReleaseRequest,
    RemoveRequest,
    RestoreRequest,
    SyncRequest,
    TagRequest,
)
from store.errors import BackupFailed, NoSuchVersion, PurgeRefused, TagRefused

log = structlog.get_logger(__name__)

MAX_BODY_BYTES = 1 << 20
_MAX_NUMBER = 1_000_000_000


class Service(Protocol):
    """What the daemon offers to its clients."""

    def query(self, request: QueryRequest) -> dict[str, Any]:
        """Find the passages that answer a question."""
        ...

    def ask(self, request: AskRequest) -> dict[str, Any]:
        """Answer a question, with citations."""
        ...

    def sync(self, request: SyncRequest) -> "Future[dict[str, Any]]":
        """Scan and apply; the future resolves when the served version has it all."""
        ...

    def preview(self, request: PreviewRequest) -> dict[str, Any]:
        """Say what a sync would do and cost."""
        ...

    def restore(self, request: RestoreRequest) -> "Future[dict[str, Any]]":
        """Commit a version equal to an earlier one."""
        ...

    def release(self, request: ReleaseRequest) -> "Future[dict[str, Any]]":
        """End what restores hold, and sync."""
        ...

    def pause(self, request: PauseRequest) -> "Future[dict[str, Any]]":
        """Leave a source alone until it is resumed."""
        ...

    def resume(self, request: PauseRequest) -> "Future[dict[str, Any]]":
        """End a pause."""
        ...

    def remove(self, request: RemoveRequest) -> "Future[dict[str, Any]]":
        """Take a source's documents out of the newest version, or out of all."""
        ...

    def tag(self, request: TagRequest) -> "Future[dict[str, Any]]":
        """Name a version."""
        ...

    def untag(self, name: str) -> "Future[dict[str, Any]]":
        """Remove a name."""
        ...

    def check(self, request: CheckRequest) -> dict[str, Any]:
        """Verify the database."""
        ...

    def backup(self, request: BackupRequest) -> dict[str, Any]:
        """Copy the database."""
        ...

    def rebuild(self, request: RebuildRequest) -> "Future[dict[str, Any]]":
        """Make everything derived anew."""
        ...

    def gc(self, request: GcRequest) -> "Future[dict[str, Any]]":
        """Collect expired versions."""
        ...

    def purge(self, request: PurgeRequest) -> "Future[dict[str, Any]]":
        """Remove a document from every version."""
        ...

    def log(self, limit: int, before: int | None) -> dict[str, Any]:
        """Versions, newest first."""
        ...

    def diff(self, old: str, new: str, limit: int | None) -> dict[str, Any]:
        """What differs between two versions; lists are cut to `limit` lines."""
        ...

    def schedule(self) -> dict[str, Any]:
        """What runs when, and how it last went."""
        ...

    def status(self) -> dict[str, Any]:
        """How the daemon and its sources are."""
        ...

    def health(self) -> dict[str, Any]:
        """Whether it serves, cheaply."""
        ...


Answer = dict[str, Any] | Future[dict[str, Any]]
Body = TypeVar("Body", bound=BaseModel)


async def _body(request: Request, model: type[Body]) -> Body:
    """The validated body. Raises BadRequest that names the field and the reason."""
    received = bytearray()
    async for part in request.stream():
        received += part
        if len(received) > MAX_BODY_BYTES:
            raise BadRequest(
                "The request was refused",
                f"its body is longer than {MAX_BODY_BYTES} bytes",
                f"A question may have {MAX_QUESTION_CHARACTERS} characters",
            )
    try:
        return model.model_validate_json(bytes(received) or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadRequest(
            "The request was refused",
            f"{field}: {first['msg']}" if field else str(first["msg"]),
            "docs/api.md describes the body",
        ) from error


def _failure(status: int, code: str, message: str, hint: str) -> JSONResponse:
    return JSONResponse(
        {"error": {"code": code, "message": message, "hint": hint}}, status_code=status
    )


async def _reportable(_: Request, error: Exception) -> JSONResponse:
    """Our own errors: the caller's mistakes are 4xx, the rest says what failed here."""
    what, why, hint = error.what, error.why, error.hint  # type: ignore[attr-defined]
    if isinstance(error, BadRequest):
        return _failure(400, "bad_request", f"{what}: {why}", hint)
    if isinstance(error, TagRefused | PurgeRefused | BackupFailed):
        return _failure(409, "refused", f"{what}: {why}", hint)
    if isinstance(error, NoSuchVersion):
        return _failure(404, "no_such_version", f"{what}: {why}", hint)
    log.error("request failed", what=what, why=why)
    return _failure(503, "unavailable", f"{what}: {why}", hint)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    return _failure(
        error.status_code,
        code,
        f"{request.method} {request.url.path}: {error.detail.lower()}",
        "docs/api.md lists what can be asked",
    )


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", path=request.url.path, exc_info=error)
    return _failure(500, "internal", "The daemon failed on this request", "Its log has the details")


def _number(request: Request, name: str) -> int | None:
    """A positive number among the query's parameters, None if it is not given.

    Raises BadRequest.
    """
    given = request.query_params.get(name)
    if given is None:
        return None
    if not given.isdecimal() or not 1 <= int(given) <= _MAX_NUMBER:
        raise BadRequest(
            "The request was refused",
            f"{name}: {given!r} is no number from 1 to {_MAX_NUMBER}",
            "docs/api.md describes the parameters",
        )
    return int(given)


def _posted(path: str, model: type[Body], act: Callable[[Body], Answer]) -> Route:
    """A route whose body is a `model`, answered by `act` off the event loop."""

    async def endpoint(request: Request) -> JSONResponse:
        answer = await run_in_threadpool(act, await _body(request, model))
        return JSONResponse(
            await asyncio.wrap_future(answer) if isinstance(answer, Future) else answer
        )

    return Route(path, endpoint, methods=["POST"])


def _got(path: str, act: Callable[[Request], dict[str, Any]]) -> Route:
    async def endpoint(request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(act, request))

    return Route(path, endpoint)


def make_app(service: Service) -> Starlette:
    """The ASGI application over a service."""

    async def sync(request: Request) -> JSONResponse:
        body = await _body(request, SyncRequest)
        done = service.sync(body)
        if not body.wait:
            return JSONResponse({"accepted": True}, status_code=202)
        return JSONResponse(await asyncio.wrap_future(done))

    async def untag(request: Request) -> JSONResponse:
        return JSONResponse(await asyncio.wrap_future(service.untag(request.path_params["name"])))

    def log_(request: Request) -> dict[str, Any]:
        return service.log(_number(request, "limit") or 20, _number(request, "before"))

    def diff(request: Request) -> dict[str, Any]:
        old, new = (request.query_params.get(end, "head") for end in ("from", "to"))
        return service.diff(old, new, _number(request, "limit"))

    def sources(_: Request) -> dict[str, Any]:
        whole = service.status()
        return {"version": whole["version"], "sources": whole["sources"]}

    handlers: dict[Any, Any] = dict.fromkeys(REPORTABLE, _reportable)
    return Starlette(
        routes=[
            _posted("/v1/query", QueryRequest, service.query),
            _posted("/v1/ask", AskRequest, service.ask),
            Route("/v1/sync", sync, methods=["POST"]),
            _posted("/v1/preview", PreviewRequest, service.preview),
            _posted("/v1/restore", RestoreRequest, service.restore),
            _posted("/v1/release", ReleaseRequest, service.release),
            _posted("/v1/pause", PauseRequest, service.pause),
            _posted("/v1/resume", PauseRequest, service.resume),
            _posted("/v1/remove", RemoveRequest, service.remove),
            _posted("/v1/tags", TagRequest, service.tag),
            Route("/v1/tags/{name:path}", untag, methods=["DELETE"]),
            _got("/v1/log", log_),
            _got("/v1/diff", diff),
            _posted("/v1/check", CheckRequest, service.check),
            _posted("/v1/backup", BackupRequest, service.backup),
            _posted("/v1/rebuild", RebuildRequest, service.rebuild),
            _posted("/v1/gc", GcRequest, service.gc),
            _posted("/v1/purge", PurgeRequest, service.purge),
            _got("/v1/schedule", lambda _: service.schedule()),
            _got("/v1/status", lambda _: service.status()),
            _got("/v1/sources", sources),
            _got("/v1/health", lambda _: service.health()),
        ],
        exception_handlers={**handlers, HTTPException: _http_error, Exception: _unexpected},
    )
