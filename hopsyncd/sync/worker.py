"""The one thread that writes: it turns hints, requests and the clock into syncs."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from hopsyncd.errors import REPORTABLE, SyncFailed
from hopsyncd.schedule import When
from hopsyncd.sync.sync import Outcome, Scope, Source, SourceSync
from hopsyncd.sync.timetable import Clocks, Planned, Timetable
from store.errors import DiskFailure
from store.sources import listing_state

log = structlog.get_logger(__name__)

Result = TypeVar("Result")
Between = Callable[[], None]

_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0  # doubled after each failure that is not one source's own
_LONGEST_SLEEP_S = 60.0  # after which a machine that slept, or a clock that jumped, is noticed

UPGRADE = "upgrade"  # the job of asking an LLM for the questions that it owes


class Stopping(Exception):
    """Raised inside a sync to abandon it: what is committed stays, what is prepared is kept."""


def _promise() -> "Future[Any]":
    """A future that those who wait for it cannot cancel: its work goes on without them."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(slots=True)
class _Request:
    """A barrier: resolved when a scan that began after it has been applied."""

    sources: frozenset[str]
    accept_empty: bool
    done: "Future[tuple[Outcome, ...]]" = field(default_factory=_promise)


@dataclass(slots=True)
class _Due:
    """A source and what is wanted of its next scan: that it comes at once (`asked`), that
    everything is read again (`afresh`)."""

    source: Source
    asked: bool
    afresh: bool

    @property
    def scan(self) -> str:
        """The name of the job."""
        return f"scan {self.source.name}"

    @property
    def full_scan(self) -> str:
        return f"full scan {self.source.name}"


@dataclass(frozen=True, slots=True)
class _Job:
    """Something else to do on the writer's thread; `run` resolves `done`."""

    run: Callable[[SourceSync], None]
    done: "Future[Any]"


@dataclass(frozen=True, slots=True)
class Task:
    """A source to keep in sync: when it is scanned, and when it is listed whole where its scans
    need not. `at_start` scans it first of all, whenever its last scan was."""

    source: Source
    when: When
    full_when: When | None = None
    at_start: bool = True


@dataclass(frozen=True, slots=True)
class Chore:
    """Something else to do at its times, when nobody waits for the writer's thread."""

    name: str
    when: When
    run: Callable[[SourceSync], object]


