"""The `hop` strategy by default: seeds, the walk, and how each passage was reached."""

from hopsyncd.graph.helpfulness import most_helpful
from hopsyncd.graph.walk import WalkSettings, walk
from hopsyncd.query.inquiry import Inquiry
from hopsyncd.query.ranked import Ranked
from hopsyncd.query.trail import Trail
from store.records import PassageId


def hop(inquiry: Inquiry, k: int, settings: WalkSettings) -> list[Ranked]:
    """The k most helpful passages, ties going to the lower id."""
    view = inquiry.view
    if not len(view.passage):
        return []
    start = inquiry.seeds()
    walked = walk(view, start, inquiry.cosines, inquiry.coverage, settings)
    trail = Trail(view, walked, start)
    return [
        Ranked(PassageId(int(view.passage[position])), score, trail.to(position, settings.hops))
        for position, score in most_helpful(walked.arrived, view.passage, inquiry.coverage, k)
    ]
