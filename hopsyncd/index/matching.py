"""Matching, kept up to date: the edge merging of HopRAG section 3.2, made incremental.

Every outgoing question is matched with its most similar incoming question of another passage under
Eq. 1; ties go to the lowest id. That order is total, so the best of a union is the better of two
bests, and after a change it suffices to compare

- the outgoing questions that are new, or whose match is gone, with all incoming ones;
- all others with the new incoming ones.

`hopsyncd.index.comparison` compares them without looking at each pair.

When a large part of a collection goes, many questions lose their match. Their replacement matches
can be computed in advance, in parts between which the index advances (`ReplacementMatches`).

Worked example. A asks a1, B answers b1: a1 -> b1. Passage C arrives and answers c1: a1 keeps b1
unless c1 is more similar. C leaves again: only the questions matched with c1 look for another.
"""

import math
from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import (
    AnyIntegers,
    Flags,
    Floats,
    Integers,
    expand_ranges,
    find_sorted,
    mark_rows,
    sort_distinct,
    take_flags,
)
from hopsyncd.index.comparison import (
    HALF_COSINE,
    NO_MATCHES,
    Comparison,
    MatchColumns,
    concatenate_matches,
)
from hopsyncd.index.live_index import DEAD, LiveIndex
from hopsyncd.index.throttle import yielding_to_queries
from store.records import EdgeThreshold, Match, QuestionId

PAUSE_FACTOR = 1.0  # pause of matching while queries run, as a multiple of the time it has just run


