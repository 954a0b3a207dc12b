"""What the answer to a question rests on, and whether a newer version touches it.

Nearly all mass of a walk passes through a small part of a large collection. A version that changes
nothing there, and adds nothing that the question would begin at or the walk would reach, leaves its
outcome as it is: up to the statistics of the whole collection, in which one passage more or less
counts by its share, to what flows elsewhere, and to sentences of a story that are left out of the
question, for nothing was like them. So a question is asked again where its footprint is touched,
and where so many passages came or went since it was last asked that the closest two of those it
found may change places, at the latest at one in a hundred. In a small collection, that is always.
Two that may change places without another outcome do not count: what is told of a question is the
same in either order.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import Floats, Int32s, Integers, expand_ranges
from hopsyncd.index.live_index import LiveIndex, name_key
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.likeness import OF_LIKENESS, OF_WORDS
from hopsyncd.retrieve.query_context import K1, B, QueryContext
from hopsyncd.retrieve.ranking import (
    AHEAD,
    FUSION_DEPTH,
    Helpful,
    importance_of,
    largest,
    most_helpful,
    plain_order,
    reached,
    with_plain,
)
from hopsyncd.retrieve.walk import Walked
from store.records import Vectors

_DRIFT = 100  # one passage in so many
_SWAY = 3  # by so many times its share a passage elsewhere may change what another is worth
_LEAST_FLOW = 1e-3  # of all mass: where less of it passed, a change moves no first passage
_LEAST_SENT = 1e-2  # an edge or a link takes a fifth of a passage's mass at most, mostly far less
_LEAST_BY_NAME = 5e-3  # what passed through a name is shared by all that mention it
_DEPTH = 20
_SOON = 20  # passages that came or went: who may change places only later is looked at then
_MOST_TIES = 3
_BESIDE = 4  # places behind those found whose passages may come among them
_A_LITTLE_LESS = 1 - 1e-9
_A_LITTLE_MORE = 1.05


class Tie(NamedTuple):
    """An entry that leads over the next by a small share of its worth, and the entries that would
    be found if it did not: `alone`, or `together` with those that lead by less."""

    lead: float
    alone: tuple[int, ...] = ()
    together: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Of a question at a version: the entries and the names that its walk went through, rising.

    question: with what was meant by its typos.
    heavy: the entries that send enough for one edge of theirs to matter.
    terms: the question's terms by key, with their shares of its idf. likeness: the least of a seed
    that counts. near, worded: the least cosine and part of the words with which a passage comes
    before one found. ties: the smallest leads of a passage found over the next. lead: the least
    that may decide about the outcome. None of this outlives the index that it was taken from.
    """

    question: str
    snapshot: Snapshot
    vector: Vectors
    entries: Integers
    heavy: Integers
    names: Integers
    terms: Mapping[int, float]
    likeness: float
    near: float
    worded: float
    ties: Sequence[Tie]
    lead: float

    @classmethod
    def of(
        cls, question: str, context: QueryContext, vector: Vectors, walked: Walked, k: int
    ) -> Self:
        """What the walk went through, and what came close to it."""
        snapshot = context.snapshot
        first = largest(walked.scores, snapshot.passage_ids, _DEPTH)
        arrived = walked.scores
        names, at = np.unique(walked.outgoing_names.name, return_inverse=True)
        flow = np.bincount(at, walked.outgoing_flow, minlength=len(names))
        like = context.near.like
        best = float(like.max())
        whole = float(np.exp(like - best).sum())
        own = [snapshot.find_name(name) for name in context.names]
        order = _Order(context, walked)
        plain, near, worded = order.contested(k)
        closest = _ties(order, k)
        return cls(
            question,
            snapshot,
            vector,
            np.union1d(np.flatnonzero(arrived >= _LEAST_FLOW), np.union1d(first, plain)),
            np.flatnonzero(arrived >= _LEAST_SENT),
            np.union1d(names[flow >= _LEAST_BY_NAME], np.array(own, dtype=np.int64)),
            {name_key(term): share for term, share in context.terms.items()},
            best + math.log(whole * _LEAST_FLOW),
            near,
            worded,
            closest,
            closest[0].lead,
        )

    def settled(self, is_same: Callable[[tuple[int, ...]], bool]) -> Self:
        """With the least lead that decides about the outcome; `is_same` says whether entries that
        are found instead have the same one."""
        deciding = (
            one.lead
            for one in self.ties
            if not (one.alone and is_same(one.alone) and is_same(one.together))
        )
        return replace(self, lead=next(deciding, 1.0))


