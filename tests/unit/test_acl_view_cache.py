"""Views of those who may not see all: made ahead, made once, and those of others as they were."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.tables import Table
from hopsyncd.retrieve import acl_view_cache
from hopsyncd.retrieve.acl_view_cache import AclViewCache, WriterState
from store.records import Version
from tests.fakes.dump import served_by
from tests.fakes.indexed import advance, document, snapshot_at
from tests.fakes.triplets import triplets

ROOT = Path(__file__).parents[2]
HIDDEN = frozenset({"closed"})
OTHERS = [frozenset({f"closed {number}"}) for number in range(4)]


class GatedIndex(LiveIndex):
    """Nothing in it is read while the gate is closed."""

    def __init__(self) -> None:
        self.gate, self.is_waiting = Event(), Event()
        self.gate.set()
        super().__init__(2)

    def __getattribute__(self, name: str) -> object:
        value: object = super().__getattribute__(name)
        if isinstance(value, Table) and not self.gate.is_set():
            self.is_waiting.set()
            assert self.gate.wait(20)
        return value


class Asked:
    """Passages that one of `open` and one of `closed` answer, more of them with each version."""

    def __init__(self) -> None:
        self.index = GatedIndex()
        self.views = AclViewCache(1.0)
        self.head = self.grow(1)

    def grow(self, version: int) -> Snapshot:
        first = 10 * version
        asker = triplets(first, outgoing=[("rome", (1.0, version))])
        closed = triplets(first + 1, incoming=[("rome", (1.0, version))])
        shown = triplets(first + 2, incoming=[("rome", (0.5, version))])
        advance(
            self.index,
            version,
            [asker, closed, shown],
            documents=[
                document(first, f"{first}.md", [first, first + 2], source="open"),
                document(first + 1, f"{first + 1}.md", [first + 1], source="closed"),
            ],
        )
        self.head = snapshot_at(self.index, version)
        return self.head

    def get(self, hidden: frozenset[str] = HIDDEN) -> Snapshot:
        return self.views.get(self.head, self.head.version, hidden)

    def meanwhile(self, asked: Callable[[], Snapshot]) -> tuple[Thread, list[Snapshot]]:
        """Begin to ask in another thread, which comes to the closed gate."""
        found = list[Snapshot]()
        self.index.gate.clear()
        self.index.is_waiting.clear()
        thread = Thread(target=lambda: found.append(asked()))
        thread.start()
        assert self.index.is_waiting.wait(20)
        return thread, found

    def until_ready(self, hidden: frozenset[str] = HIDDEN) -> None:
        end_s = time.monotonic() + 20
        while not self.views.is_ready(self.head.version.id, hidden):
            assert time.monotonic() < end_s
            time.sleep(0.005)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_two_concurrent_requests_share_one_computed_view(asked: Asked) -> None:
    first, found = asked.meanwhile(asked.get)
    second = Thread(target=lambda: found.append(asked.get()))
    second.start()
    asked.index.gate.set()
    for thread in (first, second):
        thread.join(20)
    assert found[0] is found[1] is asked.get()


def test_the_head_is_there_before_it_is_asked_for_behind_masks_asked_with_or_expected(
    asked: Asked,
) -> None:
    asked.views.expect([OTHERS[0]])
    asked.get()
    asked.views.follow(asked.grow(2))
    asked.until_ready()
    asked.until_ready(OTHERS[0])
    afresh = AclViewCache(1.0).get(asked.head, asked.head.version, HIDDEN)
    assert served_by(asked.get()) == served_by(afresh)


def test_while_a_sync_is_under_way_the_first_view_is_not_made_ahead(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_view_cache, "_QUICK_PASSAGES", 0)
    syncing = [True]
    asked.views = AclViewCache(1.0, WriterState(lambda: bool(syncing)))
    asked.views.expect([HIDDEN])
    asked.views.follow(asked.head)
    time.sleep(0.4)  # several times as long as a head without one waits
    assert not asked.views.is_ready(asked.head.version.id, HIDDEN)
    syncing.clear()
    asked.until_ready()


@pytest.mark.parametrize("quick_passages", [0, 100])
def test_views_follow_an_import_from_an_older_view_or_a_small_head(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, quick_passages: int
) -> None:
    monkeypatch.setattr(acl_view_cache, "_QUICK_PASSAGES", quick_passages)
    asked.views = AclViewCache(1.0, WriterState(lambda: True))
    asked.views.expect([HIDDEN])
    asked.views.follow(asked.head)
    if not quick_passages:
        asked.get()
    for version in range(2, 30):
        asked.grow(version)
    asked.views.follow(asked.head)
    asked.until_ready()
    afresh = AclViewCache(1.0).get(asked.head, asked.head.version, HIDDEN)
    assert served_by(asked.get()) == served_by(afresh)


_WAITING = """
from hopsyncd.retrieve import acl_view_cache
from tests.unit.test_acl_view_cache import HIDDEN, Asked, AclViewCache, WriterState

