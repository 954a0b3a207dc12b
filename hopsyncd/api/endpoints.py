"""The one declaration of every endpoint, and the OpenAPI document made from it.

An endpoint is a method of `Service`: the decorator has its path and right, the types have its
request and answer, the docstring is its summary. The routes (api/app.py), both clients
(client/calls.py) and the reference in docs/api.md come from here, and mypy holds the
implementation to the types.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from hopsyncd import __version__
from hopsyncd.answers.changed import (
    Accepted,
    BackupAnswer,
    CheckAnswer,
    DiffAnswer,
    GcAnswer,
    LogAnswer,
    PauseAnswer,
    PreviewAnswer,
    PurgeAnswer,
    RebuildAnswer,
    ReloadAnswer,
    RemoveAnswer,
    RestoreAnswer,
    SyncAnswer,
    TagAnswer,
    UntagAnswer,
)
from hopsyncd.answers.daemon_state import (
    HealthAnswer,
    JobsAnswer,
    ScheduleAnswer,
    SourcesAnswer,
    StatsAnswer,
    StatusAnswer,
    SyncProgress,
)
from hopsyncd.answers.found import (
    AskAnswer,
    DocumentAnswer,
    DocumentsAnswer,
    ErrorEvent,
    Event,
    Failed,
    NeighboursAnswer,
    PassageAnswer,
    PathsAnswer,
    QueriesAnswer,
    QueryAnswer,
)
from hopsyncd.api.access import Caller
from hopsyncd.api.metrics import METRICS_TYPE
from hopsyncd.api.requests import (
    AskRequest,
    BackupRequest,
    CheckRequest,
    DiffRequest,
    DocumentRequest,
    DocumentsRequest,
    GcRequest,
    LogRequest,
    NeighboursRequest,
    NoParameters,
    PassageRequest,
    PathsRequest,
    PauseRequest,
    PreviewRequest,
    PurgeRequest,
    QueriesRequest,
    QueryRequest,
    RebuildRequest,
    ReleaseRequest,
    ReloadRequest,
    RemoveRequest,
    RestoreRequest,
    SyncRequest,
    TagRequest,
    UntagRequest,
)
from hopsyncd.api.streaming import Listener

NDJSON = "application/x-ndjson"
_REF = "#/components/schemas/{model}"
_FAILED, _EVENTS, _ACCEPTED = "Failed", "Event", "Accepted"

Method = Literal["GET", "POST", "DELETE"]
Right = Literal["read", "admin"]
Operation = TypeVar("Operation", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`operation` names the method of the service that answers.

    request: the body of a POST; otherwise the path and query parameters. listens: the work takes a
    Listener, and ends if its client goes away. streams: the client may ask for NDJSON events.
    may_accept: the client may ask for `Accepted` at once, before the work is done.
    """

    method: Method
    path: str
    right: Right
    operation: str
    summary: str
    request: type[BaseModel]
    answer: Any
    listens: bool = False
    streams: bool = False
    may_accept: bool = False
    media_type: str = "application/json"


_declared: list[Endpoint] = []


def endpoint(
    method: Method,
    path: str,
    right: Right,
    *,
    streams: bool = False,
    may_accept: bool = False,
    media_type: str = "application/json",
) -> Callable[[Operation], Operation]:
    """Declare that the decorated method answers `method path` for callers with the right."""

    def declare(operation: Operation) -> Operation:
        hints = get_type_hints(operation)
        answer = hints["return"]
        _declared.append(
            Endpoint(
                method,
                path,
                right,
                operation.__name__,
                (operation.__doc__ or "").partition("\n")[0].rstrip("."),
                hints["request"],
                get_args(answer)[0] if get_origin(answer) is Future else answer,
                "listener" in hints,
                streams,
                may_accept,
                media_type,
            )
        )
        return operation

    return declare


