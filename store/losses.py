"""Counts the rows that a purge removes from each version, and finds new edge thresholds."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from store.contract import Connection
from store.records import EdgeThreshold, QuestionId

Span = tuple[int, int]
Integers = NDArray[np.int64]

_BLOCK = 4096  # matches examined per step of a search


class Losses:
    """The numbers of rows that a purge removes, one per kept version, in the order of `kept`.

    `edges` counts the removed matches within the edge threshold. `lost_threshold` marks the
    versions whose match at the threshold was itself removed. These versions need a new threshold.
    """

    def __init__(self, connection: Connection) -> None:
        rows = connection.execute(
            "SELECT id, matches, edge_budget, cut_similarity, cut_question FROM version"
            " WHERE collected_ms IS NULL ORDER BY id"
        ).fetchall()
        self.kept, self.had_matches, self.had_budget = (
            np.array([row[column] for row in rows], dtype=np.int64) for column in range(3)
        )
        self.has_threshold = np.array([row[4] is not None for row in rows], dtype=np.bool_)
        self.threshold_similarity = np.array([row[3] or 0.0 for row in rows], dtype=np.float64)
        self.threshold_question = np.array([row[4] or 0 for row in rows], dtype=np.int64)
        self._thresholds = {(row[4], row[3]) for row in rows}
        self.lost_threshold = np.zeros(len(rows), dtype=np.bool_)
        self.documents, self.passages, self.words, self.matches, self.edges = np.zeros(
            (5, len(rows)), dtype=np.int64
        )

    def find_in_span(self, span: Span) -> slice:
        """Return the slice of `kept` with the versions in the span."""
        first, last = np.searchsorted(self.kept, span)
        return slice(int(first), int(last))

    def holds(self, span: Span) -> bool:
        versions = self.find_in_span(span)
        return bool(versions.start < versions.stop)

    def count(self, lost: Integers, span: Span, left: Iterable[Span] = (), each: int = 1) -> bool:
        """Add `each` to the counts `lost` at the versions in `span` that are not in a span of
        `left`. Returns False if there are no such versions."""
        change = np.zeros(len(self.kept) + 1, dtype=np.int64)
        versions = self.find_in_span(span)
        change[versions] += each
        for part in left:
            change[self.find_in_span(part)] -= each
        lost[versions] += change[versions]
        return bool(change[versions].any())

    def count_match(self, match: tuple[int, float], span: Span, left: Iterable[Span]) -> None:
        """Count the loss of a match (question, similarity) at the versions in `span` that are not
        in a span of `left`. At versions with the match within the edge threshold, an edge is lost
        too."""
        before = self.matches.copy()
        if self.count(self.matches, span, left) and self.has_threshold.any():
            question, similarity = match
            lost = self.matches - before
            admitted = (similarity > self.threshold_similarity) | (
                (similarity == self.threshold_similarity) & (question <= self.threshold_question)
            )
            self.edges += lost * (admitted & self.has_threshold)
            if match in self._thresholds:
                is_at_threshold = (similarity == self.threshold_similarity) & (
                    question == self.threshold_question
                )
                self.lost_threshold |= is_at_threshold & self.has_threshold & (lost > 0)


class ThresholdSearch:
    """Finds new edge thresholds in a sorted list of all matches, which is read at the first
    search."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._question: Integers | None = None

    def _load(self) -> Integers:
        rows = self._connection.execute(
            "SELECT question, born, died, similarity FROM match ORDER BY similarity DESC, question"
        ).fetchall()
        question, self._born, self._died = (
            np.array([row[column] for row in rows], dtype=np.int64) for column in range(3)
        )
        self._falling = np.array([-row[3] for row in rows], dtype=np.float64)
        self._is_there = np.ones(len(rows), dtype=np.bool_)
        self._question = question
        return question

    def find_last_admitted(self, number: int, edge_threshold: EdgeThreshold) -> EdgeThreshold:
        """Return the worst match in force at version `number` that is within `edge_threshold`."""
        question = self._load() if self._question is None else self._question
        first, last = (
            int(np.searchsorted(self._falling, -edge_threshold.similarity, side=side))
            for side in ("left", "right")
        )
        end = first + int(
            np.searchsorted(question[first:last], edge_threshold.question, side="right")
        )
        while end:
            start = max(0, end - _BLOCK)
            fitting = self._is_there[start:end] & (self._born[start:end] <= number)
            fitting &= self._died[start:end] > number
            for position in (start + np.flatnonzero(fitting)[::-1]).tolist():
                if self._is_in_force(position, number):
                    return EdgeThreshold(
                        -float(self._falling[position]), QuestionId(int(question[position]))
                    )
            end = start
        return EdgeThreshold(math.inf, QuestionId(-1))

    def _is_in_force(self, position: int, number: int) -> bool:
        """Whether the match at `position` exists at version `number` after the purge."""
        assert self._question is not None
        rows = self._connection.execute(
            "SELECT born, died FROM match WHERE question = ? AND similarity = ?"
            " AND died > ? AND born < ?",
            [
                int(self._question[position]),
                -float(self._falling[position]),
                int(self._born[position]),
                int(self._died[position]),
            ],
        ).fetchall()
        self._is_there[position] = bool(rows)
        return any(born <= number < died for born, died in rows)
