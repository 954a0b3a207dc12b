"""A commit of many passages ends early once somebody is awaited; the others follow it."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from store.records import Version
from tests.fakes.dump import graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

_FILES = 120


@pytest.fixture
def files() -> MemoryConnector:
    """Notes that share names, so that later ones beat the matches of earlier ones."""
    return MemoryConnector(
        {f"{n:03}.md": b"Name%d met Ship%d in Rome." % (n % 9, n) for n in range(_FILES)}
    )


def stack_over(path: Path, files: MemoryConnector) -> Stack:
    return Stack(path, files, batch_documents=2 * _FILES, part=50)


def added(versions: list[Version]) -> list[int]:
    """How many passages each version has that the one before it has not."""
    passages = [0, *(version.passages for version in versions)]
    return [after - before for before, after in pairwise(passages)]


def test_without_waiting_edits_a_batch_is_one_version(
    tmp_path: Path, files: MemoryConnector
) -> None:
    with closing(stack_over(tmp_path / "s.db", files)) as stack:
        stack.sync()
        assert len(stack.versions) == 2


def test_with_waiting_edits_each_part_of_a_batch_is_a_version(
    tmp_path: Path, files: MemoryConnector
) -> None:
    with (
        closing(stack_over(tmp_path / "parts.db", files)) as parts,
        closing(stack_over(tmp_path / "whole.db", files)) as whole,
    ):
        parts.path.is_awaited = lambda: True
        outcome = parts.sync()
        whole.sync()
        assert outcome.changed == _FILES
        assert len(parts.versions) > 2
        assert min(added(parts.versions)) > 0
        assert graph_at(parts.connection, parts.head.id) == graph_at(
            whole.connection, whole.head.id
        )


def test_an_edit_is_served_between_the_parts(tmp_path: Path, files: MemoryConnector) -> None:
    """The edit also removes a note that waits for its part: it does not come back."""
    last = f"{_FILES - 1:03}.md"
    with closing(stack_over(tmp_path / "s.db", files)) as stack:
        edited: list[int] = []

        def edit() -> None:
            if len(stack.versions) == 2 and not edited:
                edited.append(stack.head.id)
                files.put("000.md", b"Cato saw Rome.")
                files.remove(last)
                stack.preempt("000.md", last)

        stack.path.is_awaited = lambda: not edited
        stack.path.yield_to_edits = edit
        stack.sync()
        assert len(stack.versions) == 4
        assert stack.versions[2].passages == stack.versions[1].passages
        assert stack.head.documents == _FILES - 1
        with closing(stack_over(tmp_path / "fresh.db", files)) as fresh:
            fresh.sync()
            assert graph_at(stack.connection, stack.head.id) == graph_at(
                fresh.connection, fresh.head.id
            )


def test_removals_are_committed_with_the_last_part(tmp_path: Path, files: MemoryConnector) -> None:
    before = MemoryConnector({"old.md": b"Nero saw Rome."})
    with closing(stack_over(tmp_path / "s.db", before)) as stack:
        stack.sync()
        before.remove("old.md")
        for path, text in files.files.items():
            before.put(path, text)
        stack.path.is_awaited = lambda: True
        stack.sync()
        removes = ["removed" in version.reason for version in stack.versions[1:]]
        assert removes == [False, False, True]
        assert stack.head.documents == _FILES