class Service(Protocol):
    """What the daemon offers its clients. A Future is work for the writer's thread."""

    @endpoint("POST", "/v1/query", "read")
    def query(self, request: QueryRequest, caller: Caller, listener: Listener) -> QueryAnswer:
        """Find the passages that answer a question, best first."""

    @endpoint("POST", "/v1/queries", "read")
    def queries(self, request: QueriesRequest, caller: Caller, listener: Listener) -> QueriesAnswer:
        """Answer up to 100 queries, those with the same `at` at one version."""

    @endpoint("POST", "/v1/ask", "read", streams=True)
    def ask(self, request: AskRequest, caller: Caller, listener: Listener) -> AskAnswer:
        """Answer a question, with citations."""

    @endpoint("GET", "/v1/passages/{id}", "read")
    def passage(self, request: PassageRequest, caller: Caller) -> PassageAnswer:
        """A passage, and the questions that it answers and raises."""

    @endpoint("GET", "/v1/documents", "read")
    def documents(self, request: DocumentsRequest, caller: Caller) -> DocumentsAnswer:
        """A page of the documents, by source and path; pass its `next` as `after` for more."""

    @endpoint("GET", "/v1/document", "read")
    def document(self, request: DocumentRequest, caller: Caller) -> DocumentAnswer:
        """The passages of a document, in reading order."""

    @endpoint("GET", "/v1/neighbours/{id}", "read")
    def neighbours(self, request: NeighboursRequest, caller: Caller) -> NeighboursAnswer:
        """The passages around one in the graph."""

    @endpoint("GET", "/v1/paths", "read")
    def paths(self, request: PathsRequest, caller: Caller) -> PathsAnswer:
        """The paths from one passage to another, the shortest first."""

    @endpoint("GET", "/v1/log", "read")
    def log(self, request: LogRequest, caller: Caller) -> LogAnswer:
        """Versions, newest first."""

    @endpoint("GET", "/v1/diff", "read")
    def diff(self, request: DiffRequest, caller: Caller) -> DiffAnswer:
        """What differs between two versions."""

    @endpoint("GET", "/v1/status", "read")
    def status(self, request: NoParameters, caller: Caller) -> StatusAnswer:
        """The state of the daemon and its sources."""

    @endpoint("GET", "/v1/sources", "read")
    def sources(self, request: NoParameters, caller: Caller) -> SourcesAnswer:
        """The state of the sources."""

    @endpoint("GET", "/v1/health", "read")
    def health(self, request: NoParameters, caller: Caller) -> HealthAnswer:
        """Whether the daemon serves; cheap to ask."""

    @endpoint("GET", "/v1/schedule", "read")
    def schedule(self, request: NoParameters, caller: Caller) -> ScheduleAnswer:
        """The scheduled jobs, with their last runs."""

    @endpoint("GET", "/v1/jobs", "read")
    def jobs(self, request: NoParameters, caller: Caller) -> JobsAnswer:
        """The sync that runs now, and the scheduled jobs."""

    @endpoint("GET", "/v1/stats", "read")
    def stats(self, request: NoParameters, caller: Caller) -> StatsAnswer:
        """Requests since the start, by endpoint."""

    @endpoint("GET", "/v1/metrics", "admin", media_type=METRICS_TYPE)
    def metrics(self, request: NoParameters, caller: Caller) -> str:
        """Metrics in Prometheus's text format."""

    @endpoint("POST", "/v1/reload", "admin")
    def reload(self, request: ReloadRequest, caller: Caller) -> ReloadAnswer:
        """Apply the changed configuration."""

    @endpoint("GET", "/v1/openapi.json", "read")
    def openapi(self, request: NoParameters, caller: Caller) -> dict[str, Any]:
        """The OpenAPI 3.1 document."""

    @endpoint("POST", "/v1/sync", "admin", streams=True, may_accept=True)
    def sync(self, request: SyncRequest, caller: Caller) -> Future[SyncAnswer]:
        """Scan sources, and bring the graph up to date with what is on disk now."""

    @endpoint("POST", "/v1/preview", "admin")
    def preview(self, request: PreviewRequest, caller: Caller) -> PreviewAnswer:
        """What a sync would do and cost; only reads."""

    @endpoint("POST", "/v1/restore", "admin")
    def restore(self, request: RestoreRequest, caller: Caller) -> Future[RestoreAnswer]:
        """Commit a version whose documents are those of an earlier one."""

    @endpoint("POST", "/v1/release", "admin", streams=True)
    def release(self, request: ReleaseRequest, caller: Caller) -> Future[SyncAnswer]:
        """End the pins of restores, and sync."""

    @endpoint("POST", "/v1/pause", "admin")
    def pause(self, request: PauseRequest, caller: Caller) -> Future[PauseAnswer]:
        """Leave a source alone until it is resumed."""

    @endpoint("POST", "/v1/resume", "admin")
    def resume(self, request: PauseRequest, caller: Caller) -> Future[PauseAnswer]:
        """End a pause."""

    @endpoint("POST", "/v1/remove", "admin")
    def remove(self, request: RemoveRequest, caller: Caller) -> Future[RemoveAnswer]:
        """Remove a source's documents from the newest version, or from all."""

    @endpoint("POST", "/v1/tags", "admin")
    def tag(self, request: TagRequest, caller: Caller) -> Future[TagAnswer]:
        """Name a version."""

    @endpoint("DELETE", "/v1/tags/{name}", "admin")
    def untag(self, request: UntagRequest, caller: Caller) -> Future[UntagAnswer]:
        """Remove the name of a version."""

    @endpoint("POST", "/v1/check", "admin", streams=True)
    def check(self, request: CheckRequest, caller: Caller, listener: Listener) -> CheckAnswer:
        """Verify the database."""

    @endpoint("POST", "/v1/backup", "admin")
    def backup(self, request: BackupRequest, caller: Caller) -> BackupAnswer:
        """Copy the database to an absolute path that does not exist."""

    @endpoint("POST", "/v1/rebuild", "admin")
    def rebuild(self, request: RebuildRequest, caller: Caller) -> Future[RebuildAnswer]:
        """Compute again all that is derived from passages and questions."""

    @endpoint("POST", "/v1/gc", "admin")
    def gc(self, request: GcRequest, caller: Caller) -> Future[GcAnswer]:
        """Collect the versions that the configuration does not keep."""

    @endpoint("POST", "/v1/purge", "admin")
    def purge(self, request: PurgeRequest, caller: Caller) -> Future[PurgeAnswer]:
        """Remove a document from every version; with `again`, let scans index it once more."""

    def progress(self) -> SyncProgress | None:
        """How far the current sync is; None if none runs."""

    def note(self, operation: str, status: int, took_ms: float) -> None:
        """Count an answered request."""


