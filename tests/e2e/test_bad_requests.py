"""Requests that cannot be answered are the caller's mistake: refused, with reason and hint."""

import json

import pytest

from tests.e2e.daemon import Place

pytestmark = pytest.mark.models


def asking(**body: object) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/query", asking(question=""), "question"),
        ("/v1/query", asking(question=" \t\n"), "question"),
        ("/v1/query", asking(question="x" * (1 << 20)), "1,048,576"),
        ("/v1/query", asking(question="x" * 20_000), "question"),
        ("/v1/query", asking(question=3), "question"),
        ("/v1/query", asking(), "question"),
        ("/v1/query", b"", "question"),
        ("/v1/query", b"who?", "JSON"),
        ("/v1/query", b'{"question": "x"', "JSON"),
        ("/v1/query", b"\xff\xfe", "JSON"),
        ("/v1/query", b'["question"]', "object"),
        ("/v1/query", b"[" * 100_000, "JSON"),
        ("/v1/query", asking(question="x", k=0), "k"),
        ("/v1/query", asking(question="x", k=-1), "k"),
        ("/v1/query", asking(question="x", k="5"), "k"),
        ("/v1/query", asking(question="x", k=10**30), "k"),
        (
            "/v1/query",
            asking(question="x", strategy="best"),
            "'bm25', 'dense', 'hybrid', 'decompose' or 'rerank'",
        ),
        ("/v1/query", asking(question="x", at=""), "at"),
        ("/v1/query", asking(question="x", colour="red"), "colour"),
        ("/v1/sync", asking(sources=["nowhere"]), "nowhere"),
        ("/v1/sync", asking(sources="notes"), "sources"),
        ("/v1/sync", asking(wait="yes"), "wait"),
    ],
)
def test_a_bad_body_is_refused_with_the_reason(
    daemon: Place, path: str, body: bytes, told: str
) -> None:
    response = daemon.request("POST", path, body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "bad_request"
    assert told in error["message"]
    assert error["hint"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/query", 405, "method_not_allowed"),
        ("POST", "/v1/status", 405, "method_not_allowed"),
        ("DELETE", "/v1/sources", 405, "method_not_allowed"),
    ],
)
def test_an_unknown_path_or_method_is_named(
    daemon: Place, method: str, path: str, status: int, code: str
) -> None:
    response = daemon.request(method, path)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code
    assert path in error["message"]
    assert error["hint"]


def test_a_version_that_never_existed_is_named(daemon: Place) -> None:
    response = daemon.request("POST", "/v1/query", asking(question="x", at=str(10**9)))
    assert response.status_code == 404
    error = response.json()["error"]
    assert error["code"] == "no_such_version"
    assert str(10**9) in error["message"]
    assert error["hint"]


def test_the_command_line_shows_why_a_request_was_refused(daemon: Place) -> None:
    refused = daemon.run("query", "words", "--since", "soon")
    assert refused.returncode == 1
    assert refused.stderr.startswith("hopsyncd: The filter 'since:soon' was refused")
    assert "is not a date" in refused.stderr
    refused = daemon.run("query", "  ")
    assert refused.returncode == 2
    assert "The question is empty" in refused.stderr
    for k in ("0", "-1", "1001"):
        refused = daemon.run("query", "x", "-k", k)
        assert refused.returncode == 2
        assert f"{k} is not in the range" in refused.stderr
