"""Other rules of cutting: each source is read afresh, once, whenever its turn comes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.protocol import Problem, SourceUnavailable
from hopsyncd.ingest.plan import Scope, Source
from store.sources import register_source
from tests.fakes.dump import Rows, graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

TEXT = b"Rome lies on the Tiber in Italy.\n\nNero met Brutus in Rome one day.\n"
OTHER = b"Oslo lies on a fjord in Norway.\n\nIbsen left Oslo for Rome one day.\n"
FINE, COARSE = 12, 50  # tokens of a passage
Start = Callable[[int], Stack]


@pytest.fixture
def files() -> MemoryConnector:
    return MemoryConnector({"a.md": TEXT, "in/b.md": OTHER}, cursors=True)


@pytest.fixture
def start(tmp_path: Path, files: MemoryConnector) -> Iterator[Start]:
    """Starts once more over the same database, with passages of so many tokens."""
    made: list[Stack] = []

    def again(passage_tokens: int) -> Stack:
        while made:
            made.pop().close()
        made.append(Stack(tmp_path / "s.db", files, passage_tokens=passage_tokens))
        return made[0]

    yield again
    for stack in made:
        stack.close()


def graph_of(stack: Stack) -> Rows:
    return graph_at(stack.connection, stack.head.id)


@pytest.fixture
def coarse(tmp_path: Path, files: MemoryConnector) -> Rows:
    """The graph of the same files, read by the coarse rules from the beginning."""
    fresh = Stack(tmp_path / "coarse.db", MemoryConnector(dict(files.files)), passage_tokens=COARSE)
    fresh.sync()
    graph = graph_of(fresh)
    fresh.close()
    return graph


def test_under_other_rules_a_source_is_read_afresh_and_once_only(
    start: Start, files: MemoryConnector, coarse: Rows
) -> None:
    fine = start(FINE)
    fine.sync()
    assert graph_of(fine) != coarse
    files.fetched.clear()
    stack = start(COARSE)
    assert stack.sync().changed == 2
    assert graph_of(stack) == coarse
    assert start(COARSE).sync().changed == 0
    assert files.fetched == ["a.md", "in/b.md"]


def test_one_source_that_was_read_afresh_says_nothing_of_another(
    start: Start, coarse: Rows
) -> None:
    start(FINE).sync()
    stack = start(COARSE)
    connector = MemoryConnector({"more.md": b"Ada met Babbage in London.\n"})
    more = Source(register_source(stack.connection, "more", "memory", ""), "more", connector)
    stack.path.sync(more, Scope())
    assert stack.head.rules == stack.writer.rules
    stack = start(COARSE)
    stack.sync()
    connector.remove("more.md")
    stack.path.sync(more, Scope(accept_empty=True))
    assert graph_of(stack) == coarse
    assert len(connector.fetched) == 1


def test_a_source_that_is_away_is_read_afresh_when_it_is_back(
    start: Start, files: MemoryConnector, coarse: Rows
) -> None:
    start(FINE).sync()
    files.locked = SourceUnavailable("Cannot read", "it is away", "Bring it back")
    assert start(COARSE).sync().problem
    files.locked = None
    stack = start(COARSE)
    stack.sync()
    assert graph_of(stack) == coarse


def hide(files: MemoryConnector) -> None:
    files.problems["in"] = Problem("in", "no permission", "Give it", subtree=True)


def lock(files: MemoryConnector) -> None:
    files.unreadable.add("in/b.md")


def take_away(files: MemoryConnector) -> None:
    files.vanishing.add("in/b.md")


@pytest.mark.parametrize("spoil", [hide, lock, take_away])
def test_items_that_could_not_be_read_again_are_read_later(
    start: Start, files: MemoryConnector, coarse: Rows, spoil: Callable[[MemoryConnector], None]
) -> None:
    start(FINE).sync()
    spoil(files)
    stack = start(COARSE)
    stack.sync()
    for trouble in (files.problems, files.unreadable, files.vanishing):
        trouble.clear()
    files.fetched.clear()
    stack.sync()
    assert files.fetched == ["in/b.md"], "and nothing else"
    assert graph_of(stack) == coarse


def test_an_unreadable_unchanged_item_makes_no_version(
    start: Start, files: MemoryConnector
) -> None:
    stack = start(FINE)
    stack.sync()
    files.put("a.md", TEXT)
    files.unreadable.add("a.md")
    stack.sync()
    files.unreadable.clear()
    assert stack.sync().changed == 0
    assert stack.head.id == 1


def test_a_restored_document_stays_as_it_was_cut_until_its_pin_ends(
    start: Start, files: MemoryConnector, coarse: Rows
) -> None:
    stack = start(FINE)
    stack.sync()
    then = graph_of(stack)
    files.put("a.md", b"Nero is gone.\n")
    stack.sync()
    stack.restore(1)
    stack = start(COARSE)
    stack.sync()
    of_a = [row for row in graph_of(stack)["placements"] if row[0] == "a.md"]
    assert of_a == [row for row in then["placements"] if row[0] == "a.md"]
    files.put("a.md", b"Nero is back.\n")
    stack.sync()
    files.put("a.md", TEXT)
    stack.sync()
    assert graph_of(stack) == coarse


def test_sources_of_the_schema_before_have_the_rules_of_the_head(
    start: Start, files: MemoryConnector
) -> None:
    stack = start(FINE)
    stack.sync()
    for statement in (
        "ALTER TABLE source_state DROP COLUMN rules",
        "DELETE FROM _sqlite_migrations WHERE name = '010_rules'",
        "PRAGMA user_version = 9",
    ):
        stack.connection.execute(statement)
    files.fetched.clear()
    start(FINE).sync()
    assert files.fetched == []
    assert start(COARSE).sync().changed == 2
