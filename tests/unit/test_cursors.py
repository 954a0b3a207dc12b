"""Listings since a cursor: what they may conclude, when they hold, and when all is listed again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.protocol import Cursor, Fetched, Gone, Item, Problem
from hopsyncd.ingest.plan import Action, Listing, Scope, Source, decide, scan
from hopsyncd.ingest.source_sync import SyncOutcome
from hopsyncd.ingest.source_thread import run_to_end
from hopsyncd.ingest.upkeep import pause_source, resume_source
from store.records import Seen
from store.sources import (
    ListingState,
    begin_rules,
    include_again,
    list_sources,
    put_listing_state,
    read_listing_state,
    register_source,
    release_pins,
)
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

FILES = {"a.md": b"Rome is in Italy.", "b.md": b"Ada met Babbage.", "c.md": b"Oslo has a fjord."}
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path / "graph.db", MemoryConnector(FILES, cursors=True))
    made.sync()
    yield made
    made.close()


def memory(stack: Stack) -> MemoryConnector:
    assert isinstance(stack.connector, MemoryConnector)
    return stack.connector


def state(stack: Stack) -> ListingState:
    return read_listing_state(stack.connection, stack.source.id)


def test_only_what_is_gone_is_removed() -> None:
    seen = {path: Seen(1, path, "r1", b"") for path in ("a", "b", "c")}
    live = dict.fromkeys(seen, b"")
    since = Listing({"a": Item("a", "r2")}, (), None, frozenset({"b", "never"}), since="7")
    steps = decide(since, seen, live)
    assert [(step.action, step.path) for step in steps] == [
        (Action.FETCH, "a"),
        (Action.REMOVE, "b"),
    ]


def test_the_last_report_about_an_item_in_a_listing_counts() -> None:
    class Wavering(MemoryConnector):
        def discover(self, since, under=None):  # type: ignore[no-untyped-def]
            yield from [Gone("a"), Item("a", "r2"), Item("b", "r1"), Gone("b"), Cursor("8")]

    listing = run_to_end(scan(Wavering(), None, "7"))
    assert (set(listing.items), listing.gone, listing.cursor) == ({"a"}, frozenset({"b"}), "8")


def test_ids_that_cannot_be_stored_are_problems() -> None:
    class Odd(MemoryConnector):
        def discover(self, since, under=None):  # type: ignore[no-untyped-def]
            yield Item("a\udcff", "r")
            yield Problem("b\udcff", "it is odd", "Rename it")

    assert [problem.id for problem in run_to_end(scan(Odd(), None)).problems] == [
        "a\\udcff",
        "b\\udcff",
    ]


def test_the_first_listing_is_whole_and_the_next_begins_at_its_cursor(stack: Stack) -> None:
    memory(stack).put("b.md", b"Ada wrote a program.")
    memory(stack).remove("c.md")
    assert stack.sync() == SyncOutcome("notes", changed=1, removed=1)
    assert stack.sync() == SyncOutcome("notes")
    assert memory(stack).listings == [None, "3", "5"]
    assert state(stack).cursor == "5"


def test_a_day_later_everything_is_listed(stack: Stack) -> None:
    now = state(stack)
    assert now.listed_ms is not None
    # The source forgot to say that b.md is gone.
    del memory(stack).files["b.md"]
    assert stack.sync() == SyncOutcome("notes")
    long_ago = ListingState(now.cursor, now.listed_ms - DAY_MS)
    put_listing_state(stack.connection, stack.source.id, long_ago)
    assert stack.sync() == SyncOutcome("notes", removed=1)
    assert memory(stack).listings == [None, "3", None, None]  # the last: the second look


def test_a_clock_that_was_put_back_lists_everything(stack: Stack) -> None:
    now = state(stack)
    assert now.listed_ms is not None
    ahead = ListingState(now.cursor, now.listed_ms + DAY_MS)
    put_listing_state(stack.connection, stack.source.id, ahead)
    stack.sync()
    assert memory(stack).listings == [None, None]


def test_an_item_that_could_not_be_read_is_tried_once_more_at_once(stack: Stack) -> None:
    memory(stack).unreadable = {"b.md"}
    memory(stack).put("b.md", b"Ada wrote a program.")
    for _ in range(3):
        stack.sync()
    assert memory(stack).listings == [None, "3", "3", "4"]
    assert memory(stack).fetched[3:] == ["b.md", "b.md"]
    memory(stack).put("b.md", b"Ada wrote another.")
    memory(stack).unreadable = set()
    assert stack.sync().changed == 1


def test_an_item_marked_to_be_read_again_is_tried_once_more_at_once(stack: Stack) -> None:
    begin_rules(stack.connection, stack.source.id, stack.writer.rules)
    memory(stack).unreadable = {"b.md"}
    stack.sync()
    assert state(stack).cursor is None
    for _ in range(2):
        stack.sync()
    assert memory(stack).fetched[6:] == ["b.md"], "no more than once"


def test_an_item_that_failed_is_not_said_to_be_read_again(stack: Stack) -> None:
    memory(stack).unreadable = {"b.md"}
    memory(stack).put("b.md", b"Ada wrote a program.")
    stack.sync()
    for _ in stack.path.sync_in_turns(stack.source, Scope(whole=True)):
        assert not stack.path.progress.again
        assert stack.path.progress.documents_total == 1


def test_an_item_that_vanished_is_asked_for_again(stack: Stack) -> None:
    memory(stack).vanishing = {"b.md"}
    memory(stack).put("b.md", b"Ada wrote a program.")
    stack.sync()
    assert state(stack).cursor == "3"
    memory(stack).vanishing = set()
    assert stack.sync().changed == 1
    assert state(stack).cursor == "4"


class Hasty(MemoryConnector):
    """Items in `doomed` are removed when they are to be read."""

    doomed: frozenset[str] = frozenset()

    def fetch(self, item: Item) -> Fetched:
        if item.id in self.doomed and item.id in self.files:
            self.remove(item.id)
        return super().fetch(item)


def test_another_look_at_what_vanished_leaves_other_trouble_to_the_next_sync(
    tmp_path: Path,
) -> None:
    files = Hasty(FILES, cursors=True)
    stack = Stack(tmp_path / "graph.db", files)
    stack.sync()
    for path in ("a.md", "b.md"):
        files.put(path, b"Nero burnt Rome.")
    files.doomed, files.unreadable = frozenset({"a.md"}), {"b.md"}
    assert stack.sync().removed == 1
    assert state(stack).cursor == "3"  # so that the next listing names b.md
    files.unreadable = set()
    assert stack.sync().changed == 1
    assert state(stack).cursor == "6"
    stack.close()


def test_a_source_in_doubt_keeps_its_cursor(stack: Stack) -> None:
    for path in FILES:
        memory(stack).remove(path)
    before = state(stack)
    assert "source (3) have disappeared" in (stack.sync().problem or "")
    assert state(stack) == before
    assert stack.sync(accept_empty=True).removed == 3


def test_hints_do_not_move_the_cursor(stack: Stack) -> None:
    before = state(stack)
    memory(stack).put("a.md", b"Rome was not built in a day.")
    assert stack.sync(("a.md",)).changed == 1
    assert state(stack) == before


def test_a_change_of_pins_or_settings_voids_the_cursor(stack: Stack) -> None:
    def void() -> bool:
        gone = state(stack).cursor is None
        stack.sync()
        assert state(stack).cursor == "3"
        return gone

    release_pins(stack.connection, stack.source.id)
    assert void()
    include_again(stack.connection, stack.source.id, "a.md")
    assert void()
    register_source(stack.connection, "notes", "memory", "", "other settings")
    assert void()
    register_source(stack.connection, "notes", "memory", "elsewhere", "other settings")
    assert not void()


def test_released_pins_void_the_cursor_even_during_a_sync(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "s.db", MemoryConnector(FILES, cursors=True), batch_documents=1)
    stack.sync()
    for path in FILES:
        memory(stack).put(path, b"Another text.")
    turns = stack.path.sync_in_turns(stack.source, Scope())
    next(turns)
    release_pins(stack.connection, stack.source.id)
    assert [*turns]
    assert state(stack).cursor is None
    stack.sync()
    assert memory(stack).listings[-1] is None
    assert state(stack).cursor is not None
    stack.close()


def test_a_source_paused_by_hand_is_left_alone_until_it_is_resumed(stack: Stack) -> None:
    memory(stack).put("a.md", b"Rome was not built in a day.")
    assert pause_source(stack.path, "notes", 7) == {"name": "notes", "paused": True}
    assert stack.sync().problem == "a user paused the source"
    assert stack.sync(("a.md",)).problem == "a user paused the source"
    assert memory(stack).listings == [None]
    (row,) = list_sources(stack.connection)
    assert (row.documents, row.problem) == (3, "a user paused the source")
    assert "hopsyncd resume 'notes'" in (row.hint or "")
    resume_source(stack.path, "notes")
    assert stack.path.paused == {}
    assert stack.sync() == SyncOutcome("notes", changed=1)


def test_what_was_seen_at_another_place_is_read_again(stack: Stack) -> None:
    memory(stack).files["a.md"] = b"Turin is in Italy."  # with the revision of the other one
    stack.sync()
    before = stack.head
    register_source(stack.connection, "notes", "memory", "elsewhere", "")
    assert stack.path.sync(stack.source, Scope(whole=True)).changed == 1
    assert stack.head.id == before.id + 1


def test_an_item_with_another_media_type_is_read_again(stack: Stack) -> None:
    class Typed(MemoryConnector):
        media_type = "text/markdown"

        def fetch(self, item: Item) -> Fetched:
            return replace(super().fetch(item), media_type=self.media_type)

    typed = Typed({"a": b"# Rome\n\nIt is old."})
    source = Source(register_source(stack.connection, "typed", "memory", ""), "typed", typed)
    stack.path.sync(source, Scope())
    typed.put("a", typed.files["a"])
    assert stack.path.sync(source, Scope()).changed == 0, "a touch"
    typed.media_type = "text/plain"
    typed.put("a", typed.files["a"])
    assert stack.path.sync(source, Scope()).changed == 1
