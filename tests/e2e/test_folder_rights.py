"""Folders of a source that some members may not see, as another user of this machine finds out."""

import grp
import json
import os
import shutil
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from hopsyncd.api.app import ENDPOINTS
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.team import Team, new_team
from tests.e2e.test_access import SAMPLES, STRANGER, asked_by, without_own_question
from tests.fakes.other_user import Asked, answers, as_user
from tests.fakes.postgres import postgres

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can take on another user's rights"
)

TEAM = grp.getgrgid(1)
CANARY = "zyxwort"
CLOSED = "qmill"  # the name of the closed folder
OPEN_FILES = {
    "ada.md": "# Ada\n\nAda Byron met Charles Babbage in London. See [[Countess]].\n",
    "rome.md": "# Rome\n\nCharles Babbage left London for Rome.\n",
    "shared.md": "# Shared\n\nLuigi Menabrea wrote to Ada Byron from Turin.\n",
}
CLOSED_FILES = {
    f"{CANARY}.md": "---\naliases: [Countess]\ntags: [zyxtag]\nauthor: Zyx Author\n---\n"
    f"# The {CANARY}\n\nAda Byron praised the {CANARY} in Rome in 1815.\n",
    "shared.md": OPEN_FILES["shared.md"],
    f"{CANARY}.pdf": "no PDF",
    f"{CANARY}.odd": "a type that is not included",
}
RULE = f'paths = [{{ match = "{CLOSED}/**", visible_to = ["user:root"] }}]'
FOLLOWED_S = 60.0
READS = [endpoint.operation for endpoint in ENDPOINTS if endpoint.right in ("health", "read")]
TRACES = (CANARY, "zyx", "Zyx", CLOSED, ".odd")  # no numbers: a process id has those too


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        _prepare(made)
        for path, text in CLOSED_FILES.items():
            made.write(f"open/{CLOSED}/{path}", text)
        yield made


def _prepare(place: Place) -> None:
    for folder in (place.base, place.home):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    for path, text in OPEN_FILES.items():
        place.write(f"open/{path}", text)


def configure(place: Place, viewers: str = '"user:root"', default: str = "") -> None:
    """Configure the source with a rule for its closed folder, or without one if no viewers."""
    rule = f'paths = [{{ match = "{CLOSED}/**", visible_to = [{viewers}] }}]' if viewers else ""
    text = source("open", place.notes / "open", f"{default}\n{rule}")
    place.configure(f'{text}[access]\ngroup = "{TEAM.gr_name}"\n')


def begin(place: Place) -> None:
    configure(place)
    place.start()
    place.sync()


