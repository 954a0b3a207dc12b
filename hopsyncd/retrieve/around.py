"""Finds the passages around a passage, and the paths between two passages.

Passages are connected by edges, by links, and by names that both mention. Edges and links can be
followed in both directions. Edges are preferred, most similar first. Links come second. Names come
last, rarest first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hopsyncd.index.arrays import Floats, Integers
from hopsyncd.index.snapshot import Mentions, Snapshot
from store.records import QuestionId

_OFFERED = 50  # a search for paths follows only the best 50 joints of each passage
_MAX_TURNS = 500  # a search for paths ends after visiting 500 passages


@dataclass(frozen=True, slots=True)
class Joint:
    """An edge, a link or a shared name that connects two passage rows.

    asked_by: for an edge, the end that raises its `question`; for a link, its direction ("link"
    forwards, "backlink" backwards); for a shared name, "both". name: the shared name, or the text
    of the link.
    """

    start: int
    end: int
    asked_by: Literal["from", "to", "both", "link", "backlink"]
    question: QuestionId | None = None
    similarity: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The passages around a passage, nearest first, with their distances in hops.

    joints: the connections among these passages.
    """

    distance: dict[int, int]
    joints: list[Joint]


def find_surroundings(snapshot: Snapshot, start: int, hops: int, limit: int) -> Surroundings:
    """Find up to `limit` other passages within `hops` hops of the passage row `start`.

    The result also contains `start`. The joints are all edges and links among these passages. A
    passage without an edge or link to a passage nearer to the start gets a joint by a shared name.
    """
    distance = {start: 0}
    nearest = [start]
    for hop in range(1, hops + 1):
        neighbours, nearness = _find_neighbours(snapshot, nearest)
        new = ~np.isin(neighbours, list(distance))
        neighbours, nearness = neighbours[new], nearness[new]
        best = neighbours[np.lexsort((snapshot.passage_ids[neighbours], -nearness))]
        nearest = best[: limit + 1 - len(distance)].tolist()
        distance |= dict.fromkeys(nearest, hop)
    inside = np.array(sorted(distance), dtype=np.int64)
    joints = [*_list_edges_among(snapshot, inside), *_list_links_among(snapshot, inside)]
    return Surroundings(distance, joints + _join_by_name(snapshot, inside, distance, joints))


def _list_edges_among(snapshot: Snapshot, inside: Integers) -> list[Joint]:
    edges = snapshot.find_edges(inside)
    positions = np.flatnonzero(~edges.is_backward & np.isin(edges.end, inside))
    ids = snapshot.index.outgoing.id[edges.source_question]
    positions = positions[np.lexsort((ids[positions], -edges.similarity[positions]))]
    return [
        Joint(
            int(edges.start[position]),
            int(edges.end[position]),
            "from",
            QuestionId(int(ids[position])),
            float(edges.similarity[position]),
        )
        for position in positions.tolist()
    ]


def _list_links_among(snapshot: Snapshot, inside: Integers) -> list[Joint]:
    links = snapshot.find_links(inside)
    positions = np.flatnonzero(~links.is_backward & np.isin(links.end, inside))
    ids = snapshot.passage_ids
    positions = positions[np.lexsort((ids[links.end[positions]], ids[links.start[positions]]))]
    return [
        Joint(
            int(links.start[position]),
            int(links.end[position]),
            "link",
            name=snapshot.index.link_texts[int(links.link_row[position])],
        )
        for position in positions.tolist()
    ]


def _join_by_name(
    snapshot: Snapshot, inside: Integers, distance: dict[int, int], joints: list[Joint]
) -> list[Joint]:
    """Return a joint for each passage of `inside` that no joint connects to a nearer passage.

    The new joint is the rarest name that the passage shares with a passage one hop nearer to the
    start. `distance` has the hops from the start to each passage.
    """
    joined = {
        far
        for joint in joints
        for near, far in ((joint.start, joint.end), (joint.end, joint.start))
        if distance[near] < distance[far]
    }
    positions, name = _list_joining_names(snapshot, inside)
    sizes = snapshot.statistics.mention_counts
    by_name: dict[int, list[int]] = {}
    names_by_row: dict[int, list[int]] = {}
    for passage_row, number in zip(inside[positions].tolist(), name.tolist(), strict=True):
        by_name.setdefault(number, []).append(passage_row)
        names_by_row.setdefault(passage_row, []).append(number)
    new_joints = []
    ids = snapshot.passage_ids
    for far in sorted(distance.keys() - joined, key=lambda row: (distance[row], int(ids[row]))):
        candidates = [
            (int(sizes[number]), int(ids[near]), snapshot.index.name_texts[number], near)
            for number in names_by_row.get(far, ())
            for near in by_name[number]
            if distance[near] == distance[far] - 1
        ]
        if candidates:
            _, _, spelled, near = min(candidates)
            new_joints.append(Joint(near, far, "both", name=spelled))
    return new_joints


def _list_joining_names(snapshot: Snapshot, passage_rows: Integers) -> tuple[Integers, Integers]:
    """List the names in these passages that connect documents.

    Returns two columns: the position of the passage in `passage_rows`, and the number of the name.
    """
    positions, name = snapshot.list_names(passage_rows)
    is_joining = snapshot.statistics.joins_documents[name]
    return positions[is_joining], name[is_joining]


