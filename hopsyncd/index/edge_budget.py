"""The edge budget: how many matches become edges, and the cut that moves when matches change."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from store.records import Cut, Match, QuestionId


def edge_budget(passages: int, factor: float) -> int:
    """How many edges a graph of n passages may keep: O(n log n), HopRAG section 3.2.

    >>> edge_budget(994, 1.0)
    6860
    """
    return math.floor(factor * passages * math.log(passages)) if passages > 1 else 0


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """All matches in force, best first: by falling similarity, then by rising question id.

    Columns of equal length: `loss` is the negated similarity (float64), `question` is int64.
    """

    loss: NDArray[np.float64]
    question: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.loss)

    def cut(self, budget: int) -> Cut | None:
        """The last admitted match; None when the budget admits all.

        A budget of 0 admits none: the cut then stands above every possible match.
        """
        if budget >= len(self):
            return None
        if budget == 0:
            return Cut(math.inf, QuestionId(-1))
        return Cut(-float(self.loss[budget - 1]), QuestionId(int(self.question[budget - 1])))


def rank(question: NDArray[np.int64], similarity: NDArray[np.float64]) -> Ranking:
    """Sort matches into a ranking."""
    order = np.lexsort((question, -similarity))
    return Ranking(-similarity[order], question[order])


def move(ranking: Ranking, ended: Sequence[Match], begun: Sequence[Match]) -> Ranking:
    """The ranking without the ended and with the begun matches: each finds its place by bisection.

    What did not change is moved as a block and never compared again, so the cut of the result
    stands where a fresh ranking would have it.

    >>> first = rank(np.array([7]), np.array([0.5]))
    >>> both = move(first, [], [Match(QuestionId(3), QuestionId(2), 0.5)])
    >>> both.question.tolist(), both.cut(1)
    ([3, 7], Cut(similarity=0.5, question=3))
    """
    kept = Ranking(
        np.delete(ranking.loss, at := _places(ranking, ended)), np.delete(ranking.question, at)
    )
    new = rank(
        np.array([match.question for match in begun], dtype=np.int64),
        np.array([match.similarity for match in begun], dtype=np.float64),
    )
    places = _bisect(kept, zip(new.loss.tolist(), new.question.tolist(), strict=True))
    return Ranking(
        np.insert(kept.loss, places, new.loss), np.insert(kept.question, places, new.question)
    )


def _places(ranking: Ranking, matches: Sequence[Match]) -> list[int]:
    return _bisect(ranking, ((-match.similarity, match.question) for match in matches))


def _bisect(ranking: Ranking, keys: Iterable[tuple[float, int]]) -> list[int]:
    places = []
    for loss, question in keys:
        low = np.searchsorted(ranking.loss, loss, "left")
        high = np.searchsorted(ranking.loss, loss, "right")
        places.append(int(low + np.searchsorted(ranking.question[low:high], question)))
    return places
