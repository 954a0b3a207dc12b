"""ACL views: the graph without hidden sources, as if it had been built without them.

A visible question whose match is visible keeps it: the best of all is also the best of some. Other
questions are matched again among the visible passages. Links of a passage are resolved again where
a hidden document has the passage or could be meant.

The view of an older version is updated as a commit would do it: only those questions are looked at
that began or ended since, whose match did, or whose match became visible or hidden. Without such a
view, the matches that the index keeps in `acl_view_matches`, of whatever version and sources, save
most of the comparing.
"""

from dataclasses import dataclass, replace

import numpy as np

from hopsyncd.index.arrays import Flags, Floats, Integers, find_sorted, mark_rows, take_flags
from hopsyncd.index.comparison import NO_MATCHES, MatchColumns
from hopsyncd.index.links import find_affected_passages, resolve_links
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.matching import (
    edge_budget,
    find_better_matches,
    find_edge_threshold,
    list_outgoing,
    merge_matches,
    select_matches,
)
from hopsyncd.index.snapshot import UNMATCHED, AclOverlay, RowsByEnd, Snapshot
from hopsyncd.index.statistics import Statistics, Visible, find_differences
from store.records import Version


@dataclass(frozen=True, slots=True, eq=False)
class _Changes:
    """The parts that may differ from an older view; all parts, if there is none.

    passage_rows, documents: the rows that became visible or hidden. questions: the outgoing
    questions whose own match may differ, rising. held: their matches among the rows visible in the
    older view, by rising question. ended: matches of the whole index that ended, by rising
    question.
    """

    passage_rows: Integers
    documents: Integers
    questions: Integers
    held: MatchColumns
    ended: MatchColumns


def build_acl_view(
    index: LiveIndex,
    version: Version,
    hidden: frozenset[str],
    budget_factor: float,
    base: Statistics | None,
    before: Snapshot | None,
) -> Snapshot:
    """Build the view of a version without the content that only hidden sources have.

    `base` are counts of the whole version or of another; `before` is the view of an older version
    without the same sources.
    """
    base = before.statistics if before else base
    statistics = Statistics.count(index, version.id, hidden, base)
    view = Snapshot(index, version, statistics, hidden)
    changes = _find_changes(view, before)
    old = before.overlay if before else None
    rematched, matches, question_similarity = _match(view, changes, old)
    relinked, links, link_rows = _link(view, changes, before)
    overlay = AclOverlay(
        question_similarity,
        rematched,
        matches,
        RowsByEnd.build(
            index.outgoing.passage_row[matches.source_question],
            index.incoming.passage_row[matches.target_question],
        ),
        relinked,
        links,
        link_rows,
    )
    matched = np.flatnonzero(question_similarity > UNMATCHED)
    budget = edge_budget(statistics.passages, budget_factor)
    visible_version = replace(
        version,
        documents=int(np.count_nonzero(statistics.visible.documents)),
        passages=statistics.passages,
        words=statistics.words,
        matches=len(matched),
        edge_budget=budget,
        edge_threshold=find_edge_threshold(
            index.outgoing.id[matched], question_similarity[matched], budget
        ),
        counters={},
    )
    return replace(view, version=visible_version, overlay=overlay)


def _find_changes(view: Snapshot, before: Snapshot | None) -> _Changes:
    index, version, visible = view.index, view.version.id, view.statistics.visible
    old = before.overlay if before else None
    if before is None or old is None:
        passage_rows, held = _find_kept_matches(view)
        questions = np.arange(len(index.outgoing))
        documents = np.flatnonzero(visible.documents)
        return _Changes(passage_rows, documents, questions, held, NO_MATCHES)
    old_visible, old_version = before.statistics.visible, before.version.id
    passage_rows = np.flatnonzero(find_differences(visible.passages, old_visible.passages, False))
    matches = index.matches
    has_begun = (matches.born > old_version) & (matches.born <= version)
    has_ended = (matches.died > old_version) & (matches.died <= version)
    ended = np.flatnonzero(has_ended & ~has_begun)
    leading_there, _ = index.postings.matches_by_target.find_all(passage_rows)
    leading_there = leading_there[leading_there < len(matches)]
    rows = np.concatenate([np.flatnonzero(has_begun), ended, leading_there])
    own_questions = list_outgoing(index, passage_rows)
    return _Changes(
        passage_rows,
        np.flatnonzero(find_differences(visible.documents, old_visible.documents, False)),
        np.union1d(matches.source_question[rows], own_questions).astype(np.int64),
        old.matches,
        MatchColumns.of_rows(matches, ended[np.argsort(matches.source_question[ended])]),
    )


