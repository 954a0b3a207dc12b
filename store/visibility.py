"""Decides which sources and folders are hidden from a caller."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class HiddenFolders:
    """The hidden documents of a source, given by patterns for their paths.

    `patterns` are gitignore patterns; the last matching pattern applies. `decisions` says
    for each pattern whether the paths are hidden, and its last element says so for paths that no
    pattern matches. A different spelling of a path must not reveal it: see `find_patterns`.
    """

    source: str
    patterns: tuple[str, ...]
    decisions: tuple[bool, ...]

    def hides(self, path: str) -> bool:
        """Whether the document at this path is hidden."""
        return any(self.decisions[position] for position in find_patterns(self.patterns, path))


Mask: TypeAlias = frozenset[str | HiddenFolders]
"""The names of hidden sources, and the hidden folders of other sources."""


def find_patterns(patterns: tuple[str, ...], path: str) -> tuple[int, ...]:
    """Return the positions of the patterns that apply to a path, one position for each way to read
    the path.

    A path is read as written, with `..` resolved, and without regard to case. A path is visible
    only if it is visible in every reading. The last pattern that matches the path or a folder above
    it applies; -1 means that no pattern matches.

    >>> find_patterns(("hr/", "hr/open/**"), "hr/open/b"), find_patterns(("hr/",), "c/hr.md")
    ((1,), (-1,))
    >>> [find_patterns(("/hr/",), path) for path in ("//hr/./a", "HR/a", "c/../hr/a")]
    [(0,), (-1, 0), (-1, 0)]
    """
    parts = [part for part in _normalize(path).split("/") if part not in ("", ".")]
    spellings = {"/".join(parts), "/".join(_resolve(parts))}
    exact = {_find_last(_compile(patterns), spelling) for spelling in spellings}
    caseless = {_find_last(_compile(patterns, True), spelling.casefold()) for spelling in spellings}
    return tuple(sorted(exact | caseless))


def _find_last(specs: Iterable[tuple[int, GitIgnoreSpec]], path: str) -> int:
    """Return the position of the last pattern that matches the path, or -1 if no pattern
    matches."""
    return next((position for position, pattern in specs if pattern.match_file(path)), -1)


def _resolve(parts: Sequence[str]) -> list[str]:
    resolved: list[str] = []
    for part in parts:
        if part != "..":
            resolved.append(part)
        elif resolved:
            resolved.pop()
    return resolved


def list_hidden_sources(mask: Mask) -> list[str]:
    """Return the names of the sources that are hidden completely, sorted."""
    return sorted(part for part in mask if isinstance(part, str))


def list_hidden_folders(mask: Mask) -> list[HiddenFolders]:
    """Return the hidden folders of the sources that are not completely hidden."""
    return [part for part in mask if isinstance(part, HiddenFolders)]


def hides(mask: Mask, source: str, path: str) -> bool:
    """Whether the document at this path of the source is hidden."""
    return source in mask or any(
        folders.hides(path) for folders in list_hidden_folders(mask) if folders.source == source
    )


def list_partly_hidden(mask: Mask) -> set[str]:
    """Return the names of the sources that have hidden folders."""
    return {folders.source for folders in list_hidden_folders(mask)}


def is_pattern(pattern: str) -> bool:
    """Whether a line is a pattern that can match. Blank lines, comments and negations are not."""
    return bool(pattern.strip(" /")) and not pattern.startswith(("#", "!"))


@lru_cache(maxsize=64)
def _compile(
    patterns: tuple[str, ...], without_case: bool = False
) -> tuple[tuple[int, GitIgnoreSpec], ...]:
    """Compile the patterns, and return them with their positions, last pattern first."""
    lines = [_normalize(pattern) for pattern in patterns]
    if without_case:
        lines = [line.casefold() for line in lines]
    return tuple(
        (position, GitIgnoreSpec.from_lines([line]))
        for position, line in reversed([*enumerate(lines)])
    )


def _normalize(path: str) -> str:
    """Compose accents, which some systems store as separate characters.

    Newlines become NUL, which no path contains, because pathspec's expressions stop at newlines.
    """
    return unicodedata.normalize("NFC", path).replace("\n", "\0")
