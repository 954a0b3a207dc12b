"""The one thread that writes: it turns hints, requests and the clock into syncs and jobs."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from hopsyncd.errors import REPORTABLE, SyncFailed
from hopsyncd.ingest.follower import Follower
from hopsyncd.ingest.source_scheduler import (
    Request,
    SourceScheduler,
    Task,
    full_scan_job,
    promise,
    scan_job,
)
from hopsyncd.ingest.source_sync import SourceSync, SyncOutcome
from hopsyncd.ingest.source_thread import Stopping, YieldToEdits
from hopsyncd.ingest.timetable import Chore, Clocks, Planned, Timetable
from store.check import as_store_error, refuse_overwritten
from store.exceptions import DatabaseGone, DiskFailure

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0  # doubled after each failure that is not one source's own
_MOST_HINTED = 50_000  # paths of a source, the newest, that wait
_LONGEST_SLEEP_S = 60.0  # after which a machine that slept, or a clock that jumped, is noticed
_QUIET_S = 0.1  # until memory is given back: a question soon after an edit would want it again
_HEAR_S = 0.1  # after which the writer of a server's record looks what others ask of it
UPGRADE = "upgrade"  # the job of asking an LLM for the questions that it owes


@dataclass(frozen=True, slots=True)
class _Job:
    """Something else to do on the writer's thread; `run` resolves `done`."""

    run: Callable[[SourceSync], None]
    done: "Future[Any]"


