"""Lets the parts of a long section share their score.

A section that is too long for one passage is split into several passages, its parts. The section is
split by size, so the answer may be in the part beside the best matching part. Each of the best
passages gives a share of its score to the parts before and after it, unless the other part has a
higher score.

docs/benchmarks.md measures the effect.
"""

from dataclasses import dataclass

import numpy as np

from hopsyncd.index.arrays import Floats, Integers
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.ranking import REORDERED, largest

PART_SHARE = 0.2
"""The share of a part's score that the parts beside it gain. Values from 0.15 to 0.25 give the same
results."""


@dataclass(frozen=True, slots=True, eq=False)
class SectionShares:
    """The scores that passages gain from the passage before or after them in the same long section.

    givers: the best passages, which share their score. rows: (m,) the passages that gain score.
    sources: (m,) the giver from which each of these passages gains. gains: (m,) the score that each
    of them gains.
    """

    givers: Integers
    rows: Integers
    sources: Integers
    gains: Floats

    def add_to(self, scores: Floats) -> Floats:
        """Add the gains to the (n,) scores."""
        total = scores.copy()
        total[self.rows] += self.gains
        return total


def share_in_sections(snapshot: Snapshot, scores: Floats) -> SectionShares:
    """Compute the scores that the neighbours of the best passages gain.

    scores: (n,) the score of each passage row. The best `REORDERED` passages share their scores
    with the passages before and after them in the same section. A neighbour of two such passages
    gains only from the passage with the higher score.
    """
    givers = largest(scores, snapshot.passage_ids[: len(scores)], REORDERED)
    givers = givers[scores[givers] > 0]
    parts, positions = snapshot.find_other_parts(givers)
    order = np.lexsort((positions, parts))
    order = order[np.diff(parts[order], prepend=-1) > 0]
    rows, sources = parts[order], givers[positions[order]]
    gains = PART_SHARE * scores[sources] - scores[rows]
    kept = np.flatnonzero(gains > 0)
    return SectionShares(givers, rows[kept], sources[kept], gains[kept])


def list_parts(snapshot: Snapshot, givers: Integers) -> set[tuple[int, int]]:
    """List the passages beside each giver in its section, as pairs of a passage and its giver."""
    parts, positions = snapshot.find_other_parts(givers)
    return set(zip(parts.tolist(), givers[positions].tolist(), strict=True))
