"""Collects the dependencies of an answer, and decides whether a newer version may change the
answer.

In a large collection, nearly all of the walk's score passes through few passages, and a follow-up
question adds score to few passages. If a version changes none of these passages, and adds no
passage that the question or a follow-up would find, the answer stays the same. There are two
exceptions. The statistics of the whole collection change a little with each passage added or
removed. And a sentence that was dropped from the question, because no passage was similar, may now
match a passage.

A question is therefore asked again in two cases. In the first case, a version changes the
question's dependencies. In the second case, enough passages were added or removed since the
question was last asked to let two results swap places. The second case occurs at the latest after 1
% of all passages have changed. In a small collection, it occurs with every change. A swap that does
not change the set of the first results is ignored.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import Floats, Int32s, Integers, expand_ranges, unite
from hopsyncd.index.live_index import LiveIndex, compute_name_key
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.likeness import OF_LIKENESS, OF_WORDS, compare_best_vectors
from hopsyncd.retrieve.other_forms import OtherForm
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import (
    FIRST_RESULTS,
    WHOLE_PASSAGE_WEIGHT,
    DirectHits,
    RankedPosition,
    compute_importance,
    find_direct_hits,
    mark_reached,
    promote_direct_hits,
    rank_by_importance,
    select_largest,
)
from hopsyncd.retrieve.second_ask import FollowUp
from hopsyncd.retrieve.strategies.hop import HopSearch
from hopsyncd.retrieve.term_matches import K1, B
from hopsyncd.retrieve.walk import CANDIDATES, LEAST_TITLE_SHARE
from store.records import Vectors

_DRIFT = 100  # Ask again if one passage in 100 was added or removed.
_SWAY = 3  # Adding a share s of passages changes another score by up to 3 * s.
_LEAST_FLOW = 1e-3  # Share of the score. Passages with less do not affect the top results.
_LEAST_SENT = 1e-2  # An edge or a link takes at most a fifth of a passage's score, mostly less.
_LEAST_BY_NAME = 5e-3  # All passages that mention a name share the score that passes through it.
_DEPTH = 20
_SOON = 20  # Ties that need more added or removed passages are examined later.
_MOST_TIES = 3
_A_LITTLE_LESS = 1 - 1e-9
_A_LITTLE_MORE = 1.05


class Tie(NamedTuple):
    """A result whose score is only slightly higher than the next result's score.

    alone: the rows found if these two results swap places. together: the rows found if all results
    with a smaller lead swap places too.
    """

    lead: float
    alone: tuple[int, ...] = ()
    together: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question or follow-up, with the thresholds above which a new passage may change its
    results.

    terms: the weight of each term, by the term's key. least: the threshold on the likeness of any
    passage. least_titled: the threshold for a passage whose title may be in the text. least_direct:
    the threshold for a direct hit, where the likeness includes the cosine of the whole passage.
    """

    vector: Vectors
    terms: Mapping[int, float]
    least: float
    least_titled: float = np.inf
    least_direct: float = np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Dependencies:
    """The passage rows and names that the search for a question used at a version, ascending.

    question: the question with corrected spelling. asked: the question without dropped sentences.
    forms: other forms of the question's words. heavy_rows: the rows that send so much score that a
    single edge can change the outcome. queries: the question and its follow-ups. ties: the results
    with the smallest leads. lead: the smallest lead that may change the outcome. All row numbers
    are valid only for one index object.
    """

    question: str
    asked: str
    forms: tuple[OtherForm, ...]
    snapshot: Snapshot
    rows: Integers
    heavy_rows: Integers
    names: Integers
    queries: Sequence[Query]
    ties: Sequence[Tie]
    lead: float

    @classmethod
    def collect(
        cls, question: str, context: QueryContext, vector: Vectors, search: HopSearch, k: int
    ) -> Self:
        """Collect the passage rows and names that the search used, and the results that only
        narrowly beat the next result.
        """
        snapshot, near = context.snapshot, context.near
        walked, follow_ups = search.walked, search.second_ask.follow_ups
        first = select_largest(search.scores, snapshot.passage_ids, max(k, _DEPTH))
        nearest = near.passage_rows[
            select_largest(near.like, snapshot.passage_ids[near.passage_rows], CANDIDATES)
        ]
        names, positions = np.unique(walked.outgoing_names.name, return_inverse=True)
        flow = np.bincount(positions, walked.outgoing_flow, minlength=len(names))
        named = np.array([snapshot.find_name(name) for name in context.names], dtype=np.int64)
        seen = [follow_up.plan.seen_names for follow_up in follow_ups]
        order, direct = _Order(context, search), find_direct_hits(context)
        closest = _find_ties(order, k, min(search.second_ask.lead, order.lead_of_direct_hits(k)))
        return cls(
            question,
            context.question,
            context.forms.forms,
            snapshot,
            unite(
                np.flatnonzero(search.scores >= _LEAST_FLOW),
                first,
                nearest,
                np.array(direct.rows, dtype=np.int64),
                *(follow_up.rows for follow_up in follow_ups),
            ),
            np.flatnonzero(walked.scores >= _LEAST_SENT),
            unite(names[flow >= _LEAST_BY_NAME], named, *seen),
            [_describe_question(context, vector, direct), *map(_describe_follow_up, follow_ups)],
            closest,
            closest[0].lead,
        )

    def ignore_harmless_ties(self, is_same: Callable[[tuple[int, ...]], bool]) -> Self:
        """Return a copy whose `lead` skips ties that cannot change the outcome.

        `is_same` returns whether the outcome would be the same with the given passage rows as
        results.
        """
        deciding = (
            tie.lead
            for tie in self.ties
            if not (tie.alone and is_same(tie.alone) and is_same(tie.together))
        )
        return replace(self, lead=next(deciding, 1.0))


