"""Computes the map of a version: its documents in groups by similarity, and their connections.

Only visible documents of the snapshot are used, so hidden and filtered-out documents do not affect
the map.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopsyncd.index.arrays import (
    AnyIntegers,
    Flags,
    Integers,
    find_sorted,
    select_first_of_groups,
    take_flags,
)
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.map_layout import Layout, Matrix, arrange, normalize
from hopsyncd.retrieve.results import find_whole_words
from store.content import read_passages
from store.contract import Connection
from store.reads import read_titles
from store.records import PassageId

MOST_DOCUMENTS = 20_000
_PASSAGES = 16  # first passages of each document that are used
_DOCUMENTS_AT_ONCE = 1024
_PARTNERS = 3  # documents connected with each document by similar questions
_LINKED = 6  # documents connected with each document by links
_NAMES = 3
_TRIED_NAMES = 14
_LEAST_CHARACTERS = 3


@dataclass(frozen=True, slots=True, eq=False)
class CollectionMap:
    """The n documents, by ascending path key, and the m connections between them.

    documents: (n,) document rows. first_passages: (n,) the row of each document's first passage.
    starts, ends: (m,) the connected documents, as positions in `documents`. is_link: (m,) True if
    one document links to the other, False if their passages answer each other's questions. names: a
    few names that describe each group.
    """

    documents: Integers
    titles: Sequence[str | None]
    first_passages: Integers
    layout: Layout
    starts: Integers
    ends: Integers
    is_link: Flags
    names: Sequence[Sequence[str]]


def make_map(connection: Connection, snapshot: Snapshot) -> CollectionMap | None:
    """Compute the map of the visible documents that have text, at most `MOST_DOCUMENTS`.

    Returns None if there is no such document.
    """
    index, visible = snapshot.index, snapshot.statistics.visible
    documents = np.flatnonzero(visible.documents)
    documents = documents[np.argsort(index.documents.path_key[documents])]
    passages, positions = _list_passages(snapshot, documents)
    has_text = np.bincount(positions, minlength=len(documents)) > 0
    documents = documents[has_text][:MOST_DOCUMENTS]  # path keys are hashes: a random sample
    ids = index.documents.id[documents]
    titles = read_titles(connection, ids.tolist())
    documents = documents[np.isin(ids, [*titles])]  # the index may still have purged documents
    if not len(documents):
        return None
    passages, positions = _list_passages(snapshot, documents)
    _, firsts = np.unique(positions, return_index=True)
    layout = arrange(_compute_document_vectors(snapshot, passages, positions))
    starts, ends, is_link = _find_joints(snapshot, documents)
    names = _name_groups(connection, snapshot, documents, layout)
    return CollectionMap(
        documents,
        [titles[row] for row in index.documents.id[documents].tolist()],
        passages[firsts],
        layout,
        starts,
        ends,
        is_link,
        names,
    )


def _list_passages(snapshot: Snapshot, documents: Integers) -> tuple[Integers, Integers]:
    """List the visible passages among the first `_PASSAGES` passages of each document, in order.

    Returns the passage rows, and the position of each passage's document in `documents`.
    """
    index, visible = snapshot.index, snapshot.statistics.visible
    rows, positions = index.postings.occurrences_by_document.find_all(documents)
    occurrences = index.occurrences
    numbers, ordinals = occurrences.passage_number[rows], occurrences.ordinal[rows]
    passages = visible.passage_rows[numbers]
    kept = (passages >= 0) & (ordinals < _PASSAGES)
    order = np.flatnonzero(kept)
    order = order[np.lexsort((ordinals[order], positions[order]))]
    return passages[order], positions[order]


def _compute_document_vectors(
    snapshot: Snapshot, passages: Integers, positions: Integers
) -> Matrix:
    """Return the (n, d) mean vectors of the n documents, scaled to length 1.

    If there are more than two documents, their mean is subtracted first. `positions` has the
    ascending number of each passage's document; each document must have passages. The vectors are
    summed as integers, so the order of the passages does not change the sums.
    """
    codes = snapshot.index.vectors.passage_codes
    count = int(positions[-1]) + 1
    begins = np.searchsorted(positions, np.arange(count + 1))
    sums = np.empty((count, codes.shape[1]), dtype=np.float32)
    for start in range(0, count, _DOCUMENTS_AT_ONCE):
        end = min(start + _DOCUMENTS_AT_ONCE, count)
        part = codes[passages[begins[start] : begins[end]]].astype(np.int32)
        sums[start:end] = np.add.reduceat(part, begins[start:end] - begins[start])
    vectors = normalize(sums)
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return normalize(centred) if count > 2 else vectors


def _find_joints(snapshot: Snapshot, documents: Integers) -> tuple[Integers, Integers, Flags]:
    """Find the pairs of documents that are connected most: first by links, then by edges.

    Each document adds its `_LINKED` best partners by links and its `_PARTNERS` best partners by
    edges, at most. Each pair occurs once. Returns three columns: the positions of the two documents
    in `documents`, and whether links connect them.
    """
    edges = snapshot.list_edges()
    index = snapshot.index
    related = _count_pairs(
        snapshot,
        documents,
        index.outgoing.passage_row[edges.source_question],
        index.incoming.passage_row[edges.target_question],
    )
    if snapshot.has_links:
        links = snapshot.find_links_from(snapshot.passage_rows)
        linked = _count_pairs(snapshot, documents, links.start, links.end)
    else:
        nothing = related[0][:0]
        linked = (nothing, nothing, nothing)
    count = len(documents)
    by_link = _select_partners(count, *linked, limit=_LINKED)
    by_question = np.setdiff1d(_select_partners(count, *related, limit=_PARTNERS), by_link)
    starts, ends = np.divmod(np.concatenate([by_link, by_question]), count)
    return starts, ends, np.arange(len(starts)) < len(by_link)


def _count_pairs(
    snapshot: Snapshot, documents: Integers, start_rows: AnyIntegers, end_rows: AnyIntegers
) -> tuple[Integers, Integers, Integers]:
    """Count how many of the pairs of passage rows connect each pair of documents.

    Returns three columns: the lower and the higher position of the documents in `documents`, and
    the count.
    """
    keys = snapshot.index.documents.path_key[documents]
    starts, has_start = find_sorted(keys, snapshot.get_document_keys(start_rows))
    ends, has_end = find_sorted(keys, snapshot.get_document_keys(end_rows))
    kept = has_start & has_end & (starts != ends)
    lower, higher = np.minimum(starts[kept], ends[kept]), np.maximum(starts[kept], ends[kept])
    pairs, counts = np.unique(lower * len(documents) + higher, return_counts=True)
    lower, higher = np.divmod(pairs, len(documents))
    return lower, higher, counts


def _select_partners(
    count: int, lower: Integers, higher: Integers, counts: Integers, *, limit: int
) -> Integers:
    """Select the pairs that are among the `limit` pairs with the highest counts of either document.

    `count` is the number of documents. Each selected pair is encoded as the lower document times
    `count` plus the higher document.
    """
    near, far = np.concatenate([lower, higher]), np.concatenate([higher, lower])
    chosen = select_first_of_groups(near, -np.concatenate([counts, counts]), far, count=limit)
    near, far = near[chosen], far[chosen]
    return np.unique(np.minimum(near, far) * count + np.maximum(near, far))


def _name_groups(
    connection: Connection, snapshot: Snapshot, documents: Integers, layout: Layout
) -> list[list[str]]:
    """Describe each group by names and topics that are frequent in it and rarer elsewhere."""
    rows = snapshot.passage_rows
    position, is_shown = find_sorted(
        snapshot.index.documents.path_key[documents], snapshot.get_document_keys(rows)
    )
    rows, position = rows[is_shown], position[is_shown]
    places, names = snapshot.list_names(rows)
    count = len(snapshot.index.name_texts) + 1
    # Count each name once per document.
    placed, names = np.divmod(np.unique(position[places] * count + names), count)
    group_names, counts = np.unique(layout.groups[placed] * count + names, return_counts=True)
    totals = np.bincount(names, minlength=count)
    groups, names = np.divmod(group_names, count)
    sizes = np.bincount(layout.groups)
    lift = counts / sizes[groups] * len(documents) / totals[names]
    # The square: a name that is nearly as frequent elsewhere does not describe a group.
    score = counts * np.square(np.log2(np.maximum(lift, 1.0)))
    # A name describes one group: the one where it has the highest score.
    strongest = np.sort(select_first_of_groups(names, -score, groups))
    groups, names, score, counts = (
        groups[strongest],
        names[strongest],
        score[strongest],
        counts[strongest],
    )
    best = select_first_of_groups(groups, -score, -counts, _rank_texts(snapshot, names), count=60)
    group_of_row = np.full(len(snapshot.index.passages), -1)
    group_of_row[rows] = layout.groups[position]
    return [
        _spell(connection, snapshot, names[best[groups[best] == group]], group_of_row == group)
        for group in range(len(sizes))
    ]


def _rank_texts(snapshot: Snapshot, names: Integers) -> Integers:
    """Return the key of each name's text, to break ties independently of the order of indexing."""
    keys: Integers = snapshot.index.name_numbers.keys[names]
    return keys


