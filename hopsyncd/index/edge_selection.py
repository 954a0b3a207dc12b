"""Updates matches incrementally. This is the edge merging of HopRAG, section 3.2.

Every outgoing question is matched with its most similar candidate under Eq. 1. If several
candidates are equally similar, the candidate with the lowest id is the match. Candidates are
incoming questions of other passages that share a keyword with the question
(`hopsyncd.index.comparison`). After a change, these comparisons are sufficient:

- outgoing questions that are new, or whose match is no longer a candidate, with all candidates;
- other questions that share a keyword with new candidates, with the new candidates.

Example: passage A asks a1, and B answers b1. Both questions are about Rome, so a1 is matched with
b1. Then passage C is added, which answers c1 about Rome. The match of a1 stays b1 unless c1 is more
similar. When C is removed, only the questions matched with c1 get a new match.

If passages are added in several parts, only the questions of each part are matched at once
(`match_part`). The questions of other passages are compared with all parts together at the
end (`update_matches`), because most of the time for these comparisons is spent on reading vectors.
"""

import math
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import (
    NO_ROWS,
    AnyIntegers,
    Flags,
    Floats,
    Integers,
    expand_ranges,
    find_sorted,
    mark_rows,
    sort_distinct,
    take_flags,
    unite,
)
from hopsyncd.index.comparison import (
    HALF_COSINE,
    NO_MATCHES,
    MatchColumns,
    QuestionsByKeyword,
    choose_best,
    compute_half_jaccard,
    concatenate_matches,
    find_candidate_changes,
    find_candidates,
    group_by_keyword,
    list_asking_questions,
    select_affected,
    select_better,
)
from hopsyncd.index.live_index import IN_FORCE, LiveIndex
from hopsyncd.index.throttle import yielding_to_queries
from store.records import EdgeThreshold, Match, QuestionId

_FEW_MATCHES = 10_000
_NEAR = 0.002  # an edit moves the edge threshold by much less than this similarity
_MOST_DEFERRED = 2048  # passages that wait for the comparison of earlier questions with them
PAUSE_FACTOR = 1.0  # pause of matching while queries run, as a multiple of the time it has just run


def compute_jaccard(a: Set[str], b: Set[str]) -> float:
    """Return the number of shared keywords divided by the number of all keywords, or 0 if both sets
    are empty.

    >>> compute_jaccard({"rome", "italy"}, {"rome"})
    0.5
    >>> compute_jaccard(set(), set())
    0.0
    """
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def compute_similarity(
    keywords_a: Set[str],
    vector_a: NDArray[np.integer],
    keywords_b: Set[str],
    vector_b: NDArray[np.integer],
) -> float:
    """Compute Eq. 1: SIM(a, b) = (|ka & kb| / |ka | kb| + cos(va, vb)) / 2.

    The vectors have d components on the grid of store.records. The cosine is the exact integer dot
    product divided by GRID squared, so it is bit-identical on every machine. It differs from the
    cosine of the unrounded vectors by at most about 1e-4.

    >>> v = np.array([4000, 0])
    >>> compute_similarity({"rome", "italy"}, v, {"rome"}, v)
    0.75
    """
    dot = int(np.dot(vector_a.astype(np.int64), vector_b.astype(np.int64)))
    return compute_jaccard(keywords_a, keywords_b) / 2 + dot * HALF_COSINE


def list_outgoing(index: LiveIndex, passage_rows: AnyIntegers) -> Integers:
    passages = index.passages
    starts, ends = passages.outgoing_start[passage_rows], passages.outgoing_end[passage_rows]
    return expand_ranges(starts, ends)[0]


def list_incoming(index: LiveIndex, passage_rows: AnyIntegers) -> Integers:
    passages = index.passages
    starts, ends = passages.incoming_start[passage_rows], passages.incoming_end[passage_rows]
    return expand_ranges(starts, ends)[0]


