"""Finds the time that a question mentions, as a filter to suggest to the user.

The filter is never applied automatically: a document's date may be unknown or differ from the time
that the question means, so the filter could hide the answer.

Minutes and journals carry their own day, in the front matter or in the file name. If such documents
are in the asked period, the filter is for this day, because a copy of a file can have any time of
change.
"""

import re
from datetime import date, datetime, timedelta

import numpy as np

from hopsyncd.config.schedule import parse_date_ms
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.text.dates import MONTH_PATTERN, MONTHS, NOT_IN_TITLE

_OLDEST_YEARS = 10  # an older year is more often the subject than a date filter
_RELATIVE = re.compile(
    # Without the French "hier", which is German for "here".
    r"(?<!\w)(?:(yesterday|gestern|ayer|(?<!until )(?<!bis )(?:today|heute|hoy))"
    r"|(this|diese[mrs]?|last|letzten?|vergangenen?|past|previous)"
    r" (week|month|year|woche|monat|jahr)"
    r"|(?:last|past|letzten) ([0-9]{1,3}) (days?|weeks?|tagen?|wochen)"
    rf"|{NOT_IN_TITLE}(since|seit|in|im|during|en) ({MONTH_PATTERN})(?: (?:del? )?([0-9]{{4}}))?"
    rf"|{NOT_IN_TITLE}(since|in|seit|en) ([12][0-9]{{3}}))(?!\w)",
    re.IGNORECASE,
)
_TODAY = ("today", "heute", "hoy")
_THIS = ("this", "diese")
_SINCE = ("since", "seit")
_OF_CHANGES = re.compile(r"\b(?:chang|edit|modif|updat|ge\u00e4ndert)", re.IGNORECASE)


def find_asked_time(question: str, now: datetime) -> str:
    """Return the date filter that a question suggests, or "" if the question suggests none.

    >>> noon = datetime(2026, 3, 18, 12)  # a Wednesday
    >>> find_asked_time("What changed last week?", noon)
    'since:2026-03-09 before:2026-03-16'
    >>> find_asked_time("Who joined since January?", noon)
    'since:2026-01-01'
    >>> find_asked_time("Who won in 1998?", noon)
    ''
    >>> find_asked_time("Who directed Four Days In November?", noon)  # a title
    ''
    >>> find_asked_time("In November, who joined?", noon)
    'since:2025-11-01 before:2025-12-01'
    """
    match = _RELATIVE.search(question)
    if match is None:
        return ""
    day, which, unit, count, units, of_month, month, month_year, word, year = match.groups()
    today = now.date()
    if day:
        is_today = day.lower() in _TODAY
        return _format_range(today) if is_today else _format_range(today - timedelta(days=1), today)
    if unit:
        return _format_unit_range(unit.lower(), today, is_last=not which.lower().startswith(_THIS))
    if count:
        is_weeks = units.lower().startswith("w")
        return _format_range(today - timedelta(days=int(count) * (7 if is_weeks else 1)))
    if month:
        number = MONTHS.get(month.lower())
        if number is None:  # matched without case, but lower() differs: \u017f
            return ""
        first = int(month_year) if month_year else today.year - (number > today.month)
        is_open = of_month.lower() in _SINCE
        if first < 1000 or not (is_open or _is_recent(first, today)):
            return ""
        start = date(first, number, 1)
        if is_open:
            return _format_range(start)
        return _format_range(start, date(first + number // 12, number % 12 + 1, 1))
    if not _is_recent(int(year), today):
        return ""
    is_open = word.lower() in _SINCE
    return _format_range(date(int(year), 1, 1), None if is_open else date(int(year) + 1, 1, 1))


def _is_recent(year: int, today: date) -> bool:
    return today.year - _OLDEST_YEARS <= year <= today.year


def _format_unit_range(unit: str, today: date, *, is_last: bool) -> str:
    """Return the filter for this week, month or year, or for the one before."""
    if unit in ("week", "woche"):
        first = today - timedelta(days=today.weekday())
        before = first - timedelta(days=7)
    elif unit in ("month", "monat"):
        first = today.replace(day=1)
        before = (first - timedelta(days=1)).replace(day=1)
    else:
        first = today.replace(month=1, day=1)
        before = first.replace(year=first.year - 1)
    return _format_range(before, first) if is_last else _format_range(first)


def _format_range(since: date, before: date | None = None) -> str:
    return f"since:{since}" + (f" before:{before}" if before else "")


def choose_date(asked_time: str, question: str, snapshot: Snapshot) -> str:
    """Return the filter `asked_time` for the documents' own days, if visible documents have a day
    of their own in this period and the question does not ask what was changed.
    """
    if not asked_time or _OF_CHANGES.search(question):
        return asked_time
    days = snapshot.index.documents.created_ms[
        np.flatnonzero(snapshot.statistics.visible.documents)
    ]
    parts = [part.partition(":") for part in asked_time.split()]
    bounds = {key: parse_date_ms(day) for key, _, day in parts}
    since, before = bounds.get("since"), bounds.get("before")
    in_period = np.ones(len(days), dtype=np.bool_)
    if since is not None:
        in_period &= days >= since
    if before is not None:
        in_period &= days < before
    if not in_period.any():
        return asked_time
    return " ".join(f"created-{key}:{day}" for key, _, day in parts)
