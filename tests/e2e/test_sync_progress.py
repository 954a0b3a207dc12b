"""`sync --wait` tells what came since it was last asked, and what cannot be read."""

from collections.abc import Iterator
from typing import Any

import pytest

from hopsyncd.cli.output import send_and_report
from hopsyncd.client import Client, calls
from tests.e2e.daemon import SMALL, Place, new_place, source


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure(source("notes", made.notes))
        for number in range(6):
            made.write(f"old/{number}.md", f"Captain{number} met Nero in Rome.\n")
        yield made


def told(place: Place) -> dict[str, Any]:
    (found,) = place.sync()["sources"]
    return {kind: count for kind, count in found.items() if count and kind not in ("name", "since")}


def test_a_sync_reports_changes_that_the_daemon_indexed_by_itself(place: Place) -> None:
    place.start()
    place.until(lambda: place.status()["documents"] == 6)
    assert told(place) == {"added": 6}
    assert told(place) == {}
    place.write("old/0.md", "Captain0 met Ada in Oslo.\n")
    place.until(lambda: "old/0.md" in place.documents("Captain0 Ada Oslo", strategy="bm25"))
    assert told(place) == {"changed": 1}
    (place.notes / "old").rename(place.notes / "new")
    (place.notes / "new/5.md").unlink()
    assert told(place) == {"moved": 5, "removed": 1}


def test_a_restart_reports_changes_made_while_the_daemon_was_off(place: Place) -> None:
    place.start()
    place.sync()
    place.stop()
    place.write("late.md", "Ibsen met Oslo.\n")
    place.start()
    place.until(lambda: place.status()["documents"] == 7)
    assert told(place) == {"added": 1}


def test_the_summary_of_a_sync_names_changes_and_unreadable_files(place: Place) -> None:
    (place.notes / "bad.md").write_bytes(b"\x00\x01 no text")
    place.start()
    output = place.run("sync", "--wait").stdout.splitlines()
    assert output[0] == "notes: 6 added"
    assert output[1] == "  1 document cannot be read:"
    assert output[2].startswith("    bad.md: the file contains NUL bytes")
    version = place.status()["version"]
    assert output[-1] == f"Serving version {version}."
    again = place.run("sync", "--wait").stdout.splitlines()
    assert again[0] == f"notes: nothing changed since version {version}"


def test_a_long_sync_prints_lines_in_a_pipe(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1500):
        place.write(f"many/{number}.md", f"Pilot{number} met Nero in Rome.\n")
    place.start()
    with Client(place.socket) as client:
        answer = send_and_report(client, calls.sync(), every_s=0)
    assert answer["sources"][0]["added"] == 1506
    printed = capsys.readouterr()
    assert "notes: " in printed.err and "% of 1,506 documents" in printed.err
    assert not printed.out
