"""A version for one who may not see some of its sources: as if these had never been indexed.

Nothing of a hidden passage is left: it is no vertex, no end of an edge and in no statistic. What
was matched with it looks for another match among the visible, and links mean what they mean among
the visible documents; so the graph is the one that an index without these sources has, and an
answer can tell nothing of what is hidden.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hopsyncd.graph.budget import edge_budget
from hopsyncd.graph.merge import MergeIndex
from hopsyncd.graph.view import view_of
from hopsyncd.query.called import called_passages
from hopsyncd.query.head import Head
from hopsyncd.query.linked import linked_passages
from hopsyncd.query.words import WordIndex
from store.content import sets_by_id
from store.database import Connection
from store.history import Diff, Edge
from store.reads import matches_at, words_at
from store.records import PassageId, QuestionId, Version
from store.visible import visible_documents, visible_sets


def restricted_head(
    connection: Connection,
    version: Version,
    hidden: frozenset[str],
    dimensions: int,
    budget_factor: float,
) -> Head:
    """The version without what only the hidden sources hold; its counts are of the rest."""
    index = _visible_index(connection, version, hidden, dimensions)
    passages, words = words_at(connection, version.id)
    visible = np.isin(passages, list(index.first_row))
    passages, words = passages[visible], words[visible]
    budget = edge_budget(len(passages), budget_factor)
    seen = replace(
        version,
        documents=visible_documents(connection, version.id, hidden),
        passages=len(passages),
        words=int(words.sum()),
        matches=len(index.ranking),
        edge_budget=budget,
        cut=index.ranking.cut(budget),
        counters={},
    )
    linked = linked_passages(connection, version.id, hidden)
    called = called_passages(connection, version.id, hidden)
    view = view_of(index, budget, linked, called)
    return Head(seen, view, WordIndex(passages, words), hidden)


def _visible_index(
    connection: Connection, version: Version, hidden: frozenset[str], dimensions: int
) -> MergeIndex:
    sets = list(sets_by_id(connection, visible_sets(connection, version.id, hidden)))
    questions = np.array([one.id for each in sets for one in each.questions], dtype=np.int64)
    stored = matches_at(connection, version.id)
    kept = np.isin(stored.question, questions) & np.isin(stored.target, questions)
    index = MergeIndex(dimensions)
    index.load(sets, stored.question[kept], stored.target[kept], stored.similarity[kept])
    index.change([], [])  # matches those that are without
    return index


def restricted_diff(found: Diff, old: Head, new: Head) -> Diff:
    """What differs between two versions that both lack the same sources."""
    was, now = _edges(old), _edges(new)
    lived, live = _passages(old), _passages(new)

    def seen(documents: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple(one for one in documents if one[0] not in new.hidden)

    return Diff(
        documents_added=seen(found.documents_added),
        documents_removed=seen(found.documents_removed),
        documents_renamed=tuple(
            one for one in found.documents_renamed if one.source not in new.hidden
        ),
        documents_changed=seen(found.documents_changed),
        passages_added=tuple(sorted(live - lived)),
        passages_removed=tuple(sorted(lived - live)),
        edges_added=tuple(Edge(*edge) for edge in sorted(now - was)),
        edges_removed=tuple(Edge(*edge) for edge in sorted(was - now)),
    )


def _passages(head: Head) -> set[PassageId]:
    return {PassageId(id_) for id_ in head.view.passage.tolist()}


def _edges(head: Head) -> set[tuple[QuestionId, QuestionId]]:
    pairs = zip(head.view.question.tolist(), head.view.answer.tolist(), strict=True)
    return {(QuestionId(asked), QuestionId(answer)) for asked, answer in pairs}
