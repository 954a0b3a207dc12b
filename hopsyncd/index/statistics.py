"""What is visible at one version, and what is counted over all of it: exact, and never stored.

A name's rarity and whether it joins documents depend on the whole collection, so they change with
every document, and with what is hidden. They are counted over the visible rows, from the counts of
another version: only for the names that a passage or document gained or lost in between.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Integers, distinct, holds, ranges
from hopsyncd.index.live_index import LiveIndex

Flags = NDArray[np.bool_]
Counts = NDArray[np.int32]

MAX_CALLED = 32  # passages that a document's name may have
_NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Visible:
    """What a version shows, without what only hidden sources or documents filtered out hold.

    documents: (d,). entries: (e,) whether each is a vertex; rows: (r,) the same by their vectors.
    entry: (p,) that of each passage by number, -1 if it is none. home: (p,) the document that a
    passage is counted to: the one with the lowest `home` of those that hold it; `home_of` (e,) is
    that of each entry. These are numbered from 0 to below `homes`, in no order that means anything:
    `nth_home` (e,) is the number of each visible entry's. by_home: the visible entries by that,
    then rising; those of each home begin at its place of `home_starts` (homes + 1,).
    """

    documents: Flags
    entries: Flags
    rows: Flags
    entry: Integers
    home: Integers
    home_of: Integers
    homes: int
    nth_home: Integers
    by_home: Integers
    home_starts: Integers

    @classmethod
    def of(
        cls, index: LiveIndex, version: int, hidden: frozenset[str], among: Flags | None = None
    ) -> Self:
        """Read it off the columns, those that refer to others first: a writer may append.

        `among` are the documents that a filter leaves.
        """
        of, born, died = index["lives"].views("entry", "born", "died")
        alive = of[(born <= version) & (version < died)].astype(np.int64)
        document, number = index["placements"].views("document", "number")
        homes, source, born, died = index["documents"].views("home", "source", "born", "died")
        documents = (born <= version) & (version < died)
        if hidden:
            shown = np.array([name not in hidden for name in index.sources], dtype=np.bool_)
            documents &= shown[source]
        if among is not None:
            documents[: len(among)] &= among[: len(documents)]
            documents[len(among) :] = False
        at = documents[document]
        numbers, first_row, end_row = index["entries"].views("number", "first_row", "end_row")
        home = np.full(len(index.passages), _NOWHERE)
        document, number = document[at], number[at]
        np.minimum.at(home, number, homes[document])
        home_of = home[numbers]
        if hidden or among is not None:
            alive = alive[home_of[alive] != _NOWHERE]
        entries = np.zeros(len(numbers), dtype=np.bool_)
        entries[alive] = True
        rows = entries.repeat(end_row - first_row)
        entry = np.full(len(home), -1, dtype=np.int64)
        entry[numbers[alive]] = alive
        alive = np.flatnonzero(entries)
        holder = np.zeros(len(home), dtype=np.int64)
        own = homes[document] == home[number]
        holder[number[own]] = document[own]
        # Sorted as one number, which takes a quarter of the time that sorting places takes.
        sorted_ = np.sort(holder[numbers[alive]] << 32 | alive)
        by_home = sorted_ & (2**32 - 1)
        starts = np.flatnonzero(np.diff(sorted_ >> 32, prepend=-1))
        count, starts = len(starts), np.append(starts, len(by_home))
        nth_home = np.full(len(numbers), -1)
        nth_home[by_home] = np.arange(count).repeat(np.diff(starts))
        return cls(documents, entries, rows, entry, home, home_of, count, nth_home, by_home, starts)


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Counts over what is visible.

    passages, words: of all. saying: (k,) how many passages' questions have each name. called: (k,)
    how many passages have it as a name of their document. mentioned: (k,) how many have it either
    way. joins: (k,) whether passages of at least two documents mention it. topical: (k,) whether it
    is the topic of a passage, or what few of them are called. having: how many have a term, by its
    key, of those that were asked for so far; and what is kept of the commonest of these.
    """

    visible: Visible
    passages: int
    words: int
    saying: Counts
    called: Counts
    mentioned: Counts
    joins: Flags
    topical: Flags
    having: dict[int, int] = field(default_factory=dict)
    common: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        index: LiveIndex,
        version: int,
        hidden: frozenset[str] = frozenset(),
        base: "Statistics | None" = None,
        among: Flags | None = None,
    ) -> Self:
        """Count what is visible at the version; `base` are counts that most are like."""
        visible = Visible.of(index, version, hidden, among)
        names = len(index.names)
        if base is None:
            counts = _recounted(index, visible, names)
        else:
            counts = tuple(_room(column, names) for column in _columns(base))
            changed = _changed_names(index, visible, base.visible)
            changed = changed[changed < names]  # a writer may have added more
            for column, values in zip(counts, _recounted(index, visible, changed), strict=True):
                column[changed] = values
        entries = np.flatnonzero(visible.entries)
        words = int(index["entries"]["words"][entries].sum())
        saying, called, mentioned, *flags = counts
        joins, topical = (one.astype(np.bool_) for one in flags)
        return cls(visible, len(entries), words, saying, called, mentioned, joins, topical)


def _columns(base: Statistics) -> tuple[Counts, ...]:
    told = base.joins.astype(np.int32), base.topical.astype(np.int32)
    return base.saying, base.called, base.mentioned, *told


