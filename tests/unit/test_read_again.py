"""Documents that an older reader had read are read again, one after the other."""

import gc
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import Extract, extract
from hopsyncd.ingest.plan import Scope
from hopsyncd.ingest.read import CHUNKER
from store.records import Seen
from tests.fakes.stack import Stack

TEXTS = {
    "crane.md": "# Crane\n\nThe crane on quay four lifts twelve tons.\n",
    "dues.md": "# Dues\n\nA night in the harbour costs ninety kroner.\n",
    "tides.md": "# Tides\n\nThe tide turns at noon on Sunday.\n",
}


def read_without_tides(data: bytes, media_type: str) -> tuple[Block, ...]:
    """As an older reader, which lost what the newer one reads of one document."""
    blocks = extract(data, media_type)
    return tuple(block for block in blocks if "tide turns" not in block.text)


def served(stack: Stack) -> set[str]:
    """The texts of the passages that the newest version has."""
    rows = stack.connection.execute(
        "SELECT p.text FROM life AS l JOIN passage AS p ON p.id = l.passage"
        " WHERE l.born <= ?1 AND ?1 < l.died",
        (stack.head.id,),
    )
    return {text for (text,) in rows}


Start = Callable[..., Stack]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def upgraded(tmp_path: Path, notes: Path) -> Iterator[Start]:
    """Starts with the newer reader, a document a batch, on what the older one has read."""
    made = [Stack(tmp_path / "s.db", FolderConnector(notes), extract=read_without_tides)]
    made[0].sync()
    rules = made[0].writer.rules.replace(CHUNKER, "chunk/0")
    made[0].connection.execute("UPDATE source_state SET rules = ?1", (rules,))

    def start(read: Extract = extract) -> Stack:
        made.pop().close()
        connector = FolderConnector(notes)
        made.append(Stack(tmp_path / "s.db", connector, batch_documents=1, extract=read))
        return made[0]

    yield start
    made.pop().close()


def test_an_older_reading_is_served_until_its_document_is_read_again(upgraded: Start) -> None:
    during: list[tuple[int, set[str]]] = []

    def read(data: bytes, media_type: str) -> tuple[Block, ...]:
        during.append((stack.head.id, served(stack)))
        return extract(data, media_type)

    stack = upgraded(read)
    old, version = served(stack), stack.head.id
    assert stack.path.is_behind(stack.source)
    assert stack.sync().changed == 1
    new = served(stack)
    assert during == [(version, old)] * len(TEXTS)
    assert new - old == {"The tide turns at noon on Sunday."}
    assert len(stack.made) == 1  # of the passages that stay, no question is made again
    assert not stack.path.is_behind(stack.source)


def test_an_edit_from_before_the_start_is_read_first(upgraded: Start, notes: Path) -> None:
    read: list[bytes] = []

    def note(data: bytes, media_type: str) -> tuple[Block, ...]:
        read.append(data)
        return extract(data, media_type)

    (notes / "tides.md").write_text("# Tides\n\nThe tide turns at one on Monday.\n")
    upgraded(note).sync()
    assert len(read) == len(TEXTS)
    assert b"Monday" in read[0]


def test_a_document_from_before_the_start_is_read_before_the_others(
    upgraded: Start, notes: Path
) -> None:
    read: list[bytes] = []

    def note(data: bytes, media_type: str) -> tuple[Block, ...]:
        read.append(data)
        return extract(data, media_type)

    (notes / "weather.md").write_text("# Weather\n\nA storm is expected.\n")
    upgraded(note).sync()
    assert len(read) == len(TEXTS) + 1
    assert b"storm" in read[0]


def test_the_items_of_the_last_scan_are_not_in_memory_while_documents_are_read(
    upgraded: Start,
) -> None:
    counts: list[int] = []

    def count_items(data: bytes, media_type: str) -> tuple[Block, ...]:
        counts.append(sum(isinstance(thing, Seen) for thing in gc.get_objects()))
        return extract(data, media_type)

    stack = upgraded(count_items)
    gc.collect()
    before = sum(isinstance(thing, Seen) for thing in gc.get_objects())
    stack.sync()
    assert counts[0] <= before + 1  # that of the document being read


