"""Days and times as people type them, in filters and for versions."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from hopsyncd.config.schedule import parse_date_ms
from hopsyncd.retrieve.query_parser import parse_question
from store.relative_time import parse_relative_moment

NOON = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("today", "2026-03-18T00:00"),
        ("Yesterday", "2026-03-17T00:00"),
        ("2 weeks ago", "2026-03-04T12:00"),
        ("30d", "2026-02-16T12:00"),
        ("an hour ago", "2026-03-18T11:00"),
        ("30m", "2026-03-18T11:30"),
        ("2 months ago", "2026-01-17T12:00"),
        ("last 3 days", "2026-03-15T12:00"),
        ("this week", "2026-03-16T00:00"),
        ("last month", "2026-02-01T00:00"),
        ("last year", "2025-01-01T00:00"),
        ("wednesday", "2026-03-11T00:00"),
        ("last tues", "2026-03-17T00:00"),
        ("march", "2026-03-01T00:00"),
        ("October", "2025-10-01T00:00"),
        ("14 March 2025", "2025-03-14T00:00"),
        ("March 14th, 2025", "2025-03-14T00:00"),
        ("14.3.2025", "2025-03-14T00:00"),
    ],
)
def test_a_day_is_understood_as_people_type_it(text: str, moment: str) -> None:
    assert parse_relative_moment(text, NOON) == datetime.fromisoformat(moment).replace(tzinfo=UTC)
    (wanted,) = parse_question("x", [f"since:{text}"], NOON).filter_
    assert wanted.at_ms == datetime.fromisoformat(f"{moment}+00:00").timestamp() * 1000


@pytest.mark.parametrize(
    "text",
    [
        "market",
        "decide",
        "monkey",
        "satellite",
        "soon",
        "31 feb",
        "99999 days ago",
        "",
        "1e9 d",
        "1" * 99,
    ],
)
def test_other_words_are_not_read_as_a_time(text: str) -> None:
    assert parse_relative_moment(text, NOON) is None


@pytest.fixture
def berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(("day", "offset"), [("2026-01-01", "+01:00"), ("2026-07-01", "+02:00")])
def test_a_day_begins_at_midnight_of_its_own_season(day: str, offset: str) -> None:
    (condition,) = parse_question("x", [f"created-since:{day}"]).filter_
    assert condition.at_ms == datetime.fromisoformat(f"{day}T00:00{offset}").timestamp() * 1000
    assert condition.at_ms == parse_date_ms(day)  # the day of a document


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("moment", ["2026-03-29T01:30+00:00", "2026-10-25T01:30+00:00"])
def test_hours_are_elapsed_time_across_a_clock_change(moment: str) -> None:
    now_s = datetime.fromisoformat(moment).timestamp()
    assert parse_date_ms("1h", datetime.fromtimestamp(now_s)) == (now_s - 3600) * 1000
