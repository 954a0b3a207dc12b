"""The links between the passages of one version: ways that the documents' writers made."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from store.records import PassageId

Integers = NDArray[np.int64]
Linked = tuple[PassageId, PassageId, str]
"""A link from one passage to another, and what it shows."""

_MAX_OF_PASSAGE = 32  # a passage that links to more is an index, and its first ones stand for it


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """l links between passages, in columns, by source and target; no pair is there twice.

    source, target: (l,) positions among the passages. shown: the text of each. As ways, i < l is
    link i from source to target, l + i the same from target to source.
    """

    source: Integers
    target: Integers
    shown: tuple[str, ...]

    @property
    def start(self) -> Integers:
        """(2l,) where each way begins."""
        return np.concatenate([self.source, self.target])

    @property
    def end(self) -> Integers:
        """(2l,) where each way leads to."""
        return np.concatenate([self.target, self.source])


def links_of(written: Sequence[Linked], passage: Integers) -> Links:
    """Arrange links for the walk; `passage` are the ids of all passages, rising."""
    ends = np.array([row[:2] for row in written], dtype=np.int64).reshape(-1, 2)
    ways: dict[int, dict[int, str]] = {}
    for (source, target), row in zip(np.searchsorted(passage, ends).tolist(), written, strict=True):
        of_passage = ways.setdefault(source, {})
        if source != target and len(of_passage) < _MAX_OF_PASSAGE:
            of_passage.setdefault(target, row[2])
    rows = sorted(
        (start, end, shown) for start, ends in ways.items() for end, shown in ends.items()
    )
    return Links(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        tuple(row[2] for row in rows),
    )
