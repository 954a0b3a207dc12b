"""Decides from the text of a table whether its first row is a header.

Word and PowerPoint format the first row of almost every table as a header, even in forms.
Spreadsheets and CSV files rarely mark a header.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from hopsyncd.formats.cell_values import is_number, is_year

_VALUE = re.compile(r"[-+(<>~$€£]*\s?\d[\d\s.,:/%-]*[%)€$£]?\Z")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d\Z")
_HAS_DIGIT = re.compile(r"\d")
_MAX_NAME_WORDS, _MAX_NAME_CHARACTERS = 6, 160
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}([./-])\d{1,2}\1(?:\d\d){1,2}(?!\d)")
_TELEPHONE = re.compile(r"(?:\+|00|0(?=\d\d))[\d ()/-]{6,}\Z")
_DIGITS = re.compile(r"\d+")
_FORM_ROWS = 30


def count_header_rows(texts: Sequence[Sequence[str]], *, has_title: bool) -> int:
    """Return the number of header rows at the top, including a title across the table.

    `texts` are the rows of a table whose first row is formatted as a header. If `has_title`, the
    first row is a title, and the result is 0 unless a column has only numbers.
    """
    names = texts[int(has_title) :]
    if len(names) < 2 or not may_name_columns(names[0]) or _is_form(names):
        return 0
    if has_title:
        return 2 if _is_above_numbers(names) else 0
    return 1


def may_name_columns(texts: Sequence[str]) -> bool:
    """Whether a row can name columns: it has no values other than years, no addresses, sentences or
    long texts, and no text that ends with a colon.

    >>> may_name_columns(["Port", "Fee"]), may_name_columns(["Port", "The fee of a berth" * 9])
    (True, False)
    """
    return not any(
        text.endswith(":")
        or "://" in text
        or len(text) > _MAX_NAME_CHARACTERS
        or (_VALUE.match(text) and not _YEAR.match(text))
        or (text.endswith(".") and len(text.split()) > _MAX_NAME_WORDS)
        for text in texts
    )


def is_data(texts: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a first row is data, because it is part of a form or resembles the rows `below`.

    The row is data if some of its texts, but not all, end with a colon; if a text occurs again in
    the same column; or if a text and the next text in its column differ only in their digits, such
    as "Table 1" above "Table 2". Rows that repeat the whole first row are ignored.

    >>> is_data(["Table 1", "Age"], [["Table 2", "Sex"]]), is_data(["Table", "Age"], [["1", "44"]])
    (True, False)
    """
    labels = [text.endswith((":", "\uff1a")) for text in texts if text]
    if any(labels) and not all(labels):
        return True  # name and value pairs, as in a form
    others = [row for row in below if [*row] != [*texts]]
    for column, text in enumerate(texts):
        values = [row[column] for row in others if column < len(row) and row[column]]
        if text and text in values:
            return True
        shape = _describe_shape(text)
        if (
            shape != text
            and values
            and not _YEAR.match(text)
            and shape == _describe_shape(values[0])
        ):
            return True
    return False


