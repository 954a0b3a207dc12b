"""The HTTP API over a small service: answers line by line, who may ask, and whose turn it is."""

import asyncio
import json
import threading
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.app import ENDPOINTS, make_app
from hopsyncd.api.audit import FoundSummary
from hopsyncd.api.endpoints import NDJSON
from hopsyncd.api.metrics import Load
from hopsyncd.api.requests import AskRequest, QueryRequest
from hopsyncd.api.worker_pools import FairQueue, Listener, WorkerPools, make_worker_pools
from hopsyncd.config.values import AuditConfig, LimitsConfig
from hopsyncd.errors import BadRequest
from hopsyncd.retrieve.visible_sources import EVERYTHING
from tests.fakes.owner import OWNER, as_owner
from tests.fakes.service import FakeService, refused, services_of


def lines(answer: Any) -> list[dict[str, Any]]:
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_streamed_ask_tells_what_it_does_then_the_text_then_the_answer(
    client: TestClient,
) -> None:
    body = {"question": "where?"}
    answer = client.post("/v1/ask", json=body, headers={"accept": NDJSON})
    *told, last = lines(answer)
    assert told == [
        {"event": "progress", "stage": "search"},
        {"event": "text", "text": "It was in London."},
    ]
    assert last == {"event": "answer", "answer": client.post("/v1/ask", json=body).json()}


class Reporting(FakeService):
    """Done when its progress has been asked for twice."""

    asked = 0

    def measure_progress(self) -> dict[str, Any] | None:
        self.asked += 1
        if self.asked == 2:
            self.done.set_result({"version": 8})
        return super().measure_progress()


def test_a_streamed_sync_tells_its_progress() -> None:
    client = TestClient(as_owner(make_app(services_of(Reporting()))))
    reply = lines(client.post("/v1/sync", headers={"accept": NDJSON}))
    assert reply == [
        {"event": "progress", "source": "notes", "share": 0.5},
        {"event": "answer", "answer": {"version": 8}},
    ]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BadRequest("No", "no such thing", "Ask"), 400, "bad_request"),
        (RuntimeError("x"), 500, "internal"),
    ],
)
def test_a_stream_that_fails_ends_with_the_error_and_is_counted_as_one(
    client: TestClient, service: FakeService, error: Exception, status: int, code: str
) -> None:
    service.error = error
    answer = client.post("/v1/ask", json={"question": "where?"}, headers={"accept": NDJSON})
    last = lines(answer)[-1]
    assert (last["event"], last["status"], last["error"]["code"]) == ("error", status, code)
    assert service.noted == [("ask", status)]


def test_a_caller_with_the_read_right_cannot_change_anything(service: FakeService) -> None:
    async def read_only(scope: Any, receive: Any, send: Any) -> None:
        scope.setdefault("state", {})["caller"] = Caller("guest", "read", EVERYTHING)
        await app(scope, receive, send)

    app = make_app(services_of(service))
    client = TestClient(read_only)
    for endpoint in ENDPOINTS:
        if endpoint.right in ("metrics", "admin", "owner"):
            answer = client.request(endpoint.method, endpoint.path)
            refused(answer, 403, "forbidden")
    assert client.get("/v1/health").status_code == 200
    assert service.syncs == []


def test_without_a_caller_nothing_is_answered(service: FakeService) -> None:
    client = TestClient(make_app(services_of(service)), raise_server_exceptions=False)
    refused(client.post("/v1/query", json={"question": "who?"}), 500, "internal")
    assert service.queries == []


@pytest.mark.parametrize("named", [{"llm": True}, {}], ids=["named", "by default"])
def test_a_request_waiting_for_an_llm_does_not_block_other_requests(named: dict[str, bool]) -> None:
    class Asking(FakeService):
        has_llm = True
        waits, answered = threading.Event(), threading.Event()

        def ask(self, request: AskRequest, _: Caller, listener: Listener) -> dict[str, Any]:
            self.waits.set()
            assert self.answered.wait(60)
            return {"asked": request.question}

    service = Asking()
    pools = make_worker_pools(LimitsConfig(parallel=1, queue=0), Load())
    app = as_owner(make_app(services_of(service), pools))

    async def scenario() -> list[int]:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://hopsyncd") as http:
            asked = {"question": "Who?", **named}
            waiting = asyncio.create_task(http.post("/v1/ask", json=asked))
            assert await asyncio.to_thread(service.waits.wait, 60)
            query = await http.post("/v1/query", json={"question": "Who?"})
            service.answered.set()
            return [query.status_code, (await waiting).status_code]

    assert asyncio.run(scenario()) == [200, 200]


def test_a_query_over_its_time_limit_is_cancelled() -> None:
    class Slow(FakeService):
        told = threading.Event()

        def query(self, request: QueryRequest, _: Caller, listener: Listener) -> dict[str, Any]:
            listener.on_disconnect(self.told.set)
            self.told.wait(60)
            return {}

    service, turns = Slow(), FairQueue(1, 0, 0.1, Load())
    app = as_owner(make_app(services_of(service), WorkerPools(turns, turns)))
    answer = TestClient(app).post("/v1/query", json={"question": "Who?"})
    refused(answer, 503, "timeout")
    assert service.told.is_set()


class Abandoned(FakeService):
    """Fails when it has told what it found."""

    def ask(self, request: AskRequest, caller: Caller, listener: Listener) -> dict[str, Any]:
        listener.note_found({"notes"}, 3)
        raise BadRequest("The answer was not finished", "the client left", "Ask again")


def recorded(service: FakeService, method: str, path: str, **more: Any) -> dict[str, Any]:
    """What the guard finds in the state after a request, with reads recorded."""
    state: dict[str, Any] = {"caller": OWNER, "audit": AuditConfig(enabled=True)}
    app = make_app(services_of(service))

    async def audited(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = state
        await app(scope, receive, send)

    TestClient(audited).request(method, path, **more)
    return state


def test_an_answer_that_breaks_off_is_recorded_with_what_was_found() -> None:
    more = {"json": {"question": "where?"}, "headers": {"accept": NDJSON}}
    state = recorded(Abandoned(), "POST", "/v1/ask", **more)
    assert (state["action"], state["found"]) == ("ask", FoundSummary(("notes",), 3))


def test_reads_of_watches_are_recorded_as_other_reads_are(service: FakeService) -> None:
    state = recorded(service, "GET", "/v1/watches/3")
    assert (state["action"], state["asked"]) == ("watch_changes", {"id": 3})
    assert "found" in state
