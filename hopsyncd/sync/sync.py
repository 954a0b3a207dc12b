"""One sync of one source: scan, plan, read, apply, in batches that are a version each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import structlog

from connectors.errors import SourceUnavailable
from connectors.protocol import Connector
from hopsyncd.llm.meter import Meter
from hopsyncd.sync.apply import Batch, Writer
from hopsyncd.sync.plan import AGAIN, Action, Step, plan
from hopsyncd.sync.read import RETRY, Reading, read
from hopsyncd.sync.restore import restoration
from hopsyncd.sync.scan import Listing, scan
from hopsyncd.sync.upgrades import Upgrades
from hopsyncd.text.extract import Extract, extract
from store.database import Connection
from store.purge import excluded_paths
from store.reads import live_content, live_documents
from store.records import Seen, Version
from store.sources import (
    ListingState,
    is_held,
    listing_state,
    pins_of,
    put_listing_state,
    put_source_state,
    seen_items,
)

log = structlog.get_logger(__name__)

_REMOVALS = (Action.REMOVE, Action.FORGET)
_WHOLE_EVERY_MS = 24 * 3600 * 1000  # whatever cursors say, everything is listed that often
_BATCH_PASSAGES = 1000  # a batch also ends when its documents hold this many passages


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source, ready to be read."""

    id: int
    name: str
    connector: Connector


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sync of one source did; `problem` says why it is paused, None when it is not."""

    source: str
    changed: int = 0
    removed: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """What to sync: parts of the source or all of it (None), and how.

    `accept_empty` allows the last documents to be removed; `afresh` reads every document again;
    `whole` lists everything, also where what changed since the last listing could be asked for.
    """

    under: tuple[str, ...] | None = None
    accept_empty: bool = False
    afresh: bool = False
    whole: bool = False


def held(name: str) -> SourceUnavailable:
    """What keeps a source from being synced that was paused by hand."""
    return SourceUnavailable(
        "The source is paused", "it was paused by hand", f"`hopsyncd resume '{name}'` ends that"
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """What a sync is to do, and the listing that it follows from."""

    steps: tuple[Step, ...]
    listing: Listing


def since_of(connection: Connection, source: Source, scope: Scope, now_ms: int) -> str | None:
    """Where the listing may begin; None: it must be of everything."""
    state = listing_state(connection, source.id)
    if scope != Scope() or state.listed_ms is None:
        return None
    is_fresh = 0 <= now_ms - state.listed_ms < _WHOLE_EVERY_MS
    return state.cursor if is_fresh else None


def planned(
    connection: Connection, source: Source, scope: Scope, since: str | None = None
) -> Decision:
    """Decide what a sync would do, changing nothing. Raises SourceUnavailable."""
    listing = scan(source.connector, scope.under, since)
    seen = seen_items(connection, source.id)
    if scope.afresh:
        seen = {path: replace(item, revision=RETRY) for path, item in seen.items()}
    steps = plan(
        listing,
        seen,
        live_documents(connection, source.id),
        pins=pins_of(connection, source.id),
        excluded=excluded_paths(connection, source.id),
        accept_empty=scope.accept_empty,
    )
    return Decision(steps, listing)


def read_step(
    connection: Connection,
    source: Source,
    scope: Scope,
    step: Step,
    passage_tokens: int,
    extract: Extract,
) -> Reading | None:
    """Read the item of a step, if it has one and that is still there.

    Compares with the head as it is now: a hint's sync may have moved it since the plan.
    """
    if step.item is None:
        return None
    settled = [pins_of(connection, source.id).get(step.path)]
    if not scope.afresh:
        settled.append(live_content(connection, source.id, step.path))
    return read(source.connector, source.id, step.item, settled, passage_tokens, extract)


@dataclass(slots=True)
class SourceSync:
    """The write path over the store; `on_version` is told of each commit, `between` runs after
    it, `check_stop` oftener; both may raise to abandon the sync. `new_meter` limits what an LLM may
    cost one sync. `paused` says why a source is."""

    connection: Connection
    writer: Writer
    passage_tokens: int
    batch_documents: int
    now_ms: Callable[[], int]
    on_version: Callable[[Version], None]
    between: Callable[[], None] = lambda: None
    check_stop: Callable[[], None] = lambda: None
    new_meter: Callable[[], Meter] = Meter
    extract: Extract = extract
    paused: dict[str, str] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    upgrades: Upgrades = field(init=False)

    def __post_init__(self) -> None:
        self.upgrades = Upgrades(self.writer, self.new_meter, self.on_version)

    def sync(self, source: Source, scope: Scope) -> Outcome:
        """Bring the graph to what the source has now; a source in doubt is paused, data kept."""
        outer = self.progress
        self.progress = Progress(source.name)
        meter = self.new_meter()
        try:
            if is_held(self.connection, source.id):
                raise held(source.name)
            began_ms = self.now_ms()
            since = since_of(self.connection, source, scope, began_ms)
            decision = planned(self.connection, source, scope, since)
            return self._execute(source, scope, decision, began_ms, meter)
        except SourceUnavailable as problem:
            if self.paused.get(source.name) != problem.why:
                log.warning("source paused", source=source.name, why=problem.why, hint=problem.hint)
            self.paused[source.name] = problem.why
            put_source_state(self.connection, source.id, None, problem.why, problem.hint)
            return Outcome(source.name, problem=problem.why)
        finally:
            self.progress = outer
            self.upgrades.after_sync(meter)

    def restore(self, number: int, sources: dict[int, str]) -> Version | None:
        """Commit a version whose documents of the sources (id to name) are those of `number`.

        None when they are that already.
        """
        version = self.writer.apply(restoration(self.connection, number, sources))
        if version:
            self.on_version(version)
        return version

    def _execute(
        self, source: Source, scope: Scope, decision: Decision, began_ms: int, meter: Meter
    ) -> Outcome:
        changed = removed = 0
        progress = self.progress
        unsettled: set[str] = set()
        for batch in self._batches(source, scope, decision, unsettled):
            progress.batch_documents = len(batch.read)
            version = self.writer.apply(batch, self._count_passages, meter)
            progress.documents_done += len(batch.seen)
            progress.batch_documents = progress.passages_done = progress.passages_total = 0
            changed += len(batch.read)
            removed += len(batch.gone)
            if version:
                self.on_version(version)
            self.between()
        if scope.under is None and not unsettled:
            self._note_listing(source, decision.listing, began_ms)
        self.paused.pop(source.name, None)
        whole = scope.under is None
        put_source_state(self.connection, source.id, self.now_ms() if whole else None, None, None)
        return Outcome(source.name, changed, removed)

    def _note_listing(self, source: Source, listing: Listing, began_ms: int) -> None:
        """All that the listing named is indexed: the next one may begin where it ended."""
        if listing.since is None:
            state = ListingState(listing.cursor, began_ms)
        else:
            listed_ms = listing_state(self.connection, source.id).listed_ms
            state = ListingState(listing.cursor or listing.since, listed_ms)
        put_listing_state(self.connection, source.id, state)

    def _read(self, source: Source, scope: Scope, step: Step) -> Reading | None:
        return read_step(self.connection, source, scope, step, self.passage_tokens, self.extract)

    def _count_passages(self, done: int, total: int) -> None:
        self.progress.passages_done, self.progress.passages_total = done, total
        self.check_stop()

    def _batches(
        self, source: Source, scope: Scope, decision: Decision, unsettled: set[str]
    ) -> Iterator[Batch]:
        """Group the steps into batches; removals go with the last, after a second look.

        Items that are worth a second try, soon, are added to `unsettled`.
        """
        steps = decision.steps
        fetches = [step for step in steps if step.action is Action.FETCH]
        self.progress.documents_total = len(fetches)
        limit = len(fetches) + 1 if scope.afresh else self.batch_documents
        readings: list[Reading] = []
        passages = 0
        for step in fetches:
            if len(readings) >= limit or (passages >= _BATCH_PASSAGES and not scope.afresh):
                yield _batch(source, readings, (), ())
                readings, passages = [], 0
            try:
                reading = self._read(source, scope, step)
            except SourceUnavailable:
                # Of a source that stops answering now and then, what it gave is not asked twice.
                if readings and not scope.afresh:
                    yield _batch(source, readings, (), ())
                raise
            self.check_stop()
            if reading is None or (reading.seen.revision == RETRY and step.reason != AGAIN):
                unsettled.add(step.path)
            if reading:
                readings.append(reading)
                passages += len(reading.read.passages) if reading.read else 0
        reports = [step for step in steps if step.action is Action.REPORT]
        removals = self._confirmed(source, scope, decision)
        if readings or reports or removals:
            yield _batch(source, readings, reports, removals)

    def _confirmed(self, source: Source, scope: Scope, decision: Decision) -> list[Step]:
        """The removals whose items are still missing: much may have happened since the scan.

        The scan has judged already whether they may leave the source empty; this look sees only
        what is missing, so it must not ask again. What a source said is gone since a cursor needs
        no second look: if it is back, the next listing since then names it.
        """
        removals = [step for step in decision.steps if step.action in _REMOVALS]
        if not removals or decision.listing.since is not None:
            return removals
        missing = tuple(step.path for step in removals)
        again = Scope(missing, accept_empty=True)
        still = {
            step.path
            for step in planned(self.connection, source, again).steps
            if step.action in _REMOVALS
        }
        return [step for step in removals if step.path in still]


def _batch(
    source: Source,
    readings: Sequence[Reading],
    reports: Sequence[Step],
    removals: Sequence[Step],
) -> Batch:
    changed = tuple(reading.read for reading in readings if reading.read)
    gone = tuple((source.id, step.path) for step in removals if step.action is Action.REMOVE)
    problems = [
        Seen(source.id, step.path, RETRY, None, step.problem.why, step.problem.hint)
        for step in reports
        if step.problem
    ]
    parts = [f"{len(changed)} changed" if changed else "", f"{len(gone)} removed" if gone else ""]
    reason = f"{source.name}: {', '.join(part for part in parts if part) or 'nothing changed'}"
    return Batch(
        reason=reason,
        read=changed,
        gone=gone,
        seen=(*(reading.seen for reading in readings), *problems),
        unseen=tuple((source.id, step.path) for step in removals),
    )