def _room(column: Counts, length: int) -> Counts:
    grown = np.zeros(length, dtype=np.int32)
    grown[: len(column)] = column[:length]
    return grown


def _changed_names(index: LiveIndex, now: Visible, before: Visible) -> Integers:
    """The names whose counts may differ."""
    moved = np.flatnonzero(differing(now.home, before.home, _NOWHERE))
    entries = np.concatenate(
        [
            np.flatnonzero(differing(now.entries, before.entries, False)),
            now.entry[moved][now.entry[moved] >= 0],
        ]
    )
    columns = index["entries"]
    said, _ = ranges(columns["first_said"][entries], columns["end_said"][entries])
    documents = np.flatnonzero(differing(now.documents, before.documents, False))
    # A passage's new entry may say what its document is called.
    numbers = np.concatenate([moved, columns["number"][entries]])
    placed = index.postings["called_of_number"].of_each(np.unique(numbers))[0]
    of_documents = np.flatnonzero(np.isin(index["called"]["document"], documents))
    rows = np.concatenate([placed, of_documents])
    names = np.concatenate([index["said"]["name"][said], index["called"]["name"][rows]])
    return np.unique(names).astype(np.int64)


def differing(now: NDArray[np.generic], before: NDArray[np.generic], absent: object) -> Flags:
    """Which values differ; those that came since were `absent`."""
    if len(now) < len(before):  # an older version than the columns are by now
        before = before[: len(now)]
    padded = np.full(len(now), absent, dtype=now.dtype)
    padded[: len(before)] = before
    differ: Flags = now != padded
    return differ


def _recounted(index: LiveIndex, visible: Visible, wanted: Integers | int) -> tuple[Counts, ...]:
    """For each of the names: how many passages say it, are called it, mention it; if it joins, and
    if it is a topic.

    Wanted are those numbers, or the first so many names.
    """
    names = np.arange(wanted) if isinstance(wanted, int) else wanted
    count = len(names)
    rows, of = _rows(index, "said", wanted)
    seen = holds(visible.entries, index["said"]["entry"][rows])
    saying = np.bincount(of[seen], minlength=count)
    topics = np.bincount(of[seen & index["said"]["about"][rows]], minlength=count)
    rows, of = _rows(index, "mention", wanted)
    entries = index["mention"]["entry"][rows]
    seen = holds(visible.entries, entries)
    entries, of = entries[seen].astype(np.int64), of[seen]
    number, called_of = called_passages(index, visible, *_rows(index, "called", wanted))
    called = np.bincount(called_of, minlength=count)
    kept = (called <= MAX_CALLED)[called_of]
    number, called_of = number[kept], called_of[kept]
    more = ~says(index, visible.entry[number], names[called_of])
    mentioned = saying + np.bincount(called_of[more], minlength=count)
    # As `Snapshot.mentions_of` has them: a name that no passage says joins nothing.
    told = ~is_about(index, visible.entry[number], names[called_of]) & (saying[called_of] > 0)
    home = np.concatenate([visible.home_of[entries], visible.home[number[told]]])
    joins = _has_two(np.concatenate([of, called_of[told]]), home, count)
    topical = (topics > 0) | ((called > 0) & (called <= MAX_CALLED))
    return tuple(column.astype(np.int32) for column in (saying, called, mentioned, joins, topical))


def _rows(index: LiveIndex, table: str, wanted: Integers | int) -> tuple[Integers, Integers]:
    """The rows of a table that have the names, and which of them each has."""
    if not isinstance(wanted, int):
        return index.postings[f"{table}_of_name"].of_each(wanted)
    names = index[table]["name"]  # that all are wanted is no reason to look for each
    rows = np.flatnonzero(names < wanted)
    return rows, names[rows].astype(np.int64)


def called_passages(
    index: LiveIndex, visible: Visible, rows: Integers, of: Integers
) -> tuple[Integers, Integers]:
    """The numbers of the visible passages whose documents have names, each once a name, and which.

    `rows` are those of the names in `called`, `of` says which name each has.
    """
    called = index["called"]
    seen = holds(visible.documents, called["document"][rows])
    number, of = called["number"][rows[seen]].astype(np.int64), of[seen]
    seen = visible.entry[number] >= 0
    number, of = number[seen], of[seen]
    passages = max(len(index.passages), 1)
    of, number = np.divmod(distinct(of * passages + number), passages)
    return number, of


def says(index: LiveIndex, entries: Integers, names: Integers) -> Flags:
    """Whether each entry's own questions have the name beside it."""
    return _has(index, entries, names)[0]


def is_about(index: LiveIndex, entries: Integers, names: Integers) -> Flags:
    """Whether the name beside each entry is its topic."""
    return _has(index, entries, names)[1]


def _has(index: LiveIndex, entries: Integers, names: Integers) -> tuple[Flags, Flags]:
    if not len(entries):
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    columns = index["entries"]
    rows, of = ranges(columns["first_said"][entries], columns["end_said"][entries])
    same = index["said"]["name"][rows] == names[of]
    said = np.bincount(of[same], minlength=len(names)) > 0
    topic = same & index["said"]["about"][rows]
    return said, np.bincount(of[topic], minlength=len(names)) > 0


def _has_two(group: Integers, values: Integers, count: int) -> Flags:
    """Whether a group has two different values."""
    low = np.full(count, _NOWHERE)
    high = np.full(count, -1, dtype=np.int64)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    differ: Flags = low < high
    return differ
