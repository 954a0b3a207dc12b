"""The database goes away under the daemon: every write fails in words, and the status says so."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source

WRITES = {
    "/v1/sync": {},
    "/v1/tags": {"name": "release"},
    "/v1/restore": {"version": "1"},
    "/v1/release": {},
    "/v1/pause": {"name": "notes"},
    "/v1/resume": {"name": "notes"},
    "/v1/remove": {"name": "notes"},
    "/v1/purge": {"document": "pier.md"},
    "/v1/gc": {},
    "/v1/rebuild": {},
    "/v1/backup": {"file": "/nowhere/copy.db"},
    "/v1/check": {},
    "/v1/reload": {},
}


def overwrite(database: Path) -> None:
    database.write_bytes(b"some text\n" * 100_000)


def replace(database: Path) -> None:
    shutil.copy(database, database.with_name("copy"))
    database.with_name("copy").replace(database)


ACTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "deleted": (Path.unlink, "hopsyncd.db was deleted or moved away"),
    "replaced": (replace, "another file has replaced the database file"),
    "cut short": (lambda database: os.truncate(database, 4096), "the database file was truncated"),
    "overwritten": (overwrite, "the file can no longer be read"),
    "with its folder": (lambda database: shutil.rmtree(database.parent), "was deleted"),
}


@pytest.mark.parametrize("act", ACTS)
def test_nothing_claims_success_once_the_database_is_gone(act: str) -> None:
    go, why = ACTS[act]
    with new_place(SMALL) as place:
        place.configure(source("notes", place.notes))
        place.write("pier.md", "The lamp of the pier is green.\n")
        place.start()
        place.sync()
        place.post("/v1/gc", {})  # moves what is in the log to the file
        go(place.home / "data/hopsyncd.db")
        place.write("pier.md", "The lamp of the pier is red.\n")
        for path, body in WRITES.items():
            refuse(place, path, body, why)
        status = place.status()
        assert why in status["error"]
        assert any(why in reason for reason in status["degraded"])
        health = place.request("GET", "/v1/health")
        assert (health.status_code, why in health.text) == (503, True)
        ran = place.run("sync")  # that does not wait
        assert ran.returncode != 0 and why in ran.stderr
        assert "Traceback" not in place.log.read_text() + ran.stderr


def refuse(place: Place, path: str, body: dict[str, str], why: str) -> None:
    answer = place.request("POST", path, json.dumps(body).encode())
    assert answer.status_code == 503, (path, answer.text)
    assert why in answer.json()["error"]["message"], path
