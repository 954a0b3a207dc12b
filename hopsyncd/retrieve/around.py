"""What lies around a passage, and the ways between two: along edges and links, and by names.

Edges and links lead either way. Edges come first, the most similar foremost; then links; then
names, of which those that the fewest mention.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.view import GraphView

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_OFFERED = 50  # ways out of a passage that a search for paths looks at
_MAX_TURNS = 500  # passages that it leaves, however many ways there are


@dataclass(frozen=True, slots=True)
class Joint:
    """What joins one position of the view to another.

    asked_by: the end that asks the question of the `edge`, or "both" for the name that both
    mention, or whether a link leads onwards or back. name: that name, or what the link shows.
    """

    start: int
    end: int
    asked_by: Literal["from", "to", "both", "link", "backlink"]
    edge: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """The positions found, each with its distance, nearest first; and how they are joined."""

    distance: dict[int, int]
    joints: list[Joint]


def around(view: GraphView, start: int, hops: int, limit: int) -> Around:
    """The passage at `start` and at most `limit` others, at most `hops` away.

    Joined by all edges and links among them; where none leads nearer to the start, by a name that
    does.
    """
    distance = {start: 0}
    nearest = [start]
    for hop in range(1, hops + 1):
        nearness = _nearness(view, nearest)
        nearness[list(distance)] = 0
        found = np.flatnonzero(nearness)
        best = found[np.lexsort((found, -nearness[found]))]
        nearest = best[: limit + 1 - len(distance)].tolist()
        distance |= dict.fromkeys(nearest, hop)
    inside = np.zeros(len(view.passage), dtype=bool)
    inside[list(distance)] = True
    edges = np.flatnonzero(inside[view.source] & inside[view.target])
    edges = edges[np.lexsort((view.question[edges], -view.similarity[edges]))]
    joints = [
        Joint(int(view.source[edge]), int(view.target[edge]), "from", edge)
        for edge in edges.tolist()
    ]
    links = view.links
    joints += [
        Joint(int(links.source[link]), int(links.target[link]), "link", None, links.shown[link])
        for link in np.flatnonzero(inside[links.source] & inside[links.target]).tolist()
    ]
    return Around(distance, joints + _named(view, inside, distance, joints))


def _named(
    view: GraphView, inside: NDArray[np.bool_], distance: dict[int, int], joints: list[Joint]
) -> list[Joint]:
    """For each passage that none of these joins to a nearer one, the rarest name that does."""
    joined = {
        far
        for one in joints
        for near, far in ((one.start, one.end), (one.end, one.start))
        if distance[near] < distance[far]
    }
    names = view.mentions
    at, sizes = names.passage[names.bridge], np.bincount(names.bridge_name)
    found = np.flatnonzero(inside[at])
    by_name: dict[int, list[int]] = {}
    by_passage: dict[int, set[int]] = {}
    for position, name in zip(at[found].tolist(), names.bridge_name[found].tolist(), strict=True):
        by_name.setdefault(name, []).append(position)
        by_passage.setdefault(position, set()).add(name)
    spelled = {name: one for one, name in zip(found, names.bridge_name[found], strict=True)}
    made = []
    for far in sorted(distance.keys() - joined, key=lambda one: (distance[one], one)):
        ways = [
            (int(sizes[name]), near, name)
            for name in by_passage.get(far, ())
            for near in by_name[name]
            if distance[near] == distance[far] - 1
        ]
        if ways:
            _, near, name = min(ways)
            made.append(Joint(near, far, "both", None, _spelled(view, int(spelled[name]))))
    return made


def paths(view: GraphView, start: int, end: int, max_hops: int, limit: int) -> list[list[Joint]]:
    """At most `limit` ways from start to end that visit nothing twice, the shortest first.

    Where there are very many, longer ones may be missing: the work is bounded.
    """
    left = _distances(view, end, max_hops)
    if start == end or left[start] < 0:
        return []
    search = _PathSearch(view, left, end, limit)
    for length in range(int(left[start]), max_hops + 1):
        search.extend([], start, length)
    return search.found


class _PathSearch:
    """Depth first, over ways that can still reach the end; `left` (n,) says how far that is."""

    def __init__(self, view: GraphView, left: Integers, end: int, limit: int) -> None:
        self.found: list[list[Joint]] = []
        self._view = view
        self._left = left
        self._end = end
        self._limit = limit
        self._turns = 0
        self._offered: dict[tuple[int, int], list[Joint]] = {}

    def extend(self, path: list[Joint], at: int, hops: int) -> None:
        """Find what continues the path from `at` to the end in so many hops."""
        passed = {joint.start for joint in path}
        for joint in self._onwards(at, hops):
            if len(self.found) >= self._limit or self._turns >= _MAX_TURNS:
                return
            if joint.end in passed:
                continue
            if hops == 1:
                self.found.append([*path, joint])
            elif joint.end != self._end:
                self._turns += 1
                self.extend([*path, joint], joint.end, hops - 1)

    def _onwards(self, at: int, hops: int) -> list[Joint]:
        """The best ways to passages from which the end is near enough, one for each of them."""
        if (at, hops) not in self._offered:
            near = _nearness(self._view, [at])
            near[(self._left < 0) | (self._left >= hops)] = 0
            near[at] = 0
            found = np.flatnonzero(near)
            best = found[np.lexsort((found, -near[found]))][:_OFFERED]
            self._offered[at, hops] = [_joint(self._view, at, end) for end in best.tolist()]
        return self._offered[at, hops]


def _joint(view: GraphView, start: int, end: int) -> Joint:
    """The best between two passages that are joined."""
    ways = view.ways.both(start)
    ways = ways[[view.ways.end(int(way)) == end for way in ways]]
    if len(ways):
        similarity = view.similarity[ways % len(view.source)]
        back, edge = divmod(int(ways[np.lexsort((ways, -similarity))[0]]), len(view.source))
        return Joint(start, end, "to" if back else "from", edge)
    links = view.links
    linked = np.flatnonzero((links.start == start) & (links.end == end))
    if len(linked):
        back, link = divmod(int(linked[0]), len(links.shown))
        return Joint(start, end, "backlink" if back else "link", None, links.shown[link])
    names = view.mentions
    at, sizes = names.passage[names.bridge], np.bincount(names.bridge_name)
    here = np.flatnonzero(at == start)
    shared = here[np.isin(names.bridge_name[here], names.bridge_name[at == end])]
    rarest = shared[np.lexsort((shared, sizes[names.bridge_name[shared]]))[0]]
    return Joint(start, end, "both", None, _spelled(view, int(rarest)))


def _distances(view: GraphView, end: int, max_hops: int) -> Integers:
    """(n,) how many hops each passage is from the end; -1 for more than max_hops."""
    distance = np.full(len(view.passage), -1)
    distance[end] = 0
    frontier = [end]
    for hop in range(1, max_hops + 1):
        near = _nearness(view, frontier)
        frontier = np.flatnonzero((near > 0) & (distance < 0)).tolist()
        distance[frontier] = hop
    return distance


def _nearness(view: GraphView, positions: list[int]) -> Floats:
    """(n,) how near each passage is to the nearest of these by one way: 0 where there is none.

    By an edge 2 and its similarity, by a link 1, by a name less.
    """
    frontier = np.zeros(len(view.passage), dtype=bool)
    frontier[positions] = True
    near = np.zeros(len(view.passage))
    if len(positions) == 1:
        forwards, back = view.ways.forwards(positions[0]), view.ways.edges_to(positions[0])
    else:
        forwards, back = frontier[view.source].nonzero()[0], frontier[view.target].nonzero()[0]
    for end, along in ((view.target, forwards), (view.source, back)):
        np.maximum.at(near, end[along], 2 + np.maximum(view.similarity[along], 0))
    linked = view.links.end[frontier[view.links.start]]
    near[linked] = np.maximum(near[linked], 1)
    names = view.mentions
    if len(names.bridge):
        at, sizes = names.passage[names.bridge], np.bincount(names.bridge_name)
        named = np.zeros(len(sizes), dtype=bool)
        named[names.bridge_name[frontier[at]]] = True
        by_name = named[names.bridge_name]
        np.maximum.at(near, at[by_name], 1 / sizes[names.bridge_name[by_name]])
    return near


def _spelled(view: GraphView, bridge: int) -> str:
    names = view.mentions
    return names.spelled[int(names.name[names.bridge[bridge]])]
