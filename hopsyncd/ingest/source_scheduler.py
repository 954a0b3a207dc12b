"""Decides when each job is due, and which source is synced next. Sources with work take turns, one
batch each."""

import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import structlog

from hopsyncd.config.configuration import Config
from hopsyncd.config.schedule import (
    Moment,
    Run,
    When,
    compute_next_ms,
    find_zone,
    make_interval,
    parse_cron,
)
from hopsyncd.config.source_kinds import FolderSource, SourceConfig
from hopsyncd.errors import ConfigError
from hopsyncd.ingest.connector_setup import is_slow, open_source
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.source_sync import SourceSync, SyncOutcome
from hopsyncd.ingest.source_thread import Turn
from store.contract import Connection
from store.operational import note_run, read_jobs
from store.restoring import BACKUP_JOB
from store.sources import read_listing_state, read_seen_items

GC, BACKUP = "gc", BACKUP_JOB  # the names of the jobs


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock (Unix ms) and the monotonic clock (seconds)."""

    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_s: Callable[[], float] = time.monotonic

    def read(self) -> Moment:
        return Moment(self.wall_ms(), self.steady_s())


@dataclass(frozen=True, slots=True)
class Planned:
    """A scheduled job: its name, its schedule in words (`times`), and the time of its next run
    (Unix ms)."""

    job: str
    times: str
    next_ms: int


@dataclass(frozen=True, slots=True)
class Chore:
    """A scheduled job other than a scan. The job starts while the writer's thread is idle.

    If `run` returns a future, the job continues on another thread, and ends when the future is
    done.
    """

    name: str
    when: When
    run: Callable[[SourceSync], object]


class Timetable:
    """The schedules of all jobs by name, and their last runs, which are stored in the database.

    Runs in earlier processes are known only by wall time, because the monotonic clock is different
    in each process. Jobs in `running` are never due.
    """

    def __init__(
        self,
        connection: Connection,
        jobs: Mapping[str, When],
        clocks: Clocks,
        running: Collection[str] = (),
    ) -> None:
        self._connection = connection
        self._jobs = jobs
        self._clocks = clocks
        self._running = running
        start_s = clocks.steady_s()
        self._runs = {
            name: Run(Moment(row.ran_ms, start_s), row.error is not None)
            for name, row in read_jobs(connection).items()
        }

    def __contains__(self, job: str) -> bool:
        return job in self._jobs

    def note(self, job: str, error: str | None) -> None:
        """Record that a run of the job has ended. If it failed, `error` says why. Raises
        DiskFailure."""
        now = self._clocks.read()
        self._runs[job] = Run(now, error is not None)
        note_run(self._connection, job, now.wall_ms, error)

    def is_due(self, job: str) -> bool:
        """Whether it is time to run the job. A job that is running or not scheduled is
        never due."""
        now = self._clocks.read()
        waits = job in self._jobs and job not in self._running
        return waits and self._compute_next_ms(job, now) <= now.wall_ms

    def get_wait_s(self) -> float:
        """Return the number of seconds until the next job is due. The result is negative if a job
        is overdue, and infinite if no job is scheduled."""
        now = self._clocks.read()
        waiting = [job for job in self._jobs if job not in self._running]
        soonest_ms = min((self._compute_next_ms(job, now) for job in waiting), default=float("inf"))
        return (soonest_ms - now.wall_ms) / 1000

    def list_next_runs(self) -> list[Planned]:
        """Return the next run of each job. Thread-safe."""
        now = self._clocks.read()
        return [
            Planned(job, when.text, max(self._compute_next_ms(job, now), now.wall_ms))
            for job, when in self._jobs.items()
        ]

    def _compute_next_ms(self, job: str, now: Moment) -> int:
        return compute_next_ms(job, self._jobs[job], self._runs.get(job), now)


def parse_scan_times(source: SourceConfig, config: Config) -> When:
    """Return the schedule of a source's scans. Raises ConfigError."""
    if source.scan_at:
        return _parse_cron(source.scan_at, config)
    return make_interval(source.scan_every_s or config.watch.scan_every_s, config.schedule.jitter_s)


