"""The state of one sync: how far it is, and the batch that its next version takes in."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from hopsyncd.ingest.plan import RETRY, Action, Scope, Source, Step
from hopsyncd.ingest.read import ReadDocument, Reading
from hopsyncd.ingest.source_thread import WriterThread
from hopsyncd.models.llm.budget import Usage
from store.contract import Connection
from store.reads import live_holders, live_passages, living
from store.records import PassageId, Pin, Seen


@dataclass(frozen=True, slots=True)
class Batch:
    """What one version takes in; `gone` and `unseen` name items as (source, path).

    Without a `reason`, it is of a sync of the source that it names.
    """

    reason: str
    read: tuple[ReadDocument, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()
    seen: tuple[Seen, ...] = ()
    unseen: tuple[tuple[int, str], ...] = ()
    pins: tuple[Pin, ...] = ()
    source: str = ""

    @property
    def told(self) -> str:
        """Why there is its version."""
        counts = {"new or changed": len(self.read), "removed": len(self.gone)}
        changes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return self.reason or f"{self.source}: {changes or 'nothing changed'}"

    @property
    def paths(self) -> frozenset[str]:
        """All that it says something of."""
        return frozenset(one.path for one in self.seen).union(path for _, path in self.unseen)

    def end_of_part(self, first: int, passages: int) -> int:
        """Where a part of its documents ends that has about so many passages."""
        end = first
        while end < len(self.read) and passages > 0:
            passages -= len(self.read[end].passages)
            end += 1
        return end

    def first(self, documents: int) -> Self:
        """So many of its documents, and nothing else."""
        read = self.read[:documents]
        paths = {(one.document.source, one.document.path) for one in read}
        seen = tuple(one for one in self.seen if (one.source, one.path) in paths)
        return replace(self, read=read, gone=(), seen=seen, unseen=())


@dataclass(frozen=True, slots=True)
class PassageIntervals:
    """Which passages cease to be vertices, and which become one."""

    ended: tuple[PassageId, ...]
    begun: tuple[PassageId, ...]


def intervals_of(connection: Connection, batch: Batch) -> PassageIntervals:
    """Which passages begin and end with the batch: one is in force while a document holds it."""
    touched = {*batch.gone, *((one.document.source, one.document.path) for one in batch.read)}
    held = {passage.id for one in batch.read for passage in one.passages}
    released = live_passages(connection, touched) - held
    holders = live_holders(connection, released)
    ended = [passage for passage in released if holders[passage] <= touched]
    begun = held - living(connection, held)
    return PassageIntervals(tuple(sorted(ended)), tuple(sorted(begun)))


@dataclass(slots=True)
class Progress:
    """How far the sync of a source is, for other threads to read.

    `documents_done` are in a version; of the batch at hand, so many documents and passages.
    """

    source: str = ""
    documents_done: int = 0
    documents_total: int = 0
    batch_documents: int = 0
    passages_done: int = 0
    passages_total: int = 0

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1: a batch counts by its passages with questions."""
        batch = self.batch_documents * self.passages_done / max(self.passages_total, 1)
        return min((self.documents_done + batch) / max(self.documents_total, 1), 1.0)

    def count_passages(self, done: int, total: int) -> None:
        self.passages_done, self.passages_total = done, total

    def end_batch(self, documents: int) -> None:
        self.documents_done += documents
        self.batch_documents = self.passages_done = self.passages_total = 0


_FIRST_PASSAGES = 32
_MOST_PASSAGES = 4096  # nothing else runs while the transaction that has them is written
_SOON_S = 10.0  # passages that take no longer are one batch, however few there were before
_LONGEST_BATCH_S = 60.0  # until there is a version


@dataclass(slots=True)
class Pace:
    """How many new passages the next batch of a sync may have.

    The first batch is small, so that something can be asked for soon. Then each takes what ten
    seconds are enough for, or twice as many as the last, as a version has a cost of its own: few
    versions make an import cheap. A batch stays below what a minute is enough for.
    """

    passages: int = _FIRST_PASSAGES

    def after(self, passages: int, took_s: float) -> None:
        """Learn from a batch of so many new passages; `took_s` includes its commit."""
        wanted, most = 2 * self.passages, _MOST_PASSAGES
        if took_s and passages:
            wanted = max(wanted, int(_SOON_S * passages / took_s))
            most = min(most, int(_LONGEST_BATCH_S * passages / took_s))
        self.passages = max(min(wanted, most), _FIRST_PASSAGES)


