"""Syncs a source: lists, plans, reads, prepares and commits. Each batch becomes one version.

Start reading at `SourceSync._sync` and `_execute`. At every slow step, a small sync may run inside
a long sync (`yield_to_edits`). After each batch, the other sources have a turn (`Turn`). While
there is no other work, `Upgrades` asks the LLM for missing questions, piece by piece.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from connectors.protocol import SourceUnavailable
from hopsyncd.errors import EncoderUnavailable
from hopsyncd.formats.readers import Extract, extract
from hopsyncd.index.throttle import throttle, yielding_to_queries
from hopsyncd.ingest.generation_switch import GenerationSwitch
from hopsyncd.ingest.plan import (
    AGAIN,
    CHANGED,
    FAILED,
    REMOVALS,
    RETRY,
    Action,
    Plan,
    Scope,
    Source,
    Step,
    TooMuch,
    find_cursor,
    make_plan,
    put_first,
    source_paused_error,
)
from hopsyncd.ingest.prepare import Cost
from hopsyncd.ingest.read import Batch, PendingBatch, Progress, Reading, SyncRun, read_step
from hopsyncd.ingest.source_thread import Turn, YieldToEdits, run_to_end
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.llm.budget import Usage
from store.content import find_stored_passages
from store.contract import Connection
from store.reads import read_live_documents
from store.records import Seen, Version
from store.sources import (
    ListingState,
    begin_rules,
    is_paused,
    is_read_by,
    put_left_out,
    put_listing_state,
    put_source_state,
    read_listing_state,
    read_seen_items,
)

log = structlog.get_logger(__name__)

_PIECE = 256  # Ask about this number of passages before other work gets a turn.
_EVERY_S = 600.0
_FIRST_WAIT_S = 30.0


class Upgrades:
    """Replaces provisional questions with questions from the LLM. `due_s` is the time (monotonic)
    of the next attempt.

    While the endpoint fails, the wait between attempts grows from half a minute to ten minutes.
    Once the endpoint responds, all missing questions are requested, within the limits of one sync.
    """

    def __init__(
        self,
        writer: VersionWriter,
        new_usage: Callable[[], Usage],
        on_version: Callable[[Version], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._new_usage = new_usage
        self._on_version = on_version
        self._clock_s = clock_s
        self._usage = new_usage()
        self._failures = 0
        self.due_s = clock_s()

    def schedule_next(self, usage: Usage | None) -> None:
        """Set the time of the next attempt after a sync. `usage` is the sync's LLM usage, or None
        if the sync does not ask the LLM."""
        if usage is None:
            if not self._failures:
                self.due_s = self._clock_s()
        elif usage.completion_tokens:
            self._failures = 0
            self.due_s = self._clock_s()
        elif usage.failures:
            self.due_s = min(self.due_s, self._clock_s() + self._wait_s())

    def run(self, go_on: Callable[[], bool]) -> bool | None:
        """Replace the questions of one piece if an attempt is due and `go_on` returns True.

        Returns True if a version with new questions was committed, False if the LLM failed, and
        None otherwise.
        """
        if self._clock_s() < self.due_s or not go_on():
            return None
        version = self._writer.upgrade(_PIECE, self._usage, go_on)
        if version:
            self._failures = 0
            self._on_version(version)
            log.info("replaced provisional questions", version=version.id, reason=version.reason)
            return True
        if not go_on():
            return None
        failed = bool(self._usage.failures)
        self._failures = self._failures + 1 if failed else 0
        self._usage = self._new_usage()
        self.due_s = self._clock_s() + self._wait_s()
        return False if failed else None

    def _wait_s(self) -> float:
        if not self._failures:
            return _EVERY_S
        return float(min(_FIRST_WAIT_S * 2 ** (self._failures - 1), _EVERY_S))


# With more documents than this, the edited documents get a version of their own.
_MANY_DOCUMENTS = 100
_MAX_LISTINGS = 3  # How often to list a source whose items vanish while they are read.
_PAUSE_FACTOR = 4.0  # Pause for queries for at most this multiple of the reading time.
_SMALL_PASSAGES = 32  # the most new passages in a small sync.
_LONGEST_READING_S = 10.0  # After reading a slow source for this time, give other sources a turn.


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The result of a sync. `problem` says why the source is paused, or is None.

    `too_large` is true if a small sync was abandoned because it had too much work. `postponed`
    are the edited documents that a small sync left to the next sync.
    """

    source: str
    changed: int = 0
    removed: int = 0
    problem: str | None = None
    too_large: bool = False
    postponed: tuple[str, ...] = ()


