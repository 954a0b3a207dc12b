"""The walk: HopRAG's traversal (Algorithm 1) with a deterministic reasoner in place of the LLM.

The paper asks an LLM at each visit which one out-edge to follow, and counts arrivals. Here the mass
at a passage flows along all its ways at once, in proportion to how well each answers the query;
what arrives at a passage in all rounds is the expected value of the paper's visit counter for a
reasoner that picks ways with those odds. There are three kinds of ways, and each takes its part.
All of them lead from one document to another: the passages of one document share its words and
names anyway, and mass that circles among them only repeats the seeds.

- edges, walked both ways: their pull, which is similarity * rarity * exp(sharpness * cos(query,
  context of the question)), times exp(gain * new), where `new` is the idf-weighted share of the
  query's words that the far passage has and the near one has not;
- names that two or more documents mention: mass leaves a passage by its names' rarity, and arrives
  at the passages that mention the name by exp(name_sharpness * cos(query, sentence)) *
  exp(gain * new); what would come back to its own document is lost;
- links, walked both ways, where a passage has any: to the passages of the linked document that
  answer the query best, by exp(link_sharpness * cos(query, far passage)) * exp(gain * new). A
  link's writer meant the document; which part of it matters, the query says.

The walk is local, so that a query costs what it touches: in each round only the `heaviest` passages
send their mass on, a name reaches only the `mentions` most like the query, and a link only the
`linked` best passages of its document. A passage sends nothing, and a name that nothing has passed
yet lets nothing pass, below `least_share` of what the seeds send first. docs/retrieval.md says what
each part buys, and that the limits cost nothing.

Every round damps the mass. Worked example without names: mass 1 at A, edges A-B (weight 3) and A-C
(weight 1), damping 0.5: after one hop B has 0.375 and C 0.125; after two, a quarter of A's mass has
come back.
"""

from dataclasses import dataclass

import numpy as np

from hopsyncd.index.arrays import Floats, Integers, expand_ranges, sum_exactly
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import largest
from hopsyncd.retrieve.transitions import (
    MASS,
    NO_NAMES,
    NO_WAYS,
    NameShares,
    Ways,
    arriving,
    edge_ways,
    joined,
    leaving,
    link_ways,
    mentions_of,
)
from hopsyncd.retrieve.walk_settings import WalkSettings

_OF_TOPIC = 2.0
_MENTION_SHARPNESS = 4.0
_SEEDS = 2.0**-32  # sums of the seeds' mass are exact in these units


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """What the walk left: `arrived` (n,) mass by entry, seeds included.

    edges, links: ways out of the passages that sent mass on; `flow` and `by_link` are what went
    along each. leaving, arriving: names of those, and the mentions they lead to; `left` is what
    each passage sent to the name, `reached` what each mention got.
    """

    arrived: Floats
    edges: Ways
    flow: Floats
    links: Ways
    by_link: Floats
    leaving: NameShares
    left: Floats
    arriving: NameShares
    reached: Floats


def seeds(context: QueryContext) -> Floats:
    """(n,) mass by entry that sums to 1.

    A softmax over the near passages, by the best cosine of each one's rows and its words, of 0 to
    1; and for each name of the query, by the square of its worth, mass on the passages that it is
    the topic of, and half as much on those that mention it, in the sentences most like the query. A
    name that is most of the query is what it is about; a small part of it may only be a word of it.
    """
    snapshot, near = context.snapshot, context.near
    mass = np.zeros(len(context.by_words))
    mass[near.entries] = _shares(np.exp(near.like - near.like.max()))
    for name, share in context.names.items():
        number = snapshot.find_name(name)
        for entries, part in (_by_topic(snapshot, number), _by_mention(context, number)):
            mass[entries] += share**2 * part
    return _shares(mass)


def _shares(mass: Floats) -> Floats:
    """Each part of the whole, which no order of the parts can change."""
    rounded = np.rint(mass / _SEEDS)
    shares: Floats = rounded / max(rounded.sum(), 1.0)
    return shares


def _by_topic(snapshot: Snapshot, name: int) -> tuple[Integers, Floats]:
    """The entries that a name is the topic of, and the mass it brings to each."""
    about = snapshot.find_by_topic(name)
    return about, np.full(len(about), _OF_TOPIC / max(len(about), 1))


def _by_mention(context: QueryContext, name: int) -> tuple[Integers, Floats]:
    """The entries that mention a name, and the mass it brings to each."""
    mentions = mentions_of(context, name)
    cosines = context.likeness.of_rows(mentions.vector_row).astype(np.float64)
    like = mentions.weight * np.exp(_MENTION_SHARPNESS * cosines)
    entries, of = np.unique(mentions.passage_row, return_inverse=True)
    return entries, _shares(sum_exactly(like, of, len(entries), _SEEDS))


def walk(context: QueryContext, seeds: Floats, settings: WalkSettings) -> Walked:
    """Let the (n,) seed mass flow."""
    walk = _Walk(context, seeds, settings)
    ids = context.snapshot.passage_ids[: len(seeds)]
    arrived, mass, least = seeds.copy(), seeds, None
    for _ in range(settings.hops):
        some = np.flatnonzero(mass > 0)
        active = some[largest(mass[some], ids[some], settings.heaviest)]
        sent = settings.damping * mass[active]
        if least is None:
            least = settings.least_share * float(sent.sum())
        sends = sent > least
        if not sends.any():
            break
        mass = walk.round(active[sends], sent[sends], least)
        arrived += mass
    return walk.walked(arrived)


