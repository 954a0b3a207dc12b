"""Who mentions which name, and where: the ways between passages that no edge has room for.

The edge budget keeps the best match of each question. A name that ten passages mention joins each
of them to all the others, which as edges would be quadratic; as mentions it is linear.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """m mentions of names in the n passages of one version, in columns.

    passage: (m,) positions among the passages. name: (m,) content ids of names. row: (m,) the row
    of the sentence's vector. bridge: (b,) those mentions whose name is in at least two passages.
    bridge_name: (b,) their names, numbered from 0. share: (b,) the part of a passage's mass that
    leaves through each mention, by the rarity log(1 + n / df) of its name; they sum to 1.
    spelled: the name of each content id. said: so many, the first, stand in the passage; the
    others are names of its document.
    """

    passage: Integers
    name: Integers
    row: Integers
    bridge: Integers
    bridge_name: Integers
    share: Floats
    spelled: Mapping[int, str]
    said: int


def mentions_of(
    passage: Integers,
    name: Integers,
    row: Integers,
    spelled: Mapping[int, str],
    n: int,
    unsaid: int = 0,
) -> Mentions:
    """Arrange mentions for the walk; `n` is the number of passages, `unsaid` that of the mentions
    at the end that no passage says."""
    _, numbered = np.unique(name, return_inverse=True)
    pairs = np.sort(numbered * max(n, 1) + passage)
    spread = np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] // max(n, 1))
    bridge = np.flatnonzero(spread[numbered] > 1)
    _, bridge_name = np.unique(name[bridge], return_inverse=True)
    rarity = np.log1p(n / spread[numbered[bridge]])
    share = rarity / np.bincount(passage[bridge], rarity, n)[passage[bridge]]
    said = len(name) - unsaid
    return Mentions(passage, name, row, bridge, bridge_name, share, spelled, said)
