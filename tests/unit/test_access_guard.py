"""What stands before the application: strangers, browsers, tokens, and the record of changes."""

import asyncio
import json
import os
import socket
import stat
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopsyncd.api.access_guard import Guard
from hopsyncd.api.access_rules import Access, AccessRules
from hopsyncd.api.audit import AuditLog
from hopsyncd.api.failed_tokens import FREE, FailedTokens
from hopsyncd.api.mcp.document_server import guard_app
from hopsyncd.api.server import bind_address
from hopsyncd.api.tokens import OneToken, Role, TokenFile, Tokens, TokenUses
from hopsyncd.client.trust import UNKNOWN, Credentials
from hopsyncd.config.configuration import Config
from hopsyncd.errors import SocketRefused
from store.access_rules import OPEN, AccessRule

OWNER = Credentials(os.geteuid(), 1, frozenset({0}))
NOBODY = Credentials(65_534, 2, frozenset({65_534}))
MEMBER = Credentials(65_534, 3, frozenset({65_534, 1}))
TOKEN = "t" * 40
RECORDED: dict[str, AccessRule] = {"closed": OPEN, "old": OPEN}


async def whoami(request: Request) -> JSONResponse:
    caller = request.state.caller
    hidden = caller.acl.select_hidden(RECORDED)
    return JSONResponse({"role": caller.role, "hidden": sorted(hidden)})


async def change(request: Request) -> JSONResponse:
    request.state.action, request.state.asked = "purge", {"document": "a.md"}
    request.state.outcome = 503
    return JSONResponse({"error": {}}, 503)


async def stream(request: Request) -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        yield b"begun "
        request.state.outcome = 503
        yield b"failed"

    request.state.action = "sync"
    return StreamingResponse(parts())


APP = Starlette(
    routes=[
        Route("/", whoami),
        Route("/change", change, methods=["POST"]),
        Route("/stream", stream, methods=["POST"]),
    ]
)


def config(**access: Any) -> Config:
    source = {"name": "closed", "path": "/", "visible_to": ["user:root"]}
    return Config.model_validate({"access": access, "source": [source]})


def client(folder: Path, credentials: Credentials, **access: Any) -> TestClient:
    wanted = config(**access)
    file = folder / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    rules = AccessRules.from_config(wanted, RECORDED)
    guard = Guard(
        APP, Access(lambda: rules), AuditLog(folder / "audit.log"), OneToken(file, "admin")
    )
    return TestClient(_from(credentials, guard), base_url="http://localhost")


def _from(credentials: Credentials, app: ASGIApp) -> ASGIApp:
    async def connected(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"credentials": credentials}
        await app(scope, receive, send)

    return connected


def test_the_owner_may_do_everything_and_other_users_nothing(tmp_path: Path) -> None:
    assert client(tmp_path, OWNER).get("/").json() == {"role": "owner", "hidden": []}
    refused = client(tmp_path, MEMBER).get("/")
    assert refused.status_code == 403
    assert "nobody" in refused.json()["error"]["message"]


def test_members_of_the_group_read_and_admins_may_do_everything(tmp_path: Path) -> None:
    member = client(tmp_path, MEMBER, group="daemon").get("/")
    assert member.json() == {"role": "read", "hidden": ["closed", "old"]}
    assert client(tmp_path, NOBODY, group="daemon").get("/").status_code == 403
    for who in ("user:nobody", "group:daemon"):
        admin = client(tmp_path, MEMBER, admins=[who]).get("/")
        assert admin.json() == {"role": "admin", "hidden": []}


def test_the_sets_of_hidden_sources_are_known_before_members_ask() -> None:
    named = {"notes": [], "minutes": ["group:daemon", "user:root"], "pay": ["user:root"]}
    sources = [{"name": name, "path": f"/{name}", "visible_to": who} for name, who in named.items()]
    wanted = Config.model_validate({"access": {"group": "daemon"}, "source": sources})
    stored = dict.fromkeys(named, OPEN)
    masks = AccessRules.from_config(wanted, {**stored, "old": OPEN}).list_masks()
    assert masks == [{"old", "minutes", "pay"}, {"old", "pay"}, {"old"}]
    assert {"old"} not in AccessRules.from_config(wanted, stored).list_masks()
    assert AccessRules.from_config(config(), RECORDED).list_masks() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Referer": "http://localhost/"},
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Dest": "script"},
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:80"},
        {"Host": ""},
    ],
)
def test_requests_of_a_browser_are_refused_even_from_the_owner(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    refused = client(tmp_path, OWNER).get("/", headers=headers)
    assert refused.status_code == 403
    assert refused.json()["error"]["hint"]


def test_requests_of_fetch_in_node_are_not_taken_for_a_browser(tmp_path: Path) -> None:
    sent = {"Sec-Fetch-Mode": "cors", "User-Agent": "node", "Accept-Language": "*"}
    assert client(tmp_path, OWNER).get("/", headers=sent).status_code == 200


@pytest.mark.parametrize("host", ["hopsyncd", "localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]"])
def test_the_names_of_this_machine_are_accepted(tmp_path: Path, host: str) -> None:
    assert client(tmp_path, OWNER).get("/", headers={"Host": host}).status_code == 200


def test_over_tcp_the_token_alone_counts(tmp_path: Path) -> None:
    tcp = client(tmp_path, UNKNOWN, group="daemon")
    for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}):
        assert tcp.get("/", headers=wrong).status_code == 401
    right = tcp.get("/", headers={"Authorization": f"bearer {TOKEN}"})
    assert right.json() == {"role": "admin", "hidden": []}


