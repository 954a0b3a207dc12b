"""Versions as users work with them: named, compared, restored, and held against later scans."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.api.version_log import summarise_version
from store.commit import commit_version
from store.exceptions import NoSuchVersion, TagRefused
from store.history import (
    VisibleCounts,
    delete_tag,
    diff,
    read_log,
    resolve,
    restrict_entry,
    set_tag,
)
from store.reads import read_document
from store.records import Change, Document, Version
from store.sources import read_pins, release_pins
from tests.fakes.dump import Rows, graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ROME = b"# Rome\n\nRome lies on the Tiber. Caesar ruled in Rome.\n"
PARIS = b"# Paris\n\nParis lies on the Seine. Caesar called it Lutetia.\n"
OSLO = b"# Oslo\n\nOslo lies on a fjord. Harald founded Oslo.\n"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Version 1 has rome.md and paris.md; version 2 has rome.md edited, paris.md gone, oslo.md."""
    files = MemoryConnector({"rome.md": ROME, "paris.md": PARIS})
    made = Stack(tmp_path / "s.db", files)
    made.sync()
    files.put("rome.md", ROME + b"\nNero burnt Rome.\n")
    files.remove("paris.md")
    files.put("oslo.md", OSLO)
    made.sync()
    return made


def commit_again(stack: Stack, path: str, media_type: str) -> None:
    """Commit a version that replaces a document by what the same file gives, as another type."""
    at = stack.head
    found = read_document(stack.connection, at.id, stack.source.name, path)
    assert found is not None
    (content,) = stack.connection.execute(
        "SELECT content FROM document WHERE path = ? ORDER BY born DESC LIMIT 1", [path]
    ).fetchone()
    document = Document(stack.source.id, path, content, media_type, found[1])
    nothing: dict[str, Sequence[Any]] = {
        field: []
        for field in ("documents_gone", "passages_ended", "passages_begun", "matches_ended")
    }
    change = Change(
        reason="read again",
        generation=at.generation,
        rules=at.rules,
        documents_new=[document],
        matches_begun=[],
        matches=at.matches,
        edge_budget=at.edge_budget,
        edge_threshold=at.edge_threshold,
        seen=[],
        unseen=[],
        counters={},
        **nothing,
    )
    commit_version(stack.connection, change, at.created_ms + 1)


def files_of(stack: Stack) -> MemoryConnector:
    assert isinstance(stack.connector, MemoryConnector)
    return stack.connector


def restored(stack: Stack, number: int = 1) -> Version | None:
    return stack.restore(number)


def graph_of(stack: Stack, number: int) -> Rows:
    return graph_at(stack.connection, number)


class TestNames:
    def test_a_version_is_named_by_number_tag_time_or_head(self, stack: Stack) -> None:
        set_tag(stack.connection, "before-the-move", 1, 0)
        assert resolve(stack.connection, "1").id == 1
        assert resolve(stack.connection, "before-the-move").id == 1
        assert resolve(stack.connection, "head").id == 2
        assert resolve(stack.connection, "2999-01-01T09:00").id == 2

    def test_a_time_names_the_version_in_force_then(self, stack: Stack) -> None:
        times = [entry.version.created_ms for entry in read_log(stack.connection, 10)]
        assert times == sorted(times, reverse=True)
        just_before = f"1970-01-01T00:{(times[0] - 1) // 60000:02}:{(times[0] - 1) % 60000 / 1000}"
        assert resolve(stack.connection, just_before + "+00:00").id == 1

    @pytest.mark.parametrize("at", ["0", "3", "nonsense", "1969-01-01T00:00+00:00", ""])
    def test_a_text_that_names_no_version_is_an_error(self, stack: Stack, at: str) -> None:
        with pytest.raises(NoSuchVersion):
            resolve(stack.connection, at)

    @pytest.mark.parametrize("name", ["head", "17", "2026-11-01", " "])
    def test_a_tag_that_reads_as_something_else_is_refused(self, stack: Stack, name: str) -> None:
        with pytest.raises(TagRefused):
            set_tag(stack.connection, name, 1, 0)

    def test_a_tag_never_moves_by_itself(self, stack: Stack) -> None:
        set_tag(stack.connection, "mine", 1, 0)
        set_tag(stack.connection, "mine", 1, 0)
        with pytest.raises(TagRefused, match="names version 1"):
            set_tag(stack.connection, "mine", 2, 0)
        delete_tag(stack.connection, "mine")
        set_tag(stack.connection, "mine", 2, 0)
        with pytest.raises(TagRefused, match="no tag has this name"):
            delete_tag(stack.connection, "yours")


def no_counts(number: int) -> VisibleCounts:
    """Stand for the index, which counts what a version has."""
    return VisibleCounts(0, 0, 0, 0, 0)


