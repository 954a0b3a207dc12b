"""The graph of one version as a reader walks it: immutable columns and their adjacency."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.links import Linked, Links, links_of
from hopsyncd.index.matching import MergeIndex, Spans
from hopsyncd.index.names import Called, Mentions, mentions_of
from hopsyncd.index.similarity import Keywords
from store.records import PassageId

Integers = NDArray[np.int64]


class Adjacency:
    """The e edges of a version as ways: i < e is edge i from source to target, e + i the same edge
    from target to source. Arranged when first asked for; the default walk never asks.

    >>> ways = Adjacency(np.array([0, 1]), np.array([1, 0]), 2)
    >>> ways.forwards(0).tolist(), ways.both(0).tolist(), ways.end(3)
    ([0], [0, 3], 1)
    """

    def __init__(self, source: Integers, target: Integers, passages: int) -> None:
        self._source = source
        self._target = target
        self._passages = passages

    def forwards(self, passage: int) -> Integers:
        """Those along the passage's own edges."""
        return _part(self._by_source, passage)

    def both(self, passage: int) -> Integers:
        """Those along its own edges, then those back along the edges that lead to it."""
        back = self.edges_to(passage) + len(self._source)
        return np.concatenate([self.forwards(passage), back])

    def edges_to(self, passage: int) -> Integers:
        """The edges that lead to a passage."""
        return _part(self._by_target, passage)

    def start(self, way: int) -> int:
        """The passage that a way leads from."""
        edges = len(self._source)
        return int(self._source[way] if way < edges else self._target[way - edges])

    def end(self, way: int) -> int:
        """The passage that a way leads to."""
        edges = len(self._source)
        return int(self._target[way] if way < edges else self._source[way - edges])

    @cached_property
    def _by_source(self) -> tuple[Integers, Integers]:
        return _grouped(self._source, self._passages)

    @cached_property
    def _by_target(self) -> tuple[Integers, Integers]:
        return _grouped(self._target, self._passages)


def _grouped(ends: Integers, passages: int) -> tuple[Integers, Integers]:
    """The edges by passage, and where each passage's begin."""
    order = np.argsort(ends, kind="stable")
    return order, np.searchsorted(ends[order], np.arange(passages + 1))


def _part(grouped: tuple[Integers, Integers], passage: int) -> Integers:
    order, first = grouped
    return order[first[passage] : first[passage + 1]]


Homes = tuple[Integers, Integers]
"""The passages of a version, rising, and of each the number of the document it is counted to."""

_WEIGHT = 6  # of a name of the passage's document: that of so many sentences with a name


@dataclass(frozen=True, slots=True, eq=False)
class GraphView:
    """n passages and e edges.

    passage: (n,) int64 ids, rising. document: (n,) equal for passages of one document.
    passage_row: (n,) the row of each passage's vector in `rows`. spans: all rows of each.
    rows: (r, d) float32 grid vectors. source, target: (e,) positions among the passages.
    similarity: (e,) Eq. 1. question: (e,) the ids of the outgoing questions. context_row: (e,)
    the rows of their vectors. answer: (e,) the ids of the incoming questions that they are matched
    with. answer_row: (e,) the rows of their vectors. rarity: (e,) log(1 + n / df) of the outgoing
    question's rarest name. mentioned: how many passages mention a name. about: the passages that a
    name is the topic of. mentions: where names are mentioned. keywords: those of edges and
    passages. ways: the edges as single steps. links: those that the documents have.
    """

    passage: NDArray[np.int64]
    document: NDArray[np.int64]
    passage_row: NDArray[np.int64]
    spans: Spans
    rows: NDArray[np.float32]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    similarity: NDArray[np.float64]
    context_row: NDArray[np.int64]
    rarity: NDArray[np.float64]
    question: NDArray[np.int64]
    answer: NDArray[np.int64]
    answer_row: NDArray[np.int64]
    mentioned: dict[str, int]
    about: dict[str, tuple[PassageId, ...]]
    mentions: Mentions
    keywords: Keywords
    ways: Adjacency
    links: Links

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of passages that are all in the view."""
        return np.searchsorted(self.passage, ids)


def view_of(
    index: MergeIndex,
    budget: int,
    linked: Sequence[Linked] = (),
    called: Sequence[Called] = (),
    homes: Homes | None = None,
) -> GraphView:
    """Freeze the index: its best matches, as many as the budget admits, are the edges.

    `linked` come in the order in which they are written. What passages are `called` they are about,
    as if it were their heading; they mention it if some passage does, for else it joins none.
    Without `homes` each passage is a document of its own.
    """
    passage = np.array(sorted(index.first_row), dtype=np.int64)
    passage_row, row_end = (
        np.array([rows[PassageId(p)] for p in passage.tolist()], dtype=np.int64)
        for rows in (index.first_row, index.end_row)
    )
    document = passage if homes is None else _documents(passage, homes)
    outs = index.outgoing.find(index.ranking.question[:budget])
    ins = index.target[outs]
    new = index.names.new(called)
    mentioned, about = index.names.frozen(new)
    said = [one for one in new if one[1] in index.names]
    mentions = _mentions(index, passage, document, passage_row, said)
    counts = index.outgoing.rarest(mentioned, len(passage))[outs]
    source = np.searchsorted(passage, index.outgoing.passage[outs])
    target = np.searchsorted(passage, index.incoming.passage[ins])
    return GraphView(
        passage=passage,
        document=document,
        passage_row=passage_row,
        spans=Spans.of(passage_row, row_end),
        rows=index.arena.rows,
        source=source,
        target=target,
        similarity=index.similarity[outs],
        context_row=index.outgoing.row[outs],
        rarity=np.log1p(len(passage) / np.maximum(counts, 1)),
        question=index.outgoing.id[outs],
        answer=index.incoming.id[ins],
        answer_row=index.incoming.row[ins],
        mentioned=mentioned,
        about=about,
        mentions=mentions,
        keywords=Keywords(
            index.outgoing.keywords, index.incoming.keywords, outs, ins, mentions, len(passage)
        ),
        ways=Adjacency(source, target, len(passage)),
        links=links_of(linked, passage),
    )


def _documents(passage: Integers, homes: Homes) -> Integers:
    """(n,) the lowest passage of each passage's document: a number that its content decides."""
    held = homes[1][np.searchsorted(homes[0], passage)]
    _, first, number = np.unique(held, return_index=True, return_inverse=True)
    return passage[first[number]]


def _mentions(
    index: MergeIndex,
    passage: Integers,
    document: Integers,
    passage_row: Integers,
    called: Sequence[Called],
) -> Mentions:
    """In an order that depends on content alone, for sums of floats depend on order."""
    side = index.incoming
    alive = side.alive[side.mention_at]
    at, name = side.mention_at[alive], side.mention_name[alive]
    order = np.lexsort((name, side.id[at]))
    at, name = at[order], name[order]
    of = np.array([one for one, _ in called], dtype=np.int64)
    own = np.array([side.name_id(name) for _, name in called], dtype=np.int64)
    order = np.repeat(np.lexsort((own, of)), _WEIGHT)
    of = np.searchsorted(passage, of[order])
    return mentions_of(
        np.concatenate([np.searchsorted(passage, side.passage[at]), of]),
        np.concatenate([name, own[order]]),
        np.concatenate([side.row[at], passage_row[of]]),
        side.spelled,
        document,
        len(order),
    )
