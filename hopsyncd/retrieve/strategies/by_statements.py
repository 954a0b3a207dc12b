"""Searches over single statements: from those most like the question, or from its topics."""

from collections.abc import Callable
from functools import partial

from hopsyncd.index.arrays import Integers
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.statements import StatementGraph, by_statements, statement_starts
from hopsyncd.retrieve.strategy import SearchRequest, StrategyDefinition, register_strategy
from hopsyncd.retrieve.topics import topic_starts


def search_statements(
    find_starts: Callable[[StatementGraph, int], Integers], request: SearchRequest
) -> list[Ranked]:
    """Follow paths of statements from those that `find_starts` gives. Raises BadRequest."""
    tools, search = request.tools, request.search
    question = tools.asked(request.snapshot, request.question)
    scores = None
    if search.rerank == "cross-encoder":
        scores = partial(tools.required_reranker().scores, question)
    context = tools.context(request.connection, request.snapshot, question)
    graph = StatementGraph(context, tools.vector(question))
    starts = find_starts(graph, search.top_k)
    return by_statements(request.connection, graph, starts, request.k, search, scores)


register_strategy(
    "statement",
    StrategyDefinition(partial(search_statements, statement_starts), has_statement_options=True),
)
register_strategy(
    "topic",
    StrategyDefinition(partial(search_statements, topic_starts), has_statement_options=True),
)
