"""Parses times in words: `yesterday`, `3 days ago`, `last week`, `March 2026`, `14.3.2026`."""

import re
from datetime import datetime, timedelta

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_WEEKDAYS = "mon tue wed thu fri sat sun".split()
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_UNITS = {
    **dict.fromkeys(("minute", "min", "m"), timedelta(minutes=1)),
    **dict.fromkeys(("hour", "h"), timedelta(hours=1)),
    **dict.fromkeys(("day", "d"), timedelta(days=1)),
    **dict.fromkeys(("week", "w"), timedelta(days=7)),
    "month": timedelta(days=30),
    **dict.fromkeys(("year", "y"), timedelta(days=365)),
}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}
_SPAN = re.compile(
    r"(?:last |past )?(\d{1,4}|an?|one|two|three) ?"
    r"(minute|min|hour|h|day|d|week|w|month|m|year|y)s?(?: ago)?"
)
_PERIOD = re.compile(r"(this|last) (week|month|year)")
_WEEKDAY = re.compile(
    r"(?:last )?(mon|tue(?:s)?|wed(?:nes)?|thu(?:r|rs)?|fri|sat(?:ur)?|sun)(?:day)?"
)
_DAY_FIRST = re.compile(rf"(?:(\d{{1,2}})(?:st|nd|rd|th|\.)? )?{_MONTH},?(?: (\d{{4}}))?")
_MONTH_FIRST = re.compile(rf"{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?,?(?: (\d{{4}}))?")
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_LONGEST = 40


def is_time(text: str) -> bool:
    """Whether a text is a time: in ISO 8601, or in words that `parse_relative_moment` knows."""
    try:
        if parse_relative_moment(text, datetime.now()) is None:
            datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def parse_relative_moment(text: str, now: datetime) -> datetime | None:
    """Return the time that a text describes: a time before `now`, or the start of a day, week or
    month.

    A month or weekday without a year is the latest one before `now`. Returns None for any other
    text.

    >>> noon = datetime(2026, 3, 18, 12)  # a Wednesday
    >>> texts = "yesterday", "3 hours ago", "last week"
    >>> [str(parse_relative_moment(text, noon)) for text in texts]
    ['2026-03-17 00:00:00', '2026-03-18 09:00:00', '2026-03-09 00:00:00']
    >>> texts = "Monday", "14 Feb", "14.3.2025"
    >>> [str(parse_relative_moment(text, noon).date()) for text in texts]
    ['2026-03-16', '2026-02-14', '2025-03-14']
    >>> parse_relative_moment("soon", noon) is None
    True
    """
    words = " ".join(text.lower().split())
    if len(words) > _LONGEST:
        return None
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": 0, "yesterday": 1}
    if words == "now":
        return now
    try:
        if words in days:
            return today - timedelta(days=days[words])
        if match := _SPAN.fullmatch(words):
            span = _UNITS[match[2]] * int(_NUMBERS.get(match[1], match[1]))
            # A difference of local times is an hour off if clocks have changed between them.
            return datetime.fromtimestamp(now.timestamp() - span.total_seconds(), now.tzinfo)
        if match := _PERIOD.fullmatch(words):
            return _find_period_start(match[2], today, is_last=match[1] == "last")
        if match := _WEEKDAY.fullmatch(words):
            return today - timedelta(
                days=(today.weekday() - _WEEKDAYS.index(match[1][:3]) - 1) % 7 + 1
            )
        return _parse_named_day(words, today)
    except (ValueError, OverflowError):
        return None


def _find_period_start(unit: str, today: datetime, *, is_last: bool) -> datetime:
    """Return the first day of the current week, month or year. If `is_last` is true, return the
    first day of the previous week, month or year."""
    if unit == "week":
        return today - timedelta(days=today.weekday() + (7 if is_last else 0))
    first = today.replace(day=1) if unit == "month" else today.replace(month=1, day=1)
    before = first - timedelta(days=1)
    if not is_last:
        return first
    return before.replace(day=1) if unit == "month" else before.replace(month=1, day=1)


def _parse_named_day(words: str, today: datetime) -> datetime | None:
    """Parse a date that contains the name of a month, or dots. Returns None for any other text.
    Raises ValueError for invalid names or dates."""
    if match := _DOTTED.fullmatch(words):
        return today.replace(day=int(match[1]), month=int(match[2]), year=int(match[3]))
    if match := _DAY_FIRST.fullmatch(words):
        day, month, year = match.groups()
    elif match := _MONTH_FIRST.fullmatch(words):
        month, day, year = match.groups()
    else:
        return None
    number = _MONTHS.index(month[:3]) + 1
    moment = today.replace(day=int(day or 1), month=number, year=int(year or today.year))
    is_later = not year and moment > today
    return moment.replace(year=moment.year - 1) if is_later else moment
