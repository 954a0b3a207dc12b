"""The map of a collection: what it depends on, what it may not show, and where things lie."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.api import map_answer
from hopsyncd.index.acl_view import build_acl_view
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve import collection_map
from hopsyncd.retrieve.map_layout import SPACING, arrange, normalize
from store.contract import Connection
from tests.fakes.histories import NAMES, Step, grown, histories, states
from tests.fakes.indexed import snapshot_at

HIDDEN = frozenset({"closed"})
# The store is asked only for titles and for the spelling of names.
NO_STORE: Connection = SimpleNamespace()


@contextmanager
def fake_store(purged: frozenset[int] = frozenset()) -> Iterator[None]:
    def titles(_: object, rows: Sequence[int]) -> dict[int, str]:
        return {row: "title" for row in rows if row not in purged}

    def passages(_: object, ids: Sequence[int]) -> dict[int, Any]:
        return {id_: SimpleNamespace(heading=(), text=" ".join(NAMES)) for id_ in ids}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection_map, "read_titles", titles)
        patch.setattr(map_answer, "read_titles", titles)
        patch.setattr(collection_map, "read_passages", passages)
        yield


def drawn(snapshot: Snapshot) -> object:
    """A map without the numbers of rows, which depend on the past of an index."""
    made = collection_map.make_map(NO_STORE, snapshot)
    if made is None:
        return None
    paths = [
        (snapshot.index.sources[snapshot.index.documents.source[row]],
         snapshot.index.document_paths[row])
        for row in made.documents.tolist()
    ]  # fmt: skip
    return (
        paths,
        snapshot.passage_ids[made.first_passages].tolist(),
        made.layout.places.tolist(),
        made.layout.groups.tolist(),
        made.layout.centres.tolist(),
        made.starts.tolist(),
        made.ends.tolist(),
        made.is_link.tolist(),
        made.names,
    )


@given(history=histories)
def test_a_map_depends_on_the_documents_and_not_on_their_past(history: Sequence[Step]) -> None:
    found = states(history)
    with fake_store():
        now = snapshot_at(grown(found), len(found))
        assert drawn(now) == drawn(snapshot_at(grown(found[-1:]), 1))


@given(history=histories, version=st.integers(1, 6))
def test_hidden_documents_leave_no_trace_on_a_map(history: Sequence[Step], version: int) -> None:
    found = states(history)
    version = min(version, len(found))
    whole = snapshot_at(grown(found), version)
    alone = snapshot_at(grown([state.without("closed") for state in found]), version)
    with fake_store():
        seen = build_acl_view(whole.version, HIDDEN, 3.0, whole)
        expected = build_acl_view(alone.version, HIDDEN, 3.0, alone)
        assert drawn(seen) == drawn(expected)


def test_purged_documents_are_not_on_a_map_although_the_index_still_has_them() -> None:
    from tests.fakes.histories import Held, State

    documents = {("open", "a.md"): Held((1, 2)), ("open", "b.md"): Held((3,))}
    snapshot = snapshot_at(grown([State(documents)]), 1)
    purged = int(snapshot.index.documents.id[0])
    with fake_store(frozenset({purged})):
        made = collection_map.make_map(NO_STORE, snapshot)
    assert made
    assert snapshot.index.documents.id[made.documents].tolist() == [
        one for one in snapshot.index.documents.id.tolist() if one != purged
    ]


def test_a_map_that_is_kept_is_made_again_once_after_a_purge() -> None:
    from tests.fakes.histories import Held, State

    documents = {("open", "a.md"): Held((1, 2)), ("open", "b.md"): Held((3,))}
    snapshot, maker = snapshot_at(grown([State(documents)]), 1), map_answer.MapMaker()
    with fake_store():
        whole = maker.make(NO_STORE, snapshot)
        assert maker.make(NO_STORE, snapshot) is whole
    with fake_store(frozenset({int(snapshot.index.documents.id[0])})):
        rest = maker.make(NO_STORE, snapshot)
        assert [len(one["documents"]["title"]) for one in (whole, rest)] == [2, 1]
        assert maker.make(NO_STORE, snapshot) is rest


@pytest.mark.parametrize("count", [1, 2, 3, 40, 1500])
def test_no_two_documents_and_no_two_groups_lie_on_each_other(count: int) -> None:
    random = np.random.default_rng(3)
    middles = random.normal(size=(9, 24))
    vectors = middles[random.integers(9, size=count)] + 0.4 * random.normal(size=(count, 24))
    layout = arrange(normalize(vectors.astype(np.float32)))
    apart = np.linalg.norm(layout.places[:, None] - layout.places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert apart.min() > 0.6 * SPACING
    between = np.linalg.norm(layout.centres[:, None] - layout.centres[None], axis=2)
    np.fill_diagonal(between, np.inf)
    assert (between > layout.radii[:, None] + layout.radii[None]).all()
    inside = np.linalg.norm(layout.places - layout.centres[layout.groups], axis=1)
    assert (inside <= layout.radii[layout.groups]).all()


def test_similar_documents_share_a_group() -> None:
    random = np.random.default_rng(5)
    kinds = np.repeat(np.arange(4), 25)
    middles = np.eye(4, 16)
    vectors = middles[kinds] + 0.05 * random.normal(size=(100, 16))
    groups = arrange(normalize(vectors.astype(np.float32))).groups
    for kind in range(4):
        for other in range(kind):
            assert not {*groups[kinds == kind].tolist()} & {*groups[kinds == other].tolist()}


def test_identical_documents_get_separate_places_on_the_map() -> None:
    layout = arrange(normalize(np.ones((50, 4), dtype=np.float32)))
    assert len({tuple(place) for place in layout.places.tolist()}) == 50