@dataclass(slots=True)
class SourceSync:
    """Syncs sources: writes their changes to the database.

    `on_version` is called after each commit. `yield_to_edits` is called at every slow step: it may
    run a small sync, or raise an error to abandon the work. `is_awaited` is called during a commit.
    If it returns True, the commit ends early, and the rest of the batch becomes another version.
    `new_usage` creates the `Usage` that limits a sync's LLM calls. `on_reading` is called before a
    document is read, and `on_idle` at least every minute while there is no work. `switch` switches
    to new models, and `on_switch` is called with the version that completes the switch. `paused`
    contains the reason for each paused source.
    """

    connection: Connection
    writer: VersionWriter
    passage_tokens: int
    batch_documents: int
    now_ms: Callable[[], int]
    on_version: Callable[[Version], None]
    yield_to_edits: YieldToEdits = lambda: None
    is_awaited: Callable[[], bool] = lambda: False
    new_usage: Callable[[], Usage] = Usage
    extract: Extract = extract
    on_reading: Callable[[], None] = lambda: None
    on_idle: Callable[[], None] = lambda: None
    switch: GenerationSwitch | None = None
    on_switch: Callable[[Version], None] = lambda version: None
    paused: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    monotonic_s: Callable[[], float] = time.monotonic
    progress: Progress = field(default_factory=Progress)
    upgrades: Upgrades = field(init=False)
    _underway: list[PendingBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.upgrades = Upgrades(self.writer, self.new_usage, self.on_version)

    def use_writer(self, writer: VersionWriter, on_version: Callable[[Version], None]) -> None:
        """Use another writer, and another callback for its versions, from the next batch on."""
        self.writer, self.on_version = writer, on_version
        self.upgrades = Upgrades(writer, self.new_usage, on_version)

    def is_behind(self, source: Source) -> bool:
        """Return whether the source was last synced with rules other than the current rules. If
        true, its next sync marks every item, so that each is read again."""
        return not is_read_by(self.connection, source.id, self.writer.rules)

    def commit(self, batch: Batch, yield_to_edits: YieldToEdits = lambda: None) -> Version | None:
        """Generate the batch's questions, commit it, and pass the version to `on_version`. Returns
        None if the batch changes no document."""
        version = self.writer.apply(batch, yield_to_edits)
        if version:
            self.on_version(version)
        return version

    @contextmanager
    def leaving_alone(self, source: str) -> Iterator[None]:
        """Exclude the source named `source` from syncs during the block."""
        was_removed = source in self.removed
        self.removed.add(source)
        try:
            yield
        finally:
            if not was_removed:
                self.removed.discard(source)

    def sync(self, source: Source, scope: Scope) -> SyncOutcome:
        """Bring the database up to date with a source. If the source is unavailable, it is paused.
        Other errors are raised."""
        return run_to_end(self.sync_in_turns(source, scope))

    def sync_in_turns(self, source: Source, scope: Scope) -> Generator[Turn, None, SyncOutcome]:
        """Sync a source like `sync`, in turns. Between turns, other work may write to the
        database."""
        outer = self.progress
        usage = None if scope.small else self.new_usage()
        batch = PendingBatch(source.id, source.name)
        run = SyncRun(source, scope, usage, Progress(source.name), batch)
        try:
            self._begin_turn(run)
            with closing(self._sync(run)) as turns:
                for turn in turns:
                    yield turn
                    self._begin_turn(run)
            return SyncOutcome(source.name, run.changed, run.removed, postponed=run.postponed)
        except TooMuch:
            for underway in self._underway:
                if underway.source == source.id:
                    underway.urgent.update(scope.under or ())
            return SyncOutcome(source.name, run.changed, run.removed, too_large=True)
        except SourceUnavailable as problem:
            if source.name in self.removed:
                return SyncOutcome(source.name)
            self._pause(source, problem)
            return SyncOutcome(source.name, problem=problem.why)
        finally:
            self.progress = outer
            self.upgrades.schedule_next(run.usage)

    def _begin_turn(self, run: SyncRun) -> None:
        """Show this run's progress, unless it interrupts another run. Raises SourceUnavailable if
        the source is paused or removed."""
        if not (run.scope.small and self._underway):
            self.progress = run.progress
        if run.source.name in self.removed or is_paused(self.connection, run.source.id):
            raise source_paused_error(run.source.name)

    def _pause(self, source: Source, problem: SourceUnavailable) -> None:
        if self.paused.get(source.name) != problem.why:
            log.warning("source paused", source=source.name, why=problem.why, hint=problem.hint)
        self.paused[source.name] = problem.why
        put_source_state(self.connection, source.id, None, problem.why, problem.hint)

    def _sync(self, run: SyncRun) -> Generator[Turn, None, None]:
        """List the source, plan and execute its sync, and record its new state."""
        source, is_whole = run.source, run.scope.under is None
        seen = self._begin_rules(run)
        began_ms, before = self.now_ms(), read_listing_state(self.connection, source.id)
        since = find_cursor(before, run.scope, began_ms)
        listings = _MAX_LISTINGS if is_whole and not run.is_slow and not run.scope.afresh else 1
        for _ in range(listings):
            run.batch.unsettled -= run.vanished
            run.vanished = set()
            plan = yield from make_plan(
                self.connection, source, run.scope, since, self.yield_to_edits, seen
            )
            run.postponed, seen = plan.postponed, None  # frees memory for the reading
            self._underway.append(run.batch)
            try:
                yield from self._execute(run, plan)
            finally:
                self._underway.remove(run.batch)
            if not run.vanished or run.encoder_error:
                break
        if run.encoder_error:
            raise run.encoder_error
        if not is_whole:
            self._drop_preempted(source.id, plan.looks_at)
        if run.scope.afresh:
            unread = read_live_documents(self.connection, source.id).keys() - run.looked_at
            run.batch.unsettled |= unread
        self.paused.pop(source.name, None)
        scanned_ms = self.now_ms() if is_whole else None
        put_source_state(self.connection, source.id, scanned_ms, None, None)
        if is_whole:
            left_out = getattr(source.connector, "left_out", {})
            if left_out is not None:
                put_left_out(self.connection, source.id, left_out)
        if is_whole and not run.batch.unsettled:
            self._note_listing(run, plan, began_ms, before)

    def _begin_rules(self, run: SyncRun) -> dict[str, Seen] | None:
        """If the source was last synced with other rules, mark every item to be read again.

        If this sync lists the whole source, it fetches every item. Then the items of the last scan
        are returned, without the marks, so that edited items are recognised.
        """
        if not self.is_behind(run.source):
            return None
        seen = {} if run.scope.under else read_seen_items(self.connection, run.source.id)
        begin_rules(self.connection, run.source.id, self.writer.rules)
        run.scope = replace(run.scope, afresh=bool(seen))
        return seen or None

    def _execute(self, run: SyncRun, plan: Plan) -> Generator[Turn, None, None]:
        """Fetch and commit the planned items in batches. Then list the items to be removed again,
        and commit the removals.

        If a removed document's content is found at another path, the removal is in the same batch
        as the new document.
        """
        batch, run.back = run.batch, []
        fetches = [*plan.select_steps(Action.FETCH).values()]
        run.progress.documents_total = len(fetches)
        run.progress.again = 2 * sum(step.reason == AGAIN for step in fetches) > len(fetches)
        run.removals = plan.select_steps(*REMOVALS)
        run.moved = {} if run.is_slow else plan.group_gone_by_content()
        yield from self._read_and_commit(run, plan, fetches)
        if run.removals and batch.readings and run.is_slow:
            # Commit first, because other sources have turns during the listing.
            self._commit(run)
            yield Turn.COMMITTED
        batch.reports = plan.select_steps(Action.REPORT)
        batch.removals, run.removals, run.moved = run.removals, {}, {}
        yield from self._list_again(run, plan)
        yield from self._read_and_commit(run, plan, run.back)
        if batch.readings or batch.reports or batch.removals:
            self._commit(run)
            yield Turn.COMMITTED

    def _read_and_commit(
        self, run: SyncRun, plan: Plan, steps: Collection[Step]
    ) -> Generator[Turn, None, None]:
        """Read the items of these steps, and commit each full batch. The last batch is left to the
        caller. If the source fails, commits the items read before and raises SourceUnavailable."""
        waiting = deque(steps)
        are_many = len(steps) > min(self.batch_documents, _MANY_DOCUMENTS)
        while waiting and not run.encoder_error:
            with yielding_to_queries(_PAUSE_FACTOR if are_many else 0.0):
                problem = self._fill(run, waiting, are_many)
            # Keep the items that the source returned before it failed.
            if (problem or waiting) and run.batch.readings:
                yield from self._add_moved(run, plan)
                self._commit(run)
                yield Turn.COMMITTED
            if problem:
                raise problem

    def _fill(self, run: SyncRun, waiting: deque[Step], are_many: bool) -> SourceUnavailable | None:
        """Read items until the batch is full or the source fails. Returns the failure, or None."""
        began_s, reason, urgent = self.monotonic_s(), None, -1
        read = throttle(partial(self._read_items, run))
        while waiting:
            if run.batch.urgent:
                urgent = put_first(waiting, run.batch.urgent) or urgent
            # Edits are handled before many new documents are read.
            is_last_edit = (are_many and reason == CHANGED != waiting[0].reason) or urgent == 0
            if run.batch.readings and (is_last_edit or self._is_full(run, began_s)):
                break
            reason, urgent = waiting[0].reason, urgent - 1
            try:
                read(waiting.popleft())
            except SourceUnavailable as problem:
                return problem
        return None

    def _is_full(self, run: SyncRun, began_s: float) -> bool:
        took_s = self.monotonic_s() - began_s if run.is_slow or run.progress.again else 0.0
        return (
            len(run.batch.readings) >= self.batch_documents
            or run.batch.new_passages >= run.pace.passages
            or took_s > _LONGEST_READING_S
        )

    def _read_items(self, run: SyncRun, step: Step) -> None:
        """Read the item of a step into the batch. If the next listing must reload the item, its
        path is added to `unsettled`."""
        run.batch.begin(step.path)
        self.on_reading()
        reading = read_step(
            self.connection,
            run.source,
            run.scope,
            step,
            self.passage_tokens,
            self.extract,
            self.yield_to_edits,
        )
        if (
            reading is None
            or reading.waits
            or (reading.seen.revision == RETRY and step.reason != FAILED)
        ):
            run.batch.unsettled.add(step.path)
        if reading:
            run.batch.end(reading, self._count_new_passages(reading))
        else:
            run.vanished.add(step.path)

    def _count_new_passages(self, reading: Reading) -> int:
        ids = {passage.id for passage in reading.read.passages} if reading.read else set()
        return len(ids - find_stored_passages(self.connection, ids))

    def _add_moved(self, run: SyncRun, plan: Plan) -> Generator[Turn, None, None]:
        """For each moved document in the batch, add the removal of its old path to the batch."""
        for document in run.batch.documents:
            if paths := run.moved.get(document.document.content):
                path = paths.pop()
                run.batch.removals[path] = run.removals.pop(path)
        if run.moved:
            yield from self._list_again(run, plan)

    def _list_again(self, run: SyncRun, plan: Plan) -> Generator[Turn, None, None]:
        """List again the items that the batch would remove, and keep the items that still exist.

        A listing can be incomplete, and much may have changed since the first listing. The first
        listing has already checked whether the source may become empty. The second listing covers
        only the missing items, so it must not repeat that check. Items that a source reports as
        removed since a cursor are not listed again. If such an item is back, the next listing
        contains it.
        """
        batch = run.batch
        if not batch.removals or plan.listing.since is not None:
            return
        removed = dict.fromkeys(batch.removals)
        scope = replace(run.scope, under=tuple(removed), accept_empty=True)
        looking = make_plan(self.connection, run.source, scope, None, self.yield_to_edits)
        look = run_to_end(looking) if batch.readings else (yield from looking)
        removals, fetches = look.select_steps(*REMOVALS), look.select_steps(Action.FETCH)
        batch.removals = {path: step for path, step in batch.removals.items() if path in removals}
        run.back += [step for path, step in fetches.items() if path in removed]

    def _commit(self, run: SyncRun) -> None:
        """Generate the questions of the batch, and commit the items that no later sync has read."""
        batch, cost, began_s = run.batch, Cost(run.usage), self.monotonic_s()
        run.progress.batch_documents = len(batch.documents)
        try:
            self.writer.prepare(
                batch.documents,
                cost,
                run.progress.count_passages,
                self.yield_to_edits,
                _SMALL_PASSAGES if run.scope.small else None,
            )
        except EncoderUnavailable as error:
            run.encoder_error = error
            batch.drop(self.writer.select_unprepared(batch.readings).__contains__)
        passages = batch.new_passages
        while not self._commit_once(run, cost):
            self.yield_to_edits()
            cost = Cost(run.usage)
        run.pace.adjust(passages, self.monotonic_s() - began_s)

    def _commit_once(self, run: SyncRun, cost: Cost) -> bool:
        """Commit the batch, or only a part of it if edits are waiting. A small sync is always one
        version. Returns whether the whole batch was committed."""
        whole = run.batch.to_batch()
        is_awaited = (lambda: False) if run.scope.small else self.is_awaited
        version, committed = self.writer.commit(whole, cost, is_awaited)
        run.batch.remove(committed)
        run.progress.end_batch(len(committed.seen))
        run.changed += len(committed.read)
        run.removed += len(committed.gone)
        run.looked_at.update(seen.path for seen in committed.seen if seen.revision != RETRY)
        self._drop_preempted(run.source.id, committed.paths.__contains__)
        if version:
            self.on_version(version)
        return committed is whole

    def _drop_preempted(self, source: int, is_later: Callable[[str], bool]) -> None:
        """Drop paths from the running syncs of the source with the id `source`: those for which
        `is_later` returns True, because a preempting sync has read their newer content."""
        for batch in self._underway:
            if batch.source == source:
                batch.drop(is_later)

    def _note_listing(self, run: SyncRun, plan: Plan, began_ms: int, before: ListingState) -> None:
        """Record that every listed item is indexed. The next listing can then begin at the cursor.

        If the stored state has changed since `before`, for example because a complete listing was
        requested, nothing is recorded.
        """
        listing, source = plan.listing, run.source.id
        listed_ms = began_ms if listing.since is None else before.listed_ms
        if read_listing_state(self.connection, source) == before:
            state = ListingState(listing.cursor or listing.since, listed_ms)
            put_listing_state(self.connection, source, state)
