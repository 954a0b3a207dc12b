"""Counts documents by the month or year of their last change, for a bar chart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from hopsyncd.web.links import Links

_WIDTH, _HEIGHT, _LEAST = 200, 40, 3
_MOST_MONTHS = 36
_MOST_BARS = 60
_DATE_KEYS = ("since", "before")


@dataclass(frozen=True, slots=True)
class Bar:
    """The number of documents of a month or year, and the search for only these documents."""

    label: str
    documents: int
    x: float
    width: float
    height: float
    href: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """The bars in order of time, with the labels of the first and last bar."""

    bars: Sequence[Bar]
    first: str
    last: str
    is_narrowed: bool
    all_href: str
    width: int = _WIDTH


def make_histogram(
    months: Sequence[Mapping[str, Any]], links: Links, filters: Sequence[str]
) -> Histogram:
    """Make a bar for each month. If the dates span more than 36 months, make a bar for each of the
    last 60 years."""
    counts = {str(month["month"]): int(month["documents"]) for month in months}
    is_narrowed = any(filter_.partition(":")[0] in _DATE_KEYS for filter_ in filters)
    periods = list[tuple[str, int]]()
    if counts:
        first, last = min(counts), max(counts)
        if _number_month(last) - _number_month(first) < _MOST_MONTHS:
            periods = _fill(first, last, counts)
        else:
            years = dict[str, int]()
            for month, documents in counts.items():
                years[month[:4]] = years.get(month[:4], 0) + documents
            span = range(int(min(years)), int(max(years)) + 1)
            periods = [(f"{year:04}", years.get(f"{year:04}", 0)) for year in span][-_MOST_BARS:]
    return Histogram(
        _make_bars(
            periods, lambda since, before: links.replace_filters(_DATE_KEYS, [since, before])
        ),
        _format_label(periods[0][0]) if periods else "",
        _format_label(periods[-1][0]) if periods else "",
        is_narrowed,
        links.replace_filters(_DATE_KEYS, []),
    )


def _number_month(month: str) -> int:
    """Number the months, so that they can be counted and compared.

    >>> _number_month("2026-03") - _number_month("2025-12")
    3
    """
    year, _, number = month.partition("-")
    return int(year) * 12 + int(number) - 1


def _fill(first: str, last: str, counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """List all months from the first to the last, including months without documents.

    >>> _fill("2025-12", "2026-02", {"2025-12": 3, "2026-02": 1})
    [('2025-12', 3), ('2026-01', 0), ('2026-02', 1)]
    """
    months = [
        f"{month // 12:04}-{month % 12 + 1:02}"
        for month in range(_number_month(first), _number_month(last) + 1)
    ]
    return [(month, counts.get(month, 0)) for month in months]


def _make_bars(periods: Sequence[tuple[str, int]], link: Callable[[str, str], str]) -> list[Bar]:
    if not periods:
        return []
    highest_count = max(documents for _, documents in periods)
    width = _WIDTH / max(len(periods), 12)
    return [
        Bar(
            _format_label(period),
            documents,
            round(index * width, 2),
            round(width, 2),
            round(max(_HEIGHT * documents / highest_count, _LEAST), 1),
            link(*_make_bounds(period)),
        )
        for index, (period, documents) in enumerate(periods)
        if documents
    ]


def _make_bounds(period: str) -> tuple[str, str]:
    """Return the filters that select a month or year.

    >>> _make_bounds("2025-12"), _make_bounds("2025")
    (('since:2025-12', 'before:2026-01'), ('since:2025', 'before:2026'))
    """
    if len(period) == 4:
        return f"since:{period}", f"before:{int(period) + 1:04}"
    after = _number_month(period) + 1
    return f"since:{period}", f"before:{after // 12:04}-{after % 12 + 1:02}"


def _format_label(period: str) -> str:
    """Format a month or a year as the label of a bar.

    >>> _format_label("2026-03"), _format_label("2019")
    ('Mar 2026', '2019')
    """
    if len(period) == 4:
        return period
    return date(int(period[:4]), int(period[5:]), 1).strftime("%b %Y")
