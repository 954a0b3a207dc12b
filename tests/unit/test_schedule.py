"""When jobs run: intervals, cron expressions, sleep, wrong clocks and both changes of the clock."""

from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest

from hopsyncd.config.schedule import (
    RETRY_MS,
    Moment,
    Run,
    When,
    compute_next_ms,
    make_interval,
    parse_cron,
)
from tests.fakes.life import DAY_MS, HOUR_MS, MINUTE_MS, Machine, Ran, gaps_ms, unix_ms

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
EVERY_MS = 300_000
AT_ONCE_MS = 15_000


def run_at(text: str, *, failed: bool = False) -> Run:
    return Run(Moment(unix_ms(text), 0.0), failed)


def after(text: str, since: str) -> Moment:
    """The moment `text` when both clocks went on evenly since the other one."""
    return Moment(unix_ms(text), (unix_ms(text) - unix_ms(since)) / 1000)


def named(expression: str, zone: ZoneInfo, since: str, times: int) -> list[str]:
    """The next times of an expression, in UTC, each found from the run before."""
    found: list[str] = []
    while len(found) < times:
        due_ms = compute_next_ms(
            "job", parse_cron(expression, zone), run_at(since), after(since, since)
        )
        since = datetime.fromtimestamp(due_ms / 1000, UTC).isoformat()
        found.append(since[:16])
    return found


def test_a_job_that_never_ran_is_due_now() -> None:
    now = Moment(unix_ms("2026-05-01T12:00"), 0.0)
    assert compute_next_ms("job", parse_cron("0 3 * * *", BERLIN), None, now) == now.wall_ms
    assert compute_next_ms("job", make_interval(300), None, now) == now.wall_ms


def test_an_interval_counts_from_the_end_of_the_last_run() -> None:
    last, now = "2026-05-01T12:00", "2026-05-01T12:01"
    due_ms = compute_next_ms("job", make_interval(300), run_at(last), after(now, last))
    assert due_ms == unix_ms("2026-05-01T12:05")


def test_an_expression_holds_in_its_own_time_zone() -> None:
    assert named("0 6 * * mon-fri Europe/Berlin", NEW_YORK, "2026-05-01T12:00", 2) == [
        "2026-05-04T04:00",
        "2026-05-05T04:00",
    ]


def test_a_daily_job_runs_once_on_the_day_of_25_hours() -> None:
    assert named("30 2 * * *", BERLIN, "2026-10-24T12:00", 2) == [
        "2026-10-25T00:30",
        "2026-10-26T01:30",
    ]
    assert named("30 1 * * *", NEW_YORK, "2026-10-31T12:00", 2) == [
        "2026-11-01T05:30",
        "2026-11-02T06:30",
    ]


def test_a_daily_job_whose_hour_is_left_out_runs_an_hour_later() -> None:
    assert named("30 2 * * *", BERLIN, "2026-03-28T12:00", 2) == [
        "2026-03-29T01:30",
        "2026-03-30T00:30",
    ]
    assert named("30 2 * * *", NEW_YORK, "2026-03-07T12:00", 2) == [
        "2026-03-08T07:30",
        "2026-03-09T06:30",
    ]


@pytest.mark.parametrize("since", ["2026-03-28T20:00", "2026-10-24T20:00"])
def test_a_job_of_every_half_hour_does_not_notice_the_change_of_the_clock(since: str) -> None:
    times = [unix_ms(time) for time in named("*/30 * * * *", BERLIN, since, 20)]
    assert times == [unix_ms(since) + n * 30 * MINUTE_MS for n in range(1, 21)]


def test_jitter_is_the_same_whenever_it_is_asked_for_and_differs_between_jobs() -> None:
    last = "2026-05-01T12:00"
    due = [
        compute_next_ms(job, parse_cron("0 3 * * *", BERLIN, 60), run_at(last), after(last, last))
        for job in ("a", "b", "a")
    ]
    assert due[0] == due[2] != due[1]
    assert all(0 <= one - unix_ms("2026-05-02T01:00") <= 60_000 for one in due)


