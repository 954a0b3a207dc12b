"""Every endpoint for every role."""

from typing import Any, get_args

import pytest
from starlette.testclient import TestClient

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.app import ENDPOINTS, make_app
from hopsyncd.api.endpoints import Endpoint
from hopsyncd.api.tokens import Role
from hopsyncd.retrieve.visible_sources import EVERYTHING
from tests.fakes.service import FakeService, services_of

ROLES: tuple[Role, ...] = get_args(Role)
# Written out once more, so that a new endpoint is for admins until somebody decides otherwise here.
READS = {
    *("query", "queries", "ask", "passage", "documents", "document", "neighbours", "paths"),
    *("log", "diff", "status", "sources", "schedule", "jobs", "stats", "openapi"),
    *("facets", "document_map", "page_image", "examples", "file", "history"),
}
MAY: dict[str, set[Role]] = {
    **{operation: {"owner", "admin", "write", "read"} for operation in READS},
    "health": {"owner", "admin", "write", "read", "metrics"},
    "metrics": {"owner", "admin", "metrics"},
    "allow_watch": {"owner"},
    "audit": {"owner"},
    **{
        operation: {"owner", "admin", "write"}
        for operation in ("note", "watch", "watches", "watch_changes", "unwatch")
    },
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=[endpoint.operation for endpoint in ENDPOINTS])
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
        assert f"somebody has the role {role}, and this request needs the role " in answer.text
        assert not service.syncs and not service.queries
