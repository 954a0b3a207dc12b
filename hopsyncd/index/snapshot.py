"""A snapshot: the live index at one version, as a query reads it: with or without hidden sources,
and what a filter leaves out.

Nothing of a hidden passage is left: it is no vertex, no end of an edge and in no count. What was
matched with it has another match among the visible, and links mean what they mean among the visible
documents; so the graph is the one that an index without these sources has, and an answer can tell
nothing of what is hidden.

Of what a filter leaves out nothing is left either, and the counts are of the rest. But it hides
nothing: edges and links stay those of the whole, so that a filtered search costs what any other
does. Only a match between two passages that are left is there (`narrowed`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Floats, Integers, Postings, distinct, holds, ranges
from hopsyncd.index.live_index import LiveIndex, name_key
from hopsyncd.index.statistics import MAX_CALLED, Statistics, called_passages, is_about
from store.records import Version

Flags = NDArray[np.bool_]
MatchRows = tuple[Integers, Integers, Floats]
"""Outgoing and incoming question, and similarity, of some matches."""
LinkColumns = tuple[Integers, Integers, Integers, Flags]
"""Those of `LinkWays`."""


UNMATCHED = -1.0  # less than any similarity
_FEW_LINKS = 16  # for each passage whose links are wanted: all of them are looked at
NAME_WEIGHT = 6.0  # of a name of the passage's document: that of so many sentences with a name


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """m mentions of names: the entry of each, its vector's row, for how many it counts, its name.

    A name of the passage's document is mentioned by the passage as a whole.
    """

    entry: Integers
    row: Integers
    times: Floats
    of: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """w edges, by the way they are walked: from `start` to `end`, which are entries.

    out, into: the outgoing and the incoming question of each. similarity: Eq. 1. back: whether the
    way leads against its edge.
    """

    start: Integers
    end: Integers
    out: Integers
    into: Integers
    similarity: Floats
    back: Flags


@dataclass(frozen=True, slots=True, eq=False)
class LinkWays:
    """w links as ways between entries; `link` is the row of each, `back` whether it leads back."""

    start: Integers
    end: Integers
    link: Integers
    back: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of two ends each, found by either."""

    start: Integers
    end: Integers
    from_start: Postings
    to_end: Postings

    @classmethod
    def of(cls, start: Integers, end: Integers) -> Self:
        """Arrange them."""
        rows = cls(start, end, Postings(), Postings())
        at = np.arange(len(start), dtype=np.int32)
        rows.from_start.add(start, at)
        rows.to_end.add(end, at)
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Replaced:
    """What is otherwise where sources are hidden: see `hopsyncd.index.restricted`.

    of_question: (q,) the similarity of the match that each outgoing question has, or UNMATCHED.
    alone: the visible questions whose own match is not visible, rising. out, into, similarity: (m,)
    their matches, by rising out; `ends` are the entries of these. numbers: the passages whose links
    may lead elsewhere, rising. ways: all links of these, between numbers of passages; `link` is the
    row of each.
    """

    of_question: Floats
    alone: Integers
    out: Integers
    into: Integers
    similarity: Floats
    ends: Rows
    numbers: Integers
    ways: Rows
    link: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """`version` as it is without the hidden sources: its counts and its cut are of the rest.

    among: the documents that a filter leaves, of which alone the statistics are then; `unfiltered`
    is the same without the filter.
    """

    index: LiveIndex
    version: Version
    statistics: Statistics
    hidden: frozenset[str] = frozenset()
    replaced: Replaced | None = None
    among: Flags | None = None
    unfiltered: "Snapshot | None" = None

    def narrowed(self, among: Flags) -> "Snapshot":
        """With only these documents."""
        counts = Statistics.of(self.index, self.version.id, self.hidden, among=among)
        return replace(self, statistics=counts, among=among, unfiltered=self)

    def shows(self, documents: Sequence[int]) -> set[int]:
        """Those of the documents, which are rows in the store, that are visible."""
        shown = self.index["documents"]["id"][np.flatnonzero(self.statistics.visible.documents)]
        wanted = np.array(documents, dtype=np.int64)
        return {*wanted[np.isin(wanted, shown)].tolist()}

    @property
    def entries(self) -> Integers:
        """All visible entries, rising."""
        return np.flatnonzero(self.statistics.visible.entries)

    @property
    def ids(self) -> Integers:
        """The passage of each entry, visible or not."""
        return self.index["entries"]["passage"]

    def homes(self, entries: Integers) -> Integers:
        """The document that each of these visible entries is counted to."""
        return self.statistics.visible.home_of[entries]

    def find(self, passage: int) -> int | None:
        """The entry of a passage; None if it is not visible."""
        number = int(self.index.passages.find(np.array([passage]))[0])
        visible = self.statistics.visible
        if not 0 <= number < len(visible.entry):
            return None
        entry = int(visible.entry[number])
        return entry if entry >= 0 else None

    # Names

    def number_of(self, name: str) -> int:
        """The number of a name that a visible passage mentions; -1 for others."""
        number = int(self.index.names.find(np.array([name_key(name)]))[0])
        counts = self.statistics.mentioned
        return number if 0 <= number < len(counts) and counts[number] else -1

    def mentioned(self, names: Sequence[str]) -> set[str]:
        """Those of the names that a visible passage mentions."""
        keys = np.array([name_key(name) for name in names], dtype=np.int64)
        numbers = self.index.names.find(keys)
        there = (numbers >= 0) & holds(self.statistics.mentioned > 0, numbers)
        return {names[at] for at in np.flatnonzero(there).tolist()}

    def about(self, name: int) -> Integers:
        """The entries whose topic a name is, or the name of their document; rising."""
        rows = self.index.postings["said_of_name"].of(name).astype(np.int64)
        said = self.index["said"]
        rows = rows[said["about"][rows]]
        entries = said["entry"][rows]
        own = entries[holds(self.statistics.visible.entries, entries)].astype(np.int64)
        return np.union1d(own, self._called_entries(name))

    def _called_entries(self, name: int) -> Integers:
        """Those that have the name from their document."""
        visible = self.statistics.visible
        if not 0 < self.statistics.called[name] <= MAX_CALLED:
            return np.empty(0, dtype=np.int64)
        rows = self.index.postings["called_of_name"].of(name)
        called = self.index["called"]
        rows = rows[holds(visible.documents, called["document"][rows])]
        entries = visible.entry[np.unique(called["number"][rows])]
        return entries[entries >= 0].astype(np.int64)

    def mentions_of(self, names: Integers) -> Mentions:
        """All mentions of these names."""
        index = self.index
        rows, of = index.postings["mention_of_name"].of_each(names)
        entry, row = index["mention"]["entry"][rows], index["mention"]["row"][rows]
        seen = holds(self.statistics.visible.entries, entry)
        entry, row, of = entry[seen].astype(np.int64), row[seen].astype(np.int64), of[seen]
        own, called = self.called(names)
        return Mentions(
            np.concatenate([entry, own]),
            np.concatenate([row, index["entries"]["first_row"][own]]),
            np.concatenate([np.ones(len(entry)), np.full(len(own), NAME_WEIGHT)]),
            np.concatenate([of, called]),
        )

    def mentions_in(self, rows: Integers) -> tuple[Integers, Integers]:
        """The rows of `mention` in the sentences of these vectors, visible or not; their names."""
        end = self.index["vector"]["end_mention"]
        found, _ = ranges(np.where(rows, end[rows - 1], 0), end[rows])
        return found, self.index["mention"]["name"][found].astype(np.int64)

    def called(self, names: Integers) -> tuple[Integers, Integers]:
        """The entries that have one of the names from their document, as another one to mention;
        and which of the names."""
        index, visible = self.index, self.statistics.visible
        rows, of = index.postings["called_of_name"].of_each(names)
        number, called = called_passages(index, visible, rows, of)
        own = visible.entry[number].astype(np.int64)
        kept = self._has_name(own, names[called])
        return own[kept], called[kept]

    def names_of(self, entries: Integers) -> tuple[Integers, Integers]:
        """What these visible entries mention, each name once: which of the entries, the name."""
        index, statistics = self.index, self.statistics
        visible, columns = statistics.visible, index["entries"]
        rows, of = ranges(columns["first_mention"][entries], columns["end_mention"][entries])
        names = index["mention"]["name"][rows].astype(np.int64)
        called, placed = index.postings["called_of_number"].of_each(columns["number"][entries])
        seen = holds(visible.documents, index["called"]["document"][called])
        called, placed = called[seen], placed[seen]
        own = index["called"]["name"][called].astype(np.int64)
        kept = self._has_name(entries[placed], own)
        known = len(statistics.mentioned)
        key = np.concatenate([of * known + names, placed[kept] * known + own[kept]])
        of, name = np.divmod(distinct(key), max(known, 1))
        return of, name

    def _has_name(self, entries: Integers, names: Integers) -> Flags:
        """Whether each entry has the name of its document beside it as another name to mention."""
        counts = self.statistics
        told: Flags = (counts.called[names] <= MAX_CALLED) & (counts.saying[names] > 0)
        return told & ~is_about(self.index, entries, names)

    # Ways

    def edges_of(self, entries: Integers) -> Edges:
        """All edges that leave the entries, forwards, then all that lead to them, back."""
        sides = self.index.postings["matches_from"], self.index.postings["matches_to"]
        rows = [side.of_each(entries)[0] for side in sides]
        (out, into, similarity), kept = self._stored(np.concatenate(rows))
        back = kept >= len(rows[0])
        if self.replaced is not None:
            ends, replaced = self.replaced.ends, self.replaced
            more = [side.of_each(entries)[0] for side in (ends.from_start, ends.to_end)]
            back = np.concatenate([back, np.repeat([False, True], [len(one) for one in more])])
            at = np.concatenate(more)
            out, into, similarity = _joined(
                (out, into, similarity),
                (replaced.out[at], replaced.into[at], replaced.similarity[at]),
            )
        kept = np.flatnonzero(self._admitted(out, similarity) & self._shown(out, into))
        if self.replaced is not None:
            kept = kept[np.argsort(back[kept], kind="stable")]
        out, into, similarity, back = out[kept], into[kept], similarity[kept], back[kept]
        source = self.index["outgoing"]["entry"][out].astype(np.int64)
        target = self.index["incoming"]["entry"][into].astype(np.int64)
        start, end = np.where(back, target, source), np.where(back, source, target)
        return Edges(start, end, out, into, similarity, back)

    def _stored(self, rows: Integers | None) -> tuple[MatchRows, Integers]:
        """The matches in force among these rows, or all, and which they are."""
        out, into, similarity, born, died = (
            column if rows is None else column.take(rows)
            for column in self.index["matches"].views("out", "into", "similarity", "born", "died")
        )
        kept = np.flatnonzero((born <= self.version.id) & (self.version.id < died))
        return (
            out[kept].astype(np.int64),
            into[kept].astype(np.int64),
            similarity[kept].astype(np.float64),
        ), kept

    def _shown(self, out: Integers, into: Integers) -> Flags:
        """Which matches have two visible ends."""
        if not self.hidden and self.among is None:
            return np.ones(len(out), dtype=np.bool_)
        entries = self.statistics.visible.entries
        seen = holds(entries, self.index["outgoing"]["entry"][out])
        return seen & holds(entries, self.index["incoming"]["entry"][into])

    def _admitted(self, out: Integers, similarity: Floats) -> Flags:
        """Which matches are edges: those that the budget admits."""
        cut = self.version.cut
        if cut is None:
            return np.ones(len(out), dtype=np.bool_)
        admitted: Flags = similarity >= cut.similarity
        (level,) = (similarity == cut.similarity).nonzero()
        admitted[level] = self.index["outgoing"]["id"][out[level]] <= cut.question
        return admitted

    def matches(self) -> tuple[Integers, Integers, Floats]:
        """All matches: outgoing and incoming question, and similarity of each; in no order."""
        matches, _ = self._stored(None)
        if self.replaced is not None:
            replaced = self.replaced
            matches = _joined(matches, (replaced.out, replaced.into, replaced.similarity))
        return self._with_visible_ends(matches)

    def shown_matches(self, rows: Integers) -> MatchRows:
        """Those among these rows of `matches` that are in force, with two visible ends."""
        return self._with_visible_ends(self._stored(rows)[0])

    def _with_visible_ends(self, matches: MatchRows) -> MatchRows:
        out, into, similarity = matches
        seen = self._shown(out, into)
        return out[seen], into[seen], similarity[seen]

    def edges(self) -> tuple[Integers, Integers, Floats]:
        """All matches that are edges, by the id of their outgoing question."""
        out, into, similarity = self.matches()
        kept = np.flatnonzero(self._admitted(out, similarity))
        kept = kept[np.argsort(self.index["outgoing"]["id"][out[kept]])]
        return out[kept], into[kept], similarity[kept]

    @property
    def has_links(self) -> bool:
        """Whether any document, visible or not, has one."""
        return len(self.index["links"]) > 0

    def links_of(self, entries: Integers) -> LinkWays:
        """All links of these visible entries, then all that lead to them, back."""
        parts = [self.links_from(entries), self.links_to(entries)]
        return LinkWays(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def links_from(self, entries: Integers) -> LinkColumns:
        """The columns of the links that stand in these entries."""
        return self._links("ways_from", entries, False)

    def links_to(self, entries: Integers) -> LinkColumns:
        """The columns of the links that lead to these entries, back."""
        return self._links("ways_to", entries, True)

    def _links(self, side: str, of: Integers, back: bool) -> LinkColumns:
        numbers, entry = self.index["entries"]["number"][of], self.statistics.visible.entry
        columns = self.index["link_ways"].views("source", "target", "link", "born", "died")
        if len(columns[0]) < _FEW_LINKS * len(numbers):
            wanted = np.zeros(len(entry), dtype=np.bool_)
            wanted[numbers] = True
            rows = np.flatnonzero(holds(wanted, columns[1 if back else 0]))
        else:
            rows, _ = self.index.postings[side].of_each(numbers.astype(np.int64))
        source, target, link, born, died = (column[rows] for column in columns)
        held = (born <= self.version.id) & (self.version.id < died)
        if self.replaced is not None:
            held &= ~np.isin(source, self.replaced.numbers)
        source, target, link = source[held], target[held], link[held]
        if self.replaced is not None:
            ways = self.replaced.ways
            more, _ = (ways.to_end if back else ways.from_start).of_each(numbers)
            source = np.concatenate([source, ways.start[more]])
            target = np.concatenate([target, ways.end[more]])
            link = np.concatenate([link, self.replaced.link[more]])
        start, end = (target, source) if back else (source, target)
        start, end = entry[start], entry[end]
        seen = np.flatnonzero((start >= 0) & (end >= 0))
        start, end, link = start[seen], end[seen], link[seen].astype(np.int64)
        return start, end, link, np.full(len(start), back)

    def entries_at(self, home: int) -> Integers:
        """The entries that are counted to this document, rising."""
        visible = self.statistics.visible
        return np.flatnonzero(visible.entries & (visible.home_of[: len(visible.entries)] == home))

    def entries_of(self, nth_homes: Integers) -> tuple[Integers, Integers]:
        """The entries that are counted to documents, by the numbers of these; and which of them."""
        visible = self.statistics.visible
        starts = visible.home_starts
        at, of = ranges(starts[nth_homes], starts[nth_homes + 1])
        return visible.by_home[at], of


def _joined(first: MatchRows, second: MatchRows) -> MatchRows:
    out, into, similarity = (np.concatenate(both) for both in zip(first, second, strict=True))
    return out, into, similarity
