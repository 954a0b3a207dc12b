"""What every connector keeps, through the real write path: `test_connectors.py` names the kinds.

The tests ask for a fixture `harness`; the faults that no kind can bring about by itself are made
by wrappers around its connector.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from connectors.errors import CursorExpired, ItemUnreadable, ItemVanished, SourceUnavailable
from connectors.protocol import Connector, Cursor, Fetched, Found, Gone, Item, Problem
from hopsyncd.sync.sync import Outcome
from hopsyncd.sync.worker import Stopping
from store.reads import live_documents
from store.sources import ListingState, item_problems, listing_state, put_listing_state
from tests.contract.harness import Harness, Trouble
from tests.fakes.stack import Stack

ROME = "Rome is in Italy. Caesar crossed the Rubicon."
ADA = "Ada Lovelace met Charles Babbage in London."
OSLO = "Oslo is the capital of Norway."
GIVES_UP_S = 10.0

Between = Callable[[], None]


def nothing() -> None:
    """The hook of a test that needs none."""


class Wrapped:
    """A connector with hooks: before each listed thing and before each fetch. Counts fetches."""

    def __init__(
        self, connector: Connector, *, on_found: Between = nothing, on_fetch: Between = nothing
    ) -> None:
        self._connector = connector
        self.on_found, self.on_fetch = on_found, on_fetch
        self.fetched: list[str] = []
        self.listings: list[str | None] = []

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        self.listings.append(since)
        for found in self._connector.discover(since, under):
            self.on_found()
            yield found

    def fetch(self, item: Item) -> Fetched:
        self.on_fetch()
        self.fetched.append(item.id)
        return self._connector.fetch(item)

    def close(self) -> None:
        self._connector.close()


class World:
    """A harness kept in sync with a database: `sync()` is one scan by the real write path."""

    def __init__(self, harness: Harness, base: Path) -> None:
        self.harness = harness
        self._path = base / "graph.db"
        self.connector = Wrapped(harness.connector())
        self.stack = Stack(self._path, self.connector)

    def sync(self) -> Outcome:
        return self.stack.sync()

    def restart(self, between: Between = nothing, batch_documents: int = 100) -> None:
        """A new process: another connection to the store, another connector."""
        self.close()
        self.connector = Wrapped(self.harness.connector())
        self.stack = Stack(
            self._path, self.connector, between=between, batch_documents=batch_documents
        )

    @property
    def documents(self) -> set[str]:
        return set(live_documents(self.stack.connection, self.stack.source.id))

    @property
    def content(self) -> dict[str, bytes]:
        return dict(live_documents(self.stack.connection, self.stack.source.id))

    @property
    def state(self) -> ListingState:
        return listing_state(self.stack.connection, self.stack.source.id)

    def put_cursor(self, value: str) -> None:
        state = ListingState(value, self.state.listed_ms)
        put_listing_state(self.stack.connection, self.stack.source.id, state)

    def problems(self) -> dict[str, str]:
        return {path: why for _, path, why, _ in item_problems(self.stack.connection, 100)}

    def close(self) -> None:
        self.stack.close()
        self.connector.close()


@pytest.fixture
def world(harness: Harness, tmp_path: Path) -> Iterator[World]:
    """The harness's source with three items, not yet synced."""
    made = World(harness, tmp_path)
    yield made
    made.close()


def _needs(harness: Harness, trouble: Trouble) -> None:
    if trouble not in harness.troubles:
        pytest.skip(f"this kind of source cannot be {trouble.name.lower()}")


def _fill(harness: Harness) -> dict[str, str]:
    return {key: harness.put(key, text) for key, text in (("a", ROME), ("b", ADA), ("c", OSLO))}


def _now(connector: Connector) -> dict[str, str]:
    """What a listing of everything says: the revisions by id."""
    return {f.id: f.revision for f in connector.discover(None) if isinstance(f, Item)}


def test_a_listing_names_every_item_and_each_can_be_fetched(harness: Harness) -> None:
    ids = _fill(harness)
    connector = harness.connector()
    items = [found for found in connector.discover(None) if isinstance(found, Item)]
    assert sorted(item.id for item in items) == sorted(ids.values())
    texts = dict(zip(ids.values(), (ROME, ADA, OSLO), strict=True))
    for item in items:
        fetched = connector.fetch(item)
        assert texts[item.id] in fetched.data.decode()
        assert fetched.revision == item.revision or not item.revision
        assert len(fetched.data) <= harness.max_bytes
    connector.close()


def test_a_listing_names_nothing_twice_and_its_cursor_comes_last(harness: Harness) -> None:
    _fill(harness)
    connector = harness.connector()
    found = list(connector.discover(None))
    connector.close()
    ids = [one.id for one in found if not isinstance(one, Cursor)]
    assert len(set(ids)) == len(ids)
    assert not any(isinstance(one, Cursor) for one in found[:-1])
    assert not any(isinstance(one, Gone) for one in found)


