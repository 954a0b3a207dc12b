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
`linked` best passages of its document. docs/retrieval.md says what each part buys, and that the
limits cost nothing.

Every round damps the mass. Worked example without names: mass 1 at A, edges A-B (weight 3) and A-C
(weight 1), damping 0.5: after one hop B has 0.375 and C 0.125; after two, a quarter of A's mass has
come back.
"""

from dataclasses import dataclass

import numpy as np

from hopsyncd.index.columns import Floats, Integers, exact_sums, ranges
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import largest
from hopsyncd.retrieve.ways import (
    MASS,
    NO_NAMES,
    NO_WAYS,
    NameShares,
    Nearness,
    Ways,
    arriving,
    edge_ways,
    joined,
    leaving,
    link_ways,
)


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """How the mass flows; `hops` is the number of rounds.

    `by_links` is the part that links take of a passage that has any, `by_names` what names take of
    the rest. `backwards` weighs edges that are walked against their direction: at 0 they are
    directed. `heaviest`, `mentions` and `linked` bound the work.
    """

    hops: int = 4
    damping: float = 0.5
    backwards: float = 1.0
    sharpness: float = 8.0
    name_sharpness: float = 2.0
    gain: float = 8.0
    by_names: float = 0.8
    link_sharpness: float = 8.0
    by_links: float = 0.4
    heaviest: int = 100
    mentions: int = 10
    linked: int = 3


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


def walk(context: QueryContext, seeds: Floats, settings: WalkSettings) -> Walked:
    """Let the (n,) seed mass flow."""
    walk = _Walk(context, seeds, settings)
    ids = context.snapshot.ids[: len(seeds)]
    arrived, mass = seeds.copy(), seeds
    for _ in range(settings.hops):
        some = np.flatnonzero(mass)
        active = some[largest(mass[some], ids[some], settings.heaviest)]
        walk.open(active)
        sending = np.zeros(len(seeds))
        sending[active] = settings.damping * mass[active]
        mass = walk.spread(sending)
        arrived += mass
    return Walked(
        arrived,
        walk.edges,
        walk.flow,
        walk.links,
        walk.by_link,
        walk.leaving,
        walk.left,
        walk.arriving,
        walk.reached,
    )


class _Walk:
    """The ways out of all passages that have sent mass so far, and what went along them.

    Each name that mass may pass through has a number, in the order in which they were reached;
    `_first` and `_end` are the rows of `arriving` that each name leads to.
    """

    def __init__(self, context: QueryContext, seeds: Floats, settings: WalkSettings) -> None:
        none, no_rows = np.empty(0), np.empty(0, dtype=np.int64)
        self.edges = self.links = NO_WAYS
        self.leaving = self.arriving = self._brought = NO_NAMES
        self.flow = self.by_link = self.left = self.reached = none
        self._context = context
        self._seeds = seeds
        self._by = settings
        self._opened = np.zeros(len(seeds), dtype=np.bool_)
        joins = context.snapshot.statistics.joins
        self._by_names = settings.by_names if joins.any() else 0.0
        self._near = Nearness(context)
        self._number = np.full(len(joins), -1, dtype=np.int64)
        self._first = self._end = no_rows
        self._sender = self._receiver = no_rows
        self._own_sent = self._own_got = no_rows

    def open(self, entries: Integers) -> None:
        """Find the ways out of entries that have sent nothing before."""
        entries = np.sort(entries[~self._opened[entries]])
        if not len(entries):
            return
        self._opened[entries] = True
        links = link_ways(self._context, entries, self._by)
        unlinked = np.ones(len(entries))
        unlinked[np.searchsorted(entries, links.start)] = 1 - self._by.by_links
        self.links = joined(self.links, links, self._by.by_links)
        edges = edge_ways(self._context, entries, self._by)
        part = (1 - self._by_names) * unlinked[np.searchsorted(entries, edges.start)]
        self.edges = joined(self.edges, edges, part)
        if self._by_names:
            self._open_names(entries, unlinked)
        self.flow, self.by_link, self.left, self.reached = (
            np.concatenate([had, np.zeros(len(ways.share) - len(had))])
            for had, ways in (
                (self.flow, self.edges),
                (self.by_link, self.links),
                (self.left, self.leaving),
                (self.reached, self.arriving),
            )
        )

    def _open_names(self, entries: Integers, unlinked: Floats) -> None:
        names = leaving(self._context, entries)
        part = self._by_names * unlinked[np.searchsorted(entries, names.entry)]
        before = len(self.leaving.name)
        self.leaving = joined(self.leaving, names, part)
        if not before:
            self._brought = joined(NO_NAMES, names, self._seeds[names.entry])
        fresh = np.unique(names.name[self._number[names.name] < 0])
        if len(fresh):
            self._reach(fresh)
        number = self._number[names.name]
        at, of = ranges(self._first[number], self._end[number])
        own = np.flatnonzero(self.arriving.home[at] == names.home[of])
        self._sender = np.concatenate([self._sender, number])
        self._own_sent = np.concatenate([self._own_sent, before + of[own]])
        self._own_got = np.concatenate([self._own_got, at[own]])

    def _reach(self, names: Integers) -> None:
        known, rows = len(self._first), len(self.arriving.name)
        self._number[names] = known + np.arange(len(names))
        more, of = arriving(self._context, names, self._brought, self._near, self._by)
        self.arriving = joined(self.arriving, more, 1.0)
        self._receiver = np.concatenate([self._receiver, known + of])
        end = rows + np.cumsum(np.bincount(of, minlength=len(names)))
        self._first = np.concatenate([self._first, [rows], end[:-1]])
        self._end = np.concatenate([self._end, end])

    def spread(self, sending: Floats) -> Floats:
        """(n,) what arrives of the mass that entries send."""
        moved = sending[self.edges.start] * self.edges.share
        linked = sending[self.links.start] * self.links.share
        sent = sending[self.leaving.entry] * self.leaving.share
        got = self._from_others(sent) * self.arriving.share
        self.flow += moved
        self.by_link += linked
        self.left += sent
        self.reached += got
        return exact_sums(
            np.concatenate([moved, linked, got]),
            np.concatenate([self.edges.end, self.links.end, self.arriving.entry]),
            len(sending),
            MASS,
        )

    def _from_others(self, sent: Floats) -> Floats:
        """What each mention's name has from other documents than the mention's own."""
        by_name = exact_sums(sent, self._sender, len(self._first), MASS)[self._receiver]
        own = exact_sums(sent[self._own_sent], self._own_got, len(self._receiver), MASS)
        others: Floats = np.maximum(by_name - own, 0)
        return others
