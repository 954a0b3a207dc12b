"""What stopped a reader once: remembered over restarts, until the program reads in another way."""

import sys
from pathlib import Path

import pytest

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.sandbox.messages import Limits
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from store.commit import put_seen
from store.contract import Connection
from store.engines.sqlite.database import open_writer
from store.operational import count_quarantined, end_quarantine, find_quarantined, put_quarantined
from store.records import Seen
from store.sources import (
    ListingState,
    put_listing_state,
    read_listing_state,
    read_seen_items,
    register_source,
)

BAD = (sys.executable, "-P", "-m", "tests.fakes.bad_reader")
LIMITS = Limits(light_bytes=0)


def reader(connection: Connection, rules: str) -> ExtractionProcess:
    return ExtractionProcess(
        limits=LIMITS,
        command=BAD,
        quarantined=find_quarantined(connection, rules),
        on_quarantine=lambda content, why: put_quarantined(connection, content, rules, why, 0),
    )


def test_a_content_that_crashed_a_reader_is_not_read_by_the_next_one(tmp_path: Path) -> None:
    connection = open_writer(tmp_path / "s.db")
    first = reader(connection, "1")
    with pytest.raises(DocumentUnreadable, match="SIGABRT") as crashed:
        first.extract(b"crash", "text/plain")
    first.close()
    second = ExtractionProcess(
        limits=LIMITS, command=("/no/such/program",), quarantined=find_quarantined(connection, "1")
    )
    with pytest.raises(DocumentUnreadable) as told:
        second.extract(b"crash", "text/plain")
    assert (told.value.why, told.value.hint) == (crashed.value.why, crashed.value.hint)
    assert "or the hopsyncd version changes" in told.value.hint


def test_a_new_version_of_hopsyncd_ends_quarantine_and_retries_unreadable_items(
    tmp_path: Path,
) -> None:
    connection = open_writer(tmp_path / "s.db")
    row = register_source(connection, "notes", "git", "")
    put_listing_state(connection, row, ListingState("7", 5))
    put_seen(connection, [Seen(row, "a", "r1", b"", "why", "hint"), Seen(row, "b", "r2", b"")], [])
    put_quarantined(connection, b"x", "1", "crashes", 0)
    assert not end_quarantine(connection, "1")
    assert read_listing_state(connection, row).cursor == "7"
    assert end_quarantine(connection, "2")
    assert count_quarantined(connection) == 0
    assert read_listing_state(connection, row).cursor is None
    revisions = {path: seen.revision for path, seen in read_seen_items(connection, row).items()}
    assert revisions == {"a": "", "b": "r2"}
    assert not end_quarantine(connection, "2"), "it is done once"
