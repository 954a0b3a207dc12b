"""Backups end to end: by schedule and by hand, told where they fail, and restored elsewhere."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.client import Client
from store.engines.sqlite.database import open_reader
from store.versions import read_head
from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source
from tests.fakes.dump import Rows, graph_at

SAMPLES = {
    "ferry.md": "# Ferry\n\nThe ferry Halcyon sails from Cork. Orla Brennan is its captain.\n",
    "cork.md": "# Cork\n\nCork is a city in Ireland. The Halcyon is moored there.\n",
}


def configure(place: Place, backups: Path, more: str = "") -> None:
    place.configure(
        f'[backup]\ndir = "{backups}"\nat = "0 0 1 1 *"\nkeep = 2\n'
        + f"{more}{GC_LATER}{source('notes', place.notes)}"
    )


@pytest.fixture
def place() -> Iterator[Place]:
    """A daemon that has made its first backup, of version 1."""
    with new_place(SMALL) as made:
        configure(made, made.base / "backups")
        for path, text in SAMPLES.items():
            made.write(path, text)
        made.start()
        made.sync()
        made.until(lambda: backup_of(made)["kept"] == 1)
        yield made


def backup_of(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = place.status()["backup"]
    return found


def graph(place: Place) -> Rows:
    with closing(open_reader(place.home / "data/hopsyncd.db")) as connection:
        newest = read_head(connection)
        assert newest
        return graph_at(connection, newest.id)


def metric(place: Place, name: str) -> float:
    lines = Client(place.socket).metrics().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def test_a_missed_backup_is_made_at_the_start_and_reported(place: Place) -> None:
    told = backup_of(place)
    assert (told["error"], told["running"], told["folder"]) == (
        None,
        False,
        str(place.base / "backups"),
    )
    assert place.jobs()["backup"]["last_error"] is None
    (listed,) = place.printed("backup", "list")["backups"]
    assert (listed["name"], listed["created"]) == (told["newest"], told["created"])
    assert "1 backup in" in place.run("status").stdout
    assert metric(place, "hopsyncd_backup_failing") == 0
    assert metric(place, "hopsyncd_backup_created_seconds") > 1e9


def test_backups_on_request_rotate_among_themselves_and_count_as_runs(place: Place) -> None:
    scheduled = backup_of(place)["newest"]
    first, second, third = (place.printed("backup", "now") for _ in range(3))
    assert first["removed"] == second["removed"] == []
    assert third["removed"] == [first["name"]]
    listed = [backup["name"] for backup in place.printed("backup", "list")["backups"]]
    assert listed == [third["name"], second["name"], scheduled]
    assert backup_of(place)["newest"] == third["name"]


def test_the_command_of_former_versions_still_copies_to_a_file(place: Place) -> None:
    file = place.base / "copy.db"
    assert place.printed("backup", str(file))["file"] == str(file)
    assert file.exists()
    assert place.printed("backup", "now", "--to", f"{file}2")["name"] is None


def test_a_failed_backup_keeps_the_old_ones_and_is_reported(place: Place) -> None:
    before = place.printed("backup", "list")["backups"]
    with closing(sqlite3.connect(place.home / "data/hopsyncd.db")) as connection, connection:
        connection.execute("UPDATE match SET similarity = similarity / 2")
    ran = place.run("backup", "now")
    assert ran.returncode == 1 and "older backups are kept" in ran.stderr
    assert place.printed("backup", "list")["backups"] == before
    place.stop()
    # A failed run of the schedule: the last one was long ago.
    with closing(sqlite3.connect(place.home / "data/hopsyncd.db")) as connection, connection:
        connection.execute("DELETE FROM job WHERE name = 'backup'")
    place.start()
    place.until(lambda: backup_of(place)["error"] is not None)
    assert "the copy has errors" in backup_of(place)["error"].lower()
    assert "the last backup failed" in place.run("status").stdout
    assert "the last backup failed" in place.run("doctor").stdout
    assert metric(place, "hopsyncd_backup_failing") == 1
    assert place.printed("backup", "list")["backups"] == before


def test_a_restore_equals_a_fresh_index_after_its_first_scan(place: Place) -> None:
    place.write("ferry.md", SAMPLES["ferry.md"].replace("Orla Brennan", "Piet de Groot"))
    place.write("new.md", "# Kinsale\n\nKinsale lies south of Cork. Piet de Groot lives there.\n")
    place.sync()
    place.printed("tag", "draft")
    refused = place.run("backup", "restore", "latest")
    assert refused.returncode == 1 and "The database was not replaced" in refused.stderr
    assert "1 version, the newest" in refused.stdout and "1 tag: draft" in refused.stdout
    assert place.status()["version"] == 2
    done = place.printed("backup", "restore", "latest", "--yes")
    assert (done["version"], done["started"]) == (1, False)
    assert place.process and place.process.wait() == 0, "it was asked to stop"
    place.process = None
    assert (Path(done["replaced"]) / "hopsyncd.db").exists()
    place.start()
    assert place.sync()["version"] == 3
    with new_place(SMALL) as other:
        shutil.copytree(place.notes, other.notes, dirs_exist_ok=True)
        other.configure(GC_LATER + source("notes", other.notes))
        other.start()
        other.sync()
        assert graph(place) == graph(other)
    assert "which still exists" in place.run("doctor").stdout
    place.printed("backup", "now")
    assert not Path(done["replaced"]).exists(), "a verified backup proves the restored database"


def test_a_lost_disk_is_restored_on_another_machine(place: Place) -> None:
    assert place.query("Who is the captain of the Halcyon?")
    before = graph(place)
    place.kill()
    with new_place(SMALL) as other:
        shutil.rmtree(other.notes)
        place.notes.rename(other.notes)
        backups = other.base / "backups"
        (place.base / "backups").rename(backups)
        shutil.rmtree(place.home)
        (newest,) = [file for file in backups.iterdir() if not file.name.startswith(".")]
        kept = (newest / "config.toml").read_text()
        other.configure(kept.replace(str(place.base), str(other.base)))
        assert other.run("backup", "restore", newest.name).returncode == 0, "nothing to overwrite"
        other.start()
        made = other.generated()
        other.sync()
        assert graph(other) == before
        assert other.generated() == made, "no passage was prepared again"


def test_a_daemon_completes_a_restore_that_was_cut_short(place: Place) -> None:
    place.write("new.md", "# Kinsale\n\nKinsale lies south of Cork.\n")
    place.sync()
    folder, name = place.home / "data/restore", backup_of(place)["newest"]
    folder.mkdir()
    shutil.copy(place.base / "backups" / name / "hopsyncd.db", folder)
    (folder / "restore.json").write_text(json.dumps({"name": name, "aside": "before"}))
    assert f"the restore of {name} is not complete" in place.run("doctor").stdout
    place.kill()
    place.start()
    assert not folder.exists()
    assert (place.home / "data/replaced/before/hopsyncd.db").exists()
    assert place.sync()["version"] == 3


def test_a_purge_takes_the_replaced_database_with_it(place: Place) -> None:
    done = place.printed("backup", "restore", "latest", "--yes")
    assert place.process and place.process.wait() == 0
    place.process = None
    place.start()
    place.sync()
    purged = place.run("purge", "ferry.md", "--yes")
    assert "may still contain the document" in purged.stdout
    assert not Path(done["replaced"]).exists()