def test_what_has_the_same_revision_is_not_fetched_again(world: World) -> None:
    _fill(world.harness)
    assert world.sync().changed == 3
    world.connector.fetched.clear()
    assert world.sync() == Outcome("notes")
    world.restart()
    assert world.sync() == Outcome("notes")
    assert world.connector.fetched == []


def test_only_what_changed_is_fetched(world: World) -> None:
    ids = _fill(world.harness)
    world.sync()
    before = world.content
    world.connector.fetched.clear()
    world.harness.put("b", OSLO + " It lies on a fjord.")
    ids["d"] = world.harness.put("d", "Bergen has rain.")
    outcome = world.sync()
    assert (outcome.changed, outcome.removed) == (2, 0)
    assert sorted(world.connector.fetched) == sorted([ids["b"], ids["d"]])
    changed = {id_ for id_, hash_ in world.content.items() if before.get(id_) != hash_}
    assert changed == {ids["b"], ids["d"]}


def test_what_is_gone_is_removed(world: World) -> None:
    ids = _fill(world.harness)
    world.sync()
    world.harness.delete("b")
    world.sync()
    kept = {ids["a"], ids["c"]}
    assert world.documents == (kept if world.harness.deletes else kept | {ids["b"]})


def test_a_listing_that_breaks_off_deletes_nothing(world: World) -> None:
    ids = _fill(world.harness)
    world.sync()
    world.harness.put("d", "Bergen has rain.")
    world.harness.delete("a")

    def break_off() -> None:
        raise SourceUnavailable("Cannot list the source", "the line was cut", "Wait")

    world.connector.on_found = break_off
    assert world.sync().problem == "the line was cut"
    assert world.documents == set(ids.values())
    world.connector.on_found = nothing
    assert world.sync().problem is None
    assert "notes" not in world.stack.path.paused


def test_a_connector_that_fails_in_its_own_way_pauses_its_source(world: World) -> None:
    ids = _fill(world.harness)
    world.sync()
    world.harness.put("a", OSLO)

    def stumble() -> None:
        raise ZeroDivisionError("by nought")

    world.connector.on_found = stumble
    assert "ZeroDivisionError: by nought" in (world.sync().problem or "")
    world.connector.on_found, world.connector.on_fetch = nothing, stumble
    world.sync()
    assert "by nought" in world.problems()[ids["a"]]
    world.connector.on_fetch = nothing
    world.sync()
    assert world.problems() == {}
    assert world.documents == set(ids.values())


@pytest.mark.parametrize("trouble", [Trouble.AWAY, Trouble.LOCKED])
def test_a_source_that_lets_nobody_in_is_paused_and_kept(world: World, trouble: Trouble) -> None:
    _needs(world.harness, trouble)
    ids = _fill(world.harness)
    world.sync()
    world.harness.put("b", OSLO)
    before = world.content
    world.harness.begin(trouble)
    paused = world.sync()
    world.harness.end()
    assert paused.problem
    assert world.content == before
    assert world.sync() == Outcome("notes", changed=1)
    assert world.documents == set(ids.values())


def test_a_source_that_shuts_while_items_are_fetched_keeps_what_it_gave(world: World) -> None:
    ids = _fill(world.harness)

    def expire() -> None:
        if len(world.connector.fetched) == 2:
            raise SourceUnavailable("Cannot read the source", "the token expired", "Renew it")

    world.connector.on_fetch = expire
    assert world.sync().problem == "the token expired"
    assert len(world.documents) == 2
    assert world.state == ListingState(None, None)
    world.connector.on_fetch = nothing
    world.connector.fetched.clear()
    assert world.sync() == Outcome("notes", changed=1)
    assert len(world.connector.fetched) == 1
    assert world.documents == set(ids.values())


def test_nonsense_deletes_nothing(world: World) -> None:
    _needs(world.harness, Trouble.GARBAGE)
    ids = _fill(world.harness)
    world.sync()
    before = world.content
    world.harness.put("b", OSLO)
    world.harness.begin(Trouble.GARBAGE)
    outcome = world.sync()
    told = outcome.problem or world.problems()
    world.harness.end()
    assert told
    assert world.content == before
    world.sync()
    assert world.sync() == Outcome("notes")
    assert world.documents == set(ids.values())
    assert world.content != before
    assert world.problems() == {}


def test_a_source_that_answers_too_late_is_given_up(world: World) -> None:
    _needs(world.harness, Trouble.SLOW)
    ids = _fill(world.harness)
    world.sync()
    world.harness.begin(Trouble.SLOW)
    began_s = time.monotonic()
    outcome = world.sync()
    took_s = time.monotonic() - began_s
    world.harness.end()
    assert outcome.problem
    assert took_s < GIVES_UP_S
    assert world.documents == set(ids.values())
    assert world.sync().problem is None


def test_an_item_that_vanishes_before_it_is_fetched_is_no_error(world: World) -> None:
    ids = _fill(world.harness)
    gone: list[str] = []

    def vanish() -> None:
        if not gone:
            gone.append("c")
            world.harness.delete("c")

    world.connector.on_fetch = vanish
    outcome = world.sync()
    assert outcome.problem is None
    assert {ids["a"], ids["b"]} <= world.documents <= set(ids.values())
    world.sync()
    if world.harness.deletes:
        assert world.documents == {ids["a"], ids["b"]}


