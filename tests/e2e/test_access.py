"""Who may ask a real daemon, as other users of this machine find out."""

import grp
import json
import os
import pwd
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import get_args

import httpx2
import pytest

from hopsyncd.api.app import ENDPOINTS
from hopsyncd.api.mcp.tools import Tools
from hopsyncd.api.tokens import Role
from hopsyncd.client import Client
from hopsyncd.config.configuration import Config
from hopsyncd.doctor.examine import check_daemon
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.other_user import Asked, answers, as_user
from tests.fakes.port import free_port

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can take on another user's rights"
)

TEAM = grp.getgrgid(1)
STRANGER = pwd.getpwnam("nobody")
CANARY = "zyxwort"
OPEN = {"ada.md": "# Ada\n\nAda Byron met Charles Babbage in London.\n",
        "rome.md": "# Rome\n\nCharles Babbage left London for Rome.\n"}  # fmt: skip
CLOSED = {f"{CANARY}.md": f"# The {CANARY}\n\nAda Byron praised the {CANARY} in Rome.\n"}
QUESTION = f"What did Ada Byron think of the {CANARY}?"

# A request for each operation of the API; {} are the ids of two passages that may be seen.
SAMPLES: dict[str, tuple[str, str, dict[str, object] | None]] = {
    "query": ("POST", "/v1/query", {"question": QUESTION}),
    "queries": ("POST", "/v1/queries", {"queries": [{"question": QUESTION, "strategy": "dense"},
                                                    {"question": QUESTION, "strategy": "bm25"}]}),
    "ask": ("POST", "/v1/ask", {"question": QUESTION}),
    "passage": ("GET", "/v1/passages/{0}", None),
    "documents": ("GET", "/v1/documents", None),
    "document": ("GET", "/v1/document?source=open&document=ada.md", None),
    "neighbours": ("GET", "/v1/neighbours/{0}?hops=4", None),
    "paths": ("GET", "/v1/paths?from={0}&to={1}", None),
    "page_image": ("GET", "/v1/page-image/{0}", None),
    "facets": ("POST", "/v1/facets", {}),
    "document_map": ("POST", "/v1/map", {}),
    "examples": ("GET", "/v1/examples", None),
    "history": ("GET", "/v1/history?source=open&document=ada.md", None),
    "file": ("GET", "/v1/file?source=open&document=ada.md", None),
    "log": ("GET", "/v1/log", None),
    "diff": ("GET", "/v1/diff?from=1&to=head", None),
    "status": ("GET", "/v1/status", None),
    "sources": ("GET", "/v1/sources", None),
    "health": ("GET", "/v1/health", None),
    "schedule": ("GET", "/v1/schedule", None),
    "jobs": ("GET", "/v1/jobs", None),
    "stats": ("GET", "/v1/stats", None),
    "openapi": ("GET", "/v1/openapi.json", None),
    "metrics": ("GET", "/v1/metrics", None),
    "reload": ("POST", "/v1/reload", {}),
    "sync": ("POST", "/v1/sync", {}),
    "preview": ("POST", "/v1/preview", {}),
    "restore": ("POST", "/v1/restore", {"version": "1"}),
    "release": ("POST", "/v1/release", {}),
    "pause": ("POST", "/v1/pause", {"name": "closed"}),
    "resume": ("POST", "/v1/resume", {"name": "closed"}),
    "tag": ("POST", "/v1/tags", {"name": "first", "version": "1"}),
    "untag": ("DELETE", "/v1/tags/first", None),
    "check": ("POST", "/v1/check", {}),
    "audit": ("GET", "/v1/audit", None),
    "backup": ("POST", "/v1/backup", {"file": "/tmp/never"}),
    "rebuild": ("POST", "/v1/rebuild", {}),
    "gc": ("POST", "/v1/gc", {}),
    "purge": ("POST", "/v1/purge", {"document": "ada.md"}),
    "watch": ("POST", "/v1/watches", {"question": QUESTION}),
    "watches": ("GET", "/v1/watches", None),
    "watch_changes": ("GET", "/v1/watches/1", None),
    "allow_watch": ("POST", "/v1/watches/allow", {"id": 1, "webhook": "http://127.0.0.1:9/"}),
    "unwatch": ("DELETE", "/v1/watches/1", None),
    "note": ("POST", "/v1/notes", {"title": CANARY, "text": CANARY}),
    "remove": ("POST", "/v1/remove", {"name": "open"}),
}  # fmt: skip
READS = [endpoint.operation for endpoint in ENDPOINTS if endpoint.right in ("health", "read")]
CHANGES = [endpoint.operation for endpoint in ENDPOINTS if endpoint.right not in ("health", "read")]


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for folder in (made.base, made.home):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        for name, files in (("open", OPEN), ("closed", CLOSED)):
            for path, text in files.items():
                made.write(f"{name}/{path}", text)
        yield made