ENDPOINTS = tuple(_declared)


@cache
def openapi_document() -> dict[str, Any]:
    """Every endpoint with its request, its answer and its errors, in OpenAPI 3.1."""
    answers, schemas = _answer_schemas(ENDPOINTS)
    bodies = [one.request for one in ENDPOINTS if one.method == "POST"]
    _, found = models_json_schema([(one, "validation") for one in bodies], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for one in ENDPOINTS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, answers)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hopsyncd",
            "version": __version__,
            "description": "A versioned multi-hop knowledge graph of a person's documents.",
        },
        "servers": [{"url": "http://hopsyncd", "description": "the daemon's Unix socket"}],
        "paths": paths,
        "components": {"schemas": schemas | found["$defs"]},
    }


def _answer_schemas(
    endpoints: Iterable[Endpoint],
) -> tuple[Mapping[str, dict[str, Any]], dict[str, Any]]:
    """The schema of each operation's answer, and the schemas that those refer to."""
    wanted = {one.operation: one.answer for one in endpoints}
    wanted |= {_FAILED: Failed, _EVENTS: Event | ErrorEvent, _ACCEPTED: Accepted}
    made, whole = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(answer)) for name, answer in wanted.items()],
        ref_template=_REF,
    )
    return {name: schema for (name, _), schema in made.items()}, whole["$defs"]


def _operation(one: Endpoint, answers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    failure = {"content": {"application/json": {"schema": answers[_FAILED]}}}
    content = {one.media_type: {"schema": answers[one.operation]}}
    if one.streams:
        content[NDJSON] = {"schema": answers[_EVENTS]}
    responses = {
        "200": {"description": one.summary, "content": content},
        "4XX": {"description": "The request was refused", **failure},
        "5XX": {"description": "The daemon could not answer", **failure},
    }
    if one.may_accept:
        accepted = {"application/json": {"schema": answers[_ACCEPTED]}}
        responses["202"] = {"description": "The work has begun", "content": accepted}
    made: dict[str, Any] = {
        "operationId": one.operation,
        "summary": one.summary,
        "description": f"Needs the right `{one.right}`.",
        "responses": responses,
    }
    if one.method == "POST":
        schema = {"$ref": _REF.format(model=one.request.__name__)}
        made["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        made["requestBody"]["required"] = _has_required(one)
    else:
        made["parameters"] = _parameters(one)
    return made


def _has_required(one: Endpoint) -> bool:
    return any(field.is_required() for field in one.request.model_fields.values())


def _parameters(one: Endpoint) -> list[dict[str, Any]]:
    schema = one.request.model_json_schema()
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in one.path else "query",
            "required": name in required,
            "schema": _given(field),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _given(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that is given: a query string cannot say null."""
    kinds = [one for one in field.pop("anyOf", ()) if one != {"type": "null"}]
    whole = field | dict(*kinds)
    return {key: value for key, value in whole.items() if key != "title" and value is not None}
