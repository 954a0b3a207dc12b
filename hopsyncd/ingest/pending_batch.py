"""The state of one sync: how far it is, and the batch that its next version takes in."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hopsyncd.ingest.commit import Batch
from hopsyncd.ingest.plan import RETRY, Action, Scope, Source, Step
from hopsyncd.ingest.read import ReadDocument, Reading
from hopsyncd.ingest.source_thread import WriterThread
from hopsyncd.models.llm.budget import Usage
from store.records import Seen


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


@dataclass(slots=True, eq=False)
class PendingBatch:
    """What the next version of a source takes in, so far: readings, reports and removals by path.

    A small sync may preempt the one that fills the batch, and look at the same paths later than
    that did: they are dropped here then. `unsettled` are the paths to look at again soon.
    """

    source: int
    name: str
    readings: dict[str, Reading] = field(default_factory=dict)
    reports: dict[str, Step] = field(default_factory=dict)
    removals: dict[str, Step] = field(default_factory=dict)
    unsettled: set[str] = field(default_factory=set)
    _reading: str | None = None

    @property
    def documents(self) -> list[ReadDocument]:
        """The documents that are new or changed."""
        return [reading.read for reading in self.readings.values() if reading.read]

    @property
    def passages(self) -> int:
        return sum(len(document.passages) for document in self.documents)

    def begin(self, path: str) -> None:
        """From now on this path is being read."""
        self._reading = path

    def end(self, reading: Reading) -> None:
        """Add the reading, unless somebody read that path later."""
        if self._reading is not None:
            self.readings[self._reading] = reading
        self._reading = None

    def drop(self, is_later: Callable[[str], bool]) -> None:
        """Drop each path at which somebody else looked later."""
        for found in (self.readings, self.reports, self.removals):
            late = [path for path in found if is_later(path)]
            self.unsettled.update(late)
            for path in late:
                del found[path]
        if self._reading is not None and is_later(self._reading):
            self.unsettled.add(self._reading)
            self._reading = None

    def take(self) -> Batch:
        """What a version is to take in; nothing is left here."""
        changed = tuple(self.documents)
        gone = [path for path, step in self.removals.items() if step.action is Action.REMOVE]
        counts = {"changed": len(changed), "removed": len(gone)}
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        problems = [
            Seen(self.source, path, RETRY, None, step.problem.why, step.problem.hint)
            for path, step in self.reports.items()
            if step.problem
        ]
        batch = Batch(
            reason=f"{self.name}: {told or 'nothing changed'}",
            read=changed,
            gone=tuple((self.source, path) for path in gone),
            seen=(*(reading.seen for reading in self.readings.values()), *problems),
            unseen=tuple((self.source, path) for path in self.removals),
        )
        for found in (self.readings, self.reports, self.removals):
            found.clear()
        return batch


@dataclass(slots=True, eq=False)
class SyncRun:
    """The state of one sync: what is to be done, and what came of it so far.

    `removals` wait for their batch; of these, `moved` are paths by content, the first of them last.
    `back` is what was to be removed and is there again. `looked_at` are the paths in a version.
    """

    source: Source
    scope: Scope
    usage: Usage | None
    progress: Progress
    batch: PendingBatch
    removals: dict[str, Step] = field(default_factory=dict)
    moved: dict[bytes, list[str]] = field(default_factory=dict)
    back: list[Step] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    changed: int = 0
    removed: int = 0
    left: tuple[str, ...] = ()

    @property
    def is_slow(self) -> bool:
        """Whether the source may keep the writer waiting."""
        return not isinstance(self.source.caller, WriterThread)