def parse_full_scan_times(source: SourceConfig, config: Config) -> When | None:
    """Return the schedule of a source's complete listings, or None if complete listings have no
    separate schedule. Raises ConfigError."""
    if isinstance(source, FolderSource) or not config.schedule.full_scan_at:
        return None
    return _parse_cron(config.schedule.full_scan_at, config)


def parse_gc_times(config: Config) -> When | None:
    """Return the schedule of garbage collection, or None if garbage collection is not scheduled.
    Raises ConfigError."""
    return _parse_cron(config.schedule.gc_at, config) if config.schedule.gc_at else None


def parse_backup_times(config: Config) -> When | None:
    """Return the schedule of backups, or None if backups are not scheduled. Raises ConfigError."""
    wanted = config.backup.dir and not config.store.url
    return _parse_cron(config.backup.cron, config) if wanted and config.backup.at else None


def _parse_cron(expression: str, config: Config) -> When:
    zone = config.schedule.time_zone
    try:
        return parse_cron(expression, find_zone(zone) if zone else None, config.schedule.jitter_s)
    except ValueError as error:
        raise ConfigError(
            f'The schedule "{expression}" is invalid',
            str(error),
            "Correct the cron expression, or set schedule.time_zone",
        ) from error


log = structlog.get_logger(__name__)

_SMALL_PARTS = 1000  # Up to this number of changed paths are synced before all other work.
# With more paths, this number of edited documents is synced at a time before the others.
_EDITS = 8
_MAX_PARTS = 2000  # With more changed paths than this, the whole source is listed.


def name_scan_job(source: str) -> str:
    return f"scan {source}"


def name_full_scan_job(source: str) -> str:
    return f"full scan {source}"


