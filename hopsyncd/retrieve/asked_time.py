"""Finds the time that a question mentions, as a filter to suggest to the user.

The filter is never applied automatically: a document's date may be unknown or differ from the time
that the question means, so the filter could hide the answer.
"""

import re
from datetime import date, datetime, timedelta

from hopsyncd.text.dates import MONTH_PATTERN, MONTHS

_OLDEST_YEARS = 10  # an older year is more often the subject than a date filter
_RELATIVE = re.compile(
    # Without the French "hier", which is German for "here".
    r"(?<!\w)(?:(yesterday|gestern|ayer)"
    r"|(last|letzten?|vergangenen?|past|previous) (week|month|year|woche|monat|jahr)"
    r"|(?:last|past|letzten) ([0-9]{1,3}) (days?|weeks?|tagen?|wochen)"
    rf"|(?:since|seit) ({MONTH_PATTERN})(?: ([0-9]{{4}}))?"
    r"|(since|in|seit|en) ([12][0-9]{3}))(?!\w)",
    re.IGNORECASE,
)


def find_asked_time(question: str, now: datetime) -> str:
    """Return the date filter that a question suggests, or "" if the question suggests none.

    >>> noon = datetime(2026, 3, 18, 12)  # a Wednesday
    >>> find_asked_time("What changed last week?", noon)
    'since:2026-03-09 before:2026-03-16'
    >>> find_asked_time("Who joined since January?", noon)
    'since:2026-01-01'
    >>> find_asked_time("Who won in 1998?", noon)
    ''
    """
    match = _RELATIVE.search(question)
    if match is None:
        return ""
    day, _, unit, count, units, month, month_year, word, year = match.groups()
    today = now.date()
    if day:
        return _format_range(today - timedelta(days=1), today)
    if unit:
        return _format_last(unit.lower(), today)
    if count:
        is_weeks = units.lower().startswith("w")
        return _format_range(today - timedelta(days=int(count) * (7 if is_weeks else 1)))
    if month:
        number = MONTHS.get(month.lower())
        if number is None:  # matched without case, but lower() differs: \u017f
            return ""
        first = int(month_year) if month_year else today.year - (number > today.month)
        return _format_range(date(first, number, 1)) if first >= 1000 else ""
    if not today.year - _OLDEST_YEARS <= int(year) <= today.year:
        return ""
    is_within = word.lower() in ("in", "en")
    return _format_range(date(int(year), 1, 1), date(int(year) + 1, 1, 1) if is_within else None)


def _format_last(unit: str, today: date) -> str:
    if unit in ("week", "woche"):
        monday = today - timedelta(days=today.weekday())
        return _format_range(monday - timedelta(days=7), monday)
    if unit in ("month", "monat"):
        first = today.replace(day=1)
        return _format_range((first - timedelta(days=1)).replace(day=1), first)
    first = today.replace(month=1, day=1)
    return _format_range(first.replace(year=first.year - 1), first)


def _format_range(since: date, before: date | None = None) -> str:
    return f"since:{since}" + (f" before:{before}" if before else "")
