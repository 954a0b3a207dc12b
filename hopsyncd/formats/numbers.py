"""Formats numbers, dates and durations as spreadsheet programs show them."""

import re
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from hopsyncd.formats import import_library

# Formats that depend on the computer's settings: such a date is written in ISO 8601.
_OF_THE_COMPUTER = re.compile(r"mm-dd-yy\Z|m/d/yy|\[\$-(?:F800|F400|x-)", re.IGNORECASE)
# A point in the format of a date, except before fractions of seconds: the library drops it.
_POINT = re.compile(r'("[^"]*"|\\.|\[[^\]]*\])|\.(?!0)')
_MAX_SHOWN_DIGITS = 11  # Excel rounds longer numbers without a format
_GENERAL = ("General", "@", "")
_MAX_FORMAT_CHARACTERS = 255  # as in Excel
_FIRST_DAY = datetime(1899, 12, 30)


@lru_cache(1 << 14, typed=True)  # otherwise True, 1 and 1.0 share one cache entry
def show_value(value: object, number_format: str) -> str:
    """Format a value with the format code `number_format`, as its spreadsheet program does.

    A long integer, such as an id, keeps all its digits, and the program's short form follows in
    parentheses. A date whose format depends on the computer's settings becomes ISO 8601.
    """
    if number_format in _GENERAL and isinstance(value, int | float) and float(value).is_integer():
        text = show_plainly(value)
        return f"{text} ({value:.6G})" if len(text) > _MAX_SHOWN_DIGITS else text
    if isinstance(value, float) and _OF_THE_COMPUTER.search(number_format):
        try:
            value = _FIRST_DAY + timedelta(days=value)
        except OverflowError:
            return show_plainly(value)
    if isinstance(value, datetime | date) and _OF_THE_COMPUTER.search(number_format):
        return show_plainly(value)
    if len(number_format) > _MAX_FORMAT_CHARACTERS:
        return show_plainly(value)
    if isinstance(value, datetime | date | time | timedelta):
        number_format = _POINT.sub(lambda found: found[1] or "\\.", number_format)
    if isinstance(value, timedelta):
        value = value / timedelta(days=1)
    try:
        text = import_library("xlfmt").format_value(value, number_format)
    except (ValueError, TypeError, ArithmeticError):
        return show_plainly(value)
    # A format may hide a value, or fill the column with a character, as Excel does for early dates.
    text = " ".join(text.split())
    return text if text.strip("#") else show_plainly(value)


def show_plainly(value: object) -> str:
    """Format a value that has no number format.

    >>> show_plainly(3.0), show_plainly(datetime(2024, 5, 7))
    ('3', '2024-05-07')
    >>> show_plainly(timedelta(hours=30, minutes=15))
    '30:15:00'
    """
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"
    if isinstance(value, bool):
        return str(value).upper()
    return "" if value is None else str(value)
