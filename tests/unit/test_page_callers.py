"""Requests that the daemon's page sends for browsers: they never count as the daemon's own user."""

import asyncio
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from hopsyncd.api.access_guard import Guard, guard_daemon
from hopsyncd.api.access_rules import Access, AccessRules
from hopsyncd.api.audit import AuditLog
from hopsyncd.api.failed_tokens import FREE
from hopsyncd.api.tokens import Tokens, TokenUses
from hopsyncd.client.protocol import BROWSER_HEADER
from hopsyncd.client.trust import UNKNOWN, Credentials
from hopsyncd.config.configuration import Config
from hopsyncd.web.sessions import Person
from store.access_rules import OPEN
from tests.unit.test_access_guard import APP, MEMBER, OWNER, RECORDED, _from, config, remote_guard

ANN = Person("ann", "read", ("board",))
FOR_BROWSER = {BROWSER_HEADER: "192.0.2.7"}


class OnePage:
    """A page with one session."""

    def __init__(self) -> None:
        self.persons = {b"page_of_ann": ANN}

    def find_person(self, key: bytes) -> Person | None:
        return self.persons.get(key)

    def find_user(self, user: str) -> Person | None:
        return next((person for person in self.persons.values() if person.user == user), None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("the page")(scope, receive, send)


RULES = replace(
    AccessRules.from_config(config(), {"closed": OPEN, "old": OPEN}),
    rules={"closed": (("group:board",),)},
)


def asking(folder: Path, credentials: Credentials, page: OnePage | None = None) -> TestClient:
    _, guard = remote_guard(folder, RULES, page=page or OnePage())
    return TestClient(_from(credentials, guard), base_url="http://hopsyncd")


def bearer(key: str) -> dict[str, str]:
    return {**FOR_BROWSER, "Authorization": f"Bearer {key}"}


def test_the_page_has_the_rights_of_the_person_alone(tmp_path: Path) -> None:
    page = OnePage()
    owner = asking(tmp_path, OWNER, page)
    assert owner.get("/").json()["role"] == "owner"
    found = owner.get("/", headers=bearer("page_of_ann"))
    assert found.json() == {"role": "read", "hidden": ["old"]}
    page.persons[b"page_of_ann"] = Person("ann", "admin")
    assert owner.get("/", headers=bearer("page_of_ann")).json()["role"] == "admin"
    page.persons[b"page_of_ann"] = Person("ann", "read")
    assert owner.get("/", headers=bearer("page_of_ann")).json()["hidden"] == ["closed", "old"]


@pytest.mark.parametrize(
    "headers",
    [
        FOR_BROWSER,
        {BROWSER_HEADER: ""},
        bearer("page_of_nobody"),
        bearer(""),
        bearer("hops_00000000_" + "x" * 43),
        {**FOR_BROWSER, "Authorization": "page_of_ann"},
    ],
)
def test_without_a_session_the_page_may_do_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    assert asking(tmp_path, OWNER).get("/", headers=headers).status_code == 401


def test_a_session_that_has_ended_is_no_guess_at_a_token(tmp_path: Path) -> None:
    owner = asking(tmp_path, OWNER)
    for _ in range(FREE + 3):
        assert owner.get("/", headers=bearer("page_that_ended")).status_code == 401
    for _ in range(FREE + 1):
        guess = owner.get("/", headers=bearer("hops_00000000_" + "x" * 43))
        assert guess.status_code == 401
    assert owner.get("/", headers=bearer("hops_00000000_" + "x" * 43)).status_code == 429


def test_a_pasted_token_has_its_own_rights(tmp_path: Path) -> None:
    tokens, guard = remote_guard(tmp_path, RULES, page=OnePage())
    owner = TestClient(_from(OWNER, guard), base_url="http://hopsyncd")
    made, text = tokens.add("bob", "read", None)
    assert owner.get("/", headers=bearer(text)).json()["hidden"] == ["closed", "old"]
    tokens.remove(lambda token: token.id == made.id, "")
    assert owner.get("/", headers=bearer(text)).status_code == 401


def test_the_key_of_a_session_opens_nothing_but_the_own_socket(tmp_path: Path) -> None:
    assert asking(tmp_path, UNKNOWN).get("/", headers=bearer("page_of_ann")).status_code == 401
    assert asking(tmp_path, MEMBER).get("/", headers=bearer("page_of_ann")).status_code == 403


def test_without_a_page_no_session_is_known(tmp_path: Path) -> None:
    _, guard = remote_guard(tmp_path, RULES)
    owner = TestClient(_from(OWNER, guard), base_url="http://hopsyncd")
    assert owner.get("/", headers=bearer("page_of_ann")).status_code == 401


def whole_daemon(folder: Path, **access: Any) -> TestClient:
    """The daemon's application as TCP clients meet it."""
    given = {"data_dir": str(folder)}
    made = Config.model_validate({"access": access, "daemon": given}, context={"base": folder})
    audit, rules = AuditLog(folder / "audit.log"), AccessRules.from_config(made, RECORDED)
    app = guard_daemon(APP, Access(lambda: rules), audit, made, None, OnePage())
    return TestClient(_from(UNKNOWN, app), base_url="http://localhost", client=("192.0.2.7", 1))


def test_browsers_get_the_page_and_programs_the_api(tmp_path: Path) -> None:
    remote = whole_daemon(tmp_path)
    for path in ("/", "/sources", "/login/callback", "/v1", "/v2/status"):
        assert remote.get(path).text == "the page"
    assert remote.get("/v1/status").status_code == 401
    assert remote.get("/", headers={"Authorization": "Bearer x"}).status_code == 401


def test_the_page_is_behind_the_proxy_too(tmp_path: Path) -> None:
    remote = whole_daemon(tmp_path, behind_proxy=["192.0.2.7/32"], listen="127.0.0.1:7717")
    proxied = {"X-Forwarded-For": "198.51.100.1", "X-Forwarded-Proto": "https"}
    assert remote.get("/", headers=proxied).text == "the page"
    assert remote.get("/", headers={**proxied, "X-Forwarded-Proto": "http"}).status_code == 403
    assert remote.get("/").status_code == 403


async def _slow(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(1.2)
    await PlainTextResponse(scope["state"]["caller"].name)(scope, receive, send)


def test_a_slow_answer_reaches_a_person_unless_the_session_ends_meanwhile(tmp_path: Path) -> None:
    page = OnePage()
    tokens = Tokens(tmp_path / "tokens.json", TokenUses(tmp_path / "uses.json"))
    access, audit = Access(lambda: RULES), AuditLog(tmp_path / "audit.log")
    guard = Guard(_slow, access, audit, tokens, page=page)
    client = TestClient(_from(OWNER, guard), base_url="http://hopsyncd")
    found = client.get("/", headers=bearer("page_of_ann"))
    assert (found.status_code, found.text) == (200, "ann")
    Timer(0.2, page.persons.clear).start()
    ended = client.get("/", headers=bearer("page_of_ann"))
    assert ended.status_code == 401 and "the browser's session has ended" in ended.text