def ask(place: Place, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    ((status, text),) = asked_by(place, [TEAM.gr_gid], [(method, path, body)])
    return json.loads(text) if status == 200 else status


def requests_of(place: Place) -> list[Asked]:
    ids = [
        place.get(f"/v1/document?source=open&document={path}")["passages"][0]["id"]
        for path in ("ada.md", "shared.md")
    ]
    return [
        (method, path.format(*ids), body)
        for method, path, body in (SAMPLES[name] for name in READS)
    ]


def traces(place: Place) -> list[str]:
    """The operations whose answers to a member show something of the closed folder."""
    told = asked_by(place, [TEAM.gr_gid], requests_of(place))
    failed = [name for name, (status, _) in zip(READS, told, strict=True) if status != 200]
    assert failed == ["page_image"]  # the passage is in no PDF
    return [
        f"{name}: ...{text[max(0, at - 60) : at + 60]}..."
        for name, (_, whole) in zip(READS, told, strict=True)
        for text in [without_own_question(whole)]
        for at in [max(map(text.find, TRACES))]
        if name != "openapi" and at >= 0
    ]


def test_no_answer_to_a_member_has_a_trace_of_a_closed_folder(place: Place) -> None:
    begin(place)
    assert traces(place) == []
    assert CANARY in json.dumps(place.query("Ada Byron"))
    hidden = place.get(f"/v1/document?source=open&document={CLOSED}/{CANARY}.md")
    named = f"source=open&document={CLOSED}/{CANARY}.md"
    by_name = [
        f"/v1/document?{named}",
        f"/v1/history?{named}",
        f"/v1/file?{named}",
        f"/v1/file?source=open&document=x/../{CLOSED}/{CANARY}.md",
        f"/v1/passages/{hidden['passages'][0]['id']}",
        f"/v1/neighbours/{hidden['passages'][0]['id']}",
    ]
    assert [ask(place, "GET", path) for path in by_name] == [404] * len(by_name)
    shared = ask(place, "GET", "/v1/document?source=open&document=shared.md")
    assert shared["passages"][0]["also_in"] == []


def test_answers_are_those_of_a_daemon_that_never_had_the_files(place: Place) -> None:
    begin(place)
    with new_place(SMALL) as alone:
        _prepare(alone)
        begin(alone)
        for name in ("query", "ask", "documents", "document", "facets", "history", "sources"):
            method, path, body = SAMPLES[name]
            expected, found = (ask(one, method, path, body) for one in (alone, place))
            assert _without_time(found) == _without_time(expected), name
        log, expected = (ask(one, "GET", "/v1/log")["versions"] for one in (place, alone))
        assert _without_time([entry for entry in log if entry["about"]]) == _without_time(expected)


def _without_time(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_time(below)
            for key, below in value.items()
            if key not in ("created", "scanned", "next", "took_ms", "location", "watching")
        }
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    return [_without_time(below) for below in value] if isinstance(value, list) else value


def test_a_document_changes_its_rights_with_the_version_in_which_it_moves(place: Place) -> None:
    begin(place)
    closed, opened = (place.notes / "open" / folder for folder in (CLOSED, "."))
    (closed / f"{CANARY}.md").rename(opened / f"{CANARY}.md")
    place.sync()
    found = ask(place, "POST", "/v1/query", {"question": "Ada Byron praised", "k": 9})
    assert f"{CANARY}.md" in {passage["document"] for passage in found["passages"]}
    (newest,) = ask(place, "GET", "/v1/log?limit=1")["versions"]
    assert (newest["documents_added"], newest["documents_renamed"]) == (1, 0)
    (opened / f"{CANARY}.md").rename(closed / f"{CANARY}.md")
    place.sync()
    found = ask(place, "POST", "/v1/query", {"question": "Ada Byron praised", "k": 9})
    assert CANARY not in json.dumps(found["passages"])
    changes = ask(place, "GET", "/v1/diff?from=1&to=head")
    assert CANARY not in json.dumps(changes)


def test_a_changed_rule_applies_at_once_and_to_past_versions(place: Place) -> None:
    configure(place, viewers="")
    place.start()
    place.sync()
    assert traces(place) != []
    question = {"question": "Ada Byron praised", "k": 9, "at": str(place.status()["version"])}
    assert CANARY in json.dumps(ask(place, "POST", "/v1/query", question)["passages"])
    configure(place)
    place.post("/v1/reload", {})
    assert CANARY not in json.dumps(ask(place, "POST", "/v1/query", question)["passages"])
    assert traces(place) == []
    configure(place, viewers='"user:nobody"')
    place.post("/v1/reload", {})
    assert CANARY in json.dumps(ask(place, "POST", "/v1/query", question)["passages"])
    configure(place, viewers="", default='visible_to = ["user:root"]')
    place.post("/v1/reload", {})
    assert ask(place, "POST", "/v1/query", question)["passages"] == []


def test_a_folder_of_a_closed_source_can_be_open(place: Place) -> None:
    configure(place, viewers='"members"', default='visible_to = ["user:root"]')
    place.start()
    place.sync()
    documents = ask(place, "GET", "/v1/documents")["documents"]
    assert [document["document"] for document in documents] == [
        f"{CLOSED}/shared.md",
        f"{CLOSED}/{CANARY}.md",
    ]
    ((state,),) = [ask(place, "GET", "/v1/sources")["sources"]]
    assert (state["documents"], state["problems"]) == (2, 1)


def test_the_owner_sees_each_rule_with_its_number_of_documents(place: Place) -> None:
    begin(place)
    shown = place.run("status").stdout.splitlines()
    assert f"  {CLOSED}/**: visible to user:root (2 documents)" in shown
    details = [line.split() for line in place.run("sources", "open").stdout.splitlines()]
    assert [f"{CLOSED}/**:", "user:root", "(2", "documents)"] in details
    ((state,),) = [ask(place, "GET", "/v1/sources")["sources"]]
    assert state["rights"] is None


def test_a_folder_of_a_source_that_left_stays_closed(place: Place) -> None:
    begin(place)
    place.configure(f'[access]\ngroup = "{TEAM.gr_name}"\n')
    place.post("/v1/reload", {})
    configure(place, viewers="")
    place.post("/v1/reload", {})
    place.sync()
    told = as_user(
        STRANGER.pw_uid,
        [TEAM.gr_gid],
        partial(answers, place.socket, [("GET", "/v1/documents", None)]),
    )
    assert json.loads(told[0][1])["documents"] == []


def test_a_follower_whose_configuration_is_older_closes_the_folder_too() -> None:
    with postgres() as server, new_team(server, 2) as team:
        for place in team.places:
            for folder in (place.base, place.home):
                folder.chmod(0o755)
            place.stop()
            shutil.rmtree(place.socket.parent)  # the next start makes it for the group
            _configure_shared(team, place, "")
        writer, follower = team.places
        for path, text in OPEN_FILES.items():
            writer.write(f"open/{path}", text)
        for path, text in CLOSED_FILES.items():
            writer.write(f"open/{CLOSED}/{path}", text)
        writer.start()
        writer.until(lambda: team.is_written_by(writer))
        follower.start()
        version = writer.sync()["version"]
        follower.until(lambda: follower.status()["version"] >= version)
        assert traces(follower) != []
        _configure_shared(team, writer, RULE)
        writer.post("/v1/reload", {})
        assert traces(writer) == []
        end_s = time.monotonic() + FOLLOWED_S
        while traces(follower):
            assert time.monotonic() < end_s
        follower.stop()
        follower.start()
        assert traces(follower) == []
        assert CANARY in json.dumps(follower.query("Ada Byron"))


def _configure_shared(team: Team, place: Place, keys: str) -> None:
    text = source("open", team.notes / "open", keys)
    place.configure(f'{text}[access]\ngroup = "{TEAM.gr_name}"\n[store]\nurl = "{team.url}"\n')
