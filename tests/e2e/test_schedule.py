"""The schedule of a real daemon: what was due is done by itself, and told of."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from store.engines.sqlite.database import open_file
from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source

DAY_MS = 86_400_000
KEEP_ONE = "[retention]\nkeep_versions = 1\nkeep_days = 0\n"


@pytest.fixture
def small() -> Iterator[Place]:
    with new_place(SMALL) as made:
        yield made


def put_back(place: Place, job: str, by_ms: int) -> None:
    """Let the job's last run be longer ago, as if the machine had been off since."""
    with closing(open_file(place.home / "data/hopsyncd.db")) as connection:
        connection.execute(
            "UPDATE job SET ran_ms = ran_ms - ?1, succeeded_ms = succeeded_ms - ?1 WHERE name = ?2",
            [by_ms, job],
        )
        connection.commit()


def kept(place: Place) -> list[int]:
    versions = place.get("/v1/log?limit=100")["versions"]
    return [version["version"] for version in versions if version["collected"] is None]


def test_gc_that_was_missed_while_the_daemon_was_off_is_done_at_the_start(small: Place) -> None:
    small.configure(KEEP_ONE + GC_LATER + source("notes", small.notes))
    small.start()
    small.until(lambda: "gc" in small.jobs() and small.jobs()["gc"]["last_success"] is not None)
    for number in range(3):
        small.write("ferry.md", f"The ferry Halcyon has {number} captains.\n")
        small.sync()
    versions = kept(small)
    small.stop()
    small.start()
    assert len(versions) >= 3
    assert kept(small) == versions, "it ran less than a day ago"
    small.stop()
    put_back(small, "gc", 2 * DAY_MS)
    small.start()
    small.until(lambda: kept(small) == versions[:1])
    assert small.documents("captains of the ferry Halcyon", strategy="bm25") == ["ferry.md"]


def test_the_schedule_says_what_runs_when_and_when_it_last_ran(small: Place) -> None:
    small.configure(
        '[schedule]\ntime_zone = "Europe/Berlin"\n'
        + source("notes", small.notes, "scan_every_s = 1")
        + source("gone", small.base / "gone", 'scan_at = "0 6 * * mon Asia/Tokyo"')
    )
    small.start()
    small.until(lambda: {"scan notes", "scan gone", "gc"} <= small.jobs().keys())
    small.until(lambda: small.jobs()["scan gone"]["last_error"] is not None)
    small.until(lambda: small.jobs()["scan notes"]["last_success"] is not None)
    first = small.jobs()["scan notes"]["last_success"]
    small.until(lambda: small.jobs()["scan notes"]["last_success"] > first)
    now = small.jobs()
    assert now["scan notes"]["times"] == "every 1 s"
    assert now["scan gone"]["times"] == "at 0 6 * * mon (Asia/Tokyo)"
    assert now["gc"]["times"] == "at 30 3 * * * (Europe/Berlin)"
    assert now["scan gone"]["last_success"] is None
    printed = small.run("schedule").stdout
    assert "gc: at 30 3 * * * (Europe/Berlin)" in printed
    assert "scan gone" in printed and "failed: " in printed
    assert json.loads(small.run("schedule", "--json").stdout)["jobs"]


def test_invalid_times_are_refused_with_their_line(small: Place) -> None:
    small.configure('[schedule]\ngc_at = "3:30"\ntime_zone = "Berlin"\n')
    refused = small.run("serve")
    assert refused.returncode == 1
    assert ":2:" in refused.stderr and "five parts" in refused.stderr
    assert ":3:" in refused.stderr and "there is no time zone" in refused.stderr