def make_future() -> "Future[Any]":
    """Return a future that cannot be cancelled, so that work continues even if a caller no longer
    waits."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True, slots=True)
class Task:
    """A source that is kept in sync, and the schedule of its scans (`when`).

    `full_when` is the schedule of complete listings, if the usual scans list only changes. If
    `at_start` is true, the source is scanned as soon as the daemon starts, however recent its last
    scan.
    """

    source: Source
    when: When
    full_when: When | None = None
    at_start: bool = True


@dataclass(slots=True, eq=False)
class Request:
    """A request to sync sources. The request is answered when each source has been scanned and its
    changes are committed.

    `sources` contains names of sources. If it is empty, all sources are synced. `outcomes` contains
    the outcome of each source by name, or None while the outcome is pending.
    """

    sources: frozenset[str]
    accept_empty: bool
    done: "Future[tuple[SyncOutcome, ...]]" = field(default_factory=make_future)
    outcomes: dict[str, SyncOutcome | None] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        return None not in self.outcomes.values()

    def answer(self) -> None:
        self.done.set_result(tuple(outcome for outcome in self.outcomes.values() if outcome))


@dataclass(slots=True)
class _Underway:
    """A running sync, and the requests to answer at its end (`answers`).

    `is_whole` is true if the sync lists the whole source, and `is_full` if a scheduled complete
    listing is the reason. `listed_ms` is the time (Unix ms) of the previous complete listing.
    `worked_s` is the total time of the turns so far.
    """

    turns: Generator[Turn, None, SyncOutcome]
    answers: Sequence[Request] = ()
    is_whole: bool = False
    is_full: bool = False
    listed_ms: int | None = None
    worked_s: float = 0.0


@dataclass(slots=True)
class _Due:
    """A source with its running sync (`underway`), and the work to do in its next sync.

    If `asked` is true or there are `requests`, the next sync lists the whole source. Otherwise the
    next sync lists only the paths in `parts`.
    """

    source: Source
    asked: bool
    requests: list[Request] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    underway: _Underway | None = None

    @property
    def scan(self) -> str:
        return name_scan_job(self.source.name)

    @property
    def full_scan(self) -> str:
        return name_full_scan_job(self.source.name)

    def end(self) -> list[Request]:
        """Abandon the running sync, and return all requests that wait for this source."""
        waiting = self.requests
        if self.underway:
            self.underway.turns.close()
            waiting = [*self.underway.answers, *waiting]
        self.underway, self.requests = None, []
        return waiting


@dataclass(eq=False, repr=False)
class SourceScheduler:
    """Runs the syncs of all sources in turns. Call `plan` to set the sources.

    `on_synced` is called after each sync with the sync's working time in seconds.
    """

    _pipeline: SourceSync
    _clock_s: Callable[[], float]
    _on_synced: Callable[[float], None]
    _times: Timetable
    _ring: deque[_Due] = field(default_factory=deque)
    _due: dict[str, _Due] = field(default_factory=dict)

    def plan(self, tasks: Iterable[Task], times: Timetable) -> list[Request]:
        """Set the sources that are kept in sync, and the timetable.

        If a task has the same `Source` object as before, its due work is kept. Returns the requests
        that waited only for removed sources.
        """
        before, self._times = self._due, times
        self._due = {}
        for task in tasks:
            due = before.get(task.source.name)
            if due is None or due.source is not task.source:
                due = _Due(task.source, task.at_start or self._pipeline.is_behind(task.source))
            self._due[task.source.name] = due
        self._ring = deque(self._due.values())
        answered: list[Request] = []
        for name, old in before.items():
            new = self._due.get(name)
            if new is old:
                continue
            for request in old.end():
                if new:
                    new.requests.append(request)
                else:
                    del request.outcomes[name]
                    answered += [request] if request.is_answered else []
        return answered

    @property
    def is_wanted(self) -> bool:
        """Whether any source has work to do now."""
        return any(map(self._is_wanted, self._ring))

    @property
    def is_underway(self) -> bool:
        """Whether any sync is running."""
        return any(due.underway for due in self._ring)

    def accept(self, request: Request) -> None:
        """Add a request, which is answered after the next scans of its sources."""
        # A requested source may have been removed from the configuration since.
        for name in sorted(self._due.keys() & (request.sources or self._due.keys())):
            request.outcomes[name] = None
            self._due[name].requests.append(request)

    def add_change(self, name: str, paths: Collection[str] | None) -> None:
        """List the parts at these paths in the next sync of the source. None means the whole
        source."""
        due = self._due.get(name)
        if due is None:
            return
        due.parts.update(paths or ())
        if paths is None or len(due.parts) > _MAX_PARTS:
            due.asked = True

    def preempt(self, name: str, newest: Sequence[str]) -> Sequence[str]:
        """Sync the parts at these paths now, inside the running sync, if there are few changes.
        `newest` lists the newest change first.

        If there are many changes, sync only the newest edits, and leave the other changes to the
        source's next sync. Returns the edits that were left out, for the next call.
        """
        due = self._due.get(name)
        left: Sequence[str] = ()
        if due is not None:
            is_little = len(newest) <= _SMALL_PARTS
            if is_little and not self._sync_small(due, Scope(tuple(newest), small=True)).too_large:
                return ()
            left = self._sync_edits(due, newest)
        self.add_change(name, newest)
        return left

    def _sync_edits(self, due: _Due, newest: Sequence[str]) -> Sequence[str]:
        """Sync up to 8 of the newest edits, or fewer if these are too much for a small sync.

        Returns the edits that were left out, or nothing if even one edit is too much.
        """
        seen = read_seen_items(self._pipeline.connection, due.source.id, newest)
        edited = tuple(islice((path for path in newest if path in seen), _SMALL_PARTS))
        edits = _EDITS if edited else 0
        while edits:
            outcome = self._sync_small(due, Scope(edited, small=True, edits=edits))
            if not outcome.too_large:
                return outcome.postponed
            edits //= 2
        return ()

    def _sync_small(self, due: _Due, scope: Scope) -> SyncOutcome:
        began_s = self._clock_s()
        outcome = self._pipeline.sync(due.source, scope)
        self._on_synced(self._clock_s() - began_s)
        _log_outcome(outcome)
        return outcome

    def turn(self) -> list[Request]:
        """Run one batch of the next source that has work. Returns the requests that can be answered
        now."""
        for due in [*self._ring]:
            self._ring.rotate(-1)
            if self._is_wanted(due):
                due.underway = scan = due.underway or self._begin(due)
                began_s = self._clock_s()
                try:
                    next(scan.turns)
                except StopIteration as ended:
                    self._on_synced(scan.worked_s + self._clock_s() - began_s)
                    return self._end(due, scan, ended.value)
                scan.worked_s += self._clock_s() - began_s
                break
        return []

    def abandon(self, *, all_again: bool = True) -> list[Request]:
        """Abandon all running syncs, and schedule them again. Returns the unanswered requests.

        If `all_again` is true, all sources are scheduled, including those without work.
        """
        waiting: dict[Request, None] = {}
        for due in self._ring:
            due.asked = all_again or due.asked or due.underway is not None
            waiting |= dict.fromkeys(due.end())
        return [*waiting]

    def _is_wanted(self, due: _Due) -> bool:
        return bool(due.underway or due.parts) or self._wants_all(due)

    def _wants_all(self, due: _Due) -> bool:
        is_due = self._times.is_due
        return bool(due.asked or due.requests) or is_due(due.scan) or is_due(due.full_scan)

    def _begin(self, due: _Due) -> _Underway:
        parts, due.parts = due.parts, set()
        if not self._wants_all(due):
            return _Underway(self._pipeline.sync_in_turns(due.source, Scope(tuple(sorted(parts)))))
        # This may raise an error, so it comes before any work is taken.
        listed_ms = self._read_listed_ms(due)
        requests, due.requests = due.requests, []
        due.asked = False  # A new request may set `asked` again during the sync.
        accept_empty = any(request.accept_empty for request in requests)
        is_full = self._times.is_due(due.full_scan)
        turns = self._pipeline.sync_in_turns(due.source, Scope(None, accept_empty, whole=is_full))
        return _Underway(turns, requests, True, is_full, listed_ms)

    def _end(self, due: _Due, scan: _Underway, outcome: SyncOutcome) -> list[Request]:
        _log_outcome(outcome)
        if scan.is_whole:
            self._times.note(due.scan, outcome.problem)
            is_listed = scan.is_full or self._read_listed_ms(due) != scan.listed_ms
            if due.full_scan in self._times and is_listed:
                self._times.note(due.full_scan, outcome.problem)
        due.underway = None  # If an earlier line raises an error, the waiting requests receive it.
        for request in scan.answers:
            request.outcomes[outcome.source] = outcome
        return [request for request in scan.answers if request.is_answered]

    def _read_listed_ms(self, due: _Due) -> int | None:
        return read_listing_state(self._pipeline.connection, due.source.id).listed_ms


def _log_outcome(outcome: SyncOutcome) -> None:
    if outcome.changed or outcome.removed:
        log.info("synced", source=outcome.source, changed=outcome.changed, removed=outcome.removed)


def make_task(
    connection: Connection, source: SourceConfig, config: Config, same: Task | None = None
) -> Task:
    """Create the task of a source. If the source's present task `same` is given, its `Source` is
    reused, and the connector stays open."""
    ready = same.source if same else open_source(connection, source, config)
    return Task(
        ready,
        parse_scan_times(source, config),
        parse_full_scan_times(source, config),
        at_start=not is_slow(source) or read_listing_state(connection, ready.id).listed_ms is None,
    )
