"""Builds ACL views. An ACL view is the graph as it would be without the sources hidden from a
caller.

A view is derived from an older view with the same hidden sources, or from the whole graph. The
match of a question is recomputed if a candidate became visible or hidden. Matches that differ from
the whole graph are kept in an overlay. The links of a passage are resolved again if a hidden
document contains the passage or is a possible target of a link.
"""

from dataclasses import dataclass, replace

import numpy as np

from hopsyncd.index.arrays import (
    Flags,
    Floats,
    Integers,
    find_sorted,
    mark_rows,
    take_flags,
    unite,
)
from hopsyncd.index.comparison import NO_MATCHES, MatchColumns
from hopsyncd.index.edge_selection import (
    WholeGraph,
    compute_edge_budget,
    find_changed_matches,
    find_threshold,
    list_outgoing,
    merge_matches,
)
from hopsyncd.index.links import (
    find_affected_passages,
    find_passages_with_links,
    resolve_links,
)
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.postings import Postings
from hopsyncd.index.snapshot import UNMATCHED, AclOverlay, RowsByEnd, Snapshot
from hopsyncd.index.statistics import Statistics, find_differences
from store.records import Version
from store.visibility import Mask


def build_acl_view(
    version: Version, hidden: Mask, budget_factor: float, base: Snapshot
) -> Snapshot:
    """Build the ACL view of a version, without the content that occurs only in hidden sources.

    `base` is the view of an older version with the same hidden sources, or the whole graph at any
    version. `budget_factor` scales the edge budget.
    """
    statistics = Statistics.count(base.index, version.id, hidden, base.statistics)
    view = Snapshot(base.index, version, statistics, hidden)
    return _complete(view, budget_factor, base, *_match(view, base))


def _complete(
    view: Snapshot,
    budget_factor: float,
    base: Snapshot,
    is_rematched: Flags,
    matches: MatchColumns,
    question_similarity: Floats,
) -> Snapshot:
    """Return the view with these matches, resolved links and visible counts. The parameters from
    `is_rematched` on are the result of `_match`."""
    index, statistics = view.index, view.statistics
    relinked, links, link_rows = _link(view, base)
    overlay = AclOverlay(
        question_similarity,
        is_rematched,
        matches,
        RowsByEnd(
            index.outgoing.passage_row[matches.source_question].astype(np.int64),
            index.incoming.passage_row[matches.target_question].astype(np.int64),
        ),
        relinked,
        links,
        link_rows,
    )
    budget = compute_edge_budget(statistics.passages, budget_factor)
    match_count, edge_threshold = find_threshold(
        question_similarity,
        question_similarity > UNMATCHED,
        lambda questions: index.outgoing.id[questions],
        budget,
        base.version.edge_threshold,
    )
    visible_version = replace(
        view.version,
        documents=int(np.count_nonzero(statistics.visible.documents)),
        passages=statistics.passages,
        words=statistics.words,
        matches=match_count,
        edge_budget=budget,
        edge_threshold=edge_threshold,
        counters={},
    )
    return replace(view, version=visible_version, overlay=overlay)


@dataclass(frozen=True, slots=True, eq=False)
class ViewMatches:
    """The matches of an ACL view that differ from the whole graph, given by question ids.

    They are valid in any index with the same content. `rematched` are the visible outgoing
    questions that have a different match than in the whole graph, or no match. `source`, `target`
    and `similarity` are the columns of the different matches.
    """

    rematched: Integers
    source: Integers
    target: Integers
    similarity: Floats


def list_view_matches(view: Snapshot) -> ViewMatches:
    """Return the matches of an ACL view that differ from the whole graph. `restore_acl_view` uses
    them in another index."""
    assert view.overlay is not None
    matches, outgoing = view.overlay.matches, view.index.outgoing.id
    return ViewMatches(
        outgoing[np.flatnonzero(view.overlay.is_rematched)],
        outgoing[matches.source_question],
        view.index.incoming.id[matches.target_question],
        matches.similarity,
    )


def restore_acl_view(
    version: Version, hidden: Mask, budget_factor: float, head: Snapshot, kept: ViewMatches
) -> Snapshot | None:
    """Rebuild an ACL view from the matches `kept` by `list_view_matches`, possibly in another
    index. `head` is the whole graph.

    Returns None if the index of `head` lacks a question in `kept`.
    """
    index = head.index
    statistics = Statistics.count(index, version.id, hidden, head.statistics)
    view = Snapshot(index, version, statistics, hidden)
    outgoing, incoming = index.postings.outgoing_by_id, index.postings.incoming_by_id
    rematched = _find_questions(outgoing, kept.rematched)
    sources, targets = (
        _find_questions(outgoing, kept.source),
        _find_questions(incoming, kept.target),
    )
    if rematched is None or sources is None or targets is None:
        return None
    matches = MatchColumns(sources, targets, kept.similarity).take(np.argsort(sources))
    is_rematched = mark_rows(len(index.outgoing), rematched)
    question_similarity = np.full(len(index.outgoing), UNMATCHED)
    view_matches = view.list_matches()
    question_similarity[view_matches.source_question] = view_matches.similarity
    question_similarity[rematched] = UNMATCHED
    question_similarity[matches.source_question] = matches.similarity
    return _complete(view, budget_factor, head, is_rematched, matches, question_similarity)


