"""A hint costs what it names, not what its source holds."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from connectors.protocol import Found
from store.reads import read_live_documents
from store.sources import read_excluded_paths, read_seen_items
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

NAMES = ["a.md", "a/b.md", "a/c/d.md", "a.d/e.md", "a0.md", "b/a.md", "z.md"]


def files(names: list[str]) -> dict[str, bytes]:
    return {name: b"The file %d met Rome." % number for number, name in enumerate(names)}


def test_a_change_event_reads_only_items_at_or_below_its_paths(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "graph.db", MemoryConnector(files(NAMES)))
    stack.sync()
    connection, source = stack.connection, stack.source.id

    def under(*parts: str) -> list[str]:
        seen, live = (
            read_seen_items(connection, source, parts),
            read_live_documents(connection, source, parts),
        )
        assert seen.keys() == live.keys()
        return sorted(live)

    assert under("a") == ["a/b.md", "a/c/d.md"]
    assert under("a.md", "a/c", "gone") == ["a.md", "a/c/d.md"]
    assert under("z.md") == ["z.md"]
    assert under("") == under("", "a") == sorted(NAMES)
    assert under() == []
    assert read_excluded_paths(connection, source, ("a",)) == set()
    stack.close()


def instructions_of_an_edit(path: Path, documents: int) -> int:
    """What SQLite does, in thousands of its instructions, when one file of so many is hinted at.

    Of the others every other cannot be read.
    """
    others = {
        f"{number}.md": b"Ship%d met Port%d." % (number, number) if number % 2 else b"\0"
        for number in range(documents)
    }
    memory = MemoryConnector(files(["a.md"]) | others)
    stack = Stack(path, memory)
    stack.sync()
    memory.put("a.md", b"Oslo has a fjord.")
    done: list[None] = []
    stack.file.set_progress_handler(lambda: done.append(None), 1000)
    assert stack.sync(("a.md",)).changed == 1
    stack.file.set_progress_handler(None, 0)
    stack.close()
    return len(done)


def test_an_edit_among_many_items_costs_as_much_as_among_few(tmp_path: Path) -> None:
    few = instructions_of_an_edit(tmp_path / "few.db", 10)
    many = instructions_of_an_edit(tmp_path / "many.db", 2000)
    assert many <= few + 5


def test_a_change_event_does_not_remove_the_last_documents(tmp_path: Path) -> None:
    memory = MemoryConnector(files(["a/b.md", "a/c.md", "d.md"]))
    stack = Stack(tmp_path / "graph.db", memory)
    stack.sync()
    memory.remove("a/b.md")
    memory.remove("a/c.md")
    assert stack.sync(("a",)).removed == 2, "one is left"
    memory.remove("d.md")
    assert stack.sync(("d.md",)).problem
    assert read_live_documents(stack.connection, stack.source.id).keys() == {"d.md"}
    stack.close()


class Unrestricted(MemoryConnector):
    """Lists everything, whatever is asked for."""

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        return super().discover(since, None)


def test_items_listed_outside_the_paths_of_a_change_event_are_ignored(tmp_path: Path) -> None:
    memory = Unrestricted(files(["a.md", "b.md", "c.md"]))
    stack = Stack(tmp_path / "graph.db", memory)
    stack.sync()
    fetched = len(memory.fetched)
    memory.put("a.md", b"Oslo has a fjord.")
    memory.put("b.md", b"Ibsen met Oslo.")
    assert stack.sync(("a.md",)).changed == 2
    assert len(memory.fetched) == fetched + 2
    stack.close()
