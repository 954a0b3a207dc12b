"""The transitions of the walk: the passages to which score flows from a passage, and in which
shares.

There are three kinds: along edges, through names and along links. `hopsyncd.retrieve.walk` defines
their weights.
"""

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import (
    LEAST_SORTABLE,
    Floats,
    Integers,
    expand_ranges,
    invert_positions,
    mark_rows,
    select_first_of_groups,
    select_largest_of_groups,
    sum_exactly,
    take_flags,
    to_sortable,
)
from hopsyncd.index.snapshot import NAME_WEIGHT, Mentions, Snapshot
from hopsyncd.retrieve.likeness import NEAR
from hopsyncd.retrieve.query_context import QueryContext, sum_weighted
from hopsyncd.retrieve.walk_settings import WalkSettings

_WEIGHTS = 2.0**-32  # Sums of weights up to 1 are exact in this unit.
_LEAST_WEIGHT = float(np.finfo(np.float64).tiny)  # more than 0, so that it can divide
SCORE_UNIT = 2.0**-46  # Sums of scores are exact in this unit.
_COMMON = 100  # If more passages mention a name, only the nearest mentions are followed.
_OF_TOPICS = 2.0  # weight of a name that is a topic of passages


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """The w transitions between passages, each with its share of the score that leaves its start.

    number: the outgoing question of an edge, or the row of a link. is_backward: whether the edge or
    link is followed against its direction.
    """

    start: Integers
    end: Integers
    share: Floats
    number: Integers
    is_backward: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class NameTransitions:
    """Steps from passages to names, or from names to passages, as columns of equal length.

    share: the part of the start's score that flows along the step. document_key: the document of
    each passage.
    """

    passage_row: Integers
    name: Integers
    share: Floats
    document_key: Integers


_NONE = np.empty(0, dtype=np.int64)
NO_TRANSITIONS = Transitions(_NONE, _NONE, np.empty(0), _NONE, np.empty(0, dtype=np.bool_))
NO_NAMES = NameTransitions(_NONE, _NONE, np.empty(0), _NONE)

Shared = TypeVar("Shared", Transitions, NameTransitions)


def concatenate_transitions(first: Shared, second: Shared, part: Floats | float) -> Shared:
    """Append the transitions `second` to `first`. The shares of `second` are multiplied by
    `part`."""
    both = [
        np.concatenate([getattr(part, field.name) for part in (first, second)])
        for field in fields(first)
    ]
    whole = type(first)(*both)
    whole.share[len(first.share) :] *= part
    return whole


def compute_pull(
    context: QueryContext, out: Integers, similarity: Floats, sharpness: float
) -> Floats:
    """Return the (e,) weights of the edges in either direction, before the factor for new words.

    `out` has the (e,) outgoing questions of the edges, and `similarity` their (e,) similarities.
    A weight is never negative, although `similarity` can be below 0 if the edge budget admits every
    match.
    """
    row = context.snapshot.index.outgoing.vector_row[out]
    cosines = context.likeness.get_cosines(row).astype(np.float64)
    pull: Floats = (
        np.maximum(similarity, 0)
        * _compute_rarity(context.snapshot, out)
        * np.exp(sharpness * cosines)
    )
    return pull


def _compute_rarity(snapshot: Snapshot, out: Integers) -> Floats:
    """Return (e,) values of log(1 + n / df) for the rarest name in each outgoing question."""
    index, counts = snapshot.index, snapshot.statistics
    keywords = index.outgoing.keyword_count[out].astype(np.int64)
    first = index.outgoing.keyword_start[out].astype(np.int64)
    rows, _ = expand_ranges(first, first + keywords)
    mentioned = counts.mention_counts[index.question_keywords.name[rows]]
    least = np.full(len(out), counts.passages, dtype=np.int64)
    with_names = np.flatnonzero(keywords)
    if len(with_names):
        starts = (np.cumsum(keywords) - keywords)[with_names]
        least[with_names] = np.minimum.reduceat(mentioned, starts)
    rarity: Floats = np.log1p(counts.passages / np.maximum(least, 1))
    return rarity


