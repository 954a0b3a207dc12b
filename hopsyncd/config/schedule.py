"""When jobs run: decided from a schedule, the last run and two clocks, and from nothing else.

The wall clock is the one that people live by; it may jump. The steady clock never jumps, and may
stand still while the machine sleeps. APScheduler's triggers say which times a schedule names.
Its scheduler is not used: the thread that does the work also looks at the clock, so no job can
overlap with itself, and what was due while the machine slept or was busy is one run.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32
from zoneinfo import ZoneInfo

RETRY_MS = 15 * 60_000  # after a failed run, unless the next one comes sooner
_CORRECTION_MS = 3 * 3_600_000


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant by both clocks: Unix time, and the steady clock, which starts anywhere."""

    wall_ms: int
    steady_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """When a run ended, and whether it failed."""

    ended: Moment
    failed: bool = False


@dataclass(frozen=True, slots=True)
class When:
    """The times at which a job runs. `text` is for people.

    `names_hours`: it means the hours of a clock on the wall, so an hour that comes twice when
    summer time ends counts once. Each run is put off by up to `jitter_s`.
    """

    text: str
    trigger: Any
    names_hours: bool
    jitter_s: float


def every(seconds: float, jitter_s: float = 0.0) -> When:
    """So many seconds after each run. The jitter is at most a tenth of that."""
    from apscheduler.triggers.interval import IntervalTrigger

    trigger = IntervalTrigger(seconds=seconds, timezone=UTC)
    return When(f"every {_duration(seconds)}", trigger, False, min(jitter_s, seconds / 10))


def _duration(seconds: float) -> str:
    """
    >>> _duration(90), _duration(300), _duration(21_600)
    ('90 s', '5 min', '6 h')
    """
    units = {"h": 3600, "min": 60}
    unit, size = next((one for one in units.items() if seconds % one[1] == 0), ("s", 1))
    return f"{seconds / size:g} {unit}"


def at(expression: str, zone: ZoneInfo | None = None, jitter_s: float = 0.0) -> When:
    """The times of a cron expression, which may name its time zone as a sixth part.

    `zone` holds for one that does not; None is the machine's. Raises ValueError.
    """
    from apscheduler.triggers.cron import CronTrigger

    fields = expression.split()
    if len(fields) == 6:
        zone = zone_of(fields.pop())
    if len(fields) != 5:
        raise ValueError("it should have five parts")
    if not " ".join(fields).isascii():
        raise ValueError("it has other characters than those of a cron expression")
    if re.search(r"\d", fields[4]):
        raise ValueError("days of the week are written as names, mon to sun")
    try:
        trigger = CronTrigger.from_crontab(" ".join(fields), zone)
    except KeyError as error:
        raise ValueError("the time zone of this machine is unknown: name one") from error
    when = When(f"at {' '.join(fields)} ({trigger.timezone})", trigger, fields[1] != "*", jitter_s)
    if trigger.get_next_fire_time(None, datetime.now(UTC)) is None:
        raise ValueError("it names a day that never comes")
    return when


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its IANA name, such as Europe/Berlin. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r}") from error


def next_ms(job: str, when: When, last: Run | None, now: Moment) -> int:
    """The wall time at which the job is due: now or earlier when it is.

    One that never ran is due now. The last run was when the wall clock says, unless the steady
    clock knows it to be longer ago, as after a wall clock was put back: so none of its jumps keeps
    a job waiting. But as cron does, a clock put back by three hours at most does not repeat the
    hours that a schedule names.
    """
    if last is None:
        return now.wall_ms
    wall_ms = last.ended.wall_ms
    steady_ms = round((now.steady_s - last.ended.steady_s) * 1000)
    since_ms = min(wall_ms, now.wall_ms - steady_ms)
    repeated = when.names_hours and wall_ms - since_ms <= _CORRECTION_MS
    due_ms = _named_ms(job, when, wall_ms if repeated else since_ms)
    return min(due_ms, since_ms + RETRY_MS) if last.failed else due_ms


def _named_ms(job: str, when: When, since_ms: int) -> int:
    """The first time after `since_ms` that the schedule names, and its jitter.

    The jitter follows from the job and the time, so that it is the same whenever it is asked for.
    """
    named = _first_after(when, since_ms)
    while when.names_hours and named.fold:
        named = _first_after(when, _unix_ms(named))
    named_ms = _unix_ms(named)
    share = crc32(f"{job} {named_ms}".encode()) / 2**32
    return named_ms + round(share * when.jitter_s * 1000)


def _first_after(when: When, since_ms: int) -> datetime:
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    # A microsecond on: in an hour that comes twice the trigger would name `since` itself again.
    named: datetime = when.trigger.get_next_fire_time(since, since + timedelta(microseconds=1))
    return named


def _unix_ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
