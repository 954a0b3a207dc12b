"""`log` and `diff` at a terminal: a version with 3 changes, and one with 30,000."""

from collections.abc import Iterator, Sequence

import pytest

from hopsyncd.config.configuration import DATABASE_NAME
from store.commit import commit_version
from store.records import Change, Document, Occurrence, Passage
from tests.e2e.daemon import SMALL, Place, new_place
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

LONG = 30_000
FOLDERS = 60
ROME = Passage(("Rome",), "Rome lies on the Tiber.")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Version 1 has one document; 2 has 30,000 more, copies of it; 3 adds, edits and removes one.

    Version 2 is committed straight to the store: a terminal shows what the rows say.
    """
    with new_place(SMALL) as made:
        made.configure("")
        database = made.home / "data" / DATABASE_NAME
        database.parent.mkdir()
        stack = Stack(
            database, MemoryConnector({"rome.md": b"# Rome\n\nRome lies on the Tiber.\n"})
        )
        stack.sync()
        numbers = range(LONG)
        commit_documents(stack, [copy(stack, f"archive/{n % FOLDERS}/{n}.md") for n in numbers])
        later = [copy(stack, name, b"other bytes") for name in ("new.md", "archive/7/7.md")]
        commit_documents(stack, later, gone=["archive/8/8.md"])
        stack.close()
        made.start()
        yield made


def copy(stack: Stack, path: str, content: bytes = b"the same bytes") -> Document:
    return Document(stack.source.id, path, content, "text/markdown", (Occurrence(ROME.id, 1, 3),))


def commit_documents(stack: Stack, new: Sequence[Document], gone: Sequence[str] = ()) -> None:
    at = stack.head
    change = Change(
        reason="files were copied",
        generation=at.generation,
        rules=at.rules,
        documents_gone=[(stack.source.id, path) for path in gone],
        documents_new=new,
        passages_ended=[],
        passages_begun=[],
        matches_ended=[],
        matches_begun=[],
        matches=at.matches,
        edge_budget=at.edge_budget,
        edge_threshold=at.edge_threshold,
        seen=[],
        unseen=[],
        counters={},
    )
    commit_version(stack.connection, change, at.created_ms + 1)


def printed(place: Place, *arguments: str) -> list[str]:
    done = place.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_three_changes_are_listed_one_by_one(place: Place) -> None:
    assert printed(place, "diff", "2", "3") == [
        "version 2 to 3",
        "documents +1 ~1 -1",
        "",
        "documents changed: 1",
        "  ~ notes: archive/7/7.md",
        "      the same sentences; layout, links or properties differ",
        "",
        "documents removed: 1",
        "  - notes: archive/8/8.md",
        "",
        "documents added: 1",
        "  + notes: new.md",
    ]


def test_thirty_thousand_changes_are_counted_and_the_first_ten_listed(place: Place) -> None:
    output = printed(place, "diff", "1", "2")
    assert output[1] == "documents +30,000"
    assert "  notes: archive/  +30,000" in output
    assert "documents added: 30,000" in output
    assert sum(line.startswith("  + notes:") for line in output) == 10
    assert output[-1] == "  and 29,990 more (--all shows them)"
    assert len(output) < 20


def test_all_changes_are_listed_on_request(place: Place) -> None:
    output = printed(place, "diff", "1", "2", "--all")
    assert sum(line.startswith("  + notes:") for line in output) == LONG


def test_a_limit_cuts_the_lists_and_not_the_counts(place: Place) -> None:
    found = place.get("/v1/diff?from=1&to=2&limit=3")
    assert found["counts"]["documents"] == {
        "added": LONG,
        "changed": 0,
        "removed": 0,
        "renamed": 0,
    }
    assert len(found["documents"]["added"]) == 3
    assert len(place.get("/v1/diff?from=2&to=1")["documents"]["removed"]) == LONG


def test_the_log_counts_changed_documents(place: Place) -> None:
    short, told = printed(place, "log"), printed(place, "log", "--verbose")
    assert "    documents +30,000" in short
    assert not any("passages" in line or "edges" in line for line in short)
    assert told[1] == "    changed archive/7/7.md; added new.md; removed archive/8/8.md"
    assert told[2].startswith("    documents +1 ~1 -1, passages unchanged; total 30,001 documents")
    # Of so many documents no version is told in words.
    assert told[4].startswith("    documents +30,000, passages unchanged; total 30,001 documents")
    assert len(told) == 8