acl_view_cache._QUICK_PASSAGES = 0
asked = Asked()
asked.views = AclViewCache(1.0, WriterState(lambda: True))
asked.views.expect([HIDDEN])
asked.views.follow(asked.head)
"""


def test_a_process_ends_while_a_view_is_still_to_be_made() -> None:
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-c", _WAITING], cwd=ROOT, check=True, timeout=60)
    assert time.monotonic() - began_s < 30  # it would be made after 90


def test_after_few_changes_the_head_is_there_when_it_is_served_and_after_many_it_is_not(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_view_cache, "_MOST_CHANGED", 60)
    monkeypatch.setattr(acl_view_cache, "_SMALL_CHANGE", 2)
    asked.views.follow(asked.head)
    asked.get()
    asked.grow(2)
    asked.get()
    time.sleep(0.5)
    asked.views.follow(asked.grow(3))
    assert asked.views.is_ready(3, HIDDEN)
    afresh = AclViewCache(1.0).get(asked.head, asked.head.version, HIDDEN)
    assert served_by(asked.get()) == served_by(afresh)
    for version in range(4, 27):
        asked.grow(version)
    time.sleep(0.5)
    asked.views.follow(asked.head)
    assert not asked.views.is_ready(26, HIDDEN)


@pytest.mark.parametrize("comes_meanwhile", [False, True])
def test_a_view_of_many_changes_is_made_after_an_edit_that_waits_and_a_small_one_before(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, comes_meanwhile: bool
) -> None:
    asked_for = list[int]()

    def is_awaited() -> bool:  # if an edit comes meanwhile, the first call does not say so
        asked_for.append(1)
        return len(asked_for) > comes_meanwhile

    monkeypatch.setattr(acl_view_cache, "_REST_OF_EDITS", 0)
    asked.views = AclViewCache(1.0, WriterState(is_awaited=is_awaited))
    asked.views.follow(asked.head)
    asked.get()
    asked.views.follow(asked.grow(2))
    assert asked.views.is_ready(2, HIDDEN)
    monkeypatch.setattr(acl_view_cache, "_SMALL_CHANGE", 2)
    monkeypatch.setattr(acl_view_cache, "_PAUSE_S", 1.0)
    asked_for.clear()
    asked.views.follow(asked.grow(3))
    assert not asked.views.is_ready(3, HIDDEN)
    assert len(asked_for) == 1 + comes_meanwhile
    asked.until_ready()
    afresh = AclViewCache(1.0).get(asked.head, asked.head.version, HIDDEN)
    assert served_by(asked.get()) == served_by(afresh)


def test_an_edit_does_not_wait_for_a_view_of_the_batch_before_it(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [True]
    monkeypatch.setattr(acl_view_cache, "_REST_OF_EDITS", 0)
    monkeypatch.setattr(acl_view_cache, "_SMALL_CHANGE", 3)  # as one growth
    monkeypatch.setattr(acl_view_cache, "_PAUSE_S", 60.0)
    asked.views = AclViewCache(1.0, WriterState(is_awaited=lambda: bool(waiting)))
    asked.views.follow(asked.head)
    asked.get()
    asked.grow(2)
    asked.views.follow(asked.grow(3))
    assert not asked.views.is_ready(3, HIDDEN)
    waiting.clear()
    asked.views.follow(asked.grow(4))
    assert not asked.views.is_ready(4, HIDDEN)
    monkeypatch.setattr(acl_view_cache, "_PAUSE_S", 0.0)
    asked.until_ready()
    asked.views.follow(asked.grow(5))
    assert asked.views.is_ready(5, HIDDEN)


def test_a_view_that_fails_before_its_head_is_served_is_not_repeated(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = list[int]()

    def fail(version: Version, *_: object) -> Snapshot:
        failed.append(version.id)
        raise ValueError("no view")

    monkeypatch.setattr(acl_view_cache, "_REST_OF_EDITS", 0)
    asked.views.follow(asked.head)
    asked.get()
    monkeypatch.setattr(acl_view_cache, "build_acl_view", fail)
    asked.views.follow(asked.grow(2))
    time.sleep(0.5)
    assert failed == [2]


def test_slow_views_are_computed_ahead_only_for_heads_that_stay(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_view_cache, "_REST_OF_CHANGES", 20)
    thread, _ = asked.meanwhile(asked.get)
    time.sleep(0.05)
    asked.index.gate.set()
    thread.join(20)
    asked.views.follow(asked.grow(2))
    time.sleep(0.3)
    assert not asked.views.is_ready(2, HIDDEN)
    asked.until_ready()


def test_only_the_most_recently_used_views_are_prepared(asked: Asked) -> None:
    asked.get()
    for hidden in OTHERS:
        asked.get(hidden)
    asked.views.expect([HIDDEN])
    asked.views.follow(asked.grow(2))
    for hidden in OTHERS:
        asked.until_ready(hidden)
    assert not asked.views.is_ready(2, HIDDEN)


def test_expecting_views_drops_none_that_was_used_recently(asked: Asked) -> None:
    for mask in [*OTHERS[:3], HIDDEN]:
        asked.get(mask)
    view = asked.get()
    asked.views.expect([HIDDEN, OTHERS[3]])
    assert asked.get() is view


def test_a_view_of_a_replaced_index_is_discarded(asked: Asked) -> None:
    thread, found = asked.meanwhile(asked.get)
    other = Asked()
    asked.views.follow(other.head)
    asked.index.gate.set()
    thread.join(20)
    assert asked.get() is not found[0]
    assert served_by(asked.get()) == served_by(found[0])
    assert asked.views.get(other.head, other.head.version, HIDDEN).index is other.index


def test_past_versions_are_dropped_and_the_head_stays(asked: Asked) -> None:
    past, before = asked.head, asked.get()
    asked.views.follow(asked.grow(2))
    head = asked.get()
    asked.views.forget_pasts()
    assert asked.get() is head
    assert asked.views.get(asked.head, past.version, HIDDEN) is not before


def test_a_view_that_fails_does_not_prevent_other_views(asked: Asked) -> None:
    with pytest.raises(AttributeError):
        asked.views.get(asked.head, None, HIDDEN)  # type: ignore[arg-type]
    assert asked.get().hidden == HIDDEN


def test_a_view_of_the_previous_version_is_still_used(asked: Asked) -> None:
    first, before = asked.head, asked.get()
    asked.grow(2)
    asked.get()
    assert asked.views.get(asked.head, first.version, HIDDEN) is before
