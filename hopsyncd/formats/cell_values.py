"""Classifies the text of table cells as numbers or years."""

import re

_NUMBER = re.compile(r"[-+\u2212\u2013(<>~$€£¥]*\s?\d[\d\s.,:/%-]*(?:[eE][+-]?\d+)?\s?[%)€$£]*\Z")
_YEAR = re.compile(r"(?:FY\s?)?(?:1[5-9]|20|21)\d\d(?:[/\u2013-]\d\d(?:\d\d)?)?\Z")


def is_number(text: str) -> bool:
    """Whether a cell contains a number, an amount, a percentage or a date."""
    return _NUMBER.match(text) is not None


def is_year(text: str) -> bool:
    """Whether a cell contains a year, which is also a possible column header."""
    return _YEAR.match(text) is not None