def map_group_columns(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return, for each column, the index of the column that has the name of its group.

    The result is empty unless the first row names groups of the columns that the second row names,
    and either the columns have only numbers or the second row has the same names in each group. If
    both are true, a group name may be above any column of its group. Otherwise it must be above the
    first.

    >>> map_group_columns([["", "In", "", "Out"], ["Who", "a", "b", "a"], ["Ann", "1", "2", "3"]])
    (0, 1, 1, 3)
    """
    width = max(map(len, rows[:2]), default=0)
    if len(rows) < 3 or width < 3:
        return ()
    first, second = ([*row, *[""] * (width - len(row))] for row in rows[:2])
    starts = [column for column, text in enumerate(first) if text]
    if starts[:1] == [0] and second[0] in ("", first[0]):
        starts = starts[1:]  # the first column has its name in the first row
    has_values = has_only_number_columns([second, *rows[2:5]])
    are_named = not any(is_number(first[column]) for column in starts)
    if has_values and are_named and (columns := _map_centered_groups(starts, second)):
        return columns
    is_sparse = len(starts) > 1 and starts[0] > 0 and len(starts) < width - starts[0]
    if not is_sparse or not all(second[starts[0] :]):
        return ()
    if any(is_number(text) and not is_year(text) for text in (*first, *second)):
        return ()
    groups = {tuple(second[begin:end]) for begin, end in pairwise([*starts, width])}
    if len(groups) > 1 and not has_only_number_columns([second, *rows[2:5]], starts[0]):
        return ()
    begun = (bisect_right(starts, column) for column in range(width))
    return tuple(starts[count - 1] if count else column for column, count in enumerate(begun))


def _map_centered_groups(starts: Sequence[int], second: Sequence[str]) -> tuple[int, ...]:
    """Return, for each column, the column of its group's name, which may be above any column of the
    group.

    `starts` are the columns with a group name, and `second` are the column names. The result is
    empty unless all groups have the same column names. The first column is in no group.

    >>> _map_centered_groups([2, 4], ["Year", "a", "b", "a", "b"])
    (0, 2, 2, 4, 4)
    >>> _map_centered_groups([3, 4], ["Year", "a", "b", "a", "b"])  # both names are above one group
    ()
    """
    size, rest = divmod(len(second) - 1, max(len(starts), 1))
    if len(starts) < 2 or size < 2 or rest or not all(second[1:]):
        return ()
    if [*second[1:]] != [*second[1 : size + 1]] * len(starts) or len({*second[1:]}) < size:
        return ()
    are_above = (0 <= column - 1 - number * size < size for number, column in enumerate(starts))
    if not all(are_above) or all(map(is_number, second[1:])):
        return ()
    return (0, *(column for column in starts for _ in range(size)))


def has_only_number_columns(rows: Sequence[Sequence[str]], first_column: int = 1) -> bool:
    """Whether all columns below the first row, from `first_column` on, have only numbers."""
    width = len(rows[0])
    columns = [
        [row[index] for row in rows[1:] if index < len(row)] for index in range(first_column, width)
    ]
    return all(any(column) and all(map(is_number, filter(None, column))) for column in columns)


def counts_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has consecutive numbers or dates after its first cell, above values of
    other kinds."""
    names = rows[0][1:]
    if len(names) < 2 or len(rows) < 3 or is_number(rows[0][0]) or len({*names}) < len(names):
        return False
    if all(map(_DATE.fullmatch, names)):
        return not any(_DATE.match(text) for row in rows[1:] for text in row[1:])
    are_counted = all(map(str.isdecimal, names)) and all(
        int(later) == int(before) + 1 for before, later in pairwise(names)
    )
    return are_counted and not any(is_number(text) for row in rows[1:] for text in row[1:])


def _describe_shape(text: str) -> str:
    return _DIGITS.sub("0", text)


def are_of_several_kinds(texts: Sequence[str]) -> bool:
    """Whether the values of a short table are of several kinds, such as numbers, dates and words,
    as in a form. At least a quarter must differ from the most common kind."""
    if not 2 < len(texts) <= _FORM_ROWS:
        return False
    (_, most), *_ = Counter(map(_find_kind, texts)).most_common(1)
    return (len(texts) - most) * 4 >= len(texts)


def _find_kind(text: str) -> str:
    if not is_number(text):
        return "text"
    return "date" if _DATE.match(text) else "telephone" if _TELEPHONE.match(text) else "number"


def _is_form(texts: Sequence[Sequence[str]]) -> bool:
    """Whether a table consists of names and values: it has two columns, and its first value begins
    with a digit, or only some of its values contain digits."""
    if any(len(row) != 2 for row in texts):
        return False
    if texts[0][1][:1].isdigit() and not _YEAR.match(texts[0][1]):
        return True  # a value with its unit
    values = [bool(_HAS_DIGIT.search(row[1])) for row in texts[1:] if row[1]]
    return any(values) and not all(values)


def _is_above_numbers(texts: Sequence[Sequence[str]]) -> bool:
    """Whether a column other than the first has only numbers below the first row."""
    below = zip(*(row for row in texts[1:] if len(row) == len(texts[0])), strict=True)
    columns = [[text for text in column if text] for column in below]
    return any(column and all(map(_VALUE.match, column)) for column in columns[1:])
