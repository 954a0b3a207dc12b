"""TopicGraphRAG (Ghassel et al. 2025): where a broad question begins.

Top-down, the topics most like the question, with their statements; bottom-up, the statements with
most of its names. From there on it is StatementGraphRAG (`statements.py`).

A topic is what a document says under one heading, or a document without headings as a whole: the
statements with that name. Its vector is the sum of theirs in one of its passages.
"""

from collections.abc import Iterator

import numpy as np

from hopsyncd.index.arrays import Integers
from hopsyncd.retrieve.ranking import largest
from hopsyncd.retrieve.statements import StatementGraph

_TOPICS = 5
_PASSAGES = 20  # those most like the question: their topics are looked at
_WHOLE = -1  # in place of a name: the document


def topic_starts(graph: StatementGraph, count: int) -> Integers:
    """The statements of the topics most like the question, and as many by its names."""
    topics: dict[tuple[int, int], float] = {}
    for entry in _passages(graph).tolist():
        home = int(graph.snapshot.document_keys(np.array([entry]))[0])
        for name, statements in _topics_of(graph, entry):
            score = graph.together(statements)
            topics[home, name] = max(score, topics.get((home, name), 0.0))
    keys = graph.snapshot.index.name_numbers.keys
    best = sorted(
        topics,
        key=lambda one: (-topics[one], one[0], int(keys[one[1]]) if one[1] >= 0 else _WHOLE),
    )[:_TOPICS]
    of_topics = [_statements(graph, home, name) for home, name in best]
    under = np.unique(np.concatenate([*of_topics, np.empty(0, dtype=np.int64)]))
    return np.union1d(graph.most_like(under, count), graph.by_names(count))


def _passages(graph: StatementGraph) -> Integers:
    """The passages that are most like the question as a whole, or by a statement."""
    entries = graph.snapshot.passage_rows
    near = graph.context.first_cosines(entries)
    best = entries[largest(near, graph.snapshot.passage_ids[entries], _PASSAGES)]
    return np.union1d(best, graph.entries(graph.nearest(_PASSAGES)))


def _topics_of(graph: StatementGraph, entry: int) -> Iterator[tuple[int, Integers]]:
    """The topics of a passage, each with its statements: a statement has the narrowest it names."""
    index = graph.snapshot.index
    said = slice(int(index.passages.mention_start[entry]), int(index.passages.mention_end[entry]))
    about = set(index.mentions.name[said][index.mentions.is_topic[said]].tolist())
    topics: dict[int, list[int]] = {}
    for statement in graph.of_entries(np.array([entry])).tolist():
        narrow = next((name for name in graph.names_of(statement) if name in about), _WHOLE)
        topics.setdefault(narrow, []).append(statement)
    for name, statements in topics.items():
        yield name, np.array(statements)


def _statements(graph: StatementGraph, home: int, name: int) -> Integers:
    """Those of a topic in all passages of its document."""
    if name == _WHOLE:
        return graph.of_entries(graph.snapshot.find_document_passages(home))
    statements = graph.having(name)
    of_document: Integers = statements[
        graph.snapshot.document_keys(graph.entries(statements)) == home
    ]
    return of_document