def test_the_jitter_of_an_interval_is_a_tenth_of_it_at_most() -> None:
    last = run_at("2026-05-01T12:00")
    due = [compute_next_ms(str(n), make_interval(10, 60), last, last.ended) for n in range(100)]
    assert {-1000 < one - last.ended.wall_ms - 10_500 < 1000 for one in due} == {True}


def test_a_failed_job_is_retried_soon_but_not_before_its_interval() -> None:
    failed = run_at("2026-05-01T12:00", failed=True)
    daily, often = parse_cron("0 3 * * *", BERLIN), make_interval(60)
    assert compute_next_ms("job", daily, failed, failed.ended) == failed.ended.wall_ms + RETRY_MS
    assert compute_next_ms("job", often, failed, failed.ended) == failed.ended.wall_ms + 60_000


def test_a_clock_put_back_an_hour_does_not_repeat_a_daily_job() -> None:
    daily = parse_cron("30 3 * * *", BERLIN)
    last = run_at("2026-05-01T01:30:05")
    now = Moment(unix_ms("2026-05-01T01:00"), 1800.0)  # half an hour later, and put back by one
    assert compute_next_ms("job", daily, last, now) == unix_ms("2026-05-02T01:30")


@pytest.mark.parametrize(
    "expression",
    ["", "30 3 * *", "30 3 * * 1", "60 3 * * *", "0 0 30 2 *", "0 3 * * * Europe/Atlantis"],
)
def test_an_invalid_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_cron(expression)


def month(zone: ZoneInfo) -> dict[str, When]:
    return {
        "scan a": make_interval(300, 30),
        "scan b": make_interval(3600, 30),
        "scan c": parse_cron("0 6,18 * * *", zone, 30),
        "gc": parse_cron("30 2 * * *", zone, 30),
        "full scan a": parse_cron("30 1 * * *", zone, 30),
    }


CHANGES = [
    (zone, begin)
    for zone, begins in (
        (BERLIN, ("2026-03-14T09:00", "2026-10-10T09:00")),
        (NEW_YORK, ("2026-02-21T09:00", "2026-10-17T09:00")),
    )
    for begin in begins
]


@pytest.mark.parametrize(("zone", "begin"), CHANGES)
def test_30_days_awake_run_each_job_at_each_of_its_times_once(zone: ZoneInfo, begin: str) -> None:
    machine = Machine(unix_ms(begin), month(zone), takes_ms=2000)
    machine.awake_until(machine.true_ms + 30 * DAY_MS)
    for job, most_ms in (("scan a", EVERY_MS), ("scan b", HOUR_MS)):
        gaps = gaps_ms(machine.ran[job])
        assert most_ms <= min(gaps) and max(gaps) <= most_ms + 45_000
    for job in ("gc", "full scan a"):
        days = Counter(local_day(ran.wall_ms, zone) for ran in machine.ran[job][1:])
        assert set(days.values()) == {1}
        assert len(days) == 30
    assert len(machine.ran["scan c"]) == 61


@pytest.mark.parametrize(("zone", "begin"), CHANGES)
@pytest.mark.parametrize("seed", range(3))
def test_30_days_of_sleep_restarts_and_wrong_clocks_miss_nothing_and_repeat_nothing(
    zone: ZoneInfo, begin: str, seed: int
) -> None:
    """A laptop: it sleeps, is started anew, and its clock jumps by a day and comes back."""
    random = Random(seed)
    machine = Machine(unix_ms(begin), month(zone), takes_ms=2000)
    end_ms = machine.true_ms + 30 * DAY_MS
    woken: list[int] = []
    jumps: list[int] = []
    while machine.true_ms < end_ms:
        machine.awake_until(machine.true_ms + random.randrange(HOUR_MS, 15 * HOUR_MS))
        what = random.choice(("sleep", "sleep", "restart", "jump"))
        if what == "jump":
            back = machine.wrong_ms
            machine.clock_put(-back or random.choice((-DAY_MS, DAY_MS)))
            jumps.append(machine.true_ms)
            continue
        machine.asleep_until(machine.true_ms + random.randrange(HOUR_MS, 60 * HOUR_MS))
        if what == "restart":
            machine.restarted()
        woken.append(machine.true_ms)
    assert woken and jumps
    for job, most_ms in (("scan a", EVERY_MS), ("scan b", HOUR_MS)):
        no_gap_but_sleep(machine, job, most_ms, woken)
    for moment_ms in (*woken, *jumps):
        at_once = [r for r in machine.ran["scan a"] if 0 <= r.true_ms - moment_ms < EVERY_MS]
        assert len(at_once) <= 1, "what was missed is one run"
    for job, times in (
        ("gc", {"02:30"}),
        ("full scan a", {"01:30"}),
        ("scan c", {"06:00", "18:00"}),
    ):
        assert unnamed(machine.ran[job], times, zone) <= len(jumps)
    for job in ("gc", "full scan a"):
        # A day that a wrong clock shows too early is met once more.
        assert len(machine.ran[job]) <= 31 + len(jumps)
        assert max(gaps_ms(machine.ran[job])) <= DAY_MS + 62 * HOUR_MS