def is_touched(footprint: Footprint, now: Snapshot) -> bool:
    """Whether the question may have another outcome at this later version."""
    before, index = footprint.snapshot, now.index
    if index is not before.index:
        return True
    intervals = index.passage_intervals
    entry, born, died = intervals.passage_row, intervals.born, intervals.died
    span = (before.version.id, now.version.id)
    came = entry[_within(born, span) & (died > span[1])].astype(np.int64)
    went = entry[_within(died, span) & (born <= span[0])].astype(np.int64)
    drift = (len(came) + len(went)) / before.statistics.passages
    if drift > min(1 / _DRIFT, footprint.lead / _SWAY):
        return True
    placed = np.concatenate([went, _placed_otherwise(before, now, span)])
    joined = np.concatenate([_matched_otherwise(before, now), _linked_otherwise(now, span)])
    if np.isin(placed, footprint.entries).any() or np.isin(joined, footprint.heavy).any():
        return True
    if _mentions(footprint, index, np.concatenate([came, went])):
        return True
    return len(came) > 0 and _draws(footprint, index, came)


class _Order:
    """The last ranking, to be done again with other worths."""

    def __init__(self, context: QueryContext, walked: Walked) -> None:
        self.snapshot = context.snapshot
        self._context = context
        self._plain = plain_order(context)
        self.worth = importance_of(context, reached(context, walked.scores))

    def helpful(self, worth: Floats) -> list[Helpful]:
        ids, home = self.snapshot.passage_ids, self.snapshot.statistics.visible.document_of_row
        return most_helpful(worth, ids, home, self._context.coverage, FUSION_DEPTH)

    def found(self, worth: Floats, k: int) -> tuple[int, ...]:
        ranked = with_plain(self.helpful(worth), self._plain, self.snapshot.passage_ids)
        return tuple(one.position for one in ranked[:k])

    def contested(self, k: int) -> tuple[Integers, float, float]:
        """What comes first by the plain searches, as far as that decides about the k found; and the
        least cosine and part of the words with which a new passage would come among them."""
        plain = self._plain
        place = {entry: at for at, entry in enumerate(plain)}
        some = [one for one in self.found(self.worth, k + _BESIDE)[AHEAD:] if one in place]
        if not some:
            return np.empty(0, dtype=np.int64), np.inf, np.inf
        ahead = np.array(plain[: max(place[one] for one in some) + 1], dtype=np.int64)
        words, visible = self._context.by_words, self.snapshot.statistics.visible.passages
        cosines = np.where(visible, 0.0, -1.0)
        cosines[visible] = self._context.first_cosines(np.flatnonzero(visible))
        return ahead, _least_ranked(cosines, some), _least_ranked(words, some)


def _least_ranked(values: Floats, some: Sequence[int]) -> float:
    """The least value of those that a plain search ranks; more than any where it ranks none."""
    depth = min(FUSION_DEPTH, len(values))
    least = max(float(np.partition(values, -depth)[-depth]), 1e-9)
    own = values[list(some)]
    return float(own[own >= least].min(initial=np.inf))


def _ties(order: _Order, k: int) -> list[Tie]:
    """The smallest leads among what is found, rising; the last is not looked at."""
    soon = min(_SOON / order.snapshot.statistics.passages, 1 / _DRIFT) * _SWAY
    together, told = order.worth.copy(), list[Tie]()
    for one in sorted(order.helpful(order.worth)[:k], key=lambda one: one.lead):
        if one.lead > soon or len(told) == _MOST_TIES:
            return [*told, Tie(one.lead)]
        alone = order.worth.copy()
        for less in (alone, together):
            less[one.position] *= (1 - one.lead) * _A_LITTLE_LESS
        told.append(Tie(one.lead, order.found(alone, k), order.found(together, k)))
    return told


