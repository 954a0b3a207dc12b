"""The strategy `hop`, the default: walks the graph, and can explain how it reached each passage.

The walk starts from the passages most like the question. Then the rest of the question is asked
again. The profile `paper` and the other reasoners follow single edges instead (`hop_variants`).
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from hopsyncd.index.arrays import Flags, Floats, Integers, sum_exactly
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.hop_variants import choose_first, follow_edges, make_offers
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import (
    FIRST_RESULTS,
    Hop,
    Ranked,
    find_direct_hits,
    mark_reached,
    promote_direct_hits,
    rank_by_helpfulness,
)
from hopsyncd.retrieve.reranking import RERANKED, is_reranked, rerank_hits
from hopsyncd.retrieve.second_ask import SecondAsk, ask_again
from hopsyncd.retrieve.strategy import (
    SearchRequest,
    StrategyDefinition,
    register_strategy,
)
from hopsyncd.retrieve.transitions import SCORE_UNIT
from hopsyncd.retrieve.walk import (
    WalkResult,
    compute_seeds,
    find_subjects,
    share_among_subjects,
    walk,
)
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import PassageId, QuestionId

Way = tuple[Literal["edge", "name", "link", "follow_up"], int]
"""The kind of a transition, and its index among the transitions of this kind. A transition by name
is counted by its mention."""

Step = tuple[float, int, Way]
"""The score that a transition brought, the row of the passage where it started, and the
transition."""

_NONE: Step = (0.0, -1, ("edge", -1))


class PathExplainer:
    """Explains how a passage was reached, from the flows of one search."""

    def __init__(self, snapshot: Snapshot, search: "HopSearch") -> None:
        self._snapshot = snapshot
        self._walked = search.walked
        self._start = search.start
        self._scores = search.scores
        self._follow_ups = search.second_ask.follow_ups
        self._ids, self._asked = snapshot.passage_ids, snapshot.index.outgoing.id
        self._keys = snapshot.index.name_numbers.keys

    def list_hops(self, passage_row: int, limit: int) -> tuple[Hop, ...]:
        """List the hops to a passage, at most `limit`, from first to last.

        The list begins at a passage that got more score at the start of the walk than by any step.
        """
        hops: list[Hop] = []
        passed = {passage_row}
        while len(hops) < limit:
            score, before, way = max(self._list_steps(passage_row), key=lambda step: step[0])
            if score <= self._start[passage_row] or before in passed:
                break
            hops.append(self._make_hop(score, before, passage_row, way))
            passage_row = before
            passed.add(passage_row)
        return tuple(reversed(hops))

    def _list_steps(self, passage_row: int) -> list[Step]:
        explanations = (
            self._find_edge_into,
            self._find_name_into,
            self._find_link_into,
            self._follow_up_into,
        )
        return [step(passage_row) for step in explanations]

    def _find_edge_into(self, passage_row: int) -> Step:
        edges = self._walked.edges
        best = _find_largest_flow(
            edges.end == passage_row, self._walked.edge_flow, edges.number, self._asked
        )
        if best is None:
            return _NONE
        return float(self._walked.edge_flow[best]), int(edges.start[best]), ("edge", best)

    def _find_name_into(self, passage_row: int) -> Step:
        mentions, names = self._walked.incoming_mentions, self._walked.outgoing_names
        best = _find_largest_flow(
            mentions.passage_row == passage_row,
            self._walked.incoming_flow,
            mentions.name,
            self._keys,
        )
        if best is None:
            return _NONE
        others = (names.name == mentions.name[best]) & (
            names.document_key != mentions.document_key[best]
        )
        sender = _find_largest_flow(
            others, self._walked.outgoing_flow, names.passage_row, self._ids
        )
        if sender is None:
            return _NONE
        left = self._walked.outgoing_flow[others]
        sent = sum_exactly(left, np.zeros(len(left), dtype=np.int64), 1, SCORE_UNIT)[0]
        score = (
            self._walked.incoming_flow[best]
            * self._walked.outgoing_flow[sender]
            / max(sent, SCORE_UNIT)
        )
        return float(score), int(names.passage_row[sender]), ("name", best)

    def _find_link_into(self, passage_row: int) -> Step:
        links = self._walked.links
        best = _find_largest_flow(
            links.end == passage_row, self._walked.link_flow, links.start, self._ids
        )
        if best is None:
            return _NONE
        return float(self._walked.link_flow[best]), int(links.start[best]), ("link", best)

    def _follow_up_into(self, passage_row: int) -> Step:
        best = _NONE
        for number, follow_up in enumerate(self._follow_ups):
            (places,) = (follow_up.rows == passage_row).nonzero()
            score = float(follow_up.scores[places].sum())
            if score > best[0]:
                best = score, follow_up.plan.start, ("follow_up", number)
        return best

    def _make_hop(self, score: float, before: int, after: int, way: Way) -> Hop:
        ids, index = self._ids, self._snapshot.index
        ends = (PassageId(int(ids[before])), PassageId(int(ids[after])))
        share = score / float(self._scores[after])
        kind, number = way
        if kind == "edge":
            edges = self._walked.edges
            asked: Literal["from", "to"] = "to" if edges.is_backward[number] else "from"
            question = int(index.outgoing.id[edges.number[number]])
            return Hop(*ends, asked, QuestionId(question), None, share)
        if kind == "link":
            links = self._walked.links
            along: Literal["link", "backlink"] = "backlink" if links.is_backward[number] else "link"
            return Hop(*ends, along, None, index.link_texts[int(links.number[number])], share)
        if kind == "follow_up":
            plan = self._follow_ups[number].plan
            return Hop(*ends, "follow_up", None, None, share, plan.names)
        name = index.name_texts[int(self._walked.incoming_mentions.name[number])]
        return Hop(*ends, "both", None, name, share)


def _find_largest_flow(among: Flags, flow: Floats, numbers: Integers, ids: Integers) -> int | None:
    """Return the flagged row with the largest flow, or None if no flagged row has a flow above 0.

    Ties go to the lowest id. `numbers` has the position of each row's id in `ids`.
    """
    (rows,) = among.nonzero()
    if not len(rows):
        return None
    scores = flow[rows]
    most = scores.max()
    if not most:
        return None
    (alike,) = (scores == most).nonzero()
    first = ids[numbers[rows[alike]]].argmin() if len(alike) > 1 else 0
    return int(rows[alike[first]])


@dataclass(frozen=True, slots=True, eq=False)
class HopSearch:
    """The walk and the second ask, with the resulting scores.

    start: (n,) the scores at the start of the walk. scores: (n,) the total score of each passage.
    """

    start: Floats
    walked: WalkResult
    second_ask: SecondAsk
    scores: Floats


def search_by_walk(context: QueryContext, k: int, settings: WalkSettings) -> list[Ranked]:
    """Return the k most helpful passages. Ties go to the lower id. Hops are computed lazily."""
    search = run_hop_search(context, settings)
    return rank_hops(context, search, k, settings) if search else []


def run_hop_search(context: QueryContext, settings: WalkSettings) -> HopSearch | None:
    """Walk from the seeds, and ask again. Returns None if no passage is visible."""
    if not context.snapshot.statistics.visible.passages.any():
        return None
    start = find_start(context)
    walked = walk(context, start, settings)
    second_ask = ask_again(context, walked.scores)
    return HopSearch(start, walked, second_ask, second_ask.add_scores(walked.scores))


def find_start(context: QueryContext) -> Floats:
    """Return the (n,) scores at the start of the walk."""
    return share_among_subjects(compute_seeds(context), find_subjects(context))


def rank_hops(
    context: QueryContext, search: HopSearch, k: int, settings: WalkSettings
) -> list[Ranked]:
    """Return the k most helpful passages of a search."""
    explainer = PathExplainer(context.snapshot, search)
    ids, reached_scores = context.snapshot.passage_ids, mark_reached(context, search.scores)
    positions = rank_by_helpfulness(
        context, reached_scores, max(k, FIRST_RESULTS), search.second_ask.fits
    )
    positions = promote_direct_hits(positions, find_direct_hits(context).rows)[:k]
    return [
        Ranked(
            PassageId(int(ids[row])),
            score,
            find_hops=partial(explainer.list_hops, row, settings.hops),
        )
        for row, score, _ in positions
    ]


def search_hops(request: SearchRequest) -> list[Ranked]:
    """Search by the walk. The profile `paper` and other reasoners follow single edges instead."""
    tools, search, snapshot = request.tools, request.search, request.snapshot
    question = tools.drop_unrelated_sentences(snapshot, request.question)
    context = tools.make_context(request.connection, snapshot, question)
    if search.profile == "default" and search.chosen_reasoner == "walk":
        context = replace(context, encode=tools.encode_unlocked)
        depth = max(request.k, RERANKED) if is_reranked(request) else request.k
        with tools.walk_lock:
            ranked = search_by_walk(context, depth, tools.walk_settings(search))
        return rerank_hits(request, ranked)[: request.k]
    offers = make_offers(tools, context, search)
    return follow_edges(tools, context, request.k, search, choose_first, offers)


register_strategy("hop", StrategyDefinition(search_hops))