@dataclass(frozen=True, slots=True, eq=False)
class MatchDelta:
    """The changes of matches in a version: the outgoing questions whose match ends, and the matches
    that begin. A question whose match changes is in both."""

    ended: Integers
    begun: MatchColumns


class MatchLookup(Protocol):
    """Finds the matches that a graph had before an update of its matches."""

    def find_matches_of(self, questions: Integers) -> MatchColumns:
        """Return the matches of these outgoing questions, ordered by question. Questions without a
        match are left out."""

    def find_matches_to(self, passage_rows: Integers) -> MatchColumns:
        """Return the matches whose incoming question belongs to one of these passage rows. The rows
        must be ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class _HeadMatches:
    """Finds the matches of the index at the head, including pending changes."""

    index: LiveIndex

    def find_matches_of(self, questions: Integers) -> MatchColumns:
        rows = self.index.outgoing.match_row[questions]
        return MatchColumns.from_rows(self.index.matches, rows[rows >= 0])

    def find_matches_to(self, passage_rows: Integers) -> MatchColumns:
        rows, _ = self.index.postings.matches_by_target.find_all(passage_rows)
        rows = np.concatenate([rows, self.index.find_pending_matches(passage_rows)])
        matches = self.index.matches
        return MatchColumns.from_rows(matches, rows[matches.died[rows] == IN_FORCE])


@dataclass(frozen=True, slots=True, eq=False)
class WholeGraph:
    """A larger graph that contains the graph being updated. Most matches are the same in both.

    `passages` has a flag for each passage row: whether it is in the larger graph. `shared_matches`
    finds the larger graph's matches whose two ends are also in the smaller graph.
    """

    passages: Flags
    shared_matches: MatchLookup


def find_changed_matches(
    index: LiveIndex,
    before: Flags,
    after: Flags,
    changed_rows: Integers,
    held: MatchLookup,
    whole: WholeGraph | None = None,
    matched: Integers = NO_ROWS,
) -> tuple[Integers, MatchColumns]:
    """Return the outgoing questions whose match may change when passages enter or leave a graph,
    and the new matches of these questions.

    Both results are ordered by question. `before` and `after` have a flag for each passage row:
    whether it is in the graph. `changed_rows` are the rows that differ. `held` finds the matches
    before the change. If a `whole` graph is given, fewer questions are compared. `matched` are
    questions of passages that enter, if they need only be compared with the new candidates. They
    must be ascending.
    """
    incoming, outgoing = index.incoming, index.outgoing
    names, changed = group_by_keyword(index, incoming, list_incoming(index, changed_rows))
    shared = min(len(before), len(after))  # rows past `shared` were added or removed
    names = select_affected(index, names, changed, before[:shared] & after[:shared])
    removed, added = find_candidate_changes(index, names, before, after)
    gone_questions = sort_distinct(removed.questions)
    orphaned = held.find_matches_to(
        sort_distinct(incoming.passage_row[gone_questions].astype(np.int64))
    )
    orphaned = orphaned.take(find_sorted(gone_questions, orphaned.target_question)[1])
    entered = changed_rows[take_flags(after, changed_rows)]
    unmatched = list_outgoing(index, entered)
    unmatched = unmatched[~find_sorted(matched, unmatched)[1]]
    questions = unite(orphaned.source_question, unmatched)
    questions = questions[take_flags(after, outgoing.passage_row[questions])]
    best = find_best_matches(index, questions, after, whole)
    groups = sort_distinct(added.groups)
    asking = list_asking_questions(index, names[groups], after)
    asking = asking.take(~find_sorted(questions, asking.questions)[1])
    held_matches = held.find_matches_of(sort_distinct(asking.questions))
    added = QuestionsByKeyword(added.questions, np.searchsorted(groups, added.groups))
    if whole is None:
        better = choose_best(index, asking, added, held_matches)
    else:
        better = _find_better_matches(index, asking, added, names[groups], held_matches, whole)
    questions = unite(questions, better.source_question)
    return questions, merge_matches(best, better)


def _find_better_matches(
    index: LiveIndex,
    asking: QuestionsByKeyword,
    added: QuestionsByKeyword,
    names: Integers,
    held: MatchColumns,
    whole: WholeGraph,
) -> MatchColumns:
    """Return the best matches among the added candidates, as `choose_best` does.

    If a question's match in the whole graph is also in this graph, no candidate in both graphs is
    better. So candidates in both graphs are not compared.
    """
    others = sort_distinct(asking.questions)
    whole_matches = whole.shared_matches.find_matches_of(others)
    is_own = find_sorted(whole_matches.source_question, asking.questions)[1]
    better = choose_best(index, asking.take(~is_own), added, held)
    (theirs,) = find_candidates(index, names, [whole.passages])
    own_better = select_better(index, whole_matches, held)
    reached = replace_sources(held, own_better)
    best = choose_best(index, asking.take(is_own), added.subtract(theirs), reached)
    return merge_matches(better, replace_sources(own_better, best))


def find_best_matches(
    index: LiveIndex, questions: Integers, passages: Flags, whole: WholeGraph | None = None
) -> MatchColumns:
    """Return the best match of each outgoing question among the incoming questions of the flagged
    passages.

    Questions without a match are left out. If a question's match in the `whole` graph is also in
    this graph, the candidates of the whole graph are not compared again.
    """
    whole_matches = NO_MATCHES
    if whole is not None:
        whole_matches = whole.shared_matches.find_matches_of(questions)
        questions = questions[~find_sorted(whole_matches.source_question, questions)[1]]
    names, asking = group_by_keyword(index, index.outgoing, questions)
    (candidates,) = find_candidates(index, names, [passages])
    best = choose_best(index, asking, candidates)
    if whole is None:
        return best
    names, asking = group_by_keyword(index, index.outgoing, whole_matches.source_question)
    mine, theirs = find_candidates(index, names, [passages, whole.passages])
    better = choose_best(index, asking, mine.subtract(theirs), whole_matches)
    return merge_matches(best, replace_sources(whole_matches, better))


def count_matches(index: LiveIndex, passages: Flags) -> int:
    """Return the number of outgoing questions of the flagged passages that have a match among these
    passages."""
    questions = list_outgoing(index, np.flatnonzero(passages))
    names, asking = group_by_keyword(index, index.outgoing, questions)
    (candidates,) = find_candidates(index, names, [passages])
    rows = index.incoming.passage_row[candidates.questions]
    first, last = np.full(len(names), len(passages)), np.full(len(names), -1)
    np.minimum.at(first, candidates.groups, rows)
    np.maximum.at(last, candidates.groups, rows)
    asking_passages = index.outgoing.passage_row[asking.questions]
    first, last = first[asking.groups], last[asking.groups]
    has_other = (last >= 0) & ((first != asking_passages) | (last != asking_passages))
    return len(sort_distinct(asking.questions[has_other]))


def match_part(index: LiveIndex, new_rows: Integers, deferred_rows: Integers) -> Integers:
    """Match the outgoing questions of the passages in `new_rows`, which were just added.

    The questions of earlier passages are not compared with the new passages before many passages
    wait for this. Returns the rows that wait, for the next call or for `update_matches`.
    `deferred_rows` are the rows that the last call returned.
    """
    if len(deferred_rows) >= _MOST_DEFERRED:
        update_matches(index, NO_ROWS, new_rows, deferred_rows)
        return NO_ROWS
    questions = list_outgoing(index, new_rows)
    with yielding_to_queries(PAUSE_FACTOR):
        best = find_best_matches(index, questions, index.is_vertex)
    replace_matches(index, questions, best)
    return np.concatenate([deferred_rows, new_rows])


def update_matches(
    index: LiveIndex,
    ended_rows: Integers,
    new_rows: Integers,
    deferred_rows: Integers = NO_ROWS,
) -> None:
    """Update the matches at the head after the passages in `ended_rows` were ended, and the
    passages in `new_rows` and `deferred_rows` were added.

    `deferred_rows` are the rows that `match_part` returned.
    """
    after = index.is_vertex
    before = after.copy()
    before[ended_rows], before[new_rows], before[deferred_rows] = True, False, False
    changed = unite(ended_rows, new_rows, deferred_rows)
    with yielding_to_queries(PAUSE_FACTOR):
        matched = np.sort(list_outgoing(index, deferred_rows))
        matched = _select_valid(index, matched, ended_rows, after)
        held = _HeadMatches(index)
        questions, best = find_changed_matches(index, before, after, changed, held, matched=matched)
    replace_matches(index, unite(questions, list_outgoing(index, ended_rows)), best)


def _select_valid(
    index: LiveIndex, questions: Integers, ended_rows: Integers, after: Flags
) -> Integers:
    """Select the outgoing questions that need only be compared with the candidates that passages
    added. Their match must still be a candidate, and they must share no keyword with an ended
    passage, because other candidates could have taken the place of its questions.

    `questions` were matched before other passages were added, and before those in `ended_rows` were
    ended.
    """
    if not len(questions):
        return questions
    names, asking = group_by_keyword(index, index.outgoing, questions)
    (candidates,) = find_candidates(index, names, [after])
    matches = _HeadMatches(index).find_matches_of(questions)
    width = len(index.incoming)
    positions, has_match = find_sorted(matches.source_question, asking.questions)
    pairs = asking.groups[has_match] * width + matches.target_question[positions[has_match]]
    is_candidate = np.isin(pairs, candidates.groups * width + candidates.questions)
    kept = sort_distinct(asking.questions[has_match][is_candidate])
    is_valid = ~find_sorted(matches.source_question, questions)[1] | find_sorted(kept, questions)[1]
    ended_names, _ = group_by_keyword(index, index.incoming, list_incoming(index, ended_rows))
    touched = asking.questions[find_sorted(ended_names, names)[1][asking.groups]]
    return questions[is_valid & ~find_sorted(sort_distinct(touched), questions)[1]]


def merge_matches(first: MatchColumns, second: MatchColumns) -> MatchColumns:
    """Merge the matches of two disjoint sets of questions. The result is ordered by question."""
    merged = concatenate_matches([first, second])
    return merged.take(np.argsort(merged.source_question, kind="stable"))


def replace_sources(matches: MatchColumns, better: MatchColumns) -> MatchColumns:
    """Return `matches` with the matches in `better`, which replace matches of the same questions.

    Both parameters must be ordered by question.
    """
    is_replaced = find_sorted(better.source_question, matches.source_question)[1]
    return merge_matches(matches.take(~is_replaced), better)


def replace_matches(index: LiveIndex, questions: Integers, best: MatchColumns) -> None:
    """Make `best` the matches of these questions at the head. Questions without a match in `best`
    lose their match.

    Matches that are already in force are kept.
    """
    match_row = index.outgoing.match_row
    rows = match_row[best.source_question]
    is_same = rows >= 0
    held, new = MatchColumns.from_rows(index.matches, rows[is_same]), best.take(is_same)
    is_same[is_same] = (held.target_question == new.target_question) & (
        held.similarity == new.similarity
    )
    stays = mark_rows(len(match_row), best.source_question[is_same])
    index.end_matches(questions[(match_row[questions] >= 0) & ~stays[questions]])
    new = best.take(~is_same)
    index.begin_matches(new.source_question, new.target_question, new.similarity)


def has_matches_without_keyword(index: LiveIndex) -> bool:
    """Whether the head has matches between questions that share no keyword, as in older databases.

    Only the first matches are checked. In older databases, about half of the matches share no
    keyword.
    """
    matches = index.matches
    rows = np.flatnonzero(matches.died == IN_FORCE)[:_FEW_MATCHES]
    first_matches = MatchColumns.from_rows(matches, rows)
    halves = compute_half_jaccard(
        index, first_matches.source_question, first_matches.target_question
    )
    return not halves.all()


def list_pending_matches(index: LiveIndex) -> MatchDelta:
    """Return the matches that began or ended since the last version and are not committed yet."""
    begun, ended = index.collect_pending_matches()
    questions = index.matches.source_question[ended].astype(np.int64)
    return MatchDelta(sort_distinct(questions), MatchColumns.from_rows(index.matches, begun))


def make_match_records(index: LiveIndex, matches: MatchColumns) -> list[Match]:
    columns = (
        index.outgoing.id[matches.source_question].tolist(),
        index.incoming.id[matches.target_question].tolist(),
        matches.similarity.tolist(),
    )
    return [
        Match(QuestionId(source), QuestionId(target), similarity)
        for source, target, similarity in zip(*columns, strict=True)
    ]


def compute_edge_budget(passages: int, factor: float) -> int:
    """Return the maximum number of edges of a graph with n = `passages` passages.

    The maximum is factor * n * log(n), as in HopRAG, section 3.2.

    >>> compute_edge_budget(994, 1.0)
    6860
    """
    return math.floor(factor * passages * math.log(passages)) if passages > 1 else 0


def find_head_threshold(
    index: LiveIndex, budget: int, near: EdgeThreshold | None
) -> tuple[int, EdgeThreshold | None]:
    """Return the number of matches at the head, and the last match within the budget, or None if
    all matches are within the budget.

    `near` may be the threshold of another version. If few matches lie between the two thresholds,
    only these matches are sorted.
    """
    matches, ids = index.matches, index.outgoing.id
    is_current = matches.died == IN_FORCE

    def list_ids(rows: Integers) -> Integers:
        return ids[matches.source_question[rows]]

    return find_threshold(matches.similarity, is_current, list_ids, budget, near)


def find_threshold(
    similarity: Floats,
    is_match: Flags,
    list_ids: Callable[[Integers], Integers],
    budget: int,
    near: EdgeThreshold | None,
) -> tuple[int, EdgeThreshold | None]:
    """Return the number of matches with the flag `is_match`, and the last of these matches within
    the budget, or None if all are within the budget.

    `list_ids` returns the ids of the outgoing questions of some rows. `near` is as for
    `find_head_threshold`.
    """
    count = int(np.count_nonzero(is_match))
    if near is not None and budget < count:
        low, high = near.similarity - _NEAR, near.similarity + _NEAR
        above = int(np.count_nonzero(is_match & (similarity > high)))
        rows = np.flatnonzero(is_match & (similarity >= low) & (similarity <= high))
        if above < budget < above + len(rows):
            return count, find_edge_threshold(list_ids(rows), similarity[rows], budget - above)
    rows = np.flatnonzero(is_match)
    return count, find_edge_threshold(list_ids(rows), similarity[rows], budget)


def find_edge_threshold(
    question_ids: Integers, similarity: Floats, budget: int
) -> EdgeThreshold | None:
    """Return the last match within the budget. Matches are sorted by descending similarity, then by
    ascending question id.

    Returns None if all matches are within the budget. If the budget is 0, the threshold is above
    every match.

    >>> find_edge_threshold(np.array([7, 3]), np.array([0.5, 0.5]), 1)
    EdgeThreshold(similarity=0.5, question=3)
    """
    if budget >= len(question_ids):
        return None
    if budget == 0:
        return EdgeThreshold(math.inf, QuestionId(-1))
    least = -float(np.partition(-similarity, budget - 1)[budget - 1])
    better = int(np.count_nonzero(similarity > least))
    level_ids = np.sort(question_ids[similarity == least])
    return EdgeThreshold(least, QuestionId(int(level_ids[budget - better - 1])))