def _describe_question(context: QueryContext, vector: Vectors, direct: DirectHits) -> Query:
    """Build the query whose thresholds decide whether a new passage may change the answer.

    A new passage may change the answer if it would get a share of the seeds' scores, if it would be
    a direct hit, or if the question may contain its title. The title counts only if the new passage
    would be among the `CANDIDATES` passages most like the question.
    """
    like = context.near.like
    most = float(like.max())
    seed = most + math.log(float(np.exp(like - most).sum()) * _LEAST_FLOW)
    nearest = float(np.sort(like)[-CANDIDATES]) if len(like) >= CANDIDATES else -np.inf
    terms = _map_term_keys(_add_forms(context))
    return Query(vector, terms, seed, nearest, direct.least)


def _add_forms(context: QueryContext) -> dict[str, float]:
    """Weigh the question's terms and the terms of their other forms.

    The terms of another form share the weight of the words that the form replaces.
    """
    weights = dict(context.terms)
    for form in context.forms.forms:
        share = sum(context.terms.get(term, 0.0) for term in form.typed_stems) / len(form.stems)
        for term in form.stems:
            weights[term] = max(weights.get(term, 0.0), share)
    return weights


def _describe_follow_up(follow_up: FollowUp) -> Query:
    """Compute the thresholds for a follow-up.

    A new passage may change the answer if it would get a share of the follow-up's score. The bonus
    for a passage about one of the names is given to every passage that mentions the name.
    """
    least = follow_up.total + math.log(_LEAST_FLOW / follow_up.most_score)
    return Query(follow_up.vector, _map_term_keys(follow_up.weights), least)


def _map_term_keys(weights: Mapping[str, float]) -> dict[int, float]:
    return {compute_name_key(term): weight for term, weight in weights.items()}


def is_touched(dependencies: Dependencies, now: Snapshot) -> bool:
    """Return whether the later version `now` may change the answer to the question."""
    before, index = dependencies.snapshot, now.index
    if index is not before.index:
        return True
    intervals = index.passage_intervals
    row, born, died = intervals.passage_row, intervals.born, intervals.died
    span = (before.version.id, now.version.id)
    added = row[_mark_within(born, span) & (died > span[1])].astype(np.int64)
    removed = row[_mark_within(died, span) & (born <= span[0])].astype(np.int64)
    drift = (len(added) + len(removed)) / before.statistics.passages
    if drift > min(1 / _DRIFT, dependencies.lead / _SWAY):
        return True
    placed = np.concatenate([removed, _find_moved(before, now, span)])
    joined = np.concatenate([_find_matched(before, now), _find_linked(now, span)])
    if np.isin(placed, dependencies.rows).any() or np.isin(joined, dependencies.heavy_rows).any():
        return True
    if _mentions_names(dependencies, index, np.concatenate([added, removed])):
        return True
    if _names_documents(dependencies, index, span):
        return True
    return len(added) > 0 and any(
        _is_found(query, before, index, added) for query in dependencies.queries
    )


