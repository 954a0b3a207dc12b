"""The search that walks the graph, or follows single edges of it."""

from dataclasses import replace

from hopsyncd.config.values import PAPER_HOPS, Search
from hopsyncd.errors import BadRequest
from hopsyncd.retrieve.edge_traversal import (
    Choose,
    Offers,
    choose_first,
    follow,
    follow_paper,
    offers_of,
)
from hopsyncd.retrieve.hop import hop
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.strategy import (
    SearchRequest,
    SearchTools,
    StrategyDefinition,
    register_strategy,
)


def search_hops(request: SearchRequest) -> list[Ranked]:
    """Walk from the passages most like the question, or follow the edges most like it."""
    tools, search, snapshot = request.tools, request.search, request.snapshot
    question = tools.asked(snapshot, request.question)
    context = tools.context(request.connection, snapshot, question)
    if search.profile == "default" and search.chosen_reasoner == "walk":
        context = replace(context, encode=tools.encode_unlocked)
        with tools.walk_lock:
            return hop(context, request.k, tools.walk_settings(search))
    offers = make_offers(tools, context, search)
    return follow_edges(tools, context, request.k, search, choose_first, offers)


def make_offers(tools: SearchTools, context: QueryContext, search: Search) -> Offers:
    """The edges that a search may follow."""
    return offers_of(context, tools.settings if search.profile == "default" else None)


def follow_edges(
    tools: SearchTools,
    context: QueryContext,
    k: int,
    search: Search,
    choose: Choose,
    offers: Offers,
) -> list[Ranked]:
    """Follow the edges that `choose` selects among those offered. Raises BadRequest."""
    if search.profile == "default":
        return follow(context, k, choose, search.top_k, tools.walk_settings(search), offers)
    if search.reasoner == "walk":
        raise BadRequest(
            "The search was refused",
            "the paper's profile follows single edges, and the walk takes all at once",
            "Take the reasoner similarity or llm, or the default profile",
        )
    hops = search.n_hop or PAPER_HOPS
    return follow_paper(context, k, choose, search.top_k, hops, offers)


register_strategy("hop", StrategyDefinition(search_hops))
