"""The graph of one version as a reader walks it: immutable columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.graph.keywords import Keywords
from hopsyncd.graph.links import Linked, Links, links_of
from hopsyncd.graph.mentions import Mentions, mentions_of
from hopsyncd.graph.merge import MergeIndex
from hopsyncd.graph.names import Called
from hopsyncd.graph.ways import Ways
from store.records import PassageId

Integers = NDArray[np.int64]

_WEIGHT = 6  # of a name of the passage's document: that of so many sentences with a name


@dataclass(frozen=True, slots=True, eq=False)
class GraphView:
    """n passages and e edges.

    passage: (n,) int64 ids, rising. passage_row: (n,) the row of each passage's vector in `rows`.
    rows: (r, d) float32 grid vectors. source, target: (e,) positions among the passages.
    similarity: (e,) Eq. 1. question: (e,) the ids of the outgoing questions. context_row: (e,)
    the rows of their vectors. answer: (e,) the ids of the incoming questions that they are matched
    with. answer_row: (e,) the rows of their vectors. rarity: (e,) log(1 + n / df) of the outgoing
    question's rarest name. mentioned: how many passages mention a name. about: the passages that a
    name is the topic of. mentions: where names are mentioned. keywords: those of edges and
    passages. ways: the edges as single steps. links: those that the documents have.
    """

    passage: NDArray[np.int64]
    passage_row: NDArray[np.int64]
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
    ways: Ways
    links: Links

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of passages that are all in the view."""
        return np.searchsorted(self.passage, ids)


def view_of(
    index: MergeIndex,
    budget: int,
    linked: Sequence[Linked] = (),
    called: Sequence[Called] = (),
) -> GraphView:
    """Freeze the index: its best matches, as many as the budget admits, are the edges.

    `linked` come in the order in which they are written. What passages are `called` they are about,
    as if it were their heading; they mention it if some passage does, for else it joins none.
    """
    passage = np.array(sorted(index.first_row), dtype=np.int64)
    passage_row = np.array([index.first_row[PassageId(p)] for p in passage.tolist()], np.int64)
    outs = index.outgoing.find(index.ranking.question[:budget])
    ins = index.target[outs]
    new = index.names.new(called)
    mentioned, about = index.names.frozen(new)
    said = [one for one in new if one[1] in index.names]
    mentions = _mentions(index, passage, passage_row, said)
    counts = index.outgoing.rarest(mentioned, len(passage))[outs]
    source = np.searchsorted(passage, index.outgoing.passage[outs])
    target = np.searchsorted(passage, index.incoming.passage[ins])
    return GraphView(
        passage=passage,
        passage_row=passage_row,
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
        ways=Ways(source, target, len(passage)),
        links=links_of(linked, passage),
    )


def _mentions(
    index: MergeIndex, passage: Integers, passage_row: Integers, called: Sequence[Called]
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
        len(passage),
        len(order),
    )
