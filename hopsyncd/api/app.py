"""The HTTP application: a route for each endpoint, over the services."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.admin_service import AdminService
from hopsyncd.api.audit import FoundSummary, select_recorded, summarize_answer
from hopsyncd.api.audit_service import AuditService
from hopsyncd.api.backup_service import BackupService
from hopsyncd.api.collection_service import CollectionService
from hopsyncd.api.endpoints import (
    NDJSON,
    Endpoint,
    build_openapi_document,
    endpoint,
    list_endpoints,
)
from hopsyncd.api.failures import INTERNAL, describe_bad_request, make_failure, make_failure_body
from hopsyncd.api.metrics import Load
from hopsyncd.api.read_service import ReadService
from hopsyncd.api.requests import NoParameters, SyncRequest
from hopsyncd.api.status_service import StatusService
from hopsyncd.api.watch_service import WatchService
from hopsyncd.api.worker_pools import (
    CLIENT_GONE,
    ClientGone,
    Listener,
    Run,
    Work,
    WorkerPools,
    make_worker_pools,
    stream_event_lines,
    wait_for_result,
    wait_while_connected,
)
from hopsyncd.config.values import AuditConfig, LimitsConfig
from hopsyncd.errors import REPORTABLE, BadRequest
from store.exceptions import ServerLost


class DescriptionService:
    @endpoint("GET", "/v1/openapi.json", "read")
    def openapi(self, request: NoParameters, caller: Caller) -> dict[str, Any]:
        """Return the OpenAPI 3.1 document."""
        return build_openapi_document(ENDPOINTS)


@dataclass(frozen=True, slots=True)
class Services:
    """All services, by name. Each endpoint names its service."""

    reading: ReadService
    collection: CollectionService
    status: StatusService
    watches: WatchService
    administration: AdminService
    backups: BackupService
    audit: AuditService
    description: DescriptionService


ENDPOINTS = list_endpoints(Services)


log = structlog.get_logger(__name__)

MAX_BODY_BYTES = 1 << 20


def make_app(services: Services, pools: WorkerPools | None = None) -> Starlette:
    """Create the ASGI application over the services.

    The guard must have stored the caller in the state of each request. For the audit log, the
    application adds `action`, `asked`, `found` and `outcome` to the state of audited requests.
    `outcome` is the status at the end of the work; the HTTP status of a stream is always 200.
    """
    pools = pools or make_worker_pools(LimitsConfig(), Load())
    app = Starlette(
        routes=[_route(endpoint, services, pools) for endpoint in ENDPOINTS],
        exception_handlers={HTTPException: _report_http_error, Exception: _report_unexpected},
    )
    app.router.redirect_slashes = False  # a redirect has no JSON body, which clients expect
    return app


def get_caller(request: Request) -> Caller:
    """Return the caller from the request's state, where the guard stored it."""
    caller: Caller = request.state.caller
    return caller


def _route(endpoint: Endpoint, services: Services, pools: WorkerPools) -> Route:
    async def answer(request: Request) -> Response:
        began_s = time.perf_counter()

        def note(status: int) -> None:
            request.state.outcome = status
            services.status.note(endpoint.operation, status, (time.perf_counter() - began_s) * 1000)

        try:
            response = await _respond(request, endpoint, services, pools, note)
        except (ClientGone, ClientDisconnect):
            response = Response(status_code=CLIENT_GONE)
        except REPORTABLE as error:
            status, body = make_failure(error)
            response = JSONResponse(body, status)
        except Exception:
            note(500)
            raise
        if not isinstance(response, StreamingResponse):
            note(response.status_code)
        return response

    return Route(endpoint.path.replace("}", ":name}"), answer, methods=[endpoint.method])


