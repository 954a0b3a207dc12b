"""Sources as a user handles them: added, looked at, removed, with a daemon and without."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.ingest.read import READER
from store.engines.sqlite.database import open_file, open_writer
from store.operational import put_quarantined
from store.purge import request_source_purge
from store.records import hash_content
from store.sources import read_source_names
from tests.e2e.daemon import ROOT, SMALL, Place, new_place, source
from tests.fakes.git_repository import GitRepository, needs_git

MANY = 1500  # documents, whose import takes many times as long as a command


@pytest.fixture
def small() -> Iterator[Place]:
    with new_place(SMALL) as made:
        yield made


def two_sources(place: Place) -> None:
    """`notes` and `more`, each with one document, indexed."""
    place.write("ferry.md", "The ferry Halcyon sails from Oban.\n")
    (place.base / "more").mkdir()
    (place.base / "more/mill.md").write_text("The Kestrel mill stands at Upper Wick.\n")
    place.configure(
        "# mine\n"
        + source("notes", place.notes)
        + "\n# the other\n"
        + source("more", place.base / "more")
    )
    place.start()
    place.sync()


def finds_mill(place: Place, at: str = "head") -> bool:
    return "mill.md" in place.documents("Kestrel mill", strategy="bm25", at=at)


def test_a_folder_that_is_added_is_served_from_the_next_start(small: Place) -> None:
    small.configure("# mine\n")
    small.write("ferry.md", "The ferry Halcyon sails from Oban.\n")
    dry = small.run("add", str(small.notes), "--every", "30m", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "scan_every_s = 1800.0" in dry.stdout
    assert (small.home / "config.toml").read_text() == "# mine\n"
    added = small.run("add", str(small.notes), "--every", "30m", "--name", "boats")
    assert added.returncode == 0, added.stderr
    assert "takes effect when the daemon starts" in added.stdout
    small.start()
    again = ("add", str(small.notes), "--at", "30 3 * * mon-fri")
    assert "the source 'boats' already has this path" in small.run(*again).stderr
    assert "The daemon has applied the change" in small.run(*again, "--name", "more").stdout
    small.sync()
    assert small.documents("ferry Halcyon", strategy="bm25") == ["ferry.md"]


@pytest.mark.parametrize("runs", [True, False])
def test_a_removed_source_leaves_the_newest_version_and_not_the_older_ones(
    small: Place, runs: bool
) -> None:
    two_sources(small)
    before = small.status()["version"]
    if not runs:
        small.stop()
    refused = small.run("remove", "more")
    assert refused.returncode == 1
    assert "--yes" in refused.stderr
    assert 'name = "more"' in (small.home / "config.toml").read_text()
    removed = small.run("remove", "more", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert "with 1 document (" in removed.stdout
    assert "# the other" in (small.home / "config.toml").read_text()
    if not runs:
        small.start()
    small.sync()
    small.write("new.md", "A new note about herons.\n")
    small.sync()
    assert not finds_mill(small)
    assert finds_mill(small, str(before))
    assert [one["name"] for one in small.status()["sources"]] == ["notes"]
    assert "scan more" not in small.jobs()
    assert small.post("/v1/check", {"deep": True})["findings"] == []
    unknown = small.run("remove", "mores", "--yes")
    assert "The sources are: more, notes" in unknown.stderr


def test_a_source_that_is_removed_while_it_is_imported_stays_away(small: Place) -> None:
    (small.base / "more").mkdir()
    for number in range(MANY):
        text = f"Mill {number} of Upper Wick grinds grain number {number}.\n"
        (small.base / f"more/{number}.md").write_text(text)
    small.configure("[index]\nbatch_documents = 5\n" + source("more", small.base / "more"))
    small.start()
    small.until(lambda: small.status()["documents"] >= 5)
    done = small.printed("remove", "more", "--yes")
    assert 5 <= done["documents"] < MANY
    (small.base / "more/later.md").write_text("The Kestrel mill.\n")
    small.sync()
    assert small.status()["documents"] == 0
    assert not finds_mill(small)


def test_a_source_that_is_added_again_is_indexed_again(small: Place) -> None:
    two_sources(small)
    small.run("remove", "more", "--yes")
    small.run("add", str(small.base / "more"))
    small.stop()
    small.start()
    small.sync()
    assert finds_mill(small)


def test_a_restore_leaves_a_removed_source_alone(small: Place) -> None:
    two_sources(small)
    before = small.status()["version"]
    small.run("remove", "more", "--yes")
    small.write("ferry.md", "The ferry Halcyon was sold.\n")
    small.sync()
    small.post("/v1/restore", {"version": str(before)})
    assert not finds_mill(small)
    assert "sails from Oban" in small.query("ferry Halcyon", strategy="bm25")[0]["text"]


@pytest.mark.parametrize("runs", [True, False])
def test_a_purged_source_is_in_no_version_and_no_file(small: Place, runs: bool) -> None:
    two_sources(small)
    before = small.status()["version"]
    if not runs:
        small.stop()
    removed = small.printed("remove", "more", "--purge", "--yes")
    assert (removed["documents"], removed["purged"], removed["erased"]) == (1, True, True)
    if not runs:
        small.start()
    assert not finds_mill(small, str(before))
    assert small.post("/v1/check", {"deep": True})["findings"] == []
    small.stop()
    held = b"".join(file.read_bytes() for file in (small.home / "data").glob("hopsyncd.db*"))
    assert b"Kestrel" not in held
    assert b"Halcyon" in held


def test_a_purge_that_was_cut_short_is_finished_by_the_next_start(small: Place) -> None:
    two_sources(small)
    small.stop()
    with closing(open_writer(small.home / "data/hopsyncd.db")) as connection:
        rows = {name: row for row, name in read_source_names(connection).items()}
        request_source_purge(connection, rows["more"])
    small.configure(source("notes", small.notes))
    small.start()
    small.until(lambda: not small.status()["purging"])
    assert not finds_mill(small)
    small.stop()
    held = b"".join(file.read_bytes() for file in (small.home / "data").glob("hopsyncd.db*"))
    assert b"Kestrel" not in held
    assert b"Halcyon" in held


def test_sources_shows_the_last_scan_and_the_problems(small: Place) -> None:
    small.configure(source("notes", small.notes) + source("away", small.base / "away"))
    small.write("a.md", "text\n")
    small.write("b.pdf", "no PDF\n")
    small.start()
    small.sync()
    output = small.run("sources").stdout.splitlines()
    assert re.fullmatch(
        r"away \(folder\): paused, 0 documents, scanned never, next scan in .*: .*no such.*",
        output[0],
    ), output
    assert re.fullmatch(
        r"notes \(folder\): ok, 1 document, 1 with problems,"
        r" scanned (just now|\d+ .* ago), next scan in .*",
        output[1],
    ), output
    details = small.run("sources", "notes").stdout
    assert f"location:      {small.notes}" in details
    assert "b.pdf" in details
    assert "The sources are: away, notes" in small.run("sources", "other").stderr


def test_a_connector_that_cannot_be_made_pauses_its_source_and_no_other(
    small: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "shelf-1.0.dist-info"
    info.mkdir()
    (tmp_path / "shelf_connector.py").write_text("import a_driver_that_is_not_there\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hopsyncd.connectors]\nshelf = shelf_connector:Shelf\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(ROOT))))
    small.python = sys.executable  # so that it heeds PYTHONPATH
    small.write("ferry.md", "The ferry Halcyon sails from Oban.\n")
    small.configure('[[source]]\nname = "books"\nkind = "shelf"\n' + source("notes", small.notes))
    small.start()
    small.sync("notes")
    assert small.documents("ferry Halcyon", strategy="bm25") == ["ferry.md"]
    books, notes = small.status()["sources"]
    assert (books["state"], notes["state"]) == ("paused", "ok")
    assert "No module named 'a_driver_that_is_not_there'" in books["problem"]
    assert "install the missing package" in books["hint"]


def test_content_that_crashed_a_reader_is_quarantined_until_hopsyncd_changes(small: Place) -> None:
    data = b"%PDF-1.7 no more than this"
    (small.notes / "a.md").write_text("text\n")
    small.configure(source("notes", small.notes))
    small.start()
    small.sync()
    small.stop()
    (small.notes / "bad.pdf").write_bytes(data)
    content = hash_content(b"application/pdf\0" + data)

    def restarted_with(rules: str) -> str:
        with closing(open_file(small.home / "data/hopsyncd.db")) as connection:
            put_quarantined(connection, content, rules, "takes too long", 0)
        small.start()
        small.sync()
        (problem,) = small.status()["problems"]
        return str(problem["why"])

    assert restarted_with(READER) == "reading the file takes too long"
    assert small.status()["quarantined"] == 1
    assert "reading took too long or crashed: 1 file" in small.run("status").stdout
    small.stop()
    assert "takes too long" not in restarted_with("hopsyncd 0.0, chunk/0")
    assert small.status()["quarantined"] == 0


@needs_git
def test_an_answer_says_who_committed_what_it_cites(small: Place, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repository")
    commit = repository.put("ferry.md", b"The ferry Halcyon sails from Oban.\n")
    small.configure(f'[[source]]\nname = "book"\nkind = "git"\npath = "{repository.root}"\n')
    small.start()
    small.sync()
    (passage,) = small.query("ferry Halcyon", strategy="bm25")
    date = passage["origin"]["date"]
    assert passage["origin"] == {"author": "Ada", "date": date, "commit": commit}
    output = small.run("query", "ferry Halcyon").stdout
    assert f"ferry.md:1 (Ada, {date[:10]}, {commit[:10]})" in output
