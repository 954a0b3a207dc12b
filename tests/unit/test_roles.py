"""Every endpoint for every role, and the tokens that give a role over TCP."""

import os
from pathlib import Path
from typing import Any, get_args

import pytest
from starlette.testclient import TestClient

from hopsyncd.api.access import Caller
from hopsyncd.api.app import ENDPOINTS, make_app
from hopsyncd.api.endpoints import Endpoint
from hopsyncd.api.tokens import Role, Tokens, revoke_token, token_file, token_in
from hopsyncd.config.configuration import Config
from hopsyncd.retrieve.visible_sources import EVERYTHING
from tests.fakes.service import FakeService, services_of

ROLES: tuple[Role, ...] = get_args(Role)
# Written out once more, so that a new endpoint is for admins until somebody decides otherwise here.
READS = {
    *("query", "queries", "ask", "passage", "documents", "document", "neighbours", "paths"),
    *("log", "diff", "status", "sources", "schedule", "jobs", "stats", "openapi"),
    *("facets", "examples", "file", "history"),
}
MAY: dict[str, set[Role]] = {
    **{operation: {"owner", "admin", "read"} for operation in READS},
    "health": {"owner", "admin", "read", "metrics"},
    "metrics": {"owner", "admin", "metrics"},
    "allow_watch": {"owner"},
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=[one.operation for one in ENDPOINTS])
def test_a_role_reaches_what_it_may_and_nothing_else(endpoint: Endpoint, role: Role) -> None:
    service = FakeService()
    service.done.set_result({"version": 1})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope.setdefault("state", {})["caller"] = Caller("somebody", role, EVERYTHING)
        await made(scope, receive, send)

    made = make_app(services_of(service))
    path = endpoint.path.replace("{id}", "1").replace("{name}", "x")
    answer = TestClient(app).request(endpoint.method, path)
    allowed = role in MAY.get(endpoint.operation, {"owner", "admin"})
    assert (answer.status_code != 403) is allowed, answer.text
    if not allowed:
        assert answer.json()["error"]["code"] == "forbidden"
        assert not service.syncs and not service.queries


def tokens(folder: Path) -> tuple[Tokens, Config]:
    config = Config.model_validate({"daemon": {"data_dir": str(folder)}})
    return Tokens.of(config), config


def test_each_role_has_a_token_of_its_own(tmp_path: Path) -> None:
    known, config = tokens(tmp_path)
    texts = {role: token_in(token_file(config, role)) for role in ROLES}
    assert len(set(texts.values())) == len(ROLES)
    assert {role: known.role_of(text.encode()) for role, text in texts.items()} == {
        role: role for role in ROLES
    }
    for wrong in (b"", b"x", texts["owner"][:-1].encode(), "é".encode("latin-1")):
        assert known.role_of(wrong) is None


def test_the_token_that_was_there_before_roles_is_an_admins(tmp_path: Path) -> None:
    known, _ = tokens(tmp_path)
    (tmp_path / "token").write_text("t" * 40)
    (tmp_path / "token").chmod(0o600)
    assert known.role_of(b"t" * 40) == "admin"


def test_a_token_counts_until_it_is_renewed_or_revoked(tmp_path: Path) -> None:
    known, config = tokens(tmp_path)
    file = token_file(config, "read")
    first = token_in(file).encode()
    assert known.role_of(first) == "read"
    second = token_in(file, renew=True).encode()
    assert (known.role_of(first), known.role_of(second)) == (None, "read")
    revoke_token(file)
    assert known.role_of(second) is None
    revoke_token(file)


def test_a_token_that_others_could_read_does_not_count(tmp_path: Path) -> None:
    known, config = tokens(tmp_path)
    file = token_file(config, "owner")
    text = token_in(file).encode()
    assert known.role_of(text) == "owner"
    file.chmod(0o644)
    assert known.role_of(text) is None
    file.chmod(0o600)
    assert known.role_of(text) == "owner"


def test_a_text_that_two_roles_share_gives_the_lesser_one(tmp_path: Path) -> None:
    known, config = tokens(tmp_path)
    text = token_in(token_file(config, "owner"))
    shared = token_file(config, "metrics")
    shared.touch(0o600)
    shared.write_text(text)
    assert known.role_of(text.encode()) == "metrics"


def test_a_pipe_in_the_place_of_a_token_stops_nothing(tmp_path: Path) -> None:
    known, config = tokens(tmp_path)
    os.mkfifo(token_file(config, "read"), 0o600)
    token = token_in(token_file(config, "admin"))
    assert known.role_of(token.encode()) == "admin"
