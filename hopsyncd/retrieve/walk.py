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
- names that two or more passages mention: mass leaves a passage by its names' rarity, and arrives
  at the passages that mention the name by exp(name_sharpness * cos(query, sentence)) *
  exp(gain * new); what would come back to its own document is lost;
- links, walked both ways, where a passage has any: to the passages of the linked document that
  answer the query best, by exp(link_sharpness * cos(query, far passage)) * exp(gain * new). A
  link's writer meant the document; which part of it matters, the query says.

Every round damps the mass. Worked example without names: mass 1 at A, edges A-B (weight 3) and A-C
(weight 1), damping 0.5: after one hop B has 0.375 and C 0.125; after two, a quarter of A's mass has
come back. docs/retrieval.md says what each part buys.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.names import Mentions
from hopsyncd.index.view import GraphView

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TINY = np.finfo(np.float64).tiny
_LINKED = 3  # so many passages of a linked document


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """How the mass flows; `hops` is the number of rounds.

    `by_links` is the part that links take of a passage that has any, `by_names` what names take of
    the rest. `backwards` weighs edges that are walked against their direction: at 0 they are
    directed.
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


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Which of the query's t terms each passage has.

    share: (t,) idf, summing to 1. has: (t, n) of 0 and 1.
    """

    share: Floats
    has: Floats


@dataclass(frozen=True, slots=True, eq=False)
class LinkWays:
    """The w ways that links are for one query; `back` is whether each leads against its link.

    start, end: (w,) positions among the passages. link: (w,) which link each is.
    """

    start: Integers
    end: Integers
    link: Integers
    back: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """What the walk left: `arrived` (n,) mass by passage, seeds included.

    `flow` is (2e,): what went along each edge forwards, then along each edge backwards.
    `left` and `reached` are (b,): what each bridging mention sent to its name, and got from it.
    `by_link` is (w,): what went along each of the `link_ways`.
    """

    arrived: Floats
    flow: Floats
    left: Floats
    reached: Floats
    link_ways: LinkWays
    by_link: Floats


def walk(
    view: GraphView, seeds: Floats, cosines: Floats, coverage: Coverage, settings: WalkSettings
) -> Walked:
    """Let the (n,) seed mass flow; `cosines` are (r,), of the query with every row of the view."""
    count, names = len(view.passage), view.mentions
    start = np.concatenate([view.source, view.target])
    end = np.concatenate([view.target, view.source])
    at = names.passage[names.bridge]
    ways = link_ways(view, cosines, coverage)
    unlinked = np.ones(count)
    unlinked[ways.start] = 1 - settings.by_links
    by_names = settings.by_names if len(names.bridge) else 0.0
    along = (1 - by_names) * _edge_shares(view, start, cosines, coverage, settings)
    along *= unlinked[start]
    leave = by_names * names.share * unlinked[at]
    reach = _name_shares(names, seeds, cosines, coverage, settings)
    over = settings.by_links * _link_shares(view, ways, cosines, coverage, settings)
    mass: Floats = seeds
    arrived = seeds.copy()
    flow, left, reached = np.zeros(len(start)), np.zeros(len(at)), np.zeros(len(at))
    by_link = np.zeros(len(over))
    for _ in range(settings.hops):
        mass = settings.damping * mass
        moved, sent, linked = mass[start] * along, mass[at] * leave, mass[ways.start] * over
        got = _from_others(names, sent) * reach
        arriving = np.bincount(end, moved, count) + np.bincount(at, got, count)
        arriving = arriving + np.bincount(ways.end, linked, count)
        mass = arriving.astype(np.float64, copy=False)
        arrived += mass
        flow += moved
        left += sent
        reached += got
        by_link += linked
    return Walked(arrived, flow, left, reached, ways, by_link)