def remote_guard(folder: Path, rules: AccessRules, **more: Any) -> tuple[TokenFile, Guard]:
    tokens = TokenFile(folder / "tokens.json")
    known = Tokens(folder / "tokens.json", TokenUses(folder / "uses.json"))
    audit = AuditLog(folder / "audit.log")
    return tokens, Guard(APP, Access(lambda: rules), audit, known, **more)


def test_a_token_sees_what_its_role_its_user_and_its_sources_allow(tmp_path: Path) -> None:
    rules = AccessRules.from_config(config(), {"closed": OPEN, "open": OPEN, "old": OPEN})
    mine, boards = (("user:ann",),), (("group:board",),)
    rules = replace(rules, rules={**rules.rules, "open": OPEN, "closed": mine})
    tokens, guard = remote_guard(tmp_path, rules)
    tcp = TestClient(_from(UNKNOWN, guard), base_url="http://localhost")

    def hidden(user: str, role: Role, *sources: str, groups: tuple[str, ...] = ()) -> list[str]:
        _, text = tokens.add(user, role, None, sources, groups)
        answer = tcp.get("/", headers={"Authorization": f"Bearer {text}"}).json()
        assert answer["role"] == role
        found: list[str] = answer["hidden"]
        return found

    assert hidden("ann", "owner") == hidden("ann", "admin") == []
    assert hidden("ann", "read") == hidden("ann", "write") == ["old"]
    assert hidden("bob", "read") == ["closed", "old"]
    assert hidden("ann", "metrics") == ["closed", "old"]
    assert hidden("ann", "read", "open") == ["closed", "old"]
    # A limit gives nothing that the user may not see without it.
    assert hidden("bob", "read", "closed", "old") == ["closed", "old"]
    rules = replace(rules, rules={"closed": boards})
    _, guard = remote_guard(tmp_path, rules)
    tcp = TestClient(_from(UNKNOWN, guard), base_url="http://localhost")
    assert hidden("bob", "read") == ["closed", "old"]
    assert hidden("bob", "read", groups=("board",)) == ["old"]
    # The name of a user is not the name of a group.
    assert hidden("board", "read") == ["closed", "old"]


def test_wrong_tokens_are_slowed_and_logged_without_the_secret(tmp_path: Path) -> None:
    rules = AccessRules.from_config(config(), RECORDED)
    tokens, guard = remote_guard(tmp_path, rules)
    guard._failed = FailedTokens(lambda: 0.0)  # a clock that stands still
    tcp = TestClient(_from(UNKNOWN, guard), base_url="http://localhost", client=("192.0.2.7", 1))
    made, right = tokens.add("ann", "read", None)
    good = {"Authorization": f"Bearer {right}"}
    assert tcp.get("/", headers=good).status_code == 200
    guess = f"hops_{made.id}_{'x' * 43}"
    with structlog.testing.capture_logs() as logs:
        statuses = [
            tcp.get("/", headers={"Authorization": f"Bearer {guess}"}).status_code
            for _ in range(FREE + 5)
        ]
    assert statuses == [401] * (FREE + 1) + [429] * 4
    assert len(logs) == FREE + 1
    assert {(line["address"], line["token"]) for line in logs} == {("192.0.2.7", made.id)}
    assert "xxx" not in str(logs)
    refused = tcp.get("/", headers={"Authorization": f"Bearer {guess}"})
    assert refused.headers["retry-after"] == "1"
    # Wrong tokens of a neighbour at the same address lock nobody out.
    assert tcp.get("/", headers=good).status_code == 200
    _, other = tokens.add("bob", "read", None)
    assert tcp.get("/", headers={"Authorization": f"Bearer {other}"}).status_code == 200


