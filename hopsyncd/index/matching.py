"""Matching, kept up to date: the edge merging of HopRAG section 3.2, made incremental.

Every outgoing question is matched with its argmax incoming question of another passage under
Eq. 1, ties going to the lowest id. That order is total, so the argmax over a union is the better of
the two argmaxes, and after a change it suffices to compare

- the outgoing questions that are new, or whose match is gone, with all incoming ones;
- all the others with the new incoming ones.

How they are compared without looking at each pair is in `hopsyncd.index.comparison`.

Many questions lose their match where a large part of a collection goes. Their successors can be
found before, in parts between which the index advances (`Successors`).

Worked example. A asks a1, B answers b1: a1 -> b1. Passage C arrives and answers c1: a1 keeps b1
unless c1 is more similar. C leaves again: only the questions matched with c1 look for another.
"""

import math
from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Integers, distinct, holds, marked, ranges, with_places
from hopsyncd.index.comparison import HALF_COSINE, NO_MATCHES, Comparison, MatchColumns
from hopsyncd.index.live_index import DEAD, LiveIndex
from hopsyncd.index.precedence import giving_way
from store.records import Cut, Match, QuestionId

Flags = NDArray[np.bool_]

RESTS = 1.0  # at most so many times as long as it works, while somebody asks


def jaccard(a: Set[str], b: Set[str]) -> float:
    """Shared keywords by all keywords; 0 when both sets are empty.

    >>> jaccard({"rome", "italy"}, {"rome"})
    0.5
    >>> jaccard(set(), set())
    0.0
    """
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def similarity(
    keywords_a: Set[str],
    vector_a: NDArray[np.integer],
    keywords_b: Set[str],
    vector_b: NDArray[np.integer],
) -> float:
    """Eq. 1: SIM(a, b) = (|ka & kb| / |ka | kb| + cos(va, vb)) / 2.

    The vectors are (d,) on the grid of store.records. The cosine is their exact integer dot
    product by GRID squared, within about 1e-4 of that of the unrounded vectors, so that equal
    inputs give equal bits everywhere.

    >>> v = np.array([4000, 0])
    >>> similarity({"rome", "italy"}, v, {"rome"}, v)
    0.75
    """
    dot = int(np.dot(vector_a.astype(np.int64), vector_b.astype(np.int64)))
    return jaccard(keywords_a, keywords_b) / 2 + dot * HALF_COSINE


def questions_of(index: LiveIndex, side: str, entries: Integers) -> Integers:
    """The questions of a side ("incoming", "outgoing") that the entries have."""
    columns = index["entries"]
    return ranges(columns[f"first_{side}"][entries], columns[f"end_{side}"][entries])[0]


@dataclass(frozen=True, slots=True, eq=False)
class MatchDelta:
    """What a version does to the matches; a question whose match moves is in both."""

    ended: Integers
    begun: MatchColumns


@dataclass(frozen=True, slots=True, eq=False)
class Successors:
    """Matches, by rising question, that take the place of some whose ends are to go.

    among: (e,) which entries they are the best of; an entry that came later is none of these.
    """

    index: LiveIndex
    among: Flags
    matches: MatchColumns


def orphans_of(index: LiveIndex, gone: Integers) -> Integers:
    """The outgoing questions of other entries whose match leads to one of these, rising."""
    rows, _ = index.postings["matches_to"].of_each(gone)
    rows = rows[index["matches"]["died"][rows] == DEAD]
    asking = index["matches"]["out"][rows]
    stay = ~holds(marked(len(index["entries"]), gone), index["outgoing"]["entry"][asking])
    return distinct(asking[stay]).astype(np.int64)


