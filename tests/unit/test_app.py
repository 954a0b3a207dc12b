"""The HTTP API over a small service: what reaches it, what is refused before, how errors look."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from hopsyncd.api.app import MAX_BODY_BYTES
from hopsyncd.api.requests import QueryRequest, SyncRequest
from hopsyncd.errors import BadRequest, HopsyncdError, SyncFailed
from store.exceptions import NoSuchVersion
from tests.fakes.service import FakeService, refused


def test_a_query_reaches_the_service_with_what_was_asked(
    client: TestClient, service: FakeService
) -> None:
    body = {"question": "who?", "k": 3, "strategy": "dense", "at": "5", "profile": "paper"}
    body |= {"reasoner": "llm", "top_k": 7, "n_hop": 2}
    assert client.post("/v1/query", json=body).json() == {"version": 7, "passages": []}
    client.post("/v1/query", json={"question": "who?"})
    assert service.queries == [
        QueryRequest(
            question="who?",
            k=3,
            strategy="dense",
            at="5",
            profile="paper",
            reasoner="llm",
            top_k=7,
            n_hop=2,
        ),
        QueryRequest(question="who?"),
    ]


def test_sync_waits_for_the_result(client: TestClient, service: FakeService) -> None:
    service.done.set_result({"version": 8})
    answer = client.post("/v1/sync", json={"sources": ["notes"], "accept_empty": True})
    assert answer.json() == {"version": 8}
    assert service.syncs == [SyncRequest(sources=("notes",), accept_empty=True)]


def test_sync_without_waiting_is_accepted_at_once(client: TestClient) -> None:
    answer = client.post("/v1/sync", json={"wait": False})
    assert (answer.status_code, answer.json()) == (202, {"accepted": True})


def test_a_sync_without_a_body_scans_all_sources(client: TestClient, service: FakeService) -> None:
    service.done.set_result({})
    assert client.post("/v1/sync").status_code == 200
    assert service.syncs == [SyncRequest()]


def test_a_failed_sync_is_an_error(client: TestClient, service: FakeService) -> None:
    service.done.set_exception(SyncFailed("The sync failed", "the disk is full", "Free some space"))
    assert "the disk is full" in refused(client.post("/v1/sync"), 503, "unavailable")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"question": ""}, "question"),
        ({"question": " \n\u3000"}, "question"),
        ({"question": "x" * 10_001}, "question"),
        ({"question": None}, "question"),
        ({}, "question"),
        ({"question": "x", "k": 0}, "k"),
        ({"question": "x", "k": -1}, "k"),
        ({"question": "x", "k": 1001}, "k"),
        ({"question": "x", "k": 1.5}, "k"),
        ({"question": "x", "k": True}, "k"),
        ({"question": "x", "strategy": "HOP"}, "strategy"),
        ({"question": "x", "profile": "ours"}, "profile"),
        ({"question": "x", "reasoner": "LLM"}, "reasoner"),
        ({"question": "x", "top_k": 0}, "top_k"),
        ({"question": "x", "top_k": 1001}, "top_k"),
        ({"question": "x", "n_hop": 0}, "n_hop"),
        ({"question": "x", "n_hop": 21}, "n_hop"),
        ({"question": "x", "n_hop": "2"}, "n_hop"),
        ({"question": "x", "at": -1}, "at"),
        ({"question": "x", "K": 5}, "K"),
    ],
)
def test_a_bad_query_never_reaches_the_service(
    client: TestClient, service: FakeService, body: dict[str, Any], field: str
) -> None:
    message = refused(client.post("/v1/query", json=body), 400, "bad_request")
    assert message.startswith(f"The request was refused: {field}: ")
    assert service.queries == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"question": " "}, "question: the field is blank"),
        ({}, "question: the field is missing"),
        ({"question": "x", "k": 0}, "k: the value should be greater than or equal to 1"),
        ({"questio": "x"}, "questio: there is no such field"),
    ],
)
def test_a_refusal_says_in_words_what_is_wrong(
    client: TestClient, body: dict[str, Any], why: str
) -> None:
    answer = client.post("/v1/query", json=body)
    assert refused(answer, 400, "bad_request") == f"The request was refused: {why}"
    assert ("Did you mean" in answer.json()["error"]["hint"]) == ("questio" in body)


def test_an_invalid_id_is_refused_with_the_format_of_ids(client: TestClient) -> None:
    message = refused(client.get("/v1/passages/zz"), 400, "bad_request")
    assert "16 hexadecimal digits" in message


@pytest.mark.parametrize("body", [b"who?", b"{", b"\xff", b"\x00", b"[]", b'"question"', b"null"])
def test_a_body_that_is_no_json_object_is_refused(client: TestClient, body: bytes) -> None:
    refused(client.post("/v1/query", content=body), 400, "bad_request")


def test_a_body_is_read_up_to_its_limit_only(client: TestClient, service: FakeService) -> None:
    frame = b'{"question": "x"}'
    longest = frame + b" " * (MAX_BODY_BYTES - len(frame))
    assert client.post("/v1/query", content=longest).status_code == 200
    too_long = client.post("/v1/query", content=longest + b" ")
    assert f"{MAX_BODY_BYTES:,}" in refused(too_long, 400, "bad_request")
    assert "limits.md" in too_long.json()["error"]["hint"]
    assert len(service.queries) == 1


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BadRequest("The sync was refused", "no such source", "Name one"), 400, "bad_request"),
        (
            NoSuchVersion("Cannot read 9", "the newest is 8", "Ask 8"),
            404,
            "no_such_version",
        ),
        (HopsyncdError("Cannot do it", "the disk is gone", "Mount it"), 503, "unavailable"),
    ],
)
def test_our_errors_keep_their_three_parts(
    client: TestClient, service: FakeService, error: HopsyncdError, status: int, code: str
) -> None:
    service.error = error
    answer = client.post("/v1/query", json={"question": "x"})
    assert refused(answer, status, code) == f"{error.what}: {error.why}"
    assert answer.json()["error"]["hint"] == error.hint


def test_an_unexpected_error_tells_nothing_of_its_inside(
    client: TestClient, service: FakeService
) -> None:
    service.error = RuntimeError("the password is swordfish")
    for answer in (
        client.post("/v1/query", json={"question": "x"}),
        client.get("/v1/status"),
    ):
        assert "swordfish" not in refused(answer, 500, "internal")


@pytest.mark.parametrize(
    ("ask", "status", "code"),
    [
        (lambda client: client.get("/v1/query"), 405, "method_not_allowed"),
        (lambda client: client.put("/v1/sync"), 405, "method_not_allowed"),
        (lambda client: client.post("/v1/health"), 405, "method_not_allowed"),
        (lambda client: client.get("/v2/query"), 404, "not_found"),
        (lambda client: client.get("/v1/query/more"), 404, "not_found"),
    ],
)
def test_unknown_paths_and_methods_are_refused(
    client: TestClient, ask: Callable[[TestClient], Any], status: int, code: str
) -> None:
    answer = ask(client)
    assert answer.request.url.path in refused(answer, status, code)


PASSAGE = "00e1f7fe7a4d9d0c"


@pytest.mark.parametrize(
    ("method", "path", "body", "asked"),
    [
        ("POST", "/v1/ask", {"question": "who?", "k": 3, "llm": True}, "ask"),
        ("POST", "/v1/restore", {"version": "4"}, "restore"),
        ("POST", "/v1/release", {}, "release"),
        ("POST", "/v1/tags", {"name": "mine"}, "tag"),
        ("DELETE", "/v1/tags/a/b", None, "untag"),
        ("GET", "/v1/log?limit=3", None, "log"),
        ("GET", "/v1/diff?from=4", None, "diff"),
        ("GET", f"/v1/passages/{PASSAGE}?at=3", None, "passage"),
        ("GET", "/v1/documents?source=notes", None, "documents"),
        ("GET", "/v1/document?source=notes&document=a/b.md", None, "document"),
        ("GET", f"/v1/neighbours/{PASSAGE}?hops=2", None, "neighbours"),
        ("GET", f"/v1/paths?from={PASSAGE}&to={PASSAGE}", None, "paths"),
        ("GET", "/v1/status", None, "status"),
        ("GET", "/v1/sources", None, "sources"),
        ("GET", "/v1/health", None, "health"),
        ("GET", "/v1/jobs", None, "jobs"),
        ("POST", "/v1/check", {"deep": True}, "check"),
        ("POST", "/v1/backup", {"file": "/tmp/x.db"}, "backup"),
        ("POST", "/v1/rebuild", {}, "rebuild"),
        ("POST", "/v1/gc", {"dry_run": True}, "gc"),
        ("POST", "/v1/purge", {"document": "a.md"}, "purge"),
    ],
)
def test_each_path_reaches_what_it_names_and_is_counted(
    client: TestClient, service: FakeService, method: str, path: str, body: Any, asked: str
) -> None:
    answer = client.request(method, path, json=body)
    assert answer.status_code == 200
    assert answer.json()["asked"] == asked
    assert service.noted == [(asked, 200)]


def test_the_parameters_of_log_and_diff_have_defaults_and_limits(client: TestClient) -> None:
    def given(path: str) -> dict[str, Any]:
        values: dict[str, Any] = client.get(path).json()["given"]
        return values

    assert given("/v1/log") == {"limit": 20, "before": None}
    assert given("/v1/log?limit=3&before=9") == {"limit": 3, "before": 9}
    whole = {"old": "head", "new": "head", "limit": None, "graph": True}
    assert given("/v1/diff?from=4&graph=false") == {**whole, "old": "4", "graph": False}
    assert given("/v1/diff?to=4&limit=9") == {**whole, "new": "4", "limit": 9}
    for limit in ("0", "-1", "x", "9" * 12, "1_0", "%201", "٣"):
        assert "limit" in refused(client.get(f"/v1/log?limit={limit}"), 400, "bad_request")


@pytest.mark.parametrize(
    ("path", "told", "hint"),
    [
        ("/v1/log?limt=3", "limt", '"limit"'),
        ("/v1/diff?form=3", "form", '"from"'),
        ("/v1/status?verbose=1", "verbose", "http-api.md"),
        ("/v1/log?limit=3&limit=4", "limit: the parameter is given twice", "once"),
        (f"/v1/passages/{PASSAGE}?id={PASSAGE}", "id: the parameter is given twice", "once"),
        ("/v1/passages/12", "id", "http-api.md"),
        (f"/v1/passages/f{PASSAGE[1:]}", "id", "http-api.md"),
        (f"/v1/neighbours/{PASSAGE}?hops=9", "hops", "http-api.md"),
        (f"/v1/paths?from={PASSAGE}", "to", "http-api.md"),
    ],
)
def test_parameters_that_no_request_has_are_refused(
    client: TestClient, path: str, told: str, hint: str
) -> None:
    answer = client.get(path)
    assert told in refused(answer, 400, "bad_request")
    assert hint in answer.json()["error"]["hint"]


def test_a_misspelt_field_of_a_body_is_refused_with_the_right_one(client: TestClient) -> None:
    answer = client.post("/v1/query", json={"question": "who?", "profil": "paper"})
    assert "profil: there is no such field" in refused(answer, 400, "bad_request")
    assert '"profile"' in answer.json()["error"]["hint"]
    answer = client.post("/v1/query?k=3", json={"question": "who?"})
    assert "k: the parameter is in the query string" in refused(answer, 400, "bad_request")
    assert answer.json()["error"]["hint"] == "Put the parameter into the JSON body"


def test_a_backup_needs_an_absolute_path(client: TestClient) -> None:
    assert "file" in refused(client.post("/v1/backup", json={"file": "x.db"}), 400, "bad_request")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "question"),
        ({"question": "  "}, "question"),
        ({"question": "x", "k": 0}, "k"),
        ({"question": "x", "k": 51}, "k"),
        ({"question": "x", "llm": "yes"}, "llm"),
        ({"question": "x", "strategy": "hops"}, "strategy"),
    ],
)
def test_a_bad_ask_is_refused_by_its_field(
    client: TestClient, body: dict[str, Any], field: str
) -> None:
    message = refused(client.post("/v1/ask", json=body), 400, "bad_request")
    assert message.startswith(f"The request was refused: {field}: ")