def test_fetching_what_is_gone_says_so_or_gives_what_was_listed(harness: Harness) -> None:
    _fill(harness)
    connector = harness.connector()
    items = {found.id: found for found in connector.discover(None) if isinstance(found, Item)}
    id_ = harness.put("z", ROME)
    item = next(f for f in connector.discover(None) if isinstance(f, Item) and f.id == id_)
    harness.delete("z")
    if harness.deletes:
        try:
            fetched = connector.fetch(item)
        except (ItemVanished, ItemUnreadable):
            fetched = None
        # Only a source that keeps its history can still read it.
        assert fetched is None or (ROME in fetched.data.decode(), fetched.revision) == (
            True,
            item.revision,
        )
    assert items
    connector.close()


def test_a_cursor_from_the_future_lists_everything(world: World) -> None:
    ids = _fill(world.harness)
    world.sync()
    if world.state.cursor is None:
        pytest.skip("this kind of source has no cursors")
    world.put_cursor("99999999999999999999")
    world.harness.put("b", OSLO)
    world.harness.delete("a")
    assert world.sync().problem is None
    kept = {ids["b"], ids["c"]}
    assert world.documents == (kept if world.harness.deletes else kept | {ids["a"]})
    assert world.state.cursor != "99999999999999999999"


def test_a_listing_since_a_cursor_says_what_a_whole_one_would(harness: Harness) -> None:
    _fill(harness)
    connector = harness.connector()
    first = list(connector.discover(None))
    cursor = first[-1] if first else None
    if not isinstance(cursor, Cursor):
        connector.close()
        pytest.skip("this kind of source has no cursors")
    known = {found.id: found.revision for found in first if isinstance(found, Item)}
    for turn in range(4):
        harness.put("b", f"{OSLO} It was seen {turn} times.")
        if turn % 2:
            harness.put("d/e", ADA)
        elif turn:
            harness.delete("d/e")
        try:
            for found in connector.discover(cursor.value):
                if isinstance(found, Item):
                    known[found.id] = found.revision
                elif isinstance(found, Gone):
                    known.pop(found.id, None)
                elif isinstance(found, Cursor):
                    cursor = found
        except CursorExpired:
            pytest.fail("a cursor that has just been given must hold")
        if harness.deletes:
            assert known == _now(connector)
    connector.close()


def test_a_listing_of_parts_covers_them(harness: Harness) -> None:
    ids = _fill(harness)
    inner = harness.put("d/e", ADA)
    connector = harness.connector()
    for wanted in (ids["b"], inner):
        named = [f.id for f in connector.discover(None, [wanted]) if isinstance(f, Item)]
        assert wanted in named
    connector.close()


def test_a_restart_in_the_middle_goes_on(world: World) -> None:
    ids = _fill(world.harness)

    def stop() -> None:
        raise Stopping

    world.restart(between=stop, batch_documents=1)
    with pytest.raises(Stopping):
        world.sync()
    assert len(world.documents) == 1
    assert world.state.cursor is None
    world.restart()
    assert world.sync() == Outcome("notes", changed=2)
    assert len(world.connector.fetched) == 2
    assert world.documents == set(ids.values())


def test_a_restart_in_the_middle_of_changes_goes_on(world: World) -> None:
    ids = _fill(world.harness)
    world.sync()

    def stop() -> None:
        raise Stopping

    world.restart(between=stop, batch_documents=1)
    cursor = world.state.cursor
    for key in ("a", "b"):
        world.harness.put(key, f"{key} is new: {OSLO}")
    world.harness.delete("c")
    with pytest.raises(Stopping):
        world.sync()
    assert world.state.cursor == cursor
    world.restart()
    world.sync()
    assert len(world.connector.fetched) == 1
    kept = {ids["a"], ids["b"]}
    assert world.documents == (kept if world.harness.deletes else kept | {ids["c"]})


def test_a_huge_item_is_told_and_the_others_are_read(world: World) -> None:
    ids = _fill(world.harness)
    world.sync()
    world.harness.put("b", "word " * (world.harness.max_bytes // 4))
    world.harness.put("a", OSLO)
    before = world.content
    assert world.sync().problem is None
    assert ids["b"] in world.problems()
    assert world.content[ids["b"]] == before[ids["b"]]
    assert world.content[ids["a"]] != before[ids["a"]]
    world.harness.put("b", ADA + " It rained.")
    world.sync()
    assert world.problems() == {}
    assert world.content[ids["b"]] != before[ids["b"]]


def test_problems_have_words(harness: Harness) -> None:
    harness.put("a", "word " * (harness.max_bytes // 4))
    connector = harness.connector()
    for found in connector.discover(None):
        if isinstance(found, Problem):
            assert found.id and found.why and found.hint
        elif isinstance(found, Item):
            with pytest.raises(ItemUnreadable) as caught:
                connector.fetch(found)
            assert caught.value.why and caught.value.hint
    connector.close()
