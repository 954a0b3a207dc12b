"""One sync of a source in memory: what makes a version, and what trouble does."""

from contextlib import closing
from pathlib import Path

import pytest

from connectors.protocol import Problem
from store.content import read_counters
from store.gc import Retention, collect
from store.reads import read_live_documents
from store.records import hash_content
from store.sources import list_sources, read_seen_items
from tests.fakes.dump import graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack, fake_maker


@pytest.fixture
def files() -> MemoryConnector:
    return MemoryConnector({"a.md": b"Rome is in Italy.", "b.md": b"Ada met Babbage."})


def indexed(stack: Stack) -> dict[str, bytes]:
    return read_live_documents(stack.connection, stack.source.id)


def test_nothing_to_do_makes_no_version(tmp_path: Path, files: MemoryConnector) -> None:
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    fetched = len(files.fetched)
    assert stack.sync().changed == 0
    assert len(stack.versions) == 1
    assert len(files.fetched) == fetched


def test_each_batch_is_a_version_that_readers_can_use(
    tmp_path: Path, files: MemoryConnector
) -> None:
    stack = Stack(tmp_path / "graph.db", files, batch_documents=1)
    stack.sync()
    assert [version.documents for version in stack.versions] == [1, 2]


def test_a_sync_that_is_abandoned_is_taken_up_again(tmp_path: Path, files: MemoryConnector) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    first = Stack(tmp_path / "graph.db", files, batch_documents=1, between=stop)
    with pytest.raises(KeyboardInterrupt):
        first.sync()
    first.close()
    second = Stack(tmp_path / "graph.db", files, first.maker, batch_documents=1)
    second.sync()
    assert indexed(second).keys() == files.files.keys()
    assert files.fetched == ["a.md", "b.md"]


def test_the_only_document_may_be_renamed(tmp_path: Path) -> None:
    files = MemoryConnector({"a.md": b"Rome is in Italy."})
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    files.move("a.md", "b.md")
    assert stack.sync().problem is None
    assert indexed(stack).keys() == {"b.md"}


def test_a_document_that_is_restored_costs_no_generation(
    tmp_path: Path, files: MemoryConnector
) -> None:
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    before, data = read_counters(stack.connection), files.files["a.md"]
    files.remove("a.md")
    stack.sync()
    files.put("a.md", data)
    stack.sync()
    assert indexed(stack).keys() == {"a.md", "b.md"}
    assert read_counters(stack.connection) == before


def test_counters_say_what_was_generated_and_embedded(
    tmp_path: Path, files: MemoryConnector
) -> None:
    maker = fake_maker()
    stack = Stack(tmp_path / "graph.db", files, maker)
    stack.sync()
    assert read_counters(stack.connection) == {
        "passages_generated": len(maker.made),
        "texts_embedded": 4,  # of two passages, each of one sentence
    }
    assert stack.head.counters == read_counters(stack.connection)


def test_an_unreadable_item_keeps_its_last_good_version_and_is_tried_again(
    tmp_path: Path, files: MemoryConnector
) -> None:
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    before = indexed(stack)
    files.put("a.md", b"Rome is in Gaul.")
    files.unreadable.add("a.md")
    assert stack.sync().changed == 0
    assert indexed(stack) == before
    assert read_seen_items(stack.connection, stack.source.id)["a.md"].why == "it is locked"
    files.unreadable.clear()
    stack.sync()
    assert indexed(stack)["a.md"] == hash_content(b"Rome is in Gaul.")
    assert read_seen_items(stack.connection, stack.source.id)["a.md"].why is None


def test_an_item_lost_between_listing_and_fetch_is_left_to_the_next_scan(
    tmp_path: Path, files: MemoryConnector
) -> None:
    stack = Stack(tmp_path / "graph.db", files)
    files.vanishing.add("a.md")
    stack.sync()
    assert indexed(stack).keys() == {"b.md"}
    files.vanishing.clear()
    stack.sync()
    assert indexed(stack).keys() == {"a.md", "b.md"}


