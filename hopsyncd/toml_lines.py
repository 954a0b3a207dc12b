"""Where each key of a TOML text stands, for messages that name the line. tomllib keeps none."""

import re
from collections import Counter
from collections.abc import Iterator

KeyPath = tuple[str | int, ...]
"""As pydantic names a place: `("source", 0, "path")` is `path` of the first `[[source]]`."""

_SPACE_OR_COMMENT = re.compile(r"(?:\s|#[^\n]*)*")
_KEY_PART = re.compile(r"[ \t]*(?:\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'",
    re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every table and key of a valid TOML text, without inline tables.

    >>> key_lines('a = 1\\n[[b]]\\nc = [\\n2]\\n[[b]]\\n')
    {('a',): 1, ('b', 0): 2, ('b', 0, 'c'): 3, ('b', 1): 5}
    """
    lines: dict[KeyPath, int] = {}
    arrays: Counter[KeyPath] = Counter()
    table: KeyPath = ()
    for start, header, keys, is_array in _statements(text):
        if header:
            table = _resolve(keys, arrays, is_array)
            path = table
        else:
            path = (*table, *keys)
        lines.setdefault(path, text.count("\n", 0, start) + 1)
    return lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """The line of the place, or of the nearest one around it."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), None)


def _resolve(keys: KeyPath, arrays: Counter[KeyPath], is_array: bool) -> KeyPath:
    """The path of a header, with the index of the current element after each array of tables."""
    path: KeyPath = ()
    for depth, key in enumerate(keys, start=1):
        path = (*path, key)
        if is_array and depth == len(keys):
            arrays[path] += 1
        if arrays[path]:
            path = (*path, arrays[path] - 1)
    return path


def _statements(text: str) -> Iterator[tuple[int, bool, KeyPath, bool]]:
    """Each header or `key =`: where it starts, whether a header, its keys, whether `[[`."""
    at = _skip(text, 0)
    while at < len(text):
        brackets = 2 if text.startswith("[[", at) else int(text[at] == "[")
        keys, end = _keys(text, at + brackets)
        if end == at + brackets:
            return
        yield at, brackets > 0, keys, brackets == 2
        end = end + brackets if brackets else _value_end(text, end + 1)
        at = _skip(text, end)


def _keys(text: str, at: int) -> tuple[KeyPath, int]:
    keys: list[str] = []
    while match := _KEY_PART.match(text, at):
        keys.append(next(part for part in match.groups() if part is not None))
        at = match.end()
        if not text.startswith(".", at):
            break
        at += 1
    return tuple(keys), at


def _value_end(text: str, at: int) -> int:
    """Where the value ends: at a newline outside strings and brackets."""
    depth = 0
    while at < len(text):
        string = _STRING.match(text, at)
        if string:
            at = string.end()
            continue
        if text[at] == "#":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if text[at] == "\n" and depth == 0:
            return at
        depth += (text[at] in "[{") - (text[at] in "]}")
        at += 1
    return at


def _skip(text: str, at: int) -> int:
    match = _SPACE_OR_COMMENT.match(text, at)
    return match.end() if match else at
