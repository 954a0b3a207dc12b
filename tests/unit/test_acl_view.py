"""ACL views equal the graph that is built without the hidden sources, also when updated."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.index import comparison
from hopsyncd.index.acl_view import build_acl_view, list_view_matches, restore_acl_view
from hopsyncd.index.arrays import AnyIntegers, Integers
from hopsyncd.index.comparison import MAX_CANDIDATES
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.postings import Postings
from hopsyncd.index.snapshot import Snapshot
from tests.fakes.dump import served_by
from tests.fakes.histories import Step, grown, histories, states
from tests.fakes.indexed import advance, document, snapshot_at
from tests.fakes.triplets import triplets

HIDDEN = frozenset({"closed"})


def without(
    index: LiveIndex,
    version: int,
    factor: float = 3.0,
    before: Snapshot | None = None,
    hidden: frozenset[str] = HIDDEN,
) -> Snapshot:
    whole = snapshot_at(index, version)
    return build_acl_view(whole.version, hidden, factor, before or whole)


def counted(graph: Snapshot) -> dict[str, Any]:
    """What is served, with the counts of the version."""
    at = graph.version
    counts = (at.documents, at.passages, at.words, at.matches, at.edge_budget, at.edge_threshold)
    return {**served_by(graph), "version": counts}


@given(
    history=histories,
    factor=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    most=st.sampled_from([1, 2, MAX_CANDIDATES]),
)
def test_a_view_equals_the_graph_built_without_the_sources(
    history: Sequence[Step], factor: float, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MAX_CANDIDATES", most)
        found = states(history)
        both = grown(found)
        alone = grown([state.without("closed") for state in found])
        for version in range(1, len(found) + 1):
            seen, expected = without(both, version, factor), without(alone, version, factor)
            assert counted(seen) == counted(expected)
            built = snapshot_at(alone, version)
            assert served_by(replace(expected, version=built.version)) == served_by(built)


@given(
    history=histories,
    kept=st.lists(st.booleans(), min_size=6, max_size=6),
    most=st.sampled_from([1, 2, MAX_CANDIDATES]),
)
def test_a_view_updated_from_an_older_version_is_the_same(
    history: Sequence[Step], kept: list[bool], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MAX_CANDIDATES", most)
        index = grown(states(history))
        before: Snapshot | None = None
        for version, keep in zip(range(1, len(history) + 1), kept, strict=False):
            afresh = without(index, version)
            carried = without(index, version, before=before)
            assert counted(carried) == counted(afresh)
            before = carried if keep else before


@given(
    history=histories,
    version=st.integers(1, 6),
    base=st.integers(1, 6),
    most=st.sampled_from([1, 2, MAX_CANDIDATES]),
)
def test_a_view_from_the_whole_graph_of_any_version_is_the_same(
    history: Sequence[Step], version: int, base: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MAX_CANDIDATES", most)
        index, last = grown(states(history)), len(history)
        whole = snapshot_at(index, min(version, last))
        other = snapshot_at(index, min(base, last))
        afresh = without(index, min(version, last))
        assert counted(build_acl_view(whole.version, HIDDEN, 3.0, other)) == counted(afresh)


@given(
    history=histories,
    version=st.integers(1, 6),
    factor=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    most=st.sampled_from([1, 2, MAX_CANDIDATES]),
)
def test_a_view_restored_in_another_index_is_the_same(
    history: Sequence[Step], version: int, factor: float, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "MAX_CANDIDATES", most)
        found = states(history)
        view = without(grown(found), min(version, len(found)), factor)
        other = grown(found, is_backward=True)
        head, at = snapshot_at(other, len(found)), snapshot_at(other, min(version, len(found)))
        kept = list_view_matches(view)
        restored = restore_acl_view(at.version, HIDDEN, factor, head, kept)
        assert restored is not None
        afresh = without(other, at.version.id, factor)
        assert counted(restored) == counted(afresh)
        later = without(other, len(found), factor)
        assert counted(without(other, len(found), factor, restored)) == counted(later)


def test_questions_of_a_restored_view_are_looked_up_in_ascending_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many random ids, as saved, take several times as long."""
    index, find_all, looked_up = LiveIndex(2), Postings.find_all, list[list[int]]()
    asking = [triplets(number, outgoing=[("rome", (1.0, 0.0))]) for number in range(1, 9)]
    best, shown = (
        triplets(number, incoming=[("rome", (1.0, -distance))])
        for number, distance in ((9, 0.0), (10, 1.0))
    )
    papers = [
        document(number, f"{number}.md", [number], source="closed" if number == 9 else "open")
        for number in range(1, 11)
    ]
    advance(index, 1, [*asking, best, shown], documents=papers)
    view, head = without(index, 1), snapshot_at(index, 1)

    def note(
        self: Postings, keys: AnyIntegers, limit: int | None = None
    ) -> tuple[Integers, Integers]:
        if self is index.postings.outgoing_by_id:
            looked_up.append(keys.tolist())
        return find_all(self, keys, limit)

    kept = list_view_matches(view)
    monkeypatch.setattr(Postings, "find_all", note)
    restored = restore_acl_view(head.version, HIDDEN, 3.0, head, kept)
    monkeypatch.undo()
    assert [len(ids) for ids in looked_up] == [8, 8]
    assert looked_up == [sorted(ids) for ids in looked_up]
    assert kept.source.tolist() != sorted(kept.source.tolist())
    assert restored is not None
    assert counted(restored) == counted(view)