class _Name(Convertor[str]):
    """A path parameter with a name that may contain slashes and line breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _Name())


async def _respond(
    request: Request,
    endpoint: Endpoint,
    services: Services,
    pools: WorkerPools,
    note: Callable[[int], None],
) -> Response:
    """Answer a request. Raises one of REPORTABLE, or ClientGone.

    A stream records its own outcome with `note`.
    """
    caller = get_caller(request)
    changes = endpoint.right in ("write", "admin", "owner") and endpoint.method != "GET"
    recorded = changes or endpoint.service == "audit"
    audit: AuditConfig | None = getattr(request.state, "audit", None)
    reads = endpoint.service in ("reading", "collection", "watches") and not recorded
    audits_reads = reads and audit is not None and audit.enabled
    if recorded or audits_reads:
        request.state.action = endpoint.operation
    caller.require_right(endpoint.right)
    parsed = await _parse(request, endpoint)
    if recorded:
        request.state.asked = parsed.model_dump(mode="json", exclude_unset=True)
    operation = getattr(getattr(services, endpoint.service), endpoint.operation)
    act: Callable[..., Any] = partial(operation, parsed, caller)
    if audits_reads and audit is not None:
        request.state.asked = select_recorded(parsed, audit.questions)
        act = partial(_note_found, request, act)
    if isinstance(parsed, SyncRequest) and not parsed.wait:
        act()
        return JSONResponse({"accepted": True}, 202)

    run = _make_runner(services, pools, endpoint, parsed, caller)

    def work(listener: Listener) -> Work:
        return partial(act, listener) if endpoint.listens else act

    if endpoint.streams and NDJSON in request.headers.get("accept", ""):
        progress = (lambda: None) if endpoint.listens else services.status.measure_progress
        return StreamingResponse(stream_event_lines(work, progress, run, note), media_type=NDJSON)
    listener = Listener()
    whole = work(listener)
    if endpoint.right in ("read", "health"):
        whole = partial(_read, whole)
    result = await wait_while_connected(request, listener, wait_for_result(whole, run))
    if isinstance(result, str):
        return Response(result, media_type=endpoint.media_type)
    return JSONResponse(result)


def _note_found(request: Request, act: Callable[..., Any], *listeners: Listener) -> Any:
    """Call `act`, and store a summary of its answer for the audit log.

    If the client disconnects during a stream, the summary describes the results so far.
    """

    def note(sources: Collection[str], results: int) -> None:
        request.state.found = FoundSummary(tuple(sorted(sources)), results)

    for listener in listeners:
        listener.note_found = note
    answer = act(*listeners)
    request.state.found = summarize_answer(answer)
    return answer


def _read(work: Work) -> Any:
    """Do the work. If the connection to the database server is lost, try once more."""
    try:
        return work()
    except ServerLost:
        return work()


def _make_runner(
    services: Services, pools: WorkerPools, endpoint: Endpoint, parsed: Any, caller: Caller
) -> Run:
    """Return the function that runs the work: in a pool, or directly.

    Long admin work and health checks run directly.
    """
    if endpoint.right != "read":
        return run_in_threadpool
    by_llm = getattr(parsed, "wants_llm", False) and services.reading.has_llm
    pool = pools.llm if by_llm else pools.processor
    return partial(pool.run, caller.credentials)


async def _parse(request: Request, endpoint: Endpoint) -> Any:
    """Parse and validate a request. Raises BadRequest with the field and the reason."""
    model, parameters = endpoint.request, request.query_params
    paths = request.path_params
    repeated = [name for name in parameters if len(parameters.getlist(name)) > 1 or name in paths]
    if repeated or (endpoint.method == "POST" and parameters):
        name = next(iter(repeated or parameters))
        why, hint = "is given twice", "Give each field once"
        if not repeated:
            why, hint = "is in the query string", "Put the parameter into the JSON body"
        raise BadRequest("The request was refused", f"{name}: the parameter {why}", hint)
    try:
        if endpoint.method == "POST":
            return model.model_validate_json(await _read_body(request) or b"{}")
        return model.model_validate({**parameters, **paths})
    except ValidationError as error:
        raise describe_bad_request(error, model) from error


async def _read_body(request: Request) -> bytes:
    received = bytearray()
    async for part in request.stream():
        received += part
        if len(received) > MAX_BODY_BYTES:
            raise BadRequest(
                "The request was refused",
                f"the body is longer than {MAX_BODY_BYTES:,} bytes",
                "Send a smaller body; docs/reference/limits.md lists the limits",
            )
    return bytes(received)


async def _report_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    body = make_failure_body(
        code,
        f"{request.method} {request.url.path}: {error.detail.lower()}",
        "docs/reference/http-api.md lists the endpoints",
    )
    return JSONResponse(body, error.status_code, error.headers)


async def _report_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", path=request.url.path, exc_info=error)
    return JSONResponse(INTERNAL, 500)
