"""Matching, kept up to date: the edge merging of HopRAG section 3.2, made incremental.

Every outgoing question is matched with its argmax incoming question of another passage under
Eq. 1, ties going to the lowest id. That order is total, so the argmax over a union is the better of
the two argmaxes, and after a change it suffices to compare

- the outgoing questions that are new, or whose match is gone, with all incoming ones;
- all the others with the new incoming ones.

How they are compared without looking at each pair is in `hopsyncd.index.comparison`.

Worked example. A asks a1, B answers b1: a1 -> b1. Passage C arrives and answers c1: a1 keeps b1
unless c1 is more similar. C leaves again: only the questions matched with c1 look for another.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Integers, best_of_each, ranges
from hopsyncd.index.comparison import HALF_COSINE, NO_MATCHES, Comparison, MatchColumns
from hopsyncd.index.live_index import DEAD, LiveIndex
from store.records import Cut, Match, QuestionId

_AT_ONCE = 1 << 13  # questions that are compared with all others

Flags = NDArray[np.bool_]


def questions_of(index: LiveIndex, side: str, entries: Integers) -> Integers:
    """The questions of a side ("incoming", "outgoing") that the entries have."""
    columns = index["entries"]
    return ranges(columns[f"first_{side}"][entries], columns[f"end_{side}"][entries])[0]


@dataclass(frozen=True, slots=True, eq=False)
class MatchDelta:
    """What a change does to the matches; a question whose match moves is in both."""

    ended: Integers
    begun: MatchColumns


def rematch(index: LiveIndex, gone: Integers, new: Integers) -> MatchDelta:
    """Bring the matches at the head up to date with entries that ceased or came to be vertices."""
    match = index["outgoing"]["match"]
    asked = questions_of(index, "outgoing", gone)
    ended = asked[match[asked] >= 0]
    rows, _ = index.postings["matches_to"].of_each(gone)
    rows = rows[index["matches"]["died"][rows] == DEAD]
    orphans = np.setdiff1d(index["matches"]["out"][rows], ended).astype(np.int64)
    held_out = np.setdiff1d(np.flatnonzero(match >= 0), np.union1d(ended, orphans))
    held = match_rows(index, match[held_out])
    beaten = beating(index, held, questions_of(index, "incoming", new))
    unmatched = np.flatnonzero(match < 0)
    alive = index.alive
    unmatched = unmatched[alive[index["outgoing"]["entry"][unmatched]]]
    found = best_matches(index, np.union1d(orphans, unmatched), alive)
    begun = MatchColumns(
        *(
            np.concatenate([getattr(one, name) for one in (found, beaten)])
            for name in ("out", "into", "similarity")
        )
    )
    delta = MatchDelta(np.concatenate([ended, orphans, beaten.out]), begun)
    index.end_matches(delta.ended)
    index.begin_matches(begun.out, begun.into, begun.similarity)
    return delta


def replaced(index: LiveIndex, best: MatchColumns) -> MatchDelta:
    """Let these be the matches at the head: those that hold already stay as they are."""
    match = index["outgoing"]["match"]
    held = match_rows(index, match[best.out])
    same = (match[best.out] >= 0) & (held.into == best.into) & (held.similarity == best.similarity)
    stays = np.zeros(len(match), dtype=np.bool_)
    stays[best.out[same]] = True
    ended = np.flatnonzero((match >= 0) & ~stays)
    begun = MatchColumns(best.out[~same], best.into[~same], best.similarity[~same])
    index.end_matches(ended)
    index.begin_matches(begun.out, begun.into, begun.similarity)
    return MatchDelta(ended, begun)


def match_rows(index: LiveIndex, rows: Integers) -> MatchColumns:
    """These rows of the matches."""
    matches = index["matches"]
    return MatchColumns(
        matches["out"][rows].astype(np.int64),
        matches["into"][rows].astype(np.int64),
        matches["similarity"][rows].astype(np.float64),
    )


def match_records(index: LiveIndex, matches: MatchColumns) -> list[Match]:
    """The matches as the store has them."""
    columns = (
        index["outgoing"]["id"][matches.out].tolist(),
        index["incoming"]["id"][matches.into].tolist(),
        matches.similarity.tolist(),
    )
    return [
        Match(QuestionId(out), QuestionId(into), s) for out, into, s in zip(*columns, strict=True)
    ]


def best_matches(index: LiveIndex, out: Integers, entries: Flags) -> MatchColumns:
    """The best match of each outgoing question among the incoming ones of these entries.

    A question for which there is none is left out.
    """
    into = questions_of(index, "incoming", np.flatnonzero(entries))
    floor = np.full(len(index["outgoing"]), -np.inf)
    best = NO_MATCHES
    for start in range(0, len(out), _AT_ONCE):
        part = out[start : start + _AT_ONCE]
        best = _best(index, best, *Comparison(index, part, into, floor, True).reaching())
    return best


def beating(index: LiveIndex, held: MatchColumns, into: Integers) -> MatchColumns:
    """For each of the held matches that one of these incoming questions beats, the best that does.

    Of equal ones the lower id is better.
    """
    floor = np.full(len(index["outgoing"]), np.inf)
    floor[held.out] = held.similarity / HALF_COSINE
    best = NO_MATCHES
    for start in range(0, len(into), _AT_ONCE):
        part = into[start : start + _AT_ONCE]
        best = _best(index, best, *Comparison(index, held.out, part, floor, False).reaching())
    order = np.argsort(held.out)
    at = order[np.searchsorted(held.out[order], best.out)]
    ids = index["incoming"]["id"]
    won = (best.similarity > held.similarity[at]) | (
        (best.similarity == held.similarity[at]) & (ids[best.into] < ids[held.into[at]])
    )
    return MatchColumns(best.out[won], best.into[won], best.similarity[won])


def _best(index: LiveIndex, *parts: MatchColumns) -> MatchColumns:
    """The best of each outgoing question."""
    out, into, value = (
        np.concatenate([getattr(one, name) for one in parts])
        for name in ("out", "into", "similarity")
    )
    first = best_of_each(out, -value, index["incoming"]["id"][into])
    return MatchColumns(out[first], into[first], value[first])


def edge_budget(passages: int, factor: float) -> int:
    """How many edges a graph of n passages may keep: O(n log n), HopRAG section 3.2.

    >>> edge_budget(994, 1.0)
    6860
    """
    return math.floor(factor * passages * math.log(passages)) if passages > 1 else 0


def cut_of(question: NDArray[np.int64], similarity: NDArray[np.float64], budget: int) -> Cut | None:
    """The last match that the budget admits, by falling similarity and rising question id.

    None when it admits all. A budget of 0 admits none: the cut then stands above every match.

    >>> cut_of(np.array([7, 3]), np.array([0.5, 0.5]), 1)
    Cut(similarity=0.5, question=3)
    """
    if budget >= len(question):
        return None
    if budget == 0:
        return Cut(math.inf, QuestionId(-1))
    least = -float(np.partition(-similarity, budget - 1)[budget - 1])
    better = int(np.count_nonzero(similarity > least))
    alike = np.sort(question[similarity == least])
    return Cut(least, QuestionId(int(alike[budget - better - 1])))
