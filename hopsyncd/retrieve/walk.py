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

from hopsyncd.index.columns import Floats, Integers, exact_sums
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import largest
from hopsyncd.retrieve.ways import (
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
        active = largest(mass, ids, settings.heaviest)
        active = active[mass[active] > 0]
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
    """The ways out of all passages that have sent mass so far, and what went along them."""

    def __init__(self, context: QueryContext, seeds: Floats, settings: WalkSettings) -> None:
        none = np.empty(0)
        self.edges = self.links = NO_WAYS
        self.leaving = self.arriving = self._brought = NO_NAMES
        self.flow = self.by_link = self.left = self.reached = none
        self._context = context
        self._seeds = seeds
        self._by = settings
        self._opened = np.zeros(len(seeds), dtype=np.bool_)
        self._reached = np.zeros(len(context.snapshot.statistics.joins), dtype=np.bool_)
        self._number_names()
        self._by_names = settings.by_names if context.snapshot.statistics.joins.any() else 0.0

    def open(self, entries: Integers) -> None:
        """Find the ways out of entries that have sent nothing before."""
        entries = entries[~self._opened[entries]]
        if not len(entries):
            return
        first = not self._opened.any()
        self._opened[entries] = True
        links = link_ways(self._context, entries, self._by)
        unlinked = np.where(np.isin(entries, links.start), 1 - self._by.by_links, 1.0)
        self.links = joined(self.links, links, self._by.by_links)
        edges = edge_ways(self._context, entries, self._by)
        of = np.argsort(entries)
        at = of[np.searchsorted(entries[of], edges.start)]
        self.edges = joined(self.edges, edges, (1 - self._by_names) * unlinked[at])
        names = leaving(self._context, entries)
        at = of[np.searchsorted(entries[of], names.entry)]
        self.leaving = joined(self.leaving, names, self._by_names * unlinked[at])
        if first:
            self._brought = joined(NO_NAMES, names, self._seeds[names.entry])
        fresh = np.unique(names.name[~self._reached[names.name]])
        if self._by_names and len(fresh):
            self._reached[fresh] = True
            more = arriving(self._context, fresh, self._brought, self._by)
            self.arriving = joined(self.arriving, more, 1.0)
        self._number_names()
        self.flow, self.by_link, self.left, self.reached = (
            np.concatenate([had, np.zeros(len(ways.share) - len(had))])
            for had, ways in (
                (self.flow, self.edges),
                (self.by_link, self.links),
                (self.left, self.leaving),
                (self.reached, self.arriving),
            )
        )

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

    def _number_names(self) -> None:
        """Number the names that mass may pass through, and the names in each document."""
        both = (self.leaving, self.arriving)
        name, home = (
            np.unique(np.concatenate([getattr(one, of) for one in both]), return_inverse=True)[1]
            for of in ("name", "home")
        )
        documents = int(home.max(initial=0)) + 1
        self._name = name
        self._in_document = np.unique(name * documents + home, return_inverse=True)[1]

    def _from_others(self, sent: Floats) -> Floats:
        """What each mention's name has from other documents than the mention's own."""
        count = len(sent)
        by_name, own = (
            exact_sums(sent, number[:count], int(number.max(initial=-1)) + 1, MASS)[number[count:]]
            for number in (self._name, self._in_document)
        )
        others: Floats = np.maximum(by_name - own, 0)
        return others
