"""The `hop` strategy by default: seeds, the walk, and how each passage was reached."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.view import GraphView
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import Hop, Ranked, helpful
from hopsyncd.retrieve.walk import Walked, WalkSettings, walk
from store.records import PassageId, QuestionId

Way = tuple[Literal["edge", "name", "link"], int]
"""The number of an edge walked either way, of a way by a link, or of a bridging mention."""

Step = tuple[float, int, Way]
"""The mass that came, the passage it came from, and how."""

_NONE: Step = (0.0, -1, ("edge", -1))


class PathExplainer:
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
            into = (self._edge_into, self._name_into, self._link_into)
            mass, before, way = max((step(position) for step in into), key=lambda step: step[0])
            if mass <= self._start[position] or before in passed:
                break
            hops.append(self._hop(mass, before, position, way))
            position = before
            passed.add(position)
        return tuple(reversed(hops))

    def _edge_into(self, position: int) -> Step:
        edges = np.flatnonzero(self._target == position)
        if not len(edges):
            return _NONE
        best = int(edges[np.argmax(self._walked.flow[edges])])
        return float(self._walked.flow[best]), int(self._source[best]), ("edge", best)

    def _name_into(self, position: int) -> Step:
        mentions = self._view.mentions
        at = mentions.passage[mentions.bridge]
        here = np.flatnonzero(at == position)
        if not len(here):
            return _NONE
        best = int(here[np.argmax(self._walked.reached[here])])
        same = mentions.bridge_name == mentions.bridge_name[best]
        own = mentions.bridge_document == mentions.bridge_document[best]
        others = np.flatnonzero(same & ~own)
        sender = int(others[np.argmax(self._walked.left[others])])
        sent = self._walked.left[others].sum()
        mass = self._walked.reached[best] * self._walked.left[sender] / max(sent, 1e-300)
        return float(mass), int(at[sender]), ("name", best)

    def _link_into(self, position: int) -> Step:
        ways = self._walked.link_ways
        into = np.flatnonzero(ways.end == position)
        if not len(into):
            return _NONE
        best = int(into[np.argmax(self._walked.by_link[into])])
        return float(self._walked.by_link[best]), int(ways.start[best]), ("link", best)

    def _hop(self, mass: float, before: int, after: int, way: Way) -> Hop:
        view = self._view
        ends = (PassageId(int(view.passage[before])), PassageId(int(view.passage[after])))
        share = mass / float(self._walked.arrived[after])
        kind, number = way
        if kind == "edge":
            back, edge = divmod(number, len(view.source))
            asked: Literal["from", "to"] = "to" if back else "from"
            return Hop(*ends, asked, QuestionId(int(view.question[edge])), None, share)
        if kind == "link":
            ways = self._walked.link_ways
            along: Literal["link", "backlink"] = "backlink" if ways.back[number] else "link"
            return Hop(*ends, along, None, view.links.shown[int(ways.link[number])], share)
        spelled = view.mentions.spelled[int(view.mentions.name[view.mentions.bridge[number]])]
        return Hop(*ends, "both", None, spelled, share)


def hop(inquiry: QueryContext, k: int, settings: WalkSettings) -> list[Ranked]:
    """The k most helpful passages, ties going to the lower id."""
    view = inquiry.view
    if not len(view.passage):
        return []
    start = inquiry.seeds()
    walked = walk(view, start, inquiry.cosines, inquiry.coverage, settings)
    trail = PathExplainer(view, walked, start)
    return [
        Ranked(PassageId(int(view.passage[position])), score, trail.to(position, settings.hops))
        for position, score in helpful(inquiry, walked.arrived, k)
    ]
