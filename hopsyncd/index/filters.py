"""Filters: which documents a question is about, by source, path, type, date, tag and so on.

What a filter leaves out is not there for the question, whatever the strategy: it is no result, in
no count, and on no way of the walk. The graph stays that of the version: two passages that are left
are joined if they are joined in the whole, and nothing is matched anew.

Several conditions of one key are alternatives for a source, a path, a type or an author, for a
document has one of each; tags, properties and dates must all hold.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.live_index import NO_DATE, LiveIndex

Flags = NDArray[np.bool_]

KEYS = (
    *("source", "path", "type", "author", "tag", "property"),
    *("since", "before", "created-since", "created-before"),
)
_ALTERNATIVES = frozenset(("source", "path", "type", "author"))
DATES = frozenset(("since", "before", "created-since", "created-before"))


@dataclass(frozen=True, slots=True)
class Condition:
    """`key:value`, or that it does not hold. `value` of a property is `name=value`, or its name."""

    key: str
    value: str
    is_excluded: bool = False
    at_ms: int = 0  # of a date

    def __str__(self) -> str:
        value = self.value if re.fullmatch(r"[^\s\"]+", self.value) else f'"{self.value}"'
        return f"{'-' if self.is_excluded else ''}{self.key}:{value}"


Filter = tuple[Condition, ...]


def passing(index: LiveIndex, wanted: Filter, version: int, known: Flags) -> Flags:
    """(d,) which documents the filter leaves, of all versions up to this; `known` is of the first.

    A document never changes, so only those behind `known` are looked at.
    """
    there = np.flatnonzero(index["documents"]["born"] <= version)
    first, count = len(known), max(int(there[-1]) + 1 if len(there) else 0, len(known))
    by_key: dict[str, list[Flags]] = {}
    left = np.ones(count - first, dtype=np.bool_)
    for one in wanted:
        holds = _holding(index, one, first, count)
        if one.is_excluded:
            left &= ~holds
        else:
            by_key.setdefault(one.key, []).append(holds)
    for key, flags in by_key.items():
        either = np.logical_or if key in _ALTERNATIVES else np.logical_and
        left &= either.reduce(flags)
    return np.concatenate([known, left])


def _holding(index: LiveIndex, one: Condition, first: int, end: int) -> Flags:
    """Which of the documents from `first` on have it."""
    documents = index["documents"]
    if one.key in DATES:
        name = "created" if one.key.startswith("created") else "modified"
        date = documents[name][first:end]
        is_since = one.key.endswith("since")
        found: Flags = (date >= one.at_ms) if is_since else (date < one.at_ms) & (date != NO_DATE)
        return found
    if one.key == "source":
        known = [name.casefold() == one.value.casefold() for name in index.sources]
        return np.array(known, dtype=np.bool_)[documents["source"][first:end]]
    if one.key == "path":
        has = _path_test(one.value)
        return np.fromiter(map(has, index.paths[first:end]), np.bool_, end - first)
    test = _property_test(one)
    numbers = np.array(
        [at for at, pair in enumerate(index.properties) if test(*pair)], dtype=np.int64
    )
    rows, _ = index.postings["documents_of_property"].of_each(numbers)
    having = np.zeros(end, dtype=np.bool_)
    having[rows[rows < end]] = True
    return having[first:]


def _property_test(one: Condition) -> Callable[[str, str], bool]:
    wanted = one.value.casefold()
    if one.key == "property":
        name, equals, value = wanted.partition("=")
        test = _value_test(value)
        return lambda key, said: key == name and (not equals or test(said.casefold()))
    if one.key == "tag":
        wanted = wanted.removeprefix("#")
        return lambda key, said: key == "tag" and f"{said.casefold()}/".startswith(f"{wanted}/")
    if one.key == "author":
        return lambda key, said: key == "author" and wanted in said.casefold()
    wanted = wanted.removeprefix(".")
    return lambda key, said: key == "type" and wanted in said.split()


def _value_test(wanted: str) -> Callable[[str], bool]:
    if set(wanted) & set("*?["):
        return _glob(wanted)
    return lambda said: said == wanted


def type_words(path: str, media_type: str) -> str:
    """What a document's type may be called: its extension, its media type, and parts of that.

    >>> type_words("a/b.MD", "text/markdown; charset=utf-8")
    'md text/markdown markdown'
    """
    kind = media_type.partition(";")[0].strip().lower()
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    words = [extension.lower() if dot else "", kind, kind.partition("/")[2]]
    return " ".join(dict.fromkeys(filter(None, (word.replace(" ", "") for word in words))))


def _path_test(wanted: str) -> Callable[[str], bool]:
    wanted = wanted.casefold()
    if not set(wanted) & set("*?["):
        return lambda path: wanted in path.casefold()
    found = _glob(wanted)
    if "/" in wanted:
        return lambda path: found(path.casefold())
    return lambda path: found(path.casefold().rpartition("/")[2])


_WILD = re.compile(r"(\?|\[!?[^\]\\]+\])")


def _glob(pattern: str) -> Callable[[str], bool]:
    """A shell pattern as a test: `*` stays inside a folder, `**` stands for any number of them.

    What stands before a wildcard is matched where it first can be, and no other place is tried:
    then the time is linear in the text, whatever the pattern.

    >>> [_glob("a/**/*.md")(path) for path in ("a/b/c.md", "a/c.md", "b/a/c.md", "a/c.txt")]
    [True, True, False, False]
    """
    segments: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            segments.append([])
        else:
            segments[-1].append(_name_regex(part))
    first, *rest = segments
    regex = "/".join(first)
    if rest:
        regex = "".join(f"{name}/" for name in first)
        for names in filter(None, rest[:-1]):
            regex += f"(?>(?:[^/]*/)*?{''.join(f'{name}/' for name in names)})"
        regex += "(?:[^/]*/)*" + "/".join(rest[-1]) if rest[-1] else ".+"
    try:
        found = re.compile(regex, re.DOTALL)
    except re.error:  # such as the range z-a
        return lambda text: text == pattern
    return lambda text: found.fullmatch(text) is not None


def _name_regex(pattern: str) -> str:
    """A pattern within one name."""
    pieces = [
        "".join(
            "[^/]" if one == "?" else one.replace("[!", "[^") if at % 2 else re.escape(one)
            for at, one in enumerate(_WILD.split(piece))
        )
        for piece in re.split(r"\*+", pattern)
    ]
    first, *rest = pieces
    if not rest:
        return first
    return "".join([first, *(f"(?>[^/]*?{piece})" for piece in rest[:-1]), f"[^/]*{rest[-1]}"])
