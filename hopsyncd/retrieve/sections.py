"""Lets the parts of a long section share their score.

A section that is too long for one passage is split into several. The section is split by size, so
the answer may be in the part beside the best matching part. Each of the best passages gives the
parts before and after it a share of its own score, unless they have a higher score.

docs/benchmarks.md measures the effect.
"""

from dataclasses import dataclass

import numpy as np

from hopsyncd.index.arrays import Floats, Integers
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.ranking import DEPTH, largest

PART_SHARE = 0.2
"""A share of the score of the part beside it. No result changes between 0.15 and 0.25."""


@dataclass(frozen=True, slots=True, eq=False)
class SectionShares:
    """The scores that parts of sections gain.

    givers: the best passages, whose neighbouring parts were looked up. rows: (m,) the parts that
    gained score. sources: (m,) the passage beside each of them. gains: (m,) the score that each
    gained.
    """

    givers: Integers
    rows: Integers
    sources: Integers
    gains: Floats

    def add_to(self, scores: Floats) -> Floats:
        """(n,) the scores with the gains."""
        total = scores.copy()
        total[self.rows] += self.gains
        return total


def share_in_sections(snapshot: Snapshot, scores: Floats) -> SectionShares:
    """The gains of the other parts of the best passages' sections, computed from (n,) scores.

    A part beside two of the best passages gains from the passage with the higher score. Only the
    first `DEPTH` passages share, because a part beside a later passage would not be ranked among
    them.
    """
    givers = largest(scores, snapshot.passage_ids[: len(scores)], DEPTH)
    givers = givers[scores[givers] > 0]
    parts, positions = snapshot.find_other_parts(givers)
    order = np.lexsort((positions, parts))
    order = order[np.diff(parts[order], prepend=-1) > 0]
    rows, sources = parts[order], givers[positions[order]]
    gains = PART_SHARE * scores[sources] - scores[rows]
    kept = np.flatnonzero(gains > 0)
    return SectionShares(givers, rows[kept], sources[kept], gains[kept])


def list_parts(snapshot: Snapshot, givers: Integers) -> set[tuple[int, int]]:
    """The passages whose score depends on `givers`, each paired with the giver beside it."""
    parts, positions = snapshot.find_other_parts(givers)
    return set(zip(parts.tolist(), givers[positions].tolist(), strict=True))