def new_token(place: Place, role: str, *options: str) -> str:
    """The text of a new token, which is whose role it has."""
    made = place.run("token", "create", "--user", role, "--role", role, *options)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def configure(place: Place, access: str, closed_to: str = "") -> None:
    place.configure(
        source("open", place.notes / "open")
        + source("closed", place.notes / "closed", f"visible_to = [{closed_to}]")
        + f"[access]\n{access}\n"
    )
    place.start()
    place.sync()


def without_own_question(text: str) -> str:
    """An answer without the asker's question and its words that it says no passage contains."""
    return text.replace(QUESTION, "").replace(f'"absent":["{CANARY}"]', '"absent":[]')


def samples(place: Place, operations: list[str]) -> list[Asked]:
    """The requests, with two passages of the open source."""
    ids = [
        place.get(f"/v1/document?source=open&document={path}")["passages"][0]["id"] for path in OPEN
    ]
    assert set(operations) <= SAMPLES.keys()
    return [
        (method, path.format(*ids), body)
        for method, path, body in (SAMPLES[name] for name in operations)
    ]


def asked_by(place: Place, groups: list[int], asked: list[Asked]) -> list[tuple[int, str]]:
    told = as_user(STRANGER.pw_uid, groups, partial(answers, place.socket, asked))
    assert isinstance(told, list), told
    return [(status, text) for status, text in told]


def test_by_default_another_user_cannot_even_connect(place: Place) -> None:
    configure(place, "")
    asked = samples(place, ["status"])
    assert as_user(STRANGER.pw_uid, [], partial(answers, place.socket, asked)) == "PermissionError"


def test_a_stranger_who_reaches_the_socket_gets_no_byte_of_data(place: Place) -> None:
    configure(place, "")
    asked = samples(place, READS + CHANGES)
    place.socket.parent.chmod(0o755)
    place.socket.chmod(0o666)
    for status, text in asked_by(place, [TEAM.gr_gid], asked):
        assert status == 403
        assert json.loads(text)["error"]["code"] == "forbidden"
        assert not any(word in text for word in (CANARY, "Ada", "Rome", "open", "version"))
    assert place.status()["version"]


def test_the_doctor_tells_other_users_who_can_give_them_access(place: Place) -> None:
    configure(place, "")
    place.socket.parent.chmod(0o755)
    place.socket.chmod(0o666)
    config = Config.model_validate({"daemon": {"socket": str(place.socket)}})
    last = as_user(STRANGER.pw_uid, [], lambda: asdict([*check_daemon(config)][-1]))
    assert (last["check"], last["level"]) == ("daemon", "fail")
    assert "may not use this daemon" in last["detail"]
    assert "docs/security.md" in last["remedy"]


