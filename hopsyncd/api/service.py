"""What the daemon offers to its clients: one method for each endpoint of the API."""

from concurrent.futures import Future
from typing import Any, Protocol

from hopsyncd.api.access import Caller
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

Json = dict[str, Any]
Soon = Future[Json]  # of what the writer's thread does


class Service(Protocol):
    """Answers are those of serve/answers*.py.

    A method is named in the endpoint's row of api/endpoints.py, which says what it is for.
    """

    def query(self, request: QueryRequest, caller: Caller, listener: Listener) -> Json: ...

    def queries(self, request: QueriesRequest, caller: Caller, listener: Listener) -> Json: ...

    def ask(self, request: AskRequest, caller: Caller, listener: Listener) -> Json: ...

    def passage(self, request: PassageRequest, caller: Caller) -> Json: ...

    def documents(self, request: DocumentsRequest, caller: Caller) -> Json: ...

    def document(self, request: DocumentRequest, caller: Caller) -> Json: ...

    def neighbours(self, request: NeighboursRequest, caller: Caller) -> Json: ...

    def paths(self, request: PathsRequest, caller: Caller) -> Json: ...

    def log(self, request: LogRequest, caller: Caller) -> Json: ...

    def diff(self, request: DiffRequest, caller: Caller) -> Json: ...

    def status(self, request: NoParameters, caller: Caller) -> Json: ...

    def sources(self, request: NoParameters, caller: Caller) -> Json: ...

    def health(self, request: NoParameters, caller: Caller) -> Json: ...

    def schedule(self, request: NoParameters, caller: Caller) -> Json: ...

    def jobs(self, request: NoParameters, caller: Caller) -> Json: ...

    def stats(self, request: NoParameters, caller: Caller) -> Json: ...

    def metrics(self, request: NoParameters, caller: Caller) -> str: ...

    def openapi(self, request: NoParameters, caller: Caller) -> Json: ...

    def sync(self, request: SyncRequest, caller: Caller) -> Soon: ...

    def preview(self, request: PreviewRequest, caller: Caller) -> Json: ...

    def restore(self, request: RestoreRequest, caller: Caller) -> Soon: ...

    def release(self, request: ReleaseRequest, caller: Caller) -> Soon: ...

    def pause(self, request: PauseRequest, caller: Caller) -> Soon: ...

    def resume(self, request: PauseRequest, caller: Caller) -> Soon: ...

    def remove(self, request: RemoveRequest, caller: Caller) -> Soon: ...

    def tag(self, request: TagRequest, caller: Caller) -> Soon: ...

    def untag(self, request: UntagRequest, caller: Caller) -> Soon: ...

    def check(self, request: CheckRequest, caller: Caller, listener: Listener) -> Json: ...

    def backup(self, request: BackupRequest, caller: Caller) -> Json: ...

    def reload(self, request: ReloadRequest, caller: Caller) -> Json: ...

    def rebuild(self, request: RebuildRequest, caller: Caller) -> Soon: ...

    def gc(self, request: GcRequest, caller: Caller) -> Soon: ...

    def purge(self, request: PurgeRequest, caller: Caller) -> Soon: ...

    def progress(self) -> Json | None:
        """How far the sync is that runs now; None when none does."""
        ...

    def note(self, operation: str, status: int, took_ms: float) -> None:
        """Count a request that was answered."""
        ...