class TestComparing:
    def test_the_log_says_what_each_version_changed(self, stack: Stack) -> None:
        newest, first = read_log(stack.connection, 10)
        assert (first.documents_added, first.documents_changed, first.documents_removed) == (
            (2, 0, 0)
        )
        assert (newest.documents_added, newest.documents_changed, newest.documents_removed) == (
            (1, 1, 1)
        )
        assert [entry.version.id for entry in read_log(stack.connection, 1)] == [2]
        assert [entry.version.id for entry in read_log(stack.connection, 10, before=2)] == [1]

    def test_the_diff_names_documents_passages_and_edges(self, stack: Stack) -> None:
        ends = [resolve(stack.connection, at) for at in ("1", "2")]
        found = diff(stack.connection, ends[0], ends[1])
        assert found.documents_added == (("notes", "oslo.md"),)
        assert found.documents_changed == (("notes", "rome.md"),)
        assert found.documents_removed == (("notes", "paris.md"),)
        before, after = (graph_of(stack, number) for number in (1, 2))
        lived = {row[0] for row in before["passages"]}
        live = {row[0] for row in after["passages"]}
        assert set(found.passages_added) == live - lived
        assert set(found.passages_removed) == lived - live
        edges = [{row[:2] for row in graph["edges"]} for graph in (before, after)]
        assert {question for question, _ in found.edges_added} == {
            q for q, _ in edges[1] - edges[0]
        }
        assert {question for question, _ in found.edges_removed} == {
            q for q, _ in edges[0] - edges[1]
        }

    def test_the_log_and_the_diff_count_the_same_changed_documents(self, stack: Stack) -> None:
        """A document read anew from the same file is changed if it reads differently."""
        for media_type, changed in (("text/x-new", 1), ("text/x-new", 0)):
            before = stack.head
            commit_again(stack, "rome.md", media_type)
            (entry,) = read_log(stack.connection, 1)
            found = diff(stack.connection, before, stack.head)
            assert entry.documents_changed == len(found.documents_changed) == changed
            assert (entry.documents_added, entry.version.documents) == (0, before.documents)
            hidden_none = restrict_entry(
                stack.connection, entry, frozenset(), lambda passages: passages, no_counts
            )
            assert hidden_none.documents_changed == changed
            about = summarise_version(stack.connection, entry.version.id, frozenset())
            assert about == ("changed rome.md" if changed else "no document")

    def test_a_version_does_not_differ_from_itself(self, stack: Stack) -> None:
        same = resolve(stack.connection, "2")
        found = diff(stack.connection, same, same)
        assert not any(getattr(found, name) for name in found.__dataclass_fields__)


class TestRestoring:
    def test_the_new_version_equals_the_old_and_costs_no_question(self, stack: Stack) -> None:
        made = restored(stack)
        assert made is not None and made.id == 3
        assert graph_of(stack, 3) == graph_of(stack, 1)
        assert made.counters["passages_generated"] == 0

    def test_restoring_what_is_in_force_makes_no_version(self, stack: Stack) -> None:
        assert restored(stack, 2) is None

    def test_a_scan_does_not_undo_a_restore(self, stack: Stack) -> None:
        restored(stack)
        stack.sync()
        assert stack.head.id == 3

    def test_touching_a_file_does_not_undo_a_restore(self, stack: Stack) -> None:
        restored(stack)
        for path, data in list(files_of(stack).files.items()):
            files_of(stack).put(path, data)
        stack.sync()
        assert graph_of(stack, stack.head.id) == graph_of(stack, 1)

    def test_a_later_edit_is_taken_in_and_the_others_stay(self, stack: Stack) -> None:
        restored(stack)
        files_of(stack).put("oslo.md", OSLO + b"\nOslo was Kristiania.\n")
        stack.sync()
        paths = {row[1] for row in graph_of(stack, stack.head.id)["documents"]}
        assert paths == {"rome.md", "paris.md", "oslo.md"}
        assert set(read_pins(stack.connection, stack.source.id)) == {"rome.md", "paris.md"}

    def test_a_file_that_comes_back_is_taken_in(self, stack: Stack) -> None:
        restored(stack)
        files_of(stack).put("paris.md", PARIS + b"\nParis has a tower.\n")
        stack.sync()
        assert stack.head.id == 4
        assert "paris.md" not in read_pins(stack.connection, stack.source.id)

    def test_a_file_deleted_later_is_gone(self, stack: Stack) -> None:
        restored(stack)
        files_of(stack).remove("rome.md")
        stack.sync()
        paths = {row[1] for row in graph_of(stack, stack.head.id)["documents"]}
        assert paths == {"paris.md"}

    def test_a_file_edited_to_the_restored_text_and_back_is_taken_in(self, stack: Stack) -> None:
        restored(stack)
        now = files_of(stack).files["rome.md"]
        files_of(stack).put("rome.md", ROME)
        stack.sync()
        assert "rome.md" not in read_pins(stack.connection, stack.source.id)
        files_of(stack).put("rome.md", now)
        stack.sync()
        assert graph_of(stack, stack.head.id)["documents"] != graph_of(stack, 1)["documents"]

    def test_a_file_restored_away_that_was_deleted_and_comes_back_is_taken_in(
        self, stack: Stack
    ) -> None:
        restored(stack)
        files_of(stack).remove("oslo.md")
        stack.sync()
        files_of(stack).put("oslo.md", OSLO)
        stack.sync()
        paths = [row[1] for row in graph_of(stack, stack.head.id)["documents"]]
        assert "oslo.md" in paths

    def test_a_restored_file_that_came_back_and_was_deleted_again_is_gone(
        self, stack: Stack
    ) -> None:
        restored(stack)
        files_of(stack).put("paris.md", PARIS)
        stack.sync()
        files_of(stack).remove("paris.md")
        stack.sync()
        paths = [row[1] for row in graph_of(stack, stack.head.id)["documents"]]
        assert "paris.md" not in paths

    def test_releasing_pins_restores_the_files_on_disk(self, stack: Stack) -> None:
        restored(stack)
        assert release_pins(stack.connection, stack.source.id) == 3
        stack.sync()
        assert graph_of(stack, stack.head.id) == graph_of(stack, 2)
        assert stack.head.counters["passages_generated"] == 0

    def test_a_restored_state_stays_after_a_restart(self, stack: Stack, tmp_path: Path) -> None:
        restored(stack)
        stack.close()
        again = Stack(tmp_path / "s.db", stack.connector)
        again.sync()
        assert again.head.id == 3

    def test_a_restore_can_be_restored_from(self, stack: Stack) -> None:
        restored(stack)
        restored(stack, 2)
        assert graph_of(stack, 4) == graph_of(stack, 2)
        stack.sync()
        assert stack.head.id == 4
