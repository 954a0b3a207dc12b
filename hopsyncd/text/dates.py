"""Finds dates in text in any notation. "7 May 2025" and "2025-05-07" have the same index term.

The order of a numeric date may be ambiguous: 07.05.2025 can be in May or in July. Such a date gets
one term for each order. A date with a day above 12 proves the order of its numbers, and gets an
additional term for that order. The order of ambiguous dates is decided at query time, from all
passages of the document.

All terms contain a space, so they never equal a word.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

Order = Literal["day first", "month first"]

ORDERS: tuple[Order, Order] = ("day first", "month first")
DAY_FIRST_LANGUAGE = "language day first"
DAY_IN_NAME = "day in name"  # the property of a document whose file name contains a day

_NAMES = (
    "january jan januar janvier janv enero ene",
    "february feb februar février fevrier févr fevr febrero",
    "march mar märz maerz mrz mars marzo",
    "april apr avril avr abril abr",
    "may mai mayo",
    "june jun juni juin junio",
    "july jul juli juillet juil julio",
    "august aug août aout agosto ago",
    "september sep sept septembre septiembre",
    "october oct oktober okt octobre octubre",
    "november nov novembre noviembre",
    "december dec dezember dez décembre decembre déc diciembre dic",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
MONTH_PATTERN = "|".join(sorted(MONTHS, key=lambda name: (-len(name), name)))
# Goes before a preposition: one with a capital, as in the title "Four Days In November", must begin
# a sentence.
NOT_IN_TITLE = r"(?-i:\A|(?<=[.!?] )|(?![A-Z][a-z]))"
WRITTEN_DATE = re.compile(
    # The spaces are bounded, so that no part of a long text costs more than another.
    rf"(?<![\w.])([0-9]{{1,2}})(?:st|nd|rd|th|er|\.)?\s{{1,3}}(?:of\s|de\s)?({MONTH_PATTERN})\.?,?"
    r"\s{1,3}(?:del?\s)?([0-9]{4})(?!\w)"
    rf"|(?<!\w)({MONTH_PATTERN})\.?\s{{1,3}}([0-9]{{1,2}})(?:st|nd|rd|th)?,?\s{{1,3}}"
    r"([0-9]{4})(?!\w)",
    re.IGNORECASE,
)
_YEAR_FIRST = re.compile(
    r"(?<![0-9.])(?<![0-9][/-])([0-9]{4})([-/._])([0-9]{1,2})\2([0-9]{1,2})(?![0-9]|[-/._][0-9])"
)
_YEAR_LAST = re.compile(r"(?<![\w./-])([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})(?!\w|[./-][0-9])")
_COMPACT = re.compile(r"(?<![0-9])([12][0-9]{3})([01][0-9])([0-3][0-9])(?![0-9])")
_YEAR = re.compile(r"[12][0-9]{3}")
_WORD = re.compile(r"[^\W\d_]+")
_DAY_FIRST_WORDS = frozenset(
    word
    for words in (
        "der das und ist nicht ein eine mit von zu auf im den dem",
        "wird für le les des et est une du dans que pour sur el",
        "los las una del por con para se il che della non het een",
        "van wer war am sind wann wie wo bei aus nach vom quand qui",
        "cuándo quién qué",
    )
    for word in words.split()
)
_ENGLISH_WORDS = frozenset(
    "the and is of to in not a with that for on are was this be by it from at".split()
)


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date in a text.

    `day` is in ISO format. If the order of the numbers is ambiguous, `order` is the order that
    gives this day. If only one order is possible, `proves` is that order.
    """

    day: str
    order: Order | None = None
    proves: Order | None = None


def find_dates(text: str) -> Iterator[FoundDate]:
    """Yield the dates in the text, as ISO days.

    >>> [date.day for date in find_dates("7 May 2025, May 7th, 2025, 7. Mai 2025 and 2025-05-07")]
    ['2025-05-07', '2025-05-07', '2025-05-07', '2025-05-07']
    >>> [(date.day, date.order) for date in find_dates("07.05.2025")]
    [('2025-05-07', 'day first'), ('2025-07-05', 'month first')]
    >>> [(date.day, date.proves) for date in find_dates("31/05/2025")]
    [('2025-05-31', 'day first')]
    """
    if not _YEAR.search(text):
        return
    text = unicodedata.normalize("NFC", text)
    for match in WRITTEN_DATE.finditer(text):
        first_day, first_month, first_year, month, day, year = match.groups()
        name = (first_month or month).lower()
        yield from _list_days(first_year or year, MONTHS.get(name, 0), first_day or day)
    for match in _YEAR_FIRST.finditer(text):
        yield from _list_days(match[1], int(match[3]), match[4])
    for match in _YEAR_LAST.finditer(text):
        yield from _read_year_last(int(match[1]), int(match[3]), match[4])


