"""`hopsyncd watch`, `watches` and `unwatch`, with a real daemon."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.daemon import Place, serving

QUESTION = "Where does Kaltenbrunn live?"


@pytest.fixture
def place() -> Iterator[Place]:
    with serving("notes", {"mira.md": "# Kaltenbrunn\n\nKaltenbrunn lives in Bergen.\n"}) as made:
        yield made


def test_the_commands_watch_show_and_end(place: Place) -> None:
    added = place.run("watch", QUESTION)
    assert added.returncode == 0 and "Bergen" in added.stdout, added.stderr
    place.write("mira.md", "# Kaltenbrunn\n\nKaltenbrunn lives in Cork.\n")
    version = place.sync()["version"]
    place.until(lambda: place.get("/v1/watches")["watches"][0]["checked"] == version)
    shown = place.run("watches", "1").stdout
    assert shown.index("Bergen") < shown.rindex("Cork") and "the answer changed" in shown
    assert place.printed("watches")["watches"][0]["changes"] == 1
    assert place.run("unwatch", "1").returncode == 0
    assert "You are not watching any questions" in place.run("watches").stdout
    assert "There is no watched question 1" in place.run("unwatch", "1").stderr


def test_actions_that_would_notify_another_machine_are_refused(place: Place) -> None:
    for address in ("http://example.org/", "http://127.0.0.1@example.org/", "file:///etc/passwd"):
        refused = place.run("watch", QUESTION, "--webhook", address)
        assert refused.returncode == 1 and "webhook" in refused.stderr
    assert "no program" in place.run("watch", QUESTION, "--exec", "no-such-program").stderr


def test_a_program_in_the_record_or_a_backup_is_not_run(place: Place, tmp_path: Path) -> None:
    made = tmp_path / "made"
    place.run("watch", QUESTION)
    place.stop()
    act = json.dumps({"exec": ["/usr/bin/touch", str(made)]})
    with closing(sqlite3.connect(place.home / "data/hopsyncd.db")) as record, record:
        record.execute("UPDATE watch SET act = ?", [act])
    place.start()
    _move(place, "Cork")
    shown = place.run("watches").stdout
    assert f"run /usr/bin/touch {made}" in shown and "`hopsyncd watches 1 --allow`" in shown
    for text in (place.run("status").stdout, place.run("doctor").stdout):
        assert "Programs or webhooks are off for 1 watched question, because" in text
    refused = place.run("watches", "1", "--allow")
    assert refused.returncode == 1 and "--yes" in refused.stderr and not made.exists()
    backup = tmp_path / "backup.db"
    assert place.run("backup", str(backup)).returncode == 0
    assert str(made).encode() not in backup.read_bytes()

    allowed = place.run("watches", "1", "--allow", "--yes")
    assert allowed.returncode == 0 and "Watch 1 is on" in allowed.stdout, allowed.stderr
    _move(place, "Graz")
    place.until(made.exists)
    assert "Programs or webhooks are off" not in place.run("status").stdout
    place.stop()
    copied = place.run("copy", "--to", str(tmp_path / "copy.db"))
    assert "The programs and webhooks of 1 watched question were not copied" in copied.stdout
    assert str(made).encode() not in (tmp_path / "copy.db").read_bytes()


def _move(place: Place, town: str) -> None:
    place.write("mira.md", f"# Kaltenbrunn\n\nKaltenbrunn lives in {town}.\n")
    version = place.sync()["version"]
    place.until(lambda: place.get("/v1/watches")["watches"][0]["checked"] == version)
