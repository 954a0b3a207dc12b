"""Every parameter of every request with values that mean nothing: an error, never an answer."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from hopsyncd.api.app import ENDPOINTS
from hopsyncd.api.endpoints import Endpoint
from tests.e2e.daemon import SMALL, Place, new_place, source

# Digits that int() takes: Arabic and wide ones; and a superscript, which only looks like one.
THREE, ONE, SQUARE = "\u0663", "\uff11", "\u00b2"
NUMBERS: tuple[str, ...] = ("", THREE, ONE, SQUARE, " 1", "+1", "1_0", "-1", "0")
NUMBERS += ("0x1", "1e3", "1.0", "nan", "9" * 30)
VERSIONS: tuple[str, ...] = ("", THREE, ONE, SQUARE, " 1", "1 ", "1\n", "+1", "1_0", "-1")
VERSIONS += ("HEAD", "head ", "null")
VERSIONS += ("9" * 30, "9" * 190, "9" * 201, "2026-13-01", THREE * 4 + "-01-01", "0001-01-01", "\0")
IDS = ("", "x", THREE * 16, "0" * 16, "8" * 16, "ABCD", "0000\n", "../status", "0" * 17)
NAMES = ("", "nowhere", "x" * 201, "\0", "no/where")
# By the name of the parameter; `id_` and `end` stand for ids that are there.
HOSTILE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("limit", "hops", "max_hops", "before", "page"), NUMBERS),
    **dict.fromkeys(("at",), VERSIONS),
    **dict.fromkeys(("id",), IDS),
    "graph": ("", "yes", "1", "0", "TRUE", "on", THREE),
    "source": NAMES,
    "document": ("", "nowhere.md", "/", "\0", "x" * 4097, "../notes/a.md"),
    "under": ("", "x" * 4097),
    "since": ("", "gibberish", "x" * 101),
    "user": ("", "x" * 101),
    "after": ("", "garbage", "/", "notes", "notes/", "/a.md", "x" * 5000),
    "name": ("nowhere", "x" * 101, THREE),
}
# In a body: values of another type or beyond the limits.
TYPES: tuple[Any, ...] = (None, True, 1.5, {}, [[]], [1], "\ud800")
BODIES: dict[str, tuple[Any, ...]] = {
    "question": (*TYPES, 7, "", " ", "\0", "\u200b\ufeff", "\u3000", "x" * 10_001),
    "encoder": (None, 1, "yes", []),
    "k": (True, 1.5, "5", 0, -1, 10**9, 10**30, THREE, []),
    "top_k": (True, "5", 0, 1001, []),
    "n_hop": (True, "5", 0, 21, []),
    "beam": (True, "5", 0, 101, []),
    "rerank": (True, "best", "", []),
    "unit": (True, "sentence", "", []),
    "method": (True, "best", "", []),
    "match": (None, True, "best", "", "EXACT", []),
    "documents": (None, True, 1, "notes/a.md", [1], [None], ["a\0b"], ["notes/a.md"] * 101),
    "filters": (None, True, 1, "source:x", [1], [""], ["x"], ["x" * 401], ["source:x"] * 21),
    "strategy": (True, "best", "", "HOP", []),
    "profile": (None, "best", "", []),
    "reasoner": (True, "best", "", []),
    "at": (*TYPES, 1, *VERSIONS),
    "version": (*TYPES, 1, *VERSIONS),
    "llm": (1, "yes", []),
    "wait": (None, 1, "yes", []),
    "deep": (None, 1, "yes", []),
    "dry_run": (None, 1, "yes", []),
    "purge": (None, 1, "yes", []),
    "again": (None, 1, "yes", []),
    "passages": (None, 1, "yes", []),
    "accept_empty": (None, 1, "yes", []),
    "queries": (*TYPES, "x", [], [{}], [{"question": ""}], [{"question": "x"}] * 101),
    "sources": (None, True, "notes", 1, {"notes": 1}, [1], [None], *([name] for name in NAMES)),
    "name": (*TYPES, 1, "", "x" * 201),
    "limit": (True, "5", 1.5, -1, 10**30, []),
    "file": (*TYPES, "", "/", "relative.db", "/nowhere/x.db", "/a\0b", "/" + "x" * 5000),
    "exec": (None, True, 1, "echo", {}, [1], ["\0"], ["no-such-program"], ["x"] * 101),
    "id": (*TYPES, "1", 0, -1, 1.5, 10**30, 4),
    "webhook": (
        True,
        1,
        [],
        "",
        "http://example.org/",
        "http://127.0.0.1@evil.example/",
        "file:///",
    ),
    "mcp": (None, 1, "yes", [], {}),
    "document": (*TYPES, 1, "", "nowhere.md", "x" * 4097),
    "source": (True, 1, [], *NAMES),
    "thread": (None, True, 1, "x", [1], [{}], [{"question": ""}]),
    "title": (*TYPES, 1, "", " ", "x" * 301),
    "text": (*TYPES, 1, "", " ", "x" * 100_001),
    "tags": (None, True, 1, [1], ["x"] * 21),
}
NEEDED: dict[str, dict[str, Any]] = {
    "query": {"question": "Ada"},
    "ask": {"question": "Ada"},
    "watch": {"question": "Ada"},
    "allow_watch": {"id": 4},
    "restore": {"version": "1"},
    "tag": {"name": "kept"},
    "remove": {"name": "notes"},
    "pause": {"name": "notes"},
    "resume": {"name": "notes"},
    "purge": {"document": "a.md"},
    "note": {"title": "Ada", "text": "She met Babbage."},
}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for name in ("a", "b", "c"):
            made.write(f"{name}.md", f"# {name}\n\nAda Byron met Charles Babbage in {name}.\n")
        made.configure("[watch]\nenabled = false\n" + source("notes", made.notes))
        made.start()
        made.sync()
        yield made


def parameters(*, of_posts: bool) -> list[Any]:
    return [
        pytest.param(
            endpoint, field.alias or name, id=f"{endpoint.operation}-{field.alias or name}"
        )
        for endpoint in ENDPOINTS
        if (endpoint.method == "POST") == of_posts
        for name, field in endpoint.request.model_fields.items()
    ]


def check(response: Any, asked: object) -> None:
    """An error of the caller's, in JSON, with its parts."""
    assert 400 <= response.status_code < 500, (asked, response.status_code, response.text[:300])
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert error["code"] and error["message"] and error["hint"], asked


