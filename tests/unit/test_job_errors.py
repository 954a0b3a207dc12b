"""Who may read why a scheduled job failed."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hopsyncd.api import status_service
from hopsyncd.api.access_rules import Caller
from hopsyncd.api.requests import NoParameters
from hopsyncd.api.status_service import StatusService
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from store.operational import JobRow
from store.visibility import HiddenFolders

JOBS = ("scan open", "scan partly", "scan closed", "gc", "backup")
WHY = "hr/pay.md is in the way"
MEMBER = Acl(
    frozenset({"open", "partly"}), frozenset({HiddenFolders("partly", ("hr/**",), (True, False))})
)
HIDDEN = "the last run failed; an admin can see why in `hopsyncd schedule`"


@pytest.mark.parametrize(
    ("acl", "told"),
    [
        (EVERYTHING, dict.fromkeys(JOBS, WHY)),
        (MEMBER, {"scan open": WHY, "scan partly": HIDDEN, "gc": HIDDEN, "backup": HIDDEN}),
    ],
)
def test_errors_that_can_name_hidden_items_are_not_shown(
    monkeypatch: pytest.MonkeyPatch, acl: Acl, told: dict[str, str]
) -> None:
    rows = {name: JobRow(name, 1, None, WHY) for name in JOBS}
    monkeypatch.setattr(status_service, "read_jobs", lambda _: rows)
    sources = [SimpleNamespace(name=name) for name in ("open", "partly", "closed")]
    settings = SimpleNamespace(sources=sources, llm=SimpleNamespace(questions="off"))
    runs = [SimpleNamespace(job=name, times="daily", next_ms=1) for name in JOBS]
    parts = SimpleNamespace(
        reader=SimpleNamespace(get_connection=lambda: None),
        state=SimpleNamespace(config=settings, models=SimpleNamespace(endpoint=None)),
        names=SimpleNamespace(removed=()),
        worker=SimpleNamespace(list_next_runs=lambda: runs),
    )
    nothing = cast(Any, None)
    service = StatusService(cast(Any, parts), nothing, {}, nothing, nothing)
    jobs = service.schedule(NoParameters(), Caller("ann", "read", acl))["jobs"]
    assert {job["job"]: job["last_error"] for job in jobs} == told
