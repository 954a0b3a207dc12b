"""What every connector keeps, through the real write path: `test_connectors.py` names the kinds.

The tests ask for a fixture `harness`; those of what goes wrong are in suite_trouble.py.
"""

import pytest

from connectors.protocol import Cursor, CursorExpired, Gone, Item
from hopsyncd.ingest.source_sync import SyncOutcome
from hopsyncd.ingest.source_thread import Stopping
from tests.contract.harness import Harness
from tests.contract.world import ADA, OSLO, ROME, World, fill, revisions


def test_a_listing_names_every_item_and_each_can_be_fetched(harness: Harness) -> None:
    ids = fill(harness)
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


def test_a_listing_contains_each_item_once_and_ends_with_its_cursor(harness: Harness) -> None:
    fill(harness)
    connector = harness.connector()
    found = list(connector.discover(None))
    connector.close()
    ids = [item.id for item in found if not isinstance(item, Cursor)]
    assert len(set(ids)) == len(ids)
    assert not any(isinstance(one, Cursor) for one in found[:-1])
    assert not any(isinstance(one, Gone) for one in found)


def test_an_item_with_an_unchanged_revision_is_not_fetched_again(world: World) -> None:
    fill(world.harness)
    assert world.sync().changed == 3
    world.connector.fetched.clear()
    assert world.sync() == SyncOutcome("notes")
    world.restart()
    assert world.sync() == SyncOutcome("notes")
    assert world.connector.fetched == []


def test_only_changed_items_are_fetched(world: World) -> None:
    ids = fill(world.harness)
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


def test_a_removed_item_is_removed_from_the_index(world: World) -> None:
    ids = fill(world.harness)
    world.sync()
    world.harness.delete("b")
    world.sync()
    kept = {ids["a"], ids["c"]}
    assert world.documents == (kept if world.harness.deletes else kept | {ids["b"]})


def test_a_cursor_from_the_future_lists_everything(world: World) -> None:
    ids = fill(world.harness)
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


def test_a_listing_since_a_cursor_finds_the_same_changes_as_a_full_listing(
    harness: Harness,
) -> None:
    fill(harness)
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
            assert known == revisions(connector)
    connector.close()


def test_a_listing_of_parts_covers_them(harness: Harness) -> None:
    ids = fill(harness)
    inner = harness.put("d/e", ADA)
    connector = harness.connector()
    for wanted in (ids["b"], inner):
        named = [f.id for f in connector.discover(None, [wanted]) if isinstance(f, Item)]
        assert wanted in named
    connector.close()


def test_an_interrupted_listing_continues_after_a_restart(world: World) -> None:
    ids = fill(world.harness)

    def stop() -> None:
        raise Stopping

    world.restart(between=stop, batch_documents=1)
    with pytest.raises(Stopping):
        world.sync()
    assert len(world.documents) == 1
    assert world.state.cursor is None
    world.restart()
    assert world.sync() == SyncOutcome("notes", changed=2)
    assert len(world.connector.fetched) == 2
    assert world.documents == set(ids.values())


def test_an_interrupted_listing_of_changes_continues_after_a_restart(world: World) -> None:
    ids = fill(world.harness)
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
