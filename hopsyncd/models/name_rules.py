"""Recognizes texts that look like names but are not: numbers, amounts, and the names of table
columns."""

import re
from collections.abc import Sequence

_BETWEEN_CELLS = " | "  # the separator of cells in rows (see formats/table_text.py)
_MAX_LABEL_CHARACTERS = 160
_YEAR = re.compile(r"(?:1\d|20)\d\d\Z")
_PART_OF_DATE = re.compile(r"\d{1,2}\Z")
# Two numbers with one point between them can be a version or an amount.
_ONE_POINT = re.compile(r"(\d+)\.(\d+)\Z")
_VERSION = re.compile(r"\d+(?:\.\d+){2,}\Z")
_CURRENCIES = (
    "usd eur gbp chf nok sek dkk jpy cny inr aud cad nzd rub pln czk huf krw brl mxn zar try",
    "dollar dollars euro euros pound pounds franc francs crown crowns kr yen yuan rupee rupees",
)
_FACTORS = "thousand million billion trillion mio mrd mn bn pct percent per cent"
_MEASURES = (
    "mm cm km kg mg ml kwh mwh gwh kw mw gw hz khz mhz ghz",
    "kb mb gb tb kib mib gib tib ms ns",
)
_UNITS = frozenset(" ".join((*_CURRENCIES, _FACTORS, *_MEASURES)).split())
_CURRENCY_SIGNS = "$€£¥"


def is_value(text: str, start: int, end: int, keyword: str) -> bool:
    """Return whether text[start:end], normalised to `keyword`, is a number or an amount.

    Years, dates and versions are names: "1984", "3.12".

    >>> [is_value(t, 0, len(t), t.replace(".", " ")) for t in ("000.00", "3.12", "1984", "500")]
    [True, False, False, True]
    >>> is_value("EUR 7.904", 0, 9, "eur 7 904"), is_value("PEP 693", 0, 7, "pep 693")
    (True, False)
    """
    words = keyword.split()
    numbers = [word for word in words if word.isdecimal()]
    nonnumeric = [word for word in words if not word.isdecimal()]
    if nonnumeric:
        return bool(numbers) and all(word in _UNITS for word in nonnumeric)
    shown = text[start:end].strip()
    if _VERSION.match(shown):
        return False
    if match := _ONE_POINT.match(shown):
        return _is_amount(text, start, end, match[1], match[2])
    years = [word for word in words if _YEAR.match(word)]
    return not years or not all(word in years or _PART_OF_DATE.match(word) for word in words)


def _is_amount(text: str, start: int, end: int, whole: str, fraction: str) -> bool:
    if len(whole) > 3 or len(fraction) > 2 or (whole[0] == "0" and len(whole) > 1):
        return True
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    before = text[line_start:start]
    after = text[end : line_end if line_end >= 0 else len(text)]
    signs = before.rstrip()[-1:], after.lstrip()[:1]
    if any(sign and sign in _CURRENCY_SIGNS for sign in signs):
        return True
    beside = (re.findall(r"\w+\Z", before.rstrip()), re.findall(r"\w+", after[:20])[:1])
    if any(word.casefold() in _UNITS for words in beside for word in words):
        return True
    is_cell = before.endswith((": ", _BETWEEN_CELLS)) or not before
    return _BETWEEN_CELLS in line and is_cell and (not after or after.startswith(_BETWEEN_CELLS))


def label_spans(text: str) -> list[tuple[int, int]]:
    """Find the column names in table rows. Returns their (start, end).

    >>> text = "Hut: Skarvbu | Beds: 12"
    >>> [text[a:b] for a, b in label_spans(text)]
    ['Hut:', 'Beds:']
    """
    if _BETWEEN_CELLS not in text:
        return []
    spans: list[tuple[int, int]] = []
    # labels in lines with one cell, which may be sentences instead of rows
    alone: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        cells = line.split(_BETWEEN_CELLS)
        offset = start
        for cell in cells:
            colon = cell.find(": ", 0, _MAX_LABEL_CHARACTERS)
            if colon < 0 and cell.endswith(":"):
                colon = len(cell) - 1
            if colon >= 0:
                (spans if len(cells) > 1 else alone).append((offset, offset + colon + 1))
            offset += len(cell) + len(_BETWEEN_CELLS)
        start += len(line) + 1
    texts = {text[begin:end] for begin, end in spans}
    return sorted([*spans, *(span for span in alone if text[span[0] : span[1]] in texts)])


def remove_labels(
    spans: Sequence[tuple[int, int]], labels: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Remove labels from spans.

    A span inside a label is dropped. If a span overlaps a label, only the part after the label is
    kept.
    """
    spans_left: list[tuple[int, int]] = []
    for start, end in spans:
        stops = (stop for begin, stop in labels if start < stop and begin < end)
        start_of_value = max(stops, default=start)
        if start_of_value < end:
            spans_left.append((start_of_value, end))
    return spans_left
