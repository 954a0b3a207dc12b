"""Rebuilding: the head once more, with all that is derived from its content made anew.

Full text, vectors, matches and the cut are computed from the stored passages and questions, so no
question is asked and nothing is embedded. Matches that turn out equal keep their rows. It is one
version; until it is committed the old one serves.
"""

from hopsyncd.graph.budget import edge_budget
from hopsyncd.graph.merge import MergeIndex
from store.content import counters, recipe_dimensions, sets_at
from store.database import Connection
from store.derived import commit_rebuilt
from store.reads import matches_at
from store.records import Change, Version
from store.versions import head


def rebuild(connection: Connection, budget_factor: float, now_ms: int) -> Version | None:
    """Commit the rebuilt head as the next version; None in a store without one."""
    newest = head(connection)
    if newest is None:
        return None
    sets = list(sets_at(connection, newest.id))
    index = MergeIndex(recipe_dimensions(connection, newest.recipe))
    best = {match.question: match for match in index.change((), sets).begun}
    stored = {match.question: match for match in matches_at(connection, newest.id).records()}
    budget = edge_budget(len(sets), budget_factor)
    change = Change(
        reason="rebuilt from the stored content",
        recipe=newest.recipe,
        rules=newest.rules,
        documents_gone=(),
        documents_new=(),
        lives_ended=(),
        lives_begun=(),
        matches_ended=[question for question in stored if stored[question] != best.get(question)],
        matches_begun=[match for match in best.values() if stored.get(match.question) != match],
        matches=len(best),
        edge_budget=budget,
        cut=index.ranking.cut(budget),
        seen=(),
        unseen=(),
        counters=dict.fromkeys(counters(connection), 0),
    )
    return commit_rebuilt(connection, change, now_ms)
