"""The answer follows the files, and the work follows the change."""

import shutil

import pytest

from tests.e2e.daemon import Place

pytestmark = pytest.mark.models

SECTIONS = "# Handbook\n\n## Pumps\n\nThe pump Zephyrine runs on steam.\n\n## Valves\n\n{valves}\n"


def test_an_edit_is_answered_without_asking_for_a_sync(daemon: Place) -> None:
    note = daemon.write("edit/handbook.md", SECTIONS.format(valves="The valve is made of brass."))
    daemon.until(lambda: "edit/handbook.md" in daemon.documents("pump Zephyrine steam"))
    note.write_text(SECTIONS.format(valves="The valve was forged by Isolde Quarrington."))
    daemon.until(
        lambda: any("Isolde" in p["text"] for p in daemon.query("Who is Isolde Quarrington?", k=1))
    )
    assert not any("made of brass" in p["text"] for p in daemon.query("valve made of brass"))


def test_an_edit_makes_questions_for_the_touched_passage_only(daemon: Place) -> None:
    note = daemon.write("cost/handbook.md", SECTIONS.format(valves="The gate valve leaks a bit."))
    daemon.sync()
    before = daemon.generated()
    note.write_text(SECTIONS.format(valves="The gate valve was mended with hemp."))
    daemon.sync()
    assert daemon.generated() == before + 1


def test_sync_wait_returns_when_all_changes_are_searchable(daemon: Place) -> None:
    """Straight after it, without any waiting, the last of many changes is served."""
    for number in range(5):
        daemon.write(f"barrier/{number}.md", f"The barrier stone number {number} is of slate.\n")
        synced = daemon.sync()
        assert daemon.documents(f"barrier stone number {number} slate", k=1, strategy="bm25") == [
            f"barrier/{number}.md"
        ]
        assert daemon.status()["version"] >= synced["version"] > 0
        # An event of the last change may still be on its way.
        assert synced["degraded"] in ([], ["changes are being indexed"])


def test_renaming_a_folder_generates_no_questions(daemon: Place) -> None:
    for number in range(8):
        daemon.write(f"rename/old/{number}.md", f"# Wagon {number}\n\nWagon {number} is green.\n")
    daemon.sync()
    before = daemon.generated()
    (daemon.notes / "rename/old").rename(daemon.notes / "rename/new")
    daemon.until(lambda: daemon.documents("Wagon 3 is green", k=1) == ["rename/new/3.md"])
    daemon.sync()
    found = daemon.documents("wagon green", k=50)
    assert not any(path.startswith("rename/old/") for path in found)
    assert sum(path.startswith("rename/new/") for path in found) == 8
    assert daemon.generated() == before


def test_a_deleted_file_is_no_longer_an_answer(daemon: Place) -> None:
    note = daemon.write("delete/secretary.md", "The secretary of the guild is Wilmot Greave.\n")
    daemon.sync()
    assert "delete/secretary.md" in daemon.documents("Wilmot Greave", strategy="bm25")
    note.unlink()
    daemon.until(lambda: daemon.documents("Wilmot Greave", strategy="bm25") == [])


def test_a_copied_file_costs_nothing_and_is_named(daemon: Place) -> None:
    note = daemon.write("copy/a.md", "The cellar of the mill holds forty casks of cider.\n")
    daemon.sync()
    before = daemon.generated()
    shutil.copy(note, daemon.notes / "copy/b.md")
    daemon.sync()
    (first, *_) = daemon.query("cellar of the mill casks of cider", k=1)
    places = [first["document"], *(place["document"] for place in first["also_in"])]
    assert sorted(places) == ["copy/a.md", "copy/b.md"]
    assert daemon.generated() == before


def test_a_restored_and_a_touched_file_cost_nothing(daemon: Place) -> None:
    note = daemon.write("again/bell.md", "The bell of the chapel is cracked since the frost.\n")
    daemon.sync()
    before = daemon.generated()
    note.touch()
    daemon.sync()
    note.unlink()
    daemon.sync()
    assert daemon.documents("bell of the chapel cracked frost", k=1) != ["again/bell.md"]
    daemon.write("again/bell.md", "The bell of the chapel is cracked since the frost.\n")
    daemon.sync()
    assert daemon.documents("bell of the chapel cracked frost", k=1) == ["again/bell.md"]
    assert daemon.generated() == before


def test_counters_show_the_generated_questions_and_embedded_texts(daemon: Place) -> None:
    before = daemon.status()["counters"]
    daemon.write("count/new.md", "A counting frame has ten wires. Each wire has ten beads.\n")
    daemon.sync()
    daemon.query("counting frame")
    after = daemon.status()["counters"]
    assert after["passages_generated"] == before["passages_generated"] + 1
    assert after["texts_embedded"] > before["texts_embedded"]
    assert after["queries"] == before["queries"] + 1


def test_secrets_and_the_daemons_own_data_are_not_indexed(daemon: Place) -> None:
    daemon.write("private/.env", "TOKEN=periwinkle-moustache\n")
    daemon.write("private/id_rsa", "periwinkle moustache key\n")
    daemon.write("own/readme.md", "The periwinkle moustache of our own data.\n")
    daemon.write("private/plain.md", "The periwinkle moustache may be read by all.\n")
    daemon.sync()
    found = daemon.documents("periwinkle moustache", strategy="bm25", k=20)
    assert found == ["private/plain.md"]
