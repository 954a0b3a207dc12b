"""Filters documents by source, path, type, date, tag and other properties.

Filtered-out passages are excluded from results, from counts and from every path of the walk, with
every strategy. The graph does not change: edges between two remaining passages stay, and no match
is recomputed.

A document has only one source, path, type and author. So if several conditions have the same one of
these keys, only one of the conditions must hold. All conditions on tags, properties and dates must
hold.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hopsyncd.index.arrays import Flags, mark_rows
from hopsyncd.index.live_index import NO_DATE, LiveIndex

KEYS = (
    *("source", "path", "type", "author", "tag", "property"),
    *("since", "before", "created-since", "created-before"),
)
DATE_KEYS = frozenset(("since", "before", "created-since", "created-before"))
_ALTERNATIVES = frozenset(("source", "path", "type", "author"))


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition `key:value` of a filter. If `is_excluded` is true, the condition must not hold.

    The `value` for a property is `name=value`, or only the name. `at_ms` is the date in a condition
    on dates.
    """

    key: str
    value: str
    is_excluded: bool = False
    at_ms: int = 0

    def __str__(self) -> str:
        value = self.value if re.fullmatch(r"[^\s\"]+", self.value) else f'"{self.value}"'
        return f"{'-' if self.is_excluded else ''}{self.key}:{value}"


Filter = tuple[Condition, ...]


def apply_filter(index: LiveIndex, conditions: Filter, version: int, known: Flags) -> Flags:
    """Return a flag for each document row: whether the document passes the filter.

    The flags are valid for all versions up to `version`, and documents that began later may be
    missing.

    `known` has the flags of the first document rows, from an earlier call. A document row never
    changes, so only the other rows are tested.
    """
    begun = np.flatnonzero(index.documents.born <= version)
    start = len(known)
    end = max(int(begun[-1]) + 1 if len(begun) else 0, start)
    by_key: dict[str, list[Flags]] = {}
    left = np.ones(end - start, dtype=np.bool_)
    for condition in conditions:
        fulfils = _find_fulfilling(index, condition, start, end)
        if condition.is_excluded:
            left &= ~fulfils
        else:
            by_key.setdefault(condition.key, []).append(fulfils)
    for key, flags in by_key.items():
        combine = np.logical_or if key in _ALTERNATIVES else np.logical_and
        left &= combine.reduce(flags)
    return np.concatenate([known, left])


def _find_fulfilling(index: LiveIndex, condition: Condition, start: int, end: int) -> Flags:
    """Return a flag for each document from row `start` to row `end` (exclusive): whether the
    document fulfils the condition."""
    documents = index.documents
    if condition.key in DATE_KEYS:
        is_created = condition.key.startswith("created")
        dates = (documents.created_ms if is_created else documents.modified_ms)[start:end]
        if condition.key.endswith("since"):
            is_since: Flags = dates >= condition.at_ms
            return is_since
        is_before: Flags = (dates < condition.at_ms) & (dates != NO_DATE)
        return is_before
    if condition.key == "source":
        value = condition.value.casefold()
        is_wanted = np.array([name.casefold() == value for name in index.sources], dtype=np.bool_)
        in_source: Flags = is_wanted[documents.source[start:end]]
        return in_source
    if condition.key == "path":
        matches = _make_path_test(condition.value)
        return np.fromiter(map(matches, index.document_paths[start:end]), np.bool_, end - start)
    test = _make_property_test(condition)
    numbers = np.array(
        [number for number, pair in enumerate(index.properties) if test(*pair)], dtype=np.int64
    )
    rows, _ = index.postings.documents_by_property.find_all(numbers)
    return mark_rows(end, rows[rows < end])[start:]


def _make_property_test(condition: Condition) -> Callable[[str, str], bool]:
    wanted = condition.value.casefold()
    if condition.key == "property":
        name, equals, value = wanted.partition("=")
        test = _make_value_test(value)
        return lambda key, text: key == name and (not equals or test(text.casefold()))
    if condition.key == "tag":
        wanted = wanted.removeprefix("#")
        return lambda key, text: key == "tag" and f"{text.casefold()}/".startswith(f"{wanted}/")
    if condition.key == "author":
        return lambda key, text: key == "author" and wanted in text.casefold()
    wanted = wanted.removeprefix(".")
    return lambda key, text: key == "type" and wanted in text.split()


def _make_value_test(wanted: str) -> Callable[[str], bool]:
    if set(wanted) & set("*?["):
        return _compile_glob(wanted)
    return lambda text: text == wanted


def list_type_words(path: str, media_type: str) -> str:
    """Return the words that describe a document's type: the extension, the media type, and the
    second part of the media type.

    >>> list_type_words("a/b.MD", "text/markdown; charset=utf-8")
    'md text/markdown markdown'
    """
    kind = media_type.partition(";")[0].strip().lower()
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    words = [extension.lower() if dot else "", kind, kind.partition("/")[2]]
    return " ".join(dict.fromkeys(filter(None, (word.replace(" ", "") for word in words))))


def _make_path_test(wanted: str) -> Callable[[str], bool]:
    wanted = wanted.casefold()
    if not set(wanted) & set("*?["):
        return lambda path: wanted in path.casefold()
    glob = _compile_glob(wanted)
    if "/" in wanted:
        return lambda path: glob(path.casefold())
    return lambda path: glob(path.casefold().rpartition("/")[2])


_WILD = re.compile(r"(\?|\[!?[^\]\\]+\])")


def _compile_glob(pattern: str) -> Callable[[str], bool]:
    """Compile a shell pattern. `*` does not match `/`, and `**` matches any number of folders.

    Only the first occurrence of the text before a wildcard is tried, so matching takes linear time
    for every pattern.

    >>> [_compile_glob("a/**/*.md")(path) for path in ("a/b/c.md", "a/c.md", "b/a/c.md", "a/c.txt")]
    [True, True, False, False]
    """
    segments: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            segments.append([])
        else:
            segments[-1].append(_name_regex(part))
    first, *others = segments
    regex = "/".join(first)
    if others:
        regex = "".join(f"{name}/" for name in first)
        for names in filter(None, others[:-1]):
            regex += f"(?>(?:[^/]*/)*?{''.join(f'{name}/' for name in names)})"
        regex += "(?:[^/]*/)*" + "/".join(others[-1]) if others[-1] else ".+"
    try:
        found = re.compile(regex, re.DOTALL)
    except re.error:  # such as the range z-a
        return lambda text: text == pattern
    return lambda text: found.fullmatch(text) is not None


def _name_regex(pattern: str) -> str:
    """Return a regular expression for a pattern that matches a single name."""
    pieces = [
        "".join(
            _convert_wildcard(part) if position % 2 else re.escape(part)
            for position, part in enumerate(_WILD.split(piece))
        )
        for piece in re.split(r"\*+", pattern)
    ]
    first, *others = pieces
    if not others:
        return first
    return "".join([first, *(f"(?>[^/]*?{piece})" for piece in others[:-1]), f"[^/]*{others[-1]}"])


def _convert_wildcard(wildcard: str) -> str:
    """Return a regular expression for the wildcard `?`, or for a set of characters such as `[a-z]`
    or `[!0-9]`.

    >>> _convert_wildcard("[!a[&]")
    '[^a\\\\[\\\\&]'
    """
    if wildcard == "?":
        return "[^/]"
    is_negated = wildcard.startswith("[!")
    members = re.sub(r"[\[&|~]", r"\\\g<0>", wildcard[2 if is_negated else 1 : -1])
    return f"[{'^' if is_negated else ''}{members}]"