def find_date_text(text: str) -> str:
    """Return the first date in the text as written, or "" if the text has no date.

    >>> find_date_text("Notes of 7 May 2025"), find_date_text("2026-02-24 Night shift")
    ('7 May 2025', '2026-02-24')
    """
    matches = [pattern.search(text) for pattern in (WRITTEN_DATE, _YEAR_FIRST, _YEAR_LAST)]
    first = min(filter(None, matches), key=lambda match: match.start(), default=None)
    return first[0] if first else ""


def _read_year_last(first: int, second: int, year: str) -> Iterator[FoundDate]:
    by_order: dict[Order, list[FoundDate]] = {
        "day first": [*_list_days(year, second, first)],
        "month first": [*_list_days(year, first, second)],
    }
    orders = [order for order, days in by_order.items() if days]
    if first == second:
        yield from by_order["day first"]
    elif len(orders) == 1:
        yield FoundDate(by_order[orders[0]][0].day, proves=orders[0])
    else:
        for order in orders:
            yield FoundDate(by_order[order][0].day, order)


def _list_days(year: str, month: int, day: str | int) -> Iterator[FoundDate]:
    try:
        yield FoundDate(date(int(year), month, int(day)).isoformat())
    except ValueError:
        return


def is_day_first_language(text: str) -> bool:
    """Return whether the text is in a language in which the day comes first.

    Returns False for English, which uses both orders.

    >>> is_day_first_language("Das Treffen ist am 07.05.2025"), is_day_first_language("We met")
    (True, False)
    """
    words = [word.lower() for word in _WORD.findall(text)]
    day_first = sum(word in _DAY_FIRST_WORDS for word in words)
    return day_first > sum(word in _ENGLISH_WORDS for word in words)


def make_day_term(day: str, order: Order | None = None) -> str:
    """Return the index term of a day. With `order`, return the term of an ambiguous
    numeric date."""
    return f"day {day} {order}" if order else f"day {day}"


def make_order_term(order: Order) -> str:
    """Return the index term of a date that proves an order."""
    return f"order {order}"


def count_date_terms(text: str) -> Counter[str]:
    """Count the index terms of the dates in the text, of the orders that they prove, and of a
    language in which the day comes first.

    >>> count_date_terms("07.05.2025 and 31.05.2025")["order day first"]
    1
    """
    terms: Counter[str] = Counter()
    for written in find_dates(text):
        terms[make_day_term(written.day, written.order)] += 1
        if written.proves:
            terms[make_order_term(written.proves)] += 1
    if is_day_first_language(text):
        terms[DAY_FIRST_LANGUAGE] = 1
    return terms


def find_asked_day(text: str, question: str) -> str | None:
    """Return the day that `text`, a part of the question, names. Returns None if `text` is not a
    date, or is an ambiguous date whose order the question does not show.

    >>> find_asked_day("07.05.2025", "Wer war am 07.05.2025 da?")
    '2025-05-07'
    >>> find_asked_day("07.05.2025", "Who came on 07.05.2025?") is None
    True
    """
    dates = [*find_dates(text)]
    if not dates:
        return None
    certain = {date.day for date in dates if date.order is None}
    if certain:
        return min(certain)
    days = {date.proves for date in find_dates(question)} - {None}
    order = next(iter(days)) if len(days) == 1 else None
    if order is None and not days and is_day_first_language(question):
        order = "day first"
    return next((date.day for date in dates if date.order == order), None)


def find_days_in_name(path: str) -> tuple[str, ...]:
    """Return the days of the unambiguous dates in a file name, in ISO format.

    >>> find_days_in_name("journal/2025_05_07.md"), find_days_in_name("minutes-20250507.txt")
    (('2025-05-07',), ('2025-05-07',))
    """
    name = path.rpartition("/")[2].replace("_", "-")
    days = [date.day for date in find_dates(name.replace("-", " ")) if date.order is None]
    days += [date.day for date in find_dates(name) if date.order is None]
    for match in _COMPACT.finditer(name):
        days += [date.day for date in _list_days(match[1], int(match[2]), match[3])]
    return tuple(dict.fromkeys(days))
