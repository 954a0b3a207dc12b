"""Which ways lead on from a passage, for a traversal that takes them one at a time."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Ways:
    """The e edges of a version as ways: i < e is edge i from source to target, e + i the same edge
    from target to source. Arranged when first asked for; the default walk never asks.

    >>> ways = Ways(np.array([0, 1]), np.array([1, 0]), 2)
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