class SyncWorker:
    """Runs syncs one after the other, on its own thread.

    `open_path` is called on that thread. It is given what SourceSync calls between two batches and
    what it calls to check for a stop, and says which tasks there are and whether every document
    must be read again.
    """

    def __init__(
        self,
        open_path: Callable[[Between, Between], tuple[SourceSync, Sequence[Task], bool]],
        chores: Sequence[Chore] = (),
        clocks: Clocks = Clocks(),  # noqa: B008 - it is frozen
    ) -> None:
        self._open_path = open_path
        self._chores = chores
        self._clocks = clocks
        self._wake = threading.Condition()
        self._hints: dict[str, set[str] | None] = {}
        self._requests: list[_Request] = []
        self._jobs: list[_Job] = []
        self._stopping = False
        self._ended = False
        self._in_hints = False
        self._retry_s = _RETRY_S
        self._path: SourceSync | None = None
        self._timetable: Timetable | None = None
        self._due: dict[str, _Due] = {}
        self.on_synced: Callable[[float], None] = lambda _: None  # takes the seconds of a sync
        self.error: str | None = None
        self.busy = False
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)

    def start(self) -> None:
        """Begin: first open the store, then scan every source."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Abandon the work in hand and end; False when the thread did not end in time."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def hint(self, source: str, paths: Sequence[str] | None) -> None:
        """Something under these paths may have changed; None: anything may have."""
        with self._wake:
            known = self._hints.get(source, set())
            self._hints[source] = None if paths is None or known is None else known | set(paths)
            self._wake.notify_all()

    def request(self, sources: Sequence[str], accept_empty: bool) -> "Future[tuple[Outcome, ...]]":
        """Ask for a whole scan of these sources, applied; none named: of all."""
        request = _Request(frozenset(sources), accept_empty)
        with self._wake:
            if self._ended:
                request.done.set_exception(_reportable(Stopping()))
            self._requests.append(request)
            self._wake.notify_all()
        return request.done

    def submit(
        self, job: Callable[[SourceSync], Result], counts_as: str | None = None
    ) -> "Future[Result]":
        """Have a job done on the writer's thread, between two syncs.

        Done, it `counts_as` a run of that job of the schedule.
        """
        done: Future[Result] = _promise()

        def run(path: SourceSync) -> None:
            try:
                result = job(path)
                if counts_as:
                    self._times.note(counts_as, None)
            except BaseException as error:
                done.set_exception(_reportable(error))
                if not isinstance(error, REPORTABLE):
                    raise
            else:
                done.set_result(result)

        with self._wake:
            if self._ended:
                done.set_exception(_reportable(Stopping()))
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
        return self.busy or bool(self._hints) or bool(self._requests)

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
        """Answer whoever waits with the error."""
        with self._wake:
            self._ended = ended
            waiting: list[Future[Any]] = [request.done for request in self._requests]
            waiting += [job.done for job in self._jobs]
            self._requests, self._jobs = [], []
        for done in waiting:
            done.set_exception(_reportable(error))

    def _open(self) -> None:
        if self._path is not None:
            return
        try:
            path, tasks, afresh = self._open_path(self._between, self._check_stop)
        except Exception as error:
            self._tell_all(error)
            raise
        self._path = path
        self.plan(tasks, self._chores, afresh)

    def plan(self, tasks: Sequence[Task], chores: Sequence[Chore], afresh: bool = False) -> None:
        """Do these from now on; a source that is the same as before keeps what is due of it.

        On the worker's own thread only.
        """
        before, self._due, self._chores = self._due, {}, chores
        jobs = {chore.name: chore.when for chore in chores}
        for task in tasks:
            due = before.get(task.source.name)
            if due is None or due.source is not task.source:
                due = _Due(task.source, task.at_start or afresh, afresh)
            self._due[task.source.name] = due
            jobs[due.scan] = task.when
            if task.full_when:
                jobs[due.full_scan] = task.full_when
        self._timetable = Timetable(self._write_path.connection, jobs, self._clocks)

    def _turns(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work, self._sleep_s())
            self._check_stop()
            self.busy = True
            try:
                answered = self._turn()
            finally:
                self.busy = False
            self.error, self._retry_s = None, _RETRY_S
            for request, outcomes in answered:
                request.done.set_result(outcomes)
            self._when_nobody_waits()

    def _is_asked(self) -> bool:
        return self._stopping or bool(self._requests or self._jobs)

    def _has_work(self) -> bool:
        return self._is_asked() or bool(self._hints)

    def _sleep_s(self) -> float:
        if any(due.asked for due in self._due.values()):
            return 0.0
        upgrades_s = self._write_path.upgrades.due_s - self._clocks.steady_s()
        return max(0.0, min(self._times.soonest_s(), upgrades_s, _LONGEST_SLEEP_S))

    def _turn(self) -> list[tuple[_Request, tuple[Outcome, ...]]]:
        """Do all that is due; returns the requests answered and their outcomes."""
        with self._wake:
            requests, self._requests = self._requests, []
        try:
            while job := self._next_job():
                job.run(self._write_path)
            answered = [(request, self._answer(request)) for request in requests]
            self._serve_hints()
            for due in self._due.values():
                if due.asked or self._times.is_due(due.scan) or self._times.is_due(due.full_scan):
                    self._scan(due, accept_empty=False)
        except BaseException as error:
            for request in requests:
                request.done.set_exception(_reportable(error))
            raise
        return answered

    def _when_nobody_waits(self) -> None:
        answered = self._write_path.upgrades.run(lambda: not self._has_work())
        if answered is not None:
            self._times.note(UPGRADE, None if answered else "the LLM gave no questions")
        for chore in self._chores:
            if not self._has_work() and self._times.is_due(chore.name):
                self._do(chore)

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

    def _answer(self, request: _Request) -> tuple[Outcome, ...]:
        wanted = sorted(self._due.keys() & (request.sources or self._due.keys()))
        return tuple(
            self._scan(self._due[name], accept_empty=request.accept_empty) for name in wanted
        )

    def _scan(self, due: _Due, *, accept_empty: bool) -> Outcome:
        with self._wake:
            self._hints.pop(due.source.name, None)
        due.asked = False  # it may be asked for again meanwhile
        whole = self._times.is_due(due.full_scan)
        listed_ms = self._listed_ms(due)
        outcome = self._sync(due.source, Scope(None, accept_empty, due.afresh, whole))
        if outcome.problem is None:
            due.afresh = False
        self._times.note(due.scan, outcome.problem)
        if due.full_scan in self._times and (whole or self._listed_ms(due) != listed_ms):
            self._times.note(due.full_scan, outcome.problem)
        return outcome

    def _listed_ms(self, due: _Due) -> int | None:
        return listing_state(self._write_path.connection, due.source.id).listed_ms

    def _serve_hints(self) -> None:
        """Sync what the hints name: small edits get a turn between the batches of a scan."""
        with self._wake:
            hints, self._hints = self._hints, {}
        for name, paths in hints.items():
            due = self._due.get(name)
            if due is None:
                continue
            if paths is None or due.afresh:
                due.asked = True
            else:
                self._sync(due.source, Scope(tuple(sorted(paths))))

    def _sync(self, source: Source, scope: Scope) -> Outcome:
        began_s = self._clocks.steady_s()
        outcome = self._write_path.sync(source, scope)
        self.on_synced(self._clocks.steady_s() - began_s)
        if outcome.changed or outcome.removed:
            log.info("synced", source=source.name, changed=outcome.changed, removed=outcome.removed)
        return outcome

    @property
    def _write_path(self) -> SourceSync:
        assert self._path is not None, "_open() comes first"
        return self._path

    @property
    def _times(self) -> Timetable:
        assert self._timetable is not None, "_open() comes first"
        return self._timetable

    def _between(self) -> None:
        """Runs between two batches: stop if asked to, let small edits in."""
        self._check_stop()
        if self._in_hints or not self._hints:
            return
        self._in_hints = True
        try:
            self._serve_hints()
        finally:
            self._in_hints = False

    def _check_stop(self) -> None:
        if self._stopping:
            raise Stopping

    def _fail(self, error: Exception) -> None:
        self.error = str(error) or type(error).__name__
        if not isinstance(error, DiskFailure):
            # The store and the head that is served may differ now: begin as after a start.
            self._path = None
        log.error("sync failed", why=self.error, exc_info=not isinstance(error, REPORTABLE))
        for due in self._due.values():
            due.asked = True


def _reportable(error: BaseException) -> BaseException:
    if isinstance(error, REPORTABLE):
        return error
    if isinstance(error, Stopping):
        return SyncFailed("The sync was abandoned", "the daemon stops", "Start it again")
    return SyncFailed("The sync failed", str(error), "The daemon's log has the details")