def _spell(
    connection: Connection, snapshot: Snapshot, names: Integers, in_group: Flags
) -> list[str]:
    """Spell the best names as passages of the group write them. Skips a name that resembles a
    better name.
    """
    texts = [snapshot.index.name_texts[name] for name in names.tolist()]
    kept = [index for index, text in enumerate(texts) if _is_telling(text)][:_TRIED_NAMES]
    mentions = snapshot.find_mentions(names[kept])
    inside = take_flags(in_group, mentions.passage_row)
    passages, positions = mentions.passage_row[inside], mentions.name_position[inside]
    firsts = select_first_of_groups(positions, snapshot.passage_ids[passages])
    ids = {
        int(positions[first]): PassageId(int(snapshot.passage_ids[passages[first]]))
        for first in firsts
    }
    known = read_passages(connection, [*ids.values()])
    spelled: list[str] = []
    for position, index in enumerate(kept):
        passage = known.get(ids[position]) if position in ids else None
        written = " ".join((*passage.heading, passage.text)) if passage else ""
        name = " ".join((find_whole_words(written, texts[index]) or "").split())
        if name and not any(_share_a_word(name, other) for other in spelled):
            spelled.append(name)
        if len(spelled) == _NAMES:
            break
    return spelled


def _is_telling(text: str) -> bool:
    """Return whether a name is informative without its context.

    >>> [_is_telling(text) for text in ("lord byron", "1824", "no", "12 May")]
    [True, False, False, False]
    """
    return len(text) >= _LEAST_CHARACTERS and not any(sign.isdigit() for sign in text)


def _share_a_word(text: str, other: str) -> bool:
    return bool({*text.casefold().split()} & {*other.casefold().split()})
