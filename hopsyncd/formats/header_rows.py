"""Decides whether a first row that a program formats as a header is one, by its text.

Word and PowerPoint format the first row of almost every table as a header, in forms too.
"""

import re
from collections.abc import Sequence

_VALUE = re.compile(r"[-+(<>~$€£]*\s?\d[\d\s.,:/%-]*[%)€$£]?\Z")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d\Z")
_HAS_DIGIT = re.compile(r"\d")
_MAX_NAME_WORDS = 6


def header_rows(texts: Sequence[Sequence[str]], *, has_title: bool) -> int:
    """The number of rows at the top that are headers, a title across the table among them.

    `texts` are the rows of a table whose first row is formatted as a header. With a title above
    the names of columns, there must be a column of numbers.
    """
    names = texts[int(has_title) :]
    if len(names) < 2 or not may_name_columns(names[0]) or _is_form(names):
        return 0
    if has_title:
        return 2 if _names_numbers(names) else 0
    return 1


def may_name_columns(texts: Sequence[str]) -> bool:
    """Whether a row can name columns: it has no values, no sentences, and no names of rows, as in
    a form."""
    return not any(
        text.endswith(":")
        or (_VALUE.match(text) and not _YEAR.match(text))
        or (text.endswith(".") and len(text.split()) > _MAX_NAME_WORDS)
        for text in texts
    )


def _is_form(texts: Sequence[Sequence[str]]) -> bool:
    """Whether rows are pairs of a name and a value: the values are of several kinds."""
    if any(len(row) != 2 for row in texts):
        return False
    values = [bool(_HAS_DIGIT.search(row[1])) for row in texts[1:] if row[1]]
    return any(values) and not all(values)


def _names_numbers(texts: Sequence[Sequence[str]]) -> bool:
    """Whether a row of names stands above a column of numbers."""
    below = zip(*(row for row in texts[1:] if len(row) == len(texts[0])), strict=True)
    columns = [[text for text in column if text] for column in below]
    return any(column and all(map(_VALUE.match, column)) for column in columns[1:])