class _Walk:
    """The ways out of all passages that have sent mass so far, and what went along them.

    `_sent` is what each passage has sent in all. Each name that mass passes through has a number,
    in the order in which they were reached; `_first` and `_end` are the rows of `_arriving` that
    each name leads to. `_own_sent` and `_own_got` pair what passages left for a name with its
    mentions in their own documents.
    """

    def __init__(self, context: QueryContext, seeds: Floats, settings: WalkSettings) -> None:
        no_rows = np.empty(0, dtype=np.int64)
        self._context = context
        self._seeds = seeds
        self._by = settings
        self._sent = np.zeros(len(seeds))
        self._opened = np.zeros(len(seeds), dtype=np.bool_)
        self._place = np.empty(len(seeds), dtype=np.int64)
        self._edges = self._links = NO_WAYS
        self._leaving = self._arriving = self._brought = NO_NAMES
        self._reached = np.empty(0)
        joins = context.snapshot.statistics.joins_documents
        self._by_names = settings.by_names if joins.any() else 0.0
        self._number = np.full(len(joins), -1, dtype=np.int64)
        self._first = self._end = no_rows
        self._unpaired = self._own_sent = self._own_got = no_rows

    def round(self, active: Integers, sent: Floats, least: float) -> Floats:
        """(n,) what arrives of the mass that the active entries send."""
        self._open(active)
        sending = np.zeros(len(self._sent))
        sending[active] = sent
        self._sent += sending
        moved = sending[self._edges.start] * self._edges.share
        linked = sending[self._links.start] * self._links.share
        got = self._through_names(sending, least)
        return sum_exactly(
            np.concatenate([moved, linked, got]),
            np.concatenate([self._edges.end, self._links.end, self._arriving.entry]),
            len(sending),
            MASS,
        )

    def walked(self, arrived: Floats) -> Walked:
        """All that went along the ways so far."""
        edges, links, leaving = self._edges, self._links, self._leaving
        return Walked(
            arrived,
            edges,
            self._sent[edges.start] * edges.share,
            links,
            self._sent[links.start] * links.share,
            leaving,
            self._sent[leaving.entry] * leaving.share,
            self._arriving,
            self._reached,
        )

    def _open(self, entries: Integers) -> None:
        """Find the ways out of entries that have sent nothing before."""
        entries = np.sort(entries[~self._opened[entries]])
        if not len(entries):
            return
        self._opened[entries] = True
        place = self._place
        place[entries] = np.arange(len(entries))
        links = link_ways(self._context, entries, place, self._by)
        unlinked = np.ones(len(entries))
        unlinked[place[links.start]] = 1 - self._by.by_links
        self._links = joined(self._links, links, self._by.by_links)
        edges = edge_ways(self._context, entries, place, self._by)
        part = (1 - self._by_names) * unlinked[place[edges.start]]
        self._edges = joined(self._edges, edges, part)
        if self._by_names:
            names = leaving(self._context, entries)
            part = self._by_names * unlinked[place[names.entry]]
            before = len(self._leaving.name)
            self._leaving = joined(self._leaving, names, part)
            self._unpaired = np.concatenate(
                [self._unpaired, np.arange(before, len(self._leaving.name))]
            )
            if not before:
                self._brought = joined(NO_NAMES, names, self._seeds[names.entry])

    def _through_names(self, sending: Floats, least: float) -> Floats:
        """What each mention's name has from other documents than the mention's own."""
        sent = sending[self._leaving.entry] * self._leaving.share
        by_name = sum_exactly(sent, self._leaving.name, len(self._number), MASS)
        fresh = np.flatnonzero((by_name > least) & (self._number < 0))
        if len(fresh):
            self._reach(fresh)
        self._pair()
        own = sum_exactly(sent[self._own_sent], self._own_got, len(self._arriving.name), MASS)
        got: Floats = np.maximum(by_name[self._arriving.name] - own, 0) * self._arriving.share
        self._reached += got
        return got

    def _reach(self, names: Integers) -> None:
        known, rows = len(self._first), len(self._arriving.name)
        self._number[names] = known + np.arange(len(names))
        more, of = arriving(self._context, names, self._brought, self._by)
        self._arriving = joined(self._arriving, more, 1.0)
        self._reached = np.concatenate([self._reached, np.zeros(len(of))])
        end = rows + np.cumsum(np.bincount(of, minlength=len(names)))
        self._first = np.concatenate([self._first, [rows], end[:-1]])
        self._end = np.concatenate([self._end, end])

    def _pair(self) -> None:
        """Find the mentions, in the own document, of names that passages left for them."""
        number = self._number[self._leaving.name[self._unpaired]]
        entered = number >= 0
        if not entered.any():
            return
        sender, number = self._unpaired[entered], number[entered]
        self._unpaired = self._unpaired[~entered]
        at, of = expand_ranges(self._first[number], self._end[number])
        own = np.flatnonzero(self._arriving.home[at] == self._leaving.home[sender[of]])
        self._own_sent = np.concatenate([self._own_sent, sender[of[own]]])
        self._own_got = np.concatenate([self._own_got, at[own]])