def unnamed(ran: list[Ran], times: set[str], zone: ZoneInfo) -> int:
    """How many runs came without a named time since the one before, by the wall clock.

    A time that summer time leaves out counts as the hour after it.
    """
    found = 0
    for before, then in pairwise(ran):
        minutes = range(before.wall_ms // MINUTE_MS + 1, then.wall_ms // MINUTE_MS + 1)
        clock = (datetime.fromtimestamp(minute * 60, zone) for minute in minutes)
        shown = {f"{time:%H:%M}" for time in clock if not time.fold}
        left_out = {"03:30"} if "02:30" in times else set()
        found += not shown & (times | left_out)
    return found


def no_gap_but_sleep(machine: Machine, job: str, most_ms: int, woken: list[int]) -> None:
    """Between two runs is the interval, or a sleep at whose end the second came at once."""
    runs = [ran.true_ms for ran in machine.ran[job]]
    for before, then in pairwise(runs):
        waited_ms = min(then - one for one in (before, *woken) if one <= then)
        assert then - before <= most_ms + 45_000 or waited_ms <= AT_ONCE_MS


def test_a_daily_job_that_was_slept_through_runs_when_the_machine_wakes() -> None:
    machine = Machine(unix_ms("2026-05-01T20:00"), {"gc": parse_cron("30 3 * * *", BERLIN)})
    machine.awake_until(machine.true_ms + HOUR_MS)
    for _ in range(3):
        machine.asleep_until(machine.true_ms + 20 * HOUR_MS)
        woken_ms = machine.true_ms
        machine.awake_until(machine.true_ms + 4 * HOUR_MS)
        assert machine.ran["gc"][-1].true_ms == woken_ms
    assert len(machine.ran["gc"]) == 4


def local_day(wall_ms: int, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, zone).date().isoformat()


@pytest.mark.parametrize("by_ms", [-DAY_MS, -HOUR_MS, HOUR_MS, DAY_MS])
def test_after_a_jump_of_the_clock_a_source_is_scanned_as_before(by_ms: int) -> None:
    machine = Machine(unix_ms("2026-05-01T09:00"), {"scan": make_interval(300)})
    machine.awake_until(machine.true_ms + HOUR_MS)
    machine.clock_put(by_ms)
    machine.awake_until(machine.true_ms + 3 * HOUR_MS)
    gaps = gaps_ms(machine.ran["scan"])
    assert max(gaps) <= EVERY_MS
    assert sum(gap < EVERY_MS for gap in gaps) <= 1


@pytest.mark.parametrize("by_ms", [-DAY_MS, DAY_MS])
def test_a_start_with_a_clock_that_is_wrong_by_a_day_silences_no_job(by_ms: int) -> None:
    jobs = {"scan": make_interval(300), "gc": parse_cron("30 3 * * *", BERLIN)}
    machine = Machine(unix_ms("2026-05-01T09:00"), jobs)
    machine.awake_until(machine.true_ms + HOUR_MS)
    machine.restarted()
    machine.clock_put(by_ms)
    machine.restarted()
    machine.awake_until(machine.true_ms + 3 * DAY_MS)
    assert max(gaps_ms(machine.ran["scan"])) <= 2 * EVERY_MS
    assert max(gaps_ms(machine.ran["gc"])) <= DAY_MS
    assert len(machine.ran["gc"]) in (4, 5)