class _Order:
    """Ranks the passages of a search, and ranks them again with other scores."""

    def __init__(self, context: QueryContext, search: HopSearch) -> None:
        self.snapshot = context.snapshot
        self._context = context
        scores, fits = mark_reached(context, search.scores), search.second_ask.fits
        self.worth = compute_importance(context, scores, fits)
        self._direct = find_direct_hits(context)

    def rank(self, worth: Floats, k: int) -> list[RankedPosition]:
        """Return the k best passage rows (at least five) by their importance, before direct hits
        are placed.
        """
        return rank_by_importance(self._context, worth, max(k, FIRST_RESULTS))

    def find(self, worth: Floats, k: int) -> tuple[int, ...]:
        """Return the passage rows of the k best results by their importance."""
        ranked = promote_direct_hits(self.rank(worth, k), self._direct.rows)
        return tuple(row.position for row in ranked[:k])

    def lead_of_direct_hits(self, k: int) -> float:
        """Return the smallest change that could alter the first k results through the direct hits.

        If swapping the last direct hit for the next passage would change these results, the result
        is the hit's lead over that passage (`DirectHits.lead`). Otherwise the result is the change
        in the names' share of the question that would switch direct hits on or off
        (`DirectHits.lead_of_names`).
        """
        ranked, direct = self.rank(self.worth, k), self._direct
        now, instead = (
            promote_direct_hits(ranked, rows)[:k] for rows in (direct.rows, direct.instead)
        )
        same = [hit.position for hit in now] == [hit.position for hit in instead]
        return direct.lead_of_names if same else direct.lead


def _find_ties(order: _Order, k: int, lead_of_start: float) -> list[Tie]:
    """Find the results that only narrowly beat the next result, narrowest first.

    The list ends with a tie that has a lead but no rows: if scores change by that lead, the results
    are unknown. `lead_of_start` is the smaller lead of two choices: the last passage read for a
    follow-up over the next passage, and the direct hits (`lead_of_direct_hits`).
    """
    soon = min(_SOON / order.snapshot.statistics.passages, 1 / _DRIFT) * _SWAY
    together, ties = order.worth.copy(), list[Tie]()
    for helpful in sorted(order.rank(order.worth, k), key=lambda helpful: helpful.lead):
        if helpful.lead > min(soon, lead_of_start) or len(ties) == _MOST_TIES:
            return [*ties, Tie(min(helpful.lead, lead_of_start))]
        alone = order.worth.copy()
        for less in (alone, together):
            less[helpful.position] *= (1 - helpful.lead) * _A_LITTLE_LESS
        ties.append(Tie(helpful.lead, order.find(alone, k), order.find(together, k)))
    return [*ties, Tie(lead_of_start)]


def _mark_within(column: Int32s, span: tuple[int, int]) -> NDArray[np.bool_]:
    is_within: NDArray[np.bool_] = (column > span[0]) & (column <= span[1])
    return is_within


def _find_matched(before: Snapshot, now: Snapshot) -> Integers:
    """Find the passage rows whose edges may differ between the two versions.

    Edges differ if a match was added or removed, or if the edge threshold changed.
    """
    index, span = now.index, (before.version.id, now.version.id)
    matches = index.matches
    sources, targets, similarity = (
        matches.source_question,
        matches.target_question,
        matches.similarity,
    )
    born, died = matches.born, matches.died
    cuts = [snapshot.version.edge_threshold for snapshot in (before, now)]
    least = [cut.similarity if cut else -np.inf for cut in cuts]
    changed = (_mark_within(born, span) | _mark_within(died, span)) & (similarity >= min(least))
    if cuts[0] != cuts[1]:
        alive = (born <= span[1]) & (died > span[1])
        changed |= alive & (similarity >= min(least)) & (similarity <= max(least))
    return np.concatenate(
        [index.outgoing.passage_row[sources[changed]], index.incoming.passage_row[targets[changed]]]
    ).astype(np.int64)


