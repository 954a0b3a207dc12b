"""Matching, kept up to date: the edge merging of HopRAG section 3.2, made incremental.

Every outgoing question is matched with its argmax incoming question of another passage under
Eq. 1, ties going to the lowest id. That order is total, so the argmax over a union is the better of
the two argmaxes, and after a change it suffices to compare

- the outgoing questions that are new, or whose match is gone, with all incoming ones;
- all the others with the new incoming ones.

Worked example. A asks a1, B answers b1: a1 -> b1. Passage C arrives and answers c1: a1 keeps b1
unless c1 is more similar. C leaves again: only the questions matched with c1 look for another.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.edge_budget import Ranking, move, rank
from hopsyncd.index.names import NameIndex
from hopsyncd.index.similarity import HALF_COSINE
from store.records import Direction, Match, PassageId, Question, QuestionId, QuestionSet, content_id


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The rows of each of n passages: those of its text, then those of its sentences.

    order: (n,) the passages by their first row. bounds: (2n,) in that order, the first row of each
    and the row after its last.
    """

    order: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, first: NDArray[np.int64], end: NDArray[np.int64]) -> Self:
        """From the (n,) first rows and the rows after the last; no passage is without rows."""
        order = np.argsort(first)
        return cls(order, np.stack([first[order], end[order]], 1).reshape(-1))

    def best(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) the largest of the (r,) values of each passage's rows.

        >>> Spans.of(np.array([2, 0]), np.array([3, 2])).best(np.array([0.1, 0.5, 0.2])).tolist()
        [0.2, 0.5]
        """
        largest = np.empty(len(self.order))
        if len(self.order):
            # The last bound may be the end of the values, which reduceat cannot name.
            ended = np.append(values, -np.inf)
            largest[self.order] = np.maximum.reduceat(ended, self.bounds)[::2]
        return largest


class VectorArena:
    """Grid vectors as float32 rows. It only grows, so a reader may go on using `rows` as it was."""

    def __init__(self, dimensions: int) -> None:
        self._rows = np.empty((256, dimensions), dtype=np.float32)
        self._used = 0

    @property
    def rows(self) -> NDArray[np.float32]:
        """The (used, d) rows so far; a view that later growth leaves as it is."""
        return self._rows[: self._used]

    def append(self, vectors: NDArray[np.int16]) -> int:
        """Add (m, d) vectors; returns the row of the first."""
        first, needed = self._used, self._used + len(vectors)
        if needed > len(self._rows):
            grown = np.empty((max(needed, 2 * first), self._rows.shape[1]), dtype=np.float32)
            grown[:first] = self.rows
            self._rows = grown
        self._rows[first:needed] = vectors
        self._used = needed
        return first


_NONE = -1
_BLOCK_CELLS = 1 << 24  # float32 similarities held at once: 64 MiB

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MatchDelta:
    """What a change does to the matches; a question whose match moves is in both."""

    ended: tuple[Match, ...]
    begun: tuple[Match, ...]


class QuestionTable:
    """The questions of one direction, as columns; a position never changes its question."""

    def __init__(self) -> None:
        self.id = np.empty(0, dtype=np.int64)
        self.passage = np.empty(0, dtype=np.int64)
        self.row = np.empty(0, dtype=np.int64)
        self.alive = np.empty(0, dtype=np.bool_)
        self.keywords: list[frozenset[str]] = []
        self._sizes = np.empty(0, dtype=np.int64)  # how many keywords each has
        self._having: dict[str, array[int]] = {}
        self._keyword = array("q")  # those of all questions in a row, numbered as they came
        self._numbers: dict[str, int] = {}
        # Which question has which keyword, but for questions about the passage as a whole.
        self.mention_at = np.empty(0, dtype=np.int64)
        self.mention_name = np.empty(0, dtype=np.int64)
        self._name_ids: dict[str, int] = {}
        self.spelled: dict[int, str] = {}

    def extend(self, questions: Sequence[tuple[PassageId, int, Question]]) -> Positions:
        """Add (passage, vector row, question) triples; returns their positions."""
        first = len(self.keywords)
        at: list[int] = []
        names: list[int] = []
        for position, (_, _, question) in enumerate(questions, first):
            self.keywords.append(question.keywords)
            for keyword in question.keywords:
                self._having.setdefault(keyword, array("q")).append(position)
                self._keyword.append(self._numbers.setdefault(keyword, len(self._numbers)))
                if question.vector_row != 0:
                    at.append(position)
                    names.append(self.name_id(keyword))
        self.mention_at = _extended(self.mention_at, at)
        self.mention_name = _extended(self.mention_name, names)
        self._sizes = _extended(
            self._sizes, [len(question.keywords) for _, _, question in questions]
        )
        count = len(questions)
        self.id = _extended(self.id, [question.id for _, _, question in questions])
        self.passage = _extended(self.passage, [passage for passage, _, _ in questions])
        self.row = _extended(self.row, [row for _, row, _ in questions])
        self.alive = np.concatenate([self.alive, np.ones(count, dtype=np.bool_)])
        return np.arange(first, first + count)

    def name_id(self, name: str) -> int:
        """The content id of a name, which `spelled` has from now on."""
        known = self._name_ids.get(name)
        if known is None:
            known = self._name_ids[name] = content_id(name)
            self.spelled[known] = name
        return known

    def find(self, ids: Positions) -> Positions:
        """The position of each of these questions, all of which are alive.

        A passage that left and came back has dead positions of the same ids.
        """
        alive = np.flatnonzero(self.alive)
        order = alive[np.argsort(self.id[alive])]
        return order[np.searchsorted(self.id[order], ids)]

    def rarest(self, mentioned: Mapping[str, int], otherwise: int) -> Positions:
        """How many mentions each question's rarest keyword has; `otherwise` where it has none."""
        known = (mentioned.get(keyword, 0) for keyword in self._numbers)
        counts = np.fromiter(known, np.int64, len(self._numbers))
        some = self._sizes > 0
        least = np.full(len(self._sizes), otherwise, dtype=np.int64)
        first = (np.cumsum(self._sizes) - self._sizes)[some]
        if len(first):
            least[some] = np.minimum.reduceat(counts[np.array(self._keyword)], first)
        return least

    def half_jaccards(self, keywords: frozenset[str]) -> tuple[Positions, NDArray[np.float64]]:
        """Half the Jaccard of the keywords with each question here that shares one of them, by
        rising position."""
        having = [np.array(self._having[one]) for one in keywords if one in self._having]
        if not having:
            return np.empty(0, dtype=np.int64), np.empty(0)
        at, shared = np.unique(np.concatenate(having), return_counts=True)
        return at, shared / (len(keywords) + self._sizes[at] - shared) / 2


