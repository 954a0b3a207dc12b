"""The OpenAPI document is true of the running daemon: of what it answers, and of what it refuses.

HOPSYNCD_API_CASES says how many requests are made up in all; 10,000 are a thorough run.
"""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from requests.adapters import HTTPAdapter
from schemathesis import Case, GenerationMode
from schemathesis.checks import negative_data_rejection, positive_data_acceptance
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from hopsyncd.api.app import ENDPOINTS
from hopsyncd.api.endpoints import NDJSON
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.films import FILMS

CASES = int(os.environ.get("HOPSYNCD_API_CASES", "300"))
TOO_LONG = 431
# It would write files wherever it is told to.
MADE_UP = [endpoint for endpoint in ENDPOINTS if endpoint.operation != "backup"]

Requests = dict[str, list[tuple[str, str, Any]]]  # of each operation: method, path, body


class UnixAdapter(HTTPAdapter):
    """requests, over one Unix socket whatever the address."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        path = self._path

        class Connection(HTTPConnection):
            def connect(self) -> None:
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.connect(str(path))

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        return Pool("hopsyncd")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        (made.base / "spare").mkdir()
        (made.base / "inbox").mkdir()
        made.configure(
            f'[mcp]\ninbox = "{made.base / "inbox"}"\n'
            + source("notes", made.notes)
            + source("spare", made.base / "spare")
        )
        made.start()
        made.sync()
        yield made


@pytest.fixture(scope="module")
def session(place: Place) -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.mount("http://", UnixAdapter(place.socket))
        yield made


@pytest.fixture(scope="module")
def document(place: Place) -> dict[str, Any]:
    """As served, but closed: a field that it does not know is a mistake in a test."""
    whole = place.get("/v1/openapi.json")
    for schema in whole["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return whole


def requests_of_all(place: Place) -> Requests:
    """For each operation, requests that have an answer."""
    return reading(place) | changing(place)


def reading(place: Place) -> Requests:
    passages = place.query("Where did the director of The Bronze Door grow up?")
    one, other = passages[0]["id"], passages[1]["id"]
    asked = {"question": "Where did Mira Kaltenbrunn grow up?"}
    return {
        "query": [
            ("POST", "/v1/query", {**asked, **more})
            for more in (
                {},
                {"strategy": "bm25", "k": 1},
                {"strategy": "dense"},
                {"strategy": "hybrid"},
                {"strategy": "decompose"},
                {"profile": "paper"},
                {"reasoner": "similarity", "at": "1"},
            )
        ],
        "queries": [("POST", "/v1/queries", {"queries": [asked, {**asked, "at": "nowhere"}]})],
        "ask": [
            ("POST", "/v1/ask", asked),
            ("POST", "/v1/ask", {"question": "Xyzzy plugh?"}),
        ],
        "passage": [("GET", f"/v1/passages/{one}", None)],
        "page_image": [],  # needs a PDF: see tests/e2e/test_page_pdf.py
        "documents": [("GET", "/v1/documents?limit=2", None), ("GET", "/v1/documents", None)],
        "document": [("GET", "/v1/document?source=notes&document=films/bronze-door.md", None)],
        "facets": [("POST", "/v1/facets", {"filters": ["source:notes"]})],
        "document_map": [("POST", "/v1/map", {"filters": ["source:notes"]})],
        "examples": [("GET", "/v1/examples", None)],
        "history": [("GET", "/v1/history?source=notes&document=films/bronze-door.md", None)],
        "file": [("GET", "/v1/file?source=notes&document=films/bronze-door.md", None)],
        "neighbours": [("GET", f"/v1/neighbours/{one}?hops=3", None)],
        "paths": [("GET", f"/v1/paths?from={one}&to={other}", None)],
        "status": [("GET", "/v1/status", None)],
        "sources": [("GET", "/v1/sources", None)],
        "health": [("GET", "/v1/health", None)],
        "schedule": [("GET", "/v1/schedule", None)],
        "jobs": [("GET", "/v1/jobs", None)],
        "stats": [("GET", "/v1/stats", None)],
        "metrics": [("GET", "/v1/metrics", None)],
        "audit": [("GET", "/v1/audit?since=yesterday", None)],
        "openapi": [("GET", "/v1/openapi.json", None)],
        "watches": [("GET", "/v1/watches", None)],
        "watch_changes": [("GET", "/v1/watches/1", None)],
        "log": [("GET", "/v1/log", None)],
        "diff": [("GET", "/v1/diff?from=1", None)],
    }


def changing(place: Place) -> Requests:
    return {
        "note": [("POST", "/v1/notes", {"title": "A note", "text": "Its text."})],
        "reload": [("POST", "/v1/reload", {})],
        "tag": [("POST", "/v1/tags", {"name": "first", "version": "1"})],
        "untag": [("DELETE", "/v1/tags/first", None)],
        "preview": [("POST", "/v1/preview", {})],
        "pause": [("POST", "/v1/pause", {"name": "notes"})],
        "resume": [("POST", "/v1/resume", {"name": "notes"})],
        "sync": [("POST", "/v1/sync", {}), ("POST", "/v1/sync", {"wait": False})],
        "check": [("POST", "/v1/check", {"deep": True})],
        "backup": [("POST", "/v1/backup", {"file": str(place.base / "copy.db")})],
        "rebuild": [("POST", "/v1/rebuild", {})],
        "restore": [("POST", "/v1/restore", {"version": "1"})],
        "release": [("POST", "/v1/release", {})],
        "purge": [
            ("POST", "/v1/purge", {"document": "films/vesper.md"}),
            ("POST", "/v1/purge", {"document": "films/vesper.md", "again": True}),
        ],
        "remove": [("POST", "/v1/remove", {"name": "spare"})],
        "gc": [("POST", "/v1/gc", {"dry_run": True}), ("POST", "/v1/gc", {})],
        "watch": [("POST", "/v1/watches", {"question": "Where does Mira Kaltenbrunn live?"})],
        "allow_watch": [],  # needs the record of another home: see tests/e2e/test_watches.py
        "unwatch": [("DELETE", "/v1/watches/1", None)],
    }


def test_every_answer_has_the_form_that_is_documented(
    place: Place, session: requests.Session, document: dict[str, Any]
) -> None:
    asked = requests_of_all(place)
    assert {endpoint.operation for endpoint in ENDPOINTS} <= asked.keys()
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        for method, path, body in asked[endpoint.operation]:
            answer = session.request(method, f"http://hopsyncd{path}", json=body)
            assert answer.ok, (path, answer.text)
            content = operation["responses"][str(answer.status_code)]["content"]
            kind = answer.headers["content-type"]
            value = answer.json() if kind == "application/json" else answer.text
            assert problems(value, content[kind]["schema"], document) == []


def test_every_event_of_a_stream_has_the_form_that_is_documented(
    place: Place, session: requests.Session, document: dict[str, Any]
) -> None:
    place.write("new.md", "# New\n\nA new harbour opened in Bergen.\n")
    for path, body in [
        ("/v1/ask", {"question": "Where did Mira Kaltenbrunn grow up?"}),
        ("/v1/ask", {"question": "Where?", "at": "nowhere"}),
        ("/v1/sync", {}),
    ]:
        answer = session.post(f"http://hopsyncd{path}", json=body, headers={"accept": NDJSON})
        content = document["paths"][path]["post"]["responses"]["200"]["content"]
        events = [json.loads(line) for line in answer.text.splitlines()]
        assert events
        for event in events:
            assert problems(event, content[NDJSON]["schema"], document) == []


def problems(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> list[str]:
    whole = {**schema, "components": document["components"]}
    found = Draft202012Validator(whole).iter_errors(value)
    return [f"{list(one.absolute_path)}: {one.message}"[:500] for one in found]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("endpoint", MADE_UP, ids=lambda one: one.operation)
def test_generated_requests_are_answered_or_refused_as_documented(
    session: requests.Session, document: dict[str, Any], endpoint: Any, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_dict(document)
    operation = schema[endpoint.path][endpoint.method]
    nothing_to_say = endpoint.method == "GET" and not endpoint.request.model_fields
    if mode is GenerationMode.NEGATIVE and (nothing_to_say or endpoint.operation == "untag"):
        pytest.skip("nothing can be wrong in it")

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=max(CASES // (2 * len(MADE_UP)), 1),
        deadline=None,
        database=None,
        derandomize="HOPSYNCD_API_CASES" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Case[Any]) -> None:
        answer = case.call(base_url="http://hopsyncd", session=session)
        # What names something that is not there is refused however well it is written.
        excluded = [positive_data_acceptance]
        if answer.status_code == TOO_LONG:  # a refusal that the check does not know
            excluded.append(negative_data_rejection)
        case.validate_response(answer, excluded_checks=excluded)

    ask()
