"""What the answer to a question rests on, and whether a newer version touches it.

A walk opens some hundreds of passages, whatever the collection holds, so a version that changes
nothing there, and adds nothing that the question would begin at or the walk would reach, leaves its
outcome as it is: up to the statistics of the whole collection, in which one passage more or less
counts by its share. So a question is asked again where its footprint is touched, and where one in
a hundred passages came or went since it was last asked. In a collection of fewer than a hundred,
that is always.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Floats, Integers, ranges
from hopsyncd.index.live_index import LiveIndex, name_key
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.query_context import (
    OF_LIKENESS,
    OF_WORDS,
    QueryContext,
    seed_likeness,
)
from hopsyncd.retrieve.ranking import largest
from hopsyncd.retrieve.walk import Walked
from store.records import Vectors

_DRIFT = 100  # one passage in so many
_FAR = 10.0  # a seed so much less alike than the best has less than e^-10 of its mass
_LEAST_FLOW = 1e-3  # of all mass: a name that less of it passed through is no way to the answer
_DEPTH = 20


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Of a question at a version: the entries and the names that its walk went through, rising.

    terms: the question's terms by key, with their shares of its idf. best: the likeness of the best
    seed. None of this outlives the index that it was taken from.
    """

    snapshot: Snapshot
    vector: Vectors
    entries: Integers
    names: Integers
    terms: Mapping[int, float]
    best: float

    @classmethod
    def of(cls, context: QueryContext, vector: Vectors, walked: Walked) -> Self:
        """What the walk went through, and what came close to it."""
        snapshot = context.snapshot
        first = largest(walked.arrived, snapshot.ids, _DEPTH)
        ways = (walked.edges, walked.links)
        opened = [part for way in ways for part in (way.start, way.end)]
        opened += [walked.leaving.entry, walked.arriving.entry, first]
        names, at = np.unique(walked.leaving.name, return_inverse=True)
        flow = np.bincount(at, walked.left, minlength=len(names))
        own = [snapshot.number_of(name) for name in context.names]
        return cls(
            snapshot,
            vector,
            np.unique(np.concatenate(opened)),
            np.union1d(names[flow >= _LEAST_FLOW], np.array(own, dtype=np.int64)),
            {name_key(term): share for term, share in context.terms.items()},
            float(seed_likeness(context).max()),
        )


def is_touched(footprint: Footprint, now: Snapshot) -> bool:
    """Whether the question may have another outcome at this later version."""
    before, index = footprint.snapshot, now.index
    if index is not before.index:
        return True
    entry, born, died = index["lives"].views("entry", "born", "died")
    span = (before.version.id, now.version.id)
    came = entry[_within(born, span) & (died > span[1])].astype(np.int64)
    went = entry[_within(died, span) & (born <= span[0])].astype(np.int64)
    if (len(came) + len(went)) * _DRIFT > before.statistics.passages:
        return True
    changed = [went, _matched_otherwise(before, now), _placed_otherwise(now, span)]
    if np.isin(np.concatenate(changed), footprint.entries).any():
        return True
    return len(came) > 0 and _draws(footprint, index, came)


def _within(column: NDArray[np.int64], span: tuple[int, int]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (column > span[0]) & (column <= span[1])
    return found


def _matched_otherwise(before: Snapshot, now: Snapshot) -> Integers:
    """The entries whose edges may differ: by a match that came or went, or by the cut."""
    index, span = now.index, (before.version.id, now.version.id)
    out, into, similarity, born, died = index["matches"].views(
        "out", "into", "similarity", "born", "died"
    )
    changed = _within(born, span) | _within(died, span)
    cuts = [one.version.cut for one in (before, now)]
    least = [one.similarity if one else -np.inf for one in cuts]
    if cuts[0] != cuts[1]:
        alive = (born <= span[1]) & (died > span[1])
        changed |= alive & (similarity >= min(least)) & (similarity <= max(least))
    return np.concatenate(
        [index["outgoing"]["entry"][out[changed]], index["incoming"]["entry"][into[changed]]]
    ).astype(np.int64)


def _placed_otherwise(now: Snapshot, span: tuple[int, int]) -> Integers:
    """The entries in documents that came, went, or are called otherwise; and the ends of links."""
    index = now.index
    born, died = index["documents"].views("born", "died")
    documents = np.flatnonzero(_within(born, span) | _within(died, span))
    rows, _ = index.postings["placements_of_document"].of_each(documents)
    source, target, begun, ended = index["link_ways"].views("source", "target", "born", "died")
    linked = _within(begun, span) | _within(ended, span)
    numbers = np.concatenate(
        [index["placements"]["number"][rows], source[linked], target[linked]]
    ).astype(np.int64)
    entries, _ = index.postings["entries_of_number"].of_each(np.unique(numbers))
    return entries


def _draws(footprint: Footprint, index: LiveIndex, came: Integers) -> bool:
    """Whether the question would begin at one of these new entries, or reach it by a name."""
    columns = index["entries"]
    for part in ("mention", "said"):
        rows, _ = ranges(columns[f"first_{part}"][came], columns[f"end_{part}"][came])
        if np.isin(index[part]["name"][rows], footprint.names).any():
            return True
    like = OF_LIKENESS * _cosines(footprint, index, came) + OF_WORDS * _words(
        footprint, index, came
    )
    return bool((like > footprint.best - _FAR).any())


def _cosines(footprint: Footprint, index: LiveIndex, entries: Integers) -> Floats:
    """(m,) of the question with the best row of each entry."""
    columns, exact = index["entries"], index.vectors.exact
    vector = footprint.vector.astype(np.float64)
    best = np.zeros(len(entries))
    for at, entry in enumerate(entries.tolist()):
        rows = exact[int(columns["first_row"][entry]) : int(columns["end_row"][entry])]
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1) * np.linalg.norm(vector)
        best[at] = float(((rows @ vector) / np.maximum(lengths, 1e-9)).max(initial=0.0))
    return best


def _words(footprint: Footprint, index: LiveIndex, entries: Integers) -> Floats:
    """(m,) what share of the question's words each entry has: at least its share of BM25."""
    keys = np.array(list(footprint.terms), dtype=np.int64)
    shares = np.array(list(footprint.terms.values()))
    rows, of = index.postings["term_rows"].of_each(keys)
    having = index["term"]["entry"][rows]
    order = np.argsort(entries)
    at = np.searchsorted(entries[order], having)
    there = at < len(entries)
    there[there] &= entries[order][at[there]] == having[there]
    found = np.zeros(len(entries))
    np.add.at(found, order[at[there]], shares[of[there]])
    return found