def _find_kept_matches(view: Snapshot) -> tuple[Integers, MatchColumns]:
    """The kept matches of the view that hides the most similar sources, and the passage rows that
    are visible in one of the two views only."""
    index, visible = view.index, view.statistics.visible.passages
    kept = index.acl_view_matches
    if not kept:
        return np.flatnonzero(visible), NO_MATCHES
    nearest = min(kept, key=lambda hidden: len(hidden ^ view.hidden))
    matches = kept[nearest]
    old_visible = Visible.compute(index, matches.version, nearest).passages
    passage_rows = np.flatnonzero(find_differences(visible, old_visible, False))
    held = MatchColumns(matches.source_question, matches.target_question, matches.similarity)
    return passage_rows, held


def _match(
    view: Snapshot, changes: _Changes, old: AclOverlay | None
) -> tuple[Integers, MatchColumns, Floats]:
    """The visible questions whose own match is not visible, their matches in the view, and the
    similarity of the match of each question."""
    index, visible = view.index, view.statistics.visible.passages
    question_similarity = np.full(len(index.outgoing), UNMATCHED)
    rematched = np.empty(0, dtype=np.int64)
    if old is not None:
        question_similarity[: len(old.question_similarity)] = old.question_similarity
        question_similarity[old.rematched] = UNMATCHED
        rematched = np.setdiff1d(old.rematched, changes.questions, assume_unique=True)
    own = _find_own_matches(view, changes.questions)
    question_similarity[changes.questions] = UNMATCHED
    question_similarity[own.source_question] = own.similarity
    passage_rows = index.outgoing.passage_row[changes.questions]
    shown = changes.questions[take_flags(visible, passage_rows)]
    rematched = np.union1d(rematched, shown[question_similarity[shown] == UNMATCHED])
    held = merge_matches(
        select_matches(index, changes.held, rematched, visible),
        select_matches(index, changes.ended, rematched, visible),
    )
    new_rows = changes.passage_rows[take_flags(visible, changes.passage_rows)]
    unmatched = np.setdiff1d(rematched, held.source_question, assume_unique=True)
    found = find_better_matches(index, unmatched, visible, held, new_rows)
    matches = merge_matches(found, held)
    question_similarity[matches.source_question] = matches.similarity
    return rematched, matches, question_similarity


def _find_own_matches(view: Snapshot, questions: Integers) -> MatchColumns:
    """The matches of the whole index of these questions that have two visible ends."""
    index, visible = view.index, view.statistics.visible.passages
    passage_rows = index.outgoing.passage_row[questions]
    passage_rows = passage_rows[take_flags(visible, passage_rows)]  # a writer may be adding others
    distinct = np.flatnonzero(mark_rows(len(visible), passage_rows))  # sorting takes longer
    rows, _ = index.postings.matches_by_source.find_all(distinct)
    matches = view.select_visible_matches(rows)
    return matches.take(find_sorted(questions, matches.source_question)[1])


def _link(
    view: Snapshot, changes: _Changes, before: Snapshot | None
) -> tuple[Integers, RowsByEnd, Integers]:
    """The numbers of the passages whose links may lead elsewhere, their links, and the row of each.

    The links of `before` stay where no document that could affect them was added or removed.
    """
    index, shown = view.index, view.statistics.visible.documents
    version, documents = view.version.id, index.documents
    is_hidden = (documents.born <= version) & (version < documents.died)
    is_hidden[: len(shown)] &= ~shown
    old = before.overlay if before else None
    if before and old:
        is_hidden &= documents.born > before.version.id
    again = find_affected_passages(index, np.flatnonzero(is_hidden))

    def is_visible(documents: Integers) -> Flags:
        return take_flags(shown, documents)

    relinked, kept = again, np.empty((0, 3), dtype=np.int64)
    if old is not None:
        affected = find_affected_passages(index, changes.documents)
        again = np.union1d(again, np.intersect1d(old.relinked, affected))
        if not len(again):
            return old.relinked, old.links, old.link_rows
        relinked = np.union1d(old.relinked, again)
        rows, _ = old.links.by_start.find_all(np.setdiff1d(old.relinked, again))
        links = old.links
        kept = np.stack([links.start[rows], links.end[rows], old.link_rows[rows]], axis=1)
    resolved = np.array(
        [
            (number, target, link_row)
            for number in again.tolist()
            for target, link_row in resolve_links(index, number, is_visible)
        ],
        dtype=np.int64,
    ).reshape(-1, 3)
    rows = np.concatenate([kept, resolved])
    return relinked, RowsByEnd.build(rows[:, 0], rows[:, 1]), rows[:, 2]
