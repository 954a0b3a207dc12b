"""Files that are no documents: each is named in the status, and everything else is indexed."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.daemon import Place

pytestmark = pytest.mark.models

FOLDER = "bad"


@pytest.fixture(scope="module")
def bad(daemon: Place) -> Iterator[Place]:
    """Every kind of trouble in one folder, beside good files."""
    folder = daemon.notes / FOLDER
    folder.mkdir()
    os.mkfifo(folder / "pipe.md")
    with (folder / "giant.md").open("wb") as file:
        file.truncate(1 << 30)
    (folder / "binary.md").write_bytes(b"\x00\x01\x02\x03" * 64)
    (folder / "latin.md").write_bytes("Die Bäckerei verkauft süße Brötchen.\n".encode("latin-1"))
    (folder / "new\nline.md").write_text("The newline goat eats thistles.\n")
    (folder / "loop").symlink_to(folder)
    (folder / "self.md").symlink_to(folder / "self.md")
    (folder / "outside.md").symlink_to("/etc/passwd")
    (folder / "empty.md").touch()
    (folder / "locked.md").write_text("Nobody may read the locked goat.\n")
    (folder / "locked.md").chmod(0)
    (folder / "good.md").write_text("The good goat gives milk.\n")
    daemon.sync()
    yield daemon
    (folder / "locked.md").chmod(0o600)


def problem_of(place: Place, name: str) -> dict[str, str] | None:
    found = [p for p in place.status()["problems"] if p["document"] == f"{FOLDER}/{name}"]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pipe.md", "pipe"),
        ("giant.md", "1,073,741,824 bytes"),
        ("binary.md", "binary"),
        ("outside.md", "leads out of the folder"),
    ],
)
def test_a_bad_file_is_named_with_its_reason(bad: Place, name: str, why: str) -> None:
    problem = problem_of(bad, name)
    assert problem is not None
    assert why in problem["why"]
    assert problem["hint"]
    assert problem["source"] == "notes"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_named_with_its_reason(bad: Place) -> None:
    problem = problem_of(bad, "locked.md")
    assert problem is not None
    assert "permission denied" in problem["why"]


def test_all_readable_files_are_indexed(bad: Place) -> None:
    assert f"{FOLDER}/good.md" in bad.documents("good goat milk", k=1)
    assert f"{FOLDER}/new\nline.md" in bad.documents("newline goat thistles", k=1)
    bad.until(lambda: bad.status()["degraded"] == [])


def test_a_file_that_is_not_utf8_is_read(bad: Place) -> None:
    """It is decoded by its most likely encoding, or else it is a problem: never passed over."""
    found = bad.query("Die Bäckerei verkauft süße Brötchen", k=1, strategy="bm25")
    assert found[0]["document"] == f"{FOLDER}/latin.md"
    assert "süße Brötchen" in found[0]["text"]


def test_empty_files_and_loops_are_no_problem(bad: Place) -> None:
    assert problem_of(bad, "empty.md") is None
    looped = [p["document"] for p in bad.status()["problems"] if "loop" in p["document"]]
    assert looped == []
    assert not any("/loop/" in path for path in bad.documents("goat", k=50))


def test_terminal_control_sequences_are_printed_as_text(bad: Place) -> None:
    bad.write(f"{FOLDER}/bell.md", "The bell goat \x1b]0;owned\x07 rings \x1b[2J at noon.\n")
    bad.sync()
    rung = bad.run("query", "bell goat rings at noon", "-k", "1").stdout
    assert "rings" in rung
    assert "\x1b" not in rung and "\x07" not in rung
    named = bad.run("query", "newline goat thistles", "-k", "1").stdout
    assert f"notes: {FOLDER}/new\\nline.md:1" in named


def test_the_status_stays_readable_with_many_bad_files(bad: Place) -> None:
    ran = bad.run("status")
    assert ran.returncode == 0
    assert "bad/pipe.md" in ran.stdout


def test_a_repaired_file_is_no_longer_a_problem(bad: Place) -> None:
    pipe = bad.notes / FOLDER / "pipe.md"
    pipe.unlink()
    pipe.write_text("The former pipe is a reed flute now.\n")
    bad.sync()
    assert problem_of(bad, "pipe.md") is None
    assert bad.documents("reed flute former pipe", k=1) == [f"{FOLDER}/pipe.md"]


def test_a_file_that_becomes_bad_is_kept_and_named(bad: Place) -> None:
    """It stays in the answers as it was last read, and the status says that it cannot be read."""
    note = bad.write(f"{FOLDER}/turning.md", "The turning goat walks backwards.\n")
    bad.sync()
    note.unlink()
    os.mkfifo(note)
    bad.sync()
    assert problem_of(bad, "turning.md") is not None
    assert bad.documents("turning goat backwards", k=1) == [f"{FOLDER}/turning.md"]


def test_a_root_that_goes_away_pauses_its_source_and_keeps_its_data(daemon: Place) -> None:
    root, elsewhere = daemon.base / "away", daemon.base / "elsewhere"
    root.rename(elsewhere)
    synced = daemon.sync("away")
    assert "no such file or directory" in synced["sources"][0]["problem"]
    (away,) = (source for source in daemon.status()["sources"] if source["name"] == "away")
    assert (away["state"], away["documents"]) == ("paused", 1)
    answer = daemon.post("/v1/query", {"question": "lighthouse keeper Ansgar Nyborg", "k": 1})
    assert answer["passages"][0]["source"] == "away"
    assert any("away is paused" in reason for reason in answer["degraded"])
    elsewhere.rename(root)
    (root / "kept.md").write_text("The lighthouse keeper is called Jorunn Haugen.\n")
    daemon.until(lambda: "Jorunn" in daemon.query("Who is the lighthouse keeper?", k=1)[0]["text"])
    daemon.until(lambda: daemon.status()["degraded"] == [])


def test_an_emptied_root_keeps_its_documents_unless_the_user_accepts_it(daemon: Place) -> None:
    note = daemon.base / "away/kept.md"
    text = note.read_text()
    note.unlink()
    refused = daemon.sync("away")
    assert "all indexed documents of the source (1)" in refused["sources"][0]["problem"]
    assert daemon.query("Who is the lighthouse keeper?", k=1)[0]["source"] == "away"
    accepted = daemon.run("sync", "--wait", "--accept-empty", "away")
    assert "1 removed" in accepted.stdout
    assert daemon.query("Who is the lighthouse keeper?", k=1)[0]["source"] == "notes"
    note.write_text(text)
    daemon.sync("away")
