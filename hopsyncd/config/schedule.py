"""Computes when jobs run, from the schedule, the last run and two clocks.

The wall clock shows the time of day and may jump. The monotonic clock never jumps, but may stop
while the machine sleeps. APScheduler's triggers compute the times of a schedule. Its scheduler is
not used: the thread that does the work also checks the clock. So a job never overlaps with itself.
If runs are missed while the machine sleeps or is busy, the job runs once.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32
from zoneinfo import ZoneInfo

from store.relative_time import parse_relative_moment

RETRY_MS = 15 * 60_000  # a failed run is repeated after this time, or at the next scheduled time
_CORRECTION_MS = 3 * 3_600_000


@dataclass(frozen=True, slots=True)
class Moment:
    """A time on both clocks: Unix time, and the monotonic clock, whose zero is arbitrary."""

    wall_ms: int
    steady_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a run, and whether the run failed."""

    ended: Moment
    failed: bool = False


@dataclass(frozen=True, slots=True)
class When:
    """The schedule of a job. `text` describes it to people.

    With `names_hours`, the schedule names hours of the day, so the job runs only once in the hour
    that repeats when summer time ends. Each run is delayed by up to `jitter_s`.
    """

    text: str
    trigger: Any
    names_hours: bool
    jitter_s: float


def make_interval(seconds: float, jitter_s: float = 0.0) -> When:
    """Schedule each run `seconds` after the previous run, with a jitter of at most a tenth."""
    from apscheduler.triggers.interval import IntervalTrigger

    trigger = IntervalTrigger(seconds=seconds, timezone=UTC)
    return When(f"every {_format_duration(seconds)}", trigger, False, min(jitter_s, seconds / 10))


def _format_duration(seconds: float) -> str:
    """Format a number of seconds in the largest unit that divides it.

    >>> _format_duration(90), _format_duration(300), _format_duration(21_600)
    ('90 s', '5 min', '6 h')
    """
    units = {"h": 3600, "min": 60}
    unit, size = next((pair for pair in units.items() if seconds % pair[1] == 0), ("s", 1))
    return f"{seconds / size:g} {unit}"


def parse_cron(expression: str, zone: ZoneInfo | None = None, jitter_s: float = 0.0) -> When:
    """Parse a cron expression, which may name its time zone as a sixth part.

    Without a time zone in the expression, `zone` applies. None means the machine's time zone.
    Raises ValueError.
    """
    from apscheduler.triggers.cron import CronTrigger

    fields = expression.split()
    if len(fields) == 6:
        zone = find_zone(fields.pop())
    if len(fields) != 5:
        raise ValueError("a cron expression must have five parts")
    if not " ".join(fields).isascii():
        raise ValueError("the cron expression contains an invalid character")
    if re.search(r"\d", fields[4]):
        raise ValueError("days of the week must be names, mon to sun")
    try:
        trigger = CronTrigger.from_crontab(" ".join(fields), zone)
    except KeyError as error:
        raise ValueError(
            "this machine's time zone is unknown: add a time zone to the end of the expression,"
            " such as Europe/Berlin"
        ) from error
    when = When(f"at {' '.join(fields)} ({trigger.timezone})", trigger, fields[1] != "*", jitter_s)
    if trigger.get_next_fire_time(None, datetime.now(UTC)) is None:
        raise ValueError("the cron expression names a day that never comes")
    return when


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name, such as Europe/Berlin. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r}") from error


def compute_next_ms(job: str, schedule: When, last: Run | None, now: Moment) -> int:
    """Return the wall time at which the job is due. If the job is due now, the time is not in the
    future.

    A job that never ran is due now. The time since the last run is measured with the wall clock. If
    the monotonic clock shows a longer time, because the wall clock was set back, that time is used,
    so that the job does not wait too long. As with cron, setting the clock back by at most three
    hours does not repeat the hours that a schedule names.
    """
    if last is None:
        return now.wall_ms
    wall_ms = last.ended.wall_ms
    steady_ms = round((now.steady_s - last.ended.steady_s) * 1000)
    since_ms = min(wall_ms, now.wall_ms - steady_ms)
    repeated = schedule.names_hours and wall_ms - since_ms <= _CORRECTION_MS
    due_ms = _compute_next_scheduled_ms(job, schedule, wall_ms if repeated else since_ms)
    return min(due_ms, since_ms + RETRY_MS) if last.failed else due_ms


def _compute_next_scheduled_ms(job: str, schedule: When, since_ms: int) -> int:
    """Return the first scheduled time after `since_ms`, plus its jitter.

    The jitter is derived from the job and the time, so it is always the same.
    """
    named = _find_first_after(schedule, since_ms)
    while schedule.names_hours and named.fold:
        named = _find_first_after(schedule, _to_unix_ms(named))
    named_ms = _to_unix_ms(named)
    share = crc32(f"{job} {named_ms}".encode()) / 2**32
    return named_ms + round(share * schedule.jitter_s * 1000)


def _find_first_after(schedule: When, since_ms: int) -> datetime:
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    # A microsecond later, because in a repeated hour the trigger would return `since` again.
    named: datetime = schedule.trigger.get_next_fire_time(since, since + timedelta(microseconds=1))
    return named


def _to_unix_ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?\Z")


def parse_date_ms(text: str, now: datetime | None = None) -> int | None:
    """Convert a date to Unix milliseconds.

    A year or a month stands for its beginning, and `30d` for 30 days before `now`.

    >>> parse_date_ms("1970-01-01T00:01:00+00:00"), parse_date_ms("soon")
    (60000, None)
    """
    text, zone = text.strip(), now.tzinfo if now else None
    try:
        if match := _DAY.match(text):
            year, month, day = (int(part or 1) for part in match.groups())
            moment = datetime(year, month, day, tzinfo=zone)
        elif now and (named := parse_relative_moment(text, now)):
            moment = named
        else:
            moment = datetime.fromisoformat(text.replace("/", "-"))
            moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
