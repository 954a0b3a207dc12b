"""What is served: one version and its graph, as a reader needs them."""

from dataclasses import dataclass

from hopsyncd.graph.merge import MergeIndex
from hopsyncd.graph.view import GraphView, view_of
from hopsyncd.query.called import called_passages
from hopsyncd.query.linked import linked_passages
from hopsyncd.query.words import WordIndex
from store.content import sets_at
from store.database import Connection
from store.reads import matches_at, words_at
from store.records import Version


@dataclass(frozen=True, slots=True)
class Head:
    """The served version and its graph, without what only the `hidden` sources hold."""

    version: Version
    view: GraphView
    words: WordIndex
    hidden: frozenset[str] = frozenset()


def head_of(connection: Connection, version: Version, index: MergeIndex) -> Head:
    """The version as a reader needs it, from the index that the writer keeps of it."""
    return Head(
        version,
        view_of(
            index,
            version.edge_budget,
            linked_passages(connection, version.id),
            called_passages(connection, version.id),
        ),
        WordIndex(*words_at(connection, version.id)),
    )


def load_head(connection: Connection, version: Version, dimensions: int) -> Head:
    """The same from the store alone."""
    index = MergeIndex(dimensions)
    matches = matches_at(connection, version.id)
    index.load(
        sets_at(connection, version.id), matches.question, matches.target, matches.similarity
    )
    return head_of(connection, version, index)
