"""The intake: what the next version of a source takes in, as far as it has been read."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hopsyncd.ingest.commit import Batch
from hopsyncd.ingest.plan import Action, Step
from hopsyncd.ingest.read import RETRY, ReadDocument, Reading
from store.records import Seen


@dataclass(slots=True, eq=False)
class PendingBatch:
    """Readings, reports and removals by path; `unsettled` are the paths to look at again soon.

    While its questions are made a small sync may commit what it found at the same paths, later:
    what stands here of them is overtaken then.
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
        """Take the reading in, if nobody read that path since."""
        if self._reading is not None:
            self.readings[self._reading] = reading
        self._reading = None

    def overtake(self, source: int, is_later: Callable[[str], bool]) -> None:
        """Leave out each path of that source at which somebody else looked later."""
        if source != self.source:
            return
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
        readings, reports, removals = (
            [*found.values()] for found in (self.readings, self.reports, self.removals)
        )
        changed = tuple(self.documents)
        for found in (self.readings, self.reports, self.removals):
            found.clear()
        gone = [step.path for step in removals if step.action is Action.REMOVE]
        parts = [
            f"{len(changed)} changed" if changed else "",
            f"{len(gone)} removed" if gone else "",
        ]
        problems = [
            Seen(self.source, step.path, RETRY, None, step.problem.why, step.problem.hint)
            for step in reports
            if step.problem
        ]
        return Batch(
            reason=f"{self.name}: {', '.join(filter(None, parts)) or 'nothing changed'}",
            read=changed,
            gone=tuple((self.source, path) for path in gone),
            seen=(*(reading.seen for reading in readings), *problems),
            unseen=tuple((self.source, step.path) for step in removals),
        )
