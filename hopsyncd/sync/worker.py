"""The one thread that writes: it turns hints, requests and the clock into syncs."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from hopsyncd.errors import REPORTABLE, SyncFailed
from hopsyncd.sync.sync import Outcome, Scope, Source, SourceSync
from store.errors import DiskFailure

log = structlog.get_logger(__name__)

Result = TypeVar("Result")
Between = Callable[[], None]

_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0  # doubled after each failure that is not one source's own


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
    """When a source is scanned next, by the monotonic clock; `afresh` reads everything again."""

    source: Source
    every_s: float
    next_s: float
    afresh: bool


@dataclass(frozen=True, slots=True)
class _Job:
    """Something else to do on the writer's thread; `run` resolves `done`."""

    run: Callable[[SourceSync], None]
    done: "Future[Any]"


@dataclass(frozen=True, slots=True)
class Task:
    """A source to keep in sync, scanned whole every `every_s` seconds."""

    source: Source
    every_s: float


class SyncWorker:
    """Runs syncs one after the other, on its own thread.

    `open_path` is called on that thread. It is given what SourceSync calls between two batches and
    what it calls to check for a stop, and says which tasks there are and whether every document
    must be read again.
    """

    def __init__(
        self,
        open_path: Callable[[Between, Between], tuple[SourceSync, Sequence[Task], bool]],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_path = open_path
        self._clock_s = clock_s
        self._wake = threading.Condition()
        self._hints: dict[str, set[str] | None] = {}
        self._requests: list[_Request] = []
        self._jobs: list[_Job] = []
        self._stopping = False
        self._ended = False
        self._in_hints = False
        self._retry_s = _RETRY_S
        self._path: SourceSync | None = None
        self._due: dict[str, _Due] = {}
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

    def submit(self, job: Callable[[SourceSync], Result]) -> "Future[Result]":
        """Have a job done on the writer's thread, between two syncs."""
        done: Future[Result] = _promise()

        def run(path: SourceSync) -> None:
            try:
                result = job(path)
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
        now_s = self._clock_s()
        self._due = {
            task.source.name: _Due(task.source, task.every_s, now_s, afresh) for task in tasks
        }
        self._path = path

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
            self._write_path.upgrades.run(lambda: not self._has_work())

    def _is_asked(self) -> bool:
        return self._stopping or bool(self._requests or self._jobs)

    def _has_work(self) -> bool:
        return self._is_asked() or bool(self._hints)

    def _sleep_s(self) -> float:
        soonest = min((due.next_s for due in self._due.values()), default=float("inf"))
        soonest = min(soonest, self._write_path.upgrades.due_s)
        return max(0.0, min(soonest - self._clock_s(), 3600.0))

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
                if due.next_s <= self._clock_s():
                    self._scan(due, accept_empty=False)
        except BaseException as error:
            for request in requests:
                request.done.set_exception(_reportable(error))
            raise
        return answered

    def _next_job(self) -> _Job | None:
        with self._wake:
            return self._jobs.pop(0) if self._jobs else None

    def _answer(self, request: _Request) -> tuple[Outcome, ...]:
        wanted = sorted(request.sources or self._due)
        return tuple(
            self._scan(self._due[name], accept_empty=request.accept_empty) for name in wanted
        )

    def _scan(self, due: _Due, *, accept_empty: bool) -> Outcome:
        with self._wake:
            self._hints.pop(due.source.name, None)
        outcome = self._sync(due.source, Scope(None, accept_empty, due.afresh))
        if outcome.problem is None:
            due.afresh = False
        due.next_s = self._clock_s() + due.every_s
        return outcome

    def _serve_hints(self) -> None:
        """Sync what the hints name: small edits get a turn between the batches of a scan."""
        with self._wake:
            hints, self._hints = self._hints, {}
        for name, paths in hints.items():
            due = self._due.get(name)
            if due is None:
                continue
            if paths is None or due.afresh:
                due.next_s = self._clock_s()
            else:
                self._sync(due.source, Scope(tuple(sorted(paths))))

    def _sync(self, source: Source, scope: Scope) -> Outcome:
        outcome = self._write_path.sync(source, scope)
        if outcome.changed or outcome.removed:
            log.info("synced", source=source.name, changed=outcome.changed, removed=outcome.removed)
        return outcome

    @property
    def _write_path(self) -> SourceSync:
        assert self._path is not None, "_open() comes first"
        return self._path

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
        now_s = self._clock_s()
        for due in self._due.values():
            due.next_s = now_s


def _reportable(error: BaseException) -> BaseException:
    if isinstance(error, REPORTABLE):
        return error
    if isinstance(error, Stopping):
        return SyncFailed("The sync was abandoned", "the daemon stops", "Start it again")
    return SyncFailed("The sync failed", str(error), "The daemon's log has the details")