def _find_moved(before: Snapshot, now: Snapshot, span: tuple[int, int]) -> Integers:
    """Find the passage rows whose document changed, or whose document gained or lost a name.

    `span` has the ids of both versions.
    """
    index = now.index
    homes = before.statistics.visible.document_of_number, now.statistics.visible.document_of_number
    count = len(homes[0])
    moved = np.flatnonzero(homes[0] != homes[1][:count])
    names = index.document_names  # read before the documents, because a writer may append to both
    born, died = index.documents.born, index.documents.died
    document = names.document_row
    named = names.passage_number.astype(np.int64) << 32 | names.name
    added, removed = (
        named[np.isin(document, np.flatnonzero(_mark_within(versions, span)))]
        for versions in (born, died)
    )
    renamed = np.setxor1d(added, removed) >> 32
    return _find_rows(index, np.union1d(moved, renamed))


def _find_linked(now: Snapshot, span: tuple[int, int]) -> Integers:
    """Find the passage rows at the ends of links that were added or removed.

    `span` has the ids of the versions before and after the change.
    """
    edges = now.index.link_edges
    source, target, born, died = edges.source_passage, edges.target_passage, edges.born, edges.died
    changed = _mark_within(born, span) | _mark_within(died, span)
    return _find_rows(now.index, np.concatenate([source[changed], target[changed]]))


def _find_rows(index: LiveIndex, numbers: Integers) -> Integers:
    return index.postings.passages_by_number.find_all(np.unique(numbers).astype(np.int64))[0]


def _mentions_names(dependencies: Dependencies, index: LiveIndex, rows: Integers) -> bool:
    """Return whether the search used a name that these rows mention.

    All passages that mention a name share its score, so each new mention changes the shares.
    """
    columns = index.passages
    mentions, _ = expand_ranges(
        columns.sentence_mention_start[rows], columns.sentence_mention_end[rows]
    )
    if np.isin(index.sentence_mentions.name[mentions], dependencies.names).any():
        return True
    mentions, _ = expand_ranges(columns.mention_start[rows], columns.mention_end[rows])
    return bool(np.isin(index.mentions.name[mentions], dependencies.names).any())


def _names_documents(dependencies: Dependencies, index: LiveIndex, span: tuple[int, int]) -> bool:
    """Return whether a document with a name that the search used was added or removed.

    `span` has the ids of the versions before and after the change.
    """
    names = index.document_names  # read before the documents, because a writer may append to both
    born, died = index.documents.born, index.documents.died
    changed = _mark_within(born, span) | _mark_within(died, span)
    rows = np.isin(names.name, dependencies.names)
    return bool(changed[names.document_row[rows]].any())


def _is_found(query: Query, before: Snapshot, index: LiveIndex, added: Integers) -> bool:
    """Return whether one of the passage rows `added` is above a threshold of the query."""
    words, shares = _score_words(query, before, index, added)
    best = compare_best_vectors(index, query.vector, added)
    whole = index.vectors.compute_cosines(query.vector, index.passages.vector_start[added])
    likeness = OF_LIKENESS * best + OF_WORDS * words
    is_titled = (shares >= LEAST_TITLE_SHARE / _A_LITTLE_MORE) & (likeness > query.least_titled)
    is_direct = likeness + WHOLE_PASSAGE_WEIGHT * whole > query.least_direct
    return bool(((likeness > query.least) | is_titled | is_direct).any())


def _score_words(
    query: Query, before: Snapshot, index: LiveIndex, rows: Integers
) -> tuple[Floats, Floats]:
    """Score each passage by the words of a query.

    Returns two (m,) arrays: the BM25 score as a share of the maximum, and the summed weight of the
    query's terms in the passage. The scores are increased slightly, because the statistics may have
    changed slightly.
    """
    keys = np.array(list(query.terms), dtype=np.int64)
    weights = np.array(list(query.terms.values()))
    terms, positions = index.postings.terms_by_key.find_all(keys)
    passage_rows, counts = index.terms.passage_row[terms], index.terms.count[terms]
    counted = before.statistics
    mean = max(counted.words / max(counted.passages, 1), 1.0)
    saturation = K1 * (1 - B + B * index.passages.word_count[passage_rows] / mean)
    parts = weights[positions] * counts / (counts + saturation)
    order = np.argsort(rows)
    places = np.searchsorted(rows[order], passage_rows)
    is_row = places < len(rows)
    is_row[is_row] &= rows[order][places[is_row]] == passage_rows[is_row]
    count, found = len(rows), order[places[is_row]]
    scores, shares = np.zeros(count), np.zeros(count)
    np.add.at(scores, found, parts[is_row])
    np.add.at(shares, found, weights[positions][is_row])
    return scores * _A_LITTLE_MORE, shares
