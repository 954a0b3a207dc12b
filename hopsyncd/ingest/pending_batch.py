"""The state of one sync: its progress, and the batch for its next version."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from hopsyncd.errors import EncoderUnavailable
from hopsyncd.ingest.plan import RETRY, Action, Scope, Source, Step
from hopsyncd.ingest.read import ReadDocument, Reading
from hopsyncd.ingest.source_thread import WriterThread
from hopsyncd.models.llm.budget import Usage
from store.contract import Connection
from store.reads import live_holders, live_passages, living
from store.records import PassageId, Pin, Seen


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one version; `gone` and `unseen` are (source, path) pairs.

    Without a `reason`, the batch comes from a sync of its source.
    """

    reason: str
    read: tuple[ReadDocument, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()
    seen: tuple[Seen, ...] = ()
    unseen: tuple[tuple[int, str], ...] = ()
    pins: tuple[Pin, ...] = ()
    source: str = ""

    @property
    def description(self) -> str:
        """The reason for its version."""
        counts = {"new or changed": len(self.read), "removed": len(self.gone)}
        changes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return self.reason or f"{self.source}: {changes or 'nothing changed'}"

    @property
    def paths(self) -> frozenset[str]:
        """All paths in the batch."""
        return frozenset(one.path for one in self.seen).union(path for _, path in self.unseen)

    def end_of_part(self, first: int, passages: int) -> int:
        """The end of a part of its documents with about `passages` passages."""
        end = first
        while end < len(self.read) and passages > 0:
            passages -= len(self.read[end].passages)
            end += 1
        return end

    def first(self, documents: int) -> Self:
        """A batch of only the first `documents` documents."""
        read = self.read[:documents]
        paths = {(one.document.source, one.document.path) for one in read}
        seen = tuple(one for one in self.seen if (one.source, one.path) in paths)
        return replace(self, read=read, gone=(), seen=seen, unseen=())


@dataclass(frozen=True, slots=True)
class PassageIntervals:
    """The passages that a batch ends and begins as vertices."""

    ended: tuple[PassageId, ...]
    begun: tuple[PassageId, ...]


def intervals_of(connection: Connection, batch: Batch) -> PassageIntervals:
    """The passages that begin and end with the batch. Documents keep a passage in force."""
    touched = {*batch.gone, *((one.document.source, one.document.path) for one in batch.read)}
    held = {passage.id for one in batch.read for passage in one.passages}
    released = live_passages(connection, touched) - held
    holders = live_holders(connection, released)
    ended = [passage for passage in released if holders[passage] <= touched]
    begun = held - living(connection, held)
    return PassageIntervals(tuple(sorted(ended)), tuple(sorted(begun)))


@dataclass(slots=True)
class Progress:
    """The progress of a sync, for other threads to read.

    `documents_done` are committed; the other counts are of the current batch.
    """

    source: str = ""
    documents_done: int = 0
    documents_total: int = 0
    batch_documents: int = 0
    passages_done: int = 0
    passages_total: int = 0

    @property
    def share(self) -> float:
        """The finished part, from 0 to 1. A batch counts by its passages with questions."""
        batch = self.batch_documents * self.passages_done / max(self.passages_total, 1)
        return min((self.documents_done + batch) / max(self.documents_total, 1), 1.0)

    def count_passages(self, done: int, total: int) -> None:
        self.passages_done, self.passages_total = done, total

    def end_batch(self, documents: int) -> None:
        self.documents_done += documents
        self.batch_documents = self.passages_done = self.passages_total = 0


_FIRST_PASSAGES = 32
_MOST_PASSAGES = 4096  # nothing else runs during their transaction.
_SOON_S = 10.0  # work of up to this time is one batch.
_LONGEST_BATCH_S = 60.0  # the longest work before a version.


@dataclass(slots=True)
class Pace:
    """The limit of new passages in the next batch of a sync.

    The first batch is small, so that the first documents are soon searchable. Each later batch
    takes ten seconds of work or twice the passages of the batch before, whichever is more. Every
    version has a cost of its own, so an import with few versions is cheap. A batch takes at most a
    minute.
    """

    passages: int = _FIRST_PASSAGES

    def after(self, passages: int, took_s: float) -> None:
        """Learn from a finished batch; `took_s` includes its commit."""
        wanted, most = 2 * self.passages, _MOST_PASSAGES
        if took_s and passages:
            wanted = max(wanted, int(_SOON_S * passages / took_s))
            most = min(most, int(_LONGEST_BATCH_S * passages / took_s))
        self.passages = max(min(wanted, most), _FIRST_PASSAGES)


_PART_S = 0.5


@dataclass(slots=True)
class PartSize:
    """The size of the parts that matching is divided into, of about half a second each."""

    most: int

    def after(self, took_s: float) -> None:
        """Learn from a finished part."""
        self.most = max(1, min(2 * self.most, int(self.most * _PART_S / took_s)))


@dataclass(slots=True, eq=False)
class PendingBatch:
    """The batch so far for the next version of a source: readings, reports, removals by path.

    A small sync may preempt the sync that fills the batch, and read some of its paths later. Those
    paths are then dropped from the batch. `unsettled`: the paths to look at again soon. `new`: for
    each document, the number of its passages that are not in the store.
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
        """Note that this path is being read."""
        self._reading = path

    def end(self, reading: Reading, new: int) -> None:
        """Add the reading with `new` new passages, unless another sync read the path later."""
        if self._reading is not None:
            self.readings[self._reading] = reading
            self.new[self._reading] = new
        self._reading = None

    def drop(self, is_later: Callable[[str], bool]) -> None:
        """Drop each path that another sync read later."""
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
        """The whole batch, for a version."""
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
        """Remove what a version has committed."""
        for path in taken.paths:
            for found in (self.readings, self.reports, self.removals, self.new):
                found.pop(path, None)


@dataclass(slots=True, eq=False)
class SyncRun:
    """The state of one sync: its plan and its results so far.

    `removals` wait for their batch. `moved` has the paths among them by content, the first path
    last. `back`: planned removals that exist again. `looked_at`: the paths in a version.
    `vanished`: the paths that no longer existed when they were to be read. `encoder_error`: why new
    passages have no vectors; then only what needs none is committed.
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
    encoder_error: EncoderUnavailable | None = None

    @property
    def is_slow(self) -> bool:
        """Whether the source may keep the writer waiting."""
        return not isinstance(self.source.caller, WriterThread)
