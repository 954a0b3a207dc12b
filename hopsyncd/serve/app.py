"""The HTTP API under /v1/: what each request is, and how errors look."""

import asyncio
from concurrent.futures import Future
from typing import Any, Literal, Protocol, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hopsyncd.errors import REPORTABLE, BadRequest
from store.errors import NoSuchVersion, TagRefused

log = structlog.get_logger(__name__)

MAX_BODY_BYTES = 1 << 20
MAX_QUESTION_CHARACTERS = 10_000
_MAX_NUMBER = 1_000_000_000

Strategy = Literal["hop", "bm25", "dense", "hybrid"]


class QueryRequest(BaseModel):
    """The body of POST /v1/query; None takes the configured default."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS, pattern=r"\S")
    k: int | None = Field(default=None, ge=1, le=1000)
    strategy: Strategy | None = None
    at: str = Field(default="head", min_length=1, max_length=200)


class SyncRequest(BaseModel):
    """The body of POST /v1/sync: which sources (none: all), and how."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    sources: tuple[str, ...] = Field(default=(), strict=False)
    wait: bool = True
    accept_empty: bool = False


class RestoreRequest(BaseModel):
    """The body of POST /v1/restore: which version, and which sources (none: all)."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: str = Field(min_length=1, max_length=200)
    sources: tuple[str, ...] = Field(default=(), strict=False)


class ReleaseRequest(BaseModel):
    """The body of POST /v1/release: which sources (none: all)."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    sources: tuple[str, ...] = Field(default=(), strict=False)


class TagRequest(BaseModel):
    """The body of POST /v1/tags."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100)
    version: str = Field(default="head", min_length=1, max_length=200)


class Service(Protocol):
    """What the daemon offers to its clients."""

    def query(self, request: QueryRequest) -> dict[str, Any]:
        """Answer a question."""
        ...

    def sync(self, request: SyncRequest) -> "Future[dict[str, Any]]":
        """Scan and apply; the future resolves when the served version has it all."""
        ...

    def restore(self, request: RestoreRequest) -> "Future[dict[str, Any]]":
        """Commit a version equal to an earlier one."""
        ...

    def release(self, request: ReleaseRequest) -> "Future[dict[str, Any]]":
        """End what restores hold, and sync."""
        ...

    def tag(self, request: TagRequest) -> "Future[dict[str, Any]]":
        """Name a version."""
        ...

    def untag(self, name: str) -> "Future[dict[str, Any]]":
        """Remove a name."""
        ...

    def log(self, limit: int, before: int | None) -> dict[str, Any]:
        """Versions, newest first."""
        ...

    def diff(self, old: str, new: str) -> dict[str, Any]:
        """What differs between two versions."""
        ...

    def status(self) -> dict[str, Any]:
        """How the daemon and its sources are."""
        ...

    def health(self) -> dict[str, Any]:
        """Whether it serves, cheaply."""
        ...


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
    if isinstance(error, TagRefused):
        return _failure(409, "tag_refused", f"{what}: {why}", hint)
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


def _number(request: Request, name: str, default: int | None) -> int | None:
    """A positive number among the query's parameters. Raises BadRequest."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not given.isdecimal() or not 1 <= int(given) <= _MAX_NUMBER:
        raise BadRequest(
            "The request was refused",
            f"{name}: {given!r} is no number from 1 to {_MAX_NUMBER}",
            "docs/api.md describes the parameters",
        )
    return int(given)


def make_app(service: Service) -> Starlette:
    """The ASGI application over a service."""

    async def query(request: Request) -> JSONResponse:
        body = await _body(request, QueryRequest)
        return JSONResponse(await run_in_threadpool(service.query, body))

    async def sync(request: Request) -> JSONResponse:
        body = await _body(request, SyncRequest)
        done = service.sync(body)
        if not body.wait:
            return JSONResponse({"accepted": True}, status_code=202)
        return JSONResponse(await asyncio.wrap_future(done))

    async def restore(request: Request) -> JSONResponse:
        return JSONResponse(
            await asyncio.wrap_future(service.restore(await _body(request, RestoreRequest)))
        )

    async def release(request: Request) -> JSONResponse:
        return JSONResponse(
            await asyncio.wrap_future(service.release(await _body(request, ReleaseRequest)))
        )

    async def tag(request: Request) -> JSONResponse:
        return JSONResponse(
            await asyncio.wrap_future(service.tag(await _body(request, TagRequest)))
        )

    async def untag(request: Request) -> JSONResponse:
        return JSONResponse(await asyncio.wrap_future(service.untag(request.path_params["name"])))

    async def log_(request: Request) -> JSONResponse:
        limit, before = _number(request, "limit", 20), _number(request, "before", None)
        return JSONResponse(await run_in_threadpool(service.log, limit or 1, before))

    async def diff(request: Request) -> JSONResponse:
        ends = [request.query_params.get(end, "head") for end in ("from", "to")]
        return JSONResponse(await run_in_threadpool(service.diff, *ends))

    async def status(_: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(service.status))

    async def sources(_: Request) -> JSONResponse:
        whole = await run_in_threadpool(service.status)
        return JSONResponse({"version": whole["version"], "sources": whole["sources"]})

    async def health(_: Request) -> JSONResponse:
        return JSONResponse(service.health())

    handlers: dict[Any, Any] = dict.fromkeys(REPORTABLE, _reportable)
    return Starlette(
        routes=[
            Route("/v1/query", query, methods=["POST"]),
            Route("/v1/sync", sync, methods=["POST"]),
            Route("/v1/restore", restore, methods=["POST"]),
            Route("/v1/release", release, methods=["POST"]),
            Route("/v1/tags", tag, methods=["POST"]),
            Route("/v1/tags/{name:path}", untag, methods=["DELETE"]),
            Route("/v1/log", log_),
            Route("/v1/diff", diff),
            Route("/v1/status", status),
            Route("/v1/sources", sources),
            Route("/v1/health", health),
        ],
        exception_handlers={**handlers, HTTPException: _http_error, Exception: _unexpected},
    )