@pytest.mark.parametrize(("endpoint", "name"), parameters(of_posts=False))
def test_hostile_values_of_parameters_are_refused_or_answered(
    place: Place, endpoint: Endpoint, name: str
) -> None:
    ids = [passage["id"] for passage in place.query("Ada")]
    needed: dict[str, dict[str, str]] = {
        "paths": {"from": ids[0], "to": ids[1]},
        "diff": {"from": "1"},
        "document": {"source": "notes", "document": "a.md"},
    }
    in_path = {"id": ids[0], "name": "nowhere"}
    ends = VERSIONS if endpoint.operation == "diff" else IDS
    for value in {**HOSTILE, "from": ends, "to": ends}[name]:
        path, given = endpoint.path, {**needed.get(endpoint.operation, {})}
        if f"{{{name}}}" not in path:
            given[name] = value
        for key, one in {**in_path, name: value}.items():
            path = path.replace(f"{{{key}}}", quote(one, safe=""))
        asked = "&".join(f"{key}={quote(one, safe='')}" for key, one in given.items())
        check(place.request(endpoint.method, f"{path}?{asked}" if asked else path), (path, asked))


@pytest.mark.parametrize(("endpoint", "name"), parameters(of_posts=True))
def test_hostile_values_of_fields_are_refused_or_answered_and_change_nothing(
    place: Place, endpoint: Endpoint, name: str
) -> None:
    before = place.status()["version"]
    for value in BODIES[name]:
        body = {**NEEDED.get(endpoint.operation, {}), name: value}
        check(place.request("POST", endpoint.path, json.dumps(body).encode()), (name, value))
    assert place.status()["version"] == before


@pytest.mark.parametrize("path", ["/v1/health/", "/v1/status/", "/v1/openapi.json/", "/v1/log%2F"])
def test_a_path_with_a_trailing_slash_is_not_found(place: Place, path: str) -> None:
    response = place.request("GET", path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    "command",
    [
        ("query", "Ada", "-k", THREE),
        ("query", "Ada", "-k", "1_0"),
        ("query", "Ada", "--n-hop", "+1"),
        ("log", "-n", ONE),
        ("why", "Ada", "1", "-k", "0"),
        ("graph", "--document", "a.md", "--hops", " 1"),
        ("add", "/", "--every", f"{THREE}m"),
        ("add", "/", "--at", f"{THREE} * * * *"),
    ],
)
def test_a_number_in_a_command_is_written_in_digits(place: Place, command: tuple[str, ...]) -> None:
    ran = place.run(*command)
    assert ran.returncode == 2, ran
    assert "Traceback" not in ran.stderr