def test_a_new_link_to_an_older_hidden_document_is_resolved_without_it() -> None:
    """In the whole graph "rome" is ambiguous, in the view it is not."""
    first, second, third = (triplets(number) for number in (1, 2, 3))
    index = LiveIndex(2)
    papers = [
        document(1, "a.md", [1], source="open", names=("Rome",)),
        document(2, "b.md", [2], source="closed", names=("Rome",)),
    ]
    advance(index, 1, [first, second], documents=papers)
    before = without(index, 1)
    linking = document(3, "c.md", [3], source="letters", links={3: ["Rome"]})
    advance(index, 2, [third], documents=[linking])
    assert served_by(snapshot_at(index, 2))["links"] == []
    afresh = without(index, 2)
    assert served_by(afresh)["links"] == [(1, 3, "Rome", True), (3, 1, "Rome", False)]
    assert counted(without(index, 2, before=before)) == counted(afresh)


def test_a_view_is_not_restored_in_an_index_that_lacks_a_question() -> None:
    asker = triplets(1, outgoing=[("rome", (1.0, 0.0))])
    closed, shown = (
        triplets(number, incoming=[("rome", vector)])
        for number, vector in ((2, (1.0, 0.0)), (3, (0.0, 1.0)))
    )
    index, other = LiveIndex(2), LiveIndex(2)
    papers = [
        document(1, "a.md", [1, 3], source="open"),
        document(2, "b.md", [2], source="closed"),
    ]
    advance(index, 1, [asker, closed, shown], documents=papers)
    advance(other, 1, [closed, shown], documents=papers)
    kept, head = list_view_matches(without(index, 1)), snapshot_at(other, 1)
    assert restore_acl_view(head.version, HIDDEN, 3.0, head, kept) is None


def test_a_new_passage_replaces_a_worse_match_of_a_view() -> None:
    """A asks; a hidden passage answers best, B worse. C comes and answers better than B."""
    index = LiveIndex(2)
    asker = triplets(1, outgoing=[("rome", (1.0, 0.0))])
    best, worse, better = (
        triplets(number, incoming=[("rome", vector)])
        for number, vector in ((2, (1.0, 0.0)), (3, (0.0, 1.0)), (4, (1.0, 1.0)))
    )
    advance(
        index,
        1,
        [asker, best, worse],
        documents=[
            document(1, "a.md", [1], source="open"),
            document(2, "best.md", [2], source="closed"),
            document(3, "worse.md", [3], source="open"),
        ],
    )
    before = without(index, 1)
    advance(index, 2, [better], documents=[document(4, "c.md", [4], source="open")])
    carried, afresh = without(index, 2, before=before), without(index, 2)
    for seen, passage in ((before, 3), (carried, 4), (afresh, 4)):
        matches = seen.list_matches()
        out, into = matches.source_question, matches.target_question
        matched = index.incoming.passage_row[into]
        assert (len(out), seen.passage_ids[matched].tolist()) == (1, [passage])
    assert counted(carried) == counted(afresh)


