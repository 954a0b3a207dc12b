"""How the walk reached a passage: back along its strongest arrivals, to a passage it began with."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hopsyncd.graph.view import GraphView
from hopsyncd.graph.walk import Walked
from hopsyncd.query.ranked import Hop
from store.records import PassageId, QuestionId


class Trail:
    """Reads the flows that one walk left; `start` is the (n,) mass that it began with."""

    def __init__(self, view: GraphView, walked: Walked, start: NDArray[np.float64]) -> None:
        self._view = view
        self._walked = walked
        self._start = start
        self._source = np.concatenate([view.source, view.target])
        self._target = np.concatenate([view.target, view.source])

    def to(self, position: int, limit: int) -> tuple[Hop, ...]:
        """At most `limit` hops, first to last. None if most of the passage's mass was a seed's."""
        hops: list[Hop] = []
        passed = {position}
        while len(hops) < limit:
            step = max(self._edge_into(position), self._name_into(position), key=lambda s: s[0])
            mass, before, edge, name = step
            if mass <= self._start[position] or before in passed:
                break
            hops.append(self._hop(mass, before, position, edge, name))
            position = before
            passed.add(position)
        return tuple(reversed(hops))

    def _edge_into(self, position: int) -> tuple[float, int, int, int]:
        edges = np.flatnonzero(self._target == position)
        if not len(edges):
            return (0.0, -1, -1, -1)
        best = int(edges[np.argmax(self._walked.flow[edges])])
        return (float(self._walked.flow[best]), int(self._source[best]), best, -1)

    def _name_into(self, position: int) -> tuple[float, int, int, int]:
        mentions = self._view.mentions
        at = mentions.passage[mentions.bridge]
        here = np.flatnonzero(at == position)
        if not len(here):
            return (0.0, -1, -1, -1)
        best = int(here[np.argmax(self._walked.reached[here])])
        same = np.flatnonzero(mentions.bridge_name == mentions.bridge_name[best])
        others = same[at[same] != position]
        if not len(others):
            return (0.0, -1, -1, -1)
        sender = int(others[np.argmax(self._walked.left[others])])
        sent = self._walked.left[same].sum()
        mass = self._walked.reached[best] * self._walked.left[sender] / max(sent, 1e-300)
        return (float(mass), int(at[sender]), -1, best)

    def _hop(self, mass: float, before: int, after: int, edge: int, name: int) -> Hop:
        view, edges = self._view, len(self._view.source)
        ends = (PassageId(int(view.passage[before])), PassageId(int(view.passage[after])))
        share = mass / float(self._walked.arrived[after])
        if edge >= 0:
            asked: Literal["from", "to"] = "from" if edge < edges else "to"
            return Hop(*ends, asked, QuestionId(int(view.question[edge % edges])), None, share)
        spelled = view.mentions.spelled[int(view.mentions.name[view.mentions.bridge[name]])]
        return Hop(*ends, "both", None, spelled, share)