def test_a_reader_of_the_group_reads_what_is_visible_and_changes_nothing(place: Place) -> None:
    configure(place, f'group = "{TEAM.gr_name}"', '"user:root"')
    assert stat.S_IMODE(place.socket.stat().st_mode) == 0o660
    assert place.socket.stat().st_gid == TEAM.gr_gid
    before = place.status()
    alone = partial(answers, place.socket, samples(place, ["status"]))
    assert as_user(STRANGER.pw_uid, [], alone) == "PermissionError"
    for name, (status, text) in zip(
        READS, asked_by(place, [TEAM.gr_gid], samples(place, READS)), strict=True
    ):
        # No document here is a PDF.
        assert status == (404 if name == "page_image" else 200), (name, text)
        told = without_own_question(text)
        assert CANARY not in told and not re.search(r"\bclosed\b", told), name
    for status, text in asked_by(place, [TEAM.gr_gid], samples(place, CHANGES)):
        assert status == 403
        message = json.loads(text)["error"]["message"]
        assert "needs the role " in message and "read" in message
    seen = json.loads(asked_by(place, [TEAM.gr_gid], samples(place, ["status"]))[0][1])
    assert (before["documents"], seen["documents"]) == (3, 2)
    assert [one["name"] for one in seen["sources"]] == ["open"]
    assert place.status()["version"] == before["version"]
    recorded = [json.loads(line) for line in _audit(place).read_text().splitlines()]
    refused = {one["action"] for one in recorded if one["status"] == 403}
    assert refused == set(CHANGES) - {"metrics", "watches", "watch_changes"}
    assert {entry["user"] for entry in recorded if entry["status"] == 403} == {"nobody"}
    assert CANARY not in _audit(place).read_text()


def test_the_status_for_a_readers_agent_says_where_texts_are_sent(place: Place) -> None:
    llm = '[llm]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nquestions = "off"'
    configure(place, f'group = "{TEAM.gr_name}"\n{llm}', '"user:root"')
    status = Tools(Client(place.socket)).status
    told = as_user(STRANGER.pw_uid, [TEAM.gr_gid], status)
    assert told["text_is_sent_to"] == status()["text_is_sent_to"] == "127.0.0.1:9"
    assert told["documents"] == 2


def test_a_hidden_source_does_not_exist_for_a_member_who_names_it(place: Place) -> None:
    configure(place, f'group = "{TEAM.gr_name}"', '"user:root"')
    hidden = place.get(f"/v1/document?source=closed&document={CANARY}.md")["passages"][0]["id"]
    asked: list[Asked] = [
        ("GET", f"/v1/document?source=closed&document={CANARY}.md", None),
        ("GET", f"/v1/passages/{hidden}", None),
        ("GET", f"/v1/neighbours/{hidden}", None),
        ("GET", "/v1/documents?source=closed", None),
        ("GET", "/v1/documents?source=absent", None),
        ("GET", f"/v1/page-image/{hidden}", None),
    ]
    answered = asked_by(place, [TEAM.gr_gid], asked)
    assert [status for status, _ in answered] == [404] * 6
    assert answered[3][1].replace("closed", "absent") == answered[4][1]


@pytest.mark.parametrize("who", ["user:nobody", f"group:{TEAM.gr_name}"])
def test_a_source_is_visible_to_the_users_and_groups_that_it_names(place: Place, who: str) -> None:
    configure(place, f'group = "{TEAM.gr_name}"', f'"{who}"')
    ((status, text),) = asked_by(place, [TEAM.gr_gid], samples(place, ["query"]))
    assert status == 200
    assert f"Ada Byron praised the {CANARY} in Rome." in text


def test_a_source_that_left_the_configuration_is_hidden_from_readers(place: Place) -> None:
    configure(place, f'group = "{TEAM.gr_name}"', '"user:root"')
    place.stop()
    place.configure(source("open", place.notes / "open") + f'[access]\ngroup = "{TEAM.gr_name}"\n')
    place.start()
    ((status, text),) = asked_by(place, [TEAM.gr_gid], samples(place, ["query"]))
    assert status == 200 and json.loads(text)["passages"]
    assert "praised" not in text
    assert CANARY in json.dumps(place.query(QUESTION))


def test_an_admin_who_is_not_the_owner_changes_what_the_owner_may(place: Place) -> None:
    configure(place, f'group = "{TEAM.gr_name}"\nadmins = ["user:nobody"]', '"user:root"')
    told = asked_by(place, [TEAM.gr_gid], samples(place, ["tag", "pause", "query", "metrics"]))
    assert [status for status, _ in told] == [200, 200, 200, 200]
    assert CANARY in told[2][1]
    recorded = [json.loads(line) for line in _audit(place).read_text().splitlines()]
    assert [(entry["action"], entry["user"], entry["asked"]) for entry in recorded][-2:] == [
        ("tag", "nobody", {"name": "first", "version": "1"}),
        ("pause", "nobody", {"name": "closed"}),
    ]
    assert stat.S_IMODE(_audit(place).stat().st_mode) == 0o600


