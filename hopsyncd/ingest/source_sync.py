"""One sync of one source: scan, plan, read, commit, in batches that are a version each."""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from connectors.protocol import SourceUnavailable
from hopsyncd.formats.readers import Extract, extract
from hopsyncd.ingest.commit import Batch, Writer
from hopsyncd.ingest.pending_batch import PendingBatch
from hopsyncd.ingest.plan import (
    AGAIN,
    CHANGED,
    Action,
    Decision,
    Scope,
    Source,
    Step,
    held,
    planned,
    read_step,
    since_of,
)
from hopsyncd.ingest.prepare import Cost
from hopsyncd.ingest.read import RETRY
from hopsyncd.ingest.restore import restoration
from hopsyncd.ingest.scan import Listing, TooMuch, finished
from hopsyncd.ingest.source_thread import GiveWay, WriterThread
from hopsyncd.ingest.upgrades import Upgrades
from hopsyncd.models.llm.budget import Usage
from store.records import Version
from store.sqlite.database import Connection
from store.sqlite.reads import live_documents
from store.sqlite.sources import (
    ListingState,
    is_held,
    is_read_by,
    listing_state,
    put_listing_state,
    put_rules,
    put_source_state,
)


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


log = structlog.get_logger(__name__)

_REMOVALS = (Action.REMOVE, Action.FORGET)
_BATCH_PASSAGES = 1000  # a batch also ends when its documents hold this many passages, or fewer
_FEWEST_PASSAGES = 32
_LONGEST_READING_S = 10.0  # of a batch from a slow source: others have their turns then
_LONGEST_COMMIT_S = 0.5  # beyond it batches get smaller: nobody else gets a turn meanwhile
_SMALL_STEPS, _SMALL_PASSAGES = 100, 32  # of a small sync
_SMALL_BYTES = 1 << 20  # of a document of one: nobody has a turn while it is read and cut


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What a sync of one source did; `problem` says why it is paused, None when it is not.

    `too_large` says that it was to be small and proved not to be: it is still to be done. `left`
    are edited documents that a sync of a few edits has left.
    """

    source: str
    changed: int = 0
    removed: int = 0
    problem: str | None = None
    too_large: bool = False
    left: tuple[str, ...] = ()


@dataclass(slots=True)
class SourceSync:
    """The write path over the store; `on_version` is told of each commit. `give_way` is called at
    every slow step, and may run a small sync of the hinted parts of a source, or raise to abandon
    the work. `new_usage` limits what an LLM may cost one sync. `paused` says why a source is."""

    connection: Connection
    writer: Writer
    passage_tokens: int
    batch_documents: int
    now_ms: Callable[[], int]
    on_version: Callable[[Version], None]
    give_way: GiveWay = lambda: None
    new_usage: Callable[[], Usage] = Usage
    extract: Extract = extract
    paused: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    monotonic_s: Callable[[], float] = time.monotonic
    progress: Progress = field(default_factory=Progress)
    upgrades: Upgrades = field(init=False)
    _underway: list[PendingBatch] = field(default_factory=list)
    _batch_passages: int = _BATCH_PASSAGES

    def __post_init__(self) -> None:
        self.upgrades = Upgrades(self.writer, self.new_usage, self.on_version)

    def is_behind(self, source: Source) -> bool:
        """Whether a scan of all of the source is to read every document by the present rules."""
        return not is_read_by(self.connection, source.id, self.writer.rules)

    def sync(self, source: Source, scope: Scope) -> SyncOutcome:
        """Bring the graph to what the source has now; a source in doubt is paused, data kept."""
        return finished(self.turns(source, scope))

    def turns(self, source: Source, scope: Scope) -> Generator[None, None, SyncOutcome]:
        """The same in turns, a batch or a short wait each; between them the store is anybody's."""
        outer = self.progress
        usage = None if scope.small else self.new_usage()
        try:
            self._require_unheld(source)
            if scope.under is None and self.is_behind(source):
                scope = replace(scope, afresh=True)
            began_ms = self.now_ms()
            before = listing_state(self.connection, source.id)
            since = since_of(before, scope, began_ms)
            self.progress = progress = Progress(source.name)
            decision = yield from planned(self.connection, source, scope, since, self.give_way)
            self.progress = progress
            self._require_unheld(source)
            intake = PendingBatch(source.id, source.name)
            outcome = yield from self._execute(source, scope, decision, intake, usage)
            if scope.under is None and not intake.unsettled:
                self._note_listing(source, decision.listing, began_ms, before)
            return outcome
        except TooMuch:
            return SyncOutcome(source.name, too_large=True)
        except SourceUnavailable as problem:
            if source.name in self.removed:
                return SyncOutcome(source.name)
            if self.paused.get(source.name) != problem.why:
                log.warning("source paused", source=source.name, why=problem.why, hint=problem.hint)
            self.paused[source.name] = problem.why
            put_source_state(self.connection, source.id, None, problem.why, problem.hint)
            return SyncOutcome(source.name, problem=problem.why)
        finally:
            self.progress = outer
            self.upgrades.after_sync(usage)

    def restore(self, number: int, sources: dict[int, str]) -> Version | None:
        """Commit a version whose documents of the sources (id to name) are those of `number`.

        None when they are that already.
        """
        return self.commit(restoration(self.connection, number, sources))

    def commit(self, batch: Batch) -> Version | None:
        """Commit a batch that needs no questions, and tell of it; None when it changes nothing."""
        version = self.writer.apply(batch)
        if version:
            self.on_version(version)
        return version

    def _execute(
        self,
        source: Source,
        scope: Scope,
        decision: Decision,
        intake: PendingBatch,
        usage: Usage | None,
    ) -> Generator[None, None, SyncOutcome]:
        changed = removed = 0
        looked_at: set[str] = set()
        progress = self.progress
        is_looked_at: Callable[[str], bool] = decision.listing.names
        left: tuple[str, ...] = ()
        if scope.edits:
            edited = _edited(decision.steps, scope)
            decision = replace(decision, steps=edited[: scope.edits], gone={})
            is_looked_at = {step.path for step in decision.steps}.__contains__
            left = tuple(step.path for step in edited[scope.edits :])
        if scope.small and not _is_small(decision.steps):
            return SyncOutcome(source.name, too_large=True)
        self._underway.append(intake)
        try:
            for is_batch in self._filled(source, scope, decision, intake):
                if scope.small and self.writer.missing(intake.documents) > _SMALL_PASSAGES:
                    return SyncOutcome(source.name, changed, removed, too_large=True)
                if is_batch:
                    taken = self._commit(intake, scope, usage)
                    changed += len(taken.read)
                    removed += len(taken.gone)
                    looked_at.update(one.path for one in taken.seen if one.revision != RETRY)
                yield
                self.progress = progress
                self._require_unheld(source)
        finally:
            self._underway.remove(intake)
        if not (whole := scope.under is None):
            self._overtake(source.id, is_looked_at)
        if scope.afresh:
            unread = live_documents(self.connection, source.id).keys() - looked_at
            put_rules(self.connection, source.id, self.writer.rules, unread)
            intake.unsettled |= unread
        self.paused.pop(source.name, None)
        put_source_state(self.connection, source.id, self.now_ms() if whole else None, None, None)
        return SyncOutcome(source.name, changed, removed, left=left)

    def _require_unheld(self, source: Source) -> None:
        if source.name in self.removed or is_held(self.connection, source.id):
            raise held(source.name)

    def _commit(self, intake: PendingBatch, scope: Scope, usage: Usage | None) -> Batch:
        """Make the questions and commit what is not overtaken meanwhile."""
        progress, cost = self.progress, Cost(usage)
        progress.batch_documents = len(intake.documents)
        self.writer.prepare(intake.documents, cost, self._count_passages, self.give_way)
        batch = intake.take()
        began_s = time.thread_time()
        version = self.writer.apply(batch, cost)
        progress.documents_done += len(batch.seen)
        progress.batch_documents = progress.passages_done = progress.passages_total = 0
        self._overtake(intake.source, batch.paths.__contains__)
        if version:
            self.on_version(version)
        if not scope.small:
            self._pace(time.thread_time() - began_s)
        return batch

    def _overtake(self, source: int, is_later: Callable[[str], bool]) -> None:
        """Whoever gave way to a sync has older readings of the paths that it looked at."""
        for intake in self._underway:
            intake.overtake(source, is_later)

    def _pace(self, commit_s: float) -> None:
        """In a large graph batches are smaller, so that none keeps others waiting for long."""
        if commit_s > _LONGEST_COMMIT_S:
            self._batch_passages = max(self._batch_passages // 2, _FEWEST_PASSAGES)
        elif commit_s < _LONGEST_COMMIT_S / 4:
            self._batch_passages = min(self._batch_passages * 2, _BATCH_PASSAGES)

    def _note_listing(
        self, source: Source, listing: Listing, began_ms: int, before: ListingState
    ) -> None:
        """All that the listing named is indexed: the next one may begin where it ended, if nothing
        was asked for meanwhile that needs a listing of its own."""
        listed_ms = began_ms if listing.since is None else before.listed_ms
        if listing_state(self.connection, source.id) == before:
            state = ListingState(listing.cursor or listing.since, listed_ms)
            put_listing_state(self.connection, source.id, state)

    def _count_passages(self, done: int, total: int) -> None:
        self.progress.passages_done, self.progress.passages_total = done, total

    def _filled(
        self, source: Source, scope: Scope, decision: Decision, intake: PendingBatch
    ) -> Iterator[bool | None]:
        """Fill the intake for one batch after the other. A removal goes with the batch that has
        its content at another path, else with the last; each after a second look. None is no batch
        but a short wait.

        Items that are worth a second try, soon, are `unsettled`.
        """
        fetches = [step for step in decision.steps if step.action is Action.FETCH]
        self.progress.documents_total = len(fetches)
        removals = {step.path: step for step in decision.steps if step.action in _REMOVALS}
        moved = _by_content(decision.gone)
        back: list[Step] = []  # what was to be removed, and is there again
        for _ in self._fetched(source, scope, fetches, intake):
            paths = _moved(intake, moved) if isinstance(source.caller, WriterThread) else []
            intake.removals = {path: removals.pop(path) for path in paths}
            back += yield from self._confirm_removals(source, scope, decision, intake)
            yield True
        if (
            removals
            and intake.readings
            and not (scope.afresh or isinstance(source.caller, WriterThread))
        ):
            yield True  # nothing may be in hand while others have their turns
        intake.reports = {s.path: s for s in decision.steps if s.action is Action.REPORT}
        intake.removals = dict(removals)
        back += yield from self._confirm_removals(source, scope, decision, intake)
        yield from self._fetched(source, scope, back, intake)
        if intake.readings or intake.reports or intake.removals:
            yield True

    def _fetched(
        self, source: Source, scope: Scope, steps: Sequence[Step], intake: PendingBatch
    ) -> Iterator[bool]:
        """Read the items of these steps into the intake, which may be full in between."""
        began_s = self.monotonic_s()
        are_many, reason = len(steps) > self.batch_documents, None
        for step in steps:
            # Edits are answered before many new documents are read.
            is_edited = are_many and reason == CHANGED != step.reason and bool(intake.readings)
            reason = step.reason
            if not scope.afresh and (is_edited or self._is_full(intake, source, began_s)):
                yield True
                began_s = self.monotonic_s()
            try:
                self._read(source, scope, step, intake)
            except SourceUnavailable:
                # Of a source that stops answering now and then, what it gave is not asked twice.
                if intake.readings and not scope.afresh:
                    yield True
                raise

    def _is_full(self, intake: PendingBatch, source: Source, began_s: float) -> bool:
        if not intake.readings:
            return False
        took_s = 0.0 if isinstance(source.caller, WriterThread) else self.monotonic_s() - began_s
        return (
            len(intake.readings) >= self.batch_documents
            or intake.passages >= self._batch_passages
            or took_s > _LONGEST_READING_S
        )

    def _read(self, source: Source, scope: Scope, step: Step, intake: PendingBatch) -> None:
        intake.begin(step.path)
        reading = read_step(
            self.connection, source, scope, step, self.passage_tokens, self.extract, self.give_way
        )
        if (
            reading is None
            or reading.waits
            or (reading.seen.revision == RETRY and step.reason != AGAIN)
        ):
            intake.unsettled.add(step.path)
        if reading:
            intake.end(reading)

    def _confirm_removals(
        self, source: Source, scope: Scope, decision: Decision, intake: PendingBatch
    ) -> Generator[None, None, list[Step]]:
        """Look again at what the intake removes, and leave out what is not gone; returns the
        fetches of what is there again."""
        wanted = set(intake.removals)
        look = yield from self._second_look(source, scope, decision, intake)
        for path in wanted - {step.path for step in look if step.action in _REMOVALS}:
            intake.removals.pop(path, None)
        return [step for step in look if step.action is Action.FETCH and step.path in wanted]

    def _second_look(
        self, source: Source, scope: Scope, decision: Decision, intake: PendingBatch
    ) -> Generator[None, None, Collection[Step]]:
        """What is to be done about the removals: some listings do not name all that is there, and
        much may have happened since the scan.

        The scan has judged already whether they may leave the source empty; this look sees only
        what is missing, so it must not ask again. What a source said is gone since a cursor needs
        no second look: if it is back, the next listing since then names it.
        """
        if not intake.removals or decision.listing.since is not None:
            return [*intake.removals.values()]
        again = replace(scope, under=tuple(intake.removals), accept_empty=True)
        turns = planned(self.connection, source, again, give_way=self.give_way)
        decided = finished(turns) if intake.readings else (yield from turns)
        return decided.steps


def _is_small(steps: Sequence[Step]) -> bool:
    sizes = [step.item.size_bytes for step in steps if step.item]
    return len(steps) <= _SMALL_STEPS and max(sizes, default=0) <= _SMALL_BYTES


def _edited(steps: Sequence[Step], scope: Scope) -> tuple[Step, ...]:
    """The fetches of edited documents, in the order of the scope."""
    edits = {step.path: step for step in steps if step.reason == CHANGED and _is_small([step])}
    return tuple(edits[path] for path in scope.under or () if path in edits)


def _by_content(gone: Mapping[str, bytes]) -> dict[bytes, list[str]]:
    """The paths that each content is to leave, the first of them last."""
    paths: dict[bytes, list[str]] = {}
    for path in sorted(gone, reverse=True):
        paths.setdefault(gone[path], []).append(path)
    return paths


def _moved(intake: PendingBatch, paths: dict[bytes, list[str]]) -> list[str]:
    """Take out a path for each document of the intake that has the content of one."""
    contents = [one.document.content for one in intake.documents]
    return [paths[content].pop() for content in contents if paths.get(content)]
