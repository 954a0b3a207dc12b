"""A real folder kept in sync: what happens to files, what it costs, what is never lost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from connectors.protocol import Fetched, Item
from connectors.settings import FileSettings
from store.content import read_counters
from store.reads import read_live_documents, read_places, read_word_counts
from store.records import PassageId, Seen, hash_content
from store.sources import list_sources, read_seen_items
from tests.fakes.stack import Stack

ROME, ADA = "Rome is in Italy.", "Ada met Babbage."


class Notes:
    """A folder, and the graph that is made of it."""

    def __init__(self, base: Path) -> None:
        self.root = base / "notes"
        self.root.mkdir()
        self.stack = Stack(
            base / "graph.db", FolderConnector(self.root, FileSettings(max_bytes=10_000))
        )

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def generated(self) -> int:
        return read_counters(self.stack.connection)["passages_generated"]

    def versions(self) -> int:
        return len(self.stack.versions)

    def documents(self) -> dict[str, bytes]:
        return read_live_documents(self.stack.connection, self.stack.source.id)

    def passages(self) -> list[PassageId]:
        ids, _ = read_word_counts(self.stack.connection, self.stack.head.id)
        return [PassageId(id_) for id_ in ids.tolist()]

    def places(self) -> dict[PassageId, list[str]]:
        found = read_places(self.stack.connection, self.stack.head.id, self.passages())
        return {passage: [place.document for place in places] for passage, places in found.items()}

    def seen(self) -> dict[str, Seen]:
        return read_seen_items(self.stack.connection, self.stack.source.id)


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """Two files, indexed."""
    notes = Notes(tmp_path)
    notes.write("a.md", ROME)
    notes.write("x/b.md", ADA)
    assert notes.stack.sync().changed == 2
    return notes


def test_a_new_file_costs_its_own_passages(notes: Notes) -> None:
    notes.write("c.md", "Turing met Ada.")
    notes.stack.sync()
    assert (notes.generated(), len(notes.documents())) == (3, 3)


def test_an_edit_costs_the_passages_it_touches(notes: Notes) -> None:
    text = "\n\n".join(f"# Part {n}\n\nName{n} met Rome." for n in range(10))
    notes.write("c.md", text)
    notes.stack.sync()
    before = notes.generated()
    notes.write("c.md", text.replace("Name4 met", "Name4 left"))
    notes.stack.sync()
    assert notes.generated() == before + 1
    assert len(notes.passages()) == 12


def move_file(root: Path) -> None:
    (root / "a.md").rename(root / "z.md")


def move_folder(root: Path) -> None:
    (root / "x").rename(root / "y")


def copy(root: Path) -> None:
    shutil.copy(root / "a.md", root / "copy.md")


@pytest.mark.parametrize("change", [move_file, move_folder, copy])
def test_a_rename_or_a_copy_costs_no_generation(
    notes: Notes, change: Callable[[Path], None]
) -> None:
    passages = notes.passages()
    change(notes.root)
    notes.stack.sync()
    files = (path for path in notes.root.rglob("*") if path.is_file())
    assert notes.documents().keys() == {path.relative_to(notes.root).as_posix() for path in files}
    assert notes.generated() == 2
    assert notes.passages() == passages


def test_moving_the_folder_that_holds_everything_costs_nothing(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    notes.write("x/a.md", ROME)
    notes.write("x/y/b.md", ADA)
    notes.stack.sync()
    (notes.root / "x").rename(notes.root / "z")
    assert notes.stack.sync().problem is None
    assert notes.documents().keys() == {"z/a.md", "z/y/b.md"}
    assert notes.generated() == 2


def test_touching_a_file_makes_no_version(notes: Notes) -> None:
    os.utime(notes.root / "a.md", (1, 1))
    notes.stack.sync()
    assert notes.versions() == 1


def test_an_atomic_save_of_the_same_text_makes_no_version(notes: Notes) -> None:
    notes.write("a.md.tmp", ROME)
    (notes.root / "a.md.tmp").rename(notes.root / "a.md")
    notes.stack.sync()
    assert notes.versions() == 1


def test_a_deleted_file_is_removed_and_its_return_computes_nothing(notes: Notes) -> None:
    (notes.root / "a.md").unlink()
    assert notes.stack.sync().removed == 1
    assert len(notes.passages()) == 1
    notes.write("a.md", ROME)
    notes.stack.sync()
    assert (len(notes.passages()), notes.generated()) == (2, 2)


def test_an_empty_root_pauses_until_the_user_accepts_it(notes: Notes) -> None:
    shutil.rmtree(notes.root / "x")
    (notes.root / "a.md").unlink()
    assert notes.stack.sync().problem
    assert len(notes.documents()) == 2
    assert notes.stack.sync(accept_empty=True).problem is None
    assert notes.documents() == {}
    assert notes.passages() == []


def test_a_missing_root_pauses_and_keeps_everything_even_if_empty_is_accepted(
    notes: Notes,
) -> None:
    notes.root.rename(notes.root.with_name("unmounted"))
    assert notes.stack.sync(accept_empty=True).problem
    assert list_sources(notes.stack.connection)[0].problem
    assert len(notes.documents()) == 2
    notes.root.with_name("unmounted").rename(notes.root)
    assert notes.stack.sync().problem is None
    assert notes.versions() == 1


@pytest.mark.parametrize("bad", [b"\x00\x01binary", b"x" * 10_001])
def test_a_file_that_becomes_unusable_keeps_its_last_good_version(notes: Notes, bad: bytes) -> None:
    (notes.root / "a.md").write_bytes(bad)
    notes.stack.sync()
    assert notes.documents()["a.md"] == hash_content(ROME.encode())
    assert notes.seen()["a.md"].why
    assert notes.seen()["a.md"].hint
    notes.write("a.md", ROME)
    notes.stack.sync()
    assert notes.seen()["a.md"].why is None
    assert notes.versions() == 1


def test_a_name_that_is_not_utf8_is_reported_and_the_rest_goes_on(notes: Notes) -> None:
    with open(os.fsencode(notes.root) + b"/caf\xe9.md", "wb") as file:  # noqa: PTH123
        file.write(b"text")
    notes.write("c.md", "Turing met Ada.")
    notes.stack.sync()
    assert notes.documents().keys() == {"a.md", "x/b.md", "c.md"}
    problems = {path: item.why for path, item in notes.seen().items() if item.why}
    assert problems == {"caf\\xe9.md": "the name is not UTF-8"}


class Hasty(FolderConnector):
    """Something removes `doomed` between the listing and the fetch."""

    doomed: Path | None = None

    def fetch(self, item: Item) -> Fetched:
        if self.doomed:
            self.doomed.unlink()
            self.doomed = None
        return super().fetch(item)


def test_a_file_that_vanishes_before_it_is_read_is_removed_by_the_same_sync(
    tmp_path: Path,
) -> None:
    notes = Notes(tmp_path)
    notes.write("a.md", ROME)
    notes.write("b.md", ADA)
    connector = Hasty(notes.root)
    stack = Stack(tmp_path / "hasty.db", connector)
    stack.sync()
    notes.write("a.md", ROME + " It is.")
    connector.doomed = notes.root / "a.md"
    assert stack.sync().removed == 1
    assert read_live_documents(stack.connection, 1).keys() == {"b.md"}


def test_one_passage_in_two_documents_is_one_vertex_with_two_places(notes: Notes) -> None:
    notes.write("again.md", ROME)
    notes.stack.sync()
    assert sorted(notes.places().values()) == [["a.md", "again.md"], ["x/b.md"]]
    (notes.root / "a.md").unlink()
    notes.stack.sync()
    assert sorted(notes.places().values()) == [["again.md"], ["x/b.md"]]
    assert notes.generated() == 2


def test_a_file_replaced_by_a_folder_of_the_same_name_leaves_the_index(notes: Notes) -> None:
    (notes.root / "a.md").unlink()
    notes.write("a.md/b.md", ROME)
    notes.stack.sync()
    assert notes.documents().keys() == {"a.md/b.md", "x/b.md"}
    assert notes.generated() == 2