def test_over_tcp_only_a_token_gives_access(place: Place) -> None:
    configure(place, f'listen = "127.0.0.1:{free_port()}"')
    address = place.home / "config.toml"
    url = "http://" + address.read_text().partition('listen = "')[2].partition('"')[0]
    token = {"authorization": f"Bearer {new_token(place, 'admin')}"}
    with httpx2.Client(base_url=url, timeout=60) as http:
        for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic x"}):
            refused = http.get("/v1/status", headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert refused.json()["error"]["code"] == "unauthorized"
        assert http.get("/v1/status", headers=token).json()["documents"] == 3
        for browser in (
            {"origin": "http://evil.example"},
            {"referer": "http://evil.example/"},
            {"sec-fetch-site": "cross-site"},
            {"host": "evil.example"},
        ):
            refused = http.get("/v1/status", headers={**token, **browser})
            assert refused.status_code == 403
            assert "version" not in refused.json()


def test_a_token_gives_the_rights_of_its_role(place: Place) -> None:
    tcp = f"127.0.0.1:{free_port()}"
    configure(place, f'listen = "{tcp}"', '"user:root"')
    with httpx2.Client(base_url=f"http://{tcp}", timeout=60) as http:
        texts = {role: new_token(place, role) for role in get_args(Role)}

        def status(role: str, operation: str) -> tuple[int, str]:
            method, path, body = SAMPLES[operation]
            token = {"authorization": f"Bearer {texts[role]}"}
            answer = http.request(method, path, json=body, headers=token)
            return answer.status_code, answer.text

        assert status("metrics", "health")[0] == 200
        assert "hopsyncd_documents 3" in status("metrics", "metrics")[1]
        for operation in ("purge", "query", "status", "documents", "log", "sync", "backup"):
            assert status("metrics", operation)[0] == 403
        for operation in ("query", "status", "documents", "log", "sources"):
            code, text = status("read", operation)
            told = without_own_question(text)
            assert code == 200 and CANARY not in told and "closed" not in told
            assert CANARY in status("admin", operation)[1] + status("admin", "documents")[1]
        for operation in ("purge", "metrics", "sync"):
            assert status("read", operation)[0] == 403
        assert status("admin", "tag")[0] == status("owner", "untag")[0] == 200
        listed = place.printed("token", "list")["tokens"]
        assert [one["user"] for one in listed] == list(texts)
        assert all(token["used"] for token in listed if token["role"] != "write")
        gone = next(token["id"] for token in listed if token["role"] == "metrics")
        assert place.run("token", "revoke", gone).returncode == 0
        assert status("metrics", "health")[0] == 401


def test_an_admin_writes_backups_only_below_the_folder_for_them(place: Place) -> None:
    admins = f'group = "{TEAM.gr_name}"\nadmins = ["user:nobody"]'
    configure(place, admins, "")
    backups, elsewhere = place.base / "backups", place.base / "login_script"
    backups.mkdir(mode=0o755)
    asked: list[Asked] = [
        ("POST", "/v1/backup", {"file": str(file)})
        for file in (elsewhere, backups / "notes.db", backups / "../login_script")
    ]
    for status, text in asked_by(place, [TEAM.gr_gid], asked):
        assert status == 403
        assert "only the owner" in json.loads(text)["error"]["message"]
    file = place.home / "config.toml"
    file.write_text(f'{file.read_text()}backup_dir = "{backups}"\n')
    assert "access.backup_dir" in place.post("/v1/reload", {})["changed"]
    told = asked_by(place, [TEAM.gr_gid], asked)
    assert [status for status, _ in told] == [403, 200, 403]
    assert not elsewhere.exists()
    assert stat.S_IMODE((backups / "notes.db").stat().st_mode) == 0o600
    assert place.post("/v1/backup", {"file": str(elsewhere)})["bytes"]


def _audit(place: Place) -> Path:
    return place.home / "data/audit.log"
