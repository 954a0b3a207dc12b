"""What every connector keeps when something goes wrong: the second half of the suite.

The faults that no kind can bring about by itself are made by wrappers around its connector.
"""

import time

import pytest

from connectors.protocol import Item, ItemUnreadable, ItemVanished, Problem, SourceUnavailable
from hopsyncd.ingest.source_sync import SyncOutcome
from store.sources import ListingState
from tests.contract.harness import Harness, Trouble
from tests.contract.world import ADA, OSLO, ROME, World, fill, needs, nothing

GIVES_UP_S = 60.0


def test_a_listing_that_breaks_off_deletes_nothing(world: World) -> None:
    ids = fill(world.harness)
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
    ids = fill(world.harness)
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
def test_a_source_that_denies_access_is_paused_and_keeps_its_documents(
    world: World, trouble: Trouble
) -> None:
    needs(world.harness, trouble)
    ids = fill(world.harness)
    world.sync()
    world.harness.put("b", OSLO)
    before = world.content
    world.harness.begin(trouble)
    paused = world.sync()
    world.harness.end()
    assert paused.problem
    assert world.content == before
    assert world.sync() == SyncOutcome("notes", changed=1)
    assert world.documents == set(ids.values())


def test_a_source_that_fails_during_fetches_keeps_the_fetched_items(world: World) -> None:
    ids = fill(world.harness)

    def expire() -> None:
        if len(world.connector.fetched) == 2:
            raise SourceUnavailable("Cannot read the source", "the token expired", "Renew it")

    world.connector.on_fetch = expire
    assert world.sync().problem == "the token expired"
    assert len(world.documents) == 2
    assert world.state == ListingState(None, None)
    world.connector.on_fetch = nothing
    world.connector.fetched.clear()
    assert world.sync() == SyncOutcome("notes", changed=1)
    assert len(world.connector.fetched) == 1
    assert world.documents == set(ids.values())


def test_a_malformed_listing_deletes_nothing(world: World) -> None:
    needs(world.harness, Trouble.GARBAGE)
    ids = fill(world.harness)
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
    assert world.sync() == SyncOutcome("notes")
    assert world.documents == set(ids.values())
    assert world.content != before
    assert world.problems() == {}


def test_a_source_that_answers_too_late_is_given_up(world: World) -> None:
    needs(world.harness, Trouble.SLOW)
    ids = fill(world.harness)
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
    ids = fill(world.harness)
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


def test_fetching_a_removed_item_reports_it_or_returns_the_listed_content(harness: Harness) -> None:
    fill(harness)
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


def test_a_huge_item_is_reported_and_other_items_are_read(world: World) -> None:
    ids = fill(world.harness)
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


def test_problems_name_a_reason_and_a_hint(harness: Harness) -> None:
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