def test_the_number_of_concurrent_requests_of_a_user_is_limited(tmp_path: Path) -> None:
    tokens, guard = remote_guard(tmp_path, AccessRules.from_config(config(), RECORDED), per_user=2)
    _, anns = tokens.add("ann", "read", None)
    _, again = tokens.add("ann", "read", None)
    _, bobs = tokens.add("bob", "read", None)
    held, release = threading.Semaphore(0), threading.Event()

    async def hold(request: Request) -> JSONResponse:
        held.release()
        await run_in_threadpool(release.wait, 60)
        return JSONResponse({})

    guard._app = Starlette(routes=[Route("/hold", hold), Route("/", whoami)])

    def ask(token: str, path: str) -> Any:
        tcp = TestClient(_from(UNKNOWN, guard), base_url="http://localhost")
        return tcp.get(path, headers={"Authorization": f"Bearer {token}"})

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, token, "/hold") for token in (anns, again)]
        for _ in waiting:
            assert held.acquire(timeout=60)
        refused = ask(anns, "/")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert ask(bobs, "/").status_code == 200
        release.set()
        assert [one.result().status_code for one in waiting] == [200, 200]
    assert ask(anns, "/").status_code == 200


async def respond(guard: Guard, path: str, token: str) -> list[Message]:
    """What the guard sends to a client that stays."""
    sent: list[Message] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())],
        "state": {"credentials": UNKNOWN},
    }

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    return sent


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("expires", [True, False])
def test_a_response_ends_soon_after_its_token_is_revoked_or_has_expired(
    tmp_path: Path, begins: bool, expires: bool
) -> None:
    tokens, guard = remote_guard(tmp_path, AccessRules.from_config(config(), RECORDED))
    start_s = time.time()
    clock = [start_s]
    file, uses = tmp_path / "tokens.json", TokenUses(tmp_path / "uses")
    guard._tokens = Tokens(file, uses, lambda: clock[0])
    made, anns = tokens.add("ann", "read", int(start_s) + 1000)
    _, bobs = tokens.add("bob", "read", None)
    ends: list[str] = []

    async def endless(_: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"begun"
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("stream")

        if not begins:
            await asyncio.Event().wait()
        return StreamingResponse(parts())

    async def brief(_: Request) -> JSONResponse:
        await asyncio.sleep(2)  # several checks, which find nothing
        return JSONResponse({})

    guard._app = Starlette(routes=[Route("/endless", endless), Route("/brief", brief)])

    async def revoke() -> None:
        await asyncio.sleep(0.7)
        if expires:
            clock[0] += 2000
        else:
            tokens.remove(lambda token: token.id == made.id, "")

    async def run() -> Any:
        jobs = respond(guard, "/endless", anns), respond(guard, "/brief", bobs), revoke()
        return await asyncio.wait_for(asyncio.gather(*jobs), 60)

    ended, kept, _ = asyncio.run(run())
    assert [message.get("status", 0) for message in kept] == [200, 0]
    assert ended[0]["status"] == (200 if begins else 401)
    assert ends == ["stream"] * begins
    if begins:  # the last part is never sent, so the server closes the connection
        assert [(part["body"], part["more_body"]) for part in ended[1:]] == [(b"begun", True)]
    assert not guard._in_hand


def test_a_change_is_recorded_with_its_caller_and_outcome(tmp_path: Path) -> None:
    assert client(tmp_path, OWNER).post("/change").headers["retry-after"] == "1"
    client(tmp_path, OWNER).get("/")
    file = tmp_path / "audit.log"
    (line,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert line["action"] == "purge" and line["asked"] == {"document": "a.md"}
    assert (line["status"], line["uid"], line["pid"]) == (503, OWNER.uid, 1)
    assert line["role"] == "owner"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


class BareServer:
    """An MCP server of which only the app is used."""

    def streamable_http_app(self, **_: object) -> ASGIApp:
        return APP


def test_the_guard_of_mcp_leaves_the_audit_files_of_the_daemon_alone(tmp_path: Path) -> None:
    old = tmp_path / "audit.log.old"
    old.touch()
    os.utime(old, (0, 0))
    wanted = config()
    beside = wanted.model_copy(
        update={"daemon": wanted.daemon.model_copy(update={"data_dir": tmp_path})}
    )
    guard = guard_app(cast(Any, BareServer()), beside)
    asked = TestClient(_from(OWNER, guard), base_url="http://localhost")
    assert asked.post("/change").status_code == 503
    assert {file.name for file in tmp_path.glob("audit*")} == {old.name}


def test_the_outcome_of_a_stream_is_recorded(tmp_path: Path) -> None:
    assert client(tmp_path, OWNER).post("/stream").status_code == 200
    (line,) = (tmp_path / "audit.log").read_text().splitlines()
    recorded = json.loads(line)
    assert (recorded["action"], recorded["asked"], recorded["status"]) == ("sync", {}, 503)


def test_an_address_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SocketRefused, match=str(port)):
            bind_address("127.0.0.1", port, "Take another")
