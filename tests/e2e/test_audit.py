"""A daemon that records who asked for what, and shows it to its owner alone."""

import grp
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.test_access import asked_by

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can take on another user's rights"
)

TEAM = grp.getgrgid(1)
WORD = "zyxwort"
QUESTION = {"question": f"Whom did Ada Byron meet near the {WORD}?", "filters": ["source:open"]}


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for folder in (made.base, made.home):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        made.write("open/ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        yield made


def configure(place: Place, audit: str) -> None:
    text = source("open", place.notes / "open")
    place.configure(f'{text}[access]\ngroup = "{TEAM.gr_name}"\n[audit]\n{audit}\n')


def entries(place: Place, *options: str) -> list[dict[str, Any]]:
    found = json.loads(place.run("audit", "--json", *options).stdout)
    return [
        entry for entry in found["entries"] if entry["action"] not in ("sync", "reload", "audit")
    ]


def test_searches_are_recorded_without_their_words_and_only_the_owner_reads_it(
    place: Place,
) -> None:
    configure(place, "enabled = true")
    place.start()
    place.sync()
    asked = [
        ("POST", "/v1/query", QUESTION),
        ("POST", "/v1/ask", QUESTION),
        ("GET", "/v1/document?source=open&document=ada.md", None),
        ("GET", "/v1/document?source=open&document=none.md", None),
        ("GET", "/v1/audit", None),
        ("GET", "/v1/status", None),
    ]
    told = asked_by(place, [TEAM.gr_gid], asked)
    assert [status for status, _ in told] == [200, 200, 200, 404, 403, 200]
    assert json.loads(told[5][1])["audit"]["enabled"] is True  # those who are recorded may know it
    query, ask, document, absent, audit = reversed(
        json.loads(place.run("audit", "--json", "--user", "nobody").stdout)["entries"]
    )
    assert (query["action"], query["status"], query["role"], query["transport"]) == (
        "query", 200, "read", "socket",
    )  # fmt: skip
    assert (query["sources"], query["results"]) == (["open"], 1)
    assert (ask["action"], ask["sources"]) == ("ask", ["open"])
    assert document["asked"] == {"source": "open", "document": "ada.md"}
    assert (absent["status"], absent["sources"]) == (404, [])
    assert (audit["action"], audit["status"]) == ("audit", 403)
    assert "nobody (read" in place.run("audit", "--since", "1 hour ago").stdout
    assert WORD not in (place.home / "data/audit.log").read_text()


def test_the_configuration_decides_at_a_reload_what_is_recorded(place: Place) -> None:
    configure(place, "")
    place.start()
    place.sync()
    place.post("/v1/query", QUESTION)
    assert entries(place) == []
    assert "Searches are not recorded" in place.run("audit").stdout
    configure(place, "enabled = true\nquestions = true")
    place.post("/v1/reload", {})
    place.post("/v1/query", QUESTION)
    (query,) = entries(place)
    assert query["asked"]["question"] == QUESTION["question"]
    assert place.run("audit", "--since", "soon").returncode != 0


def test_a_streamed_answer_is_recorded_with_its_result(place: Place) -> None:
    configure(place, "enabled = true")
    place.start()
    place.sync()
    shown = place.run("ask", "Whom did Ada Byron meet?").stdout
    assert "Babbage" in shown
    assert [(entry["action"], entry["status"], entry["sources"]) for entry in entries(place)] == [
        ("ask", 200, ["open"])
    ]