class SyncWorker:
    """Runs syncs on its own thread, a batch of each source in turn.

    `open_path` is called on that thread, with the function to call at every slow step; it returns
    the write path and the tasks.
    """

    def __init__(
        self,
        open_path: Callable[[YieldToEdits], tuple[SourceSync, Sequence[Task]]],
        chores: Sequence[Chore] = (),
        clocks: Clocks = Clocks(),  # noqa: B008 - it is frozen
    ) -> None:
        self._open_path = open_path
        self._chores, self._clocks = chores, clocks
        self._wake = threading.Condition()
        self._hints: dict[str, dict[str, None]] = {}  # paths by source, the newest last
        self._unsure: set[str] = set()  # sources of which anything may have changed
        self._requests: list[Request] = []
        self._jobs: list[_Job] = []
        self._stopping = self._ended = self._in_hints = self.busy = False
        self._next_hints_s, self._retry_s = 0.0, _RETRY_S
        self._path: SourceSync | None = None
        self._timetable: Timetable | None = None
        self._rota: SourceScheduler | None = None
        self.on_synced: Callable[[float], None] = lambda _: None  # takes the seconds of a sync
        self.error: str | None = None
        self.follower: Follower | None = None  # where the record is on a server
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)

    def start(self) -> None:
        """Open the store, then scan every source."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Abandon the work in hand and end; False if the thread did not end in time."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        with suppress(RuntimeError):  # it was not started
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def hint(self, source: str, paths: Sequence[str] | None) -> None:
        """Something below these paths, the newest last, may have changed. None: also elsewhere."""
        if self.follower and self.follower.is_following:  # the writer has hints of its own
            return
        with self._wake:
            if paths is None:
                self._unsure.add(source)
            else:
                self._hints[source] = _newest_last([*self._hints.get(source, ()), *paths])
            if len(self._hints.get(source, ())) > _MOST_HINTED:
                self._hints[source] = _newest_last([*self._hints[source]][-_MOST_HINTED:])
                self._unsure.add(source)
            self._wake.notify_all()

    def request(
        self, sources: Sequence[str], accept_empty: bool
    ) -> "Future[tuple[SyncOutcome, ...]]":
        """Ask for a whole scan of these sources, applied; none named: of all."""
        request = Request(frozenset(sources), accept_empty)
        with self._wake:
            if self.follower is None or not self.follower.is_following:
                if self._ended:
                    request.done.set_exception(_reportable(Stopping()))
                self._requests.append(request)
                self._wake.notify_all()
                return request.done
        return self.follower.request(sources, accept_empty)

    def submit(
        self, job: Callable[[SourceSync], Result], counts_as: str | None = None
    ) -> "Future[Result]":
        """Do a job on the writer's thread, between two batches.

        Once done it `counts_as` a run of that job of the schedule.
        """
        done: Future[Result] = promise()

        def run(path: SourceSync) -> None:
            try:
                refuse_overwritten(path.connection)
                result = job(path)
                refuse_overwritten(path.connection)
                if counts_as:
                    self._times.note(counts_as, None)
            except BaseException as error:
                done.set_exception(_reportable(as_store_error(error, path.connection)))
                if not isinstance(error, REPORTABLE):
                    raise
            else:
                done.set_result(result)

        with self._wake:
            if self._ended:
                done.set_exception(_reportable(Stopping()))
            elif self.follower and self.follower.is_following:
                done.set_exception(self.follower.refusal())
            else:
                self._jobs.append(_Job(run, done))
                self._wake.notify_all()
        return done

    def planned(self) -> list[Planned]:
        """When each job runs next; nothing before the store is open."""
        path, timetable = self._path, self._timetable
        if path is None or timetable is None:
            return []
        in_s = max(0.0, path.upgrades.due_s - self._clocks.steady_s())
        upgrade_ms = self._clocks.wall_ms() + round(in_s * 1000)
        upgrade = Planned(UPGRADE, "while passages wait for an LLM's questions", upgrade_ms)
        return [*timetable.planned(), upgrade]

    @property
    def pending(self) -> bool:
        """Whether the served version may be behind what is known to have happened."""
        opens = self._path is None and not (
            self.error or (self.follower and self.follower.is_following)
        )
        return bool(self.busy or opens or self._hints or self._unsure or self._requests)

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._open()
                self._turns()
            except Stopping:
                break
            except Exception as error:  # noqa: BLE001 - the edge of the loop; logged, and in the status
                self._fail(error)
                with self._wake:
                    self._wake.wait_for(lambda: self._stopping, _RETRY_S)
                    self._wake.wait_for(self._is_asked, self._retry_s - _RETRY_S)
                self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)
        self._tell_all(Stopping(), ended=True)

    def _tell_all(self, error: BaseException, *, ended: bool = False) -> None:
        """Give the error to everyone who waits."""
        if self.follower and ended:
            self.follower.abandon(_reportable(error))
        with self._wake:
            self._ended = ended
            waiting: list[Future[Any]] = [request.done for request in self._requests]
            waiting += [job.done for job in self._jobs]
            self._requests, self._jobs = [], []
        if self._rota:
            waiting += [request.done for request in self._rota.abandon()]
        for done in waiting:
            done.set_exception(_reportable(error))

    def _open(self) -> None:
        if self._path is not None:
            return
        try:
            path, tasks = self._open_path(self._yield_to_edits)
            self.busy, self._path = True, path
            path.is_awaited = self._is_awaited
            self._rota = SourceScheduler(path, self._clocks.steady_s, self.on_synced)
            self.plan(tasks, self._chores)
            self.busy = self._syncs.is_wanted
        except Exception as error:
            self._path = None
            self._tell_all(error)
            raise

    def plan(self, tasks: Sequence[Task], chores: Sequence[Chore]) -> None:
        """Do these from now on; a source that is the same as before keeps what is due of it.

        On the worker's own thread only.
        """
        self._chores = chores
        jobs = {chore.name: chore.when for chore in chores}
        for task in tasks:
            jobs[scan_job(task.source.name)] = task.when
            if task.full_when:
                jobs[full_scan_job(task.source.name)] = task.full_when
        self._timetable = Timetable(self._write_path.connection, jobs, self._clocks)
        for request in self._syncs.plan(tasks, self._timetable):
            request.answer()

    def _turns(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work, self._sleep_s())
            self._check_stop()
            if self.follower:
                self.follower.hear(self._write_path.connection, self.request)
            self.busy = True
            self._write_path.connection.refuse_gone()
            answered = self._turn()
            self.busy = self._syncs.is_wanted
            self.error, self._retry_s = None, _RETRY_S
            self._answer(answered)
            if not self.busy:
                self._when_nobody_waits()

    def _is_asked(self) -> bool:
        return self._stopping or bool(self._requests or self._jobs)

    def _has_work(self) -> bool:
        return self._is_asked() or bool(self._hints or self._unsure)

    def _answer(self, requests: Sequence[Request]) -> None:
        """Say that the sources are in sync, if what was stored of them is still there."""
        if not requests:
            return
        try:
            refuse_overwritten(self._write_path.connection)
        except DatabaseGone as error:
            for request in requests:
                request.done.set_exception(error)
            raise
        for request in requests:
            request.answer()

    def _sleep_s(self) -> float:
        if self._syncs.is_wanted:
            return 0.0
        upgrades_s = self._write_path.upgrades.due_s - self._clocks.steady_s()
        longest_s = _HEAR_S if self.follower else _LONGEST_SLEEP_S
        return max(0.0, min(self._times.soonest_s(), upgrades_s, longest_s))

    def _turn(self) -> list[Request]:
        """Do all jobs and one batch of one source; returns the requests that are answered."""
        with self._wake:
            requests, self._requests = self._requests, []
        for request in requests:
            self._syncs.accept(request)
            if request.is_answered:  # none of its sources is there any more
                request.answer()
        while job := self._next_job():
            job.run(self._write_path)
        self._take_hints()
        return self._syncs.turn()

    def _take_hints(self) -> None:
        """Give the hints their turn; while a sync is under way, paths preempt it instead."""
        with self._wake:
            unsure, self._unsure = self._unsure, set()
            hints: dict[str, dict[str, None]] = {}
            if not self._syncs.is_underway:
                hints, self._hints = self._hints, {}
        for name in unsure:
            self._syncs.hint(name, None)
        for name, paths in hints.items():
            self._syncs.hint(name, paths)

    def _when_nobody_waits(self) -> None:
        answered = self._write_path.upgrades.run(lambda: not self._has_work())
        if answered is not None:
            self._times.note(UPGRADE, None if answered else "the LLM gave no questions")
        for chore in self._chores:
            if not self._has_work() and self._times.is_due(chore.name):
                self._do(chore)
        with self._wake:
            if self._wake.wait_for(self._has_work, 0.0 if self.follower else _QUIET_S):
                return
        self._write_path.writer.release_memory()

    def _do(self, chore: Chore) -> None:
        try:
            chore.run(self._write_path)
        except Stopping:
            raise
        except Exception as error:
            self._times.note(chore.name, str(error) or type(error).__name__)
            if not isinstance(error, REPORTABLE):
                raise
            log.error("job failed", job=chore.name, why=str(error))
        else:
            self._times.note(chore.name, None)

    def _next_job(self) -> _Job | None:
        with self._wake:
            return self._jobs.pop(0) if self._jobs else None

    @property
    def _write_path(self) -> SourceSync:
        assert self._path is not None, "_open() comes first"
        return self._path

    @property
    def _syncs(self) -> SourceScheduler:
        assert self._rota is not None, "_open() comes first"
        return self._rota

    @property
    def _times(self) -> Timetable:
        assert self._timetable is not None, "_open() comes first"
        return self._timetable

    def _yield_to_edits(self) -> None:
        """At every slow step of a sync: stop if asked to, else let small edits preempt it.

        Edits get at most half of the time: a file that never rests must not hold up the others.
        """
        self._check_stop()
        if not self._is_awaited():
            return
        began_s = self._clocks.steady_s()
        self._in_hints = True
        try:
            self._serve_hints()
        finally:
            self._in_hints = False
            self._next_hints_s = 2 * self._clocks.steady_s() - began_s

    def _is_awaited(self) -> bool:
        """Whether edits may preempt what runs, or all is to stop."""
        rests = self._in_hints or self._clocks.steady_s() < self._next_hints_s
        return self._stopping or (bool(self._hints) and not rests)

    def _serve_hints(self) -> None:
        for name in [*self._hints]:
            with self._wake:
                paths = self._hints.pop(name)
            left = self._syncs.preempt(name, [*reversed(paths)])
            if left:
                with self._wake:
                    newer = self._hints.get(name, ())
                    self._hints[name] = _newest_last([*reversed(left), *newer])

    def _check_stop(self) -> None:
        if self._stopping:
            raise Stopping

    def _fail(self, error: Exception) -> None:
        told = as_store_error(error, self._path.connection) if self._path else error
        self.error = str(told) or type(told).__name__
        self.busy = False  # after the error: nobody is told that all is well in between
        if self.follower and self.follower.is_deposed_by(error):
            self._tell_all(error)
        if not isinstance(error, DiskFailure):
            self._path = None  # begin as after a start: the served head may be another now
        log.error("sync failed", why=self.error, exc_info=not isinstance(told, REPORTABLE))
        for request in self._rota.abandon() if self._rota else ():
            request.done.set_exception(_reportable(told))


def _newest_last(paths: Sequence[str]) -> dict[str, None]:
    """Each path once, where it comes last."""
    return dict.fromkeys(reversed(dict.fromkeys(reversed(paths))))


def _reportable(error: BaseException) -> BaseException:
    if isinstance(error, REPORTABLE):
        return error
    if isinstance(error, Stopping):
        return SyncFailed("The sync was abandoned", "the daemon stops", "Start it again")
    return SyncFailed("The sync failed", str(error), "The daemon's log has the details")