def test_after_a_stop_only_the_other_documents_are_read_again(upgraded: Start) -> None:
    read: list[bytes] = []

    def note(data: bytes, media_type: str) -> tuple[Block, ...]:
        read.append(data)
        return extract(data, media_type)

    stack = upgraded(note)
    turns = stack.path.sync_in_turns(stack.source, Scope())
    next(turns)
    next(turns)
    turns.close()
    stack = upgraded(note)
    stack.sync()
    assert sorted(read) == sorted(text.encode() for text in TEXTS.values())
    assert "The tide turns at noon on Sunday." in served(stack)


def test_an_edit_alone_marks_the_other_documents(upgraded: Start, notes: Path) -> None:
    stack = upgraded()
    (notes / "dues.md").write_text("# Dues\n\nA night costs a hundred kroner.\n")
    assert stack.preempt("dues.md").changed == 1
    texts = served(stack)
    assert "A night costs a hundred kroner." in texts
    assert "The tide turns at noon on Sunday." not in texts
    stack = upgraded()
    assert not stack.path.is_behind(stack.source)
    stack.sync()
    assert "The tide turns at noon on Sunday." in served(stack)


def test_a_re_reading_is_committed_every_few_seconds(upgraded: Start) -> None:
    stack = upgraded()
    stack.path.batch_documents = 100
    stack.path.monotonic_s = count(0, 11).__next__
    turns = list(stack.path.sync_in_turns(stack.source, Scope()))
    assert len(turns) == len(TEXTS)


def test_a_touched_document_is_read_by_the_newer_reader(upgraded: Start, notes: Path) -> None:
    os.utime(notes / "tides.md", (1, 1))
    stack = upgraded()
    stack.sync()
    assert "The tide turns at noon on Sunday." in served(stack)


def test_an_edit_too_large_to_preempt_is_read_next(upgraded: Start, notes: Path) -> None:
    stack = upgraded()
    stack.path.batch_documents = 100
    lines = "\n\n".join(f"Ship {number} paid nothing in dues." for number in range(200))
    turns = stack.path.sync_in_turns(stack.source, Scope())

    def edit() -> None:
        stack.path.on_reading = lambda: None
        (notes / "tides.md").write_text(f"# Tides\n\n{lines}\n")
        assert stack.preempt("tides.md").too_large

    stack.path.on_reading = edit  # while the first document is read
    next(turns)
    assert "Ship 7 paid nothing in dues." in str(served(stack))
    assert stack.path.progress.documents_done == 2
    assert len([*turns]) == 1


def test_another_large_edit_does_not_delay_the_first(upgraded: Start, notes: Path) -> None:
    (notes / "weather.md").write_text("# Weather\n\nA storm is expected.\n")
    stack = upgraded()
    turns = stack.path.sync_in_turns(stack.source, Scope())
    next(turns)  # After this batch, another may have more passages than a small sync.
    stack.path.batch_documents = 100
    text = "\n\n".join(f"# Ship {number}\n\nIt paid nothing." for number in range(40))
    files = iter(("tides.md", "new.md"))  # The second file is not among those to be read again.

    def edit() -> None:
        if name := next(files, None):
            (notes / name).write_text(text.replace("Ship", name))
            stack.path.on_reading = lambda: None
            assert stack.preempt(name).too_large
            stack.path.on_reading = edit

    stack.path.on_reading = edit
    next(turns)
    assert stack.path.progress.documents_done == 3
    assert len([*turns]) == 1


def test_an_edit_does_not_change_the_progress_that_is_shown(upgraded: Start, notes: Path) -> None:
    stack = upgraded()
    shown: list[tuple[bool, int]] = []

    def edit() -> None:
        stack.path.on_reading = lambda: shown.append(
            (stack.path.progress.again, stack.path.progress.documents_total)
        )
        (notes / "dues.md").write_text("# Dues\n\nA night costs a hundred kroner.\n")
        assert stack.preempt("dues.md").changed == 1

    stack.path.on_reading = edit  # while the first document is read
    stack.sync()
    assert shown[0] == (True, len(TEXTS))
