"""What is visible at one version, and what is counted over all of it: exact, and never stored.

A name's rarity and whether it joins documents depend on the whole collection, so they change with
every document, and with what is hidden. They are counted over the visible rows, from the counts of
another version: only for the names that a passage or document gained or lost in between.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Column, Integers, distinct, holds, marked, places, ranges
from hopsyncd.index.live_index import LiveIndex

Flags = NDArray[np.bool_]
Counts = NDArray[np.int32]

MAX_CALLED = 32  # passages that a document's name may have
_A_FEW = 32  # mentions of a name
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

    passages, words: of all. saying: (k,) how many passages' questions have each name. about: (k,)
    the topic of how many it is. called: (k,) how many passages have it as a name of their document;
    beside: (k,) those of them that do not say it. mentioned: (k,) how many have it either way.
    joins: (k,) whether passages of at least two documents mention it. topical: (k,) whether it is
    the topic of a passage, or what few of them are called. having: how many have a term, by its
    key, of those that were asked for so far; and what is kept of the commonest of these.
    """

    visible: Visible
    passages: int
    words: int
    saying: Counts
    about: Counts
    called: Counts
    beside: Counts
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
        names, base = len(index.names), base or _NOTHING
        before = base.visible
        moved = np.flatnonzero(differing(visible.home, before.home, _NOWHERE))
        changed = np.flatnonzero(differing(visible.entries, before.entries, False))
        homed = visible.entry[moved]
        entries = distinct(np.concatenate([changed, homed[homed >= 0]]))
        step = visible.entries[entries].astype(np.int32) - holds(before.entries, entries)
        columns = index["entries"]
        rows, of = ranges(columns["first_said"][entries], columns["end_said"][entries])
        said, is_topic = index["said"]["name"][rows], index["said"]["about"][rows]
        saying = _added(base.saying, names, said, step[of])
        about = _added(base.about, names, said[is_topic], step[of][is_topic])

        numbers = np.concatenate([moved, columns["number"][entries]])
        rows = _called_rows(index, visible, before, numbers)
        touched = [said]
        called, beside = base.called, base.beside
        for seen, sign in ((before, -1), (visible, 1)):
            number, name = called_passages(index, seen, rows, index["called"]["name"][rows])
            called = _added(called, names, name, np.full(len(name), sign))
            name_beside = name[~_says(index, seen.entry[number], name)]
            beside = _added(beside, names, name_beside, np.full(len(name_beside), sign))
            touched.append(name)

        few = (called > 0) & (called <= MAX_CALLED)
        changed_names = np.flatnonzero(marked(names, *touched))
        joins = _room(base.joins, names)
        joins[changed_names] = _joining(
            index, visible, changed_names, few & (saying > 0), None if base.passages else entries
        )
        passages = np.flatnonzero(visible.entries)
        return cls(
            visible,
            passages=len(passages),
            words=int(columns["words"][passages].sum()),
            saying=saying,
            about=about,
            called=called,
            beside=beside,
            mentioned=saying + np.where(few, beside, np.int32(0)),
            joins=joins,
            topical=(about > 0) | few,
        )


_NO_COUNTS, _NO_FLAGS = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.bool_)
_NONE = np.zeros(0, dtype=np.int64)
_NOTHING = Statistics(
    Visible(_NO_FLAGS, _NO_FLAGS, _NO_FLAGS, *(_NONE,) * 3, 0, *(_NONE,) * 3),
    *(0, 0),
    *(_NO_COUNTS,) * 5,
    *(_NO_FLAGS,) * 2,
)


def _room(column: Column, length: int) -> Column:
    grown = np.zeros(length, dtype=column.dtype)
    grown[: len(column)] = column[:length]
    return grown


def _added(counts: Counts, length: int, names: Integers, steps: Counts) -> Counts:
    """The counts with these steps of some names."""
    found = _room(counts, length)
    np.add.at(found, names, steps.astype(np.int32))
    return found


def _called_rows(
    index: LiveIndex, visible: Visible, before: Visible, numbers: Integers
) -> Integers:
    """The rows of `called` of these passages, and of all that a changed document has."""
    documents = np.flatnonzero(differing(visible.documents, before.documents, False))
    placed, _ = index.postings["placements_of_document"].of_each(documents)
    every = distinct(np.concatenate([numbers, index["placements"]["number"][placed]]))
    return index.postings["called_of_number"].of_each(every)[0]


def differing(now: NDArray[np.generic], before: NDArray[np.generic], absent: object) -> Flags:
    """Which values differ; those that came since were `absent`."""
    if len(now) < len(before):  # an older version than the columns are by now
        before = before[: len(now)]
    padded = np.full(len(now), absent, dtype=now.dtype)
    padded[: len(before)] = before
    differ: Flags = now != padded
    return differ


def _joining(
    index: LiveIndex, visible: Visible, names: Integers, are_called: Flags, every: Integers | None
) -> Flags:
    """Which of the names passages of at least two documents mention.

    `are_called` says of each name of the index whether those that have it from their document
    mention it. `every` are all visible entries, if these are few beside those that have the names.
    Of a common name a few mentions show it, nearly always.
    """
    low = np.full(len(names), _NOWHERE)
    high = np.full(len(names), -1, dtype=np.int64)

    def see(homes: Integers, of: Integers) -> None:
        np.minimum.at(low, of, homes)
        np.maximum.at(high, of, homes)

    (near,) = are_called[names].nonzero()
    rows, of = index.postings["called_of_name"].of_each(names[near])
    number, of = called_passages(index, visible, rows, near[of])
    # As `Snapshot.mentions_of` has them.
    told = ~is_about(index, visible.entry[number], names[of])
    see(visible.home[number[told]], of[told])
    mention, left = index["mention"], np.arange(len(names))
    if every is not None:
        columns = index["entries"]
        rows, of = ranges(columns["first_mention"][every], columns["end_mention"][every])
        see(visible.home_of[every[of]], places(names, len(are_called))[mention["name"][rows]])
        return low < high
    for most in (_A_FEW, None):
        rows, of = index.postings["mention_of_name"].of_each(names[left], most)
        entries = mention["entry"][rows]
        seen = holds(visible.entries, entries)
        see(visible.home_of[entries[seen]], left[of[seen]])
        count = np.bincount(of, minlength=len(left))
        left = left[(low[left] >= high[left]) & (count >= _A_FEW)]
    return low < high


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


def _says(index: LiveIndex, entries: Integers, names: Integers) -> Flags:
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
