"""Moved documents: at every version each is present exactly once, under its old name or its new."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopsyncd.ingest.plan import Scope
from store.contract import Connection
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

FILES = {
    f"old/{number:02}.md": f"Name{number} met Nero in Rome.".encode() for number in range(25)
} | {"old/twin.md": b"Name3 met Nero in Rome.", "stays.md": b"Oslo has a fjord."}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "graph.db", MemoryConnector(FILES), batch_documents=4)
    made.sync()
    yield made
    made.close()


def contents_at(connection: Connection, version: int) -> Counter[bytes]:
    rows = connection.execute(
        "SELECT content FROM document WHERE born <= ?1 AND ?1 < died", [version]
    )
    return Counter(row[0] for row in rows)


def moved(stack: Stack, *, but: str = "") -> MemoryConnector:
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    for path in [*files.files]:
        if path.startswith("old/") and path != but:
            files.move(path, path.replace("old/", "new/"))
    return files


def test_each_version_of_a_move_has_every_document_once(stack: Stack) -> None:
    before, first = contents_at(stack.connection, stack.head.id), len(stack.versions)
    moved(stack)
    outcome = stack.sync()
    assert (outcome.changed, outcome.removed) == (26, 26)
    versions = stack.versions[first:]
    assert len(versions) > 5, "one batch shows nothing"
    assert all(contents_at(stack.connection, version.id) == before for version in versions)


def test_a_document_that_returns_keeps_its_place(stack: Stack) -> None:
    files = moved(stack)
    turns = stack.path.sync_in_turns(stack.source, Scope())
    next(turns)
    files.put("old/20.md", b"Name20 met Ada in Oslo.")
    files.put("old/21.md", FILES["old/21.md"])
    for _ in turns:
        pass
    rows = stack.connection.execute("SELECT path FROM document WHERE died > ?", [stack.head.id])
    assert {path for (path,) in rows} == files.files.keys()


def test_unmoved_documents_stay_unchanged(stack: Stack) -> None:
    files = moved(stack, but="old/05.md")
    stack.sync()
    rows = stack.connection.execute("SELECT path FROM document WHERE died > ?", [stack.head.id])
    assert {path for (path,) in rows} == files.files.keys()
