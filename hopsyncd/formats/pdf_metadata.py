"""Reads the metadata of a PDF: its title, author, dates and bookmarks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hopsyncd.formats.blocks import MAX_HEADING_CHARACTERS, join_lines

_MAX_BOOKMARKS, _MAX_BOOKMARKS_OF_PAGE = 5_000, 50
_MAX_DEPTH = 6
_FILE_NAME = re.compile(r"\.\w{1,5}\Z|\A(?:microsoft \w+ - |file:)", re.IGNORECASE)
_NO_TITLE = re.compile(
    r"(?:untitled|unnamed|title|no title|\(?anonymous\)?|unspecified|powerpoint presentation"
    r"|document|presentation|slide|blank page|page)[\s_-]*\d*\Z",
    re.IGNORECASE,
)
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?")


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A bookmark in a PDF's outline: its title, its level from 1, and its target page."""

    title: str
    level: int
    page: int


def read_properties(document: Any) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Read the title of an open PDF as the only name, and the author and dates as (name, value)
    properties."""
    values = {key: join_lines(document.get_metadata_value(key)) for key in ("Title", "Author")}
    dates = {
        key: _format_date(document.get_metadata_value(key)) for key in ("CreationDate", "ModDate")
    }
    names = (values["Title"],) if is_title(values["Title"]) else ()
    author = values["Author"] if is_title(values["Author"]) else ""
    properties = (
        ("author", author),
        ("created", dates["CreationDate"]),
        ("modified", dates["ModDate"]),
    )
    return names, tuple((name, value) for name, value in properties if value)


def is_title(text: str) -> bool:
    """Whether `text` is a real title, rather than a file name or a program's default.

    >>> is_title("On Tides"), is_title("tides.docx"), is_title("Untitled"), is_title("Slide 2")
    (True, False, False, False)
    """
    return (
        any(map(str.isalpha, text))
        and len(text) <= MAX_HEADING_CHARACTERS
        and not _FILE_NAME.search(text)
        and not _NO_TITLE.match(text)
    )


def _format_date(text: str) -> str:
    """Convert a PDF date to an ISO 8601 date. Returns "" for text that is not a date.

    >>> _format_date("D:20240315120000Z"), _format_date("yesterday")
    ('2024-03-15', '')
    """
    found = _DATE.match(text)
    if not found or not found[2] or not found[3]:
        return ""
    return f"{found[1]}-{found[2]}-{found[3]}"


def read_bookmarks(document: Any) -> Iterator[Bookmark]:
    """Yield the bookmarks that have a title and lead to a page of the document."""
    limit = min(_MAX_BOOKMARKS, _MAX_BOOKMARKS_OF_PAGE * len(document))
    for entry in islice(document.get_toc(max_depth=_MAX_DEPTH), limit):
        target = entry.get_dest()
        page = target.get_index() if target else None
        title = join_lines(entry.get_title() or "")
        if page is not None and page >= 0 and is_title(title):
            yield Bookmark(title, entry.level + 1, page + 1)
