"""Pairs of passages of different documents that an edge joins: material for two-hop questions."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hopsyncd.query.answer import id_text
from hopsyncd.query.head import Head
from store.content import best_sets, known_passages, sets_by_id
from store.database import Connection
from store.reads import places_at
from store.records import Passage, PassageId


@dataclass(frozen=True, slots=True)
class Pair:
    """`source` raises a question about one of the names, and `target` answers it."""

    source: Passage
    target: Passage
    names: frozenset[str]

    @property
    def ids(self) -> tuple[str, str]:
        """The passages as users and gold lists name them."""
        return id_text(self.source.id), id_text(self.target.id)


def pairs(connection: Connection, served: Head, seed: int) -> Iterator[Pair]:
    """The pairs in an order drawn by the seed."""
    view = served.view
    for edge in np.random.default_rng(seed).permutation(len(view.source)).tolist():
        ends = tuple(
            PassageId(int(view.passage[side[edge]])) for side in (view.source, view.target)
        )
        places = places_at(connection, served.version.id, ends)
        documents = [{(one.source, one.document) for one in places.get(end, ())} for end in ends]
        if documents[0] & documents[1]:
            continue
        passages = known_passages(connection, ends)
        names = _names(connection, served, ends[0], int(view.question[edge]))
        yield Pair(passages[ends[0]], passages[ends[1]], names)


def _names(
    connection: Connection, served: Head, asking: PassageId, question: int
) -> frozenset[str]:
    """The keywords of one question of a passage."""
    ids = best_sets(connection, served.version.recipe, [asking]).values()
    return next(
        (
            one.keywords
            for made in sets_by_id(connection, ids)
            for one in made.questions
            if one.id == question
        ),
        frozenset(),
    )