def test_a_folder_that_cannot_be_listed_keeps_its_documents(tmp_path: Path) -> None:
    files = MemoryConnector({"x/a.md": b"Rome is in Italy.", "b.md": b"Ada met Babbage."})
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    files.problems["x"] = Problem("x", "permission denied", "Allow it", subtree=True)
    files.remove("x/a.md")
    stack.sync()
    assert indexed(stack).keys() == {"x/a.md", "b.md"}
    del files.problems["x"]
    stack.sync()
    assert indexed(stack).keys() == {"b.md"}


def test_a_source_that_is_away_is_paused_and_comes_back(
    tmp_path: Path, files: MemoryConnector
) -> None:
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    files.available = False
    assert stack.sync().problem == "it is away"
    assert list_sources(stack.connection)[0].problem == "it is away"
    assert indexed(stack).keys() == {"a.md", "b.md"}
    files.available = True
    assert stack.sync().problem is None
    assert list_sources(stack.connection)[0].problem is None


def test_a_change_event_syncs_only_the_paths_that_it_names(
    tmp_path: Path, files: MemoryConnector
) -> None:
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    files.put("a.md", b"Rome is in Gaul.")
    files.put("b.md", b"Ada met Turing.")
    stack.sync(("a.md",))
    assert indexed(stack)["a.md"] == hash_content(b"Rome is in Gaul.")
    assert indexed(stack)["b.md"] == hash_content(b"Ada met Babbage.")


def test_an_edit_taken_back_while_a_sync_goes_on_is_not_left_stale(tmp_path: Path) -> None:
    """A hint's sync, between two batches, indexes an edit that is gone when its batch comes."""
    files = MemoryConnector({"a.md": b"Rome is in Italy.", "b.md": b"Ada met Babbage."})
    stack = Stack(tmp_path / "graph.db", files, batch_documents=1)
    stack.sync()
    files.put("a.md", b"Rome is in Gaul.")
    files.put("b.md", b"Ada met Babbage.")
    edits = [b"Ada met Turing."]

    def between() -> None:
        if edits:
            files.put("b.md", edits.pop())
            stack.sync(("b.md",))
            files.put("b.md", b"Ada met Babbage.")

    stack.between = between
    stack.sync()
    stack.sync()
    assert indexed(stack)["b.md"] == hash_content(b"Ada met Babbage.")


def test_removing_most_of_a_large_graph_leaves_the_rest_whole(tmp_path: Path) -> None:
    """More than half of the index in memory is dead then, until it is loaded anew after a gc."""
    large = {
        f"{n}.md": b"\n".join(b"Name%d saw Rome." % m for m in range(n, n + 400))
        for n in (0, 400, 800)
    }
    files = MemoryConnector({"a.md": b"Rome is in Italy.", "b.md": b"Rome met Italy.", **large})
    stack = Stack(tmp_path / "graph.db", files, passage_tokens=5000)
    stack.sync()
    for path in large:
        files.remove(path)
    stack.sync()
    fresh = Stack(tmp_path / "fresh.db", MemoryConnector(files.files), passage_tokens=5000)
    fresh.sync()
    newest = graph_at(fresh.connection, fresh.head.id)
    assert graph_at(stack.connection, stack.head.id) == newest
    assert stack.writer.index.is_worn
    collect(stack.connection, Retention(1, 0), 10**13)
    stack.writer.forget_index()
    assert not stack.writer.index.is_worn
    assert len(stack.writer.index.incoming) == 2


def test_an_index_is_worn_by_the_passages_of_documents_that_were_there_before(
    tmp_path: Path,
) -> None:
    """An edit places all passages of its document anew, though it makes few."""
    text = b"".join(b"# N%d\n\nName%d saw Rome.\n\n" % (n, n) for n in range(400))
    files = MemoryConnector({"a.md": text})
    with closing(Stack(tmp_path / "graph.db", files)) as stack:
        stack.sync()
        for edit in range(3):
            assert not stack.writer.index.is_worn
            files.put("a.md", text + b"# End\n\nName%d saw Oslo.\n" % edit)
            stack.sync()
        assert stack.writer.index.is_worn