def link_ways(view: GraphView, cosines: Floats, coverage: Coverage) -> LinkWays:
    """The ways by links for one query: onwards first, then back."""
    links, document = view.links, view.document
    if not len(links.source):
        return LinkWays(links.source, links.target, links.source, np.empty(0, dtype=np.bool_))
    pairs = np.stack([links.source, document[links.target]], 1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    link = first[document[links.source[first]] != document[links.target[first]]]
    like = cosines[view.passage_row] + coverage.share @ coverage.has
    order = np.lexsort((view.passage, -like, document))
    place = np.arange(len(order)) - np.searchsorted(document[order], document[order])
    best = order[place < _LINKED]
    meant = document[links.target[link]]
    begin = np.searchsorted(document[best], meant)
    count = np.searchsorted(document[best], meant, "right") - begin
    number = np.repeat(link, count)
    within = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
    source, target = links.source[number], best[np.repeat(begin, count) + within]
    return LinkWays(
        np.concatenate([source, target]),
        np.concatenate([target, source]),
        np.concatenate([number, number]),
        np.arange(2 * len(number)) >= len(number),
    )


def _from_others(names: Mentions, sent: Floats) -> Floats:
    """(b,) what each mention's name has from other documents than the mention's own."""
    by_name = np.bincount(names.bridge_name, sent)[names.bridge_name]
    own = np.bincount(names.bridge_document, sent)[names.bridge_document]
    others: Floats = np.maximum(by_name - own, 0)
    return others


def pull_of(view: GraphView, cosines: Floats, settings: WalkSettings) -> Floats:
    """(e,) how strongly each edge draws, whichever way it is walked, before what is new.

    Never negative: where the budget admits every match, some have a similarity below 0.
    """
    likeness = np.maximum(view.similarity, 0)
    pull: Floats = likeness * view.rarity * np.exp(settings.sharpness * cosines[view.context_row])
    return pull


def _edge_shares(
    view: GraphView,
    start: Integers,
    cosines: Floats,
    coverage: Coverage,
    settings: WalkSettings,
) -> Floats:
    """(2e,) the part of a passage's mass that each directed edge takes."""
    apart = view.document[view.source] != view.document[view.target]
    pull = pull_of(view, cosines, settings) * apart
    weight = np.concatenate([pull, settings.backwards * pull])
    if len(coverage.share):
        new = _new_along(view.source, view.target, coverage)
        weight = weight * np.exp(settings.gain * new)
    return _shares(weight, start, len(view.passage))


def _link_shares(
    view: GraphView,
    ways: LinkWays,
    cosines: Floats,
    coverage: Coverage,
    settings: WalkSettings,
) -> Floats:
    """(w,) the part of what leaves a passage by links that each way takes."""
    weight = np.exp(settings.link_sharpness * cosines[view.passage_row[ways.end]])
    if len(coverage.share):
        onwards = ~ways.back
        new = _new_along(ways.start[onwards], ways.end[onwards], coverage)
        weight = weight * np.exp(settings.gain * new)
    return _shares(weight, ways.start, len(view.passage))


def _shares(weight: Floats, start: Integers, count: int) -> Floats:
    """Each way's part of all that leads from the same of the `count` passages."""
    leaving = np.bincount(start, weight, count)
    shares: Floats = weight / np.maximum(leaving[start], _TINY)
    return shares


def _new_along(source: Integers, target: Integers, coverage: Coverage) -> Floats:
    """(2w,) the share of the query's words that the far end of each of w ways adds, both ways."""
    total = coverage.share @ coverage.has
    common = coverage.share @ (coverage.has[:, source] * coverage.has[:, target])
    return np.concatenate([total[target] - common, total[source] - common])


def _name_shares(
    names: Mentions, seeds: Floats, cosines: Floats, coverage: Coverage, settings: WalkSettings
) -> Floats:
    """(b,) the part of a name's mass that each mention gets.

    What is new is measured against what the seeds bring to the name, once for the whole walk.
    """
    at = names.passage[names.bridge]
    weight = np.exp(settings.name_sharpness * cosines[names.row[names.bridge]])
    if len(coverage.share) and len(at):
        brought = seeds[at] * names.share
        total = np.maximum(np.bincount(names.bridge_name, brought), _TINY)
        new = np.zeros(len(at))
        for share, has in zip(coverage.share, coverage.has, strict=True):
            known = np.bincount(names.bridge_name, brought * has[at]) / total
            new += share * np.maximum(has[at] - known[names.bridge_name], 0)
        weight = weight * np.exp(settings.gain * new)
    arriving = np.bincount(names.bridge_name, weight)
    shares: Floats = weight / np.maximum(arriving[names.bridge_name], _TINY)
    return shares