def test_a_view_counts_matches_that_are_less_similar_than_nothing() -> None:
    """Most keywords differ, and the vectors point in opposite directions."""
    index = LiveIndex(2)
    asker = triplets(1, outgoing=[("rome oslo turin", (1.0, 0.0))])
    shown = triplets(2, incoming=[("rome bonn cairo", (-1.0, 0.0))])
    closed = triplets(3, incoming=[("rome bonn cairo", (1.0, 0.0))])
    papers = [
        document(1, "a.md", [1], source="open"),
        document(2, "b.md", [2], source="open"),
        document(3, "c.md", [3], source="closed"),
    ]
    advance(index, 1, [asker, shown, closed], documents=papers)
    view = without(index, 1)
    assert view.list_matches().similarity.tolist() == [-0.4]
    assert view.version.matches == 1


def test_a_view_of_the_next_version_indexes_no_match_of_the_older_view() -> None:
    """A query indexes the matches by their ends; most views are replaced before."""
    index = LiveIndex(2)
    asker = triplets(1, outgoing=[("rome", (1.0, 0.0))])
    answering = [triplets(number, incoming=[("rome", (1.0, -number))]) for number in range(2, 5)]
    papers = [
        document(number, f"{number}.md", [number], source="closed" if number == 2 else "open")
        for number in range(1, 5)
    ]
    advance(index, 1, [asker, *answering[:2]], documents=papers[:3])
    first = without(index, 1)
    advance(index, 2, answering[2:], documents=papers[3:], ended=[3])
    second = without(index, 2, before=first)
    for view in (first, second):
        assert view.overlay is not None
        assert not view.overlay.match_ends._postings
    assert counted(second) == counted(without(index, 2))
    assert len(second.find_edges(np.array([0])).start) == 1
    assert second.overlay is not None
    assert second.overlay.match_ends._postings


def test_a_question_in_a_view_has_no_match_if_its_only_answer_ends() -> None:
    """A asks; a hidden passage answers best, B is the only other. Then B ends."""
    index = LiveIndex(2)
    asker = triplets(1, outgoing=[("rome", (1.0, 0.0))])
    best, other = (
        triplets(number, incoming=[("rome", vector)])
        for number, vector in ((2, (1.0, 0.0)), (3, (0.0, 1.0)))
    )
    advance(
        index,
        1,
        [asker, best, other],
        documents=[
            document(1, "a.md", [1], source="open"),
            document(2, "best.md", [2], source="closed"),
            document(3, "b.md", [3], source="open"),
        ],
    )
    before = without(index, 1)
    assert before.version.matches == 1
    advance(index, 2, ended=[3], documents_ended=[3])
    updated, afresh = without(index, 2, before=before), without(index, 2)
    assert updated.version.matches == afresh.version.matches == 0
    assert counted(updated) == counted(afresh)


def test_links_of_a_view_are_resolved_again_when_a_visible_document_changes() -> None:
    """A link to `Ada` is ambiguous in the whole index, but not in a view without one of the two;
    then a second visible document is called Ada too, and goes again."""
    index = LiveIndex(2)
    passages = [triplets(number) for number in range(1, 5)]
    note = document(1, "note.md", [1], source="open", links={1: ["Ada"]})
    advance(
        index,
        1,
        passages[:3],
        documents=[
            note,
            document(2, "people/x.md", [2], source="open", names=("Ada",)),
            document(3, "people/y.md", [3], source="closed", names=("Ada",)),
        ],
    )
    views = [without(index, 1)]
    advance(
        index,
        2,
        passages[3:],
        documents=[document(4, "people/z.md", [4], source="open", names=("Ada",))],
    )
    views.append(without(index, 2, before=views[-1]))
    advance(index, 3, documents_ended=[4], ended=[4])
    views.append(without(index, 3, before=views[-1]))
    for version, view in enumerate(views, 1):
        links = view.find_links_from(view.passage_rows)
        targets = view.passage_ids[links.end].tolist()
        assert targets == ([] if version == 2 else [2])
        assert counted(view) == counted(without(index, version))
