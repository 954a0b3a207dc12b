"""Versions and upkeep, end to end: every command against a real daemon."""

from collections.abc import Iterator

import pytest

from tests.e2e.daemon import GC_LATER, Place, new_place, source

pytestmark = pytest.mark.models

FERRY = "# Ferry\n\nThe ferry Halcyon sails from Cork. Orla Brennan is its captain.\n"
LATER = "# Ferry\n\nThe ferry Halcyon sails from Cork. Piet de Groot is its captain.\n"
CANARY = "# Cipher\n\nThe cipher XANTHIPPE93 opens the vault of Cork.\n"
CAPTAIN = "Who is the captain of the Halcyon?"


@pytest.fixture(scope="module")
def kept() -> Iterator[Place]:
    """Version 1: a ferry and its captain. Version 2, the head: another captain, and a secret."""
    with new_place() as made:
        made.configure(
            "[retention]\nkeep_versions = 1\nkeep_days = 0\n"
            + GC_LATER
            + source("notes", made.notes)
        )
        made.write("ferry.md", FERRY)
        made.start()
        made.sync()
        assert made.printed("tag", "first")["version"] == 1
        made.write("ferry.md", LATER)
        made.write("cipher.md", CANARY)
        made.sync()
        yield made


def test_a_past_version_is_asked_by_tag_and_by_number(kept: Place) -> None:
    for at in ("first", "1"):
        found = kept.printed("query", CAPTAIN, "-k", "1", "--at", at)
        assert found["version"] == 1
        assert "Orla" in found["passages"][0]["text"]
    assert "Piet" in kept.printed("query", CAPTAIN, "-k", "1")["passages"][0]["text"]


def test_an_unknown_version_is_an_error_that_helps(kept: Place) -> None:
    for at in ("999", "nonsense", "1999-01-01"):
        refused = kept.run("query", CAPTAIN, "--at", at)
        assert refused.returncode == 1
        assert "Cannot read" in refused.stderr


def test_log_diff_and_why_describe_the_changes(kept: Place) -> None:
    newest, *_, oldest = kept.printed("log")["versions"]
    assert (oldest["version"], oldest["tags"]) == (1, ["first"])
    changed = kept.printed("diff", "first", str(newest["version"]))
    ferry = {"source": "notes", "document": "ferry.md", "path": str(kept.notes / "ferry.md")}
    assert ferry in changed["documents"]["changed"]
    assert "ferry.md" in kept.run("diff", "first").stdout
    rows = kept.printed("why", CAPTAIN, "first")["passages"]
    assert {row["rank_from"] for row in rows} >= {None, 1}


def test_a_removed_document_is_shown_at_its_last_version(kept: Place) -> None:
    kept.write("gone tide.md", "# Tide\n\nThe tide table hangs in the shed.\n")
    kept.sync()
    (kept.notes / "gone tide.md").unlink()
    kept.sync()
    newest = kept.status()["version"]
    missing = kept.run("show", "gone tide.md")
    assert missing.returncode == 1
    assert f"version {newest} removed or renamed the document" in missing.stderr
    assert f"`hopsyncd show 'notes: gone tide.md' --at {newest - 1}`" in missing.stderr
    shown = kept.run("show", "notes: gone tide.md", "--at", str(newest - 1))
    assert "hangs in the shed" in shown.stdout


def test_restore_holds_until_it_is_released(kept: Place) -> None:
    before = kept.generated()
    assert kept.printed("restore", "first")["changed"]
    kept.sync()
    assert "Orla" in kept.query(CAPTAIN, k=1)[0]["text"]
    assert kept.status()["sources"][0]["pinned"] == 2
    assert "2 restored (`hopsyncd release` unpins them)" in kept.run("status").stdout
    assert kept.generated() == before
    kept.printed("release")
    assert "Piet" in kept.query(CAPTAIN, k=1)[0]["text"]
    assert kept.status()["sources"][0]["pinned"] == 0


def test_a_daemon_can_serve_from_a_backup_in_another_place(kept: Place) -> None:
    file = kept.base / "copy.db"
    assert kept.printed("backup", str(file))["bytes"] > 0
    again = kept.run("backup", str(file))
    assert again.returncode == 1
    assert "Cannot write the backup" in again.stderr
    with new_place() as other:
        other.configure(source("notes", other.notes))
        data = other.home / "data"
        data.mkdir(mode=0o700, parents=True)
        file.rename(data / "hopsyncd.db")
        other.start()
        # The new place lacks the files, so its source pauses and keeps what the backup has.
        other.sync()
        assert "Piet" in other.query(CAPTAIN, k=1)[0]["text"]


def test_check_rebuild_and_gc_leave_a_whole_head(kept: Place) -> None:
    graph = {key: kept.status()[key] for key in ("documents", "passages", "edges")}
    kept.printed("rebuild")
    assert {key: kept.status()[key] for key in graph} == graph
    planned = kept.printed("gc", "--dry-run")
    done = kept.printed("gc")
    assert done["versions"] == planned["versions"] != []
    assert 1 not in done["versions"], "a tagged version is kept"
    expired = kept.run("query", CAPTAIN, "--at", str(done["versions"][-1]))
    assert expired.returncode == 1
    assert "expired and was deleted" in expired.stderr
    assert "Nothing to delete" in kept.run("gc", "--dry-run").stdout
    assert kept.printed("check", "--deep")["findings"] == []
    assert (
        "Orla" in kept.printed("query", CAPTAIN, "-k", "1", "--at", "first")["passages"][0]["text"]
    )


def test_a_purged_document_is_in_no_file(kept: Place) -> None:
    assert "cipher.md" in kept.documents("What opens the vault of Cork?", k=1)
    unasked = kept.run("purge", "cipher.md")
    assert unasked.returncode == 1
    assert "cipher.md was not purged" in unasked.stderr and "--yes" in unasked.stderr
    assert kept.printed("purge", str(kept.notes / "cipher.md"), "--yes")["erased"]
    kept.sync()
    assert "cipher.md" not in kept.documents("What opens the vault of Cork?", k=5)
    files = kept.files_bytes()
    assert kept.log in files
    held = {file for file, content in files.items() if b"xanthippe93" in content.lower()}
    assert held == {kept.notes / "cipher.md"}
    assert kept.printed("check", "--deep")["findings"] == []
    assert kept.printed("purge", "cipher.md", "--again")["included"]
    kept.sync()
    assert "cipher.md" in kept.documents("What opens the vault of Cork?", k=1)