def _within(column: Int32s, span: tuple[int, int]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (column > span[0]) & (column <= span[1])
    return found


def _matched_otherwise(before: Snapshot, now: Snapshot) -> Integers:
    """The entries whose edges may differ: by a match that came or went, or by the cut."""
    index, span = now.index, (before.version.id, now.version.id)
    matches = index.matches
    out, into, similarity = matches.source_question, matches.target_question, matches.similarity
    born, died = matches.born, matches.died
    cuts = [one.version.cut for one in (before, now)]
    least = [one.similarity if one else -np.inf for one in cuts]
    changed = (_within(born, span) | _within(died, span)) & (similarity >= min(least))
    if cuts[0] != cuts[1]:
        alive = (born <= span[1]) & (died > span[1])
        changed |= alive & (similarity >= min(least)) & (similarity <= max(least))
    return np.concatenate(
        [index.outgoing.passage_row[out[changed]], index.incoming.passage_row[into[changed]]]
    ).astype(np.int64)


def _placed_otherwise(before: Snapshot, now: Snapshot, span: tuple[int, int]) -> Integers:
    """The entries that are counted to another document, or have other names from theirs."""
    index = now.index
    homes = before.statistics.visible.document_of_number, now.statistics.visible.document_of_number
    known = len(homes[0])
    moved = np.flatnonzero(homes[0] != homes[1][:known])
    names = index.document_names  # before the documents that they refer to: a writer may append
    born, died = index.documents.born, index.documents.died
    document = names.document_row
    named = names.passage_number.astype(np.int64) << 32 | names.name
    came, went = (
        named[np.isin(document, np.flatnonzero(_within(one, span)))] for one in (born, died)
    )
    renamed = np.setxor1d(came, went) >> 32
    return _entries_of(index, np.union1d(moved, renamed))


def _linked_otherwise(now: Snapshot, span: tuple[int, int]) -> Integers:
    """The entries at the ends of links that came or went."""
    edges = now.index.link_edges
    source, target, born, died = edges.source_passage, edges.target_passage, edges.born, edges.died
    changed = _within(born, span) | _within(died, span)
    return _entries_of(now.index, np.concatenate([source[changed], target[changed]]))


def _entries_of(index: LiveIndex, numbers: Integers) -> Integers:
    return index.postings.passages_by_number.find_all(np.unique(numbers).astype(np.int64))[0]


def _mentions(footprint: Footprint, index: LiveIndex, entries: Integers) -> bool:
    """Whether the walk went through a name of these entries: one more or less has a share of it."""
    columns = index.passages
    rows, _ = expand_ranges(
        columns.sentence_mention_start[entries], columns.sentence_mention_end[entries]
    )
    if np.isin(index.sentence_mentions.name[rows], footprint.names).any():
        return True
    rows, _ = expand_ranges(columns.mention_start[entries], columns.mention_end[entries])
    return bool(np.isin(index.mentions.name[rows], footprint.names).any())


def _draws(footprint: Footprint, index: LiveIndex, came: Integers) -> bool:
    """Whether the question would begin at one of these new entries, or a plain search find it."""
    (best, whole), words = _cosines(footprint, index, came), _words(footprint, index, came)
    if (whole >= footprint.near).any() or (words >= footprint.worded).any():
        return True
    return bool((OF_LIKENESS * best + OF_WORDS * words > footprint.likeness).any())


def _cosines(footprint: Footprint, index: LiveIndex, entries: Integers) -> tuple[Floats, Floats]:
    """(m,) of the question with the best row of each entry, and with that of the whole passage."""
    columns, exact = index.passages, index.vectors.exact
    vector = footprint.vector.astype(np.float64)
    best, whole = np.zeros(len(entries)), np.zeros(len(entries))
    for at, entry in enumerate(entries.tolist()):
        rows = exact[int(columns.vector_start[entry]) : int(columns.vector_end[entry])]
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1) * np.linalg.norm(vector)
        cosines = (rows @ vector) / np.maximum(lengths, 1e-9)
        best[at], whole[at] = cosines.max(initial=0.0), cosines[0]
    return best, whole


def _words(footprint: Footprint, index: LiveIndex, entries: Integers) -> Floats:
    """(m,) BM25 of each entry as a share of the most that one could have, and a little more, as the
    statistics may have moved a little since."""
    keys = np.array(list(footprint.terms), dtype=np.int64)
    shares = np.array(list(footprint.terms.values()))
    rows, of = index.postings.terms_by_key.find_all(keys)
    having, counts = index.terms.passage_row[rows], index.terms.count[rows]
    counted = footprint.snapshot.statistics
    mean = max(counted.words / max(counted.passages, 1), 1.0)
    saturation = K1 * (1 - B + B * index.passages.word_count[having] / mean)
    parts = shares[of] * counts / (counts + saturation)
    order = np.argsort(entries)
    at = np.searchsorted(entries[order], having)
    there = at < len(entries)
    there[there] &= entries[order][at[there]] == having[there]
    found = np.zeros(len(entries))
    np.add.at(found, order[at[there]], parts[there])
    return found * _A_LITTLE_MORE
