"""When each job of the worker is due, and how its last run ended."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hopsyncd.config.configuration import Config
from hopsyncd.config.schedule import Moment, Run, When, at, every, next_ms, zone_of
from hopsyncd.config.source_kinds import FolderSource, SourceConfig
from hopsyncd.errors import ConfigError
from hopsyncd.ingest.source_sync import SourceSync
from store.contract import Connection
from store.operational import all_jobs, note_run

GC = "gc"  # the name of the job


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock and the steady one."""

    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_s: Callable[[], float] = time.monotonic

    def now(self) -> Moment:
        return Moment(self.wall_ms(), self.steady_s())


@dataclass(frozen=True, slots=True)
class Planned:
    """A job, its times in words, and the wall time of its next run."""

    job: str
    times: str
    next_ms: int


@dataclass(frozen=True, slots=True)
class Chore:
    """Other scheduled work, done while the writer's thread is idle."""

    name: str
    when: When
    run: Callable[[SourceSync], object]


class Timetable:
    """The jobs by name, with the store's memory of their last runs.

    Runs before this start have only a wall time, as the steady clock counts from the start.
    """

    def __init__(self, connection: Connection, jobs: Mapping[str, When], clocks: Clocks) -> None:
        self._connection = connection
        self._jobs = jobs
        self._clocks = clocks
        start_s = clocks.steady_s()
        self._runs = {
            name: Run(Moment(row.ran_ms, start_s), row.error is not None)
            for name, row in all_jobs(connection).items()
        }

    def __contains__(self, job: str) -> bool:
        return job in self._jobs

    def note(self, job: str, error: str | None) -> None:
        """Record the end of a run; `error` says why it failed. Raises DiskFailure."""
        now = self._clocks.now()
        self._runs[job] = Run(now, error is not None)
        note_run(self._connection, job, now.wall_ms, error)

    def is_due(self, job: str) -> bool:
        """Whether it is time; never for a job that has no times."""
        now = self._clocks.now()
        return job in self._jobs and self._next_ms(job, now) <= now.wall_ms

    def soonest_s(self) -> float:
        """The seconds until the next job is due."""
        now = self._clocks.now()
        soonest_ms = min((self._next_ms(job, now) for job in self._jobs), default=float("inf"))
        return (soonest_ms - now.wall_ms) / 1000

    def next_runs(self) -> list[Planned]:
        """When each job runs next. For any thread."""
        now = self._clocks.now()
        return [
            Planned(job, when.text, max(self._next_ms(job, now), now.wall_ms))
            for job, when in self._jobs.items()
        ]

    def _next_ms(self, job: str, now: Moment) -> int:
        return next_ms(job, self._jobs[job], self._runs.get(job), now)


def scan_times(source: SourceConfig, config: Config) -> When:
    """When a source is scanned. Raises ConfigError."""
    if source.scan_at:
        return _at(source.scan_at, config)
    return every(source.scan_every_s or config.watch.scan_every_s, config.schedule.jitter_s)


def full_scan_times(source: SourceConfig, config: Config) -> When | None:
    """When a source is listed completely; None if every scan does that. Raises ConfigError."""
    if isinstance(source, FolderSource) or not config.schedule.full_scan_at:
        return None
    return _at(config.schedule.full_scan_at, config)


def gc_times(config: Config) -> When | None:
    """When gc runs by itself; None if it does not. Raises ConfigError."""
    return _at(config.schedule.gc_at, config) if config.schedule.gc_at else None


def _at(expression: str, config: Config) -> When:
    zone = config.schedule.time_zone
    try:
        return at(expression, zone_of(zone) if zone else None, config.schedule.jitter_s)
    except ValueError as error:
        raise ConfigError(
            f'The times "{expression}" cannot be used',
            str(error),
            "Correct them, or set schedule.time_zone",
        ) from error