def rematch(
    index: LiveIndex, gone: Integers, new: Integers, known: Successors | None = None
) -> None:
    """Bring the matches at the head up to date with entries that ceased or came to be vertices.

    Questions whose successor is `known` are compared only with what came since that was found.
    """
    match = index["outgoing"]["match"]
    asked = questions_of(index, "outgoing", gone)
    ended = asked[match[asked] >= 0]
    orphans = orphans_of(index, gone)
    stays = match >= 0
    stays[ended] = stays[orphans] = False
    held = match_rows(index, match[stays])
    unmatched = np.flatnonzero(match < 0)
    alive = index.alive
    unmatched = unmatched[alive[index["outgoing"]["entry"][unmatched]]]
    with giving_way(RESTS):
        following = _following(index, known, orphans, alive)
        asked = np.setdiff1d(np.union1d(orphans, unmatched), following.out, assume_unique=True)
        begun = either(renewed(index, asked, alive, held, new), following)
    beaten = begun.out[match[begun.out] >= 0]
    index.end_matches(distinct(np.concatenate([ended, orphans, beaten])))
    index.begin_matches(begun.out, begun.into, begun.similarity)


def _following(
    index: LiveIndex, known: Successors | None, orphans: Integers, alive: Flags
) -> MatchColumns:
    """The matches of those orphans whose known successor, if it is not beaten, still holds."""
    if known is None or known.index is not index:  # that was loaded anew
        return NO_MATCHES
    standing = leading_to(index, known.matches, orphans, alive)
    entries = np.flatnonzero(alive)
    since = entries[~holds(known.among, entries)]
    return either(renewed(index, NO_MATCHES.out, alive, standing, since), standing)


def leading_to(
    index: LiveIndex, matches: MatchColumns, questions: Integers, entries: Flags
) -> MatchColumns:
    """Those of the matches that are of these questions, which rise, and lead to these entries."""
    into = index["incoming"]["entry"][matches.into]
    stays = with_places(questions, matches.out)[1] & holds(entries, into)
    return MatchColumns(matches.out[stays], matches.into[stays], matches.similarity[stays])


def either(first: MatchColumns, second: MatchColumns) -> MatchColumns:
    """By rising question its match in the first, else in the second; both rise."""
    more = ~with_places(first.out, second.out)[1]
    out = np.concatenate([first.out, second.out[more]])
    into = np.concatenate([first.into, second.into[more]])
    similarity = np.concatenate([first.similarity, second.similarity[more]])
    order = np.argsort(out)
    return MatchColumns(out[order], into[order], similarity[order])


def replace_matches(index: LiveIndex, best: MatchColumns) -> None:
    """Let these be the matches at the head: those that hold already stay as they are."""
    match = index["outgoing"]["match"]
    held = match_rows(index, match[best.out])
    same = (match[best.out] >= 0) & (held.into == best.into) & (held.similarity == best.similarity)
    stays = np.zeros(len(match), dtype=np.bool_)
    stays[best.out[same]] = True
    index.end_matches(np.flatnonzero((match >= 0) & ~stays))
    index.begin_matches(best.out[~same], best.into[~same], best.similarity[~same])


def pending_matches(index: LiveIndex) -> MatchDelta:
    """What the next version does to the matches, in however many steps that came about."""
    begun, ended = index.pending("matches")
    return MatchDelta(distinct(index["matches"]["out"][ended]), match_rows(index, begun))


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
    return renewed(index, out, entries, NO_MATCHES, np.empty(0, dtype=np.int64))


def renewed(
    index: LiveIndex, asked: Integers, entries: Flags, held: MatchColumns, new: Integers
) -> MatchColumns:
    """The best matches of the questions asked among those of `entries`, and of those with a held
    match, which rise, the best that beats it among those of the `new` entries.

    Of equal ones the lower id is better.
    """
    # All that answer are listed only if something asks: an edit may leave every match in place.
    among = questions_of(index, "incoming", np.flatnonzero(entries & bool(len(asked))))
    answers = questions_of(index, "incoming", new)
    best = Comparison(index, asked, among, held, answers).best()
    at, is_held = with_places(held.out, best.out)
    at, ids = at[is_held], index["incoming"]["id"]
    similarity, into = best.similarity[is_held], best.into[is_held]
    won = np.ones(len(best), dtype=np.bool_)
    won[is_held] = (similarity > held.similarity[at]) | (
        (similarity == held.similarity[at]) & (ids[into] < ids[held.into[at]])
    )
    return MatchColumns(best.out[won], best.into[won], best.similarity[won])


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
