"""Runs the writer's thread, which turns change events, requests and schedules into work."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog

from hopsyncd.errors import REPORTABLE, EncoderUnavailable, SyncFailed
from hopsyncd.ingest.chores import ChoreRunner
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.generation_switch import SwitchProgress
from hopsyncd.ingest.read import Progress
from hopsyncd.ingest.source_scheduler import (
    Chore,
    Clocks,
    Planned,
    Request,
    SourceScheduler,
    Task,
    Timetable,
    make_future,
    name_full_scan_job,
    name_scan_job,
)
from hopsyncd.ingest.source_sync import SourceSync, SyncOutcome
from hopsyncd.ingest.source_thread import Interruptions, Stopping
from store.check import as_store_error, refuse_overwritten
from store.exceptions import DatabaseGone, DiskFailure

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

_LONGEST_ENCODER_RETRY_S = 10.0
# The wait after a failure that concerns more than one source; doubled each time.
_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
_MAX_CHANGED_PATHS = 50_000  # kept per source; older paths are dropped, and the source is listed.
_LONGEST_SLEEP_S = 60.0  # so that a resumed machine or a changed clock is noticed in this time.
_SAVING_S = 1.0  # how often to check whether the index has been saved.
_QUIET_S = 0.1  # Idle time before memory is released. A question soon after an edit needs it again.
_HEAR_S = 0.1  # how often the writer of a server's database looks for requests of followers.
UPGRADE = "upgrade"  # the job that asks an LLM for missing questions


@dataclass(frozen=True, slots=True)
class _Job:
    """A job for the writer's thread. `run` resolves the future `done`."""

    run: Callable[[SourceSync], None]
    done: "Future[Any]"


@dataclass(frozen=True, slots=True)
class WritePath:
    """The write path to an open database: the sync, its tasks and its chores."""

    sync: SourceSync
    tasks: Sequence[Task]
    chores: Sequence[Chore] = ()


@dataclass(frozen=True, slots=True)
class _Opened:
    sync: SourceSync
    scheduler: SourceScheduler
    timetable: Timetable
    chores: Sequence[Chore]