def find_edge_transitions(
    context: QueryContext, passage_rows: Integers, positions: Integers, settings: WalkSettings
) -> Transitions:
    """Find all edges out of the passages to other documents, in both directions.

    The shares of the transitions that start at the same passage sum to 1. `positions` maps each
    passage row to its position in `passage_rows`.
    """
    snapshot = context.snapshot
    edges = snapshot.find_edges(passage_rows)
    between = np.flatnonzero(
        snapshot.get_document_keys(edges.start) != snapshot.get_document_keys(edges.end)
    )
    start, end, out = edges.start[between], edges.end[between], edges.source_question[between]
    back = edges.is_backward[between]
    weight = compute_pull(context, out, edges.similarity[between], settings.sharpness)
    weight *= np.where(back, settings.backwards, 1.0)
    weight *= np.exp(settings.gain * context.coverage.compute_gain(start, end))
    return Transitions(start, end, _scale_groups(weight, positions[start]), out, back)


def find_link_transitions(
    context: QueryContext, passage_rows: Integers, positions: Integers, settings: WalkSettings
) -> Transitions:
    """Find all links out of the passages, in the form of `find_edge_transitions`.

    A link leads from a passage to the best passages of the linked document. Backwards, it leads
    from the best passages of a document to the passages that link to it.
    """
    snapshot = context.snapshot
    if not snapshot.has_links:
        return NO_TRANSITIONS
    visible = snapshot.statistics.visible
    document_count, numbers = visible.document_count, visible.document_numbers[passage_rows]
    inside, _ = snapshot.list_document_passages(np.flatnonzero(mark_rows(document_count, numbers)))
    outgoing, incoming = snapshot.find_links_from(passage_rows), snapshot.find_links_to(inside)
    forward = _drop_repeated_links(snapshot, outgoing.start, outgoing.end, outgoing.link_row)
    back = _drop_repeated_links(snapshot, incoming.end, incoming.start, incoming.link_row)
    if not len(forward.link) and not len(back.link):
        return NO_TRANSITIONS
    linked = np.flatnonzero(mark_rows(document_count, forward.document, back.document))
    best, position_in_linked = _find_best_passages(context, linked, settings.linked)
    count = np.bincount(position_in_linked, minlength=len(linked))
    end, position = count.cumsum(), invert_positions(linked, document_count)[forward.document]
    best_position, forward_rows = expand_ranges((end - count)[position], end[position])
    is_best = mark_rows(len(visible.passages), best)
    count = np.bincount(back.document, minlength=document_count)
    leading = np.flatnonzero(is_best[passage_rows] & (count[numbers] > 0))
    end, document = count.cumsum(), numbers[leading]
    rank, leading_rows = expand_ranges((end - count)[document], end[document])
    backward_rows = np.argsort(back.document, kind="stable")[rank]
    start = np.concatenate([forward.passage_row[forward_rows], passage_rows[leading][leading_rows]])
    end = np.concatenate([best[best_position], back.passage_row[backward_rows]])
    weight = np.exp(settings.link_sharpness * context.compute_first_cosines(end))
    weight *= np.exp(settings.gain * context.coverage.compute_gain(start, end))
    return Transitions(
        start,
        end,
        _scale_groups(weight, positions[start]),
        np.concatenate([forward.link[forward_rows], back.link[backward_rows]]),
        np.repeat([False, True], [len(best_position), len(backward_rows)]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Linked:
    """Passages that link to other documents, with one link for each document.

    passage_row: the passage rows. document: the number of the linked document.
    """

    passage_row: Integers
    document: Integers
    link: Integers


def _drop_repeated_links(
    snapshot: Snapshot, passage_row: Integers, target: Integers, link: Integers
) -> _Linked:
    """Keep one link for each passage and each other document that it links to.

    The columns have the passage that has the link, the passage that the link leads to, and the row
    of the link.
    """
    visible = snapshot.statistics.visible
    document = visible.document_numbers[target]
    elsewhere = np.flatnonzero(visible.document_numbers[passage_row] != document)
    passage_row, target, link, document = (
        passage_row[elsewhere],
        target[elsewhere],
        link[elsewhere],
        document[elsewhere],
    )
    first = select_first_of_groups(
        passage_row * visible.document_count + document, snapshot.passage_ids[target]
    )
    return _Linked(passage_row[first], document[first], link[first])


def _find_best_passages(
    context: QueryContext, documents: Integers, linked: int
) -> tuple[Integers, Integers]:
    """Find the passages of each document that are most like the query.

    Returns the passage rows and the position of each row's document in `documents`, both sorted by
    this position.
    """
    passage_rows, document = context.snapshot.list_document_passages(documents)
    like = context.compute_first_cosines(passage_rows) + context.coverage.sum_shares(passage_rows)
    # With 32-bit numbers this is fast, but it can select more passages when values tie.
    best = select_largest_of_groups(document, to_sortable(like.astype(np.float32)), linked)
    passage_rows, document, like = passage_rows[best], document[best], like[best]
    best = select_first_of_groups(
        document, -like, context.snapshot.passage_ids[passage_rows], count=linked
    )
    return passage_rows[best], document[best]


def find_outgoing_names(context: QueryContext, passage_rows: Integers) -> NameTransitions:
    """Find the steps from passages to the names that connect documents.

    A rarer name weighs more, and a name that is a topic counts double. The shares of each passage
    sum to 1.
    """
    snapshot, counts = context.snapshot, context.snapshot.statistics
    position, name = snapshot.list_names(passage_rows)
    joining = np.flatnonzero(counts.joins_documents[name])
    position, name = position[joining], name[joining]
    weight = np.log1p(counts.passages / np.maximum(counts.mention_counts[name], 1))
    weight *= np.where(counts.is_topic[name], _OF_TOPICS, 1.0)
    passage_row = passage_rows[position]
    return NameTransitions(
        passage_row, name, _scale_groups(weight, position), snapshot.get_document_keys(passage_row)
    )


def find_mentions(context: QueryContext, name: int) -> Mentions:
    """Find the mentions of a name. Only the mentions nearest to the question count for a common
    name."""
    snapshot = context.snapshot
    if snapshot.statistics.mention_counts[name] <= NEAR:
        return snapshot.find_mentions(np.array([name]))
    rows, names = context.nearest_mentions
    mention, rows = snapshot.index.sentence_mentions, rows[names == name]
    named_passages, _ = snapshot.find_by_document_names(np.array([name]))
    return Mentions(
        np.concatenate([mention.passage_row[rows], named_passages]).astype(np.int64),
        np.concatenate(
            [mention.vector_row[rows], snapshot.index.passages.vector_start[named_passages]]
        ),
        np.repeat([1.0, NAME_WEIGHT], [len(rows), len(named_passages)]),
        np.zeros(len(rows) + len(named_passages), dtype=np.int64),
    )


def find_incoming_mentions(
    context: QueryContext,
    names: Integers,
    brought: NameTransitions,
    settings: WalkSettings,
) -> tuple[NameTransitions, Integers]:
    """Find the mentions of each name that are most like the query, with their shares.

    Also returns the position of each mention's name in `names`. Names and positions are ascending.
    `brought` is the score that the seeds bring to names. This score determines once, for the whole
    walk, which words are new. Of common names, only the mentions nearest to the query are used.
    """
    snapshot = context.snapshot
    mentions = _select_most_like(context, names, settings.mentions)
    passage_row, position = mentions.passage_row, mentions.name_position
    cosines = context.likeness.get_cosines(mentions.vector_row).astype(np.float64)
    weight = mentions.weight * np.exp(settings.name_sharpness * cosines)
    known_shares = _share_known_words(context, names, brought).take(position, axis=1)
    has = context.coverage.select(passage_row)
    new = sum_weighted(context.coverage.share, np.maximum(has - known_shares, 0))
    weight *= np.exp(settings.gain * new)
    return NameTransitions(
        passage_row,
        names[position],
        _scale_groups(weight, position),
        snapshot.get_document_keys(passage_row),
    ), position


def _select_most_like(context: QueryContext, names: Integers, count: int) -> Mentions:
    """Select the `count` mentions of each name that are most like the query, by ascending name.

    Invisible mentions are removed last, when few mentions are left.
    """
    snapshot = context.snapshot
    mentioned = snapshot.statistics.mention_counts
    common = mentioned[names] > _COMMON
    rows, position = snapshot.index.postings.sentence_mentions_by_name.find_all(names[~common])
    if common.any():
        numbers = np.flatnonzero(common)
        more, name = context.nearest_mentions
        positions = invert_positions(names[numbers], len(mentioned))[name]
        rows_with_vector = np.flatnonzero(positions >= 0)
        rows = np.concatenate([rows, more[rows_with_vector]])
        position = np.concatenate(
            [np.flatnonzero(~common)[position], numbers[positions[rows_with_vector]]]
        )
    named_passages, called = snapshot.find_by_document_names(names)
    mention = snapshot.index.sentence_mentions
    row = np.concatenate(
        [mention.vector_row[rows], snapshot.index.passages.vector_start[named_passages]]
    )
    position = np.concatenate([position, called])
    likeness = _make_sortable_likeness(context, row)
    first = select_largest_of_groups(position, likeness, count)
    first = first[likeness[first] != LEAST_SORTABLE]
    is_mention = first < len(rows)
    passage_row = np.concatenate(
        [
            mention.passage_row[rows[first[is_mention]]],
            named_passages[first[~is_mention] - len(rows)],
        ]
    )
    row, position = row[first].astype(np.int64), position[first]
    times = np.where(is_mention, 1.0, NAME_WEIGHT)
    tied = (np.bincount(position) > count)[position]
    selected = np.arange(len(position))
    if tied.any():
        tied_rows = np.flatnonzero(tied)
        order = (
            -context.likeness.get_cosines(row[tied_rows]),
            snapshot.passage_ids[passage_row[tied_rows]],
            row[tied_rows],
        )
        best = select_first_of_groups(position[tied_rows], *order, count=count)
        selected = np.concatenate([np.flatnonzero(~tied), tied_rows[best]])
    selected = selected[np.argsort(position[selected], kind="stable")]
    return Mentions(
        passage_row[selected].astype(np.int64), row[selected], times[selected], position[selected]
    )


def _make_sortable_likeness(context: QueryContext, rows: Integers) -> NDArray[np.int32]:
    """Return (w,) integers with the same order as the likeness of these rows to the question.

    Invisible rows have LEAST_SORTABLE.
    """
    shown = take_flags(context.snapshot.statistics.visible.vectors, rows)
    if shown.all():
        return to_sortable(context.likeness.get_cosines(rows))
    like = np.full(len(rows), LEAST_SORTABLE)
    like[shown] = to_sortable(context.likeness.get_cosines(rows[shown]))
    return like


def _share_known_words(context: QueryContext, names: Integers, brought: NameTransitions) -> Floats:
    """Compute which share of the score at each name comes from passages with each word.

    Returns a (t, k) array for the t words of the query and the k names. Only the seeds' score
    counts.
    """
    name_position = invert_positions(names, len(context.snapshot.statistics.joins_documents))[
        brought.name
    ]
    has_position = np.flatnonzero(name_position >= 0)
    if not len(has_position):
        return np.zeros((len(context.coverage.share), len(names)))
    name_position, part, passage_row = (
        name_position[has_position],
        brought.share[has_position],
        brought.passage_row[has_position],
    )
    total = sum_exactly(part, name_position, len(names), SCORE_UNIT)
    has = context.coverage.select(passage_row)
    lines = [
        sum_exactly(part * line, name_position, len(names), SCORE_UNIT)
        / np.maximum(total, SCORE_UNIT)
        for line in has
    ]
    return np.array(lines).reshape(len(has), len(names))


def _scale_groups(weight: Floats, group: Integers) -> Floats:
    """Scale the weights so that each group sums to 1."""
    most = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(most, group, weight)
    relative = weight / np.maximum(most[group], _LEAST_WEIGHT)
    total = sum_exactly(relative, group, len(most), _WEIGHTS)
    shares: Floats = relative / np.maximum(total[group], _WEIGHTS)
    return shares
