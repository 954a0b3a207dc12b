"""Every endpoint of the API, declared once, as a method of what serves it.

The routes, the OpenAPI document, both clients and the reference in docs/api.md are made from these
declarations: path and right from the decorator, what is asked and answered from the types, the
summary from the docstring. mypy holds the implementation to the types.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from hopsyncd.answers.changed import (
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

Method = Literal["GET", "POST", "DELETE"]
Right = Literal["read", "admin"]
Operation = TypeVar("Operation", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`operation` is the method of the service that answers.

    request: what is asked, as the body of a POST, else in the path and as parameters. listens: the
    work is told of the client that waits, and ends with it. streams: it can be answered in NDJSON.
    may_accept: it can be answered before the work is done, by `Accepted`.
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
    """Declare that a method answers `method path`, for callers that have the right."""

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
    """What the daemon offers to its clients. A Future is what the writer's thread does."""

    @endpoint("POST", "/v1/query", "read")
    def query(self, request: QueryRequest, caller: Caller, listener: Listener) -> QueryAnswer:
        """Find the passages that answer a question, best first."""
        ...

    @endpoint("POST", "/v1/queries", "read")
    def queries(self, request: QueriesRequest, caller: Caller, listener: Listener) -> QueriesAnswer:
        """Answer up to 100 queries, those with the same `at` at one version."""
        ...

    @endpoint("POST", "/v1/ask", "read", streams=True)
    def ask(self, request: AskRequest, caller: Caller, listener: Listener) -> AskAnswer:
        """Answer a question, with citations."""
        ...

    @endpoint("GET", "/v1/passages/{id}", "read")
    def passage(self, request: PassageRequest, caller: Caller) -> PassageAnswer:
        """A passage, and the questions that it answers and raises."""
        ...

    @endpoint("GET", "/v1/documents", "read")
    def documents(self, request: DocumentsRequest, caller: Caller) -> DocumentsAnswer:
        """A page of the documents, by source and path; its `next`, as `after`, begins another."""
        ...

    @endpoint("GET", "/v1/document", "read")
    def document(self, request: DocumentRequest, caller: Caller) -> DocumentAnswer:
        """The passages of a document, in reading order."""
        ...

    @endpoint("GET", "/v1/neighbours/{id}", "read")
    def neighbours(self, request: NeighboursRequest, caller: Caller) -> NeighboursAnswer:
        """The passages around one in the graph."""
        ...

    @endpoint("GET", "/v1/paths", "read")
    def paths(self, request: PathsRequest, caller: Caller) -> PathsAnswer:
        """The ways from one passage to another, the shortest first."""
        ...

    @endpoint("GET", "/v1/log", "read")
    def log(self, request: LogRequest, caller: Caller) -> LogAnswer:
        """Versions, newest first."""
        ...

    @endpoint("GET", "/v1/diff", "read")
    def diff(self, request: DiffRequest, caller: Caller) -> DiffAnswer:
        """What differs between two versions."""
        ...

    @endpoint("GET", "/v1/status", "read")
    def status(self, request: NoParameters, caller: Caller) -> StatusAnswer:
        """How the daemon and its sources are."""
        ...

    @endpoint("GET", "/v1/sources", "read")
    def sources(self, request: NoParameters, caller: Caller) -> SourcesAnswer:
        """How the sources are."""
        ...

    @endpoint("GET", "/v1/health", "read")
    def health(self, request: NoParameters, caller: Caller) -> HealthAnswer:
        """Whether the daemon serves, cheaply."""
        ...

    @endpoint("GET", "/v1/schedule", "read")
    def schedule(self, request: NoParameters, caller: Caller) -> ScheduleAnswer:
        """What runs when, and how it last went."""
        ...

    @endpoint("GET", "/v1/jobs", "read")
    def jobs(self, request: NoParameters, caller: Caller) -> JobsAnswer:
        """What runs now, and what runs when."""
        ...

    @endpoint("GET", "/v1/stats", "read")
    def stats(self, request: NoParameters, caller: Caller) -> StatsAnswer:
        """Requests since the start, by endpoint."""
        ...

    @endpoint("GET", "/v1/metrics", "admin", media_type=METRICS_TYPE)
    def metrics(self, request: NoParameters, caller: Caller) -> str:
        """How the daemon is, in Prometheus's text format."""
        ...

    @endpoint("POST", "/v1/reload", "admin")
    def reload(self, request: ReloadRequest, caller: Caller) -> ReloadAnswer:
        """Take up what changed in the configuration."""
        ...

    @endpoint("GET", "/v1/openapi.json", "read")
    def openapi(self, request: NoParameters, caller: Caller) -> dict[str, Any]:
        """The OpenAPI 3.1 document."""
        ...

    @endpoint("POST", "/v1/sync", "admin", streams=True, may_accept=True)
    def sync(self, request: SyncRequest, caller: Caller) -> Future[SyncAnswer]:
        """Scan sources and bring the graph up to date with all that is on disk now."""
        ...

    @endpoint("POST", "/v1/preview", "admin")
    def preview(self, request: PreviewRequest, caller: Caller) -> PreviewAnswer:
        """What a sync would do and cost now, by reading alone."""
        ...

    @endpoint("POST", "/v1/restore", "admin")
    def restore(self, request: RestoreRequest, caller: Caller) -> Future[RestoreAnswer]:
        """Commit a version whose documents are those of an earlier one."""
        ...

    @endpoint("POST", "/v1/release", "admin", streams=True)
    def release(self, request: ReleaseRequest, caller: Caller) -> Future[SyncAnswer]:
        """End what restores hold, and sync."""
        ...

    @endpoint("POST", "/v1/pause", "admin")
    def pause(self, request: PauseRequest, caller: Caller) -> Future[PauseAnswer]:
        """Leave a source alone until it is resumed."""
        ...

    @endpoint("POST", "/v1/resume", "admin")
    def resume(self, request: PauseRequest, caller: Caller) -> Future[PauseAnswer]:
        """End a pause."""
        ...

    @endpoint("POST", "/v1/remove", "admin")
    def remove(self, request: RemoveRequest, caller: Caller) -> Future[RemoveAnswer]:
        """Take a source's documents out of the newest version, or out of all."""
        ...

    @endpoint("POST", "/v1/tags", "admin")
    def tag(self, request: TagRequest, caller: Caller) -> Future[TagAnswer]:
        """Name a version."""
        ...

    @endpoint("DELETE", "/v1/tags/{name}", "admin")
    def untag(self, request: UntagRequest, caller: Caller) -> Future[UntagAnswer]:
        """Remove the name of a version."""
        ...

    @endpoint("POST", "/v1/check", "admin", streams=True)
    def check(self, request: CheckRequest, caller: Caller, listener: Listener) -> CheckAnswer:
        """Verify the database."""
        ...

    @endpoint("POST", "/v1/backup", "admin")
    def backup(self, request: BackupRequest, caller: Caller) -> BackupAnswer:
        """Copy the database to an absolute path that does not exist."""
        ...

    @endpoint("POST", "/v1/rebuild", "admin")
    def rebuild(self, request: RebuildRequest, caller: Caller) -> Future[RebuildAnswer]:
        """Make everything derived anew."""
        ...

    @endpoint("POST", "/v1/gc", "admin")
    def gc(self, request: GcRequest, caller: Caller) -> Future[GcAnswer]:
        """Collect the versions that the configuration does not keep."""
        ...

    @endpoint("POST", "/v1/purge", "admin")
    def purge(self, request: PurgeRequest, caller: Caller) -> Future[PurgeAnswer]:
        """Remove a document from every version, or with `again` let scans index it again."""
        ...

    def progress(self) -> SyncProgress | None:
        """How far the sync is that runs now; None when none does."""
        ...

    def note(self, operation: str, status: int, took_ms: float) -> None:
        """Count a request that was answered."""
        ...


ENDPOINTS = tuple(_declared)