class SyncWorker:
    """Runs syncs on its own thread, one batch of each source in turn.

    Pass a `follower` if the database is on a server. `on_synced` receives the duration of each sync
    in seconds. `require_encoder` must raise EncoderUnavailable while the encoder is unavailable.
    """

    def __init__(
        self,
        follower: Follower | None = None,
        on_synced: Callable[[float], None] = lambda _: None,
        clocks: Clocks = Clocks(),  # noqa: B008 - it is frozen
        require_encoder: Callable[[], None] = lambda: None,
    ) -> None:
        self._follower = follower
        self._on_synced = on_synced
        self._clocks = clocks
        self._require_encoder = require_encoder
        self._wake = threading.Condition()
        self._change_events: dict[str, dict[str, None]] = {}  # paths by source, newest last
        self._dirty_sources: set[str] = set()  # the sources in which anything may have changed
        self._requests: list[Request] = []
        self._jobs: list[_Job] = []
        self._stopping = self._ended = self._in_change_events = self.busy = False
        self._next_changes_s, self._retry_s = 0.0, _RETRY_S
        self._opened: _Opened | None = None
        self._latest: SourceSync | None = None  # kept while the database is being reopened
        self.error: str | None = None
        self.waits_for_encoder = False  # If true, `error` says why.
        self._thread: threading.Thread | None = None
        self._chores = ChoreRunner(self.submit, self._note_run)

    def start(self, open_pipeline: Callable[[Interruptions], WritePath]) -> None:
        """Start the thread, which opens the database and scans the sources whose scan is due.

        `open_pipeline` is called on the worker's thread, and again after a failure.
        """
        self._thread = threading.Thread(
            target=self._run, args=(open_pipeline,), name="sync", daemon=True
        )
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Abandon the current work and stop. Returns False if the thread did not end in time."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def add_change(self, source: str, paths: Sequence[str] | None) -> None:
        """Record changes at or below `paths` (newest last). None means anywhere in the source."""
        if self.is_following:  # The writer receives change events itself.
            return
        with self._wake:
            if paths is None:
                self._dirty_sources.add(source)
            else:
                self._change_events[source] = _order_newest_last(
                    [*self._change_events.get(source, ()), *paths]
                )
            if len(self._change_events.get(source, ())) > _MAX_CHANGED_PATHS:
                self._change_events[source] = _order_newest_last(
                    [*self._change_events[source]][-_MAX_CHANGED_PATHS:]
                )
                self._dirty_sources.add(source)
            self._wake.notify_all()

    def request(
        self, sources: Sequence[str], accept_empty: bool
    ) -> "Future[tuple[SyncOutcome, ...]]":
        """Request a scan of `sources` (all if empty). The future is done after the last commit."""
        request = Request(frozenset(sources), accept_empty)
        with self._wake:
            if self._follower is None or not self._follower.is_following:
                if self._ended:
                    request.done.set_exception(_make_reportable(Stopping()))
                self._requests.append(request)
                self._wake.notify_all()
                return request.done
        return self._follower.request(sources, accept_empty)

    def submit(
        self, job: Callable[[SourceSync], Result], counts_as: str | None = None
    ) -> "Future[Result]":
        """Run a job on the writer's thread, between two batches.

        If `counts_as` is given, the job is recorded as a run of the scheduled job with that name.
        """
        done: Future[Result] = make_future()

        def run(pipeline: SourceSync) -> None:
            try:
                refuse_overwritten(pipeline.connection)
                result = job(pipeline)
                refuse_overwritten(pipeline.connection)
                if counts_as:
                    self._at_work.timetable.note(counts_as, None)
            except BaseException as error:
                done.set_exception(_make_reportable(as_store_error(error, pipeline.connection)))
                if not isinstance(error, REPORTABLE):
                    raise
            else:
                done.set_result(result)

        with self._wake:
            if self._ended:
                done.set_exception(_make_reportable(Stopping()))
            elif self._follower and self.is_following:
                done.set_exception(self._follower.not_writer_error())
            else:
                self._jobs.append(_Job(run, done))
                self._wake.notify_all()
        return done

    def list_next_runs(self) -> list[Planned]:
        """Return the next run of each job, or an empty list before the database is open."""
        opened = self._opened
        if opened is None:
            return []
        in_s = max(0.0, opened.sync.upgrades.due_s - self._clocks.steady_s())
        upgrade_ms = self._clocks.wall_ms() + round(in_s * 1000)
        upgrade = Planned(UPGRADE, "while passages wait for an LLM's questions", upgrade_ms)
        return [*opened.timetable.list_next_runs(), upgrade]

    @property
    def is_following(self) -> bool:
        """Whether another daemon is the writer of the database."""
        return self._follower is not None and self._follower.is_following

    @property
    def progress(self) -> Progress | None:
        """The progress of the current sync, or None if no sync is running."""
        return self._latest.progress if self._latest and self.busy else None

    @property
    def switching(self) -> SwitchProgress | None:
        """The progress of the switch to the configured models, or None if there is no switch."""
        switch = self._latest.switch if self._latest else None
        return switch.progress if switch else None

    @property
    def paused(self) -> Mapping[str, str]:
        """The reason for each paused source, by name."""
        return dict(self._latest.paused) if self._latest else {}

    def keep_index(self) -> None:
        """Save the index for the next start. Call `stop` first. Raises ServerLost."""
        if self._follower and self._follower.is_following:
            self._follower.keep_index()
        elif self._latest:
            self._latest.writer.keep_index()

    @property
    def pending(self) -> bool:
        """Whether the served version may lack changes that the daemon has noticed."""
        opens = self._opened is None and not (self.error or self.is_following)
        return bool(
            self.busy or opens or self._change_events or self._dirty_sources or self._requests
        )

    def _run(self, open_pipeline: Callable[[Interruptions], WritePath]) -> None:
        while not self._stopping:
            try:
                self._open(open_pipeline)
                self._run_turns()
            except Stopping:
                break
            except Exception as error:  # noqa: BLE001 - the edge of the loop; logged, and in the status
                self._fail(error)
                self._wait_to_retry()
                while self.waits_for_encoder and not self._has_work() and not self._has_encoder():
                    self._wait_to_retry()
        self._fail_all(Stopping(), ended=True)

    def _wait_to_retry(self) -> None:
        """Wait for a request or a timeout. The timeout doubles after each call, up to a maximum."""
        with self._wake:
            self._wake.wait_for(lambda: self._stopping, _RETRY_S)
            self._wake.wait_for(self._is_asked, self._retry_s - _RETRY_S)
        longest_s = _LONGEST_ENCODER_RETRY_S if self.waits_for_encoder else _LONGEST_RETRY_S
        self._retry_s = min(2 * self._retry_s, longest_s)

    def _has_encoder(self) -> bool:
        """Whether the encoder is available again."""
        try:
            self._require_encoder()
        except EncoderUnavailable as error:
            self.error = str(error)
            return False
        log.info("the encoder is available again; indexing continues")
        return True

    def _fail_all(self, error: BaseException, *, ended: bool = False) -> None:
        """Fail all waiting and, if `ended`, all later requests and jobs with this error."""
        if self._follower and ended:
            self._follower.abandon(_make_reportable(error))
        with self._wake:
            self._ended = ended
            waiting: list[Future[Any]] = [request.done for request in self._requests]
            waiting += [job.done for job in self._jobs]
            self._requests, self._jobs = [], []
        if self._opened:
            waiting += [request.done for request in self._opened.scheduler.abandon()]
        for done in waiting:
            done.set_exception(_make_reportable(error))

    def _open(self, open_pipeline: Callable[[Interruptions], WritePath]) -> None:
        if self._opened is not None:
            return
        try:
            write_path = open_pipeline(Interruptions(self._yield_to_edits, self.is_awaited))
            self.busy, self._latest = True, write_path.sync
            timetable = self._make_timetable(write_path.sync, write_path.tasks, write_path.chores)
            scheduler = SourceScheduler(
                write_path.sync, self._clocks.steady_s, self._on_synced, timetable
            )
            scheduler.plan(write_path.tasks, timetable)
            self._opened = _Opened(write_path.sync, scheduler, timetable, write_path.chores)
            self.busy = scheduler.is_wanted
        except Exception as error:
            self._fail_all(error)
            raise

    def plan(self, tasks: Sequence[Task], chores: Sequence[Chore]) -> None:
        """Replace the tasks and chores. Unchanged sources keep their work. Runs only on the
        worker's thread."""
        timetable = self._make_timetable(self._at_work.sync, tasks, chores)
        self._opened = replace(self._at_work, timetable=timetable, chores=chores)
        for request in self._at_work.scheduler.plan(tasks, timetable):
            request.answer()

    def _make_timetable(
        self, sync: SourceSync, tasks: Sequence[Task], chores: Sequence[Chore]
    ) -> Timetable:
        jobs = {chore.name: chore.when for chore in chores}
        for task in tasks:
            jobs[name_scan_job(task.source.name)] = task.when
            if task.full_when:
                jobs[name_full_scan_job(task.source.name)] = task.full_when
        return Timetable(sync.connection, jobs, self._clocks, self._chores.running)

    def _run_turns(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work, self._sleep_s())
            self._check_stop()
            if self._follower:
                self._follower.start_requested_syncs(self._at_work.sync.connection, self.request)
            self.busy = True
            self._at_work.sync.connection.refuse_gone()
            answered = self._run_turn()
            self.busy = self._at_work.scheduler.is_wanted
            self.error, self._retry_s, self.waits_for_encoder = None, _RETRY_S, False
            self._answer(answered)
            if not self.busy:
                self._run_idle_work()

    def _is_asked(self) -> bool:
        return self._stopping or bool(self._requests or self._jobs)

    def _has_work(self) -> bool:
        return self._is_asked() or bool(self._change_events or self._dirty_sources)

    def _answer(self, requests: Sequence[Request]) -> None:
        """Answer the requests, unless another program has overwritten the database."""
        if not requests:
            return
        try:
            refuse_overwritten(self._at_work.sync.connection)
        except DatabaseGone as error:
            for request in requests:
                request.done.set_exception(error)
            raise
        for request in requests:
            request.answer()

    def _sleep_s(self) -> float:
        if self._at_work.scheduler.is_wanted:
            return 0.0
        upgrades_s = self._at_work.sync.upgrades.due_s - self._clocks.steady_s()
        longest_s = _HEAR_S if self._follower else _LONGEST_SLEEP_S
        if self._at_work.sync.writer.is_saving_index:
            longest_s = min(longest_s, _SAVING_S)
        if switch := self._at_work.sync.switch:
            longest_s = min(longest_s, switch.due_s - self._clocks.steady_s())
        return max(0.0, min(self._at_work.timetable.get_wait_s(), upgrades_s, longest_s))

    def _run_turn(self) -> list[Request]:
        """Run all submitted jobs and one batch of one source. Returns the finished requests."""
        with self._wake:
            requests, self._requests = self._requests, []
        for request in requests:
            self._at_work.scheduler.accept(request)
            if request.is_answered:  # If all its sources were removed, nothing is left to do.
                request.answer()
        while job := self._take_next_job():
            job.run(self._at_work.sync)
        self._take_change_events()
        return self._at_work.scheduler.turn()

    def _take_change_events(self) -> None:
        """Pass change events to the scheduler, except edited paths while a sync is underway."""
        with self._wake:
            unsure, self._dirty_sources = self._dirty_sources, set()
            change_events: dict[str, dict[str, None]] = {}
            if not self._at_work.scheduler.is_underway:
                change_events, self._change_events = self._change_events, {}
        for name in unsure:
            self._at_work.scheduler.add_change(name, None)
        for name, paths in change_events.items():
            self._at_work.scheduler.add_change(name, paths)

    def _run_idle_work(self) -> None:
        answered = self._at_work.sync.upgrades.run(lambda: not self._has_work())
        if answered is not None:
            self._at_work.timetable.note(UPGRADE, None if answered else "calls to the LLM failed")
        self._go_on_switching()
        for chore in self._at_work.chores:
            if not self._has_work() and self._at_work.timetable.is_due(chore.name):
                self._chores.run(chore, self._at_work.sync)
        with self._wake:
            if self._wake.wait_for(self._has_work, 0.0 if self._follower else _QUIET_S):
                return
        self._at_work.sync.on_idle()
        self._at_work.sync.writer.release_memory()

    def _go_on_switching(self) -> None:
        """Continue the switch to new models until there is other work, or a few seconds have
        passed."""
        sync, times, clocks = self._at_work.sync, self._at_work.timetable, self._clocks
        if sync.switch is None:
            return
        end_s = clocks.steady_s() + (_HEAR_S if self._follower else _LONGEST_SLEEP_S)
        version = sync.switch.run(
            lambda: not self._has_work() and times.get_wait_s() > 0 and clocks.steady_s() < end_s
        )
        if version:
            sync.on_switch(version)
            sync.switch = None

    def _note_run(self, job: str, error: str | None) -> None:
        self._at_work.timetable.note(job, error)

    def _take_next_job(self) -> _Job | None:
        with self._wake:
            return self._jobs.pop(0) if self._jobs else None

    @property
    def _at_work(self) -> _Opened:
        assert self._opened is not None, "_open() comes first"
        return self._opened

    def _yield_to_edits(self) -> None:
        """Raise Stopping if the worker must stop. Otherwise let small edits preempt the sync.

        Edits get at most half of the time. So a file that changes constantly cannot block other
        files.
        """
        self._check_stop()
        if not self.is_awaited():
            return
        began_s = self._clocks.steady_s()
        self._in_change_events = True
        try:
            self._serve_changes()
        finally:
            self._in_change_events = False
            self._next_changes_s = 2 * self._clocks.steady_s() - began_s

    def is_awaited(self) -> bool:
        """Whether an edit may preempt the current work, or the worker must stop."""
        must_wait = self._in_change_events or self._clocks.steady_s() < self._next_changes_s
        return self._stopping or (bool(self._change_events) and not must_wait)

    def _serve_changes(self) -> None:
        for name in [*self._change_events]:
            with self._wake:
                paths = self._change_events.pop(name)
            left: Sequence[str] = [*reversed(paths)]
            try:
                left = self._at_work.scheduler.preempt(name, left)
            finally:  # If `preempt` failed, all paths are left.
                if left:
                    with self._wake:
                        newer = self._change_events.get(name, ())
                        self._change_events[name] = _order_newest_last([*reversed(left), *newer])

    def _check_stop(self) -> None:
        if self._stopping:
            raise Stopping

    def _fail(self, error: Exception) -> None:
        opened = self._opened
        failure = as_store_error(error, opened.sync.connection) if opened else error
        self.error = str(failure) or type(failure).__name__
        self.busy = False  # set after `error`, so that no status in between reports success
        if self._follower and self._follower.is_deposed_by(error):
            self._fail_all(error)
        if not isinstance(error, DiskFailure | EncoderUnavailable):
            # Open everything again, because the served version may be wrong now.
            self._opened = None
        if isinstance(error, EncoderUnavailable):
            if not self.waits_for_encoder:
                log.warning("indexing waits for the encoder", why=self.error)
        else:
            log.error(
                "the sync failed", why=self.error, exc_info=not isinstance(failure, REPORTABLE)
            )
        self.waits_for_encoder = isinstance(error, EncoderUnavailable)
        waiting = opened.scheduler.abandon(all_again=not self.waits_for_encoder) if opened else ()
        for request in waiting:
            request.done.set_exception(_make_reportable(failure))


def _order_newest_last(paths: Sequence[str]) -> dict[str, None]:
    """Remove duplicates. Each path keeps its last position."""
    return dict.fromkeys(reversed(dict.fromkeys(reversed(paths))))


def _make_reportable(error: BaseException) -> BaseException:
    if isinstance(error, REPORTABLE):
        return error
    if isinstance(error, Stopping):
        return SyncFailed("The work was abandoned", "the daemon is stopping", "Restart the daemon")
    return SyncFailed("The request failed", str(error), "See the log of the daemon")
