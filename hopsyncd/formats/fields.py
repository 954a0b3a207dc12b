"""Parses `name: value` lines, introductions of lists, and the names of table columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.units import split_into_sentences, unwrap_lines

_MAX_CHARACTERS = 160


def lead_of(text: str) -> str:
    """Return the first sentence of a list item in one line: the context for the items nested in it.

    >>> lead_of("Keep a backup. It is\\nneeded.")
    'Keep a backup.'
    """
    return _cut(next(split_into_sentences(unwrap_lines(text[: 4 * _MAX_CHARACTERS])), "").strip())


def lead_in_of(text: str) -> str:
    """Return the last sentence of a paragraph that ends with a colon, because it introduces the
    next block. Returns "" for other paragraphs.

    >>> lead_in_of("There are two. These are read:"), lead_in_of("There are two.")
    ('These are read:', '')
    """
    if not text.rstrip().endswith(":"):
        return ""
    *_, last = split_into_sentences(unwrap_lines(text[-4 * _MAX_CHARACTERS :]))
    return _cut(last.strip())


def _cut(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    return text[:_MAX_CHARACTERS].rsplit(" ", 1)[0] + " …"


_FIELD = re.compile(r"(:?)([A-Z][\w-]*(?: [\w-]+){0,3}):(?:[ \t]+(\S.*))?\Z")
_NUMBER = re.compile(r"[\w.-]{1,12}\Z")
_TITLES = ("title", "subject")


@dataclass(frozen=True, slots=True)
class Head:
    """The document's title, its other names, and a block for each of the remaining fields."""

    title: str = ""
    title_line: int = 1
    names: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


def are_fields(run: Sequence[str]) -> bool:
    """Whether the lines are two or more fields such as `Author: Ann`. An indented line continues
    the field above it."""
    if not run or run[0][0].isspace():
        return False
    first_lines = [line for line in run if not line[0].isspace()]
    return len(first_lines) > 1 and all(_FIELD.match(line.rstrip()) for line in first_lines)


def read_head(number: int, run: Sequence[str], *, with_title: bool = True) -> Head:
    """Read a run of lines as fields; `number` is the line number of the first line.

    A number above the title becomes part of the title and a name of the document: "PEP: 8" and
    "Title: Style" give the title "PEP 8: Style" and the name "PEP 8". If `with_title` is false, a
    title is an ordinary field.
    """
    title, title_line, names = "", 1, tuple[str, ...]()
    blocks: list[Block] = []
    below: list[str] = []  # continuation lines of the last field
    for line_number, line in enumerate([*run, ""], number):
        found = _FIELD.match(line.rstrip()) if not line[:1].isspace() else None
        if not found and line:
            below.append(line.strip())
            continue
        if blocks and below:
            text = "\n".join([blocks[-1].text, *below])
            blocks[-1] = replace(blocks[-1], text=text, last_line=line_number - 1)
        below = []
        if not found:
            break
        name, value = found[2], (found[3] or "").strip()
        if with_title and name.lower() in _TITLES and value and not title:
            title, title_line = value, line_number
            continue
        is_number = _NUMBER.match(value) and any(map(str.isdigit, value))
        if not blocks and is_number and "-" not in name:  # no mail header, such as MIME-Version
            names = (f"{name} {value}",)
        blocks.append(Block("list_item", f"{name}: {value}".rstrip(), line_number, line_number))
    if title and names:
        title = f"{names[0]}: {title}"
    return Head(title, title_line, names if title else (), tuple(blocks))


_MAX_LABEL_CHARACTERS = 60


def find_labels(row: Sequence[str]) -> tuple[str, ...]:
    """Return the column names of a table if its first row looks like names, or else an empty tuple.

    There must be two or more short names. No name may begin with a digit or a sign. The names must
    differ, but tables side by side may repeat the same names.

    >>> find_labels(["Name", "Age"]), find_labels(["Tove", "44"])
    (('Name', 'Age'), ())
    >>> find_labels(["Week", "Topic", "Week", "Topic"]), find_labels(["Week", "Week"])
    (('Week', 'Topic', 'Week', 'Topic'), ())
    """
    names = [cell.casefold() for cell in row]
    period = next((column for column in range(2, len(names)) if names[column] == names[0]), 0)
    if period and names == names[:period] * (len(names) // period):
        names = names[:period]
    if len(names) < 2 or len({*names}) < len(names):
        return ()
    named = all(
        cell
        and len(cell) <= _MAX_LABEL_CHARACTERS
        and not cell[0].isdigit()
        and cell[0] not in "-+"
        for cell in row
    )
    return tuple(row) if named else ()