def _extended(column: Positions, values: Sequence[int]) -> Positions:
    return np.concatenate([column, np.array(values, dtype=np.int64)])


class MergeIndex:
    """All triplets in force at the head, arranged for matching. Owned by the one writer.

    `target` and `similarity` run along the outgoing side: the position of the matched incoming
    question (-1: none) and Eq. 1 of the two.
    """

    def __init__(self, dimensions: int) -> None:
        self.arena = VectorArena(dimensions)
        self.incoming = QuestionTable()
        self.outgoing = QuestionTable()
        self.target = np.empty(0, dtype=np.int64)
        self.similarity = np.empty(0, dtype=np.float64)
        self.ranking: Ranking = rank(self.target, self.similarity)
        self.first_row: dict[PassageId, int] = {}
        self.end_row: dict[PassageId, int] = {}  # the one after its last
        self.names = NameIndex()

    @property
    def worn(self) -> bool:
        """Whether most positions are dead: time to load the index anew."""
        dead = len(self.incoming.id) - int(self.incoming.alive.sum())
        return dead > 1000 and 2 * dead > len(self.incoming.id)

    def load(
        self,
        sets: Iterable[QuestionSet],
        question: Positions,
        target: Positions,
        similarity: NDArray[np.float64],
    ) -> None:
        """Take over stored question sets and their stored matches, comparing nothing."""
        self._add(list(sets))
        outs = self.outgoing.find(question)
        self.target[outs] = self.incoming.find(target)
        self.similarity[outs] = similarity
        self.ranking = rank(question, similarity)

    def change(self, ended: Sequence[PassageId], begun: Sequence[QuestionSet]) -> MatchDelta:
        """Take passages out, put question sets in, and re-match what that affects."""
        before = self.matches()
        self._remove(ended)
        matched = np.flatnonzero(self.target != _NONE)
        self.target[matched[~self.incoming.alive[self.target[matched]]]] = _NONE
        new_incoming = self._add(begun)
        self._contest(np.flatnonzero(self.target != _NONE), new_incoming)
        self._search(np.flatnonzero(self.outgoing.alive & (self.target == _NONE)))
        delta = _delta(before, self.matches())
        self.ranking = move(self.ranking, delta.ended, delta.begun)
        return delta

    def matches(self) -> "MatchColumns":
        """The matches in force, by position of their outgoing question."""
        return MatchColumns(
            self.outgoing.id,
            np.append(self.incoming.id, _NONE)[self.target],  # the last: what _NONE points at
            self.similarity.copy(),
        )

    def _remove(self, passages: Sequence[PassageId]) -> None:
        gone = np.array(passages, dtype=np.int64)
        for passage in passages:
            del self.first_row[passage]
            del self.end_row[passage]
            self.names.remove(passage)
        self.incoming.alive &= ~np.isin(self.incoming.passage, gone)
        self.outgoing.alive &= ~np.isin(self.outgoing.passage, gone)
        self.target[~self.outgoing.alive] = _NONE

    def _add(self, sets: Sequence[QuestionSet]) -> Positions:
        """Returns the positions of the new incoming questions."""
        rows: dict[Direction, list[tuple[PassageId, int, Question]]] = {d: [] for d in Direction}
        for added in sets:
            first = self.first_row[added.passage] = self.arena.append(added.vectors)
            self.end_row[added.passage] = first + len(added.vectors)
            self.names.add(added)
            for question in added.questions:
                row = first + question.vector_row
                rows[question.direction].append((added.passage, row, question))
        outgoing = self.outgoing.extend(rows[Direction.OUTGOING])
        self.target = np.concatenate([self.target, np.full(len(outgoing), _NONE)])
        self.similarity = np.concatenate([self.similarity, np.full(len(outgoing), -np.inf)])
        return self.incoming.extend(rows[Direction.INCOMING])

    def _contest(self, outs: Positions, challengers: Positions) -> None:
        """Give each of the outs to the challenger that beats its match, if one does."""
        # What the vectors alone must reach: only who does, or shares a keyword, is compared.
        least = np.full(len(self.target), np.inf, dtype=np.float32)
        least[outs] = np.nextafter(
            (self.similarity[outs] / HALF_COSINE).astype(np.float32), np.float32(-np.inf)
        )
        for challenger, dots in self._products(challengers, self.incoming):
            self._challenge(challenger, dots, least)

    def _products(
        self, at: Positions, side: QuestionTable
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Each of the questions of a side, with the products of its vector and all there are."""
        rows, row_of = np.unique(side.row[at], return_inverse=True)
        order = np.argsort(row_of, kind="stable")
        ends = np.searchsorted(row_of[order], np.arange(len(rows) + 1))
        step = max(1, _BLOCK_CELLS // max(len(self.arena.rows), 1))
        for start in range(0, len(rows), step):
            products = self.arena.rows[rows[start : start + step]] @ self.arena.rows.T
            for number, line in enumerate(products, start):
                for one in at[order[ends[number] : ends[number + 1]]].tolist():
                    yield one, line

    def _challenge(
        self, challenger: int, dots: NDArray[np.float32], least: NDArray[np.float32]
    ) -> None:
        side = self.outgoing
        sharing, halves = side.half_jaccards(self.incoming.keywords[challenger])
        at = np.union1d(sharing, np.flatnonzero(dots[side.row] >= least))
        rival = dots[side.row[at]].astype(np.float64) * HALF_COSINE
        rival[np.searchsorted(at, sharing)] += halves
        mine = self.similarity[at]
        won = (rival > mine) | (
            (rival == mine) & (self.incoming.id[challenger] < self.incoming.id[self.target[at]])
        )
        won &= (least[at] < np.inf) & (side.passage[at] != self.incoming.passage[challenger])
        self.target[at[won]] = challenger
        self.similarity[at[won]] = rival[won]

    def _search(self, outs: Positions) -> None:
        """Match each of the outs with the best of all living incoming questions."""
        alive = np.flatnonzero(self.incoming.alive)
        if not len(alive):
            return
        for out, dots in self._products(outs, self.outgoing):
            self._match(out, dots, alive)

    def _match(self, out: int, dots: NDArray[np.float32], alive: Positions) -> None:
        side, own = self.incoming, self.outgoing.passage[out]
        others = dots[side.row[alive]]
        others[side.passage[alive] == own] = -np.inf
        near = alive[others == others.max()]
        sharing, halves = side.half_jaccards(self.outgoing.keywords[out])
        at = np.concatenate([near, sharing])
        scores = dots[side.row[at]].astype(np.float64) * HALF_COSINE
        scores[len(near) :] += halves
        scores[~side.alive[at] | (side.passage[at] == own)] = -np.inf
        best = scores.max()
        if best == -np.inf:
            return
        ties = at[scores == best]
        self.target[out] = ties[np.argmin(side.id[ties])]
        self.similarity[out] = best


@dataclass(frozen=True, slots=True, eq=False)
class MatchColumns:
    """Outgoing question, its target (-1: none) and their similarity, by position."""

    question: Positions
    target: Positions
    similarity: NDArray[np.float64]

    def at(self, positions: Positions) -> tuple[Match, ...]:
        """The matches at those positions that have one."""
        return tuple(
            Match(QuestionId(question), QuestionId(target), similarity)
            for question, target, similarity in zip(
                self.question[positions].tolist(),
                self.target[positions].tolist(),
                self.similarity[positions].tolist(),
                strict=True,
            )
            if target != _NONE
        )


def _delta(before: MatchColumns, after: MatchColumns) -> MatchDelta:
    old = len(before.question)
    moved = np.flatnonzero(before.target != after.target[:old])
    new = np.arange(old, len(after.question))
    return MatchDelta(before.at(moved), after.at(np.concatenate([moved, new])))