def jaccard(a: Set[str], b: Set[str]) -> float:
    """Shared keywords by all keywords; 0 when both sets are empty.

    >>> jaccard({"rome", "italy"}, {"rome"})
    0.5
    >>> jaccard(set(), set())
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
    """Eq. 1: SIM(a, b) = (|ka & kb| / |ka | kb| + cos(va, vb)) / 2.

    The vectors are (d,) on the grid of store.records. The cosine is their exact integer dot product
    divided by GRID squared, so equal inputs give equal bits on every machine. It differs from the
    cosine of the unrounded vectors by at most about 1e-4.

    >>> v = np.array([4000, 0])
    >>> compute_similarity({"rome", "italy"}, v, {"rome"}, v)
    0.75
    """
    dot = int(np.dot(vector_a.astype(np.int64), vector_b.astype(np.int64)))
    return jaccard(keywords_a, keywords_b) / 2 + dot * HALF_COSINE


def list_outgoing(index: LiveIndex, passage_rows: AnyIntegers) -> Integers:
    """The outgoing questions of the passages."""
    passages = index.passages
    starts, ends = passages.outgoing_start[passage_rows], passages.outgoing_end[passage_rows]
    return expand_ranges(starts, ends)[0]


def list_incoming(index: LiveIndex, passage_rows: AnyIntegers) -> Integers:
    """The incoming questions of the passages."""
    passages = index.passages
    starts, ends = passages.incoming_start[passage_rows], passages.incoming_end[passage_rows]
    return expand_ranges(starts, ends)[0]


@dataclass(frozen=True, slots=True, eq=False)
class MatchDelta:
    """The matches that a version ends and begins; a question whose match changes is in both."""

    ended: Integers
    begun: MatchColumns


@dataclass(frozen=True, slots=True, eq=False)
class ReplacementMatches:
    """Matches, by rising source question, for when passages go that the present matches lead to.

    candidates: (e,) the passage rows among which they are the best; a row that was added later is
    no candidate.
    """

    index: LiveIndex
    candidates: Flags
    matches: MatchColumns


def find_orphans(index: LiveIndex, ended_rows: Integers) -> Integers:
    """The outgoing questions of other passages whose match leads to one of these, rising."""
    rows, _ = index.postings.matches_by_target.find_all(ended_rows)
    rows = rows[index.matches.died[rows] == DEAD]
    questions = index.matches.source_question[rows]
    is_ended = mark_rows(len(index.passages), ended_rows)
    stays = ~take_flags(is_ended, index.outgoing.passage_row[questions])
    return sort_distinct(questions[stays].astype(np.int64))


def update_matches(
    index: LiveIndex,
    ended_rows: Integers,
    new_rows: Integers,
    replacements: ReplacementMatches | None = None,
) -> None:
    """Bring the matches at the head up to date with passages that ended or came.

    Questions that have a replacement are compared only with the passages that came after it was
    computed.
    """
    match_row = index.outgoing.match_row
    of_ended = list_outgoing(index, ended_rows)
    ended = of_ended[match_row[of_ended] >= 0]
    orphans = find_orphans(index, ended_rows)
    stays = match_row >= 0
    stays[ended] = stays[orphans] = False
    held = MatchColumns.of_rows(index.matches, match_row[stays])
    unmatched = np.flatnonzero(match_row < 0)
    is_vertex = index.is_vertex
    unmatched = unmatched[is_vertex[index.outgoing.passage_row[unmatched]]]
    with yielding_to_queries(PAUSE_FACTOR):
        replaced = _apply_replacements(index, replacements, orphans, is_vertex)
        wanting = np.union1d(orphans, unmatched)
        wanting = np.setdiff1d(wanting, replaced.source_question, assume_unique=True)
        found = find_better_matches(index, wanting, is_vertex, held, new_rows)
        begun = merge_matches(found, replaced)
    beaten = begun.source_question[match_row[begun.source_question] >= 0]
    index.end_matches(sort_distinct(np.concatenate([ended, orphans, beaten])))
    index.begin_matches(begun.source_question, begun.target_question, begun.similarity)


def _apply_replacements(
    index: LiveIndex, replacements: ReplacementMatches | None, orphans: Integers, is_vertex: Flags
) -> MatchColumns:
    """The matches of those orphans that have a replacement which is still there: that, or a better
    one among the passages that came since."""
    if replacements is None or replacements.index is not index:  # the index was reloaded
        return NO_MATCHES
    standing = select_matches(index, replacements.matches, orphans, is_vertex)
    rows = np.flatnonzero(is_vertex)
    new_rows = rows[~take_flags(replacements.candidates, rows)]
    no_questions = NO_MATCHES.source_question
    better = find_better_matches(index, no_questions, is_vertex, standing, new_rows)
    return merge_matches(better, standing)


def select_matches(
    index: LiveIndex, matches: MatchColumns, questions: Integers, passages: Flags
) -> MatchColumns:
    """The matches of these questions, which rise, that lead to these passages."""
    targets = index.incoming.passage_row[matches.target_question]
    is_of_questions = find_sorted(questions, matches.source_question)[1]
    return matches.take(is_of_questions & take_flags(passages, targets))


def merge_matches(first: MatchColumns, second: MatchColumns) -> MatchColumns:
    """The matches of the first, and of the second for other questions; both and the result rise by
    source question."""
    is_more = ~find_sorted(first.source_question, second.source_question)[1]
    merged = concatenate_matches([first, second.take(is_more)])
    return merged.take(np.argsort(merged.source_question))


def replace_matches(index: LiveIndex, best: MatchColumns) -> None:
    """Let these be the matches at the head; those that are already in force stay."""
    match_row = index.outgoing.match_row
    rows = match_row[best.source_question]
    held = MatchColumns.of_rows(index.matches, rows)
    is_same = (
        (rows >= 0)
        & (held.target_question == best.target_question)
        & (held.similarity == best.similarity)
    )
    stays = mark_rows(len(match_row), best.source_question[is_same])
    index.end_matches(np.flatnonzero((match_row >= 0) & ~stays))
    new = best.take(~is_same)
    index.begin_matches(new.source_question, new.target_question, new.similarity)


def list_pending_matches(index: LiveIndex) -> MatchDelta:
    """All changes to the matches since the last version: the next version commits them."""
    begun, ended = index.pending_matches()
    questions = index.matches.source_question[ended].astype(np.int64)
    return MatchDelta(sort_distinct(questions), MatchColumns.of_rows(index.matches, begun))


def make_match_records(index: LiveIndex, matches: MatchColumns) -> list[Match]:
    """The matches as the store has them."""
    columns = (
        index.outgoing.id[matches.source_question].tolist(),
        index.incoming.id[matches.target_question].tolist(),
        matches.similarity.tolist(),
    )
    return [
        Match(QuestionId(source), QuestionId(target), similarity)
        for source, target, similarity in zip(*columns, strict=True)
    ]


def find_best_matches(index: LiveIndex, questions: Integers, passages: Flags) -> MatchColumns:
    """The best match of each outgoing question among the incoming questions of these passages.

    A question without any is left out.
    """
    return find_better_matches(index, questions, passages, NO_MATCHES, np.empty(0, dtype=np.int64))


def find_better_matches(
    index: LiveIndex,
    unmatched: Integers,
    passages: Flags,
    held: MatchColumns,
    new_rows: Integers,
) -> MatchColumns:
    """The best matches of the unmatched questions among the `passages`; and for those that hold a
    match, which rise, the best that beats it among the new passage rows.

    Of equal matches, that with the lower id of the target question is better.
    """
    # The targets are listed only if a question needs them: an edit may leave every match in place.
    targets = list_incoming(index, np.flatnonzero(passages & bool(len(unmatched))))
    new_targets = list_incoming(index, new_rows)
    best = Comparison(index, unmatched, targets, held, new_targets).find_best()
    positions, is_held = find_sorted(held.source_question, best.source_question)
    positions, ids = positions[is_held], index.incoming.id
    found, held = best.take(is_held), held.take(positions)
    has_lower_id = ids[found.target_question] < ids[held.target_question]
    is_better = np.ones(len(best), dtype=np.bool_)
    is_better[is_held] = (found.similarity > held.similarity) | (
        (found.similarity == held.similarity) & has_lower_id
    )
    return best.take(is_better)


def edge_budget(passages: int, factor: float) -> int:
    """How many edges a graph of n passages may keep: O(n log n), HopRAG section 3.2.

    >>> edge_budget(994, 1.0)
    6860
    """
    return math.floor(factor * passages * math.log(passages)) if passages > 1 else 0


def find_edge_threshold(
    question_ids: Integers, similarity: Floats, budget: int
) -> EdgeThreshold | None:
    """The last match that the budget admits, by falling similarity and rising question id.

    None when it admits all. A budget of 0 admits none: the threshold is above every match then.

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
