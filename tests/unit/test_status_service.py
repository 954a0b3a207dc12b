"""The list of sources is made without the rest of the status."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hopsyncd.api import status_service
from hopsyncd.api.access_rules import Caller
from hopsyncd.api.requests import NoParameters
from hopsyncd.api.status_service import StatusService
from hopsyncd.retrieve.visible_sources import Acl
from store.open_database import open_writer

PARTS_OF_STATUS = (
    "list_item_problems",
    "count_skipped_by_kind",
    "read_counters",
    "measure_database",
    "list_pending_purges",
)


def _refuse(name: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise AssertionError(f"{name} is not part of the sources")

    return refuse


def test_sources_are_listed_without_the_rest_of_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PARTS_OF_STATUS:
        monkeypatch.setattr(status_service, name, _refuse(name))
    database = tmp_path / "a.db"
    with closing(open_writer(database)) as connection:
        parts = SimpleNamespace(
            reader=SimpleNamespace(get_connection=lambda: connection),
            state=SimpleNamespace(
                config=SimpleNamespace(sources=[], database=database),
                engine=SimpleNamespace(head=None),
            ),
            names=SimpleNamespace(configured=[], list_known=lambda _: set()),
            worker=SimpleNamespace(pending=True, list_next_runs=list),
            freshness=SimpleNamespace(list_reasons=lambda acl, behind: [f"behind: {behind}"]),
        )
        nothing = cast(Any, None)
        service = StatusService(cast(Any, parts), nothing, {}, nothing, nothing)
        caller = Caller("ann", "read", Acl(frozenset()))
        assert service.sources(NoParameters(), caller) == {
            "version": 0,
            "degraded": ["behind: True"],
            "sources": [],
        }