_PART_S, _PART_OF_VECTOR_S = 1.0, 3e-6  # that a part takes to match: each looks at all vectors once


@dataclass(slots=True)
class PartSize:
    """How much of what is to be matched is a part of it, of about a second."""

    most: int

    def after(self, took_s: float, vectors: int) -> None:
        """Learn from a part of that size among so many vectors."""
        wanted_s = _PART_S + _PART_OF_VECTOR_S * vectors
        self.most = max(1, min(2 * self.most, int(self.most * wanted_s / took_s)))


@dataclass(slots=True, eq=False)
class PendingBatch:
    """What the next version of a source takes in, so far: readings, reports and removals by path.

    A small sync may preempt the one that fills the batch, and look at the same paths later than
    that did: they are dropped here then. `unsettled` are the paths to look at again soon. `new` is
    how many passages of each document the store does not have.
    """

    source: int
    name: str
    readings: dict[str, Reading] = field(default_factory=dict)
    reports: dict[str, Step] = field(default_factory=dict)
    removals: dict[str, Step] = field(default_factory=dict)
    unsettled: set[str] = field(default_factory=set)
    new: dict[str, int] = field(default_factory=dict)
    _reading: str | None = None

    @property
    def documents(self) -> list[ReadDocument]:
        """The documents that are new or changed."""
        return [reading.read for reading in self.readings.values() if reading.read]

    @property
    def new_passages(self) -> int:
        return sum(self.new.values())

    def begin(self, path: str) -> None:
        """From now on this path is being read."""
        self._reading = path

    def end(self, reading: Reading, new: int) -> None:
        """Add the reading with so many new passages, unless somebody read that path later."""
        if self._reading is not None:
            self.readings[self._reading] = reading
            self.new[self._reading] = new
        self._reading = None

    def drop(self, is_later: Callable[[str], bool]) -> None:
        """Drop each path at which somebody else looked later."""
        for found in (self.readings, self.reports, self.removals):
            late = [path for path in found if is_later(path)]
            self.unsettled.update(late)
            for path in late:
                del found[path]
                self.new.pop(path, None)
        if self._reading is not None and is_later(self._reading):
            self.unsettled.add(self._reading)
            self._reading = None

    def whole(self) -> Batch:
        """All of it, for a version to take in."""
        gone = [path for path, step in self.removals.items() if step.action is Action.REMOVE]
        problems = [
            Seen(self.source, path, RETRY, None, step.problem.why, step.problem.hint)
            for path, step in self.reports.items()
            if step.problem
        ]
        return Batch(
            reason="",
            read=tuple(self.documents),
            gone=tuple((self.source, path) for path in gone),
            seen=(*(reading.seen for reading in self.readings.values()), *problems),
            unseen=tuple((self.source, path) for path in self.removals),
            source=self.name,
        )

    def remove(self, taken: Batch) -> None:
        """A version has taken this in."""
        for path in taken.paths:
            for found in (self.readings, self.reports, self.removals, self.new):
                found.pop(path, None)


@dataclass(slots=True, eq=False)
class SyncRun:
    """The state of one sync: what is to be done, and what came of it so far.

    `removals` wait for their batch; of these, `moved` are paths by content, the first of them last.
    `back` is what was to be removed and is there again. `looked_at` are the paths in a version.
    `vanished` are the paths that were gone when they were to be read.
    """

    source: Source
    scope: Scope
    usage: Usage | None
    progress: Progress
    batch: PendingBatch
    pace: Pace = field(default_factory=Pace)
    removals: dict[str, Step] = field(default_factory=dict)
    moved: dict[bytes, list[str]] = field(default_factory=dict)
    back: list[Step] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    vanished: set[str] = field(default_factory=set)
    changed: int = 0
    removed: int = 0
    left: tuple[str, ...] = ()

    @property
    def is_slow(self) -> bool:
        """Whether the source may keep the writer waiting."""
        return not isinstance(self.source.caller, WriterThread)
