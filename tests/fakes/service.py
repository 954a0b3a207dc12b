"""A service that remembers what the API asked of it, and how its errors look."""

from concurrent.futures import Future
from dataclasses import fields
from typing import Any, cast

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.app import Services
from hopsyncd.api.requests import AskRequest, QueryRequest, SyncRequest
from hopsyncd.api.worker_pools import Listener

WRITES = {"release", "restore", "tag", "untag", "rebuild", "gc", "purge", "pause", "resume"}


class FakeService:
    """Remembers what it was asked; `error` is raised in place of an answer."""

    def __init__(self) -> None:
        self.queries: list[QueryRequest] = []
        self.syncs: list[SyncRequest] = []
        self.noted: list[tuple[str, int]] = []
        self.done: Future[dict[str, Any]] = Future()
        self.error: Exception | None = None

    def query(self, request: QueryRequest, _: Caller, __: Listener) -> dict[str, Any]:
        self.queries.append(request)
        self._fail()
        return {"version": 7, "passages": []}

    def ask(self, request: AskRequest, _: Caller, listener: Listener) -> dict[str, Any]:
        listener.tell("progress", stage="search")
        self._fail()
        listener.tell("text", text="It was in London.")
        return {"asked": "ask", "given": repr(request)}

    def sync(self, request: SyncRequest, _: Caller) -> "Future[dict[str, Any]]":
        self.syncs.append(request)
        self._fail()
        return self.done

    def measure_progress(self) -> dict[str, Any] | None:
        return {"source": "notes", "share": 0.5}

    def note(self, operation: str, status: int, _: float) -> None:
        self.noted.append((operation, status))

    def __getattr__(self, name: str) -> Any:
        """Every other request is answered with its own name and what was asked."""

        def answer(request: Any, _: Caller, *__: Listener) -> Any:
            self._fail()
            done: Future[dict[str, Any]] = Future()
            done.set_result({"asked": name, "given": request.model_dump()})
            return done if name in WRITES else done.result()

        return answer

    def _fail(self) -> None:
        if self.error:
            raise self.error


def services_of(service: FakeService) -> Services:
    """Services of which each is the fake."""
    return Services(*cast(Any, [service] * len(fields(Services))))


def refused(response: Any, status: int, code: str) -> str:
    """The message of an error that has all its parts."""
    assert response.status_code == status
    assert response.json().keys() == {"error"}
    error = response.json()["error"]
    assert error.keys() == {"code", "message", "hint"}
    assert error["code"] == code
    assert error["hint"]
    return str(error["message"])