def find_paths(
    snapshot: Snapshot, start: int, end: int, max_hops: int, limit: int
) -> list[list[Joint]]:
    """Find up to `limit` paths from start to end, shortest first. No path repeats a passage.

    The search follows only the best `_OFFERED` joints of each passage, and ends after `_MAX_TURNS`
    steps, so paths may be missing in a dense graph.
    """
    left = _measure_distances(snapshot, end, max_hops)
    if start == end or start not in left:
        return []
    search = _PathSearch(snapshot, left, end, limit)
    for length in range(left[start], max_hops + 1):
        search.extend([], start, length)
    return search.found


class _PathSearch:
    """Searches depth-first for paths that can still reach the end.

    left: the distance of each passage from the end, in hops.
    """

    def __init__(self, snapshot: Snapshot, left: dict[int, int], end: int, limit: int) -> None:
        self.found: list[list[Joint]] = []
        self._snapshot = snapshot
        self._left = left
        self._end = end
        self._limit = limit
        self._turns = 0
        self._offered: dict[tuple[int, int], list[Joint]] = {}

    def extend(self, path: list[Joint], end: int, hops: int) -> None:
        """Extend `path`, which has come to the passage `end`, by exactly `hops` hops.

        Appends each extended path that leads to the target of the search to `found`.
        """
        passed = {joint.start for joint in path}
        for joint in self._find_onward(end, hops):
            if len(self.found) >= self._limit or self._turns >= _MAX_TURNS:
                return
            if joint.end in passed:
                continue
            if hops == 1:
                self.found.append([*path, joint])
            elif joint.end != self._end:
                self._turns += 1
                self.extend([*path, joint], joint.end, hops - 1)

    def _find_onward(self, start: int, hops: int) -> list[Joint]:
        """Return the best joints from `start` to its neighbours, strongest first, at most
        `_OFFERED`.

        Neighbours that are `hops` or more hops from the target of the search are left out.
        """
        if (start, hops) not in self._offered:
            neighbours, near = _find_neighbours(self._snapshot, [start])
            is_near = [
                row != start and self._left.get(row, hops) < hops for row in neighbours.tolist()
            ]
            neighbours, near = neighbours[is_near], near[is_near]
            order = np.lexsort((self._snapshot.passage_ids[neighbours], -near))[:_OFFERED]
            best = neighbours[order].tolist()
            self._offered[start, hops] = [
                _find_best_joint(self._snapshot, start, row) for row in best
            ]
        return self._offered[start, hops]


def _find_best_joint(snapshot: Snapshot, start: int, end: int) -> Joint:
    """Return the best joint between two connected passages."""
    edges = snapshot.find_edges(np.array([start]))
    ids = snapshot.index.outgoing.id[edges.source_question]
    positions_of_end = np.flatnonzero(edges.end == end)
    if len(positions_of_end):
        position = int(
            positions_of_end[
                np.lexsort(
                    (
                        ids[positions_of_end],
                        edges.is_backward[positions_of_end],
                        -edges.similarity[positions_of_end],
                    )
                )[0]
            ]
        )
        asked: Literal["from", "to"] = "to" if edges.is_backward[position] else "from"
        return Joint(
            start, end, asked, QuestionId(int(ids[position])), float(edges.similarity[position])
        )
    links = snapshot.find_links(np.array([start]))
    linked = np.flatnonzero(links.end == end)
    if len(linked):
        position = int(linked[0])
        shown = snapshot.index.link_texts[int(links.link_row[position])]
        return Joint(start, end, "backlink" if links.is_backward[position] else "link", name=shown)
    positions, name = _list_joining_names(snapshot, np.array([start, end]))
    shared = np.intersect1d(name[positions == 0], name[positions == 1])
    sizes, spelled = snapshot.statistics.mention_counts, snapshot.index.name_texts
    rarest = min(shared.tolist(), key=lambda number: (int(sizes[number]), spelled[number]))
    return Joint(start, end, "both", name=spelled[rarest])


def _measure_distances(snapshot: Snapshot, end: int, max_hops: int) -> dict[int, int]:
    """Map passages to their distance from the end, in hops, up to `max_hops`."""
    distance = {end: 0}
    frontier = [end]
    for hop in range(1, max_hops + 1):
        near, _ = _find_neighbours(snapshot, frontier)
        frontier = [row for row in near.tolist() if row not in distance]
        distance |= dict.fromkeys(frontier, hop)
    return distance


def _find_neighbours(snapshot: Snapshot, passage_rows: Sequence[int]) -> tuple[Integers, Floats]:
    """Find the neighbours of these passage rows, and the strength of each neighbour's best joint.

    An edge has the strength 2 plus its similarity, a link 1, and a name 1 divided by the number of
    its mentions.
    """
    from_ = np.array(passage_rows, dtype=np.int64)
    edges, links = snapshot.find_edges(from_), snapshot.find_links(from_)
    _, joining = _list_joining_names(snapshot, from_)
    names = np.unique(joining)
    mentions: Mentions = snapshot.find_mentions(names)
    sizes = np.maximum(snapshot.statistics.mention_counts[names], 1)
    ends = np.concatenate([edges.end, links.end, mentions.passage_row])
    nearness = np.concatenate(
        [
            2 + np.maximum(edges.similarity, 0),
            np.ones(len(links.end)),
            1 / sizes[mentions.name_position],
        ]
    )
    neighbours, number = np.unique(ends, return_inverse=True)
    near = np.zeros(len(neighbours))
    np.maximum.at(near, number, nearness)
    return neighbours, near
