"""The graph without hidden sources, as if it had been built without them.

A visible question whose match is visible keeps it: the best of all is the best of some. Others are
matched anew among the visible, and links of passages are read again where a hidden document holds
the passage or could be meant. What was found for an older version is carried on as a commit would.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Integers, holds, with_places
from hopsyncd.index.comparison import MatchColumns
from hopsyncd.index.documents import touched_by, ways_of
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.matching import best_matches, cut_of, edge_budget, questions_of, renewed
from hopsyncd.index.snapshot import Replaced, Rows, Snapshot
from hopsyncd.index.statistics import Statistics
from store.records import Version


def restricted(
    index: LiveIndex,
    version: Version,
    hidden: frozenset[str],
    budget_factor: float,
    base: Statistics | None,
    before: Snapshot | None,
) -> Snapshot:
    """The version without what only the hidden sources hold.

    `base` are counts of the whole version or of another, `before` is the same of an older version.
    """
    statistics = Statistics.of(index, version.id, hidden, before.statistics if before else base)
    found = Snapshot(index, version, statistics, hidden)
    own_out, _, own_similarity = found.matches()
    matches = _matches(found, own_out, before)
    numbers, ways, link = _links(found, before)
    source = index["outgoing"]["entry"][matches.out].astype(np.int64)
    target = index["incoming"]["entry"][matches.into].astype(np.int64)
    replaced = Replaced(
        matches.out,
        matches.into,
        matches.similarity,
        Rows.of(source, target),
        numbers,
        ways,
        link,
    )
    found = replace(found, replaced=replaced)
    out = np.concatenate([own_out, matches.out])
    similarity = np.concatenate([own_similarity, matches.similarity])
    budget = edge_budget(statistics.passages, budget_factor)
    seen = replace(
        version,
        documents=int(np.count_nonzero(statistics.visible.documents)),
        passages=statistics.passages,
        words=statistics.words,
        matches=len(out),
        edge_budget=budget,
        cut=cut_of(index["outgoing"]["id"][out], similarity, budget),
        counters={},
    )
    return replace(found, version=seen)


def _matches(found: Snapshot, own: Integers, before: Snapshot | None) -> MatchColumns:
    """Those of the visible questions whose own match is hidden, by question; not so are `own`."""
    index, visible = found.index, found.statistics.visible.entries
    asked = questions_of(index, "outgoing", np.flatnonzero(visible))
    unmatched = np.zeros(len(index["outgoing"]), dtype=np.bool_)
    unmatched[asked] = True
    unmatched[own] = False
    alone = np.flatnonzero(unmatched)
    if before is None or before.replaced is None:
        return _sorted(best_matches(index, alone, visible))
    was = before.replaced
    at, there = with_places(was.out, alone)
    kept = at[there]
    shows = visible[index["incoming"]["entry"][was.into[kept]]]
    there[there], kept = shows, kept[shows]
    held = MatchColumns(was.out[kept], was.into[kept], was.similarity[kept])
    shown = before.statistics.visible.entries
    new = visible.copy()
    new[: len(shown)] &= ~shown
    begun = renewed(index, alone[~there], visible, held, np.flatnonzero(new))
    stays = ~with_places(np.sort(begun.out), held.out)[1]
    return _sorted(
        MatchColumns(
            np.concatenate([held.out[stays], begun.out]),
            np.concatenate([held.into[stays], begun.into]),
            np.concatenate([held.similarity[stays], begun.similarity]),
        )
    )


def _sorted(matches: MatchColumns) -> MatchColumns:
    order = np.argsort(matches.out)
    return MatchColumns(matches.out[order], matches.into[order], matches.similarity[order])


def _links(found: Snapshot, before: Snapshot | None) -> tuple[Integers, Rows, Integers]:
    """Passages whose links may lead elsewhere, their ways, and the link of each.

    Those of `before` are kept where no document that matters to them came or went.
    """
    index, shown = found.index, found.statistics.visible.documents
    born, died = index["documents"].views("born", "died")
    version = found.version.id
    hidden = (born <= version) & (version < died)
    hidden[: len(shown)] &= ~shown
    numbers = touched_by(index, np.flatnonzero(hidden))

    def visible(documents: Integers) -> NDArray[np.bool_]:
        return holds(shown, documents)

    rows = np.empty((0, 3), dtype=np.int64)
    anew = numbers
    if before is not None and before.replaced is not None:
        was, then = before.replaced, before.statistics.visible.documents
        changed = shown.copy()
        changed[: len(then)] ^= then
        touched = touched_by(index, np.flatnonzero(changed))
        kept = np.setdiff1d(np.intersect1d(numbers, was.numbers), touched)
        anew = np.setdiff1d(numbers, kept)
        at, _ = was.ways.from_start.of_each(kept)
        rows = np.stack([was.ways.start[at], was.ways.end[at], was.link[at]], axis=1)
    made = np.array(
        [
            (number, target, link)
            for number in anew.tolist()
            for target, link in ways_of(index, number, visible)
        ],
        dtype=np.int64,
    ).reshape(-1, 3)
    rows = np.concatenate([rows, made])
    return numbers, Rows.of(rows[:, 0], rows[:, 1]), rows[:, 2]