def _find_questions(questions: Postings, ids: Integers) -> Integers | None:
    """Return the row of each question id, or None if a question is missing."""
    order = np.argsort(ids)  # ascending ids are found several times as fast
    found, _ = questions.find_all(ids[order])
    if len(found) != len(ids):
        return None
    rows = np.empty_like(found)
    rows[order] = found
    return rows


def _match(view: Snapshot, base: Snapshot) -> tuple[Flags, MatchColumns, Floats]:
    """Find the visible outgoing questions whose match differs from the whole graph.

    Returns a flag for each outgoing question (whether its match differs), the different matches,
    and the similarity of each outgoing question's match in the view.
    """
    index = view.index
    before, after = base.statistics.visible.passages, view.statistics.visible.passages
    changed_rows = np.flatnonzero(find_differences(after, before, False))
    whole = None
    if base.overlay is not None:  # A view has other matches than the whole graph.
        whole = WholeGraph(list_vertices(index, view.version.id), view)
    questions, found = find_changed_matches(index, before, after, changed_rows, base, whole)
    question_similarity = np.full(len(index.outgoing), UNMATCHED)
    is_rematched, old_matches = mark_rows(len(index.outgoing)), NO_MATCHES
    if base.overlay is None:
        view_matches = view.list_matches()
        question_similarity[view_matches.source_question] = view_matches.similarity
    else:
        old, old_matches = base.overlay, base.overlay.matches
        question_similarity[: len(old.question_similarity)] = old.question_similarity
        is_rematched[: len(old.is_rematched)] = old.is_rematched
    changed_questions = list_outgoing(index, changed_rows)
    question_similarity[changed_questions], is_rematched[changed_questions] = UNMATCHED, False
    looked_at = unite(questions, _list_whole_graph_changes(view, base))
    looked_at = looked_at[take_flags(after, index.outgoing.passage_row[looked_at])]
    unchanged = base.find_matches_of(np.setdiff1d(looked_at, questions, assume_unique=True))
    matches = merge_matches(found, unchanged)
    question_similarity[looked_at] = UNMATCHED
    question_similarity[matches.source_question] = matches.similarity
    is_rematched[looked_at] = False
    old_matches = old_matches.take(is_rematched[old_matches.source_question])
    is_same = _is_among(matches, view.find_matches_of(looked_at))
    is_rematched[looked_at] = True
    is_rematched[matches.source_question[is_same]] = False
    return is_rematched, merge_matches(old_matches, matches.take(~is_same)), question_similarity


def list_vertices(index: LiveIndex, version: int) -> Flags:
    """Return a flag for each passage row: whether the passage is a vertex of the whole graph at a
    version."""
    intervals = index.passage_intervals
    in_force = (intervals.born <= version) & (version < intervals.died)
    return mark_rows(len(index.passages), intervals.passage_row[in_force])


def _is_among(matches: MatchColumns, others: MatchColumns) -> Flags:
    """Return a flag for each of the `matches`: whether it is also in `others`. Both must be sorted
    by outgoing question."""
    positions, is_same = find_sorted(others.source_question, matches.source_question)
    targets = others.target_question[positions[is_same]]
    is_same[is_same] = targets == matches.target_question[is_same]
    return is_same


def _list_whole_graph_changes(view: Snapshot, base: Snapshot) -> Integers:
    """Return the outgoing questions whose match in the whole graph may differ between the versions
    of two views."""
    matches = view.index.matches
    first, last = sorted((base.version.id, view.version.id))
    has_begun = (matches.born > first) & (matches.born <= last)
    has_ended = (matches.died > first) & (matches.died <= last)
    return matches.source_question[has_begun | has_ended].astype(np.int64)


def _link(view: Snapshot, base: Snapshot) -> tuple[Integers, RowsByEnd, Integers]:
    """Resolve the links whose target in the view may differ from the whole graph.

    Returns the numbers of the passages with these links, the resolved links between passages, and
    the row of each link. Resolved links of an older view are kept, unless a document that could
    affect them was added or removed. All links of a new document are resolved if one of them may
    lead to a hidden document.
    """
    index, shown = view.index, view.statistics.visible.documents
    version, documents = view.version.id, index.documents
    is_hidden = (documents.born <= version) & (version < documents.died)
    is_hidden[: len(shown)] &= ~shown
    old = base.overlay
    is_new = is_hidden if old is None else is_hidden & (documents.born > base.version.id)
    again = find_affected_passages(index, np.flatnonzero(is_new))

    def is_visible(documents: Integers) -> Flags:
        return take_flags(shown, documents)

    relinked, old_links = again, np.empty((0, 3), dtype=np.int64)
    if old is not None:
        changed = find_differences(shown, base.statistics.visible.documents, False)
        affected = find_affected_passages(index, np.flatnonzero(changed))
        again = unite(again, np.intersect1d(old.relinked, affected))
        again = unite(again, find_passages_with_links(index, np.flatnonzero(changed), is_hidden))
        if not len(again):
            return old.relinked, old.links, old.link_rows
        relinked = unite(old.relinked, again)
        rows = old.links.find_by_start(np.setdiff1d(old.relinked, again))
        links = old.links
        old_links = np.stack([links.start[rows], links.end[rows], old.link_rows[rows]], axis=1)
    resolved = np.array(
        [
            (number, target, link_row)
            for number in again.tolist()
            for target, link_row in resolve_links(index, number, is_visible)
        ],
        dtype=np.int64,
    ).reshape(-1, 3)
    rows = np.concatenate([old_links, resolved])
    return relinked, RowsByEnd(rows[:, 0], rows[:, 1]), rows[:, 2]
